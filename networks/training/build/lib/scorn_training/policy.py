"""The policy vector of 1858 moves, by rule.

From every square, in order, every square that a queen or a knight could reach on an empty board, in order; then the
promotions from a7 to h7: to each square of the eighth rank a pawn could reach, to queen, rook and bishop. A promotion
to a knight is the plain move. Castling is king takes rook. Squares are seen from the side to move.
"""

from __future__ import annotations

import numpy as np


def reachable(start: int, end: int) -> bool:
    files, ranks = abs(start % 8 - end % 8), abs(start // 8 - end // 8)
    if start == end:
        return False
    return files == 0 or ranks == 0 or files == ranks or {files, ranks} == {1, 2}


PAIRS = [(start, end) for start in range(64) for end in range(64) if reachable(start, end)]
PROMOTIONS = [
    (start, end, piece)
    for start in range(48, 56)
    for end in range(56, 64)
    if abs(start % 8 - end % 8) <= 1
    for piece in "qrb"
]
SIZE = len(PAIRS) + len(PROMOTIONS)
assert SIZE == 1858

# Row and column of every index in a 64x64 matrix of squares.
PAIR_INDEX = np.array([start * 64 + end for start, end in PAIRS] + [s * 64 + e for s, e, _ in PROMOTIONS])


def names() -> list[str]:
    """Every index as a move in coordinates."""
    square = [f"{'abcdefgh'[at % 8]}{at // 8 + 1}" for at in range(64)]
    return [square[s] + square[e] for s, e in PAIRS] + [square[s] + square[e] + p for s, e, p in PROMOTIONS]


def _packed_table() -> np.ndarray:
    """Index of every packed move (from, to << 6, promotion << 12 with N B R Q = 1..4), -1 where there is none."""
    table = np.full(5 << 12, -1, np.int64)
    for index, (start, end) in enumerate(PAIRS):
        table[start | end << 6] = index
        table[start | end << 6 | 1 << 12] = index
    for index, (start, end, piece) in enumerate(PROMOTIONS, len(PAIRS)):
        table[start | end << 6 | " nbrq".index(piece) << 12] = index
    return table


PACKED_TO_INDEX = _packed_table()
