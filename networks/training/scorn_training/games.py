"""The games of a generation: players, search flags, parts, and which files are complete."""

from __future__ import annotations

import functools
import itertools
import json
import random
from pathlib import Path

from . import schedule, selfplay
from .execution import Executor, Job, LoopError, Program, say
from .folder import Folder
from .settings import Settings

PLAIN_PUCT = 1_000_000_000
OLDER_SHARE = 0.1
# Choice by value + log(visits), in programs that support it.
VALUE_CHOICE = ["--root-choice", "value_log_visits"]


def play(folder: Folder, number: int, program: Program, executor: Executor) -> dict:
    """Plays the games of a generation, and returns their summary.

    Raises:
        LoopError: a part failed, or its summary is damaged.
    """
    settings = folder.settings
    limit, nodes = limits(folder)
    jobs = []
    for name, games, first, second in pairings(folder, number):
        shards = min(settings.shards, games)
        for shard in range(1, shards + 1):
            arguments = flags(settings, program, games, nodes, limit, settings.max_plies, first != second)
            arguments += ["--shard", f"{shard}/{shards}", "--seed", str(settings.derived(number, name))]
            out = folder.of(number) / f"games-{name}-{shard}"
            jobs.append(Job(arguments, {"first": first, "second": second}, out))
    executor.run(jobs)
    return count([job.out for job in jobs], limit, nodes)


# Players.


def limits(folder: Folder) -> tuple[float, int]:
    """ScLimit (0: plain PUCT) and nodes of the next generation."""
    settings = folder.settings
    if not settings.balance:
        return settings.sc_limit, settings.nodes
    path = [
        schedule.Step(g["games"]["nodes"], g["games"]["sc_limit"], g["games"]["decisive"], g["games"]["draws"])
        for g in folder.learned()
    ]
    if not path:
        return settings.sc_limit, settings.nodes
    return schedule.next_limits(path, settings.balance, settings.most_nodes, bool(settings.odds))


def pairings(folder: Folder, number: int) -> list[tuple[str, int, Path, Path]]:
    """The pairings: name, number of games, networks."""
    settings = folder.settings
    games = settings.games
    first, second = folder.best()
    best = folder.network(first)
    if number == 1 and settings.teacher:
        best = Path(settings.teacher)
    if not settings.reference_opponents or second is None:
        return [("best", games, best, best)]
    # The name in the seed stays as in earlier runs, so that these can be repeated.
    rng = random.Random(settings.derived(number, "rivals"))
    older = folder.older(number, rng)
    strange = round(OLDER_SHARE * games) if older is not None else 0
    # The fewer points the newest network scored against one of the two, the more games it gets.
    need = [1 - rate + 1e-3 for rate in win_rates(folder)]
    against_second = round((games - strange) * need[1] / sum(need))
    found = [("best", games - strange - against_second, best, best)]
    found.append(("second", against_second, best, folder.network(second)))
    if strange:
        found.append(("older", strange, folder.network(rng.choice([first, second])), folder.network(older)))
    return [pairing for pairing in found if pairing[1] > 0]


def win_rates(folder: Folder) -> list[float]:
    """The newest network's scores against the current Best1 and Best2."""
    last = folder.generations[-1]
    # It was measured against the best two before it. If it is Best1 now, then Best2 is the former Best1; against itself
    # it scores one half.
    return [0.5, last["win_rates"][0]] if last["promoted"] else last["win_rates"]


# Search flags.


def flags(
    settings: Settings, program: Program, games: int, nodes: int, limit: float, max_plies: int, are_different: bool
) -> list[str]:
    """The arguments of self-play, without its seed and part."""
    arguments = ["selfplay", "--games", str(games), "--nodes", str(nodes), "--records", "--threads", "1"]
    arguments += ["--weights", "{first}", "--max-plies", str(max_plies), *settings.engine.split()]
    arguments += value_choice(program) if settings.value_choice else []
    if settings.random_plies:
        arguments += ["--random-plies", str(settings.random_plies), "--random-share", str(settings.random_share)]
    return arguments + sides(settings, round(limit), are_different)


def sides(settings: Settings, limit: int, are_different: bool) -> list[str]:
    """The flags in which the players differ: networks, search-contempt, odds."""
    second = ["WeightsFile={second}"] if are_different else []
    arguments = ["--sc-limit", str(limit)] if limit else []
    if settings.odds:
        # The receiver searches as many nodes as the giver's limit, without search-contempt (the paper's odds).
        second += [f"ScLimit={PLAIN_PUCT}", f"NodeLimit={limit}"] if limit else []
        arguments += ["--odds", settings.odds]
    if are_different or settings.odds:
        arguments += ["--a-plays", "both"]
    return arguments + (["--b", ";".join(second)] if second else [])


# A program is queried once, and missing support is reported once.
@functools.cache
def value_choice(program: Program) -> list[str]:
    """The flags of choice by value + log(visits), if the program supports them.

    Raises:
        LoopError: its help cannot be read.
    """
    # The help names the flag, not its values; a program that has the one has the other.
    if VALUE_CHOICE[0] in program.run(["selfplay", "--help"]):
        return VALUE_CHOICE
    say("this program cannot choose moves by value + log(visits): it takes the most visited")
    return []


# Results.


def count(parts: list[Path], limit: float, nodes: int) -> dict:
    """The summary of the games in these folders.

    Raises:
        LoopError: the summary of one is damaged.
    """
    total = dict.fromkeys(["games", "white", "draws", "black", "plies", "nodes", "samples"], 0)
    for part in parts:
        path = part / "summary.json"
        try:
            summary = json.loads(path.read_text())
            for name in total:
                total[name] += summary[name]
        except (ValueError, KeyError, TypeError) as error:
            reported = f"{path} is damaged ({error}): delete it, and the same command rewrites it from the games beside it"
            raise LoopError(reported) from error
    visits = total.pop("nodes")
    decisive = total["white"] + total["black"]
    names = [part.name for part in parts]
    return {**total, "visits": visits, "decisive": decisive, "sc_limit": limit, "nodes": nodes, "folders": names}


def whole_files(folder: Folder, number: int, generations: range) -> tuple[list[tuple[Path, int]], list[str]]:
    """Complete files of visits with their generation, and the files left out; `number` is the current generation."""
    files, left_out = [], []

    def complain(text: str) -> None:
        text = folder.inside(text)
        left_out.append(text)
        say(text)

    for generation in generations:
        found = folder.current if generation == number else folder.generations[generation]
        for name in found["games"]["folders"]:
            part = folder.of(generation) / name
            files += [(path, generation) for path in selfplay.whole_files(part, complain)]
    return files, left_out


def set_aside_damaged(folder: Folder, number: int) -> None:
    """Sets this generation's games aside, so that they are played again, if none of their records is usable.

    The damaged files are kept in a folder of their own.
    """
    games = folder.current["games"]
    parts = [folder.of(number) / name for name in games["folders"]]
    reported: list[str] = []
    if not games["samples"]:
        return
    # All parts, so that all damage is reported.
    if [path for part in parts for path in selfplay.whole_files(part, reported.append)]:
        return
    for text in reported:
        say(folder.inside(text))
    names = (folder.of(number) / f"damaged-{at}" for at in itertools.count(1))
    aside = next(path for path in names if not path.exists())
    aside.mkdir(parents=True)
    # Training on a part of them would give other results than training on all.
    for part in [*parts, folder.training(number)]:
        if part.exists():
            part.rename(aside / part.name)
    del folder.current["games"]
    folder.save()
    say(f"no usable positions are left of generation {number}: its games are played again ({aside} has the old files)")
