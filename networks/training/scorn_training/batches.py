"""Batches that the program prepares: `scorn train batches` and `scorn train held-out` (format: src/train/batches.rs).

The program draws the positions and computes all targets, for dense and for sparse networks. Here its output is read.
"""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, Self

import numpy as np
import torch

from . import selfplay
from .model import PLIES_UNIT
from .policy import SIZE
from .records import POSITION_BYTES

PIPE_BYTES = 1 << 20
AHEAD = 4  # batches that are read in advance

Frame = tuple[tuple[int, ...], torch.Tensor]  # the counts and the bytes of a batch


@dataclass(frozen=True)
class Format:
    """A kind of stream: its name and sizes in the header, and the number of counts before each batch."""

    name: str
    inputs: int
    rows: int
    counts: int
    plies_unit: float | None = None

    def header(self, batch: int, first: int) -> dict:
        header = {"format": self.name, "inputs": self.inputs, "rows": self.rows, "batch": batch, "from": first}
        return header if self.plies_unit is None else header | {"plies_unit": self.plies_unit}


DENSE = Format("scorn-dense-batches-1", POSITION_BYTES, SIZE, 2, PLIES_UNIT)
HELD_OUT_BATCH = 512  # positions of a batch of `scorn train held-out`


def read_header(stream: BinaryIO, expected: Format, batch: int, first: int) -> None:
    """Reads the first line of a stream; raises ValueError if format, batch size or first step differ."""
    line = stream.readline(4096)
    try:
        header = json.loads(line)
    except ValueError:
        header = None
    if header != expected.header(batch, first):
        raise ValueError(
            f"the program did not write the requested batches, but {line[:200]!r}: see its error above, or use a "
            "program of the same version"
        )


def read_frames(stream: BinaryIO, counts: int, pinned: bool) -> Iterator[Frame]:
    """Counts and bytes of each batch until the stream ends; raises ValueError if it ends within a batch."""
    incomplete = "the stream of batches ends within a batch"
    head_bytes = 4 * (counts + 1)
    while head := stream.read(head_bytes):
        if len(head) < head_bytes:
            raise ValueError(incomplete)
        *found, size = np.frombuffer(head, "<u4").tolist()
        body = torch.empty(size, dtype=torch.uint8, pin_memory=pinned)
        if stream.readinto(memoryview(body.numpy())) < size:
            raise ValueError(incomplete)
        yield tuple(found), body


class Arrays:
    """Takes the arrays of a batch one after the other, as views of its bytes on their device."""

    def __init__(self, body: torch.Tensor):
        self.body, self.at = body, 0

    def take(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        size = count * dtype.itemsize
        array = self.body[self.at : self.at + size].view(dtype)
        self.at += -(-size // 8) * 8
        return array


@dataclass
class Targets:
    """The targets of dense networks, as tensors."""

    index: torch.Tensor  # [n, k] of the policy vector, the best move first; unused columns repeat it
    policy: torch.Tensor  # [n, k] shares of these moves, sums to policy_weight
    policy_weight: torch.Tensor  # [n], 1 or 0
    wdl: torch.Tensor  # [n, 3]
    value_weight: torch.Tensor  # [n]
    plies: torch.Tensor  # [n], in units of model.PLIES_UNIT
    plies_weight: torch.Tensor  # [n], 1 or 0


def unpack_dense(counts: tuple[int, ...], body: torch.Tensor) -> tuple[torch.Tensor, Targets]:
    """Positions [n, POSITION_BYTES] and targets of a batch, on the device of its bytes."""
    count, moves = counts
    arrays = Arrays(body)
    positions = arrays.take(POSITION_BYTES * count, torch.uint8).view(count, POSITION_BYTES)
    # All indices are below 32768, so a sign bit changes nothing.
    index = arrays.take(moves * count, torch.int16).view(count, moves).long()
    policy = arrays.take(moves * count, torch.float32).view(count, moves)
    value = arrays.take(6 * count, torch.float32).view(count, 6)
    return positions, Targets(
        index=index,
        policy=policy,
        policy_weight=(policy[:, 0] > 0).float(),
        wdl=value[:, :3],
        value_weight=value[:, 3],
        plies=value[:, 4],
        plies_weight=value[:, 5],
    )


class Feeder:
    """A program that writes batches, and a thread that reads them in advance. As a context manager it ends both."""

    def __init__(self, command: list[str], expected: Format, batch: int, first: int, pinned: bool):
        try:
            self.program = subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=PIPE_BYTES)
        except OSError as error:
            raise ValueError(f"cannot start {command[0]}: {error.strerror}; name the program with --scorn") from error
        widen(self.program.stdout)
        self.ready: queue.Queue = queue.Queue(AHEAD)
        self.is_over = threading.Event()
        self.reader = threading.Thread(target=self._read, args=(expected, batch, first, pinned), daemon=True)
        self.reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.is_over.set()
        self.program.terminate()
        self.reader.join()
        self.program.stdout.close()
        self.program.wait()

    def __iter__(self) -> Iterator[Frame]:
        """Counts and bytes of each batch; raises the error of the program or of the stream, EOFError at its end."""
        while True:
            item = self.ready.get()
            if isinstance(item, Exception):
                raise item
            yield item

    def _read(self, expected: Format, batch: int, first: int, pinned: bool) -> None:
        try:
            read_header(self.program.stdout, expected, batch, first)
            for item in read_frames(self.program.stdout, expected.counts, pinned):
                if not self._put(item):
                    return
            self._put(EOFError("the program that writes batches has ended"))
        except (OSError, ValueError) as error:
            self._put(error)

    def _put(self, item: object) -> bool:
        """Waits for room in the queue; False if the consumer has ended."""
        while not self.is_over.is_set():
            try:
                self.ready.put(item, timeout=0.2)
                return True
            except queue.Full:
                pass
        return False


def held_out(scorn: str, path: str, count: int) -> Iterator[tuple[torch.Tensor, Targets]]:
    """At most `count` test positions of a file, in batches: the held-out ones, or any if `is_held_out` is false."""
    command = [scorn, "train", "held-out", "--config", "", "--count", str(count), str(path)]
    with Feeder(command, DENSE, HELD_OUT_BATCH, 0, pinned=False) as feeder:
        try:
            for counts, body in feeder:
                if counts[0]:
                    yield unpack_dense(counts, body)
        except EOFError:
            if feeder.program.wait():
                raise


def is_held_out(path: Path) -> bool:
    """Whether the test positions of a file are marked as held out, so that no training uses them.

    They are not in a file of searched positions without such marks, of which any positions are test positions.
    """
    with open(path, "rb") as file:
        is_searched = file.read(len(selfplay.MAGIC)) == selfplay.MAGIC
    return not is_searched or selfplay.has_held_out(path)


def widen(pipe: IO[bytes]) -> None:
    """Enlarges the buffer of a pipe where the system allows it, for fewer context switches."""
    if sys.platform == "linux":
        import fcntl

        with contextlib.suppress(OSError):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
