"""Compares lc0's training chunks with their games, by python-chess and the published format: board, castling rights,
clocks, moves, visits, results, evaluations.

Usage: check_chunks.py FOLDER, written by `scorn selfplay --chunks --out FOLDER` with samples of both sides
"""

import glob
import gzip
import math
import sys

import chess
import chess.pgn

from read_chunk import LAYOUT, position

PIECES = [chess.PAWN, chess.KNIGHT, chess.BISHOP, chess.ROOK, chess.QUEEN, chess.KING]


def policy_moves() -> list[str]:
    """lc0's 1858 moves: queen and knight moves on an empty board, then promotions to other pieces than a knight."""
    moves = []
    for start in chess.SQUARES:
        reach = chess.SquareSet()
        for piece in (chess.QUEEN, chess.KNIGHT):
            board = chess.Board(None)
            board.set_piece_at(start, chess.Piece(piece, chess.WHITE))
            reach |= board.attacks(start)
        moves += [chess.square_name(start) + chess.square_name(end) for end in reach]
    for start in range(8):
        for end in (start - 1, start, start + 1):
            if 0 <= end < 8:
                move = chess.square_name(48 + start) + chess.square_name(56 + end)
                moves += [move + piece for piece in "qrb"]
    return moves


MOVES = policy_moves()
INDEX = {move: index for index, move in enumerate(MOVES)}
assert len(MOVES) == 1858


def seen(board: chess.Board, move: chess.Move) -> int:
    """The move's index in the policy: the side to move plays up the board, a promotion without a piece is to a knight,
    and castling is the king taking its rook."""
    start, end = move.from_square, move.to_square
    if board.is_castling(move):
        end = chess.square(7 if end > start else 0, chess.square_rank(start))
    if board.turn == chess.BLACK:
        start, end = chess.square_mirror(start), chess.square_mirror(end)
    piece = "" if move.promotion in (None, chess.KNIGHT) else chess.piece_symbol(move.promotion)
    return INDEX[chess.square_name(start) + chess.square_name(end) + piece]


def planes(board: chess.Board) -> list[int]:
    """The twelve planes of the current position from the side to move's view: own pieces, then the other side's."""
    found = []
    for color in (board.turn, not board.turn):
        for piece in PIECES:
            squares = board.pieces(piece, color)
            found.append(int(squares if board.turn else squares.mirror()))
    return found


def check(name: str, game: chess.pgn.Game, chunk: bytes) -> int:
    nodes = list(game.mainline())
    score = {"1-0": 1, "0-1": -1, "1/2-1/2": 0}[game.headers["Result"]]
    samples = [position(chunk[at : at + LAYOUT.size]) for at in range(0, len(chunk), LAYOUT.size)]
    compared = 0
    searched = [(ply, node) for ply, node in enumerate(nodes) if "random" not in node.comment]
    assert len(samples) == len(searched), f"{name}: {len(samples)} positions of {len(searched)} moves"
    for (ply, node), sample in zip(searched, samples):
        board, values, where = node.parent.board(), sample["values"], f"{name}, ply {ply}"
        own, other = board.turn, not board.turn
        assert [int(plane) for plane in sample["planes"][:12]] == planes(board), where
        rights = [
            board.has_queenside_castling_rights(own),
            board.has_kingside_castling_rights(own),
            board.has_queenside_castling_rights(other),
            board.has_kingside_castling_rights(other),
        ]
        assert [bool(right) for right in sample["castling"]] == rights, where
        assert (sample["black"], sample["rule50"]) == (int(not own), board.halfmove_clock), where
        probabilities = sample["probabilities"]
        legal = {seen(board, move) for move in board.legal_moves}
        assert legal == {index for index, p in enumerate(probabilities) if p >= 0}, where
        assert sample["played_idx"] == seen(board, node.move), where
        visits = int(node.comment.split("[%nodes ")[1].split("]")[0])
        assert sample["visits"] == visits, where
        counts = [p * (visits - 1) for p in probabilities if p >= 0]
        assert all(abs(count - round(count)) < 0.02 for count in counts), where
        if game.headers["Termination"] == "normal" and game.headers["TerminationDetails"] != "resignation":
            # In an unfinished game it is the network's estimate.
            assert values["plies_left"] == len(nodes) - ply, where
        result = score if own else -score
        assert (values["result_q"], values["result_d"]) == (result, int(result == 0)), where
        for kind in ("root", "best", "played"):
            q, d = values[f"{kind}_q"], values[f"{kind}_d"]
            assert d >= 0 and abs(q) + d <= 1.0001, where
        # The evaluation of the move played: per mille, and the advantage in a model in which wins and losses are the
        # tails of a logistic distribution of the width 0.9: W - L of that advantage is what was stored.
        wdl = [int(part) / 1000 for part in node.comment.split("[%wdl ")[1].split("]")[0].split(",")]
        win, draw, loss = wdl if own else wdl[::-1]
        assert abs(win - loss - values["played_q"]) < 0.0011 and abs(draw - values["played_d"]) < 0.0011, where
        reported = node.eval().pov(own)
        # Near certainty another formula takes its place.
        if not reported.is_mate() and abs(reported.score()) < 200:
            pawns = reported.score() / 100
            win, loss = (1 / (1 + math.exp((1 - sign * pawns) / 0.9)) for sign in (1, -1))
            assert abs(win - loss - values["played_q"]) < 0.0031, f"{where}: {values} {reported}"
            compared += 1
    assert compared > 0, f"{name}: no evaluation was compared"
    return len(samples)


def main() -> None:
    folder = sys.argv[1]
    games = []
    for path in sorted(glob.glob(f"{folder}/games-*.pgn")):
        with open(path, encoding="utf-8") as file:
            while game := chess.pgn.read_game(file):
                games.append(game)
    chunks = sorted(glob.glob(f"{folder}/lc0/*.gz"))
    assert games and len(games) == len(chunks), f"{len(games)} games, {len(chunks)} chunks"
    count = 0
    for path, game in zip(chunks, games):
        with gzip.open(path, "rb") as file:
            count += check(path, game, file.read())
    print(f"{len(games)} games, {count} positions: chunks and games agree")


if __name__ == "__main__":
    main()
