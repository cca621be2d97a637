"""Openings for games between models of people (human.sh): normal ones, and starts at odds for either side.

Writes normal-train.epd, odds-train.epd and, with a twentieth of the openings selected by a hash, normal-test.epd and
odds-test.epd: no test game starts from an opening of the training games. Besides the given odds books, odds of many kinds
are made by removing pieces from the start position and from openings.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import random
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TextIO

import chess
import chess.pgn

from .files import write_whole
from .runs import command

# Pieces that a side gives, and how often.
ODDS = {
    **{"q": 4, "r": 2, "n": 3, "b": 2, "nn": 1.5, "bn": 1.5, "bb": 1},
    **{"rn": 1, "qn": 1, "qr": 1, "rr": 0.7, "p": 0.6},
}
FROM_START = 0.1  # share of the odds that are made from the start position
TEST = 13  # of 256


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the four files are written")
    book = "EPD or PGN, also packed as .gz, and how many openings of it"
    parser.add_argument("--book", action="append", default=[], metavar="FILE:COUNT", help=book)
    odds = "EPD of positions at odds, also packed as .gz, all of it"
    parser.add_argument("--odds", action="append", default=[], type=Path, metavar="FILE", help=odds)
    parser.add_argument("--made", type=int, default=30000, help="odds to make besides")
    parser.add_argument("--seed", type=int, default=49)
    return parser.parse_args(argv)


def openings(path: Path) -> Iterator[str]:
    """The positions of an EPD file, or those after the moves of a PGN file's games: four fields, possible
    castling rights only.

    Raises ValueError that names the file if it is neither text nor text packed by gzip.
    """
    is_packed = path.suffix == ".gz"
    opener = gzip.open if is_packed else open
    kind = Path(path.stem).suffix if is_packed else path.suffix
    try:
        with opener(path, "rt", encoding="utf-8") as file:
            yield from (ends_of_games(file) if kind == ".pgn" else positions_of_epd(file))
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} is neither text nor text packed as .gz ({error}): unpack it first") from error


def ends_of_games(file: TextIO) -> Iterator[str]:
    """The positions after the moves of games."""
    while game := chess.pgn.read_game(file):
        yield game.end().board().epd()


def positions_of_epd(file: TextIO) -> Iterator[str]:
    """The positions of EPD from which a game can go on."""
    for line in file:
        fields = line.split()
        if len(fields) >= 4 and (text := position(chess.Board(" ".join(fields[:4]) + " 0 1"))):
            yield text


def position(board: chess.Board) -> str | None:
    """A position's four fields, if a game can go on from it."""
    board.castling_rights = board.clean_castling_rights()
    return board.epd() if board.is_valid() and not board.is_game_over() else None


def odds_board(squares: list[str], giver: chess.Color) -> chess.Board:
    """The start position without White's pieces on these squares, or without those of Black that face them."""
    board = chess.Board()
    for name in squares:
        square = chess.parse_square(name)
        board.remove_piece_at(square if giver else chess.square_mirror(square))
    board.castling_rights = board.clean_castling_rights()
    return board


def at_odds(opening: str, rng: random.Random) -> str | None:
    """The opening without some pieces of one side, if it has them."""
    board = chess.Board(f"{opening} 0 1")
    side = rng.choice(chess.COLORS)
    [given] = rng.choices(list(ODDS), list(ODDS.values()))
    for symbol in given:
        squares = list(board.pieces(chess.Piece.from_symbol(symbol).piece_type, side))
        if not squares:
            return None
        board.remove_piece_at(rng.choice(squares))
    board.ep_square = None
    return position(board)


def is_for_testing(opening: str) -> bool:
    return hashlib.sha256(opening.encode()).digest()[0] < TEST


def main() -> None:
    args = arguments()
    rng = random.Random(args.seed)
    normal: list[str] = []
    for book in args.book:
        path, count = book.rsplit(":", 1)
        found = list(openings(Path(path)))
        normal += rng.sample(found, min(int(count), len(found)))
    odds = {opening for path in args.odds for opening in openings(path)}
    starts = sorted(set(normal))
    made = (at_odds(chess.STARTING_FEN[:-4] if rng.random() < FROM_START else rng.choice(starts), rng) for _ in iter(int, 1))
    odds |= set(islice((opening for opening in made if opening), args.made))
    for name, all_of_them in (("normal", set(normal)), ("odds", odds)):
        for kind, wanted in (("train", False), ("test", True)):
            chosen = [opening for opening in sorted(all_of_them) if is_for_testing(opening) == wanted]
            rng.shuffle(chosen)
            text = "".join(f"{opening}\n" for opening in chosen)
            args.folder.mkdir(parents=True, exist_ok=True)
            write_whole(args.folder / f"{name}-{kind}.epd", lambda partial: partial.write_text(text))


if __name__ == "__main__":
    command("human_books", main)
