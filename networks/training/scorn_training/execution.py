"""Runs the program: parts of self-play and matches in parallel on this machine; `cluster.py` does so on Ray."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

# Kills a child when the loop ends, however that happens, so that no orphan holds its files (util-linux). Without it an
# orphan ends when its part is played.
GUARD = ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []


class LoopError(Exception):
    """An error that stops a loop, as text for the user. All results are on disk, and the same command resumes."""


def say(text: str) -> None:
    """Prints a line of the loop, unless it is empty."""
    if text:
        print(f"scorn loop: {text}", file=sys.stderr, flush=True)


def complaint(errors: str) -> str:
    """The program's error message, of all that it wrote to standard error, as one line.

    A wrong flag comes first, followed by tips and usage; a panic, and the message of another program, comes last.
    """
    lines = errors.strip().splitlines()
    reported: list[str] = []
    is_message = False
    for line in lines:
        # The details of a message are indented and follow at once, such as the missing flags.
        is_message = line.startswith(("error:", "scorn:")) or (is_message and line[:1] == " " and line.strip() != "")
        if is_message:
            reported.append(line.strip())
    if any(" panicked at " in line for line in lines):
        reported = []
    return "; ".join((reported or lines)[-3:])


@dataclass(frozen=True)
class Job:
    """A call of the program. `{name}` in the arguments stands for a file that it reads."""

    arguments: list[str]
    files: dict[str, Path]
    # The folder of a self-play run, or the games of a match, from which it resumes.
    out: Path

    @property
    def is_selfplay(self) -> bool:
        return self.arguments[0] == "selfplay"

    def is_done(self) -> bool:
        return self.is_selfplay and (self.out / "summary.json").exists()

    def command(self, files: dict[str, str], out: str) -> list[str]:
        """The arguments with the real paths."""
        arguments = self.arguments
        for name, path in files.items():
            arguments = [argument.replace("{" + name + "}", path) for argument in arguments]
        if self.is_selfplay:
            return [*arguments, "--out", out, "--resume", "--json"]
        return [*arguments, "--pgn", out, "--json"]


class Executor(Protocol):
    """Runs jobs, locally or elsewhere."""

    def run(self, jobs: list[Job]) -> list[dict]:
        """The report of each job, in order.

        Raises:
            LoopError: one of them failed.
        """


class Program:
    """The program, and its running processes."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._running: set[subprocess.Popen] = set()
        self._lock = threading.Lock()
        self._is_stopping = False

    def run(self, arguments: list[str]) -> str:
        """The output of a call.

        Raises:
            LoopError: it failed; the message has its error.
        """
        with self._lock:
            if self._is_stopping:
                raise LoopError("stopped")
            pipe = subprocess.PIPE
            command = [*GUARD, self.path, *arguments]
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe)
            self._running.add(process)
        try:
            out, errors = process.communicate()
        finally:
            with self._lock:
                self._running.discard(process)
        if process.returncode != 0:
            message = complaint(errors.decode(errors="replace"))
            raise LoopError(f"{Path(self.path).name} {arguments[0]} failed ({process.returncode}): {message}")
        return out.decode()

    def stop(self) -> None:
        """Ends all processes; at most unfinished games are lost."""
        with self._lock:
            self._is_stopping = True
            for process in self._running:
                process.kill()


def side_by_side(work: Callable[[Job], dict], jobs: list[Job], at_a_time: int, stop: Callable[[], None]) -> list[dict]:
    """The result of each job, in order. The first failure stops the others and is raised at once."""
    with ThreadPoolExecutor(at_a_time) as threads:
        futures = [threads.submit(work, job) for job in jobs]
        try:
            for future in as_completed(futures):
                future.result()
        except BaseException:
            stop()
            raise
        return [future.result() for future in futures]


class Local:
    """Runs jobs on this machine, a fixed number at a time."""

    def __init__(self, program: Program, at_a_time: int) -> None:
        self.program = program
        self.at_a_time = max(1, min(at_a_time, os.cpu_count() or 1))

    def run(self, jobs: list[Job]) -> list[dict]:
        """The report of each job, in order."""
        return side_by_side(self._one, jobs, self.at_a_time, self.program.stop)

    def _one(self, job: Job) -> dict:
        if job.is_done():
            return {}
        job.out.parent.mkdir(parents=True, exist_ok=True)
        files = {name: str(path) for name, path in job.files.items()}
        return json.loads(self.program.run(job.command(files, str(job.out))))
