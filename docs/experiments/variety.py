#!/usr/bin/env python3
"""How much the games of the odds profiles vary, and what that costs.

usage: variety.py SCORN [--games N] [--nodes N] [--start NAME]... [--option NAME=VALUE]...

For several odds the engine plays the first moves of N games against a deterministic opponent (one node of the model of
people rated 1500). Two questions are answered for each start:
* which share of all pairs of games differs within the first 8 and within the first 16 plies;
* what the drawn moves cost: W - L of the best move minus that of the played one, each by a search of its own without
  search-contempt, summed over the first 16 plies of a game. The same error is in both, so that the mean may be negative.
Needs the package chess.
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
    "queen, Black": "rnb1kbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
}
PLIES = 16


def start(program, **options):
    engine = chess.engine.SimpleEngine.popen_uci([program, "--show-hidden", "--threads", "1"])
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

    def loss(self, board, move):
        best, _ = self.best(board)
        return self.value(board, best)[1] - self.value(board, move)[1]


def play(engine, opponent, board, nodes, judge):
    """The moves of a game, and what the engine's cost in all."""
    game, cost = object(), 0.0
    is_engine = chess.WHITE if board.fen() != STARTS["queen, Black"] else chess.BLACK
    while board.ply() < PLIES and not board.is_game_over():
        if board.turn == is_engine:
            move = engine.play(board, chess.engine.Limit(nodes=nodes), game=game).move
            cost += judge.loss(board, move)
        else:
            move = opponent.play(board, chess.engine.Limit(nodes=1), game=game).move
        board.push(move)
    return [move.uci() for move in board.move_stack], cost


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("scorn")
    parser.add_argument("--games", type=int, default=20)
    parser.add_argument("--nodes", type=int, default=400)
    parser.add_argument("--judge", type=int, default=5000)
    parser.add_argument("--start", action="append", choices=STARTS)
    parser.add_argument("--option", action="append", default=[])
    args = parser.parse_args()
    options = dict(option.split("=", 1) for option in args.option)
    judge = Judge(args.scorn, args.judge)
    opponent = start(args.scorn, WeightsFile="<built in human 1500>", Seed=1, Profiles="off")
    print("| Odds | Games | Pairs that differ within 8 plies | within 16 plies | W - L lost a game |\n|---|---|---|---|---|")
    for name, fen in STARTS.items():
        if args.start and name not in args.start:
            continue
        engine = start(args.scorn, UCI_Opponent="none 1500 human Somebody", **options)
        games = [play(engine, opponent, chess.Board(fen), args.nodes, judge) for _ in range(args.games)]
        engine.quit()
        pairs = list(itertools.combinations([moves for moves, _ in games], 2))
        early, late = (sum(a[:plies] != b[:plies] for a, b in pairs) / len(pairs) for plies in (8, PLIES))
        costs = [cost for _, cost in games]
        error = 1.96 * statistics.stdev(costs) / len(costs) ** 0.5
        print(f"| {name} | {args.games} | {early:.1%} | {late:.1%} | {statistics.mean(costs):.2f} % (± {error:.2f}) |", flush=True)
    opponent.quit()
    judge.engine.quit()


if __name__ == "__main__":
    main()
