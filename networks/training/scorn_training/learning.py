"""The networks: the first one, and the training of each generation on the games of the last ones by `scorn train`."""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path

from . import games, selfplay
from .execution import LoopError, Program
from .files import write_whole
from .folder import Folder
from .settings import Settings

# What a line of `scorn train measure` says, and how its numbers begin.
FIGURES = {"policy": r"\bpolicy", "kl": r"\bkl", "value": r"\bvalue", "error": r"\|q error\|", "plies": r"\bplies"}
QUALITY_POSITIONS = 8000  # of a generation's games, on which the losses are measured


def begin(folder: Folder, program: Program) -> None:
    """Creates network 0: random weights, or those of a file.

    Raises:
        LoopError: the program failed.
    """
    folder.training(0).mkdir(parents=True, exist_ok=True)
    program.run(["train", "start", str(folder.checkpoint(0)), "--force", *start_flags(folder.settings)])
    export(folder, 0, program)


def start_flags(settings: Settings) -> list[str]:
    """The arguments that create the first network."""
    if settings.start != "random":
        return ["--network", settings.start]
    policy, value, hidden = settings.shape.split(",")
    sizes = ["--policy-width", policy, "--value-width", value, "--hidden", hidden]
    return [*sizes, "--seed", str(settings.derived("weights"))]


def export(folder: Folder, number: int, program: Program) -> None:
    """Writes the network of a generation's checkpoint.

    Raises:
        LoopError: the program failed.
    """
    settings = folder.settings
    name = ["--name", f"self-play {settings.seed}, generation {number}", "--data", "self-play"]
    if not folder.learned() and number == 0 and settings.start == "random":
        name[-1] = "none: random weights"
    program.run(["train", "export", str(folder.checkpoint(number)), str(folder.network(number)), "--force", *name])


def train(folder: Folder, number: int, program: Program) -> dict:
    """Trains on the window, starting with the network of the previous generation. Returns the figures.

    Raises:
        LoopError: there is nothing to learn from, the checkpoint before is damaged, or the program failed.
    """
    settings, current = folder.settings, folder.current["games"]
    folder.training(number).mkdir(parents=True, exist_ok=True)
    checkpoint, before = folder.checkpoint(number), folder.checkpoint(number - 1)
    files, left_out = games.whole_files(folder, number, range(max(1, number - settings.window + 1), number + 1))
    new = [path for path, generation in files if generation == number]
    if not new and current["samples"]:
        raise LoopError(f"no complete games of generation {number} are left: the same command plays them again")
    if not new:
        why = f"no position in the games of generation {number} is one to learn from"
        remedy = "change the settings" if number == 1 else "start in another folder"
        raise LoopError(f"{why} (see --random-plies and --max-plies): {remedy}")
    data, positions, share = training_set(folder, number, files)
    steps = steps_for(settings, positions, current["samples"])
    start = steps_of(before)
    fresh = quality(settings, program, before, new)
    if not checkpoint.exists():
        write_whole(checkpoint, lambda partial: shutil.copyfile(before, partial))
    arguments = flags(settings, folder.training(number), start + steps, share, data)
    program.run([*arguments, "--log-every", str(max(1, steps // 8)), "--save-every", "200"])
    export(folder, number, program)
    return {
        "positions": positions,
        "new": selfplay.positions_of(new),
        "files": len(files),
        "left_out": left_out,
        "steps": steps,
        "learned": quality(settings, program, checkpoint, new),
        "fresh": fresh,
        "network": folder.checksum(number),
    }


def training_set(folder: Folder, number: int, files: list[tuple[Path, int]]) -> tuple[list[tuple[Path, int]], int, str]:
    """Files with their shares, positions, and the share of results in the value."""
    settings = folder.settings
    if not settings.unique:
        counted = [(path, selfplay.positions_of([path])) for path, _ in files]
        counted = [(path, count) for path, count in counted if count]
        return counted, sum(count for _, count in counted), settings.result_share
    weighted = [(path, max(settings.fade_least, 1 - settings.fade * (number - age))) for path, age in files]
    pooled = selfplay.pool(weighted, parse_share(settings.result_share))
    chosen = pooled.searched
    if settings.subset:
        chosen = selfplay.subset(pooled, settings.subset, settings.derived(number, "subset"))
    path = _set_of(folder, number)
    chosen.write(path)
    # The file has the mean values, and no results.
    return [(path, 1)], len(chosen), "0"


def steps_for(settings: Settings, positions: int, new: int) -> int:
    """Training steps of a generation, from the number of positions and of new ones."""
    if settings.passes:
        return max(1, math.ceil(settings.passes * positions / settings.batch))
    return max(1, math.ceil(settings.reuse * new / settings.batch))


def flags(settings: Settings, training: Path, steps: int, share: str, data: list[tuple[Path, int]]) -> list[str]:
    """The arguments of training in this folder up to this step, without the intervals of reports and checkpoints."""
    arguments = ["train", "run", "--folder", str(training), "--steps", str(steps), "--result-share", share]
    arguments += ["--value-loss", settings.value_loss]
    for path, part in data:
        arguments += ["--data", f"{path}:{part}"]
    # At least one chunk for each thread.
    chunk = max(1, min(128, settings.batch // settings.train_threads))
    arguments += ["--batch", str(settings.batch), "--chunk", str(chunk), "--rate", str(settings.rate), "--fixed-order"]
    return [*arguments, "--threads", str(settings.train_threads), "--seed", str(settings.derived("training"))]


def quality(settings: Settings, program: Program, checkpoint: Path, files: list[Path]) -> dict:
    """The losses of a network on a sample of this generation's games, before (fresh) or after learning from them: means
    over the files, of which each is sampled.

    Raises:
        LoopError: the program failed.
    """
    count = max(1, QUALITY_POSITIONS // len(files))
    arguments = ["train", "measure", str(checkpoint), *map(str, files), "--count", str(count)]
    lines = program.run([*arguments, "--result-share", settings.result_share]).splitlines()
    found = [losses(line) for line in lines if "in integers" in line]
    found = [line for line in found if line]
    columns = {key: [line[key] for line in found if key in line] for key in FIGURES}
    return {key: round(sum(values) / len(values), 4) for key, values in columns.items() if values}


def clean(folder: Folder, number: int) -> None:
    """Removes the training set and the checkpoint before the last, which are no longer needed."""
    _set_of(folder, number).unlink(missing_ok=True)
    if number >= 2:
        folder.checkpoint(number - 2).unlink(missing_ok=True)


def _set_of(folder: Folder, number: int) -> Path:
    """The training set of a generation, where equal inputs are merged."""
    return folder.training(number) / "set.vis"


def losses(line: str) -> dict:
    """The figures of a line of `scorn train`."""
    found = {key: re.search(rf"{start} (\d+\.\d+)", line) for key, start in FIGURES.items()}
    return {key: float(match[1]) for key, match in found.items() if match} if found["kl"] else {}


def steps_of(checkpoint: Path) -> int:
    """The number of steps of a checkpoint of `scorn train`.

    Raises:
        LoopError: its first line does not say so.
    """
    with open(checkpoint, "rb") as file:
        line = file.readline()
    try:
        return json.loads(line)["progress"]["step"]
    except (ValueError, KeyError, TypeError) as error:
        raise LoopError(f"{checkpoint} is damaged: its first line is not that of a checkpoint") from error


def parse_share(text: str) -> tuple[float, float]:
    """The share of the result at the beginning and at the end of a game."""
    first, _, last = text.partition(",")
    return float(first), float(last or first)
