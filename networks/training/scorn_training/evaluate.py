"""Measures a network on positions of held-out games."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from .data import DEFAULT_WDL, held_out_sample, tensors
from .model import Config, MoveMask, Network
from .records import make_batch


@torch.no_grad()
def predictions(network: Network, records: np.ndarray) -> dict[str, np.ndarray]:
    """Per position: policy loss for the best move, right move or not, W/D/L and its target and weight."""
    mask = MoveMask()
    parts: dict[str, list[np.ndarray]] = {}
    for start in range(0, len(records), 1024):
        tokens, targets = tensors(make_batch(records[start : start + 1024], DEFAULT_WDL, None, 1.0, 0.0))
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


def measure(network: Network, records: np.ndarray) -> dict[str, float]:
    """Mean figures over the records."""
    p = predictions(network, records)
    known, weight = p["known"] > 0, p["weight"] > 0
    wdl, target = p["wdl"][weight], p["target"][weight]
    q, target_q = wdl[:, 0] - wdl[:, 2], target[:, 0] - target[:, 2]
    return {
        "positions": len(records),
        "policy": float(p["policy"][known].mean()),
        "top1": float(p["right"][known].mean()),
        "value": float(-(target * np.log(wdl + 1e-9)).sum(axis=1).mean()),
        "floor": float(-(target * np.log(target + 1e-9)).sum(axis=1).mean()),
        "accuracy": float((wdl.argmax(axis=1) == target.argmax(axis=1)).mean()),
        "error": float(np.abs(q - target_q).mean()),
    }


def summary(result: dict[str, float]) -> str:
    return (
        f"policy {result['policy']:.4f} top-1 {100 * result['top1']:.2f} % "
        f"value {result['value']:.4f} (floor {result['floor']:.4f}) W/D/L {100 * result['accuracy']:.1f} % "
        f"|q error| {result['error']:.4f}"
    )


def calibration(network: Network, records: np.ndarray, bins: int = 10) -> str:
    """Predicted against actual expected score, in bins of the prediction, as a Markdown table."""
    p = predictions(network, records)
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
    return "\n".join(lines)


def evaluate_files(network: Network, paths: list[Path], count: int) -> dict[str, dict[str, float]]:
    found = {str(path): held_out_sample(path, count) for path in paths}
    return {name: measure(network, records) for name, records in found.items() if len(records)}


def load(path: Path, average: bool = True) -> tuple[Network, dict]:
    """The network of a checkpoint, and the checkpoint."""
    state = torch.load(path, weights_only=True, map_location="cpu")
    network = Network(Config(**state["config"]))
    network.load_state_dict(state["average" if average else "network"])
    return network.eval(), state


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("tests", type=Path, nargs="+", help="record files; only their held-out games are used")
    parser.add_argument("--count", type=int, default=50_000, help="positions of each file")
    parser.add_argument("--raw", action="store_true", help="the last weights instead of their average")
    args = parser.parse_args()
    torch.set_num_threads(1)
    network, state = load(args.checkpoint, not args.raw)
    print(f"{state['positions']} positions seen, {state['seconds'] / 3600:.2f} hours")
    for path in args.tests:
        records = held_out_sample(path, args.count)
        if len(records) == 0:
            print(f"\n{path.stem}: no position is held out")
            continue
        print(f"\n{path.stem}: {len(records)} positions, {summary(measure(network, records))}")
        print(calibration(network, records))


if __name__ == "__main__":
    main()
