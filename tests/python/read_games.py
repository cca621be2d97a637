"""Reads PGN files as an independent reader: every game must be legal and complete, and its end must match its result.

Usage: read_games.py FILE... [--evals] (every move after the opening has an evaluation)
"""

import argparse
import itertools

import chess
import chess.pgn


def check(game: chess.pgn.Game, evals: bool) -> None:
    if game.errors:
        raise SystemExit(f"{game.headers}: {game.errors}")
    board, nodes = game.board(), list(game.mainline())
    searched = itertools.dropwhile(lambda node: not node.eval(), nodes)
    silent = [node for node in searched if not node.eval() and "random" not in node.comment]
    if evals and (not nodes[-1].eval() or silent):
        raise SystemExit(f"{game.headers}: moves without an evaluation: {[node.san() for node in silent]}")
    for node in nodes:
        if board.is_game_over() or board.is_repetition(3) or board.is_fifty_moves():
            raise SystemExit(f"{game.headers}: the game goes on after its end")
        board.push(node.move)
    result, outcome = game.headers["Result"], board.outcome()
    if outcome and outcome.result() != result:
        raise SystemExit(f"{game.headers}: {result} in a game that is {outcome}")
    drawn = board.is_repetition(3) or board.is_fifty_moves()
    if drawn and not outcome and result != "1/2-1/2":
        raise SystemExit(f"{game.headers}: {result} in a game that is drawn")
    over = outcome or drawn
    resigned = game.headers.get("TerminationDetails") == "resignation"
    if game.headers["Termination"] == "normal" and not over and not resigned:
        raise SystemExit(f"{game.headers}: it is not over")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--evals", action="store_true")
    args = parser.parse_args()
    for name in args.files:
        with open(name, encoding="utf-8") as file:
            count = 0
            while game := chess.pgn.read_game(file):
                check(game, args.evals)
                count += 1
        if count == 0:
            raise SystemExit(f"{name}: no games")
        print(f"{name}: {count} games, all legal and whole")


if __name__ == "__main__":
    main()
