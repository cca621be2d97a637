"""The settings of a loop, which cannot change once a generation is complete, and the presets."""

from __future__ import annotations

import argparse
import hashlib
import math
import re
from dataclasses import Field, asdict, dataclass, field, fields, replace
from pathlib import Path

# The pieces that odds may name.
PIECES = {"queen", "rook", "bishop", "knight", "pawn"}


def _of(default: object, text: str):
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True)
class Settings:
    """Every field is a command-line flag. Their order is that of the phases that use them: see `first_use`."""

    start: str = _of("random", "Start: random weights, or the file of a sparse network.")
    teacher: str = _of("", "Network of any kind that plays the first generation's games.")
    shape: str = _of("512,512,32", "Sizes of a new network: columns of policy and value, hidden units.")
    seed: int = _of(1, "Seed of all random choices.")

    games: int = _of(500, "Games per generation.")
    nodes: int = _of(100, "Nodes per move in self-play.")
    max_plies: int = _of(450, "Plies after which a game counts as a draw.")
    engine: str = _of("", "Search flags in self-play, as in '--noise-epsilon 0.25 --temperature 1'.")
    random_plies: int = _of(
        0, "Plies at the start of a game in which a move may be random. Such positions are not learned from."
    )
    random_share: float = _of(1.0, "Probability of a random move in each of these plies.")
    value_choice: bool = _of(
        False, "Play the move of the highest value + log(visits), if the program supports it (RootChoice)."
    )
    reference_opponents: bool = _of(
        False, "Best1 plays itself, Best2 (more games the stronger it is) and 10 %% older networks."
    )
    odds: str = _of("", "Odds in self-play, as for scorn selfplay --odds.")
    shards: int = _of(2, "Processes that share a generation's games.")

    sc_limit: int = _of(0, "ScLimit of self-play. 0 is plain PUCT.")
    balance: float = _of(
        0.0, "Ratio (w+l)/d of self-play that ScLimit is adjusted to, from generation to generation. 0: no adjustment."
    )
    most_nodes: int = _of(
        0,
        "With --balance: maximum of the nodes, which double whenever ScLimit has settled, or plain PUCT is too "
        "decisive. 0: no doubling.",
    )

    window: int = _of(20, "Generations in the replay window.")
    unique: bool = _of(False, "Merge positions with equal network inputs to the means of policy and value.")
    fade: float = _of(0.0, "With --unique: loss of weight per generation of age.")
    fade_least: float = _of(0.7, "With --fade: minimum weight of a generation.")
    subset: int = _of(0, "With --unique: number of positions to learn from, preferring frequent ones. 0: all.")
    result_share: str = _of("1", "Share of the result in the value target, as for scorn train --result-share.")
    value_loss: str = _of(
        "cross-entropy", "Value loss, as for scorn train --value-loss: cross-entropy of W/D/L, or squared."
    )
    reuse: float = _of(2.0, "Positions learned from for each new one. High values overfit the results.")
    passes: float = _of(0.0, "In place of --reuse: passes over the subset in every generation.")
    batch: int = _of(1024, "Positions per training step.")
    rate: float = _of(1e-3, "Learning rate.")
    train_threads: int = _of(2, "Training threads.")

    gate: str = _of(
        "none", "Gate for new networks: none (all pass), score (more than --gate-score of the points), sprt."
    )
    gate_score: float = _of(0.55, "With --gate score: share of points that a new network has to exceed.")
    gate_sprt: str = _of("0,30,0.05,0.05", "With --gate sprt: parameters, as for scorn match --sprt.")
    gate_pairs: int = _of(20, "Openings of the gate's match, each with both colours. With sprt: their maximum.")
    gate_nodes: int = _of(100, "Nodes per move in matches.")
    match_limit: str = _of(
        "",
        "In place of --gate-nodes: limit of matches: nodes=800, time=0.5 (seconds per move), or clock=10+0.1 or "
        "clock=40/60+0.6 (seconds per game, or for 40 moves, and increment).",
    )
    match_options: str = _of("", "Options of the program in matches, such as 'TimeManager=alphazero;CPuct=2'.")
    pool_pairs: int = _of(10, "Openings of a match against a random older network, for the ratings.")
    anchor_opponent: str = _of(
        "", "Stockfish, which anchors the ratings by matches against the new network. Empty: none."
    )
    anchor_every: int = _of(5, "Generations between matches against Stockfish.")
    anchor_pairs: int = _of(10, "Openings of a match against Stockfish.")
    anchor_nodes: int = _of(20_000, "Stockfish's nodes per move, enough to reach its UCI_Elo.")

    def derived(self, *parts: object) -> int:
        """A seed for a part of the work, different for other parts, in the program's range."""
        digest = hashlib.sha256(repr((self.seed, *parts)).encode()).digest()
        return int.from_bytes(digest[:4], "little") >> 1 or 1


# Former names of settings, in manifests and as flags.
RENAMED = {
    "longest": "max_plies",
    "rivals": "reference_opponents",
    "yardstick": "anchor_opponent",
    "yardstick_every": "anchor_every",
    "yardstick_pairs": "anchor_pairs",
    "yardstick_nodes": "anchor_nodes",
}

# Noise at the root as in AlphaZero; a policy temperature of 1, because the policy learns visits and would otherwise be
# flattened in every generation (the engine's default of 1.359 suits networks that learned from single moves).
NOISE = "--noise-epsilon 0.25 --noise-alpha 0.3 --policy-softmax-temp 1"

# The rules of published programs, as far as they apply. Sizes (games, nodes, window) suit a small machine. Each preset
# sets everything that the default preset sets: what it omitted would come from there.
PRESETS: dict[str, dict] = {
    # Silver et al. 2018: noise at the root, moves of the first 30 plies in proportion to visits, visits and result as
    # targets, the squared error of the value as its loss, always the newest network.
    "alphazero": {
        "engine": f"{NOISE} --temperature 1 --temp-cutoff-move 16 --cpuct 1.25 --cpuct-base 19652 --cpuct-factor 1",
        "result_share": "1",
        "value_loss": "squared",
        "gate": "none",
        "match_options": "PolicyTemperature=1",
    },
    # Marchete, "Differences between CGZero and AlphaZero": reference opponents, unique samples that fade,
    # k z + (1 - k) q with k growing, a subset by Count, several passes, 55 % to be promoted, random moves in the first
    # 11 turns.
    "cgzero": {
        "engine": f"{NOISE} --temperature 0",
        "random_plies": 22,
        "random_share": 0.1,
        "value_choice": True,
        "reference_opponents": True,
        "unique": True,
        "fade": 0.02,
        "fade_least": 0.7,
        "subset": 200_000,
        "result_share": "0.2,0.8",
        "value_loss": "cross-entropy",
        "passes": 5.0,
        "gate": "score",
        "match_options": "PolicyTemperature=1",
        "gate_score": 0.55,
    },
    # Joshi, "Search-contempt" (figure 5): ScLimit holds (w+l)/d near 1 while networks and nodes grow, at a low
    # temperature.
    "paper": {
        "engine": f"{NOISE} --temperature 1 --tempdecay-moves 10",
        "sc_limit": 5,
        "balance": 1.0,
        "nodes": 1000,
        "most_nodes": 4000,
        "result_share": "1",
        "value_loss": "cross-entropy",
        "gate": "none",
        "match_options": "PolicyTemperature=1",
    },
}


# Ranges of the numbers, inclusive. The program reports violations of its own limits when it runs first.
MOST = 2**31 - 1
RANGES: dict[str, tuple[float, float]] = {
    **dict.fromkeys(["games", "nodes", "max_plies", "shards", "window", "batch", "train_threads"], (1, MOST)),
    **dict.fromkeys(["gate_pairs", "gate_nodes", "anchor_every", "anchor_pairs", "anchor_nodes"], (1, MOST)),
    **dict.fromkeys(["random_plies", "sc_limit", "balance", "most_nodes", "subset", "pool_pairs"], (0, MOST)),
    **dict.fromkeys(["reuse", "passes", "rate"], (0, MOST)),
    **dict.fromkeys(["random_share", "fade", "fade_least", "gate_score"], (0, 1)),
}

# The kinds of --match-limit: the flag of `scorn match`, and the form of its value. Minutes may precede the seconds.
SECONDS = r"(?:\d+:)?(?:\d+\.?\d*|\.\d+)"
LIMITS = {
    "nodes": ("--nodes", r"0*[1-9]\d*"),
    "time": ("--st", rf"(?=.*[1-9]){SECONDS}"),
    "clock": ("--tc", rf"(?:0*[1-9]\d*/)?(?=[^+]*[1-9]){SECONDS}(?:\+{SECONDS})?"),
}

# The preset of a new loop: without noise and temperature all games would be the same.
DEFAULT_PRESET = "alphazero"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds a flag for every setting; the namespace lacks those that are not given."""
    parser.add_argument(
        "--preset",
        choices=sorted(PRESETS),
        help=f"Published rules to follow; other flags change them. [{DEFAULT_PRESET}]",
    )
    for item in fields(Settings):
        default = "" if item.default in ("", False) else f" [{item.default}]"
        _add_argument(parser, item.name, item, item.metadata["help"] + default)
        for former in (old for old, new in RENAMED.items() if new == item.name):
            _add_argument(parser, former, item, argparse.SUPPRESS)


def _add_argument(parser: argparse.ArgumentParser, name: str, item: Field, text: str) -> None:
    """Adds a flag of this name for a setting."""
    flag, common = "--" + name.replace("_", "-"), {"dest": item.name, "default": argparse.SUPPRESS, "help": text}
    if isinstance(item.default, bool):
        parser.add_argument(flag, action=argparse.BooleanOptionalAction, **common)
    else:
        parser.add_argument(flag, type=type(item.default), metavar="X", **common)


def given(args: argparse.Namespace) -> dict:
    """The settings given by flags, without those of the preset."""
    return {item.name: getattr(args, item.name) for item in fields(Settings) if hasattr(args, item.name)}


def check(settings: Settings) -> Settings:
    """Returns the settings if they are valid.

    Raises:
        ValueError: they do not.
    """
    for item in fields(Settings):
        value, least, most = getattr(settings, item.name), *RANGES.get(item.name, (-math.inf, math.inf))
        flag = f"--{item.name.replace('_', '-')}"
        # Written so that what is not a number is out of every range.
        if isinstance(item.default, int | float) and not least <= value <= most:
            raise ValueError(
                f"{flag} must be {f'at least {least}' if value < least else f'from {least} to {most}'}, not {value}"
            )
    if settings.rate == 0 or settings.reuse == settings.passes == 0:
        raise ValueError(f"--{'rate' if settings.rate == 0 else 'reuse'} cannot be 0: nothing would be learned")
    sizes = settings.shape.split(",")
    if len(sizes) != 3 or not all(size.strip().isdigit() and int(size) > 0 for size in sizes):
        raise ValueError(f"--shape is three sizes, as in 512,512,32, not {settings.shape}")
    for name, counts in (("result_share", (1, 2)), ("gate_sprt", (4,))):
        numbers = getattr(settings, name).split(",")
        if len(numbers) not in counts or not all(_is_number(number) for number in numbers):
            raise ValueError(
                f"--{name.replace('_', '-')} is {' or '.join(map(str, counts))} numbers, not {','.join(numbers)}"
            )
    if not all(0 <= float(share) <= 1 for share in settings.result_share.split(",")):
        raise ValueError(f"--result-share is from 0 to 1, not {settings.result_share}")
    if settings.odds and "/" not in settings.odds and not set(settings.odds.split("+")) <= PIECES:
        raise ValueError(f"--odds is a FEN or pieces such as rook+knight, not {settings.odds}")
    if settings.value_loss not in ("cross-entropy", "squared"):
        raise ValueError(f"--value-loss is cross-entropy or squared, not {settings.value_loss}")
    limit_flags(settings)
    if settings.gate not in ("none", "score", "sprt"):
        raise ValueError(f"--gate is none, score or sprt, not {settings.gate}")
    if (settings.fade or settings.subset) and not settings.unique:
        raise ValueError("--fade and --subset require --unique")
    if ";" in settings.anchor_opponent:
        raise ValueError(
            "--anchor-opponent: scorn match separates options by ';', which the path "
            f"{settings.anchor_opponent} has: rename it"
        )
    if settings.balance and settings.sc_limit < 1:
        return replace(settings, sc_limit=5)
    return settings


def limit_flags(settings: Settings) -> list[str]:
    """The flags of `scorn match` for the limit of its moves.

    Raises:
        ValueError: --match-limit is invalid.
    """
    if not settings.match_limit:
        return ["--nodes", str(settings.gate_nodes)]
    kind, _, value = settings.match_limit.partition("=")
    flag, form = LIMITS.get(kind, ("", ""))
    if not flag or not re.fullmatch(form, value):
        raise ValueError(
            "--match-limit is nodes=N, time=SECONDS or clock=[MOVES/]SECONDS[+INCREMENT], all but the increment "
            f"above 0, not {settings.match_limit}"
        )
    return [flag, value]


def check_named(named: dict, settings: Settings) -> str:
    """Checks whether the settings given by flags have an effect beside the others. Returns a warning, or nothing.

    Raises:
        ValueError: two of the names exclude each other, or one lacks what it belongs to.
    """
    if named.get("most_nodes") and not settings.balance:
        raise ValueError("--most-nodes requires --balance: it has no effect without it")
    for name, needed, is_there in (
        ("random_share", "--random-plies", settings.random_plies),
        ("fade_least", "--fade", settings.fade),
        ("gate_score", "--gate score", settings.gate == "score"),
        ("gate_sprt", "--gate sprt", settings.gate == "sprt"),
        *((f"anchor_{name}", "--anchor-opponent", settings.anchor_opponent) for name in ("every", "pairs", "nodes")),
    ):
        if name in named and not is_there:
            raise ValueError(f"--{name.replace('_', '-')} requires {needed}: it has no effect without it")
    if "gate_nodes" in named and settings.match_limit:
        raise ValueError("--gate-nodes and --match-limit exclude each other: give one of them")
    if named.get("reuse") and settings.passes:
        if "passes" in named:
            raise ValueError("--reuse and --passes exclude each other: give one of them")
        return f"--reuse has no effect beside the preset's --passes {settings.passes:g} (--passes 0 turns that off)"
    return ""


def check_files(settings: Settings) -> None:
    """Checks that the networks for the first generation exist; later ones do not need them.

    Raises:
        ValueError: one is not there.
    """
    for name in ("start", "teacher"):
        file = getattr(settings, name)
        if file not in ("", "random") and not Path(file).is_file():
            raise ValueError(f"--{name}: there is no file {file}")


def first_use(name: str) -> str:
    """The phase of a loop in which a setting is first used: earlier phases do not depend on it."""
    order = [item.name for item in fields(Settings)]
    for phase, first in (("matches", "gate"), ("training", "window"), ("games", "games")):
        if order.index(name) >= order.index(first):
            return phase
    return "start"


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def as_dict(settings: Settings) -> dict:
    return asdict(settings)
