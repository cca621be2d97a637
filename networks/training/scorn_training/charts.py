"""The curves of a loop, for TensorBoard and as a page with plots. Both are regenerated from the manifest, so nothing is
lost or duplicated by a restart."""

from __future__ import annotations

import argparse
import html
import io
import json
import shutil
from pathlib import Path

from .execution import LoopError
from .files import write_whole
from .manifest import read_manifest
from .rating import Rating, Result, rate

PAGE = """<!doctype html><meta charset="utf-8"><title>{title}</title>
<style>body{{font:15px/1.5 sans-serif;max-width:70em;margin:2em auto;padding:0 1em}}table{{border-collapse:collapse}}
td,th{{padding:.15em .6em;text-align:right;border-bottom:1px solid #ddd}}svg{{max-width:100%;height:auto}}</style>
<h1>{title}</h1><p>{summary}</p>{figure}<table><tr>{head}</tr>{rows}</table>"""


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
            for name in ("kl", "value"):
                add(f"loss/{name} {part}", at, found.get(name))
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


def _figure(generations: list[dict]) -> str:
    """The plots as SVG."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "scorn"
    from matplotlib import pyplot

    curves, rated = series(generations), ratings(generations)
    figure, axes = pyplot.subplots(2, 3, figsize=(13, 7), constrained_layout=True)
    elo, loss, ratio, limit, nodes, games = axes.ravel()
    points = sorted((int(name[4:]), r) for name, r in rated.items() if name.startswith("gen-"))
    elo.errorbar(
        [at for at, _ in points], [r.elo for _, r in points], [r.error for _, r in points], fmt="o-", capsize=2
    )
    anchors = fixed(generations)
    for name, value in sorted(anchors.items()):
        elo.axhline(value, color="gray", linewidth=0.7, linestyle=":")
        elo.annotate(name, (0, value), fontsize=7, color="gray")
    elo.set_title("Elo by network" + ("" if anchors else " (gen-0 is 0)"))
    for name, points in curves.items():
        if name.startswith("loss/"):
            loss.plot(*zip(*points), label=name[5:])
    loss.set_title("loss on new games (fresh: before they are learned from)")
    if loss.lines:
        loss.legend(fontsize=7)
    for axis, name, title in (
        (ratio, "games/decisive per draw", "(w+l)/d of self-play"),
        (limit, "search/ScLimit", "ScLimit"),
        (nodes, "search/nodes", "nodes a move"),
        (games, "games/total", "games so far"),
    ):
        axis.set_title(title)
        if name in curves:
            axis.plot(*zip(*curves[name]), "o-", markersize=3)
    ratio.set_yscale("log")
    ratio.axhspan(0.5, 2, color="gray", alpha=0.15)
    for axis in axes.ravel():
        axis.set_xlabel("generation")
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    text = out.getvalue()
    return text[text.index("<svg") :]


def rows(generations: list[dict]) -> tuple[list[str], list[list[str]]]:
    """Headings and cells of the table of generations."""
    rated = ratings(generations)
    heads = ["network", "Elo", "games", "w", "d", "l", "(w+l)/d", "ScLimit", "nodes", "positions"]
    heads += ["KL fresh", "KL", "value fresh", "value", "plays on"]
    table = []
    for generation in generations:
        play, training = generation["games"], generation["training"]
        name = f"gen-{generation['generation']}"
        elo = f"{rated[name].elo:.0f} ± {rated[name].error:.0f}" if name in rated else ""
        counts = [play["games"], play["white"], play["draws"], play["black"]]
        ratio = f"{play['decisive'] / max(play['draws'], 1):.2f}"
        limit = f"{play['sc_limit']:.0f}" if play["sc_limit"] else "-"
        losses = [training[when].get(loss, "") for loss in ("kl", "value") for when in ("fresh", "learned")]
        verdict = "yes" if generation["promoted"] else "no"
        cells = [name, elo, *counts, ratio, limit, play["nodes"], training["positions"], *losses, verdict]
        table.append([str(cell) for cell in cells])
    return heads, table


def write_page(path: Path, title: str, summary: str, generations: list[dict]) -> None:
    """One HTML file, with everything in it."""
    heads, table = rows(generations)
    cells = ["".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in table]
    text = PAGE.format(
        title=html.escape(title),
        summary=html.escape(summary),
        figure=_figure(generations) if generations else "",
        head="".join(f"<th>{html.escape(head)}</th>" for head in heads),
        rows="".join(f"<tr>{row}</tr>" for row in cells),
    )
    write_whole(path, lambda partial: partial.write_text(text))


def main() -> None:
    """`python -m scorn_training.charts FOLDER [--svg FILE]`: the table of a loop in Markdown, and its plots."""
    parser = argparse.ArgumentParser(prog="scorn_training.charts", description=main.__doc__)
    parser.add_argument("folder", type=Path, help="the loop's folder; the loop may be running")
    parser.add_argument("--svg", type=Path, help="a file for the plots")
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
    if args.svg and not generations:
        parser.exit(1, "scorn charts: no generation is complete yet: there is nothing to plot\n")
    if args.svg:
        figure = _figure(generations)
        try:
            write_whole(args.svg, lambda partial: partial.write_text(figure))
        except OSError as error:
            parser.exit(1, f"scorn charts: {args.svg} cannot be written: {error.strerror}\n")


if __name__ == "__main__":
    main()
