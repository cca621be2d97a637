"""The games of a generation: who plays whom with which search, in how many parts, which files are whole."""

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
# Choice by value + log(visits), in programs that know it.
VALUE_CHOICE = ["--root-choice", "value_log_visits"]


def play(folder: Folder, number: int, program: Program, executor: Executor) -> dict:
    """Plays the games of a generation, and returns what they are together.

    Raises:
        LoopError: a part failed, or its summary is damaged.
    """
    settings = folder.settings
    limit, nodes = limits(folder)
    jobs = []
    for name, games, first, second in pairings(folder, number):
        shards = min(settings.shards, games)
        for shard in range(1, shards + 1):
            arguments = flags(settings, program, games, nodes, limit, settings.longest, first != second)
            arguments += ["--shard", f"{shard}/{shards}", "--seed", str(settings.derived(number, name))]
            out = folder.of(number) / f"games-{name}-{shard}"
            jobs.append(Job(arguments, {"first": first, "second": second}, out))
    executor.run(jobs)
    return count([job.out for job in jobs], limit, nodes)


# Who plays whom.


def limits(folder: Folder) -> tuple[float, int]:
    """ScLimit (0: plain PUCT) and nodes of the generation to come."""
    settings = folder.settings
    if not settings.balance:
        return settings.sc_limit, settings.nodes
    path = [
        schedule.Step(g["games"]["nodes"], g["games"]["sc_limit"], g["games"]["decisive"], g["games"]["draws"])
        for g in folder.learned()
    ]
    if not path:
        return settings.sc_limit, settings.nodes
    return schedule.next_limits(path, settings.balance, settings.most_nodes)


def pairings(folder: Folder, number: int) -> list[tuple[str, int, Path, Path]]:
    """Who plays how many games against whom: name, games, networks."""
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
    # Each of the two the more games, the less the newest network won against it.
    need = [1 - rate + 1e-3 for rate in win_rates(folder)]
    against_second = round((games - strange) * need[1] / sum(need))
    found = [("best", games - strange - against_second, best, best)]
    found.append(("second", against_second, best, folder.network(second)))
    if strange:
        found.append(("older", strange, folder.network(rng.choice([first, second])), folder.network(older)))
    return [pairing for pairing in found if pairing[1] > 0]


def win_rates(folder: Folder) -> list[float]:
    """The newest network's scores against those that are Best1 and Best2 now."""
    last = folder.generations[-1]
    # It was measured against the best two of then. If it is Best1 itself now, then Best2 is the Best1 of then; itself
    # it neither beats nor loses to.
    return [0.5, last["win_rates"][0]] if last["promoted"] else last["win_rates"]


# With which search.


def flags(
    settings: Settings, program: Program, games: int, nodes: int, limit: float, longest: int, are_different: bool
) -> list[str]:
    """A call of self-play, but for its seed and its part."""
    arguments = ["selfplay", "--games", str(games), "--nodes", str(nodes), "--records", "--threads", "1"]
    arguments += ["--weights", "{first}", "--longest", str(longest), *settings.engine.split()]
    arguments += value_choice(program) if settings.value_choice else []
    if settings.random_plies:
        arguments += ["--random-plies", str(settings.random_plies), "--random-share", str(settings.random_share)]
    return arguments + sides(settings, round(limit), are_different)


def sides(settings: Settings, limit: int, are_different: bool) -> list[str]:
    """What distinguishes the players: networks, search-contempt, odds."""
    second = ["WeightsFile={second}"] if are_different else []
    arguments = ["--sc-limit", str(limit)] if limit else []
    if settings.odds:
        # The receiver searches as many nodes as the giver's limit, without search-contempt (the paper's odds).
        second += [f"ScLimit={PLAIN_PUCT}", f"NodeLimit={limit}"] if limit else []
        arguments += ["--odds", settings.odds]
    if are_different or settings.odds:
        arguments += ["--a-plays", "both"]
    return arguments + (["--b", ";".join(second)] if second else [])


# A program is asked once, and what it lacks is told once.
@functools.cache
def value_choice(program: Program) -> list[str]:
    """The flags of choice by value + log(visits), if the program knows them.

    Raises:
        LoopError: its help cannot be read.
    """
    # The help names the flag, not its words; who knows the one knows the other.
    if VALUE_CHOICE[0] in program.run(["selfplay", "--help"]):
        return VALUE_CHOICE
    say("this program cannot choose moves by value + log(visits): it takes the most visited")
    return []


# What came of it.


def count(parts: list[Path], limit: float, nodes: int) -> dict:
    """What the games of these folders are together.

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
            told = (
                f"{path} is damaged ({error}): delete it, and the same command writes it anew from the games beside it"
            )
            raise LoopError(told) from error
    visits = total.pop("nodes")
    decisive = total["white"] + total["black"]
    names = [part.name for part in parts]
    return {**total, "visits": visits, "decisive": decisive, "sc_limit": limit, "nodes": nodes, "folders": names}


def whole_files(folder: Folder, number: int, generations: range) -> tuple[list[tuple[Path, int]], list[str]]:
    """Whole files of visits with their generation, and what was left out; `number` is the generation in progress."""
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
    """Has the games of this generation played again, if nothing is left of them to learn from.

    What is there is kept in a folder of its own.
    """
    games = folder.current["games"]
    parts = [folder.of(number) / name for name in games["folders"]]
    told: list[str] = []
    if not games["samples"]:
        return
    # Of every part, so that all that is damaged is told of.
    if [path for part in parts for path in selfplay.whole_files(part, told.append)]:
        return
    for text in told:
        say(folder.inside(text))
    names = (folder.of(number) / f"damaged-{at}" for at in itertools.count(1))
    aside = next(path for path in names if not path.exists())
    aside.mkdir(parents=True)
    # What was learned from a part of them would not be what is learned from all.
    for part in [*parts, folder.training(number)]:
        if part.exists():
            part.rename(aside / part.name)
    del folder.current["games"]
    folder.save()
    say(
        f"nothing to learn from is left of generation {number}: its games are played again ({aside} has what was there)"
    )
