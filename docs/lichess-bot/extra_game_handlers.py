"""Which challenges from a position the bot accepts: replaces the file of this name beside lichess-bot.py.

Refused are positions that are not legal or already over, that have more material than a game can have, or in which one
side is so far ahead that there is nothing to play for. The limits are the constants below.
"""

import chess

MAX_BEHIND = 24
"""Pawns (queen 9, rook 5, bishop and knight 3) by which the bot may be behind: a queen, two rooks and a bishop are 22."""
MAX_AHEAD = 24
"""Pawns by which the opponent may be behind."""
MIN_OWN = 3
"""Pawns that the bot must have at least: with a bare king it cannot win."""
MAX_PROMOTED = 0
"""Pieces beyond those of the normal start that a side may have."""
WORTH = {chess.PAWN: 1, chess.KNIGHT: 3, chess.BISHOP: 3, chess.ROOK: 5, chess.QUEEN: 9}
AT_START = {chess.KNIGHT: 2, chess.BISHOP: 2, chess.ROOK: 2, chess.QUEEN: 1}


def material(board, side):
    return sum(worth * len(board.pieces(piece, side)) for piece, worth in WORTH.items())


def refusal(fen, bot_is_white):
    """Why a position is not played; None if it is."""
    try:
        board = chess.Board(fen, chess960=True)
    except ValueError as error:
        return f"not a position: {error}"
    if not board.is_valid():
        return f"not legal: {board.status()!r}"
    if board.is_game_over():
        return "the game is over"
    for side in chess.COLORS:
        promoted = sum(max(len(board.pieces(piece, side)) - count, 0) for piece, count in AT_START.items())
        if promoted > MAX_PROMOTED:
            return "more pieces than at the start"
    own, other = material(board, bot_is_white), material(board, not bot_is_white)
    if own < MIN_OWN:
        return "the bot has nothing to play with"
    if own - other > MAX_AHEAD or other - own > MAX_BEHIND:
        return "one side is too far ahead"
    return None


def is_supported_extra(challenge):
    """Called by lichess-bot for a challenge that the configuration allows."""
    if challenge.variant != "fromPosition":
        return True
    # The colour of a challenge is the challenger's.
    return refusal(challenge.initial_fen, challenge.color == "black") is None


def game_specific_options(game):  # noqa: ARG001
    """No options: the engine's profiles set them."""
    return {}
