#!/usr/bin/env python3
"""Checks parts of the scripts of docs/experiments that would give wrong tables without an error.

usage: experiments.py. Needs python-chess.
"""

import argparse
import contextlib
import importlib.util
import io
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import chess
import chess.pgn

FOLDER = Path(__file__).resolve().parents[2] / "docs/experiments"


def check(condition, message):
    if not condition:
        raise AssertionError(message)


def load(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def settings_have_colons():
    setting = load("choice").setting
    schedule = "50:0.5 500:0.9"
    for text, expected in [
        ("", ("scorn", {})),
        ("CPuct=1.3;FpuValue=0.3", ("scorn", {"CPuct": "1.3", "FpuValue": "0.3"})),
        ("./other:", ("./other", {})),
        ("./other:CPuct=1.3", ("./other", {"CPuct": "1.3"})),
        (f"HybridRatioSchedule={schedule}", ("scorn", {"HybridRatioSchedule": schedule})),
        (f"./other:HybridRatioSchedule={schedule}", ("./other", {"HybridRatioSchedule": schedule})),
    ]:
        check(setting(text, "scorn") == expected, f"{text}: {setting(text, 'scorn')}")


def moves_of_files_are_compared():
    with tempfile.TemporaryDirectory() as folder:
        labels, moves = Path(folder, "labels.jsonl"), [Path(folder, name) for name in ("first", "second")]
        values = {"e2e4": 0.5, "d2d4": 0.4, "a2a4": 0.1}
        labels.write_text("".join(json.dumps({"fen": fen, "moves": values}) + "\n" for fen in ("a", "b", "c")))
        moves[0].write_text("a;e2e4;100\nb;h2h4;300\n")
        moves[1].write_text("a;d2d4;100\nb;e2e4;100\nc;e2e4;100\n")
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            load("choice").compare(argparse.Namespace(labels=labels, moves=moves))
        first, second = out.getvalue().splitlines()
        check("(200 nodes)" in first and "2 positions  loss 0.20000  best move 50.0%" in first, first)
        check("loss 0.05000" in second and "better by +0.15000" in second, second)


def one_player_is_scorn():
    side = load("losses").side_of_scorn

    def read(white, black):
        tags = f'[White "{white}"]\n[Black "{black}"]'
        return chess.pgn.read_game(io.StringIO(f"{tags}\n\n*\n"))

    check(side(read("Scorn 0.1.0", "Stockfish 15.1")) == chess.WHITE, "White")
    check(side(read("Stockfish 15.1", "Scorn 0.1.0")) == chess.BLACK, "Black")
    for players in [("Stockfish", "lc0"), ("Scorn", "Scorn 2")]:
        try:
            side(read(*players))
        except SystemExit as error:
            check(players[0] in str(error) and players[1] in str(error), str(error))
        else:
            check(False, f"{players} was accepted")


def a_trap_of_the_last_move_is_left_out():
    traps = load("traps").traps
    trap = {"move": "e2e4", "mistake": {"move": "e7e5", "p": 0.4}}
    setting = {"name": "game 1, move 40.", "played": "e2e4", "traps": [trap]}
    reply = {"name": "game 1, move 40...", "played": "e7e5"}
    other = {"name": "game 2, move 1.", "played": "d2d4"}
    check(list(traps([setting, reply, other])) == [(0.4, True)], "the reply")
    check(list(traps([setting, other])) == [], "the first move of the next game")


def scripts_print_their_help():
    for script in sorted(FOLDER.glob("*.py")):
        printed = subprocess.run([sys.executable, script, "--help"], capture_output=True, text=True)
        check(printed.returncode == 0 and "usage:" in printed.stdout, f"{script.name}: {printed.stderr}")


def main():
    settings_have_colons()
    moves_of_files_are_compared()
    one_player_is_scorn()
    a_trap_of_the_last_move_is_left_out()
    scripts_print_their_help()
    print("settings, moves, sides and traps are read as they are meant, and every script has a help")


if __name__ == "__main__":
    main()
