#!/usr/bin/env python3
"""Counts how often likely mistakes are played and traps are fallen into, against the share of players that the analysis
names (docs/analysis.md).

    scorn analyze GAMES.pgn --json --annotate annotated.pgn > a.jsonl && traps.py a.jsonl

The positions of a game follow each other, as scorn analyze writes them. A trap that the last move of a game sets is
left out: nobody replied.
"""

import argparse
import json
import math
from collections.abc import Iterator

# Shares of players: from each to the next.
STEPS = (0.0, 0.02, 0.05, 0.1, 0.2, 1.01)


def mistakes(records: list[dict]) -> Iterator[tuple[float, bool]]:
    """Of each likely mistake: the share of players, and whether it was played."""
    for record in records:
        if (mistake := record.get("mistake")) and record.get("played"):
            yield mistake["p"], mistake["move"] == record["played"]


def game_of(record: dict) -> str:
    """The game of a position, from its name ("game 3, move 12...")."""
    return record.get("name", "").partition(", move ")[0]


def traps(records: list[dict]) -> Iterator[tuple[float, bool]]:
    """Of each trap that was set: the share of players who fall into it, and whether it was fallen into."""
    for record, after in zip(records, records[1:]):
        if game_of(record) != game_of(after):
            continue
        for trap in record.get("traps", []):
            if trap["move"] == record.get("played") and after.get("played"):
                yield trap["mistake"]["p"], trap["mistake"]["move"] == after["played"]


def interval(hits: int, count: int) -> tuple[float, float]:
    """Wilson's interval of 95 % for a share."""
    z, share = 1.96, hits / count
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return max(middle - half, 0), min(middle + half, 1)


def row(found: list[tuple[float, bool]]) -> str:
    """Number, mean probability and share of those that were played, as cells of a Markdown table."""
    if not found:
        return "0 | | "
    hits = sum(played for _, played in found)
    low, high = interval(hits, len(found))
    mean = sum(p for p, _ in found) / len(found)
    return f"{len(found)} | {mean:.0%} | {hits / len(found):.0%} ({100 * low:.0f} to {100 * high:.0f})"


def table(kinds: list[list[tuple[float, bool]]]) -> Iterator[str]:
    """Rows by probability, a group of columns for each kind."""
    for low, high in zip(STEPS, STEPS[1:]):
        cells = " | ".join(row([entry for entry in kind if low <= entry[0] < high]) for kind in kinds)
        yield f"| {low:.0%} to {min(high, 1):.0%} | {cells} |"
    yield f"| all | {' | '.join(row(kind) for kind in kinds)} |"


def solved(matrix: list[list[float]], right: list[float]) -> list[float]:
    """The solution of a small system of linear equations, by elimination."""
    rows = [[*row, value] for row, value in zip(matrix, right)]
    for pivot in range(len(rows)):
        for other in range(len(rows)):
            if other != pivot:
                factor = rows[other][pivot] / rows[pivot][pivot]
                rows[other] = [value - factor * by for value, by in zip(rows[other], rows[pivot])]
    return [row[-1] / row[index] for index, row in enumerate(rows)]


def fit(records: list[dict]) -> list[float]:
    """The coefficients with which the mistakes that were played are most probable, by Newton's method."""
    found = []
    for record in records:
        if (mistake := record.get("mistake")) and record.get("played"):
            policy, loss, rating = mistake["policy"], mistake["loss"], mistake["rating"]
            inputs = (1.0, math.log(policy / (1 - policy)), math.log(loss), (rating - 2000) / 400)
            found.append((inputs, mistake["move"] == record["played"]))
    size = range(4)
    weights = [0.0] * 4
    for _ in range(30):
        gradient, hessian = [0.0] * 4, [[1e-6 * (i == j) for j in size] for i in size]
        for inputs, played in found:
            p = 1 / (1 + math.exp(-sum(weight * x for weight, x in zip(weights, inputs))))
            for i in size:
                gradient[i] += (played - p) * inputs[i]
                for j in size:
                    hessian[i][j] += p * (1 - p) * inputs[i] * inputs[j]
        weights = [weight + step for weight, step in zip(weights, solved(hessian, gradient))]
    return weights


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="a.jsonl", help="output of scorn analyze --json")
    fit_help = (
        "print the coefficients of the share instead, by logistic regression on the mistakes: of 1, of the logit of "
        "the model's probability, of the logarithm of the loss, and of the rating, in units of 400 above 2000"
    )
    parser.add_argument("--fit", action="store_true", help=fit_help)
    return parser.parse_args()


def main() -> None:
    args = arguments()
    records = [json.loads(line) for name in args.files for line in open(name, encoding="utf-8")]
    if args.fit:
        print(*(f"{weight:.3f}" for weight in fit(records)))
        return
    print("| Share of players | Likely mistakes | mean share | played | Traps set | mean share | fallen into |")
    print("|---|---|---|---|---|---|---|")
    print(*table([list(mistakes(records)), list(traps(records))]), sep="\n")


if __name__ == "__main__":
    main()
