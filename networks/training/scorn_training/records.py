"""Record files written by `scorn dataset` (layout: src/dataset/record.rs). Targets are computed by the program:
batches.py.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

MAGIC = b"SCORNREC"
DTYPE = np.dtype(
    [
        ("board", "u1", 32),
        ("state", "u1"),
        ("ep", "u1"),
        ("rule50", "u1"),
        ("flags", "u1"),
        ("move", "<u2"),
        ("score", "<i2"),
        ("result", "u1"),
        ("reserved", "u1"),
        ("plies_left", "<u2"),
        ("game", "<u4"),
    ]
)
RANKED = np.dtype([*DTYPE.descr, ("alternatives", [("move", "<u2"), ("score", "<i2")], 4)])
FORMATS = {1: DTYPE, 2: RANKED}
assert (DTYPE.itemsize, RANKED.itemsize) == (48, 64)
POSITION_BYTES = 36  # board, state, ep, rule50 and flags: what a network's inputs are made of

HELD_OUT = 1  # bit of flags: the position is never trained on
EXACT = 2  # bit of flags: the result is that of tablebases (older files do not have it)
NO_SCORE = -32768
NO_RESULT = 255
NO_PLIES = 65535


def open_records(path: Path | str) -> np.ndarray:
    """The file as a memory-mapped array, without an incomplete last record."""
    with open(path, "rb") as file:
        header = file.read(12)
        size = file.seek(0, 2)
    if header[:8] != MAGIC:
        raise ValueError(f"{path} is not a record file")
    version = int.from_bytes(header[8:12], "little")
    if version not in FORMATS:
        raise ValueError(f"{path} has record format {version}, but this program reads 1 and 2: update it")
    dtype = FORMATS[version]
    count = size // dtype.itemsize - 1
    if count <= 0:
        return np.zeros(0, dtype)
    return np.memmap(path, dtype, "r", dtype.itemsize, (count,))


def positions(records: np.ndarray) -> np.ndarray:
    """The positions of records, u8 [n, POSITION_BYTES]."""
    packed = np.ascontiguousarray(records).view(np.uint8).reshape(len(records), records.dtype.itemsize)
    return np.ascontiguousarray(packed[:, :POSITION_BYTES])


def boards(records: np.ndarray) -> np.ndarray:
    """Piece codes [n, 64]: 0 empty, 1-6 own P N B R Q K, 7-12 the opponent's."""
    packed = np.ascontiguousarray(records["board"])
    codes = np.empty((len(packed), 64), np.uint8)
    codes[:, 0::2] = packed & 15
    codes[:, 1::2] = packed >> 4
    return codes
