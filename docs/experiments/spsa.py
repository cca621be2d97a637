#!/usr/bin/env python3
"""Tunes options of the search by SPSA (Spall 1992): games between two points at opposite sides of the current one, in a
random direction; the current point then moves towards the winner. Resumes where it was stopped.

    docs/experiments/spsa.py SCORN FOLDER BOOK --iterations 120

Prints the point after each iteration; FOLDER/state.json stores it. OPTIONS below has the options, their starts and first
distances.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
from pathlib import Path

# Option: start (lc0's default), distance, minimum, maximum.
OPTIONS = {
    "CPuct": (1.745, 0.30, 0.3, 5.0),
    "FpuValue": (0.330, 0.12, 0.0, 1.2),
    "PolicyTemperature": (1.359, 0.18, 0.5, 3.0),
}
# Spall's exponents, by which steps and distances get smaller.
STEP_EXPONENT, DISTANCE_EXPONENT = 0.602, 0.101
# The first step: a batch won by 75 % moves the point by this many half distances.
FIRST_STEP = 2.0


def clamp(name, value):
    _, _, least, most = OPTIONS[name]
    return min(max(value, least), most)


def score(args, folder, seed, first, second):
    """The first side's share of the points of one batch of games, each opening with both colours."""
    text = [";".join(f"{name}={value:.4f}" for name, value in side.items()) for side in (first, second)]
    shutil.rmtree(folder, ignore_errors=True)
    command = [args.scorn, "selfplay", "--games", str(args.games), "--nodes", str(args.nodes), "--book", args.book]
    command += ["--a-plays", "both", "--a", text[0], "--b", text[1], "--seed", str(seed), "--json"]
    command += ["--threads", str(args.threads), "--out", str(folder), *args.flags.split()]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    result = json.loads(said)
    return (result["a"] + result["draws"] / 2) / result["games"]


def step(args, state):
    k = state["iteration"]
    settled = args.iterations / 10
    step_size = FIRST_STEP * ((settled + 1) / (settled + 1 + k)) ** STEP_EXPONENT
    rng = random.Random(f"{args.seed} {k}")
    signs = {name: rng.choice((-1, 1)) for name in OPTIONS}
    distances = {name: OPTIONS[name][1] / (k + 1) ** DISTANCE_EXPONENT for name in OPTIONS}
    point = state["point"]

    def moved(way):
        return {name: clamp(name, point[name] + way * signs[name] * distances[name]) for name in OPTIONS}

    won = score(args, Path(args.folder) / "batch", args.seed * 100_000 + k, moved(1), moved(-1))
    for name in OPTIONS:
        towards = signs[name] * distances[name] * step_size * 2 * (won - 0.5)
        point[name] = clamp(name, point[name] + towards)
    state["iteration"] += 1
    values = "  ".join(f"{name} {value:.3f}" for name, value in point.items())
    print(f"{k + 1:4}  {100 * won:5.1f} % for {signs}  {values}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scorn")
    parser.add_argument("folder")
    parser.add_argument("book")
    parser.add_argument("--iterations", type=int, default=120)
    parser.add_argument("--games", type=int, default=40, help="games of an iteration")
    parser.add_argument("--nodes", type=int, default=1600, help="nodes a move")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--flags", default="", help="further flags of scorn selfplay, for both sides")
    args = parser.parse_args()
    folder = Path(args.folder)
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / "state.json"
    if kept.exists():
        state = json.loads(kept.read_text())
    else:
        state = {"iteration": 0, "point": {name: values[0] for name, values in OPTIONS.items()}}
    while state["iteration"] < args.iterations:
        step(args, state)
        partial = folder / "state.part"
        partial.write_text(json.dumps(state))
        os.replace(partial, kept)


if __name__ == "__main__":
    main()
