"""A match between two UCI engines from book positions, every position with both colours.

Each side is a command line with options after it: `scorn;Backend=onnx-cpu;WeightsFile=net.onnx`.
"""

from __future__ import annotations

import argparse
import gzip
import math
import random
import shlex
from pathlib import Path

import chess
import chess.engine


def positions(path: Path, count: int, seed: int) -> list[str]:
    """Positions of an EPD file (plain or .gz), at random."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt") as file:
        lines = [" ".join(line.split(";")[0].split()[:4]) + " 0 1" for line in file if line.strip()]
    return random.Random(seed).sample(lines, min(count, len(lines)))


def start(text: str) -> chess.engine.SimpleEngine:
    command, *options = text.split(";")
    engine = chess.engine.SimpleEngine.popen_uci(shlex.split(command), timeout=60)
    engine.configure(dict(option.split("=", 1) for option in options))
    return engine


def limit(text: str) -> chess.engine.Limit:
    """`time=0.5`, `nodes=100`."""
    name, value = text.split("=")
    return chess.engine.Limit(**{name: int(value) if name == "nodes" else float(value)})


def play(
    fen: str, white: chess.engine.SimpleEngine, black: chess.engine.SimpleEngine, limits: dict[chess.Color, chess.engine.Limit]
) -> float:
    """White's score of one game; games without end are drawn after 250 moves."""
    board = chess.Board(fen)
    game = object()
    while not board.is_game_over(claim_draw=True) and board.ply() < 500:
        engine = white if board.turn else black
        board.push(engine.play(board, limits[board.turn], game=game).move)
    result = board.result(claim_draw=True)
    return {"1-0": 1.0, "0-1": 0.0}.get(result, 0.5)


def elo(score: float) -> float:
    return -400 * math.log10(1 / min(max(score, 1e-6), 1 - 1e-6) - 1)


def report(pairs: list[float], wins: int, draws: int, losses: int) -> str:
    """Score and Elo with a 95 % interval from the spread of the game pairs' means."""
    n = len(pairs)
    mean = sum(pairs) / n
    spread = math.sqrt(sum((pair - mean) ** 2 for pair in pairs) / max(1, n - 1) / n)
    low, high = mean - 1.96 * spread, mean + 1.96 * spread
    return (
        f"{2 * n} games: +{wins} ={draws} -{losses}, {100 * mean:.1f} % ({100 * low:.1f} to {100 * high:.1f}), "
        f"Elo {elo(mean):+.0f} ({elo(low):+.0f} to {elo(high):+.0f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first")
    parser.add_argument("second")
    parser.add_argument("--book", type=Path, required=True, help="EPD file")
    parser.add_argument("--pairs", type=int, default=100, help="pairs of games")
    parser.add_argument("--limit", default="time=1")
    parser.add_argument("--second-limit", help="if it differs")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    first, second = start(args.first), start(args.second)
    mine, other = limit(args.limit), limit(args.second_limit or args.limit)
    pairs: list[float] = []
    counts = {1.0: 0, 0.5: 0, 0.0: 0}
    try:
        for fen in positions(args.book, args.pairs, args.seed):
            as_white = play(fen, first, second, {chess.WHITE: mine, chess.BLACK: other})
            as_black = 1 - play(fen, second, first, {chess.WHITE: other, chess.BLACK: mine})
            for score in (as_white, as_black):
                counts[score] += 1
            pairs.append((as_white + as_black) / 2)
            print(report(pairs, counts[1.0], counts[0.5], counts[0.0]), flush=True)
    finally:
        first.quit()
        second.quit()


if __name__ == "__main__":
    main()
