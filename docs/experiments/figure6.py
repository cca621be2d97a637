#!/usr/bin/env python3
"""The position of figure 6 of the paper on search-contempt: how often 1000 nodes choose the move that loses, by
ScLimit, and what the network and a long search say about the positions before and after it.

    docs/experiments/figure6.py SCORN [--seeds 20] [--option NAME=VALUE]...

White can keep the balance (the paper: Rd1), or play d6, which looks as good at a few nodes and loses to Bxf2+.
"""

import argparse
import re
import subprocess

# The first 19 moves of game 1 of the paper's file hybrid_selfplay_Nscl_5_N_1000.pgn.
LINE = (
    "g1f3 g8f6 c2c4 c7c5 b1c3 e7e6 g2g3 b7b6 f1g2 c8b7 e1g1 f8e7 f1e1 d7d5 c4d5 f6d5 e2e4 d5c3 b2c3 e8g8 d2d4 c5d4 "
    "c3d4 b8d7 c1b2 f8e8 d4d5 e7c5 d1d2 e6d5 e4d5 d7f6 f3h4 d8d7 b2f6 g7f6 d2h6 d7g4"
)
LOSING = "d5d6"
LIMITS = [1, 5, 10, 20, 32, 64, 128, 1_000_000_000]


class Engine:
    """A program that speaks UCI."""

    def __init__(self, program, options):
        self.process = subprocess.Popen([program, "uci"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.set("Threads", 1)
        self.set("MinibatchSize", 1)
        self.set("VerboseMoveStats", "true")
        self.set("UCI_ShowWDL", "true")
        for name, value in options:
            self.set(name, value)

    def send(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def set(self, name, value):
        self.send(f"setoption name {name} value {value}")

    def search(self, moves, nodes):
        """The chosen move, the visits of each move, and W-L for White."""
        self.send("ucinewgame")
        self.send(f"position startpos moves {moves}")
        self.send(f"go nodes {nodes}")
        visits, value = {}, None
        for line in self.process.stdout:
            if found := re.match(r"info string (\w+) .*N: +(\d+)", line):
                visits[found[1]] = int(found[2])
            elif found := re.search(r" wdl (\d+) \d+ (\d+) ", line):
                value = (int(found[1]) - int(found[2])) / 1000
            elif line.startswith("bestmove"):
                sign = 1 if len(moves.split()) % 2 == 0 else -1
                return line.split()[1], visits, sign * value
        raise SystemExit("the program has ended")

    def quit(self):
        self.send("quit")
        self.process.wait()


def chosen(program, options, seeds):
    """By ScLimit: how many seeds choose the losing move, and its mean share of the visits."""
    engine = Engine(program, options)
    found = {}
    for limit in LIMITS:
        engine.set("ScLimit", limit)
        count, share = 0, 0.0
        for seed in range(1, seeds + 1):
            engine.set("Seed", seed)
            best, visits, _ = engine.search(LINE, 1000)
            count += best == LOSING
            share += visits[LOSING] / sum(n for move, n in visits.items() if move != "node") / seeds
        found[limit] = (count, share)
    engine.quit()
    return found


def values(program, options, nodes=100_000):
    """W-L for White of the figure's three positions: the network's, and a long search's."""
    engine = Engine(program, options)
    positions = [LINE, f"{LINE} d5d6", f"{LINE} d5d6 c5f2"]
    found = [(engine.search(moves, 1)[2], engine.search(moves, nodes)[2]) for moves in positions]
    engine.quit()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scorn")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--option", action="append", default=[])
    args = parser.parse_args()
    options = [option.split("=", 1) for option in args.option]
    print("| Position | network | 100 000 nodes |\n|---|---|---|")
    for number, (raw, deep) in enumerate(values(args.scorn, options), 1):
        print(f"| {number} | {raw:+.2f} | {deep:+.2f} |")
    print(f"\n| ScLimit | chooses d6, of {args.seeds} | visits of d6 |\n|---|---|---|")
    for limit, (count, share) in chosen(args.scorn, options, args.seeds).items():
        print(f"| {limit} | {count} | {share:.0%} |")


if __name__ == "__main__":
    main()
