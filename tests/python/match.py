"""A short match with real clocks, driven by python-chess. Fails on illegal moves, crashes and time losses; who wins does
not matter here.

Usage: match.py ENGINE OPPONENT [--games N] [--base SECONDS] [--increment SECONDS] [--moves N] [--option NAME=VALUE]...
       [--opponent-option NAME=VALUE]... [--pgn FILE] [--elo] [--book EPD] [--nodes N]
"""

import argparse
import math
import sys
import time

import chess
import chess.engine
import chess.pgn


class Player:
    """An engine with its clock."""

    def __init__(self, path, options):
        self.engine = chess.engine.SimpleEngine.popen_uci(path, timeout=60)
        self.engine.configure(dict(option.split("=", 1) for option in options))
        self.engine.ping()
        self.name = self.engine.id.get("name", path)
        self.points = []


def play(players, args, board, game):
    """Plays one game; players[0] has White. Returns the result."""
    clocks = [args.base, args.base]
    played = [0, 0]
    node = chess.pgn.Game.from_board(board)
    game.append(node)
    current = node
    while not board.is_game_over(claim_draw=True):
        side = 0 if board.turn else 1
        limit = chess.engine.Limit(
            white_clock=clocks[0],
            black_clock=clocks[1],
            white_inc=args.increment,
            black_inc=args.increment,
            remaining_moves=args.moves - played[side] % args.moves if args.moves else None,
        )
        if args.nodes:
            limit = chess.engine.Limit(nodes=args.nodes)
        started = time.monotonic()
        result = players[side].engine.play(board, limit, game=node)
        spent = time.monotonic() - started
        clocks[side] += args.increment - spent
        # The pipe and this program take time as well: a tenth of a second is not the engine's fault.
        if not args.nodes and clocks[side] < args.increment - 0.1:
            raise SystemExit(f"{players[side].name} lost on time by {args.increment - clocks[side]:.3f} s\n{node}")
        played[side] += 1
        if args.moves and played[side] % args.moves == 0:
            clocks[side] += args.base
        if result.move not in board.legal_moves:
            raise SystemExit(f"{players[side].name} played {result.move} in {board.fen()}")
        board.push(result.move)
        current = current.add_variation(result.move)
    result = board.result(claim_draw=True)
    node.headers.update({"White": players[0].name, "Black": players[1].name, "Result": result})
    return {"1-0": 1.0, "0-1": 0.0}.get(result, 0.5)


def elo(score):
    return 400 * math.log10(score / (1 - score)) if 0 < score < 1 else math.copysign(math.inf, score - 0.5)


def report(points):
    score = sum(points) / len(points)
    spread = math.sqrt(sum((p - score) ** 2 for p in points) / len(points) / max(len(points) - 1, 1))
    low, high = max(score - 1.96 * spread, 0), min(score + 1.96 * spread, 1)
    wins, draws = points.count(1.0), points.count(0.5)
    print(
        f"+{wins} ={draws} -{len(points) - wins - draws}: {100 * score:.1f} %,"
        f" Elo {elo(score):+.0f} [{elo(low):+.0f}, {elo(high):+.0f}]",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine")
    parser.add_argument("opponent")
    parser.add_argument("--games", type=int, default=2)
    parser.add_argument("--base", type=float, default=10)
    parser.add_argument("--increment", type=float, default=0.1)
    parser.add_argument("--moves", type=int, default=0, help="moves for which the base time is given, again and again")
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--option", action="append", default=[])
    parser.add_argument("--opponent-option", action="append", default=[])
    parser.add_argument("--book", help="start positions, one FEN or EPD a line; each is played with both colours")
    parser.add_argument("--pgn")
    args = parser.parse_args()
    starts = [None]
    if args.book:
        starts = [line.split(";")[0].strip() for line in open(args.book, encoding="utf-8") if line.strip()]
    first, second = Player(args.engine, args.option), Player(args.opponent, args.opponent_option)
    games, points = [], []
    for index in range(args.games):
        start = starts[index // 2 % len(starts)]
        board = chess.Board()
        if start:
            board = chess.Board()
            board.set_epd(" ".join(start.split()[:4]))
        as_white = index % 2 == 0
        result = play([first, second] if as_white else [second, first], args, board, games)
        points.append(result if as_white else 1 - result)
        print(f"game {index + 1}: {games[-1].headers['Result']} after {board.ply()} plies", flush=True)
        report(points)
        if args.pgn:
            with open(args.pgn, "a", encoding="utf-8") as out:
                print(games[-1], file=out, end="\n\n")
    for player in (first, second):
        player.engine.quit()


if __name__ == "__main__":
    sys.exit(main())
