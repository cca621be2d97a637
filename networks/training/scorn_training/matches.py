"""Matches of the new network, for the gate, the ratings and against the anchor opponent, and the gate's verdict."""

from __future__ import annotations

import random
import re
import subprocess

from . import charts, openings
from .execution import Executor, Job, LoopError, Program
from .folder import Folder
from .settings import Settings, limit_flags

# Minimum number of openings in the book of matches.
BOOK = 200
# The name of matches against the anchor opponent, in file names and seeds; it stays as in earlier runs.
ANCHOR_MATCH = "match-yardstick"
# The distance of the levels of UCI_Elo at which Stockfish plays.
ANCHOR_STEP = 100


def measure(folder: Folder, number: int, program: Program, executor: Executor) -> list[dict]:
    """Plays the matches of the new network: for the gate, for the ratings, and against the anchor opponent.

    Raises:
        LoopError: a match failed, or the levels of the anchor opponent cannot be determined.
    """
    settings = folder.settings
    make_book(folder, program)
    first, second = folder.best()
    opponents: list[tuple[int, int, list[str]]] = [(first, settings.gate_pairs, sprt(settings))]
    if settings.reference_opponents and second is not None:
        opponents.append((second, settings.gate_pairs, []))
    older = folder.older(number, random.Random(settings.derived(number, "pool")))
    if settings.pool_pairs and older is not None:
        opponents.append((older, settings.pool_pairs, []))
    names, jobs = [], []
    for opponent, pairs, more in opponents:
        job = match(folder, number, f"match-gen-{opponent}", player(settings, "{other}"), pairs, more)
        jobs.append(Job(job.arguments, {**job.files, "other": folder.network(opponent)}, job.out))
        names.append(f"gen-{opponent}")
    if settings.anchor_opponent and number % settings.anchor_every == 0:
        elo = anchor_level(folder)
        limit = ["--second-limit", f"nodes={settings.anchor_nodes}"]
        other = anchor(settings, elo)
        jobs.append(match(folder, number, ANCHOR_MATCH, other, settings.anchor_pairs, limit))
        names.append(f"Stockfish {elo}")
    reports = executor.run(jobs)
    return [facts(f"gen-{number}", name, report) for name, report in zip(names, reports)]


def make_book(folder: Folder, program: Program) -> None:
    """Creates the openings of matches, unless they exist.

    Raises:
        LoopError: the program failed.
    """
    settings = folder.settings
    # Deterministic players would repeat the games of an opening that recurs.
    pairs = (settings.gate_pairs, settings.pool_pairs, settings.anchor_pairs)
    openings.make(folder.book, program, max(BOOK, *pairs), settings.derived("openings"))


# Players, in the form of `scorn match`.


def match(folder: Folder, number: int, name: str, other: str, pairs: int, more: list[str]) -> Job:
    """The new network against another engine, in the form of `scorn match`."""
    settings = folder.settings
    seed = settings.derived(number, "match", name)
    arguments = ["match", player(settings, "{new}"), other, "--pairs", str(pairs), "--seed", str(seed)]
    arguments += ["--book", "{book}", *limit_flags(settings), "--max-plies", "400", *more]
    return Job(arguments, {"new": folder.network(number), "book": folder.book}, folder.of(number) / f"{name}.pgn")


def player(settings: Settings, network: str) -> str:
    """The program with a network; `;` separates options."""
    options = [option for option in settings.match_options.split(";") if option]
    return ";".join(["self", "Threads=1", *options, f"WeightsFile={network}"])


def anchor(settings: Settings, elo: int) -> str:
    """The anchor opponent at this level."""
    return f"{settings.anchor_opponent};Threads=1;Hash=16;UCI_LimitStrength=true;UCI_Elo={elo}"


def sprt(settings: Settings) -> list[str]:
    """The flags of the gate's match."""
    return ["--sprt", settings.gate_sprt] if settings.gate == "sprt" else []


# The levels of the anchor opponent.


def anchor_level(folder: Folder) -> int:
    """The UCI_Elo nearest to the best network's rating if that is known, otherwise the weakest.

    Raises:
        LoopError: the levels of the anchor opponent cannot be determined.
    """
    levels = anchor_levels(folder.settings.anchor_opponent)
    rated = charts.ratings(folder.learned())
    mine = rated.get(f"gen-{folder.best()[0]}")
    if mine is None or not charts.fixed(folder.learned()):
        return levels[0]
    return min(levels, key=lambda elo: abs(elo - mine.elo))


def anchor_levels(command: str) -> range:
    """The levels of UCI_Elo of an engine, which differ between versions.

    Raises:
        LoopError: it cannot be started, or lacks the option.
    """
    try:
        output = subprocess.run(
            [command], input="uci\nquit\n", capture_output=True, text=True, timeout=60, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise LoopError(f"the anchor opponent cannot be started: {error}") from error
    return parse_levels(output)


def parse_levels(answer: str) -> range:
    """The levels in an engine's answer to `uci`.

    Raises:
        LoopError: it lacks the option.
    """
    found = re.search(r"name UCI_Elo .*\bmin (\d+) .*\bmax (\d+)", answer)
    if found is None:
        raise LoopError("the anchor opponent has no option UCI_Elo")
    return range(int(found[1]), int(found[2]) + 1, ANCHOR_STEP)


# Results.


def judge(folder: Folder, number: int, current: dict) -> dict:
    """The entry of a generation whose phases are complete, with the gate's verdict."""
    settings = folder.settings
    gate = current["matches"][0]
    score = points(gate)
    promoted = {
        "none": True,
        "score": score > settings.gate_score,
        "sprt": gate.get("verdict") == "h1",
    }[settings.gate]
    rates = [score]
    if settings.reference_opponents and folder.best()[1] is not None:
        rates.append(points(current["matches"][1]))
    else:
        rates.append(0.5)
    network = current["training"]["network"]
    return {"generation": number, **current, "network": network, "promoted": promoted, "win_rates": rates}


def facts(first: str, second: str, report: dict) -> dict:
    """The stored part of a match, independent of the time it took."""
    kept = {"first": first, "second": second}
    kept |= {key: report[key] for key in ("wins", "draws", "losses", "pairs")}
    if report.get("sprt"):
        kept |= {"llr": round(report["sprt"]["llr"], 3), "verdict": report["sprt"]["verdict"].lower()}
    return kept


def points(match: dict) -> float:
    """The share of points of the first player."""
    games = match["wins"] + match["draws"] + match["losses"]
    return (match["wins"] + match["draws"] / 2) / max(games, 1)
