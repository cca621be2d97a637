"""Does the network know what pieces are worth? Evaluations of the start position with pieces missing."""

from __future__ import annotations

import argparse
from pathlib import Path

import chess

from .human_books import odds_board
from .play import Player
from .runs import command

# From the side that gives the odds, worst first.
ODDS = {
    "queen": ["d1"],
    "two rooks": ["a1", "h1"],
    "rook and knight": ["a1", "b1"],
    "two knights": ["b1", "g1"],
    "rook": ["a1"],
    "bishop": ["c1"],
    "knight": ["b1"],
    "pawn": ["f2"],
    "nothing": [],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("onnx", type=Path)
    args = parser.parse_args()
    player = Player(args.onnx)
    print("| missing | White gives: W / D / L for White | Black gives: W / D / L for White |\n|---|---|---|")
    for name, squares in ODDS.items():
        texts = []
        for giver in chess.COLORS:
            _, wdl = player.evaluate(odds_board(squares, giver))
            texts.append(" / ".join(f"{100 * value:.1f}" for value in wdl))
        print(f"| {name} | {texts[0]} | {texts[1]} |")


if __name__ == "__main__":
    command("odds", main)
