"""A short trial of settings before a loop stores them.

What the program refuses would otherwise be refused by the matches, after hours of self-play.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from . import games, learning, matches, selfplay
from .execution import Job, LoopError, Program
from .settings import Settings, limit_flags


def rehearse(settings: Settings, program: Program) -> None:
    """Creates a network, plays, trains and plays matches in another folder, a few moves each.

    Raises:
        LoopError: something does not work.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="scorn-loop-") as folder:
            _rehearse(settings, program, Path(folder))
    except LoopError as error:
        raise LoopError(
            f"these settings, tried with a few moves, do not work (nothing was written): {error}"
        ) from error


def _rehearse(settings: Settings, program: Program, folder: Path) -> None:
    levels = matches.anchor_levels(settings.anchor_opponent) if settings.anchor_opponent else None
    network, training = folder / "network.onnx", folder / "train"
    training.mkdir()
    checkpoint = training / "checkpoint"
    program.run(["train", "start", str(checkpoint), *learning.start_flags(settings)])
    program.run(["train", "export", str(checkpoint), str(network), "--name", "rehearsal", "--data", "none"])
    # Flags may suit the player of the first generation, but not the network that plays the others.
    for player in [Path(settings.teacher), network] if settings.teacher else [network]:
        out = folder / f"games-{player.name}"
        max_plies = min(settings.max_plies, settings.random_plies + 2)
        flags = games.flags(settings, program, 1, 2, settings.sc_limit, max_plies, settings.reference_opponents)
        job = Job([*flags, "--seed", "1"], {"first": player, "second": player}, out)
        program.run(job.command({name: str(path) for name, path in job.files.items()}, str(out)))
    files = selfplay.whole_files(out, print)
    if selfplay.positions_of(files):
        data = [(path, 1) for path in files]
        program.run(learning.flags(settings, training, 1, settings.result_share, data))
    # So that a long time limit costs no time, and a short one is not exceeded on a busy machine.
    few = ["--pairs", "1", "--max-plies", "2", "--strict", "--time-margin", "60000", *limit_flags(settings)]
    new = matches.player(settings, str(network)) + ";NodeLimit=2"
    program.run(["match", new, new, *few, *matches.sprt(settings), "--json"])
    if levels:
        second = ["--second-limit", "nodes=2"]
        program.run(["match", new, matches.anchor(settings, levels[0]), *few, *second, "--json"])
