#!/usr/bin/env python3
"""Counts how often likely mistakes are played and traps are fallen into, against the probability that the model of the
players gives (docs/analysis.md).

Usage: scorn analyze GAMES.pgn --opponent-rating 1500 --json --annotate annotated.pgn > a.jsonl; traps.py a.jsonl
The positions of a game follow each other, as scorn analyze writes them. A trap that the last move of a game sets is
left out: nobody replied.
"""

import json
import math
import sys
from collections.abc import Iterator

# Probabilities by the model: from each to the next.
STEPS = (0.2, 0.4, 0.6, 0.8, 1.01)


def mistakes(records: list[dict]) -> Iterator[tuple[float, bool]]:
    """Of each likely mistake: its probability, and whether it was played."""
    for record in records:
        if (mistake := record.get("mistake")) and record.get("played"):
            yield mistake["p"], mistake["move"] == record["played"]


def game_of(record: dict) -> str:
    """The game of a position, from its name ("game 3, move 12...")."""
    return record.get("name", "").partition(", move ")[0]


def traps(records: list[dict]) -> Iterator[tuple[float, bool]]:
    """Of each trap that was set: the probability of the reply, and whether it was played."""
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


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    records = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
    print("| Probability | Likely mistakes | mean p | played | Traps set | mean p | fallen into |")
    print("|---|---|---|---|---|---|---|")
    print(*table([list(mistakes(records)), list(traps(records))]), sep="\n")


if __name__ == "__main__":
    main()
