"""Narrows a sparse network's policy to its most important products, as a start for training.

The importance of a product is the variance of its contributions to the logits of the legal moves, averaged over the
positions of a batch (`scorn train batches`). The value is taken from another checkpoint.
"""

from __future__ import annotations

import argparse
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from .batches import read_frames, read_header
from .files import check_new
from .runs import NO_PROGRESS, command
from .sparse import BATCHES, BLOCK, INPUTS, PAIRS, ROWS, Batch, Checkpoint, Network, Shape, multi_hot, unpack

POLICY = ("policy_in", "policy_bias", "rows", "rows_bias")


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policy", type=Path, help="checkpoint whose policy becomes narrower")
    parser.add_argument("value", type=Path, help="checkpoint whose value is taken as it is")
    parser.add_argument("out", type=Path, help="checkpoint to write")
    parser.add_argument("--force", action="store_true", help="replace the file if it exists")
    parser.add_argument("--width", type=int, required=True, help="columns of the new policy, a multiple of 64")
    parser.add_argument("--data", required=True, metavar="FILE", help="positions by which products are judged")
    parser.add_argument("--positions", type=int, default=1500, help="how many of them")
    parser.add_argument("--scorn", default="scorn", help="the program")
    return parser.parse_args(argv)


def importance(network: Network, batch: Batch) -> torch.Tensor:
    """[product]: the variance of its contributions to the logits of a position's moves, averaged over the positions."""
    products = network.products("policy", multi_hot(batch.policy_inputs, batch.policy_of, batch.policy_count))
    rows = network.parts["rows"].view(network.shape.rows, -1)
    of_moves = rows[batch.rows]
    if network.shape.rows > ROWS:
        of_moves = of_moves + rows[batch.classes]
    parts = products[batch.rows_of] * of_moves
    count = torch.bincount(batch.rows_of, minlength=batch.policy_count).unsqueeze(1)

    def mean(x: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(products).index_add(0, batch.rows_of, x) / count

    return (mean(parts**2) - mean(parts) ** 2).mean(0)


def narrowed(sections: dict[str, np.ndarray], kept: np.ndarray) -> list[np.ndarray]:
    """The policy's sections with these products only."""

    def columns(table: np.ndarray) -> np.ndarray:
        # [block][row][column], where a product has a column in either half of its block.
        halves = np.split(table, [PAIRS], axis=2)
        chosen = [half.transpose(1, 0, 2).reshape(half.shape[1], -1)[:, kept] for half in halves]
        blocks = [half.reshape(half.shape[0], -1, PAIRS) for half in chosen]
        return np.concatenate(blocks, axis=2).transpose(1, 0, 2)

    return [
        columns(sections["policy_in"].reshape(-1, INPUTS, BLOCK)).ravel(),
        columns(sections["policy_bias"].reshape(-1, 1, BLOCK)).ravel(),
        sections["rows"].reshape(len(sections["rows_bias"]), -1)[:, kept].ravel(),
        sections["rows_bias"],
    ]


def split(checkpoint: Checkpoint) -> dict[str, np.ndarray]:
    """The sections of a checkpoint's weights."""
    sizes = [size for size, _ in checkpoint.shape.sections().values()]
    return dict(zip(checkpoint.shape.sections(), np.split(checkpoint.vectors[0], np.cumsum(sizes)[:-1])))


def drawn(scorn: str, data: str, positions: int) -> Batch:
    """A batch of the program's."""
    flags = ["--config", "", "--batch", str(positions), "--only", "policy", "--result-share", "0"]
    with subprocess.Popen([scorn, "train", "batches", "--data", f"{data}:1", *flags], stdout=subprocess.PIPE) as program:
        read_header(program.stdout, BATCHES, positions, 0)
        counts, body = next(read_frames(program.stdout, BATCHES.counts, pinned=False))
        program.kill()
    return unpack(counts, body)


def narrow(policy: Checkpoint, value: Checkpoint, width: int, batch: Batch) -> Checkpoint:
    """The first one's policy with `width` columns, and the second one's value. Raises ValueError if it has too few."""
    if width % BLOCK or not 0 < width <= policy.shape.policy:
        raise ValueError(f"the width must be a multiple of {BLOCK} up to {policy.shape.policy}, not {width}")
    with torch.no_grad():
        scores = importance(Network(policy.shape, torch.from_numpy(policy.vectors[0])), batch)
    kept = np.sort(torch.argsort(scores, descending=True, stable=True)[: width // 2].numpy())
    rest = [part for name, part in split(value).items() if name not in POLICY]
    weights = np.concatenate([*narrowed(split(policy), kept), *rest])
    shape = replace(value.shape, policy=width, inputs=policy.shape.inputs)
    return Checkpoint(shape, dict(NO_PROGRESS), [weights, np.zeros_like(weights), np.zeros_like(weights), weights.copy()])


def main() -> None:
    args = arguments()
    check_new(args.out, args.force)
    batch = drawn(args.scorn, args.data, args.positions)
    narrow(Checkpoint.load(args.policy), Checkpoint.load(args.value), args.width, batch).save(args.out)


if __name__ == "__main__":
    command("narrow", main)
