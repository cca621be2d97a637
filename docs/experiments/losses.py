#!/usr/bin/env python3
"""Where games are lost: what the moves of Scorn and of its opponent cost, by the number of pieces on the board.

    docs/experiments/losses.py judge STOCKFISH JUDGED.jsonl GAMES.pgn...
    docs/experiments/losses.py table JUDGED.jsonl

`judge` lets a strong engine evaluate every position of the games; games that JUDGED.jsonl holds are not judged again.
`table` prints how much of a point a move costs on average (with an interval of 95 % that takes each game as one
cluster, as `scorn stats` does), what that adds up to in a game, and in how many of the drawn games Scorn was ahead by
at least 1.5 pawns once.

Needs python-chess (pip install chess).
"""

import argparse
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path

import chess
import chess.engine
import chess.pgn

# Numbers of pieces, the kings included, from each to the next.
STAGES = (2, 10, 16, 24, 33)
# Pawns of an advantage that should win.
AHEAD = 1.5


def side_of_scorn(game: chess.pgn.Game) -> chess.Color:
    """The side whose name begins with "Scorn"."""
    white, black = (game.headers[side].startswith("Scorn") for side in ("White", "Black"))
    if white == black:
        names = f"{game.headers['White']} and {game.headers['Black']}"
        raise SystemExit(f"a game of {names}: the name of one of them, and no other, has to begin with Scorn")
    return chess.WHITE if white else chess.BLACK


def judged_moves(engine: chess.engine.SimpleEngine, game: chess.pgn.Game, nodes: int) -> list[dict]:
    """Of each move: whether Scorn played it, the pieces before it, the points that it cost its side (0 to 1), and the
    evaluation after it in pawns for Scorn."""
    scorn = side_of_scorn(game)

    def evaluate(board: chess.Board) -> tuple[float, float]:
        score = engine.analyse(board, chess.engine.Limit(nodes=nodes), game=game)["score"].pov(scorn)
        return score.wdl(model="lichess").expectation(), score.score(mate_score=10_000) / 100

    moves, board = [], game.board()
    before, _ = evaluate(board)
    for move in game.mainline_moves():
        by_scorn, pieces = board.turn == scorn, len(board.piece_map())
        board.push(move)
        after, pawns = evaluate(board)
        loss = max(0.0, before - after if by_scorn else after - before)
        moves.append({"scorn": by_scorn, "pieces": pieces, "loss": loss, "pawns": pawns})
        before = after
    return moves


def judge(args: argparse.Namespace) -> None:
    done = {(game["file"], game["number"]) for game in judged(args.judged)}
    with chess.engine.SimpleEngine.popen_uci(args.engine) as engine, open(args.judged, "a", encoding="utf-8") as out:
        engine.configure({"Threads": 1, "Hash": 64})
        for file in args.games:
            with open(file, encoding="utf-8") as games:
                number = 0
                while game := chess.pgn.read_game(games):
                    number += 1
                    if (file, number) in done:
                        continue
                    moves = judged_moves(engine, game, args.nodes)
                    result = game.headers["Result"]
                    line = {"file": file, "number": number, "result": result, "moves": moves}
                    print(json.dumps(line), file=out, flush=True)


def judged(path: str) -> Iterator[dict]:
    """The games that were judged before."""
    if Path(path).exists():
        yield from map(json.loads, Path(path).read_text(encoding="utf-8").splitlines())


def student(freedom: int) -> float:
    """The 97.5 % quantile of Student's distribution, as in src/stats/student.rs."""
    freedom = min(freedom, 1000)

    def within(t: float) -> float:
        angle, odd = math.atan(t / math.sqrt(freedom)), freedom % 2
        term, total = math.cos(angle) if odd else 1.0, 0.0
        for power in range(odd + 2, freedom + 1, 2):
            total += term
            term *= math.cos(angle) ** 2 * (power - 1) / power
        return 2 / math.pi * (angle + math.sin(angle) * total) if odd else math.sin(angle) * total

    low, high = 1.9, 13.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if within(middle) < 0.95 else (low, middle)
    return high


def mean_of_games(games: Iterable[list[float]]) -> tuple[float, float | None]:
    """The mean over all positions of games, and its error of 95 % from the differences between games, as in
    src/stats/clusters.rs; None where these do not differ."""
    games = [game for game in games if game]
    positions, sums = sum(map(len, games)), [math.fsum(game) for game in games]
    mean = math.fsum(sums) / positions
    squares = math.fsum((total - mean * len(game)) ** 2 for total, game in zip(sums, games))
    # What rounding leaves of nothing is no difference.
    if len(games) < 2 or squares <= 1e-12 * math.fsum(total**2 for total in sums):
        return mean, None
    return mean, student(len(games) - 1) * math.sqrt(squares * len(games) / (len(games) - 1)) / positions


def table(args: argparse.Namespace) -> None:
    games = list(judged(args.judged))
    if not games:
        raise SystemExit(f"{args.judged} holds no games: judge some first")
    print("| Pieces | Moves | Scorn loses a move | and a game | Moves | The opponent loses a move | and a game |")
    print("|---|---|---|---|---|---|---|")
    for least, most in zip(STAGES, STAGES[1:]):
        cells = []
        for by_scorn in (True, False):
            losses = [
                [
                    move["loss"]
                    for move in game["moves"]
                    if move["scorn"] == by_scorn and least <= move["pieces"] < most
                ]
                for game in games
            ]
            count = sum(map(len, losses))
            if count < 2:
                cells += [count, "", ""]
                continue
            mean, error = mean_of_games(losses)
            shown = f"{mean:.4f}" if error is None else f"{mean:.4f} ± {error:.4f}"
            cells += [count, shown, f"{sum(map(sum, losses)) / len(games):.2f}"]
        print(f"| {least} to {most - 1} | " + " | ".join(map(str, cells)) + " |")
    drawn = [game for game in games if game["result"] == "1/2-1/2"]
    ahead = sum(max(move["pawns"] for move in game["moves"]) >= AHEAD for game in drawn)
    print(f"\n{len(games)} games; in {ahead} of {len(drawn)} drawn ones Scorn was ahead by {AHEAD} pawns once.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    judging = commands.add_parser("judge", help="evaluate every position of games")
    judging.add_argument("engine", help="the program of the engine that judges")
    judging.add_argument("judged", help="file of judged games")
    judging.add_argument("games", nargs="+", help="PGN files")
    judging.add_argument("--nodes", type=int, default=60_000, help="nodes a position [default: 60000]")
    judging.set_defaults(run=judge)
    tables = commands.add_parser("table", help="print the table of judged games")
    tables.add_argument("judged", help="file of judged games")
    tables.set_defaults(run=table)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
