"""The curves of a loop, for TensorBoard and as a page with plots, which `scorn page` draws. Both are regenerated from
the manifest, so nothing is lost or duplicated by a restart."""

from __future__ import annotations

import argparse
import json
import math
import shutil
from pathlib import Path

from .execution import LoopError, Program
from .files import write_whole
from .manifest import read_manifest
from .rating import Rating, Result, rate
from .schedule import BOUND

# The losses of a generation that are shown, and their names.
LOSSES = {"kl": "KL", "error": "W-L error"}


def results(generations: list[dict]) -> list[Result]:
    """All matches between networks (named gen-N) and others."""
    matches = (match for generation in generations for match in generation.get("matches", []))
    return [Result(m["first"], m["second"], m["wins"], m["draws"], m["losses"]) for m in matches]


def fixed(generations: list[dict]) -> dict[str, float]:
    """The players with a known rating: Stockfish at a UCI_Elo, where it neither won nor lost everything.

    A match without a point for one side says that the distance is large, not how large: no scale can hang on it.
    """
    reported: dict[str, float] = {}
    for result in results(generations):
        points, games = result.wins + result.draws / 2, result.wins + result.draws + result.losses
        if result.second.startswith("Stockfish ") and 0 < points < games:
            reported[result.second] = float(result.second.rsplit(" ", 1)[1])
    return reported


def ratings(generations: list[dict]) -> dict[str, Rating]:
    return rate(results(generations), fixed(generations) or {"gen-0": 0.0})


def series(generations: list[dict]) -> dict[str, list[tuple[int, float]]]:
    """Name to points (generation, value); unknown values are left out."""
    curves: dict[str, list[tuple[int, float]]] = {}

    def add(name: str, at: int, value: float | None) -> None:
        if value is not None:
            curves.setdefault(name, []).append((at, float(value)))

    games = 0
    for generation in generations:
        at, play = generation["generation"], generation["games"]
        games += play["games"]
        add("games/total", at, games)
        add("games/decisive per draw", at, (play["decisive"] + 0.5) / (play["draws"] + 0.5))
        add("games/mean plies", at, play["plies"] / max(play["games"], 1))
        add("search/ScLimit", at, play["sc_limit"] or None)
        add("search/nodes", at, play["nodes"])
        training = generation["training"]
        for part, found in (("learned", training["learned"]), ("fresh", training["fresh"])):
            for key, name in LOSSES.items():
                add(f"loss/{name} {part}", at, found.get(key))
    for name, rating in ratings(generations).items():
        if name.startswith("gen-"):
            add("elo/network", int(name[4:]), rating.elo)
    return curves


def write_cost(path: Path, cost: dict) -> None:
    """Adds a line to times.jsonl, after terminating a line that a full disk has cut short."""
    with open(path, "a+b") as file:
        size = file.seek(0, 2)
        file.seek(max(size - 1, 0))
        torn = b"" if file.read(1) in (b"", b"\n") else b"\n"
        file.write(torn + json.dumps(cost).encode() + b"\n")


def costs(path: Path) -> list[dict]:
    """The complete lines of times.jsonl."""
    found = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            found.append(json.loads(line))
        except ValueError:
            pass  # cut short by a full disk
    return found


def write_tensorboard(folder: Path, generations: list[dict]) -> None:
    """Event files of all generations."""
    from tensorboardX import SummaryWriter

    shutil.rmtree(folder, ignore_errors=True)
    with SummaryWriter(logdir=str(folder)) as writer:
        for name, points in series(generations).items():
            for at, value in sorted(points):
                writer.add_scalar(name.replace(" ", "_"), value, at)


def _series(name: str, style: str, color: int, points: list[tuple], bars: list[float] | None = None) -> dict:
    """A series of a plot; with bars, half their lengths. What is not finite is left out."""
    bars = [math.inf] * len(points) if bars is None else bars
    ends = [[y - bar, y + bar] if math.isfinite(bar) else None for (_, y), bar in zip(points, bars)]
    values = [[x, y, end] for (x, y), end in zip(points, ends) if math.isfinite(y)]
    return {"name": name, "style": style, "color": color, "values": values}


def _figures(generations: list[dict]) -> list[dict]:
    """The plots, as parts of a page."""
    curves, rated = series(generations), ratings(generations)
    last = max(generation["generation"] for generation in generations)

    def figure(name: str, caption: str, of: list[dict]) -> dict:
        return {"figure": {"caption": caption, "plot": {"x_name": "generation", "y_name": name, "series": of}}}

    def across(name: str, y: float) -> dict:
        return _series(name, "thin", 6, [(0, y), (last, y)])

    networks = sorted((int(name[4:]), rating) for name, rating in rated.items() if name.startswith("gen-"))
    elo = [(at, rating.elo) for at, rating in networks]
    anchors = fixed(generations)
    of_elo = [
        _series("", "line", 0, elo),
        _series("network", "points", 0, elo, [rating.error for _, rating in networks]),
        *(across(name, value) for name, value in sorted(anchors.items())),
    ]
    losses = [(name[5:], points) for name, points in sorted(curves.items()) if name.startswith("loss/")]
    of_loss = [_series(name, "line", color, points) for color, (name, points) in enumerate(losses)]
    logs = [(at, math.log10(ratio)) for at, ratio in curves.get("games/decisive per draw", [])]
    of_ratio = [_series("self-play", "line", 0, logs), *(across("", math.log10(end)) for end in (1 / BOUND, BOUND))]
    bars = "Bars are intervals of 95 %."
    parts = [
        figure("Elo", bars if anchors else f"The first network is 0. {bars}", of_elo),
        figure("loss", "On new games; fresh: before they are learned from.", of_loss),
        figure("log10 of (w+l)/d", "0: as many decisive games as draws. Thin: half and twice as many.", of_ratio),
    ]
    for name, curve, caption in (
        ("ScLimit", "search/ScLimit", "Of the generation's games."),
        ("nodes a move", "search/nodes", "In self-play."),
        ("games", "games/total", "All games so far."),
    ):
        if curve in curves:
            parts.append(figure(name, caption, [_series("self-play", "line", 0, curves[curve])]))
    return parts


def rows(generations: list[dict]) -> tuple[list[str], list[list[str]]]:
    """Headings and cells of the table of generations."""
    rated = ratings(generations)
    heads = ["network", "Elo", "games", "w", "d", "l", "(w+l)/d", "ScLimit", "nodes", "positions"]
    heads += [f"{name}{when}" for name in LOSSES.values() for when in (" fresh", "")]
    heads += ["plays on"]
    table = []
    for generation in generations:
        play, training = generation["games"], generation["training"]
        name = f"gen-{generation['generation']}"
        elo = f"{rated[name].elo:.0f} ± {rated[name].error:.0f}" if name in rated else ""
        counts = [play["games"], play["white"], play["draws"], play["black"]]
        ratio = f"{play['decisive'] / max(play['draws'], 1):.2f}"
        limit = f"{play['sc_limit']:.0f}" if play["sc_limit"] else "-"
        losses = [training[when].get(loss, "") for loss in LOSSES for when in ("fresh", "learned")]
        verdict = "yes" if generation["promoted"] else "no"
        cells = [name, elo, *counts, ratio, limit, play["nodes"], training["positions"], *losses, verdict]
        table.append([str(cell) for cell in cells])
    return heads, table


def page(title: str, summary: str, generations: list[dict]) -> dict:
    """The description of the page, for `scorn page`."""
    heads, table = rows(generations)
    figures = _figures(generations) if generations else []
    return {"title": title, "parts": [{"paragraph": summary}, *figures, {"table": {"columns": heads, "rows": table}}]}


def write_page(program: Program, path: Path, title: str, summary: str, generations: list[dict]) -> None:
    """The page, and beside it its description as JSON.

    Raises:
        LoopError: the program cannot make it.
    """
    description = path.with_suffix(".json")
    text = json.dumps(page(title, summary, generations), allow_nan=False)
    write_whole(description, lambda partial: partial.write_text(text))
    program.run(["page", str(description), "--out", str(path), "--force"])


def main() -> None:
    """`python -m scorn_training.charts FOLDER`: the table of a loop in Markdown, and what it cost."""
    parser = argparse.ArgumentParser(prog="scorn_training.charts", description=main.__doc__)
    parser.add_argument("folder", type=Path, help="the loop's folder; the loop may be running")
    args = parser.parse_args()
    try:
        manifest = read_manifest(args.folder)
    except (LoopError, OSError) as error:
        parser.exit(1, f"scorn charts: {error}\n")
    if manifest is None:
        parser.exit(1, f"scorn charts: {args.folder} holds no manifest.json\n")
    generations = manifest["generations"][1:]
    heads, table = rows(generations)
    for line in (heads, ["---"] * len(heads), *table):
        print("| " + " | ".join(line) + " |")
    total: dict[str, float] = {}
    for cost in costs(args.folder / "times.jsonl"):
        total[cost["phase"]] = total.get(cost["phase"], 0) + cost["core_seconds"]
    print("\ncore minutes: " + ", ".join(f"{name} {seconds / 60:.1f}" for name, seconds in total.items()))


if __name__ == "__main__":
    main()
