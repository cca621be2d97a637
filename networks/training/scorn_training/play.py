"""Plays the move an exported network likes best, without any search: the last step of the smoke test, and a toy."""

from __future__ import annotations

import argparse
from pathlib import Path

import chess
import numpy as np

from . import policy
from .runs import command
from .verify import session


def planes(board: chess.Board) -> np.ndarray:
    """lc0's 112 planes of a game, [1, 112, 8, 8]: up to eight positions of history, seen from the side to move."""
    out = np.zeros((112, 64), np.float32)
    us = board.turn
    past = board.copy()
    for step in range(8):
        for square, piece in past.piece_map().items():
            own = 0 if piece.color == us else 6
            out[13 * step + own + piece.piece_type - 1, square if us else square ^ 56] = 1
        out[13 * step + 12] = past.is_repetition(2)
        if not past.move_stack:
            break
        past.pop()
    for index, (color, side) in enumerate([(us, "a"), (us, "h"), (not us, "a"), (not us, "h")]):
        has = board.has_queenside_castling_rights if side == "a" else board.has_kingside_castling_rights
        out[104 + index] = has(color)
    out[108] = us == chess.BLACK
    out[109] = board.halfmove_clock
    out[111] = 1
    return out.reshape(1, 112, 8, 8)


def index(board: chess.Board, move: chess.Move) -> int:
    """The move's place in the policy vector."""
    start, end = move.from_square, move.to_square
    if board.is_castling(move) and board.piece_at(end) is None:
        end = chess.square(7 if chess.square_file(end) == 6 else 0, chess.square_rank(start))
    if board.turn == chess.BLACK:
        start, end = start ^ 56, end ^ 56
    promotion = {None: 0, chess.KNIGHT: 1, chess.BISHOP: 2, chess.ROOK: 3, chess.QUEEN: 4}[move.promotion]
    return int(policy.PACKED_TO_INDEX[start | end << 6 | promotion << 12])


class Player:
    """An exported network as a player of legal moves."""

    def __init__(self, path: Path):
        self.session = session(path)

    def evaluate(self, board: chess.Board) -> tuple[dict[chess.Move, float], np.ndarray]:
        """Probabilities of the legal moves, and W/D/L for the side to move."""
        logits, wdl, _ = self.session.run(None, {"/input/planes": planes(board)})
        moves = list(board.legal_moves)
        values = np.array([logits[0, index(board, move)] for move in moves])
        weights = np.exp(values - values.max())
        return dict(zip(moves, weights / weights.sum())), wdl[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("onnx", type=Path)
    parser.add_argument("--fen", default=chess.STARTING_FEN)
    args = parser.parse_args()
    board = chess.Board(args.fen)
    moves, wdl = Player(args.onnx).evaluate(board)
    best = max(moves, key=moves.__getitem__)
    print("W/D/L " + " ".join(f"{value:.3f}" for value in wdl))
    print(f"bestmove {best.uci()}")


if __name__ == "__main__":
    command("play", main)
