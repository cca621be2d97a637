"""A short match with real clocks, driven by python-chess. Fails on illegal moves, crashes and time losses; who wins does
not matter here.

Usage: clock_match.py ENGINE OPPONENT [--games N] [--base SECONDS] [--increment SECONDS] [--moves N]
       [--option NAME=VALUE]... [--opponent-option NAME=VALUE]...
"""

import argparse
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


def play(players, args):
    """Plays one game; players[0] has White. Returns the board at its end."""
    clocks = [args.base, args.base]
    played = [0, 0]
    board, game = chess.Board(), object()
    while not board.is_game_over(claim_draw=True):
        side = 0 if board.turn else 1
        limit = chess.engine.Limit(
            white_clock=clocks[0],
            black_clock=clocks[1],
            white_inc=args.increment,
            black_inc=args.increment,
            remaining_moves=args.moves - played[side] % args.moves if args.moves else None,
        )
        started = time.monotonic()
        result = players[side].engine.play(board, limit, game=game)
        clocks[side] += args.increment - (time.monotonic() - started)
        # The pipe and this program take time as well: a tenth of a second is not the engine's fault.
        if clocks[side] < args.increment - 0.1:
            game = chess.pgn.Game.from_board(board)
            raise SystemExit(f"{players[side].name} lost on time by {args.increment - clocks[side]:.3f} s\n{game}")
        played[side] += 1
        if args.moves and played[side] % args.moves == 0:
            clocks[side] += args.base
        if result.move not in board.legal_moves:
            raise SystemExit(f"{players[side].name} played {result.move} in {board.fen()}")
        board.push(result.move)
    return board


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine")
    parser.add_argument("opponent")
    parser.add_argument("--games", type=int, default=2)
    parser.add_argument("--base", type=float, default=10)
    parser.add_argument("--increment", type=float, default=0.1)
    parser.add_argument("--moves", type=int, default=0, help="moves for which the base time is given, again and again")
    parser.add_argument("--option", action="append", default=[])
    parser.add_argument("--opponent-option", action="append", default=[])
    args = parser.parse_args()
    players = [Player(args.engine, args.option), Player(args.opponent, args.opponent_option)]
    for number in range(1, args.games + 1):
        board = play(players, args)
        white, black = (player.name for player in players)
        print(f"game {number}: {white} - {black} {board.result(claim_draw=True)} after {board.ply()} plies", flush=True)
        players.reverse()
    for player in players:
        player.engine.quit()


if __name__ == "__main__":
    sys.exit(main())
