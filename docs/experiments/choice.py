#!/usr/bin/env python3
"""Compares search settings, or builds, by the moves that they choose: far quicker than games, and less reliable.

    docs/experiments/choice.py label STOCKFISH GAMES.pgn LABELS.jsonl
    docs/experiments/choice.py measure SCORN LABELS.jsonl --nodes 1600 "" "CPuct=1.9" "CPuct=1.3;FpuValue=0.3"
    docs/experiments/choice.py compare LABELS.jsonl MOVES MOVES...

`label` draws positions from games and scores the ten best moves of each with a strong engine; it resumes where it was
stopped. `measure` searches each position with each setting (the others are compared with the first; "SCORN2:OPTIONS" is
another program) and prints the mean loss: by how much of a point the chosen move is worse than the best one; with
--movetime instead of --nodes each search has this many milliseconds, and as many threads as the program chooses. Moves
without a score lose as much as the worst scored one. Positions that are decided, or in which all moves are equal, are left
out. `compare` does the same with moves that other programs chose: files with a line FEN;MOVE;NODES a position, as
`cargo bench --bench driver card` prints them. Intervals are of 95 %, from the differences of each position;
each game is one cluster. Labels of an earlier version do not name the games: their positions count as independent ones,
with intervals that are too small, and a message says so.

Needs python-chess (pip install chess).
"""

import argparse
import json
import random
import statistics
import sys
from collections import defaultdict
from pathlib import Path

import chess
import chess.engine
import chess.pgn

from losses import mean_of_games

# Best expected scores (0 lost, 1 won) between which a position is used, and the smallest difference of best and worst.
OPEN, MIN_DIFFERENCE = (0.05, 0.95), 0.005
# The share of the positions of a game that may be drawn, and the first ply of one.
SHARE, FIRST_PLY = 0.25, 4


def positions(path, count, seed):
    """This many distinct positions of the games, in random order, with the number of the last game that has them."""
    rng = random.Random(seed)
    found, number = {}, 0
    with open(path, encoding="utf-8") as games:
        while game := chess.pgn.read_game(games):
            number += 1
            for node in game.mainline():
                board = node.board()
                if node.ply() - game.ply() >= FIRST_PLY and rng.random() < SHARE and board.legal_moves.count() > 3:
                    found[board.epd()] = {"fen": board.fen(), "game": number}
    drawn = list(found.values())
    rng.shuffle(drawn)
    return drawn[:count]


def expectation(info):
    """The expected score of a line for the side to move, 0..=1, by lichess's curve."""
    return info["score"].relative.wdl(model="lichess").expectation()


def label(args):
    labels = Path(args.labels)
    known = labels.read_text().splitlines() if labels.exists() else []
    done = len(known)
    drawn = positions(args.games, args.positions, args.seed)
    if [json.loads(line)["fen"] for line in known] != [position["fen"] for position in drawn[:done]]:
        raise SystemExit(f"{labels} has positions of other games or another seed: name another file")
    with chess.engine.SimpleEngine.popen_uci(args.engine) as engine, open(labels, "a", encoding="utf-8") as out:
        for position in drawn[done:]:
            fen = position["fen"]
            board = chess.Board(fen)
            lines = engine.analyse(board, chess.engine.Limit(nodes=args.nodes), multipv=args.multipv, game=fen)
            moves = {line["pv"][0].uci(): round(expectation(line), 4) for line in lines if line.get("pv")}
            out.write(json.dumps({**position, "moves": moves}) + "\n")
            out.flush()
    print(f"{len(drawn)} positions in {labels}")


def informative(path):
    """The positions in which moves differ, with the values of their moves and their game, or the position itself where
    the game is not named."""
    for line in Path(path).read_text().splitlines():
        entry = json.loads(line)
        values = entry["moves"].values()
        if values and OPEN[0] <= max(values) <= OPEN[1] and max(values) - min(values) >= MIN_DIFFERENCE:
            yield entry["fen"], entry["moves"], entry.get("game", entry["fen"])


def loss(moves, chosen):
    """How much worse the chosen move is than the best one."""
    return max(moves.values()) - moves.get(chosen, min(moves.values()))


def losses(program, options, labels, limit):
    """The loss of the chosen move in each position."""
    lost = []
    with chess.engine.SimpleEngine.popen_uci([program, "--show-hidden"]) as engine:
        # Otherwise python-chess would not send values that the engine announces as defaults.
        engine.protocol.config.clear()
        engine.protocol.target_config.clear()
        repeatable = {"Threads": 1, "Seed": 1} if limit.nodes else {}
        engine.configure({**repeatable, **options})
        for fen, moves, _ in labels:
            lost.append(loss(moves, engine.play(chess.Board(fen), limit, game=fen).move.uci()))
    return lost


def setting(text, program):
    """A program and its options, some of which have colons in their values."""
    before, colon, after = text.partition(":")
    if colon and "=" not in before:
        program, text = before, after
    return program, dict(pair.split("=", 1) for pair in text.split(";") if pair)


def warn_without_games(labels):
    """Says so where positions are not known to be of one game."""
    if any(game == fen for fen, _, game in labels):
        print("the labels do not name games: intervals are as if positions were independent", file=sys.stderr)


def print_losses(name, lost, first, labels):
    """A line with the mean loss, and what it is better by than the first setting."""
    best = sum(loss == 0 for loss in lost) / len(lost)
    gains = defaultdict(list)
    for (_, _, game), before, after in zip(labels, first, lost):
        gains[game].append(before - after)
    gain, interval = mean_of_games(gains.values())
    compared = "" if lost is first else f"  better by {gain:+.5f}"
    if compared and interval is not None:
        compared += f" +- {interval:.5f}"
    summary = f"{len(lost)} positions  loss {statistics.mean(lost):.5f}  best move {best:.1%}"
    print(f"{name:40} {summary}{compared}", flush=True)


def measure(args):
    labels = list(informative(args.labels))[: args.positions]
    if len(labels) < 2:
        raise SystemExit(f"{args.labels} has fewer than two usable positions")
    warn_without_games(labels)
    limit = chess.engine.Limit(time=args.movetime / 1000) if args.movetime else chess.engine.Limit(nodes=args.nodes)
    first = None
    for text in args.settings:
        lost = losses(*setting(text, args.engine), labels, limit)
        first = first or lost
        print_losses(text or "unchanged", lost, first, labels)


def chosen_moves(path):
    """The moves of a file by position, and the nodes of their searches."""
    lines = (line.strip().split(";") for line in Path(path).read_text().splitlines())
    return {fields[0]: (fields[1], int(fields[2])) for fields in lines if len(fields) == 3}


def compare(args):
    files = [chosen_moves(path) for path in args.moves]
    labels = [label for label in informative(args.labels) if all(label[0] in file for file in files)]
    if len(labels) < 2:
        raise SystemExit("the files have fewer than two usable positions in common")
    warn_without_games(labels)
    lost = [[loss(moves, file[fen][0]) for fen, moves, _ in labels] for file in files]
    for path, file, own in zip(args.moves, files, lost):
        nodes = statistics.mean(file[fen][1] for fen, _, _ in labels)
        print_losses(f"{Path(path).name} ({nodes:.0f} nodes)", own, lost[0], labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    labelling = commands.add_parser("label")
    labelling.set_defaults(run=label)
    labelling.add_argument("engine")
    labelling.add_argument("games")
    labelling.add_argument("labels")
    labelling.add_argument("--positions", type=int, default=4000)
    labelling.add_argument("--nodes", type=int, default=200_000, help="the engine's, for all moves of a position together")
    labelling.add_argument("--multipv", type=int, default=10)
    labelling.add_argument("--seed", type=int, default=1)
    measuring = commands.add_parser("measure")
    measuring.set_defaults(run=measure)
    measuring.add_argument("engine")
    measuring.add_argument("labels")
    measuring.add_argument("settings", nargs="+")
    measuring.add_argument("--nodes", type=int, default=1600)
    measuring.add_argument("--movetime", type=int, help="milliseconds for each search, instead of nodes")
    measuring.add_argument("--positions", type=int, default=None)
    comparing = commands.add_parser("compare")
    comparing.set_defaults(run=compare)
    comparing.add_argument("labels")
    comparing.add_argument("moves", nargs="+")
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
