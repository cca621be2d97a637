"""AlphaZero's planes and moves by an independent encoder, for comparison with Scorn's. Writes
tests/data/alphazero/planes.jsonl:

    python3 -m pip install 'chess>=1.11,<2' && python3 tests/python/alphazero_planes.py > tests/data/alphazero/planes.jsonl

A line is a game: its planes (only those that are not empty) as a mask of squares (hexadecimal, bit 0 is a1) and the value on
them, and the index in the policy vector of each legal move (castling written as king takes rook).
"""

import json

import chess

START = chess.STARTING_FEN
SHUFFLE = "g1f3 g8f6 f3g1 f6g8 "
GAMES = {
    "start": (START, ""),
    "first move": (START, "e2e4"),
    "castling both ways": ("r3k2r/pppq1ppp/2npbn2/2b1p3/2B1P3/2NPBN2/PPPQ1PPP/R3K2R w KQkq - 4 9", ""),
    "castled and long": (
        START,
        "e2e4 e7e5 g1f3 b8c6 f1b5 a7a6 b5a4 g8f6 e1g1 f8e7 f1e1 b7b5 a4b3 d7d6 c2c3 e8g8",
    ),
    "second occurrence": (START, SHUFFLE),
    "third occurrence": (START, SHUFFLE * 2 + "g1f3"),
    "promotions of black": ("7k/8/8/8/8/8/1p4K1/R1R5 b - - 3 61", ""),
    "en passant": ("4k3/8/8/8/3pP3/8/8/4K3 b - e3 0 40", ""),
    "chess960": ("1rkr4/pppppppp/8/8/8/8/PPPPPPPP/1R1K2R1 w GBdb - 0 9", ""),
}


def squares(board, colour, piece):
    """The squares of some pieces as coordinates from the side to move's point of view."""
    flip = 0 if board.mover == chess.WHITE else 7
    return [(chess.square_file(s), chess.square_rank(s) ^ flip) for s in board.position.pieces(piece, colour)]


class Seen:
    """A position of the game, from the point of view of the side to move at its end."""

    def __init__(self, position, mover):
        self.position, self.mover = position, mover


def planes(board):
    """The planes: 119 dictionaries from coordinates to values."""
    result = [{} for _ in range(119)]
    everywhere = [(f, r) for f in range(8) for r in range(8)]
    mover = board.turn
    past = board.copy()
    for step in range(8):
        seen = Seen(past, mover)
        for side, colour in enumerate([mover, not mover]):
            for kind, piece in enumerate(chess.PIECE_TYPES):
                result[14 * step + 6 * side + kind] = {s: 1 for s in squares(seen, colour, piece)}
        for times in (1, 2):
            if past.is_repetition(times + 1):
                result[14 * step + 11 + times] = {s: 1 for s in everywhere}
        if not past.move_stack:
            break
        past.pop()
    values = [
        int(mover == chess.BLACK),
        2 * (board.fullmove_number - 1) + int(mover == chess.BLACK),
        int(board.has_queenside_castling_rights(mover)),
        int(board.has_kingside_castling_rights(mover)),
        int(board.has_queenside_castling_rights(not mover)),
        int(board.has_kingside_castling_rights(not mover)),
        board.halfmove_clock,
    ]
    for plane, value in enumerate(values, start=112):
        if value:
            result[plane] = {s: value for s in everywhere}
    return result


COMPASS = [(0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1)]
KNIGHT = [(1, 2), (2, 1), (2, -1), (1, -2), (-1, -2), (-2, -1), (-2, 1), (-1, 2)]
WAYS = (
    [(x * n, y * n, None) for x, y in COMPASS for n in range(1, 8)]
    + [(x, y, None) for x, y in KNIGHT]
    + [(x, 1, piece) for piece in (chess.KNIGHT, chess.BISHOP, chess.ROOK) for x in (-1, 0, 1)]
)


def entry(board, move):
    """The index of a move in the 8 x 8 x 73 vector."""
    to = move.to_square
    usual = chess.square_file(move.from_square) == 4
    if board.is_castling(move) and usual:
        # python-chess writes it as the king's two squares unless the game is Chess960.
        right = chess.square_file(to) > 4
        to = chess.square(6 if right else 2, chess.square_rank(to))
    x = chess.square_file(to) - chess.square_file(move.from_square)
    y = chess.square_rank(to) - chess.square_rank(move.from_square)
    rank = chess.square_rank(move.from_square)
    if board.turn == chess.BLACK:
        y, rank = -y, 7 - rank
    piece = None if move.promotion in (None, chess.QUEEN) else move.promotion
    return (rank * 8 + chess.square_file(move.from_square)) * 73 + WAYS.index((x, y, piece))


def main():
    for name, (fen, moves) in GAMES.items():
        board = chess.Board(fen, chess960=name == "chess960")
        for move in moves.split():
            board.push_uci(move)
        seen = {}
        for plane, values in enumerate(planes(board)):
            if values:
                mask = sum(1 << (8 * rank + file) for file, rank in values)
                seen[plane] = [f"{mask:x}", next(iter(values.values()))]
        policy = {board.uci(move, chess960=True): entry(board, move) for move in board.legal_moves}
        print(json.dumps({"id": name, "fen": fen, "moves": moves.strip(), "planes": seen, "policy": policy}))


if __name__ == "__main__":
    main()
