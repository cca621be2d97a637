"""Mixtures of record files as an endless, reproducible stream of batches."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from . import model, policy
from .records import NO_SCORE, SOURCES, Batch, WdlModel, held_out, make_batch, open_records, ranked, source

# Fitted to the results of 60 000 grandmaster positions against Stockfish 15.1 at 200 nodes (a = 144, b = 155, drawn flat
# by games that were resigned, lost on time or misrecorded); the slope is taken steeper, nearer to the middle of the range.
# From two pawns on it flattens: 500 centipawns count as 383, 1000 as 522, 3000 as 742.
DEFAULT_WDL = WdlModel(a=140.0, b=110.0, knee=200.0)

WITH_EVALUATIONS = [SOURCES.index("engine game"), SOURCES.index("chess960 engine game")]


@dataclass
class Part:
    """A record file and its share of every batch."""

    path: Path
    share: float

    @staticmethod
    def parse(text: str) -> Part:
        path, _, share = text.rpartition(":")
        if not path:
            raise ValueError(f"{text}: FILE:SHARE expected")
        return Part(Path(path), float(share))


@dataclass
class Targets:
    """What the losses need, as tensors."""

    index: torch.Tensor  # [n, 5] of the policy vector, the best move first; what is not known repeats it
    policy: torch.Tensor  # [n, 5], sums to policy_weight
    policy_weight: torch.Tensor  # [n], 1 or 0
    wdl: torch.Tensor
    value_weight: torch.Tensor
    plies: torch.Tensor
    plies_weight: torch.Tensor


def tensors(batch: Batch, device: torch.device | str = "cpu") -> tuple[torch.Tensor, Targets]:
    """Token features and targets of a batch. Little is sent to the device: planes are made there."""

    def send(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array).to(device)

    index = policy.PACKED_TO_INDEX[batch.move]
    share = np.where(index >= 0, batch.move_share, 0)
    known = share[:, 0] > 0
    best = np.where(known, index[:, 0], 0)
    return model.features(send(batch.codes), send(batch.extras), send(batch.ep)), Targets(
        index=send(np.where(share > 0, index, best[:, None])),
        policy=send(share * known[:, None]),
        policy_weight=send(known.astype(np.float32)),
        wdl=send(batch.wdl),
        value_weight=send(batch.value_weight),
        plies=send(batch.plies),
        plies_weight=send(batch.plies_weight),
    )


def without_book(records: np.ndarray) -> np.ndarray:
    """Games with evaluations: the moves without one are the opening book's, not the engine's."""
    return records[~np.isin(source(records), WITH_EVALUATIONS) | (records["score"] != NO_SCORE)]


class Mixture:
    """Draws batches from several files. Files that are still growing are read again from time to time."""

    def __init__(
        self,
        parts: list[Part],
        batch: int,
        seed: int,
        result_weight: float,
        result_mix: float,
        policy_temperature: float = 0.0,
    ):
        total = sum(part.share for part in parts)
        self.parts = parts
        self.sizes = [round(batch * part.share / total) for part in parts]
        self.sizes[0] += batch - sum(self.sizes)
        self.seed = seed
        self.targets = result_weight, result_mix, policy_temperature
        self.reopen()

    def reopen(self) -> None:
        self.files = [open_records(part.path) for part in self.parts]
        for part, records in zip(self.parts, self.files):
            if len(records) == 0:
                raise ValueError(f"{part.path} holds no records")

    def batch(self, step: int, device: torch.device | str = "cpu") -> tuple[torch.Tensor, Targets]:
        """The batch of a step: the same step and files give the same batch."""
        rng = np.random.default_rng((self.seed, step))
        drawn = []
        for part, records, size in zip(self.parts, self.files, self.sizes):
            # A few too many, because held-out and book positions are dropped.
            some = records[np.sort(rng.integers(0, len(records), size + size // 2 + 8))]
            some = without_book(some[~held_out(some)])
            if len(some) == 0:
                raise ValueError(f"{part.path}: nothing to train on, its positions are held out or a book's")
            while len(some) < size:
                some = np.concatenate([some, some])
            drawn.append(ranked(rng.permutation(some)[:size]))
        batch = make_batch(np.concatenate(drawn), DEFAULT_WDL, rng, *self.targets)
        return tensors(batch, device)


def held_out_sample(path: Path, count: int, seed: int = 1) -> np.ndarray:
    """Held-out records of a file, at random."""
    records = open_records(path)
    rng = np.random.default_rng(seed)
    found: list[np.ndarray] = []
    have = 0
    for start in rng.permutation(range(0, len(records), 50_000)):
        block = records[start : start + 50_000]
        block = without_book(block[held_out(block)])
        found.append(block)
        have += len(block)
        if have >= count * 4:
            break
    block = np.concatenate(found) if found else records[:0]
    return rng.permutation(block)[:count]
