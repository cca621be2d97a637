"""Starts at odds and the kinds of games of odds_value.py."""

import random

import chess

from scorn_training import odds_value

OPENINGS = [
    "rnbqkbnr/pppp1ppp/8/4p3/4P3/8/PPPP1PPP/RNB1KBNR w KQkq -",  # White lacks the queen
    "rnbqkb1r/pppp1ppp/8/4p3/4P3/8/PPPP1PPP/RNBQKBNR b KQkq -",  # Black lacks a knight
    "rnbqkbnr/pppp1ppp/8/4p3/4P3/8/PPPP1PP1/RNBQKBNR w KQkq -",  # a pawn is too little
]


def test_starts_belong_to_the_side_that_is_behind() -> None:
    starts = odds_value.starts(OPENINGS * 40, random.Random(1))
    assert OPENINGS[0] in starts["white"] and OPENINGS[1] in starts["black"]
    assert not any(OPENINGS[2] in positions for positions in starts.values())
    for name, sign in (("white", 1), ("black", -1)):
        for position in starts[name]:
            assert sign * odds_value.deficit(position) >= odds_value.DEFICIT
            assert chess.Board(f"{position} 0 1").is_valid()
        from_start = sum(position not in OPENINGS for position in starts[name])
        assert abs(from_start / len(starts[name]) - odds_value.SHARE_FROM_START) < 0.02


def test_no_opponent_is_one_that_the_network_is_judged_by() -> None:
    args = odds_value.arguments("--networks n --books b --folder f --maias m".split())
    shards = [odds_value.draw_shard(random.Random(seed), args) for seed in range(400)]
    opponents = " ".join(shard.opponent for shard in shards)
    assert all(kind in opponents for kind in ("built in human 1100", "maia-1500", "NodeLimit=40", "scorn-zero"))
    assert not any(kind in opponents for kind in ("maia-1900", "built in dense", "stockfish"))
    assert {shard.giver for shard in shards} == {"white", "black"}
    without = odds_value.arguments("--networks n --books b --folder f".split())
    assert not any("maia" in odds_value.draw_shard(random.Random(seed), without).opponent for seed in range(400))
