"""The paper's schedule (figure 5): ScLimit moves between generations so that (w+l)/d stays near a target, and the nodes
double when it has settled, or when plain PUCT is too decisive. The rule is that of `scorn selfplay --balance`
(src/selfplay/controller.rs), with generations as batches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

SLOPE = 0.7  # how fast the logarithm of the ratio falls with that of the limit (figure 2)
BOUND = 2  # the ratio is near its target if it is no further from it than this factor
DAMPING = 0.4  # the part of a step that is taken within the bounds
STEADY = 4  # generations within the bounds after which the limit has settled
DRIFT = 1.6  # in which it was never further than this factor from where it is
CLOSE = 1.25  # and the ratio of all their games no further than this from the target
LARGEST = 1_000_000  # at odds, where the limit is also the nodes of the side that receives them


@dataclass(frozen=True)
class Step:
    """A generation in the history."""

    nodes: int
    sc_limit: float
    decisive: int
    draws: int


def is_balanced(step: Step, target: float) -> bool:
    """The author's inequality, d/2 < w+l < 2d, for a target of 1."""
    return abs(_error(step, target)) < math.log(BOUND)


def _error(step: Step, target: float) -> float:
    return math.log((step.decisive + 0.5) / (step.draws + 0.5) / target)


def largest(nodes: int, at_odds: bool) -> float:
    """The largest limit that has an effect: one that no node reaches is plain PUCT."""
    return LARGEST if at_odds else min(nodes, LARGEST)


def next_limits(path: list[Step], target: float, most_nodes: int, at_odds: bool = False) -> tuple[float, int]:
    """The limit (to be rounded) and the nodes that follow a history, which is not empty."""
    last = path[-1]
    error = _error(last, target)
    gain = DAMPING if is_balanced(last, target) else 1.0
    most = math.log(2) if abs(error) < 2 * math.log(2) else 2 * math.log(2)
    step = max(-most, min(most, gain * error / SLOPE))
    limit = max(1.0, min(largest(last.nodes, at_odds), last.sc_limit * math.exp(step)))
    grows = _is_settled(path, limit, target) or is_out_of_reach(path, target, at_odds)
    return limit, last.nodes * 2 if grows and last.nodes * 2 <= most_nodes else last.nodes


def _recent(path: list[Step], target: float) -> tuple[list[Step], float] | None:
    """The generations that decide whether the limit has settled, and their ratio divided by the target."""
    recent = path[-STEADY:]
    if len(recent) < STEADY or any(step.nodes != recent[-1].nodes for step in recent):
        return None
    ratio = (sum(step.decisive for step in recent) + 0.5) / (sum(step.draws for step in recent) + 0.5)
    return recent, ratio / target


def is_out_of_reach(path: list[Step], target: float, at_odds: bool = False) -> bool:
    """Whether the last generations were plain PUCT, and still more decisive than the target."""
    if (found := _recent(path, target)) is None:
        return False
    recent, ratio = found
    return ratio > CLOSE and all(
        round(step.sc_limit) >= largest(step.nodes, at_odds) and _error(step, target) > 0 for step in recent
    )


def _is_settled(path: list[Step], limit: float, target: float) -> bool:
    if (found := _recent(path, target)) is None:
        return False
    recent, ratio = found
    return 1 / CLOSE <= ratio <= CLOSE and all(
        is_balanced(step, target) and limit / DRIFT <= step.sc_limit <= limit * DRIFT for step in recent
    )
