#!/usr/bin/env python3
"""Prints the tables of docs/paper.md, in Markdown, from the results of docs/experiments/run.sh.

What has not been played or judged yet is left out. Intervals are of 95 %.
"""

import argparse
import json
import math
import pathlib

PLAIN = 1_000_000_000
"""The ScLimit of plain PUCT."""
MOVES = (1, 2, 3, 4, 5, 10, 15, 20, 30)
"""The move numbers of figure 4."""
TACTICS = ("shots", "sacrifices", "promotions", "mates", "imbalanced")
MATCHES = {
    "table3": "`ScLimit 5` against plain PUCT, tau_2",
    "table3-author": "`ScLimit 5` against the author's constants and noise, tau_2",
    "table3-sc32": "`ScLimit 32` against plain PUCT, tau_2",
    "equal-tau": "`ScLimit 5` against plain PUCT, tau_1 both",
}


def read(path):
    """A JSON file; None if it does not exist or is empty."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() and path.stat().st_size else None


def name(path):
    """What the games of a file or folder are called on the page."""
    stem = pathlib.PurePath(path).stem
    names = {"puct-tau1": "plain, tau_1", "puct-tau2": "plain, tau_2", f"sc{PLAIN}": "plain, tau_1",
             "pure_PUCT_tau_1": "the paper, PUCT tau_1", "pure_PUCT_tau_2": "the paper, PUCT tau_2"}
    if stem in names:
        return names[stem]
    if stem.startswith("hybrid_selfplay_Nscl_"):
        return f"the paper, N_scl = {stem.split('_')[3]}"
    return f"`ScLimit {stem.removeprefix('sc')}`" if stem.startswith("sc") else stem


def table(title, columns, rows):
    rows = list(rows)
    if not rows:
        return
    print(f"\n## {title}\n")
    print("| " + " | ".join(map(str, columns)) + " |")
    print("|---" * len(columns) + "|")
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")


def ratio(run):
    """Decisive games per draw."""
    show = lambda value: "-" if value is None else f"{value:.2f}"
    least, most = run["decisive_per_draw_interval"]
    return f"{show(run['decisive_per_draw'])} ({show(least)} to {show(most)})"


def with_error(value, digits, unit=1):
    """A mean with its error, which is unknown where all games agree."""
    mean, error = (None if value[key] is None else f"{unit * value[key]:.{digits}f}" for key in ("mean", "error"))
    return mean if error is None else f"{mean} ± {error}"


def percent(share):
    return with_error(share, 1, 100)


def number(value, digits=2):
    return with_error(value, digits)


def elo(won, drawn, lost):
    """The difference in Elo of a result, with its interval."""
    games = won + drawn + lost
    score = (won + drawn / 2) / games
    error = 1.96 * math.sqrt(((won + drawn / 4) / games - score**2) / games)
    show = lambda share: -400 * math.log10(1 / share - 1) if 0 < share < 1 else math.copysign(math.inf, share - 0.5)
    return f"{show(score):+.0f} ({show(score - error):+.0f} to {show(score + error):+.0f})"


def results(runs):
    """The rows of figures 2 and 3."""
    for run in runs:
        won = f"{run['white']}, {run['draws']}, {run['black']}"
        yield name(run["file"]), run["games"], won, ratio(run), f"{run['mean_plies']:.0f}"


def matches(folder):
    for match, title in MATCHES.items():
        if found := read(folder / match / "summary.json"):
            won = found["first"], found["draws"], found["second"]
            yield title, found["games"], ", ".join(map(str, won)), elo(*won)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="folder of run.sh")
    folder = parser.parse_args().folder
    page = {part.stem: read(part)["files"] for part in folder.glob("*.json") if "files" in (read(part) or {})}
    theirs = page.get("theirs", [])
    games = ["Games", "number", "White won, drawn, lost", "(w+l)/d", "mean plies"]
    table("Figure 2", games, results(page.get("figure2", [])))
    table("Figure 3", games, results(page.get("figure3", [])))
    table("The paper's own games", games, results(theirs))
    table("Table 3", ["First against second", "games", "won, drawn, lost", "Elo of the first"], matches(folder))
    repeated = [[name(run["file"]), *(f"{run['repeated'].get(str(move), 0):.2f}" for move in MOVES)]
                for run in page.get("figure4", []) + theirs]
    table("Figure 4", ["move", *MOVES], repeated)
    for path in ("figure5", "figure5-below"):
        log = folder / path / "balance.jsonl"
        batches = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        rows = [[row, *(batch[key] for batch in batches)] for row, key in (("nodes", "nodes"), ("ScLimit", "sc_limit"))]
        rows.append(["(w+l)/d", *(f"{batch['ratio']:.1f}" for batch in batches)])
        table(f"Figure 5: {path}", ["batch", *(batch["batch"] for batch in batches)], rows if batches else [])
    judged = page.get("figure6", []) + theirs
    tactics = [[name(run["file"]), *(percent(run["tactics"][kind]) for kind in TACTICS),
                number(run["tactics"]["material"])] for run in judged]
    table("Tactics, %", ["Games", *TACTICS, "material, pawns"], tactics)
    for part in ("figure6", "figure6-deep", "theirs"):
        rows = [[name(run["file"]), number(error := run["misjudged"]["value_error"], 3),
                 *map(percent, error["at_least"]), percent(run["misjudged"]["overlooked"])]
                for run in page.get(part, []) if run.get("misjudged")]
        table(f"Misjudged positions: {part}", ["Games", "mean", "from 0.25", "0.5", "0.8, %", "overlooked, %"], rows)
    surprise = [[name(run["file"]), number(policy["divergence"]), *map(percent, policy["divergence"]["at_least"]),
                 number(policy["value_error"]), *map(percent, policy["value_error"]["at_least"])]
                for run in page.get("figure6", []) if (policy := run.get("policy"))]
    columns = ["Games", "nats", "from 0.5", "1", "2, %", "W - L", "from 0.25", "0.5", "0.8, %"]
    table("Policy surprise", columns, surprise)


if __name__ == "__main__":
    main()
