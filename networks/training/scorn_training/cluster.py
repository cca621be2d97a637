"""The loop's jobs on a Ray cluster: `--ray ADDRESS`.

A worker needs Ray and nothing else: program, networks and openings travel through Ray's object store, and games come
back as they end, to the loop's own folder. A worker or a node that is lost costs the games that it was playing; what is
left of its part continues elsewhere. When the loop itself is killed, Ray ends its workers, and the next start sends
them what is there.

Training stays where the loop runs, since the records are there and `scorn train` needs no GPU.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import ray

from .execution import Job, LoopError, Program, complaint, side_by_side
from .files import write_whole

# Workers that a part is given to before the loop gives up.
ATTEMPTS = 20
# Seconds between two polls of a worker's files, and between two lines of progress.
POLL_INTERVAL, REPORT_INTERVAL = 0.5, 15.0


def _place(data: bytes, name: str) -> str:
    """On a worker: writes a file with this content, which is compressed in the object store, and returns its path."""
    folder = Path(tempfile.gettempdir()) / f"scorn-ray-{os.getuid()}" / hashlib.sha256(data).hexdigest()[:24]
    path = folder / name
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / f"{name}.{os.getpid()}"
        partial.write_bytes(zlib.decompress(data))
        partial.chmod(0o755)
        partial.rename(path)
    return str(path)


def _pack(path: Path) -> bytes:
    return zlib.compress(path.read_bytes(), 6)


def _work(
    program: bytes, arguments: list[str], files: dict[str, tuple[str, bytes]], out: str, done: dict[str, bytes]
) -> Iterator[dict]:
    """On a worker: runs a job in a folder, starting from the finished files. Yields new files, then its report."""
    guard = ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
    with tempfile.TemporaryDirectory(prefix="scorn-") as folder:
        root = Path(folder)
        for name, data in done.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(data)
        for token, (name, data) in files.items():
            arguments = [argument.replace("{" + token + "}", _place(data, name)) for argument in arguments]
        arguments = [argument.replace("{out}", str(root / out)) for argument in arguments]
        command = [*guard, _place(program, "scorn"), *arguments]
        # Output goes to files: an unread pipe would block the program.
        with open(root / ".stdout", "w+") as output, open(root / ".stderr", "w+") as errors:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors)
            known = {name: len(data) for name, data in done.items()}
            try:
                is_over = False
                while not is_over:
                    is_over = process.poll() is not None
                    fresh = _fresh(root, known)
                    if fresh:
                        yield {"files": fresh}
                    if not is_over:
                        time.sleep(POLL_INTERVAL)
            finally:
                process.kill()
            output.seek(0)
            errors.seek(0)
            yield {"code": process.returncode, "report": output.read(), "errors": errors.read()}


def _fresh(root: Path, known: dict[str, int]) -> dict[str, bytes]:
    """Files that are new or have grown. They are complete or can be continued, as the program writes them."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.name.startswith(".") or path.name.endswith(".partial"):
            continue
        try:
            if path.is_file() and known.get(name) != path.stat().st_size:
                found[name] = path.read_bytes()
                known[name] = len(found[name])
        except FileNotFoundError:
            pass  # gathered into a larger file meanwhile
    return found


class Cluster:
    """Runs jobs on a Ray cluster, as `execution.Local` does on this machine."""

    def __init__(self, address: str, program: Program) -> None:
        # Ray itself retries silently for many minutes.
        place = re.fullmatch(r"(?:ray://)?([^:/]+):(\d+)", address)
        if place:
            try:
                socket.create_connection((place[1], int(place[2])), timeout=10).close()
            except OSError as error:
                raise LoopError(f"no Ray cluster at {address}: {error}") from error
        try:
            ray.init(address=None if address == "local" else address, log_to_driver=False, logging_level="ERROR")
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise LoopError(f"no Ray cluster at {address}: {error}") from error
        # Workers do not need this package.
        ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
        self.program = ray.put(_pack(Path(program.path)))
        self.work = ray.remote(num_cpus=1, max_retries=0, num_returns="streaming")(_work)
        self._games: dict[Path, int] = {}
        self._running: dict[Path, Iterator] = {}
        self._reported = time.monotonic()
        self._lock = threading.Lock()
        self._is_stopping = False

    def run(self, jobs: list[Job]) -> list[dict]:
        """The report of each job, in order."""
        self._games = {}
        return side_by_side(self._one, jobs, max(1, len(jobs)), self.stop)

    def stop(self) -> None:
        """Ends all work on the cluster; games that have come back stay."""
        with self._lock:
            self._is_stopping = True
            for results in self._running.values():
                ray.cancel(results)

    def _one(self, job: Job) -> dict:
        if job.is_done():
            return {}
        files = {token: (path.name, _pack(path)) for token, path in job.files.items()}
        for attempt in range(ATTEMPTS):
            try:
                return self._attempt(job, files)
            except ray.exceptions.RayTaskError as error:
                raise LoopError(f"on a worker: {error.cause}") from error
            except ray.exceptions.RayError as error:
                if self._is_stopping:
                    raise LoopError("stopped") from error
                print(
                    f"scorn loop: a worker was lost ({type(error).__name__}): {job.out.name} continues elsewhere",
                    file=sys.stderr,
                )
                time.sleep(min(attempt, 10))
        raise LoopError(f"{job.out.name}: {ATTEMPTS} workers were lost")

    def _attempt(self, job: Job, files: dict) -> dict:
        # The arguments name the job's files only, by the worker's paths.
        arguments = job.command({}, "{out}")
        done = self._done(job)
        with self._lock:
            if self._is_stopping:
                raise LoopError("stopped")
            results = self.work.remote(self.program, arguments, files, job.out.name, done)
            self._running[job.out] = results
        try:
            return self._follow(job, results)
        finally:
            with self._lock:
                del self._running[job.out]

    def _follow(self, job: Job, results: Iterator) -> dict:
        """Stores the files that a worker finishes, until it reports."""
        for result in results:
            update = ray.get(result)
            if "code" not in update:
                self._keep(job, update["files"])
                continue
            if update["code"] != 0:
                error = complaint(update["errors"])
                raise LoopError(f"scorn {job.arguments[0]} failed on a worker ({update['code']}): {error}")
            if job.is_selfplay:
                shutil.rmtree(job.out / "unfinished", ignore_errors=True)
            return json.loads(update["report"])
        raise ray.exceptions.WorkerCrashedError

    def _done(self, job: Job) -> dict[str, bytes]:
        """The finished files of a job, by their names on the worker."""
        if job.is_selfplay:
            found = [path for path in job.out.rglob("*") if path.is_file()] if job.out.is_dir() else []
        else:
            found = [path for path in (job.out, job.out.with_name(job.out.name + ".json")) if path.exists()]
        found = [path for path in found if not path.name.startswith(".")]
        return {str(path.relative_to(job.out.parent)): path.read_bytes() for path in found}

    def _keep(self, job: Job, files: dict[str, bytes]) -> None:
        """Moves a worker's finished files into the loop's folder; the file that marks a part as complete comes last."""
        for name in sorted(files, key=lambda name: (name.endswith("summary.json"), "/part-" in name, name)):
            path = job.out.parent / name
            path.parent.mkdir(parents=True, exist_ok=True)
            data = files[name]
            write_whole(path, lambda partial, data=data: partial.write_bytes(data))
        games = sum(1 for name in files if name.endswith(".game"))
        with self._lock:
            self._games[job.out] = self._games.get(job.out, 0) + games
            if games and time.monotonic() - self._reported > REPORT_INTERVAL:
                self._reported = time.monotonic()
                parts = len(self._games)
                print(f"  {sum(self._games.values())} games so far, in {parts} parts", flush=True)
