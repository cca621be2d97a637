"""Ratings of all players from all matches at once.

The Bradley-Terry model in its maximum-likelihood form, as Ordo and BayesElo have it: a win is 1, a draw 1/2, and the
expected score is 1 / (1 + 10^(-difference / 400)). Fixed players (Stockfish at a UCI_Elo) hold the scale; without them
the first player is 0. A draw that never was, between any two players that have met, keeps the ratings of unbeaten
players finite. For two players without drawn games that is the nearly unbiased estimate (J. B. S. Haldane, 1956); a
draw for each match would pull the ratings together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

SCALE = np.log(10) / 400


@dataclass(frozen=True)
class Result:
    """Games between two players, from the first one's point of view."""

    first: str
    second: str
    wins: int
    draws: int
    losses: int


@dataclass(frozen=True)
class Rating:
    """Elo, and 1.96 standard errors (draws count with the variance of wins and losses: slightly too wide)."""

    elo: float
    error: float


def rate(results: list[Result], fixed: dict[str, float]) -> dict[str, Rating]:
    """Ratings of all players that a chain of games connects to a fixed one."""
    played = _merged(results)
    names = list(dict.fromkeys(name for result in played for name in (result.first, result.second)))
    anchors = {name: elo for name, elo in fixed.items() if name in names}
    if not anchors and names:
        anchors = {names[0]: 0.0}
    names = _tied(names, played, set(anchors))
    free = [name for name in names if name not in anchors]
    ratings = {name: Rating(elo, 0.0) for name, elo in anchors.items()}
    if not free:
        return ratings
    at = {name: index for index, name in enumerate(names)}
    tied = [result for result in played if result.first in at]
    first = np.array([at[result.first] for result in tied])
    second = np.array([at[result.second] for result in tied])
    wins = np.array([result.wins + result.draws / 2 + 0.5 for result in tied])
    games = np.array([result.wins + result.draws + result.losses + 1.0 for result in tied])
    elo = np.array([anchors.get(name, np.mean(list(anchors.values()))) for name in names])
    moving = np.array([at[name] for name in free])

    def full(values: np.ndarray) -> np.ndarray:
        out = elo.copy()
        out[moving] = values
        return out

    def loss(values: np.ndarray) -> tuple[float, np.ndarray]:
        now = full(values)
        difference = SCALE * (now[first] - now[second])
        surplus = wins - games * expit(difference)
        likelihood = (wins * -np.logaddexp(0, -difference) + (games - wins) * -np.logaddexp(0, difference)).sum()
        gradient = np.bincount(first, surplus, len(names)) - np.bincount(second, surplus, len(names))
        return -likelihood, -SCALE * gradient[moving]

    found = minimize(loss, elo[moving], jac=True, method="L-BFGS-B", options={"maxiter": 10_000, "ftol": 1e-14})
    now = full(found.x)
    expected = expit(SCALE * (now[first] - now[second]))
    weight = SCALE**2 * games * expected * (1 - expected)
    information = np.zeros((len(names), len(names)))
    for a, b, w in zip(first, second, weight):
        information[a, a] += w
        information[b, b] += w
        information[a, b] -= w
        information[b, a] -= w
    errors = 1.96 * np.sqrt(np.diag(np.linalg.inv(information[np.ix_(moving, moving)])))
    return ratings | {name: Rating(float(e), float(d)) for name, e, d in zip(free, found.x, errors)}


def _merged(results: list[Result]) -> list[Result]:
    """All games of two players as one result, without those of players that have played none."""
    points: dict[tuple[str, str], tuple[int, int, int]] = {}
    for result in results:
        first, second, wins, losses = result.first, result.second, result.wins, result.losses
        if (second, first) in points:
            first, second, wins, losses = second, first, losses, wins
        before = points.get((first, second), (0, 0, 0))
        points[first, second] = (before[0] + wins, before[1] + result.draws, before[2] + losses)
    return [Result(*players, *games) for players, games in points.items() if sum(games) > 0]


def _tied(names: list[str], played: list[Result], start: set[str]) -> list[str]:
    """The players that games connect to the start, in order."""
    reached = set(start)
    while True:
        more = {n for r in played if {r.first, r.second} & reached for n in (r.first, r.second)} - reached
        if not more:
            return [name for name in names if name in reached]
        reached |= more
