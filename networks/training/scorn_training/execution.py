"""Runs the program: parts of self-play and matches side by side on this machine. `cluster.py` does the same on a Ray cluster."""

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

# Has a child killed when the loop is, however that happens, so that no orphan holds its files (util-linux). Without it an
# orphan ends by itself when its part is played.
GUARD = ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []


class LoopError(Exception):
    """What stops a loop, in words for people. Everything that was done is on disk, and the same command goes on."""


def say(text: str) -> None:
    """A line of the loop for people, if there is something to say."""
    if text:
        print(f"scorn loop: {text}", file=sys.stderr, flush=True)


def complaint(errors: str) -> str:
    """What the program says is wrong, of all that it wrote to its standard error, as one line.

    A wrong flag is told first and followed by tips and usage; a panic, and what another program says, is told last.
    """
    lines = errors.strip().splitlines()
    told: list[str] = []
    is_told = False
    for line in lines:
        # What belongs to a complaint is indented and follows at once, such as the flags that are missing.
        is_told = line.startswith(("error:", "scorn:")) or (is_told and line[:1] == " " and line.strip() != "")
        if is_told:
            told.append(line.strip())
    if any(" panicked at " in line for line in lines):
        told = []
    return "; ".join((told or lines)[-3:])


@dataclass(frozen=True)
class Job:
    """A call of the program. In the arguments `{name}` stands for a file that it reads."""

    arguments: list[str]
    files: dict[str, Path]
    # The folder of a run of self-play, or the games of a match: what makes it go on where it was stopped.
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
    """What runs jobs, wherever that is."""

    def run(self, jobs: list[Job]) -> list[dict]:
        """What each job reports, in their order.

        Raises:
            LoopError: one of them failed.
        """


class Program:
    """The program, and its processes that run."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._running: set[subprocess.Popen] = set()
        self._lock = threading.Lock()
        self._is_stopping = False

    def run(self, arguments: list[str]) -> str:
        """What a call prints.

        Raises:
            LoopError: it failed; what it said is in the message.
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
            said = complaint(errors.decode(errors="replace"))
            raise LoopError(f"{Path(self.path).name} {arguments[0]} failed ({process.returncode}): {said}")
        return out.decode()

    def stop(self) -> None:
        """Ends everything that runs: at most games that are not over are lost."""
        with self._lock:
            self._is_stopping = True
            for process in self._running:
                process.kill()


def side_by_side(work: Callable[[Job], dict], jobs: list[Job], at_a_time: int, stop: Callable[[], None]) -> list[dict]:
    """What the work on each job returns, in their order. The first that fails has the others stopped, and is told at once."""
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
    """Runs jobs on this machine, so many at a time."""

    def __init__(self, program: Program, at_a_time: int) -> None:
        self.program = program
        self.at_a_time = max(1, min(at_a_time, os.cpu_count() or 1))

    def run(self, jobs: list[Job]) -> list[dict]:
        """What each job reports, in their order."""
        return side_by_side(self._one, jobs, self.at_a_time, self.program.stop)

    def _one(self, job: Job) -> dict:
        if job.is_done():
            return {}
        job.out.parent.mkdir(parents=True, exist_ok=True)
        files = {name: str(path) for name, path in job.files.items()}
        return json.loads(self.program.run(job.command(files, str(job.out))))
