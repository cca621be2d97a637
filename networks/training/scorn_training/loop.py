"""Learning from self-play: games, training, a gate, and again.

    python -m scorn_training.loop FOLDER --preset cgzero --generations 30
    python -m scorn_training.loop FOLDER                  resumes it
    python -m scorn_training.loop FOLDER --ray auto       the same on a Ray cluster

A generation: the best network plays itself (`scorn selfplay`), a network learns from the last generations' games
(`scorn train`), plays against others (`scorn match`), and becomes the best one if it passes the gate. Everything is in
the folder, the state in manifest.json; a loop that was killed resumes and loses at most unfinished games. The same seed
and settings give the same networks, byte by byte (except for matches against Stockfish and limits of time).

    manifest.json      settings and results of every generation
    openings.epd       balanced openings for matches
    gen-0007/          games-*/ self-play, train/ checkpoint and log, network.onnx, *.pgn matches
    tensorboard/, report.html and its description report.json, times.jsonl
"""

from __future__ import annotations

import argparse
import contextlib
import math
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from . import charts, games, learning, matches
from .execution import Executor, Local, LoopError, Program
from .folder import open_folder
from .rehearsal import rehearse
from .settings import add_arguments, given


class Loop:
    """A loop in its folder: runs the phases of its generations one after another, and reports them."""

    def __init__(self, folder: Path, program: Program, named: dict, version: str, preset: str = "") -> None:
        """Opens a loop, or starts one: see `open_folder`.

        Raises:
            LoopError: the folder cannot be opened, or the settings do not work.
            ValueError: the settings are invalid.
        """
        self.program = program
        self.folder = open_folder(folder, named, preset, version, lambda settings: rehearse(settings, program))
        self.executor: Executor = Local(program, self.folder.settings.shards)

    def run(self, until: int, minutes: float) -> None:
        """Runs up to this generation, or until the time is over (at the end of a generation).

        Raises:
            LoopError: it cannot continue; all results are on disk.
        """
        began, folder = time.monotonic(), self.folder
        if not folder.generations:
            self._phase("start", self._begin)
            folder.generations.append({"generation": 0, "network": folder.checksum(0)})
            folder.save()
        folder.verify()
        self.publish()
        while len(folder.learned()) < until and time.monotonic() - began < 60 * minutes:
            number = len(folder.generations)
            self._make(number)
            folder.generations.append(matches.judge(folder, number, folder.current))
            folder.manifest["current"] = {}
            folder.save()
            learning.clean(folder, number)
            self.publish()
            self.report()

    def _begin(self) -> None:
        """Network 0, and the openings of matches."""
        learning.begin(self.folder, self.program)
        matches.make_book(self.folder, self.program)

    def _make(self, number: int) -> None:
        """Runs the incomplete phases of a generation."""
        folder, program = self.folder, self.program
        if "games" in folder.current and "training" not in folder.current:
            games.set_aside_damaged(folder, number)
        phases = {
            "games": lambda: games.play(folder, number, program, self.executor),
            "training": lambda: learning.train(folder, number, program),
            "matches": lambda: matches.measure(folder, number, program, self.executor),
        }
        for name, work in phases.items():
            if name not in folder.current:
                folder.current[name] = self._phase(name, work)
                folder.save()

    def _phase(self, name: str, work: Callable):
        """Runs a phase, and records its cost, also if it is interrupted (but not by a signal that kills)."""
        began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)

        def record(phase: str) -> None:
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            cost = {
                "generation": len(self.folder.generations),
                "phase": phase,
                "seconds": round(time.monotonic() - began, 2),
                "core_seconds": round(used, 2),
            }
            charts.write_cost(self.folder.times, cost)

        try:
            found = work()
        except BaseException:
            # A full disk must not hide why the phase has ended.
            with contextlib.suppress(OSError):
                record(f"{name}, interrupted")
            raise
        record(name)
        return found

    def publish(self) -> None:
        """Writes the curves for TensorBoard, and the page."""
        path, learned = self.folder.path, self.folder.learned()
        charts.write_tensorboard(path / "tensorboard", learned)
        seconds = sum(cost["core_seconds"] for cost in charts.costs(self.folder.times))
        played = sum(generation["games"]["games"] for generation in learned)
        summary = f"{len(learned)} generations, {played} games, {seconds / 60:.1f} core minutes on this machine"
        charts.write_page(self.program, path / "report.html", f"Loop {path.resolve().name}", summary, learned)

    def report(self) -> None:
        """Prints a line about the last generation."""
        last = self.folder.learned()[-1]
        play, training, gate = last["games"], last["training"], last["matches"][0]
        rated = charts.ratings(self.folder.learned()).get(f"gen-{last['generation']}")
        elo = f"Elo {rated.elo:.0f} +/- {rated.error:.0f}" if rated else ""
        limit = f", ScLimit {play['sc_limit']:.0f}" if play["sc_limit"] else ""
        learned, fresh = training["learned"], training["fresh"]
        losses = ", ".join(
            f"{name} {learned.get(key, '-')} (fresh {fresh.get(key, '-')})" for key, name in charts.LOSSES.items()
        )
        print(
            f"generation {last['generation']}: {play['games']} games "
            f"+{play['white']} ={play['draws']} -{play['black']}{limit}, "
            f"{training['steps']} steps on {training['positions']} positions, {losses}, "
            f"score {matches.points(gate):.2f} against {gate['second']}, {'plays on' if last['promoted'] else 'rejected'}; {elo}",
            flush=True,
        )


def find_program(given: str) -> str:
    """The program's path.

    Raises:
        LoopError: there is none.
    """
    root = Path(__file__).resolve().parents[3]
    candidates = [given] if given else ["scorn", str(root / "target/release/scorn")]
    for candidate in candidates:
        found = shutil.which(candidate)
        if found:
            return str(Path(found).resolve())
    raise LoopError(f"no program: {' and '.join(candidates)} cannot be run (--scorn names it)")


def ray_cluster(address: str, program: Program):
    """The executor of jobs on a Ray cluster.

    Raises:
        LoopError: there is none, or no Ray to reach it with.
    """
    try:
        from .cluster import Cluster
    except ModuleNotFoundError as error:
        raise LoopError(f"--ray requires `pip install 'networks/training[ray]'`: {error}") from error
    return Cluster(address, program)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="scorn_training.loop", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="Folder of the loop.")
    parser.add_argument("--scorn", default="", metavar="FILE", help="The program. [scorn, or target/release/scorn]")
    parser.add_argument("--generations", type=int, default=1_000_000, metavar="N", help="Last generation to complete.")
    parser.add_argument(
        "--minutes", type=float, default=math.inf, metavar="X", help="Stop after the generation in which it is over."
    )
    parser.add_argument(
        "--ray", default="", metavar="ADDRESS", help="Play on this Ray cluster (auto: the running one)."
    )
    add_arguments(
        parser.add_argument_group("settings (stored in the manifest; they cannot change once a generation is complete)")
    )
    args = parser.parse_args(arguments)
    program = None
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        program = Program(find_program(args.scorn))
        version = program.run(["--version"]).strip()
        loop = Loop(args.folder, program, given(args), version, args.preset or "")
        if args.ray:
            loop.executor = ray_cluster(args.ray, program)
        loop.run(args.generations, args.minutes)
    except (LoopError, OSError, ValueError) as error:
        print(f"scorn loop: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("scorn loop: stopped; the same command resumes", file=sys.stderr)
        return 130
    finally:
        if program:
            program.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
