"""Record files written by `scorn dataset` (layout: src/dataset/record.rs), and batches made of them."""

from __future__ import annotations

from dataclasses import dataclass
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

NO_SCORE = -32768
MATE = 32000
SHORTEST_MATE = MATE - 1000  # or a win of which it is not known how long it takes; what is larger is MATE - plies
NO_RESULT = 255
NO_PLIES = 65535
HELD_OUT = 1
SOURCES = [
    *["game", "engine game", "chess960 engine game"],
    *["real", "random moves", "odds", "unbalanced", "endgame", "visited", "chess960 game"],
]


def open_records(path: Path | str) -> np.ndarray:
    """The file as an array on disk; a half-written last record is left out."""
    with open(path, "rb") as file:
        header = file.read(12)
        size = file.seek(0, 2)
    if header[:8] != MAGIC:
        raise ValueError(f"{path} is not a record file")
    version = int.from_bytes(header[8:12], "little")
    if version not in FORMATS:
        raise ValueError(f"{path} has record format {version}, this program reads 1 and 2")
    dtype = FORMATS[version]
    count = size // dtype.itemsize - 1
    if count <= 0:
        return np.zeros(0, dtype)
    return np.memmap(path, dtype, "r", dtype.itemsize, (count,))


def ranked(records: np.ndarray) -> np.ndarray:
    """The records with room for alternatives, which plain files have not."""
    if records.dtype == RANKED:
        return records
    out = np.zeros(len(records), RANKED)
    for name in DTYPE.names:
        out[name] = records[name]
    return out


def held_out(records: np.ndarray) -> np.ndarray:
    return (records["flags"] & HELD_OUT) != 0


def source(records: np.ndarray) -> np.ndarray:
    return records["flags"] >> 4


def boards(records: np.ndarray) -> np.ndarray:
    """Piece codes [n, 64]: 0 empty, 1-6 own P N B R Q K, 7-12 the opponent's."""
    packed = np.ascontiguousarray(records["board"])
    codes = np.empty((len(packed), 64), np.uint8)
    codes[:, 0::2] = packed & 15
    codes[:, 1::2] = packed >> 4
    return codes


def mirror_files(codes: np.ndarray, ep: np.ndarray, move: np.ndarray, which: np.ndarray) -> None:
    """Mirrors boards left to right in place, their moves [n, k] too. Only for positions without castling rights."""
    codes[which] = codes[which].reshape(-1, 8, 8)[:, :, ::-1].reshape(-1, 64)
    ep[which] = np.where(ep[which] < 8, 7 - ep[which], ep[which])
    move[which] ^= 7 | 7 << 6


@dataclass
class WdlModel:
    """Centipawns to win, draw and loss: W = sigmoid((c - a) / b), L = sigmoid((-c - a) / b), c = softened cp.

    Up to `knee` centipawns c is cp itself. Beyond, where every game is won between engines, c grows with the logarithm
    of cp: so the network still tells a queen from a rook, and the search prefers the larger advantage.
    """

    a: float
    b: float
    knee: float

    def __call__(self, cp: np.ndarray) -> np.ndarray:
        cp = cp.astype(np.float32)
        beyond = np.maximum(np.abs(cp) / self.knee - 1, 0)
        soft = np.clip(cp, -self.knee, self.knee) + np.copysign(self.knee * np.log1p(beyond), cp)
        win = 1 / (1 + np.exp((self.a - soft) / self.b))
        loss = 1 / (1 + np.exp((self.a + soft) / self.b))
        return np.stack([win, np.maximum(1 - win - loss, 0), loss], axis=1)


# Pawn, knight, bishop, rook, queen, king; in centipawns, as people count them.
PIECE_VALUES = np.array([0, 100, 320, 330, 490, 1000, 0, -100, -320, -330, -490, -1000, 0], np.float32)
DECIDED = 400.0


def with_material(score: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Evaluations in which decided positions are told apart by their material.

    Stockfish 15.1 gives the start position without a knight -500, without a rook -600, without a queen -660 and with an
    extra rook more than with an extra queen: its scale ends there. What goes beyond `DECIDED` is therefore half the
    evaluation's and half that of the pieces on the board, for the side that the evaluation favours.
    """
    score = score.astype(np.float32)
    material = PIECE_VALUES[codes].sum(axis=1) * np.sign(score)
    beyond = (np.maximum(np.abs(score) - DECIDED, 0) + np.maximum(material - DECIDED, 0)) / 2
    is_decided = (np.abs(score) > DECIDED) & (np.abs(score) < SHORTEST_MATE)
    return np.where(is_decided, np.copysign(DECIDED + beyond, score), score)


@dataclass
class Batch:
    """What one training step sees, as numpy arrays."""

    codes: np.ndarray  # u8 [n, 64]
    extras: np.ndarray  # f32 [n, 5]: four castling rights, rule 50 / 100
    ep: np.ndarray  # u8 [n], file or 255
    move: np.ndarray  # u16 [n, 5], packed: the best one, then alternatives; 0: none
    move_share: np.ndarray  # f32 [n, 5], the policy's target: sums to 1 where a move is known, else 0
    wdl: np.ndarray  # f32 [n, 3]
    value_weight: np.ndarray  # f32 [n]
    plies: np.ndarray  # f32 [n]
    plies_weight: np.ndarray  # f32 [n]


def move_shares(records: np.ndarray, wdl_model: WdlModel, temperature: float) -> np.ndarray:
    """How much of the policy each move gets, f32 [n, 5]: exp(-loss / temperature) of the expected score it loses.

    Where no alternatives are known the best move gets everything; so it does with temperature 0.
    """
    alternatives = records["alternatives"]
    shares = np.zeros((len(records), 1 + alternatives.shape[1]), np.float32)
    shares[:, 0] = records["move"] != 0
    known = np.flatnonzero((alternatives["move"][:, 0] != 0) & (shares[:, 0] > 0))
    if temperature > 0 and len(known):
        scores = np.concatenate([records["score"][known, None], alternatives["score"][known]], axis=1)
        wdl = wdl_model(scores.ravel())
        expected = (wdl[:, 0] + wdl[:, 1] / 2).reshape(scores.shape)
        # A teacher that was interrupted may have looked deeper into the first moves: none is better than the best.
        weights = np.exp(-np.maximum(expected[:, :1] - expected, 0) / temperature)
        weights[:, 1:] *= alternatives["move"][known] != 0
        shares[known] = weights / weights.sum(axis=1, keepdims=True)
    return shares


def make_batch(
    records: np.ndarray,
    wdl_model: WdlModel,
    rng: np.random.Generator | None,
    result_weight: float,
    result_mix: float,
    policy_temperature: float = 0.0,
) -> Batch:
    """Targets of records.

    Moves get their part of the policy by `move_shares`. A score becomes a W/D/L target through `wdl_model`; where the
    result is known too, it is mixed in with `result_mix`. A result without a score is a noisy target and counts
    `result_weight`. With `rng`, half of the positions without castling rights are mirrored.
    """
    records = ranked(records)
    codes = boards(records)
    ep = records["ep"].copy()
    move = np.concatenate([records["move"][:, None], records["alternatives"]["move"]], axis=1)
    castling = records["state"] & 15
    if rng is not None:
        mirror_files(codes, ep, move, (castling == 0) & (rng.random(len(records)) < 0.5))
    extras = np.empty((len(records), 5), np.float32)
    for bit in range(4):
        extras[:, bit] = (castling >> bit) & 1
    extras[:, 4] = np.minimum(records["rule50"], 100) / 100
    score, result = records["score"], records["result"]
    has_score, has_result = score != NO_SCORE, result != NO_RESULT
    wdl = wdl_model(with_material(score, codes))
    outcome = np.zeros((len(records), 3), np.float32)
    known = np.flatnonzero(has_result)
    outcome[known, 2 - result[known]] = 1
    mix = np.where(has_score, np.where(has_result, result_mix, 0), 1)[:, None]
    plies = records["plies_left"].astype(np.float32)
    return Batch(
        codes=codes,
        extras=extras,
        ep=ep,
        move=move,
        move_share=move_shares(records, wdl_model, policy_temperature),
        wdl=(wdl * (1 - mix) + outcome * mix).astype(np.float32),
        value_weight=np.where(has_score, 1, np.where(has_result, result_weight, 0)).astype(np.float32),
        plies=np.minimum(plies, 300),
        plies_weight=(records["plies_left"] != NO_PLIES).astype(np.float32),
    )
