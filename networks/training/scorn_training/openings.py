"""Openings for matches: a few random moves, kept if the position is balanced.

Nothing is learned from them: the built-in network judges them, and games that are played from them are gates and
ratings.
"""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path

import chess

from .execution import Program
from .files import write_whole

# Largest absolute score of a balanced position in centipawns, by a short search.
BALANCED = 50
NODES = 100


def random_positions(count: int, seed: int) -> list[str]:
    """Distinct positions after 4 to 8 random moves (EPD), with most of the pieces: captures are rare."""
    rng = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        board = chess.Board()
        for _ in range(rng.choice([4, 6, 8])):
            board.push(rng.choice(list(board.legal_moves)))
            if board.is_game_over():
                break
        if not board.is_game_over() and not board.is_check():
            found[board.epd()] = None
    return list(found)


def make(path: Path, program: Program, count: int, seed: int) -> None:
    """Writes a book of balanced positions, unless it exists."""
    if path.exists():
        return
    balanced: list[str] = []
    for attempt in range(20):
        with tempfile.TemporaryDirectory() as folder:
            epd = Path(folder) / "positions.epd"
            positions = random_positions(3 * count, seed + attempt)
            epd.write_text("".join(f"{position}\n" for position in positions))
            arguments = ["analyze", "--epd", str(epd), "--nodes", str(NODES), "--json"]
            lines = program.run([*arguments, "--threads", "1", "--score-type", "centipawn"]).splitlines()
        for position, line in zip(positions, lines):
            score = json.loads(line)["lines"][0].get("score")  # a mate has none
            if score is not None and abs(score) <= BALANCED and position not in balanced:
                balanced.append(position)
        if len(balanced) >= count:
            break
    text = "".join(f"{position}\n" for position in balanced[:count])
    write_whole(path, lambda partial: partial.write_text(text))
