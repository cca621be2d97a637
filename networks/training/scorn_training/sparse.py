"""Sparse networks in PyTorch: weights, checkpoints, losses and optimizer, all equivalent to those of `scorn train`.

The network and its sections are those of src/sparse/network.rs, checkpoints those of src/train/checkpoint.rs, batches
those of src/train/batches.rs. Inputs are 0 or 1, and few are 1. On a GPU a product with the whole matrix is still
faster than sums over lists, and exact except that TensorFloat-32, where allowed, rounds the weights.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
import torch.nn.functional as F

from .batches import Arrays, Format
from .files import write_whole

CHECKPOINT_FORMAT = "scorn-sparse-checkpoint-1"
# What stands for a checkpoint's checksum while it is computed.
NO_SUM = b"0" * 64
INPUTS, PIECE_INPUTS, ROWS, OUTPUTS = 5026, 3072, 7768, 4
# Rows of the policy with those of classes of moves, by the set of inputs.
POLICY_ROWS = {"position": ROWS, "classes": ROWS + 486}
BATCHES = Format("scorn-batches-2", INPUTS, POLICY_ROWS["classes"], counts=5)
BLOCK = 64  # columns of a first layer that are stored together
PAIRS = BLOCK // 2
MAX_PIECES = 32
# Weights that are quantised to 8 bits are clamped to their range.
FIRST_LIMIT, LATER_LIMIT = 127 / 255, 127 / 64
BETAS, EPSILON = (0.9, 0.999), 1e-8
# Groups of this many weights without a gradient in a step are skipped, moments included.
GROUP = 16
# Averaged weights: updated every AVERAGE_EVERY steps; the horizon is this share of the run, at most AVERAGE_MOST. The
# program adds the steps since the last update when it tests or exports a checkpoint.
AVERAGE_EVERY, AVERAGE_SHARE, AVERAGE_MOST = 8, 0.1, 2000.0


@dataclass(frozen=True)
class Shape:
    """The sizes of a network."""

    policy: int
    value: int
    hidden: int
    stages: int = 1
    inputs: str = "position"  # the set of inputs, one of POLICY_ROWS

    @property
    def rows(self) -> int:
        """Rows of the policy."""
        return POLICY_ROWS[self.inputs]

    def sections(self) -> dict[str, tuple[int, float | None]]:
        """Number of weights of each section and the limit of their absolute value, in the order of the checkpoint."""
        units = self.stages * self.hidden
        return {
            "policy_in": (INPUTS * self.policy, FIRST_LIMIT),
            "policy_bias": (self.policy, None),
            "rows": (self.rows * self.policy // 2, LATER_LIMIT),
            "rows_bias": (self.rows, None),
            "value_in": (INPUTS * self.value, FIRST_LIMIT),
            "value_bias": (self.value, None),
            "hidden": (self.value // 2 * units, LATER_LIMIT),
            "hidden_bias": (units, None),
            "second": (self.hidden * units, None),
            "second_bias": (units, None),
            "out": (units * OUTPUTS, None),
            "out_bias": (self.stages * OUTPUTS, None),
            "direct": (INPUTS * OUTPUTS, None),
        }


@dataclass
class Checkpoint:
    """A saved run: its progress as the program writes it, and four vectors of all weights, 32-bit floats."""

    shape: Shape
    progress: dict
    vectors: list[np.ndarray]  # weights, first and second moments, averaged weights

    @staticmethod
    def load(path: Path) -> Checkpoint:
        """Raises ValueError if the file is not a complete checkpoint of a network with these inputs."""
        with open(path, "rb") as file:
            header, line = _header(file, path)
            shape = Shape(**header["shape"])
            if shape.inputs not in POLICY_ROWS:
                raise ValueError(f"{path} holds a network with inputs of {shape.inputs}: only scorn train trains those")
            if (header["inputs"], header["rows"]) != (INPUTS, shape.rows):
                raise ValueError(f"{path} holds a network with other inputs or moves: an incompatible version wrote it")
            count = sum(size for size, _ in shape.sections().values())
            vectors = [np.fromfile(file, "<f4", count) for _ in range(4)]
        if any(len(vector) < count for vector in vectors):
            raise ValueError(f"{path} is damaged: incomplete weights")
        expected = header["sha256"]
        if _checksum(line.replace(expected.encode(), NO_SUM), vectors) != expected:
            raise ValueError(f"{path} is damaged: its checksum does not match")
        return Checkpoint(shape, header["progress"], vectors)

    @staticmethod
    def progress_of(path: Path) -> dict:
        """The progress of a checkpoint, without its weights. Raises ValueError if the file is not a checkpoint."""
        with open(path, "rb") as file:
            return _header(file, path)[0]["progress"]

    def save(self, path: Path) -> None:
        """Writes the checkpoint; if that fails, an existing file stays unchanged."""
        header = {
            "format": CHECKPOINT_FORMAT,
            "shape": vars(self.shape),
            "inputs": INPUTS,
            "rows": self.shape.rows,
            "progress": self.progress,
            "sha256": NO_SUM.decode(),
        }
        line = json.dumps(header).encode() + b"\n"
        vectors = [vector.astype("<f4", copy=False) for vector in self.vectors]
        line = line.replace(NO_SUM, _checksum(line, vectors).encode())

        def write(partial: Path) -> None:
            with open(partial, "wb") as file:
                file.write(line)
                for vector in vectors:
                    # Not `tofile`, which does not say that the disk is full.
                    file.write(memoryview(np.ascontiguousarray(vector)))

        write_whole(path, write)


def _checksum(line: bytes, vectors: list[np.ndarray]) -> str:
    """SHA-256 of a checkpoint's file, whose first line has zeros in place of the checksum."""
    hashed = hashlib.sha256(line)
    for vector in vectors:
        hashed.update(np.ascontiguousarray(vector))
    return hashed.hexdigest()


def _header(file: BinaryIO, path: Path) -> tuple[dict, bytes]:
    """The header of a checkpoint, and its line."""
    line = file.readline(4096)
    try:
        header = json.loads(line)
    except ValueError:
        header = {}
    if header.get("format") != CHECKPOINT_FORMAT or "sha256" not in header:
        raise ValueError(f"{path} is not a checkpoint of scorn train")
    return header, line


@dataclass
class Batch:
    """Training positions on a device. Lists are flat; `*_of` holds the position of each item."""

    policy_count: int
    policy_inputs: torch.Tensor
    policy_of: torch.Tensor
    rows: torch.Tensor
    rows_of: torch.Tensor
    classes: torch.Tensor  # the row of each move's class
    shares: torch.Tensor
    value_count: int
    value_inputs: torch.Tensor
    value_of: torch.Tensor
    targets: torch.Tensor  # [position][win, draw, loss, weight, plies left, weight]


def unpack(counts: tuple[int, ...], body: torch.Tensor) -> Batch:
    """The arrays of a batch, on the device on which its bytes are."""
    arrays = Arrays(body)

    def lists(positions: int, items: int) -> tuple[torch.Tensor, torch.Tensor]:
        # All numbers are below 32768, so a sign bit changes nothing.
        lengths, flat = arrays.take(positions, torch.int16).long(), arrays.take(items, torch.int16).long()
        numbers = torch.arange(positions, device=body.device)
        return flat, torch.repeat_interleave(numbers, lengths, output_size=items)

    policies, policy_items, moves, values, value_items = counts
    policy_inputs, policy_of = lists(policies, policy_items)
    rows, rows_of = lists(policies, moves)
    classes = arrays.take(moves, torch.int16).long()
    shares = arrays.take(moves, torch.float32)
    value_inputs, value_of = lists(values, value_items)
    targets = arrays.take(6 * values, torch.float32).view(values, 6)
    policy = (policies, policy_inputs, policy_of, rows, rows_of, classes, shares)
    return Batch(*policy, values, value_inputs, value_of, targets)


class Network:
    """Weights in one vector, and the losses of their network."""

    def __init__(self, shape: Shape, weights: torch.Tensor):
        self.shape = shape
        sections = shape.sections()
        parts = weights.split([size for size, _ in sections.values()])
        self.parts = {name: part.detach().requires_grad_() for name, part in zip(sections, parts)}

    def losses(self, batch: Batch, squared: bool = False) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Sums over the positions: cross-entropy of the policy, value loss, Huber loss of the plies left."""
        # With a small --result-weight a batch may have no targets at all.
        zero = batch.targets.new_zeros((), requires_grad=True)
        policy = self._policy(batch) if batch.policy_count else zero
        value, plies = self._value(batch, squared) if batch.value_count else (zero, zero)
        return policy, value, plies

    def _policy(self, batch: Batch) -> torch.Tensor:
        parts, count, width = self.parts, batch.policy_count, self.shape.rows
        products = self.products("policy", multi_hot(batch.policy_inputs, batch.policy_of, count))
        # Logits of all rows: on a GPU this is faster than gathering the rows of the legal moves.
        of_rows = torch.addmm(parts["rows_bias"], products, parts["rows"].view(width, -1).T).flatten()
        logits = of_rows.gather(0, batch.rows_of * width + batch.rows)
        if width > ROWS:
            logits = logits + of_rows.gather(0, batch.rows_of * width + batch.classes)
        most = logits.new_full((count,), -torch.inf).scatter_reduce(0, batch.rows_of, logits.detach(), "amax")
        logits = logits - most[batch.rows_of]
        sums = logits.new_zeros(count).index_add(0, batch.rows_of, logits.exp())
        return (batch.shares * (sums.log()[batch.rows_of] - logits)).sum()

    def _value(self, batch: Batch, squared: bool) -> tuple[torch.Tensor, torch.Tensor]:
        shape, count = self.shape, batch.value_count
        hot = multi_hot(batch.value_inputs, batch.value_of, count)
        pieces = hot[:, :PIECE_INPUTS].sum(1).long()
        stage = ((pieces - 1) * shape.stages // MAX_PIECES).clamp(0, shape.stages - 1)
        numbers = torch.arange(count, device=hot.device)

        def layer(x: torch.Tensor, name: str, outputs: int) -> torch.Tensor:
            # Outputs of all stages; then the one of the position is selected.
            of_stages = self.parts[name].view(shape.stages, -1, outputs)
            found = x @ of_stages.transpose(0, 1).reshape(x.shape[1], shape.stages * outputs)
            found = found + self.parts[f"{name}_bias"]
            return found.view(count, shape.stages, outputs)[numbers, stage]

        first = layer(self.products("value", hot), "hidden", shape.hidden).clamp(0, 1) ** 2
        second = layer(first, "second", shape.hidden).clamp(0, 1) ** 2
        outputs = layer(second, "out", OUTPUTS) + hot @ self.parts["direct"].view(INPUTS, OUTPUTS)
        wdl, weight, plies, plies_weight = batch.targets.split([3, 1, 1, 1], 1)
        if squared:
            found = F.softmax(outputs[:, :3], 1)
            value = ((found[:, 0] - found[:, 2]) - (wdl[:, 0] - wdl[:, 2])) ** 2
        else:
            value = -(wdl * F.log_softmax(outputs[:, :3], 1)).sum(1)
        error = F.huber_loss(outputs[:, 3:], plies, reduction="none", delta=1.0)
        return (value * weight.squeeze(1)).sum(), (error * plies_weight).sum()

    def products(self, name: str, hot: torch.Tensor) -> torch.Tensor:
        """A first layer: [position][product]."""
        table = self.parts[f"{name}_in"].view(-1, INPUTS, BLOCK)
        columns = table.transpose(0, 1).reshape(INPUTS, -1)
        sums = torch.addmm(self.parts[f"{name}_bias"], hot, columns).clamp(0, 1).view(len(hot), -1, BLOCK)
        return (sums[..., :PAIRS] * sums[..., PAIRS:]).flatten(1)


def multi_hot(inputs: torch.Tensor, position: torch.Tensor, count: int) -> torch.Tensor:
    """[position][input]: 1 for the active inputs."""
    hot = torch.zeros(count * INPUTS, device=inputs.device)
    return hot.scatter_(0, position * INPUTS + inputs, 1.0).view(count, INPUTS)


class Adam:
    """AdamW that skips weights without a gradient, clamps weights to their limits, and averages them."""

    def __init__(self, shape: Shape, vectors: list[torch.Tensor]):
        sizes = [size for size, _ in shape.sections().values()]
        limits = [limit for _, limit in shape.sections().values()]
        self.average, self.weights = vectors[3], vectors[0]
        self.sections = list(zip(*(vector.split(sizes) for vector in vectors[:3]), limits))

    @torch.no_grad()
    def step(self, gradients: list[torch.Tensor | None], rate: float, weight_decay: float, number: int) -> None:
        """One step; `number` counts from 1. Sections without a gradient stay unchanged."""
        corrections = [1 / (1 - beta**number) for beta in BETAS]
        for (weights, first, second, limit), gradient in zip(self.sections, gradients):
            if gradient is None:
                continue
            used = _touched(gradient)
            first += used * (1 - BETAS[0]) * (gradient - first)
            second += used * (1 - BETAS[1]) * (gradient.square() - second)
            spread = (second * corrections[1]).sqrt() + EPSILON
            weights -= used * rate * (first * corrections[0] / spread + weight_decay * weights)
            if limit is not None:
                weights.clamp_(-limit, limit)

    def average_in(self, steps: int) -> None:
        """Moves the average towards the weights, after this many steps of the run or of its decay."""
        horizon = min(max(AVERAGE_SHARE * steps, AVERAGE_EVERY), AVERAGE_MOST)
        self.average.lerp_(self.weights, AVERAGE_EVERY / horizon)


def _touched(gradient: torch.Tensor) -> torch.Tensor:
    """Which weights are in a group with a gradient; weights after the last whole group count individually."""
    whole = len(gradient) // GROUP * GROUP
    groups = (gradient[:whole].view(-1, GROUP) != 0).any(1).repeat_interleave(GROUP)
    return torch.cat([groups, gradient[whole:] != 0])
