#!/usr/bin/env python3
"""Checks parts of the scripts of docs/experiments, and of paper_checks.py, that would give wrong tables or verdicts
without an error.

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
# Scripts import each other.
sys.path.insert(0, str(FOLDER))


def check(condition, message):
    if not condition:
        raise AssertionError(message)


def load(name, folder=FOLDER):
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
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


def errors_are_those_of_games():
    mean = load("losses").mean_of_games
    # Two games of equal positions: residuals 2 and -2 of eight positions, as in src/stats/clusters.rs.
    found, error = mean([[1.0] * 4, [], [0.0] * 4])
    check(abs(found - 0.5) < 1e-12 and abs(error - 12.7062047 * 0.5) < 1e-6, f"{found} {error}")
    for games in ([[0.3] * 7], [[0.1] * plies for plies in range(20, 50)]):
        check(mean(games)[1] is None, f"{games}")
    # The mean over games would be another one.
    check(abs(mean([[1.0], [0.0] * 3])[0] - 0.25) < 1e-12, "positions count")


def positions_of_a_game_are_one_cluster():
    choice = load("choice")
    labels = [(str(at), {}, at // 4) for at in range(8)]
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        choice.print_losses("both", [0.0] * 4 + [0.2] * 4, [0.2] * 8, labels)
        choice.print_losses("same", [0.1] * 8, [0.2] * 8, labels)
    both, same = out.getvalue().splitlines()
    check(both.endswith("better by +0.10000 +- 1.27062"), both)
    check(same.endswith("better by +0.10000"), same)
    with tempfile.TemporaryDirectory() as folder:
        games = Path(folder, "games.pgn")
        knights = "2. Nf3 Nf6 3. Ng1 Ng8 " * 9
        games.write_text(f"1. e4 e5 {knights}*\n\n1. d4 d5 {knights}*\n")
        drawn = choice.positions(games, 100, 1)
        moved = {position["game"]: position["fen"] for position in drawn}
        check("4P3" in moved[1] and "3P4" in moved[2], f"{moved}")


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


def tests_count_only_if_they_run():
    verdict = load("paper_checks", Path(__file__).parent).test_verdict
    passed, none = (f"test result: ok. {count} passed; 0 failed; 0 ignored" for count in (3, 0))
    for status, output, errors, expected in [
        (0, passed, "", ("ok    ", "3 tests")),
        (0, none, "", ("FAILED", "no such test")),
        (0, passed, "SKIPPED: no net\n", ("not checked", "all or some of 3 tests were skipped: no net")),
        (101, "test result: FAILED. 3 passed\n", "", ("FAILED", "exit status 101\ntest result: FAILED. 3 passed\n")),
    ]:
        found = verdict(status, output, errors)
        check(found == expected, f"{found}")


def scripts_print_their_help():
    for script in sorted(FOLDER.glob("*.py")):
        printed = subprocess.run([sys.executable, script, "--help"], capture_output=True, text=True)
        check(printed.returncode == 0 and "usage:" in printed.stdout, f"{script.name}: {printed.stderr}")


def main():
    settings_have_colons()
    moves_of_files_are_compared()
    errors_are_those_of_games()
    positions_of_a_game_are_one_cluster()
    one_player_is_scorn()
    a_trap_of_the_last_move_is_left_out()
    tests_count_only_if_they_run()
    scripts_print_their_help()
    print("settings, moves, errors, sides, traps and tests are read as they are meant, and every script has a help")


if __name__ == "__main__":
    main()
