"""Positions with all visits, written by `scorn selfplay` (layout: src/dataset/searched.rs), and training sets made of
them.

part-*.json in a self-play folder has its files and their checksums: damaged files are reported and left out. `pool`
merges equal inputs as in CGZero: weighted means of policies and values, in which older generations count less.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .files import write_whole
from .records import DTYPE, HELD_OUT, NO_PLIES, NO_RESULT

MAGIC = b"SCORNVIS"
HEADER = 64
POSITION = np.dtype(
    [
        *DTYPE.descr,
        ("first", "<u4"),
        ("moves", "<u2"),
        ("best", "<u2"),
        ("visits", "<u4"),
        ("q", "<i2"),
        ("d", "<u2"),
    ]
)
ENTRY = np.dtype([("move", "<u2"), ("visits", "<u4")])
FROZEN = 1 << 15
ENGINE_GAME = 1 << 4  # the source, in flags
CASTLING = 15  # bits of state
CHESS960 = 1 << 5
# The network's input for the 50-move rule is how many of these have been reached (src/sparse/features.rs).
RULE50_STEPS = [8, 16, 24, 32, 48, 64, 80, 90]
assert (POSITION.itemsize, ENTRY.itemsize) == (64, 6)

# The factor that turns a mean policy into visits.
POLICY_ONE = 1 << 20


@dataclass
class Searched:
    """Positions and the visits of their moves; those of position i are entries[first[i] : first[i] + moves[i]]."""

    positions: np.ndarray
    entries: np.ndarray

    def __len__(self) -> int:
        return len(self.positions)

    def write(self, path: Path) -> None:
        header = bytearray(MAGIC)
        for number in (1, POSITION.itemsize, ENTRY.itemsize, 0):
            header += int(number).to_bytes(4, "little")
        for number in (len(self.positions), len(self.entries)):
            header += int(number).to_bytes(8, "little")
        header = bytes(header).ljust(HEADER, b"\0")
        data = header + self.positions.tobytes() + self.entries.tobytes()
        write_whole(path, lambda partial: partial.write_bytes(data))


def parse(data: bytes, name: object) -> Searched:
    """Reads a file.

    Raises:
        ValueError: it is no such file or damaged; `name` is in the message.
    """
    if data[:8] != MAGIC or len(data) < HEADER:
        raise ValueError(f"{name} is no file of visits")
    numbers = np.frombuffer(data, "<u4", 3, 8)
    if list(numbers) != [1, POSITION.itemsize, ENTRY.itemsize]:
        raise ValueError(f"{name} has version {numbers[0]} of the format, this program reads 1")
    count, entries = (int(number) for number in np.frombuffer(data, "<u8", 2, 24))
    expected = HEADER + count * POSITION.itemsize + entries * ENTRY.itemsize
    if len(data) != expected:
        raise ValueError(f"{name} is damaged: it has {len(data)} bytes and should have {expected}")
    end = HEADER + count * POSITION.itemsize
    searched = Searched(np.frombuffer(data[HEADER:end], POSITION), np.frombuffer(data[end:], ENTRY))
    last = searched.positions["first"].astype(np.int64) + searched.positions["moves"]
    if count and int(last.max()) > entries:
        raise ValueError(f"{name} is damaged: positions have visits that are not there")
    return searched


def whole_files(folder: Path, complain: Callable[[str], None]) -> list[Path]:
    """The files of visits in a self-play folder with valid checksums; the others are reported to `complain`."""
    files, known = [], set()
    for part in sorted(folder.glob("part-*.json")):
        try:
            sums = json.loads(unchanged(part.read_bytes()))["files"]
        except (ValueError, KeyError, TypeError):
            complain(f"{part} is damaged: its positions are left out")
            continue
        for name, expected in sums.items():
            if not name.endswith(".vis"):
                continue
            path = folder / name
            known.add(path)
            if not path.is_file():
                complain(f"{path} is missing: left out")
            elif hashlib.sha256(path.read_bytes()).hexdigest() != expected:
                complain(f"{path} is damaged (its checksum is another): left out")
            else:
                files.append(path)
    for path in sorted(set(folder.glob("positions-*.vis")) - known):
        complain(f"{path} belongs to no part: left out")
    return files


def unchanged(part: bytes) -> bytes:
    """The bytes of a part's file. Raises ValueError if they do not match its checksum."""
    entry = re.search(rb',\n  "sha256": "([^"]*)"\n}\n$', part)
    if entry is None:
        raise ValueError("there is no checksum at the end")
    if hashlib.sha256(part[: entry.start()] + b"\n}\n").hexdigest() != entry[1].decode():
        raise ValueError("the checksum does not match")
    return part


def positions_of(files: list[Path]) -> int:
    """The number of positions in files of visits, from their headers."""
    total = 0
    for path in files:
        with open(path, "rb") as file:
            total += int.from_bytes(file.read(32)[24:], "little")
    return total


def has_held_out(path: Path) -> bool:
    """Whether a file of visits has positions that are marked as held out. Damage is left to its readers."""
    count = min(positions_of([path]), path.stat().st_size // POSITION.itemsize - 1)
    return count > 0 and bool((np.memmap(path, POSITION, "r", HEADER, (count,))["flags"] & HELD_OUT).any())


def result_share(positions: np.ndarray, share: tuple[float, float]) -> np.ndarray:
    """k of each position: linear from the first of a game to its end, as `--result-share` of `scorn train`."""
    games, index = np.unique(positions["game"], return_inverse=True)
    left = positions["plies_left"].astype(np.float64)
    longest = np.zeros(len(games))
    np.maximum.at(longest, index, left)
    return share[1] + (share[0] - share[1]) * left / np.maximum(longest[index], 1)


def targets(positions: np.ndarray, share: tuple[float, float]) -> np.ndarray:
    """The W/D/L targets [n, 3] of the value: k z + (1 - k) q."""
    q = np.clip(positions["q"] / 32767, -1, 1)
    d = np.minimum(positions["d"] / 65535, 1 - np.abs(q))
    searched = np.stack([(1 - d + q) / 2, d, (1 - d - q) / 2], axis=1)
    known = positions["result"] != NO_RESULT
    k = np.where(known, result_share(positions, share), 0)
    result = np.zeros((len(positions), 3))
    result[np.flatnonzero(known), 2 - positions["result"][known].astype(np.int64)] = 1
    return k[:, None] * result + (1 - k[:, None]) * searched


def _keys(positions: np.ndarray) -> np.ndarray:
    """The network's input for each position as one item, independent of the actual side to move."""
    keys = np.zeros(len(positions), [("board", "u1", 32), ("state", "u1"), ("ep", "u1"), ("rule50", "u1")])
    keys["board"], keys["ep"] = positions["board"], positions["ep"]
    keys["state"] = positions["state"] & (CASTLING | CHESS960)
    keys["rule50"] = np.searchsorted(RULE50_STEPS, positions["rule50"], side="right")
    return np.ascontiguousarray(keys).view(np.dtype((np.void, keys.dtype.itemsize))).ravel()


@dataclass
class Pool:
    """Unique positions, their means, and how often each occurred."""

    searched: Searched
    count: np.ndarray


def pool(files: list[tuple[Path, float]], share: tuple[float, float]) -> Pool:
    """Merges equal inputs of weighted files: SumPolicy and SumValue, divided by the sum of the weights.

    The mean value of a position stands in its q and d, and its result is unknown: train with it alone.
    """
    parts = [(parse(path.read_bytes(), path), weight) for path, weight in files]
    positions = np.concatenate([part.positions for part, _ in parts])
    weight = np.concatenate([np.full(len(part), weight) for part, weight in parts])
    wdl = np.concatenate([targets(part.positions, share) for part, _ in parts])
    _, kept, index, count = np.unique(_keys(positions), return_index=True, return_inverse=True, return_counts=True)
    total = np.bincount(index, weight)
    mean = np.stack([np.bincount(index, weight * wdl[:, at]) / total for at in range(3)], axis=1)
    plies = np.bincount(index, weight * positions["plies_left"]) / total
    out = positions[kept]
    out["flags"], out["score"], out["result"], out["game"] = ENGINE_GAME, 0, NO_RESULT, 0
    out["plies_left"] = np.minimum(np.rint(plies), NO_PLIES - 1)
    out["q"] = np.rint((mean[:, 0] - mean[:, 2]) * 32767)
    out["d"] = np.rint(mean[:, 1] * 65535)
    owner, move, policy = _policies(parts, index, weight)
    sums, inverse = np.unique(owner << 16 | move, return_inverse=True)
    visits = np.rint(np.bincount(inverse, policy) / total[sums >> 16] * POLICY_ONE)
    entries = np.zeros(len(sums), ENTRY)
    entries["move"], entries["visits"] = sums & 0xFFFF, visits
    out["moves"] = np.bincount(sums >> 16, minlength=len(kept))
    out["first"] = np.concatenate([[0], np.cumsum(out["moves"].astype(np.int64))[:-1]]) if len(kept) else 0
    out["visits"] = np.minimum(np.bincount(index, positions["visits"]), 2**32 - 1)
    return Pool(Searched(out, entries), count)


def _policies(parts: list, index: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For all entries: their position (in the pool), the move, and its weighted share of the policy."""
    owners, moves, policies, start = [], [], [], 0
    for part, _ in parts:
        lengths = part.positions["moves"].astype(np.int64)
        row = np.repeat(np.arange(len(part)), lengths)
        within = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        entries = part.entries[part.positions["first"].astype(np.int64)[row] + within]
        total = np.maximum(np.bincount(row, entries["visits"], minlength=len(part)), 1)
        owners.append(index[start + row])
        moves.append((entries["move"] & ~np.uint16(FROZEN)).astype(np.int64))
        policies.append(entries["visits"] / total[row] * weight[start + row])
        start += len(part)
    return np.concatenate(owners).astype(np.int64), np.concatenate(moves), np.concatenate(policies)


def subset(pooled: Pool, size: int, seed: int) -> Searched:
    """A subset of the positions by Count: a fifth from the most frequent fifth, a fifth from the first two fifths, ...

    None is taken twice: a fifth that is used up gives way to the next. All, if there are not more.
    """
    total = len(pooled.searched)
    if total <= size:
        return pooled.searched
    rng = np.random.default_rng(seed)
    order = np.argsort(-pooled.count, kind="stable")
    taken = np.zeros(total, bool)
    for fifth in range(1, 6):
        among = order[: -(-total * fifth // 5)]
        among = among[~taken[among]]
        wanted = size * fifth // 5 - int(taken.sum())
        taken[rng.choice(among, min(wanted, len(among)), replace=False)] = True
    return select(pooled.searched, np.flatnonzero(taken))


def select(searched: Searched, which: np.ndarray) -> Searched:
    """Some of the positions, with their entries."""
    positions = searched.positions[which].copy()
    lengths = positions["moves"].astype(np.int64)
    row = np.repeat(np.arange(len(positions)), lengths)
    within = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    entries = searched.entries[positions["first"].astype(np.int64)[row] + within]
    positions["first"] = np.cumsum(lengths) - lengths
    return Searched(positions, entries)
