"""Trains the value of scorn-odds: the results of games in which the engine gives odds to opponents that err.

    python -m scorn_training.odds_value --networks networks --books BOOKS --folder FOLDER [--maias DIR]

Each generation plays shards of games with the network of the one before (the first with scorn-sparse), White or Black
giving the odds, against models of people of all ratings, Maia networks, the engine with few nodes, and scorn-zero.
Then the value of scorn-sparse, with inputs of who is to move, learns the results of all games so far, each position
about once: further passes overfit the games. BOOKS has odds-train.epd of human_books. Opponents by which the
network is judged (maia-1900, the policy of scorn-dense, Stockfish) are not among those that it learns from. Results
that exist are not made again, so an interrupted run is resumed.
"""

from __future__ import annotations

import argparse
import random
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .files import write_whole
from .human_books import odds_board
from .runs import command

VALUES = {"P": 1, "N": 3, "B": 3, "R": 5, "Q": 9, "K": 0}
# Pieces that White lacks in the start position, and how often; for Black they are mirrored.
FROM_START = {"d1": 8, "a1": 3, "h1": 2, "b1": 3, "g1": 3, "b1 g1": 2, "c1": 1, "f1": 1, "c1 f1": 1, "a1 h1": 1}
FROM_START |= {"b1 c1": 1, "a1 b1": 1}
SHARE_FROM_START = 1 / 3
DEFICIT = 2  # pawns
MAX_PLIES = 240
BATCH, RATE = 2048, 0.0006
BYTES_A_POSITION = 265  # of a self-play file, about
OPTIONS = "CPuct=1.56;FpuValue=0.41;PolicyTemperature=1.67;RootChoice=lcb;CertaintyProp=2;AutoExtend=true"


@dataclass(frozen=True)
class Shard:
    """Games of one kind: who gives the odds, how, and to whom."""

    giver: str  # white or black
    nodes: int
    options: str  # the giver's
    opponent: str  # options


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scorn", default="scorn", help="the program")
    parser.add_argument("--networks", type=Path, required=True, help="the folder networks/ of the repository")
    parser.add_argument("--books", type=Path, required=True, help="folder with odds-train.epd")
    parser.add_argument("--folder", type=Path, required=True, help="for everything that is made")
    maias = "folder with maia-1100.pb.gz and maia-1500.pb.gz; without it no Maia plays"
    parser.add_argument("--maias", type=Path, help=maias)
    parser.add_argument("--generations", type=int, default=3)
    parser.add_argument("--shards", type=int, default=30, help="of a generation")
    parser.add_argument("--games", type=int, default=1000, help="of a shard")
    parser.add_argument("--nodes", default="100,150", help="the giver's nodes a move, one of these a shard")
    parser.add_argument("--steps", type=int, help="training steps [default: each position once]")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=490000)
    return parser.parse_args(argv)


def deficit(opening: str) -> int:
    """By how many pawns White is behind."""
    board = opening.split()[0]
    return sum(VALUES.get(piece.upper(), 0) * (1 if piece.islower() else -1) for piece in board)


def starts(openings: list[str], rng: random.Random) -> dict[str, list[str]]:
    """Starting positions by the side that gives the odds."""
    found = {
        "white": [opening for opening in openings if deficit(opening) >= DEFICIT],
        "black": [opening for opening in openings if -deficit(opening) >= DEFICIT],
    }
    for name, openings_of_side in found.items():
        count = round(len(openings_of_side) * SHARE_FROM_START / (1 - SHARE_FROM_START))
        kinds = rng.choices(list(FROM_START), list(FROM_START.values()), k=count)
        openings_of_side += [odds_board(squares.split(), name == "white").epd() for squares in kinds]
        rng.shuffle(openings_of_side)
    return found


def draw_shard(rng: random.Random, args: argparse.Namespace) -> Shard:
    """A kind of games, at random."""
    drawn = "NodeLimit=1;PolicyTemperature=1;RefineWeights=;Temperature=" + rng.choice(["0.3", "0.6", "1"])
    moves, nodes = rng.choice([10, 30]), rng.choice([3, 5, 10, 20, 40])
    few = f"Temperature=1;TempDecayMoves={moves};RefineWeights=;NodeLimit={nodes}"
    kinds = {"human": 50, "maia": 15 if args.maias else 0, "few": 30, "zero": 5}
    opponent = {
        "human": f"WeightsFile=<built in human {rng.choice(range(1100, 1901, 100))}>;{drawn}",
        "maia": f"WeightsFile={args.maias}/maia-{rng.choice([1100, 1500])}.pb.gz;Backend=onnx-cpu;"
        f"BackendOptions=precision=int8;{drawn}",
        "few": few,
        "zero": f"WeightsFile={args.networks}/scorn-zero.onnx;Temperature=1;TempDecayMoves=10;RefineWeights=;"
        f"NodeLimit={rng.choice([1, 5, 20])}",
    }
    [kind] = rng.choices(list(kinds), list(kinds.values()))
    return Shard(
        giver=rng.choices(["white", "black"], [3, 2])[0],
        nodes=int(rng.choice(args.nodes.split(","))),
        options="RefineWeights=;ScLimit=" + rng.choice(["28", "28", "16", "60", "1000000000"]),
        opponent=opponent[kind],
    )


def run(*command: object) -> None:
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)


def play(args: argparse.Namespace, network: str, generation: int) -> list[str]:
    """Plays the games of a generation; returns the files of positions, each with the giver's color."""
    files = []
    for number in range(args.shards):
        seed = args.seed + generation * args.shards + number
        shard = draw_shard(random.Random(seed), args)
        out = args.folder / f"games-{generation}" / f"{number:04}"
        if not (out / "summary.json").exists():
            command = [args.scorn, "selfplay", "--games", args.games, "--nodes", shard.nodes, "--seed", seed]
            command += ["--book", args.folder / f"starts-{shard.giver}.epd", "--a-plays", shard.giver]
            command += ["--a", f"WeightsFile={network};{shard.options}", "--b", shard.opponent]
            command += ["--max-plies", MAX_PLIES, "--threads", args.threads, "--records"]
            command += ["--games-per-file", 10 * args.games, "--out", out]
            run(*command, *(["--resume"] if out.exists() else []))
        files.append(f"{out}/positions-00001.vis@{shard.giver}")
    return files


def train(args: argparse.Namespace, files: list[list[str]], generation: int) -> Path:
    """The network that learned the results of all games so far; those of the last generation count twice."""
    folder = args.folder / f"train-{generation}"
    network = folder / "full.onnx"
    if network.exists():
        return network
    start = args.folder / "start.checkpoint"
    if not start.exists():
        sparse = args.networks / "sparse" / "scorn-sparse.onnx"
        run(args.scorn, "train", "start", start, "--network", sparse, "--inputs", "opponent")
    data, size = [], 0
    for age, files_of in enumerate(reversed(files)):
        for file in files_of:
            own = Path(file.rsplit("@", 1)[0]).stat().st_size
            size += own
            data += ["--data", f"{file}:{own if age == 0 else own // 2}"]
    steps = args.steps or max(1, size // BYTES_A_POSITION // BATCH)
    command = [args.scorn, "train", "run", "--folder", folder, "--decay", start, "--only", "value", *data]
    command += ["--result-share", 1, "--batch", BATCH, "--rate", RATE, "--warmup", 50, "--chunk", 256]
    run(*command, "--steps", steps, "--threads", args.threads, "--save-every", 500, "--test-every", steps)
    run(args.scorn, "train", "export", folder / "checkpoint", network, "--options", OPTIONS)
    return network


def strip(args: argparse.Namespace, network: Path, games: int) -> None:
    """The file in the program: the value alone. The policy, which the program takes from scorn-sparse, is small."""
    checkpoint, out = args.folder / "value.checkpoint", args.folder / "scorn-odds.onnx"
    small = ["--policy-width", 64, "--reinit", "policy"]
    run(args.scorn, "train", "start", checkpoint, "--network", network, *small, "--force")
    data = f"results of {games} games at odds against models of people, Maia networks and engines with few nodes"
    about = ["--name", "scorn-odds", "--data", data, "--license", "GPL-3.0-or-later", "--options", OPTIONS]
    run(args.scorn, "train", "export", checkpoint, out, "--force", *about)


def main() -> None:
    args = arguments()
    args.folder.mkdir(parents=True, exist_ok=True)
    openings = (args.books / "odds-train.epd").read_text(encoding="utf-8").splitlines()
    for giver, positions in starts(openings, random.Random(args.seed)).items():
        text = "".join(f"{position}\n" for position in positions)
        write_whole(args.folder / f"starts-{giver}.epd", lambda partial, text=text: partial.write_text(text))
    network, files = "<built in>", []
    for generation in range(args.generations):
        files.append(play(args, network, generation))
        network = str(train(args, files, generation))
        print(f"generation {generation}: {network}", flush=True)
    strip(args, Path(network), args.generations * args.shards * args.games)


if __name__ == "__main__":
    command("odds_value", main)
