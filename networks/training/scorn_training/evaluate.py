"""Tests a network on positions that it has not learned from."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from .batches import Targets, held_out
from .dense import load_network
from .model import MoveMask, Network, features
from .runs import command

TESTS_HELP = """files whose held-out positions are used; of a file of searched positions (.vis) without held-out ones,
any of its positions"""
Batches = list[tuple[torch.Tensor, Targets]]  # positions and targets


@torch.no_grad()
def predictions(network: Network, batches: Batches) -> dict[str, np.ndarray]:
    """Per position: policy loss for the best move, whether that is the most probable, W/D/L, its target and weight."""
    mask = MoveMask()
    parts: dict[str, list[np.ndarray]] = {}
    for positions, targets in batches:
        tokens = features(positions)
        logits, wdl, _, open_lines = network(tokens)
        best = targets.index[:, 0]
        allowed = mask(tokens, open_lines).scatter(1, targets.index, True)
        logits = logits.masked_fill(~allowed, -30.0)
        values = {
            "policy": F.cross_entropy(logits, best, reduction="none"),
            "right": (logits.argmax(dim=1) == best).float(),
            "known": targets.policy_weight,
            "wdl": wdl.softmax(dim=1),
            "target": targets.wdl,
            "weight": targets.value_weight,
        }
        for name, value in values.items():
            parts.setdefault(name, []).append(value.numpy())
    return {name: np.concatenate(values) for name, values in parts.items()}


def mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if values.size else None


def measure(network: Network, batches: Batches) -> dict[str, float | None]:
    """Means over the positions that have such a target; None if there are none."""
    p = predictions(network, batches)
    known, weight = p["known"] > 0, p["weight"] > 0
    wdl, target = p["wdl"][weight], p["target"][weight]
    q, target_q = wdl[:, 0] - wdl[:, 2], target[:, 0] - target[:, 2]
    return {
        "positions": len(p["known"]),
        "policy": mean(p["policy"][known]),
        "top1": mean(p["right"][known]),
        "value": mean(-(target * np.log(wdl + 1e-9)).sum(axis=1)),
        "floor": mean(-(target * np.log(target + 1e-9)).sum(axis=1)),
        "accuracy": mean(wdl.argmax(axis=1) == target.argmax(axis=1)),
        "error": mean(np.abs(q - target_q)),
    }


def summary(result: dict[str, float | None]) -> str:
    """The means as text, with `-` in place of those that are None."""

    def text(name: str, form: str = "{:.4f}", factor: float = 1) -> str:
        value = result[name]
        return "-" if value is None else form.format(factor * value)

    return (
        f"policy {text('policy')} top-1 {text('top1', '{:.2f} %', 100)} "
        f"value {text('value')} (floor {text('floor')}) W/D/L {text('accuracy', '{:.1f} %', 100)} "
        f"|q error| {text('error')}"
    )


def calibration(network: Network, batches: Batches, bins: int = 10) -> str:
    """Predicted against actual expected score, in bins of the prediction, as a Markdown table; empty if no position
    has a value target."""
    p = predictions(network, batches)
    use = p["weight"] > 0
    wdl, target = p["wdl"][use], p["target"][use]
    score = wdl[:, 0] + wdl[:, 1] / 2
    lines = ["| predicted score | positions | mean prediction | actual | predicted W/D/L | actual W/D/L |"]
    lines.append("|---|---|---|---|---|---|")
    for low in np.arange(bins) / bins:
        here = (score >= low) & (score < low + 1 / bins + (low + 1 / bins >= 1) * 1e-6)
        if here.any():
            mean, actual = wdl[here].mean(axis=0), target[here].mean(axis=0)
            text = [" / ".join(f"{100 * value:.0f}" for value in part) for part in (mean, actual)]
            lines.append(
                f"| {low:.1f}-{low + 1 / bins:.1f} | {here.sum()} | {score[here].mean():.3f} "
                f"| {actual[0] + actual[1] / 2:.3f} | {text[0]} | {text[1]} |"
            )
    return "\n".join(lines) if use.any() else ""


def evaluate_files(network: Network, scorn: str, paths: list[Path], count: int) -> dict[str, dict[str, float | None]]:
    """Means over at most `count` test positions of each file that has any."""
    found = {str(path): list(held_out(scorn, str(path), count)) for path in paths}
    return {name: measure(network, batches) for name, batches in found.items() if batches}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("tests", type=Path, nargs="+", help=TESTS_HELP)
    parser.add_argument("--count", type=int, default=50_000, help="maximum number of positions of each file")
    parser.add_argument("--scorn", default="scorn", help="the program")
    parser.add_argument("--raw", action="store_true", help="the last weights instead of their average")
    args = parser.parse_args()
    torch.set_num_threads(1)
    network, state = load_network(args.checkpoint, not args.raw)
    print(f"{state['positions']} positions seen, {state['seconds'] / 3600:.2f} hours")
    for path in args.tests:
        batches = list(held_out(args.scorn, str(path), args.count))
        if not batches:
            print(f"\n{path.stem}: no positions to test on")
            continue
        result = measure(network, batches)
        print(f"\n{path.stem}: {result['positions']} positions, {summary(result)}")
        if table := calibration(network, batches):
            print(table)


if __name__ == "__main__":
    command("evaluate", main)
