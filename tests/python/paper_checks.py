"""The small checks of the paper on search-contempt (docs/paper.md): the algorithm and its parity with lc0 by the test
suite, then each figure and table in small by games of the built-in network, with the direction that our page claims.

    python3 tests/python/paper_checks.py target/release/scorn [--folder paper-checks] [--games 100] [--no-cargo]

Prints a line per check and exits with 1 if one fails. Parity with lc0 is "not checked" without lc0's records
(SCORN_SHARED). Some 20 minutes of one core with 100 games, tests included. The
same command goes on where it was stopped; games depend on the seed only. A failure can be chance: intervals are of 95
%, and a check demands that they are apart only where the page shows a difference many times as large.
"""

import argparse
import importlib.util
import json
import math
import pathlib
import re
import subprocess
import sys

SEED = "20261127"
PLAIN = "1000000000"
# The schedules of --tau for one side.
TAU1 = "Temperature=0.7;TempDecayMoves=5;TempEndgame=0.1"
TAU2 = "Temperature=0.9;TempDecayMoves=60;TempDecayDelayMoves=20;TempCutoffMove=40;TempEndgame=0.6;TempVisitOffset=-0.8"
# Tests of the algorithm: equations 5 to 7, exponents, parity of visits and outputs with lc0, figure 5's controller.
TESTS = [
    (["--test", "library"], ["search_contempt", "root_visits", "rten_agrees", "moving_average"]),
    (["--lib"], ["selfplay::controller", "stats::"]),
]


class Checks:
    """Runs games and collects verdicts."""

    def __init__(self, args):
        self.args, self.failed = args, 0
        self.folder = pathlib.Path(args.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        # Games of another program, or fewer of them, would be judged as if they were of this run.
        made_by = f"{self.run('--version').strip()}, {args.games} games"
        mark = self.folder / "made-by"
        if not mark.exists() and not list(self.folder.glob("*/manifest.json")):
            mark.write_text(made_by)
        of = mark.read_text() if mark.exists() else "an unknown program"
        if of != made_by:
            raise SystemExit(f"{self.folder} has games of {of}: name another folder for {made_by}")

    def run(self, *command):
        return subprocess.run([self.args.scorn, *map(str, command)], capture_output=True, text=True, check=True).stdout

    def play(self, name, *flags, games=None):
        """A folder of self-play, complete."""
        out = self.folder / name
        if not (out / "summary.json").exists():
            resume = ["--resume"] if (out / "manifest.json").exists() else []
            games = games or self.args.games
            flags = [str(flag) for flag in flags]
            usual = ["--games", games, "--threads", 1, "--seed", SEED, "--records"]
            self.run("selfplay", *usual, *flags, "--out", out, *resume)
        return out

    def stats(self, *arguments):
        return json.loads(self.run("stats", "--json", *arguments))

    def check(self, name, holds, found):
        self.failed += not holds
        print(f"{'ok    ' if holds else 'FAILED'} {name}: {found}", flush=True)


def ratio_text(stats):
    low, high = stats["decisive_per_draw_interval"]
    number = lambda x: "unbounded" if x is None else f"{x:.2f}"  # noqa: E731
    return f"{number(stats['decisive_per_draw'])} ({number(low)} to {number(high)})"


def is_below(one, other):
    """Whether the interval of one ratio (w+l)/d lies below that of the other."""
    high, low = one["decisive_per_draw_interval"][1], other["decisive_per_draw_interval"][0]
    return high is not None and low is not None and high < low


def elo(won, drawn, lost):
    """Elo and its interval from games, by the normal approximation."""
    games = won + drawn + lost
    score = (won + drawn / 2) / games
    variance = (won * (1 - score) ** 2 + drawn * (0.5 - score) ** 2 + lost * score**2) / games
    error = 1.96 * math.sqrt(variance / games)
    scale = lambda p: -400 * math.log10(1 / min(max(p, 1e-3), 1 - 1e-3) - 1)  # noqa: E731
    return scale(score), scale(score - error), scale(score + error)


def figure6():
    """The module of the paper's position."""
    path = pathlib.Path(__file__).parents[2] / "docs/experiments/figure6.py"
    spec = importlib.util.spec_from_file_location("figure6", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_verdict(status, output, errors):
    """The mark and the text for the tests of a name: they passed only if there are any that were not skipped."""
    passed = sum(map(int, re.findall(r"^test result: \S*ok\S* (\d+) passed", output, re.MULTILINE)))
    skipped = re.findall(r"^SKIPPED: (.*)", errors, re.MULTILINE)
    if status != 0 or not passed:
        return "FAILED", "no such test" if status == 0 else f"exit status {status}\n{output}{errors}"
    if skipped:
        return "not checked", f"all or some of {passed} tests were skipped: {skipped[0]}"
    return "ok    ", f"{passed} tests"


def test_suite():
    """Runs the tests; returns how many names failed."""
    failed = 0
    for binary, names in TESTS:
        for name in names:
            found = subprocess.run(["cargo", "test", *binary, "--", name], capture_output=True, text=True, check=False)
            mark, text = test_verdict(found.returncode, found.stdout, found.stderr)
            failed += mark == "FAILED"
            print(f"{mark} tests named {name}: {text}", flush=True)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scorn")
    parser.add_argument("--folder", default="paper-checks")
    parser.add_argument("--games", type=int, default=100)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--no-cargo", action="store_true", help="leave the test suite out")
    args = parser.parse_args()
    checks = Checks(args)
    if not args.no_cargo:
        checks.failed += test_suite()
    nodes = ["--nodes", args.nodes]
    play = lambda limit: checks.play(f"sc{limit}", *nodes, "--sc-limit", limit, "--tau", "tau1")  # noqa: E731
    limits = {limit: play(limit) for limit in ("5", "32", PLAIN)}
    hot = checks.play("tau2", *nodes, "--tau", "tau2")
    of = {limit: checks.stats(folder) for limit, folder in limits.items()}
    tau2 = checks.stats(hot)
    names = ", ".join(f"ScLimit {limit} {ratio_text(stats)}" for limit, stats in of.items())
    checks.check("figure 2, a small limit is more decisive than plain PUCT", is_below(of[PLAIN], of["5"]), names)
    checks.check("figure 3, so is a high temperature", is_below(of[PLAIN], tau2), f"tau_2 {ratio_text(tau2)}")
    repeated = {limit: [stats["repeated"][move] for move in ("1", "5", "20")] for limit, stats in of.items()}
    more = repeated["5"][1] - repeated[PLAIN][1]
    checks.check("figure 4, games are repeated no more often", more < 0.15 and repeated["5"][2] < 0.1, repeated)
    match = checks.play("table3", *nodes, "--a-plays", "both", "--a", f"ScLimit=32;{TAU1}", "--b", TAU2)
    result = json.loads((match / "summary.json").read_text())
    found = elo(result["first"], result["draws"], result["second"])
    text = f"{found[0]:+.0f} Elo ({found[1]:+.0f} to {found[2]:+.0f})"
    checks.check("table 3, search-contempt with ScLimit 32 beats a high temperature", found[1] > 0, text)
    balanced = checks.play("figure5", *nodes, "--balance", 1, "--balance-games", 50, "--tau", "tau1", games=300)
    path = checks.stats(balanced)["path"]
    text = ", ".join(f"{step['sc_limit']}: {step['ratio']:.1f}" for step in path)
    checks.check("figure 5, the controller reaches a ratio of 1", all(step["is_balanced"] for step in path[-2:]), text)
    position = figure6()
    (_, _), (raw, deep), _ = position.values(args.scorn, [])
    text = f"the network {raw:+.2f}, a search {deep:+.2f}"
    checks.check("figure 6, its position is misjudged", raw - deep > 0.25, text)
    chosen = position.chosen(args.scorn, [], 10)
    text = ", ".join(f"ScLimit {limit} {count} of 10" for limit, (count, _) in chosen.items())
    plain = chosen.pop(int(PLAIN))[0]
    checks.check("figure 6, search-contempt plays the losing move", max(chosen.values())[0] > plain, text)
    surprise = {}
    for limit in ("5", PLAIN):
        policy = checks.stats(limits[limit], "--network", "<built in>")["policy"]
        surprise[limit] = policy["divergence"]["at_least"][2]
    # No error is known where all games agree.
    errors = {limit: f" ±{100 * at['error']:.1f}" if at["error"] is not None else "" for limit, at in surprise.items()}
    text = ", ".join(f"{limit} {100 * at['mean']:.1f}{errors[limit]} %" for limit, at in surprise.items())
    is_larger = surprise["5"]["mean"] > 3 * surprise[PLAIN]["mean"]
    checks.check("policy surprise is several times as frequent", is_larger, text)
    sys.exit(1 if checks.failed else 0)


if __name__ == "__main__":
    main()
