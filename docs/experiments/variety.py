#!/usr/bin/env python3
"""How much the openings of the bot's games vary, and what that costs.

usage: variety.py SCORN [--games N] [--nodes N] [--judge N] [--start NAME]... [--rating N] [--opponent N]
                  [--option NAME=VALUE]...

The engine plays the first moves of N games against a deterministic opponent (one node of the model of people rated
1500, or as --opponent says).
Three questions are answered for each start:
* which share of all pairs of games differs within the first 8 plies;
* what the drawn moves cost: W - L of the move that the engine plays without variety in the same position, less that of
  the drawn one, each by a plain search of its own with the default network, summed over the 8 plies of a game. The same
  error is in both, so that a mean may be negative;
* what the drawn moves cost in comparison with the best moves of the plain search.
--rating 0 hides the opponent's rating, so that other profiles apply. Needs the package chess.
"""

import argparse
import itertools
import statistics

import chess
import chess.engine

STARTS = {
    "queen": "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNB1KBNR w KQkq - 0 1",
    "rook": "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/1NBQKBNR w Kkq - 0 1",
    "knight": "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/R1BQKBNR w KQkq - 0 1",
    "none": chess.STARTING_FEN,
    "none, Black": chess.STARTING_FEN,
    "knight, Black": "r1bqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
    "queen, Black": "rnb1kbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
}
PLIES = 8


def start(program, **options):
    engine = chess.engine.SimpleEngine.popen_uci([program, "--show-hidden", "--threads", "1"])
    # Otherwise python-chess would not send values that the engine announces as defaults.
    engine.protocol.config.clear()
    engine.protocol.target_config.clear()
    engine.configure(options)
    return engine


class Judge:
    """W - L of moves by plain searches, in per cent."""

    def __init__(self, program, nodes):
        self.engine = start(program, UCI_ShowWDL=True, Profiles="off")
        self.nodes, self.cache = nodes, {}

    def best(self, board):
        return self.cached(board, None)

    def value(self, board, move):
        return self.cached(board, move)

    def cached(self, board, move):
        key = (board.fen(), move)
        if key not in self.cache:
            moves = None if move is None else [move]
            limit = chess.engine.Limit(nodes=self.nodes)
            result = self.engine.play(board, limit, game=object(), info=chess.engine.INFO_ALL, root_moves=moves)
            wdl = result.info["wdl"].pov(board.turn)
            self.cache[key] = (result.move, (wdl.wins - wdl.losses) / 10)
        return self.cache[key]

    def loss(self, board, move, than=None):
        """What a move costs in comparison with another one, or the best."""
        than = than or self.best(board)[0]
        return self.value(board, than)[1] - self.value(board, move)[1]


def play(engine, steady, opponent, start, nodes, judge):
    """The moves of a game, and what the engine's cost in all: in comparison with its steady choices, and with the best."""
    game, costs = object(), [0.0, 0.0]
    board = chess.Board(STARTS[start])
    side = chess.BLACK if start.endswith("Black") else chess.WHITE
    while len(board.move_stack) < PLIES and not board.is_game_over():
        if board.turn == side:
            move = engine.play(board, chess.engine.Limit(nodes=nodes), game=game).move
            # A tree of its own, so that it does not depend on the drawn moves.
            usual = steady.play(board, chess.engine.Limit(nodes=nodes), game=object()).move
            costs[0] += judge.loss(board, move, usual)
            costs[1] += judge.loss(board, move)
        else:
            move = opponent.play(board, chess.engine.Limit(nodes=1), game=game).move
        board.push(move)
    return [move.uci() for move in board.move_stack], costs


def mean(values):
    error = 1.96 * statistics.stdev(values) / len(values) ** 0.5
    return f"{statistics.mean(values):.2f} % (± {error:.2f})"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("scorn")
    parser.add_argument("--games", type=int, default=20)
    parser.add_argument("--nodes", type=int, default=800)
    parser.add_argument("--judge", type=int, default=5000)
    parser.add_argument("--start", action="append", choices=STARTS)
    parser.add_argument("--rating", type=int, default=1500)
    parser.add_argument("--opponent", type=int, default=1500)
    parser.add_argument("--option", action="append", default=[])
    args = parser.parse_args()
    if args.games < 2:
        parser.error("--games: pairs of games are compared, so there have to be two at least")
    options = dict(option.split("=", 1) for option in args.option)
    if args.rating:
        options["UCI_Opponent"] = f"none {args.rating} human Somebody"
    judge = Judge(args.scorn, args.judge)
    opponent = start(args.scorn, WeightsFile=f"<built in human {args.opponent}>", Seed=1, Profiles="off")
    print("| Odds | Games | Pairs that differ within 8 plies | W - L lost by drawing | W - L lost |\n|---|---|---|---|---|")
    for name in args.start or STARTS:
        engine, steady = start(args.scorn, **options), start(args.scorn, **options | {"OpeningVariety": 0})
        games = [play(engine, steady, opponent, name, args.nodes, judge) for _ in range(args.games)]
        engine.quit()
        steady.quit()
        pairs = list(itertools.combinations([moves for moves, _ in games], 2))
        differ = sum(a != b for a, b in pairs) / len(pairs)
        drawing, all_moves = ([costs[which] for _, costs in games] for which in range(2))
        print(f"| {name} | {args.games} | {differ:.1%} | {mean(drawing)} | {mean(all_moves)} |", flush=True)
    opponent.quit()
    judge.engine.quit()


if __name__ == "__main__":
    main()
