"""What training runs have in common: their folder with its log, the rules of a decay, and how errors are reported."""

from __future__ import annotations

import argparse
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

ENDLESS_STEPS, ENDLESS_MINUTES = sys.maxsize, 1e9

# Ranges of the options of the trainers.
COUNTS = ("threads", "batch", "save_every", "test_every", "log_every")
NOT_NEGATIVE = ("warmup", "steps", "seed", "weight_decay", "decay_power", "value_weight", "plies_weight")
MAX_RATE = 0.1  # AdamW and Muon change a weight by about the rate in a step

# Of a checkpoint: step, positions, seconds; is_decay, and decay_step and decay_seconds, where a decay began, or 0; and
# decay_end, the step at which it ended, if it has.
Progress = dict

# Of a run without a step.
NO_PROGRESS: Progress = {
    "step": 0,
    "positions": 0,
    "seconds": 0.0,
    "is_decay": False,
    "decay_step": 0,
    "decay_seconds": 0.0,
    "decay_end": None,
}


def command(name: str, main: Callable[[], None]) -> None:
    """Runs a program of this package; an error that concerns its user becomes one line."""
    try:
        main()
    except (OSError, ValueError, EOFError, FloatingPointError, subprocess.SubprocessError) as error:
        sys.exit(f"{name}: {error}")


class Log:
    """The log in a run's folder. Whoever has locked it trains there: `scorn train run` locks it, too."""

    def __init__(self, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "log.txt"
        self.is_new = not self.path.exists()
        self.file = open(self.path, "a", encoding="utf-8")  # noqa: SIM115 - locked as long as the run lasts
        if fcntl:
            try:
                fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                self.file.close()
                raise ValueError(f"another program trains in {folder}: use another --folder, or wait for it") from error

    def write(self, line: str) -> None:
        """Prints a line and adds it to the log."""
        print(line, flush=True)
        try:
            self.file.write(line + "\n")
            self.file.flush()
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from error

    def close(self) -> None:
        """Lets others train in the folder."""
        self.file.close()

    def discard(self) -> None:
        """Closes the log of a run that could not start, which leaves nothing behind in a new folder."""
        self.close()
        if self.is_new:
            self.path.unlink(missing_ok=True)
            if not os.listdir(self.path.parent):
                self.path.parent.rmdir()


def check_settings(args: argparse.Namespace, gpus: int) -> None:
    """Raises ValueError if a number is out of its range, the device is none of these GPUs, or a decay has no end."""
    for name, value in vars(args).items():
        check_number(f"--{name.replace('_', '-')}", name, value)
    decay = getattr(args, "weight_decay", 0.0)
    if args.rate * decay > 1:
        raise ValueError(f"--weight-decay is {decay}: at --rate {args.rate} it must be at most {1 / args.rate:g}")
    device = re.fullmatch(r"cpu|cuda(?::(\d+))?", args.device)
    if not device:
        raise ValueError(f"--device is {args.device}: it must be cpu, cuda or cuda:N")
    if device[0] != "cpu" and not gpus:
        raise ValueError("PyTorch finds no NVIDIA GPU: use --device cpu")
    if device[1] and int(device[1]) >= gpus:
        raise ValueError(f"--device is {args.device}, but PyTorch finds {gpus} NVIDIA GPUs, from cuda:0 on")
    if args.decay and args.steps >= ENDLESS_STEPS and args.minutes >= ENDLESS_MINUTES:
        raise ValueError("a decay needs an end, where the learning rate reaches zero: set --minutes or --steps")


def check_number(flag: str, name: str, value: object) -> None:
    """Raises ValueError if the value of an option is out of its range."""
    if name in COUNTS and value < 1:
        raise ValueError(f"{flag} is {value}: it must be at least 1")
    if name in NOT_NEGATIVE and not (value >= 0 and math.isfinite(value)):
        raise ValueError(f"{flag} is {value}: it must be a number of at least 0")
    if name == "minutes" and not (value > 0 and math.isfinite(value)):
        raise ValueError(f"{flag} is {value}: it must be a number above 0")
    if name == "rate" and not 0 < value <= MAX_RATE:
        raise ValueError(f"{flag} is {value}: it must be above 0 and at most {MAX_RATE}")


def check_decay(
    args: argparse.Namespace, own: Path, progress: Progress, is_fresh: bool, read: Callable[[Path], Progress]
) -> None:
    """Raises ValueError unless the run is, or becomes, the decay that is asked for, or none if none is.

    `own` is the place of the run's checkpoint, `progress` that of the checkpoint it starts or goes on from, `is_fresh`
    whether a decay begins; `read` reads the progress of another checkpoint.
    """
    is_decay = progress["is_decay"]
    if not args.decay:
        if is_decay:
            raise ValueError(
                f"{own} belongs to a decay, which would go on at the full rate without --decay: give it the checkpoint "
                "that the decay began from. To train on at the full rate, use another --folder with that checkpoint"
            )
        return
    if not is_fresh:
        check_is_decay_of(args.decay, own, progress, is_decay, read)
        check_end(args, own, progress)
    if is_fresh and progress["step"] >= args.steps:
        raise ValueError(
            f"the decay would end at step {args.steps}, but the checkpoint is already at step {progress['step']}: "
            "steps count from the beginning of the run, so set --steps higher"
        )


def ends_decay(args: argparse.Namespace, first_step: int, step: int) -> bool:
    """Whether a call that began at `first_step` and did steps up to `step` has brought a decay to its end.

    One that had nothing to do, because of a smaller limit, has not; one that was killed after its last step is ended by
    the next.
    """
    return bool(args.decay) and (step > first_step or step == args.steps)


def check_end(args: argparse.Namespace, own: Path, progress: Progress) -> None:
    """Raises ValueError if a decay has ended and would go on: its rate would rise again."""
    end = progress["decay_end"]
    has_time = progress["seconds"] - progress["decay_seconds"] < 60 * args.minutes
    if end is not None and progress["step"] < args.steps and has_time:
        raise ValueError(
            f"{own} belongs to a decay that ended at step {end}, where the learning rate reached zero; with these "
            "--steps and --minutes it would go on at a raised rate. For a longer decay, use another --folder"
        )


def check_is_decay_of(
    origin: Path, own: Path, progress: Progress, is_decay: bool, read: Callable[[Path], Progress]
) -> None:
    """Raises ValueError if a folder's run is not a decay of `origin`, which may have advanced or been deleted."""
    other = "use another --folder for the decay"
    if not is_decay:
        raise ValueError(f"{own} belongs to a run that is not a decay: {other}")
    if not origin.exists():
        return
    if origin.samefile(own):
        raise ValueError(f"{origin} is the checkpoint of this decay itself: {other}")
    began, now = progress["decay_step"], read(origin)
    is_same = now["step"] == began and abs(now["seconds"] - progress["decay_seconds"]) < 1e-3
    if not is_same and now["step"] <= began:
        raise ValueError(
            f"{own} belongs to a decay that began at step {began}, so it did not start from {origin}, which is at "
            f"step {now['step']}: {other}"
        )
