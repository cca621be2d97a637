"""The parts of the loop: records, ratings, the schedule, settings. The whole is tested by loop-smoke.sh."""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import random
import re
import sys
import threading
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from scorn_training import charts, games, learning, loop, matches, openings, schedule, selfplay, settings
from scorn_training.execution import Job, Local, LoopError, Program, complaint
from scorn_training.folder import MADE_BY, Folder
from scorn_training.rating import Result, rate


def searched(rows: list[dict]) -> selfplay.Searched:
    """Positions with a board number, result, plies left, game, q, d and visits."""
    positions = np.zeros(len(rows), selfplay.POSITION)
    entries = []
    for position, row in zip(positions, rows):
        position["board"][0] = row["board"]
        position["ep"] = 255
        position["rule50"] = row.get("rule50", 0)
        position["result"], position["plies_left"] = row.get("result", 1), row.get("left", 10)
        position["game"] = row.get("game", 0)
        position["q"], position["d"] = row.get("q", 0) * 32767, row.get("d", 0) * 65535
        position["first"], position["moves"] = len(entries), len(row["visits"])
        position["visits"] = sum(row["visits"].values())
        entries += list(row["visits"].items())
    return selfplay.Searched(positions, np.array(entries, selfplay.ENTRY))


def write_part(path: Path, sums: dict[str, str]) -> None:
    """A part with the checksums of these files, as the program writes it."""
    entries = json.dumps({"games": [], "files": sums}, indent=2).removesuffix("\n}")
    whole = hashlib.sha256(f"{entries}\n}}\n".encode()).hexdigest()
    path.write_text(f'{entries},\n  "sha256": "{whole}"\n}}\n')


def test_files_are_read_back_and_damage_is_named(tmp_path):
    data = searched([{"board": 1, "visits": {5: 10, 6: 30}}, {"board": 2, "visits": {7: 1}}])
    path = tmp_path / "positions-00001.vis"
    data.write(path)
    again = selfplay.parse(path.read_bytes(), path)
    assert (again.positions == data.positions).all() and (again.entries == data.entries).all()
    for bytes_, reported in [(path.read_bytes()[:-1], "is damaged"), (b"x" * 64, "no file of visits")]:
        with pytest.raises(ValueError, match=reported):
            selfplay.parse(bytes_, path)
    whole = hashlib.sha256(path.read_bytes()).hexdigest()
    part = tmp_path / "part-00001.json"
    write_part(part, {path.name: whole, "games-00001.pgn": "x"})
    reported: list[str] = []
    assert selfplay.whole_files(tmp_path, reported.append) == [path] and not reported
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    (tmp_path / "positions-00002.vis").write_bytes(b"")
    assert selfplay.whole_files(tmp_path, reported.append) == []
    assert "positions-00001.vis is damaged" in reported[0] and "positions-00002.vis belongs to no part" in reported[1]
    part.write_text("{")
    assert selfplay.whole_files(tmp_path, reported.append) == [] and "part-00001.json is damaged" in reported[2]


def test_the_checksum_of_a_part_is_checked(tmp_path):
    part = tmp_path / "part-00001.json"
    reported: list[str] = []
    write_part(part, {})
    summed = part.read_bytes()
    assert selfplay.whole_files(tmp_path, reported.append) == [] and not reported
    without = b"%b\n}\n" % summed[: summed.index(b',\n  "sha256"')]
    for damaged in (without, summed.replace(b"games", b"gamez"), summed[:-2], summed.replace(b'": "', b'": "0', 1)):
        part.write_bytes(damaged)
        selfplay.whole_files(tmp_path, reported.append)
        assert "part-00001.json is damaged" in reported.pop()


def test_the_share_of_results_grows_over_a_game_as_in_the_program():
    rows = [{"board": at, "left": left, "result": 2, "visits": {1: 1}} for at, left in enumerate([40, 30, 10])]
    positions = searched(rows).positions
    assert np.allclose(selfplay.result_share(positions, (0.2, 0.8)), [0.2, 0.35, 0.65])
    positions["result"][1] = 255
    positions["q"], positions["d"] = 0.5 * 32767, 0.3 * 65535
    wdl = selfplay.targets(positions, (0.2, 0.8))
    assert np.allclose(wdl.sum(axis=1), 1)
    assert np.allclose(wdl[0], [0.2 + 0.8 * 0.6, 0.8 * 0.3, 0.8 * 0.1], atol=1e-4)
    assert np.allclose(wdl[1], [0.6, 0.3, 0.1], atol=1e-4)


def test_equal_inputs_become_one_with_mean_policy_and_value(tmp_path):
    new, old = tmp_path / "new.vis", tmp_path / "old.vis"
    searched(
        [
            {"board": 3, "result": 2, "visits": {5: 30, 6: 10}, "rule50": 3},
            {"board": 4, "result": 1, "visits": {5: 1}},
            {"board": 3, "result": 0, "visits": {6: 8, 5 | selfplay.FROZEN: 8}},
        ]
    ).write(new)
    searched([{"board": 3, "result": 2, "left": 20, "visits": {5: 100, 6: 0}}]).write(old)
    pool = selfplay.pool([(new, 1.0), (old, 0.5)], (1.0, 1.0))
    assert sorted(pool.count) == [1, 3]
    at = int(np.argmax(pool.count))
    position = pool.searched.positions[at]
    # Won, lost, and half a won one.
    assert position["q"] / 32767 == pytest.approx((1 - 1 + 0.5) / 2.5, abs=1e-3)
    assert (position["result"], position["plies_left"]) == (255, 12)
    entries = pool.searched.entries[position["first"] : position["first"] + position["moves"]]
    policy = dict(zip(entries["move"].tolist(), entries["visits"] / selfplay.POLICY_ONE))
    assert policy == pytest.approx({5: (0.75 + 0.5 + 0.5) / 2.5, 6: (0.25 + 0.5) / 2.5}, abs=1e-5)
    # More of the 50-move rule is another input.
    other = searched([{"board": 3, "visits": {5: 1}, "rule50": 20}])
    other.write(old)
    assert len(selfplay.pool([(new, 1.0), (old, 1.0)], (1.0, 1.0)).searched) == 3


def test_a_subset_prefers_what_was_there_often():
    data = searched([{"board": at, "visits": {1: at, 2: 1}} for at in range(100)])
    pool = selfplay.Pool(data, np.arange(100))
    chosen = selfplay.subset(pool, 50, 1)
    boards = set(chosen.positions["board"][:, 0].tolist())
    assert len(boards) == 50
    shares = [sum(1 for board in boards if low <= board < low + 20) for low in (80, 60, 40, 20, 0)]
    assert shares[0] > shares[2] > shares[4] and shares[0] >= 10
    for position in chosen.positions:
        assert chosen.entries[position["first"]]["visits"] == position["board"][0]
    assert len(selfplay.subset(pool, 100, 1)) == 100
    assert (selfplay.subset(pool, 50, 1).positions == chosen.positions).all()


def test_a_fifth_of_a_subset_is_from_the_first_fifth_the_next_from_the_first_two_and_so_on():
    data = searched([{"board": at, "visits": {1: 1}} for at in range(100)])
    pool = selfplay.Pool(data, np.arange(100))
    counts, runs = np.zeros((400, 5)), range(400)
    for run in runs:
        boards = selfplay.subset(pool, 50, run).positions["board"][:, 0]
        counts[run] = np.bincount(4 - boards // 20, minlength=5)
    # The first fifth has 10 for itself; of the 30 that are left of the first two fifths 10 are taken, a third of each; then a
    # quarter, a fifth, a sixth of what is left: 16 2/3, 13 1/3, 10, 6 2/3, 3 1/3.
    expected = 50 * np.array([5, 4, 3, 2, 1]) / 15
    assert counts.mean(axis=0) == pytest.approx(expected, abs=0.35)  # four standard errors
    # In each run, whatever the lot says: at least this many of the first fifths together, and never more of one than
    # there are.
    assert (
        (counts.cumsum(axis=1) >= [10, 20, 30, 40, 50]).all()
        and (counts <= 20).all()
        and (counts.sum(axis=1) == 50).all()
    )
    # The order of the list is that of Count, wherever a position stands.
    mixed = np.random.default_rng(3).permutation(100)
    other = selfplay.subset(selfplay.Pool(selfplay.select(data, mixed), mixed), 10, 1)
    assert np.bincount(4 - other.positions["board"][:, 0] // 20, minlength=5)[0] >= 2
    assert len(set(other.positions["board"][:, 0].tolist())) == 10


def test_ratings_agree_with_the_scores():
    expected = 1 / (1 + 10 ** (-100 / 400))
    results = [
        Result("b", "a", round(10_000 * expected), 0, 10_000 - round(10_000 * expected)),
        Result("c", "b", 50, 900, 50),
    ]
    found = rate([*results, Result("x", "y", 1, 0, 0)], {"a": 1000.0})
    assert found["a"].elo == 1000 and found["b"].elo == pytest.approx(1100, abs=1)
    assert found["c"].elo == pytest.approx(found["b"].elo, abs=0.5)
    assert found["b"].error == pytest.approx(
        1.96 * 400 / math.log(10) / math.sqrt(10_000 * expected * (1 - expected)), rel=0.01
    )
    assert "x" not in found and found["c"].error > found["b"].error
    unbeaten = rate([Result("b", "a", 10, 0, 0)], {})
    assert unbeaten["b"].elo == 0 and -700 < unbeaten["a"].elo < -300  # the first one named is 0
    assert rate([], {}) == {}


def test_games_count_the_same_in_one_match_and_in_many():
    whole = [Result("b", "a", 40, 30, 10), Result("c", "b", 32, 40, 8)]
    parts = [Result("b", "a", 4, 3, 1)] * 10 + [Result("b", "c", 1, 5, 4), Result("b", "c", 0, 0, 0)] * 8
    expected, found = rate(whole, {"a": 0.0}), rate(parts, {"a": 0.0})
    assert list(found) == list(expected)
    for name, rating in expected.items():
        assert found[name].elo == pytest.approx(rating.elo, abs=0.01)
        assert found[name].error == pytest.approx(rating.error, abs=0.01)


def test_a_chain_of_short_matches_keeps_its_length():
    rng, links, ratings = np.random.default_rng(1), range(6), []
    expected = 1 / (1 + 10 ** (-200 / 400))
    for _ in range(100):
        # Between any two networks four matches of five games.
        chain = []
        for at in links:
            older, newer = f"gen-{at}", f"gen-{at + 1}"
            for wins in rng.binomial(5, [expected, expected]):
                chain.append(Result(newer, older, int(wins), 0, 5 - int(wins)))
            for wins in rng.binomial(5, [1 - expected, 1 - expected]):
                chain.append(Result(older, newer, int(wins), 0, 5 - int(wins)))
        ratings.append(rate(chain, {"gen-0": 0.0})["gen-6"].elo)
    # The standard error is some 22. With a drawn game for each match the mean would be about 1000.
    assert 1130 < np.mean(ratings) < 1270, np.mean(ratings)


def test_the_schedule_holds_the_ratio_and_doubles_the_nodes():
    def ratio(limit: float, nodes: int) -> float:  # figure 2, roughly
        return 4 * (limit * 1000 / nodes) ** -0.7

    for start in (1, 5, 1000):
        rng, path = random.Random(7), []
        limit, nodes = float(start), 1000
        for _ in range(60):
            share = ratio(limit, nodes) / (1 + ratio(limit, nodes))
            decisive = sum(rng.random() < share for _ in range(100))
            path.append(schedule.Step(nodes, limit, decisive, 100 - decisive))
            limit, nodes = schedule.next_limits(path, 1.0, 4000)
        late = path[20:]
        assert 0.75 < sum(s.decisive for s in late) / sum(s.draws for s in late) < 1.33
        assert [n for n in (1000, 2000, 4000) if any(s.nodes == n for s in path)] == [1000, 2000, 4000]
        assert path[-1].nodes == 4000 and path[-1].sc_limit > 10
        assert sum(schedule.is_balanced(s, 1.0) for s in late) > 0.8 * len(late)
    assert schedule.next_limits([schedule.Step(10, 1.0, 0, 100)], 1.0, 0) == (1.0, 10)


def test_the_schedule_follows_a_network_that_learns():
    """Plain games of a weak network are too decisive for any limit. When it has learned, the limit comes back."""
    for seed in range(10):
        rng = random.Random(seed)
        path: list[schedule.Step] = []
        limit, nodes = 5.0, 1000
        for generation in range(60):
            strength = 0.2 if generation < 30 else 12
            ratio = min(1.0, limit / nodes) ** -0.6 / strength
            decisive = sum(rng.random() < ratio / (1 + ratio) for _ in range(100))
            path.append(schedule.Step(nodes, limit, decisive, 100 - decisive))
            limit, nodes = schedule.next_limits(path, 1.0, 0)
        assert schedule.is_out_of_reach(path[:30], 1.0) and path[29].sc_limit == 1000
        assert sum(schedule.is_balanced(s, 1.0) for s in path[36:]) >= 21
        assert not schedule.is_out_of_reach(path[:36], 1.0)
    # Where more nodes are allowed, they come.
    weak = [schedule.Step(1000, 1000.0, 80, 20)] * 4
    assert schedule.next_limits(weak, 1.0, 4000)[1] == 2000
    # At odds the limit is also the nodes of the other side.
    assert schedule.next_limits([schedule.Step(100, 90.0, 99, 1)], 1.0, 0, at_odds=True)[0] > 100


def test_presets_are_settings_and_nonsense_is_refused():
    for preset in settings.PRESETS.values():
        settings.check(settings.Settings(**preset))
    for wrong in ({"games": 0}, {"gate": "x"}, {"subset": 5}):
        with pytest.raises(ValueError):
            settings.check(settings.Settings(**wrong))
    # Every number has a range, but for the seed.
    numbers = {
        name: value for name, value in settings.as_dict(settings.Settings()).items() if type(value) in (int, float)
    }
    assert set(numbers) == {"seed", *settings.RANGES}
    nan, inf = math.nan, math.inf
    out_of_range = [("pool_pairs", -1), ("sc_limit", -5), ("subset", -5), ("anchor_every", 0), ("random_share", 1.1)]
    out_of_range += [
        ("fade", -0.1),
        ("balance", -1.0),
        ("rate", nan),
        ("rate", inf),
        ("gate_score", nan),
        ("nodes", 2**40),
    ]
    for name, value in out_of_range:
        with pytest.raises(ValueError, match=f"^--{name.replace('_', '-')} must be "):
            settings.check(settings.Settings(**{"unique": True, name: value}))
    for wrong in ({"rate": 0.0}, {"reuse": 0.0}, {"result_share": "0.2,1.5"}, {"value_loss": "cubic"}):
        with pytest.raises(ValueError, match="cannot be 0|is from 0 to 1|cross-entropy or squared"):
            settings.check(settings.Settings(**wrong))
    settings.check(settings.Settings(reuse=0.0, passes=5.0, pool_pairs=0))
    assert settings.check(settings.Settings(balance=1.0)).sc_limit == 5


class FakeProgram(Program):
    """Records its calls, and refuses whatever has this word in it."""

    def __init__(self, refuses: str = "") -> None:
        super().__init__("scorn")
        self.refuses, self.calls = refuses, []

    def run(self, arguments: list[str]) -> str:
        self.calls.append(arguments)
        if self.refuses and any(self.refuses in argument for argument in arguments):
            raise LoopError(f"scorn {arguments[0]} failed (2): error: {self.refuses}")
        return ""

    def call(self, *start: str) -> list[str]:
        """The call that begins with these words; once is expected."""
        (found,) = [arguments for arguments in self.calls if arguments[: len(start)] == list(start)]
        return found


def value_of(arguments: list[str], flag: str) -> str:
    return arguments[arguments.index(flag) + 1]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"match_limit": "nodes=" + 30 * "9"}, 30 * "9"),
        ({"match_options": "Nosuch=1"}, "Nosuch"),
        ({"engine": "--nosuch 1"}, "--nosuch"),
        ({"gate": "sprt", "gate_sprt": "30,0,1,1"}, "30,0,1,1"),
        ({"shape": "7,7,7"}, "7"),
    ],
)
def test_settings_are_tried_before_they_are_kept(tmp_path, wrong, said):
    folder = tmp_path / "loop"
    with pytest.raises(LoopError, match=rf"nothing was written\): scorn \w+ failed \(2\): error: {said}"):
        loop.Loop(folder, FakeProgram(said), wrong, "1")
    # The folder can be used with better ones.
    assert [path.name for path in folder.iterdir()] == [".lock"]
    assert loop.Loop(folder, FakeProgram(), {"games": 3}, "1").folder.settings.games == 3


def test_a_new_loop_is_told_of(tmp_path, capsys):
    loop.Loop(tmp_path / "mistyped", FakeProgram(), {"games": 9}, "1").folder.close()
    reported = f"scorn loop: a new loop starts in {tmp_path}/mistyped: 9 games a generation, 100 nodes a move\n"
    assert capsys.readouterr().err == reported
    loop.Loop(tmp_path / "mistyped", FakeProgram(), {}, "1")
    assert capsys.readouterr().err == ""


def test_a_loop_is_locked_where_the_system_can(tmp_path, monkeypatch, capsys):
    first = loop.Loop(tmp_path / "loop", FakeProgram(), {}, "1").folder
    with pytest.raises(LoopError, match="is in use by another loop$"):
        loop.Loop(tmp_path / "loop", FakeProgram(), {}, "1")
    capsys.readouterr()
    monkeypatch.setattr("scorn_training.folder.fcntl", None)
    loop.Loop(tmp_path / "loop", FakeProgram(), {}, "1").folder.close()
    assert "cannot be locked on this system: do not start a second loop in it" in capsys.readouterr().err
    first.close()


def test_the_trial_asks_for_everything_but_takes_little(tmp_path):
    program = FakeProgram()
    start, teacher = tmp_path / "start.onnx", tmp_path / "teacher.onnx"
    start.touch()
    teacher.touch()
    given = settings.PRESETS["cgzero"] | {"nodes": 800, "max_plies": 450, "start": str(start), "teacher": str(teacher)}
    loop.Loop(tmp_path / "loop", program, given | {"match_limit": "time=60"}, "1")
    assert value_of(program.call("train", "start"), "--network") == str(start)
    games = [arguments for arguments in program.calls if arguments[0] == "selfplay" and "--out" in arguments]
    assert [value_of(game, "--weights").rsplit("/", 1)[1] for game in games] == ["teacher.onnx", "network.onnx"]
    for game in games:
        assert [value_of(game, flag) for flag in ("--games", "--nodes", "--max-plies")] == ["1", "2", "24"]
        assert value_of(game, "--noise-epsilon") == "0.25" and value_of(game, "--random-plies") == "22"
    match = program.call("match")
    assert match[1] == match[2] and match[1].endswith(";NodeLimit=2")
    assert [value_of(match, flag) for flag in ("--st", "--pairs", "--max-plies")] == ["60", "1", "2"]
    # Nothing of it is in the folder, and a loop that goes on does without.
    assert sorted(path.name for path in (tmp_path / "loop").iterdir()) == [".lock", "manifest.json"]
    again = FakeProgram()
    loop.Loop(tmp_path / "loop", again, {"match_limit": "time=60"}, "1")
    assert again.calls == []


MADE = ["gen-0000/train/checkpoint", "openings.epd", "gen-0001/games-best-1/summary.json", "gen-0001/train/checkpoint"]
MADE += ["gen-0001/network.onnx", "gen-0001/match-gen-0.pgn", "gen-0001/match-gen-0.pgn.json"]


@pytest.mark.parametrize(
    ("changed", "current", "left"),
    [
        ({"match_limit": "nodes=7"}, ["games", "training"], [0, 2, 3, 4]),
        ({"batch": 64, "pool_pairs": 1}, ["games"], [0, 2]),
        ({"engine": "--temperature 2"}, [], [0]),
        ({"shape": "64,64,8", "batch": 64}, [], []),
    ],
)
def test_settings_can_change_before_a_generation_is_complete(tmp_path, changed, current, left):
    folder = tmp_path / "loop"
    began = loop.Loop(folder, FakeProgram(), {"games": 9}, "1").folder
    for name in MADE:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    began.generations.append({"generation": 0, "network": "x"})
    whole = generation(1, (1, 0, 1), "gen-0")
    began.manifest["current"] = {name: whole[name] for name in ("games", "training", "matches")}
    began.save()
    began.close()
    manifest = (folder / "manifest.json").read_text()
    with pytest.raises(LoopError, match="nothing was written"):
        loop.Loop(folder, FakeProgram("match"), changed, "1")
    assert (folder / "manifest.json").read_text() == manifest
    assert all((folder / name).exists() for name in MADE)
    other = loop.Loop(folder, FakeProgram(), changed, "1").folder
    assert settings.as_dict(other.settings) == settings.as_dict(began.settings) | changed
    assert json.loads((folder / "manifest.json").read_text()) == other.manifest
    assert list(other.manifest["current"]) == current and len(other.generations) == ("shape" not in changed)
    assert [name for name in MADE if (folder / name).exists()] == [MADE[at] for at in left]
    # Once it is complete they stay.
    other.manifest["generations"] = [{"generation": 0, "network": "x"}, generation(1, (1, 0, 1), "gen-0")]
    other.save()
    other.close()
    with pytest.raises(LoopError, match=r"started with other settings \(nodes\)"):
        loop.Loop(folder, FakeProgram(), {"nodes": 5}, "1")


class Killed(BaseException):
    """Ends a loop where it is raised."""


@pytest.mark.parametrize("moved", range(7))
def test_a_loop_that_is_killed_while_its_settings_change_goes_on(tmp_path, monkeypatch, moved):
    """Each folder that stays is whole, and of the settings in the manifest, wherever the loop is killed."""
    folder = tmp_path / "loop"
    began = loop.Loop(folder, FakeProgram(), {"games": 9}, "1").folder
    part = folder / "gen-0001" / "games-best-1"
    for name in [*MADE, "gen-0001/games-best-1/manifest.json", "gen-0001/games-best-1/positions-00001.vis"]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    whole = sorted(path.name for path in part.iterdir())
    began.generations.append({"generation": 0, "network": "x"})
    began.manifest["current"] = {"games": generation(1, (1, 0, 1), "gen-0")["games"]}
    began.save()
    began.close()
    moves = [0]
    rename, unlink = Path.rename, Path.unlink

    def killed_rename(path: Path, target: Path) -> Path:
        if moves[0] == moved:
            raise Killed
        moves[0] += 1
        return rename(path, target)

    def killed_rmtree(path: Path) -> None:
        # The file without which a part cannot be resumed goes first.
        for found in sorted(path.rglob("manifest.json")):
            unlink(found)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", killed_rename)
        patched.setattr("scorn_training.folder.shutil", SimpleNamespace(rmtree=killed_rmtree))
        with pytest.raises(Killed):
            loop.Loop(folder, FakeProgram(), {"engine": "--temperature 2"}, "1")
    again = loop.Loop(folder, FakeProgram(), {}, "1").folder
    assert again.current == {} and not (folder / "removed").exists()
    if part.exists():
        assert sorted(path.name for path in part.iterdir()) == whole
    is_changed = again.settings.engine == "--temperature 2"
    left = [name for name in MADE if (folder / name).exists()]
    assert left == MADE[:1] if is_changed else len(left) == len(MADE) - moved
    assert is_changed == (moved == 6)


def called(monkeypatch, *arguments: object) -> int:
    """The exit status of the command, which opens a loop and does nothing with it."""
    monkeypatch.setattr(loop, "find_program", lambda given: "scorn")
    monkeypatch.setattr(loop, "Program", lambda path: FakeProgram())
    monkeypatch.setattr(loop.signal, "signal", lambda *_: None)
    monkeypatch.setattr(loop.Loop, "run", lambda *_: None)
    return loop.main(list(map(str, arguments)))


def test_the_rules_of_two_presets_are_not_mixed(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "loop"
    assert called(monkeypatch, folder, "--preset", "cgzero", "--games", 9, "--fade", 0.05) == 0
    manifest = (folder / "manifest.json").read_text()
    kept = json.loads(manifest)["settings"]
    assert kept == settings.as_dict(settings.Settings(**settings.PRESETS["cgzero"] | {"games": 9, "fade": 0.05}))
    for preset, more in (("alphazero", {}), ("paper", {"games": 9}), ("cgzero", {})):
        with pytest.raises(
            LoopError,
            match=rf"started with other rules than those of --preset {preset} \(.*\): resume without --preset",
        ):
            loop.Loop(folder, FakeProgram(), more, "1", preset)
        assert (folder / "manifest.json").read_text() == manifest
    capsys.readouterr()
    assert called(monkeypatch, folder, "--preset", "alphazero") == 1
    rules = "engine, gate, result_share, value_loss"
    reported = f"{folder}/manifest.json was started with other rules than those of --preset alphazero ({rules})"
    assert capsys.readouterr().err == f"scorn loop: {reported}: resume without --preset, or start in another folder\n"
    # The one it was begun with can be named again, and single settings can change beside it.
    loop.Loop(folder, FakeProgram(), {"fade": 0.05}, "1", "cgzero").folder.close()
    assert (folder / "manifest.json").read_text() == manifest
    changed = loop.Loop(folder, FakeProgram(), {"fade": 0.1, "games": 7}, "1", "cgzero").folder.settings
    assert settings.as_dict(changed) == kept | {"fade": 0.1, "games": 7}


def test_settings_that_count_for_nothing_are_not_taken_in_silence(tmp_path, capsys):
    folder = tmp_path / "loop"
    excluded = [
        ({"most_nodes": 800}, "--most-nodes requires --balance"),
        ({"reuse": 3.0, "passes": 2.0}, "--reuse and --passes exclude each other"),
        ({"gate_nodes": 50, "match_limit": "clock=10+0.1"}, "--gate-nodes and --match-limit exclude each other"),
    ]
    for named, reported in excluded:
        with pytest.raises(ValueError, match=f"^{reported}"):
            loop.Loop(folder, FakeProgram(), named, "1")
        assert not (folder / "manifest.json").exists()
    # What is off is not named in vain, nor is what a preset says beside what was named.
    for at, (named, preset) in enumerate(
        [({"reuse": 3.0, "passes": 0.0}, "cgzero"), ({"balance": 0.0}, "paper"), ({"most_nodes": 0}, "")]
    ):
        loop.Loop(tmp_path / str(at), FakeProgram(), named, "1", preset).folder.close()
    assert "has no effect" not in capsys.readouterr().err
    # The passes are not named, but of the preset.
    loop.Loop(folder, FakeProgram(), {"reuse": 4.0}, "1", "cgzero").folder.close()
    reported = "scorn loop: --reuse has no effect beside the preset's --passes 5 (--passes 0 turns that off)\n"
    assert reported in capsys.readouterr().err
    # Nothing changes for a loop that goes on, and it is looked at again when something does.
    loop.Loop(folder, FakeProgram(), {"reuse": 4.0}, "1", "cgzero").folder.close()
    assert capsys.readouterr().err == ""
    with pytest.raises(ValueError, match="^--most-nodes requires --balance"):
        loop.Loop(folder, FakeProgram(), {"most_nodes": 800}, "1")
    assert loop.Loop(folder, FakeProgram(), {"most_nodes": 800, "balance": 1.0}, "1").folder.settings.most_nodes == 800


@pytest.mark.parametrize(
    ("named", "preset", "needed", "missing"),
    [
        ({"random_share": 0.2}, "", "--random-plies", {"random_plies": 4}),
        ({"random_share": 0.2, "random_plies": 0}, "cgzero", "--random-plies", {"random_plies": 4}),
        ({"fade_least": 0.5}, "", "--fade", {"fade": 0.1, "unique": True}),
        ({"fade_least": 0.5, "fade": 0.0}, "cgzero", "--fade", {"fade": 0.1}),
        ({"gate_score": 0.6}, "", "--gate score", {"gate": "score"}),
        ({"gate_score": 0.6, "gate": "sprt"}, "cgzero", "--gate score", {"gate": "score"}),
        ({"gate_sprt": "0,10,0.05,0.05"}, "", "--gate sprt", {"gate": "sprt"}),
        ({"gate_sprt": "0,10,0.05,0.05"}, "cgzero", "--gate sprt", {"gate": "sprt"}),
        ({"anchor_every": 2}, "", "--anchor-opponent", {"anchor_opponent": "stockfish"}),
        ({"anchor_pairs": 2}, "", "--anchor-opponent", {"anchor_opponent": "stockfish"}),
        ({"anchor_nodes": 2}, "", "--anchor-opponent", {"anchor_opponent": "stockfish"}),
    ],
)
def test_what_counts_for_nothing_without_another_setting_is_refused(
    tmp_path, monkeypatch, named, preset, needed, missing
):
    monkeypatch.setattr(matches, "anchor_levels", lambda command: range(1320, 3191, 100))
    folder, name = tmp_path / "loop", next(iter(named))
    reported = f"--{name.replace('_', '-')} requires {needed}: it has no effect without it"
    with pytest.raises(ValueError, match=f"^{reported}$"):
        loop.Loop(folder, FakeProgram(), named, "1", preset)
    assert [path.name for path in folder.iterdir()] == [".lock"]
    # With the other one, named or of the rules, it is taken; and a loop that goes on has the other one already.
    made = loop.Loop(folder, FakeProgram(), named | missing, "1", preset).folder
    assert getattr(made.settings, name) == named[name]
    made.close()
    value = {"gate_sprt": "0,20,0.05,0.05"}.get(name, 1)
    assert getattr(loop.Loop(folder, FakeProgram(), {name: value}, "1").folder.settings, name) == value


def test_what_the_rules_bring_need_not_be_named(tmp_path):
    named = {"random_share": 0.2, "fade_least": 0.5, "gate_score": 0.6}
    made = loop.Loop(tmp_path / "loop", FakeProgram(), named, "1", "cgzero").folder
    assert {name: getattr(made.settings, name) for name in named} == named
    # Nor does what the rules say of it stand against what was named: their random share beside no random plies.
    loop.Loop(tmp_path / "other", FakeProgram(), {"random_plies": 0, "fade": 0.0, "gate": "none"}, "1", "cgzero")


def test_a_path_that_scorn_match_cannot_read_is_refused(tmp_path):
    folder = tmp_path / "my;loop"
    with pytest.raises(LoopError, match=f"^scorn match separates options by ';', which the path {folder} has"):
        loop.Loop(folder, FakeProgram(), {}, "1")
    assert not folder.exists()
    with pytest.raises(
        ValueError, match="^--anchor-opponent: scorn match separates options by ';', which the path /opt/stock;fish has"
    ):
        loop.Loop(tmp_path / "loop", FakeProgram(), {"anchor_opponent": "/opt/stock;fish"}, "1")


def test_another_version_of_the_program_is_told_of(tmp_path, capsys):
    folder = tmp_path / "loop"
    loop.Loop(folder, FakeProgram(), {}, "scorn 1").folder.close()
    capsys.readouterr()
    loop.Loop(folder, FakeProgram(), {}, "scorn 1").folder.close()
    assert capsys.readouterr().err == ""
    loop.Loop(folder, FakeProgram(), {}, "scorn 2").folder.close()
    reported = f"scorn loop: {folder} was started with scorn 1 and resumes with scorn 2: results may differ from those of either alone\n"
    assert capsys.readouterr().err == reported


def test_a_loop_that_is_made_does_without_the_files_it_began_with(tmp_path):
    folder, start = tmp_path / "loop", tmp_path / "start.onnx"
    with pytest.raises(ValueError, match="^--start: there is no file"):
        loop.Loop(folder, FakeProgram(), {"start": str(start)}, "1")
    start.touch()
    began = loop.Loop(folder, FakeProgram(), {"start": str(start)}, "1").folder
    began.close()
    start.unlink()
    with pytest.raises(ValueError, match="^--start: there is no file"):
        loop.Loop(folder, FakeProgram(), {}, "1")
    began.manifest["generations"] = [{"generation": 0, "network": "x"}, generation(1, (1, 0, 1), "gen-0")]
    began.save()
    assert loop.Loop(folder, FakeProgram(), {}, "1").folder.settings == began.settings


def test_settings_are_in_the_order_of_the_phases():
    names = [item.name for item in fields(settings.Settings)]
    phases = list(MADE_BY)
    assert sorted(map(settings.first_use, names), key=phases.index) == [settings.first_use(name) for name in names]
    known = {
        "shape": "start",
        "games": "games",
        "most_nodes": "games",
        "window": "training",
        "train_threads": "training",
    }
    known |= {"gate": "matches", "match_limit": "matches", "anchor_nodes": "matches", "seed": "start"}
    assert {name: settings.first_use(name) for name in known} == known


class MeasuringProgram(FakeProgram):
    """Has the losses of each file: the next number; no plies in the second."""

    def run(self, arguments: list[str]) -> str:
        super().run(arguments)
        files = [argument for argument in arguments if argument.endswith(".vis")]
        line = "{}: policy {}.0 kl {}.0 top-1 5.00 % (9) value 0.5 (floor 0.5) |q error| 0.1 (9) plies {} in integers"
        return "\n".join(line.format(file, at, at, "-" if at == 2 else "0.4") for at, file in enumerate(files, 1))


def test_losses_are_those_of_a_sample_of_all_games():
    program = MeasuringProgram()
    files = [Path(f"{at}.vis") for at in range(5)]
    found = learning.quality(settings.Settings(), program, Path("checkpoint"), files)
    assert found == {"policy": 3.0, "kl": 3.0, "value": 0.5, "error": 0.1, "plies": 0.4}
    measured = program.call("train", "measure")
    assert measured[3:8] == [str(file) for file in files]
    assert int(value_of(measured, "--count")) * len(files) == learning.QUALITY_POSITIONS


def test_lines_of_the_program_are_understood():
    line = "x.vis: policy 3.4 kl 1.25 top-1 5.00 % (9) value 0.9 (floor 0.5) |q error| 0.1 (9) plies 0.4 in integers"
    assert learning.losses(line) == {"policy": 3.4, "kl": 1.25, "value": 0.9, "error": 0.1, "plies": 0.4}
    assert learning.losses("nothing") == {}
    levels = matches.parse_levels("option name UCI_Elo type spin default 1350 min 1350 max 2850\nuciok")
    assert (levels[0], levels[1], levels[-1]) == (1350, 1450, 2850)
    with pytest.raises(LoopError):
        matches.parse_levels("uciok")
    assert learning.parse_share("0.2,0.8") == (0.2, 0.8) and learning.parse_share("1") == (1.0, 1.0)


USAGE = """error: unexpected argument '--nosuch' found

  tip: a similar argument exists: '--nodes'

Usage: scorn selfplay --games <N> --out <DIR> --nodes <N>

For more information, try '--help'.
"""


def test_what_the_program_complains_of_is_told(tmp_path):
    assert complaint(USAGE) == "error: unexpected argument '--nosuch' found"
    missing = "error: the following required arguments were not provided:\n  --games <N>\n\nUsage: scorn selfplay\n"
    assert complaint(missing) == "error: the following required arguments were not provided:; --games <N>"
    many = "scorn: loading\n" * 5 + "scorn: cannot write x: no space\n"
    assert complaint(many) == "scorn: loading; scorn: loading; scorn: cannot write x: no space"
    panic = "scorn: loading\nthread 'main' panicked at src/main.rs:1:2:\nno memory\nnote: run with `RUST_BACKTRACE=1`\n"
    assert (
        complaint(panic) == "thread 'main' panicked at src/main.rs:1:2:; no memory; note: run with `RUST_BACKTRACE=1`"
    )
    assert complaint("a\nb\nc\nd\n") == "b; c; d" and complaint("") == ""
    script = tmp_path / "scorn"
    script.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{USAGE}END\nexit 2\n")
    script.chmod(0o755)
    with pytest.raises(LoopError) as reported:
        Program(str(script)).run(["selfplay", "--nosuch"])
    assert str(reported.value) == "scorn selfplay failed (2): error: unexpected argument '--nosuch' found"


def cluster_of(monkeypatch, work):
    """A cluster without Ray's, whose workers yield what this does with a job's arguments."""
    cluster = pytest.importorskip("scorn_training.cluster", reason="Ray is not installed")
    made = object.__new__(cluster.Cluster)
    made.program, made._is_stopping, made._games, made._running, made._lock = None, False, {}, {}, threading.Lock()
    made.work = type("Work", (), {"remote": staticmethod(lambda program, arguments, *_: work(arguments))})
    monkeypatch.setattr(cluster.ray, "get", lambda result: result)
    return made


class Parts(Program):
    """One part fails while the other plays, which ends when it is stopped."""

    def __init__(self) -> None:
        super().__init__("scorn")
        self.begun, self.stopped, self.ends = threading.Event(), threading.Event(), []

    def run(self, arguments: list[str]) -> str:
        if "bad" in arguments:
            assert self.begun.wait(60)
            raise LoopError("the bad part failed")
        self.begun.set()
        self.ends.append("stopped" if self.stopped.wait(20) else "played to its end")
        raise LoopError(self.ends[-1])

    def stop(self) -> None:
        self.stopped.set()


def test_a_part_that_fails_is_told_while_others_play(tmp_path, monkeypatch):
    jobs = [Job(["selfplay", name], {}, tmp_path / name) for name in ("good", "bad", "later")]
    program = Parts()
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    with pytest.raises(LoopError, match="^the bad part failed$"):
        Local(program, 2).run(jobs[:2])
    assert program.ends == ["stopped"]
    # Reports come in the order of the jobs, whichever ends first.
    program.run = lambda arguments: json.dumps({"name": arguments[1]})
    assert [report["name"] for report in Local(program, 2).run(jobs)] == ["good", "bad", "later"]


def test_a_part_that_fails_on_a_worker_is_told_while_others_play(tmp_path, monkeypatch):
    parts = Parts()

    def work(arguments: list[str]):
        try:
            parts.run(arguments)
        except LoopError as error:
            yield {"code": 2, "report": "", "errors": f"scorn: {error}"}

    made = cluster_of(monkeypatch, work)
    monkeypatch.setattr("scorn_training.cluster.ray.cancel", lambda results: parts.stop())
    with pytest.raises(LoopError, match=r"failed on a worker \(2\): scorn: the bad part failed$"):
        made.run([Job(["selfplay", name], {}, tmp_path / name) for name in ("good", "bad")])
    assert parts.ends == ["stopped"] and made._running == {}


def test_a_worker_tells_the_same_complaint(tmp_path, monkeypatch):
    worker = cluster_of(monkeypatch, lambda arguments: [{"code": 2, "report": "", "errors": USAGE}])
    with pytest.raises(LoopError, match=r"on a worker \(2\): error: unexpected argument '--nosuch' found$"):
        worker._attempt(Job(["selfplay", "--nosuch"], {}, tmp_path / "games"), {})


def test_who_asks_for_ray_without_having_it_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "scorn_training.cluster", raising=False)
    with pytest.raises(LoopError, match=r"--ray requires `pip install 'networks/training\[ray\]'`: .*ray"):
        loop.ray_cluster("auto", FakeProgram())


def loop_of(path: Path, generations: list[dict], **given) -> Folder:
    """The folder of a loop that is as far as this, with nothing on disk."""
    made = {"settings": given, "generations": [{"generation": 0, "network": "x"}, *generations], "current": {}}
    return Folder(path, made)


def judged(number: int, promoted: bool, rates: list[float]) -> dict:
    return {"generation": number, "promoted": promoted, "win_rates": rates}


def shares(made: Folder, number: int) -> dict[str, tuple[int, str, str]]:
    """Who plays how many games against whom."""
    return {name: (count, a.parent.name, b.parent.name) for name, count, a, b in games.pairings(made, number)}


def test_reference_opponents_share_the_games_by_the_last_scores(tmp_path):
    made = loop_of(tmp_path, [], games=100, reference_opponents=True)
    assert shares(made, 1) == {"best": (100, "gen-0000", "gen-0000")}
    # Promoted, with 0.6 against the Best1 of then, which is Best2 now: it has to learn the more against itself.
    made = loop_of(tmp_path, [judged(1, True, [0.7, 0.5])], games=100, reference_opponents=True)
    assert games.win_rates(made) == [0.5, 0.7]
    need = [0.501, 0.301]
    expected = round(100 * need[1] / sum(need))
    assert shares(made, 2) == {
        "best": (100 - expected, "gen-0001", "gen-0001"),
        "second": (expected, "gen-0001", "gen-0000"),
    }
    # What it barely beat is not left out for what it beat always: that one plays no more, but as one of the older.
    generations = [judged(1, True, [0.7, 0.5]), judged(2, True, [0.6, 0.99])]
    made = loop_of(tmp_path, generations, games=100, reference_opponents=True)
    found = shares(made, 3)
    assert made.best() == (2, 1) and games.win_rates(made) == [0.5, 0.6]
    expected = round(90 * 0.401 / (0.501 + 0.401))
    assert found["best"] == (90 - expected, "gen-0002", "gen-0002")
    assert found["second"] == (expected, "gen-0002", "gen-0001")
    assert found["older"][0] == 10 and found["older"][1] in ("gen-0001", "gen-0002") and found["older"][2] == "gen-0000"
    # Rejected, the scores are against those who are still the best: the lower the more games.
    made.generations.append(judged(3, False, [0.2, 0.6]))
    found = shares(made, 4)
    assert games.win_rates(made) == [0.2, 0.6]
    assert found["second"] == (round(90 * 0.401 / (0.801 + 0.401)), "gen-0002", "gen-0001") and found["best"][0] == 60
    # Neither the newest nor one of the best is an older one.
    assert {made.older(4, random.Random(seed)) for seed in range(50)} == {0}
    made.generations.append(judged(4, True, [0.8, 0.8]))
    assert {made.older(5, random.Random(seed)) for seed in range(50)} == {0, 1, 3}
    # Without reference opponents the best plays itself; a teacher plays the first generation alone.
    assert list(shares(loop_of(tmp_path, made.generations[1:], games=7), 5).values()) == [(7, "gen-0004", "gen-0004")]
    taught = loop_of(tmp_path, [], games=7, teacher="nets/teacher.onnx")
    assert shares(taught, 1) == {"best": (7, "nets", "nets")}
    taught.generations.append(judged(1, True, [0.5, 0.5]))
    assert shares(taught, 2) == {"best": (7, "gen-0001", "gen-0001")}


def test_the_gate_promotes_best1_to_best2(tmp_path):
    def verdict(made: Folder, *scores: tuple[int, int, int], **more) -> dict:
        number = len(made.generations)
        played = [{"first": "x", "second": "y", "wins": w, "draws": d, "losses": lost} | more for w, d, lost in scores]
        found = matches.judge(made, number, {"games": {}, "training": {"network": "sum"}, "matches": played})
        assert (found["generation"], found["network"]) == (number, "sum")
        made.generations.append(found)
        return found

    made = loop_of(tmp_path, [], gate="score", gate_score=0.55, reference_opponents=True)
    assert made.best() == (0, None)
    # 55 per cent are not enough, more are.
    assert not verdict(made, (50, 10, 40))["promoted"] and made.best() == (0, None)
    found = verdict(made, (51, 10, 39))
    assert found["promoted"] and found["win_rates"] == [0.56, 0.5] and made.best() == (2, 0)
    # Against Best2 it is measured, too, but Best1 decides.
    found = verdict(made, (40, 0, 60), (90, 0, 10))
    assert not found["promoted"] and found["win_rates"] == [0.4, 0.9] and made.best() == (2, 0)
    found = verdict(made, (60, 0, 40), (10, 0, 90))
    assert found["promoted"] and found["win_rates"] == [0.6, 0.1]
    assert made.best() == (4, 2) and games.win_rates(made) == [0.5, 0.6]
    made = loop_of(tmp_path, [], gate="sprt")
    assert not verdict(made, (90, 0, 10), verdict="h0")["promoted"]
    assert not verdict(made, (90, 0, 10), verdict="continue")["promoted"]
    assert not verdict(made, (90, 0, 10))["promoted"]
    assert verdict(made, (50, 0, 50), verdict="h1")["promoted"] and made.best() == (4, 0)
    made = loop_of(tmp_path, [])
    assert verdict(made, (0, 0, 100))["promoted"] and made.best() == (1, 0)


def test_older_samples_weigh_less(tmp_path, monkeypatch):
    number, files = 30, []
    for age in (1, 10, 14, 15, 16, 20, 29, 30):
        path = tmp_path / f"{age}.vis"
        searched([{"board": 7, "visits": {age: 1}}, {"board": 100 + age, "visits": {1: 1}}]).write(path)
        files.append((path, age))
    pooled, weights = selfplay.pool, {}

    def spy(weighted: list[tuple[Path, float]], share: tuple[float, float]) -> selfplay.Pool:
        weights.update({int(path.stem): weight for path, weight in weighted})
        assert share == (0.2, 0.8)
        return pooled(weighted, share)

    monkeypatch.setattr(selfplay, "pool", spy)
    made = loop_of(tmp_path, [], **settings.PRESETS["cgzero"])
    (tmp_path / "gen-0030" / "train").mkdir(parents=True)
    data, positions, share = learning.training_set(made, number, files)
    # 0.02 for each generation, from 1 for the newest down to 0.7 for the 15th before it and all that are older.
    expected = {30: 1.0, 29: 0.98, 20: 0.8, 16: 0.72, 15: 0.7, 14: 0.7, 10: 0.7, 1: 0.7}
    assert weights == pytest.approx(expected)
    # What is trained on is merged, has the values' means, and the policy as the weights say.
    ((path, part),) = data
    assert (path, part, positions, share) == (tmp_path / "gen-0030/train/set.vis", 1, len(files) + 1, "0")
    chosen = selfplay.parse(path.read_bytes(), path)
    at = int(np.argmax(chosen.positions["board"][:, 0] == 7))
    entries = chosen.entries[chosen.positions["first"][at] :][: chosen.positions["moves"][at]]
    policy = dict(zip(entries["move"].tolist(), entries["visits"] / selfplay.POLICY_ONE))
    assert policy == pytest.approx({age: weight / sum(expected.values()) for age, weight in expected.items()}, abs=1e-5)
    # The subset is taken of what was merged; without --unique files are learned from as they are.
    made.settings = settings.Settings(**settings.PRESETS["cgzero"] | {"subset": 4})
    assert learning.training_set(made, number, files)[1] == 4
    made.settings = settings.Settings(result_share="0.3,0.9")
    assert learning.training_set(made, number, files) == ([(path, 2) for path, _ in files], 2 * len(files), "0.3,0.9")


def test_the_anchor_is_the_level_nearest_to_the_best(tmp_path, monkeypatch):
    monkeypatch.setattr(matches, "anchor_levels", lambda command: {"sf": range(1320, 3191, 100)}[command])
    # Without a point against it there is no scale, however much better than generation 0 the best one is: the weakest.
    first = generation(1, (10**6, 0, 0), "gen-0")
    made = loop_of(tmp_path, [first], anchor_opponent="sf")
    assert matches.anchor_level(made) == 1320
    first["matches"].append({"first": "gen-1", "second": "Stockfish 1320", "wins": 0, "draws": 0, "losses": 20})
    assert matches.anchor_level(made) == 1320
    # A score of 3 to 1 is 191 Elo more: 1511, nearest to 1520. The best counts, not the newest.
    first["matches"][1] |= {"wins": 750, "losses": 250}
    assert matches.anchor_level(made) == 1520
    second = generation(2, (990, 0, 10), "gen-1") | {"promoted": False}
    made.generations.append(second)
    assert matches.anchor_level(made) == 1520
    second["promoted"] = True
    rated = charts.ratings(made.learned())["gen-2"].elo
    assert rated > 2000 and abs(matches.anchor_level(made) - rated) <= 50
    # No level is higher than its highest.
    second["matches"].append({"first": "gen-2", "second": "Stockfish 3120", "wins": 999, "draws": 0, "losses": 1})
    assert matches.anchor_level(made) == 3120


@pytest.mark.parametrize("preset", settings.PRESETS)
def test_a_preset_takes_nothing_from_the_default_one(tmp_path, preset):
    named = settings.PRESETS[preset]
    loop.Loop(tmp_path / "loop", FakeProgram(), named, "1")
    kept = json.loads((tmp_path / "loop/manifest.json").read_text())["settings"]
    assert kept == settings.as_dict(settings.Settings(**named))
    assert kept["value_loss"] == ("squared" if preset == "alphazero" else "cross-entropy")


def test_the_manifest_of_alphazeros_rules_has_them(tmp_path, monkeypatch):
    loop.Loop(tmp_path / "loop", FakeProgram(), settings.PRESETS["alphazero"], "1").folder.close()
    kept = json.loads((tmp_path / "loop/manifest.json").read_text())["settings"]
    flags = kept["engine"].split()
    # Noise at the root; moves in proportion to visits in the first 30 plies (up to move 15), the best one later.
    assert (value_of(flags, "--noise-epsilon"), value_of(flags, "--noise-alpha")) == ("0.25", "0.3")
    assert (value_of(flags, "--temperature"), value_of(flags, "--temp-cutoff-move")) == ("1", "16")
    # The result alone is the value's target, every sample counts for itself, and the newest network plays on.
    assert (kept["result_share"], kept["unique"], kept["gate"]) == ("1", False, "none")
    assert not kept["reference_opponents"]
    # Matches have neither noise nor temperature.
    assert kept["match_options"] == "PolicyTemperature=1"
    # What is begun without a preset is the same.
    loop.Loop(tmp_path / "other", FakeProgram(), {}, "1")
    assert json.loads((tmp_path / "other/manifest.json").read_text())["settings"] == kept
    # Self-play plays so and writes all visits, which are the policy's target; training reads the result.
    made, jobs = loop_of(tmp_path, [], **settings.PRESETS["alphazero"]), []
    executor = type("Notes", (), {"run": staticmethod(jobs.extend)})
    monkeypatch.setattr(games, "count", lambda parts, limit, nodes: {})  # there are no games
    games.play(made, 1, FakeProgram(), executor)
    assert [value_of(job.arguments, "--shard") for job in jobs] == ["1/2", "2/2"]
    for job in jobs:
        assert "--records" in job.arguments and set(flags) <= set(job.arguments) and "--sc-limit" not in job.arguments
    trained = learning.flags(made.settings, tmp_path, 9, made.settings.result_share, [(tmp_path / "x.vis", 5)])
    assert value_of(trained, "--value-loss") == "squared"
    assert value_of(trained, "--result-share") == "1" and value_of(trained, "--data") == f"{tmp_path}/x.vis:5"


def test_a_program_that_cannot_choose_by_value_is_asked_and_told_of_once(capsys):
    old, new = FakeProgram(), FakeProgram()
    new.run = lambda arguments: "--root-choice <RULE>"
    for _ in range(2):
        assert games.value_choice(old) == [] and games.value_choice(new) == ["--root-choice", "value_log_visits"]
    assert old.calls == [["selfplay", "--help"]]
    reported = "scorn loop: this program cannot choose moves by value + log(visits): it takes the most visited\n"
    assert capsys.readouterr().err == reported


def test_a_damaged_summary_is_named(tmp_path):
    folders = [tmp_path / "games-best-1", tmp_path / "games-best-2"]
    whole = dict.fromkeys(["games", "white", "draws", "black", "plies", "nodes", "samples"], 3)
    for folder in folders:
        folder.mkdir()
        (folder / "summary.json").write_text(json.dumps(whole))
    found = games.count(folders, 0, 8)
    assert (found["games"], found["decisive"], found["visits"], found["nodes"]) == (6, 12, 6, 8)
    for damaged in (b"", b'{"games": 1', b"\xff", b"[]", b'{"games": 3}', json.dumps(whole | {"black": "x"}).encode()):
        (folders[1] / "summary.json").write_bytes(damaged)
        with pytest.raises(LoopError, match=r"games-best-2/summary.json is damaged \(.*\): delete it"):
            games.count(folders, 0, 8)


class TinyProgram(FakeProgram):
    """Writes what the program would, as far as the loop reads it: a position a game, or none."""

    samples = 1

    def run(self, arguments: list[str]) -> str:
        super().run(arguments)
        if arguments[:2] == ["train", "start"]:
            Path(arguments[2]).write_text('{"progress": {"step": 0}}\n')
        elif arguments[:2] == ["train", "export"]:
            Path(arguments[3]).write_bytes(b"network")
        elif arguments[0] == "match":
            return json.dumps({"wins": 1, "draws": 0, "losses": 1, "pairs": [1]})
        elif arguments[0] == "selfplay" and "--out" in arguments:
            self.play(Path(value_of(arguments, "--out")), int(value_of(arguments, "--seed")))
        return "{}"

    def play(self, folder: Path, seed: int) -> None:
        folder.mkdir()
        sums = {}
        if self.samples:
            path = folder / "positions-00001.vis"
            searched([{"board": seed % 256, "visits": {1: 1}}]).write(path)
            sums[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
        write_part(folder / "part-00001.json", sums)
        summary = dict.fromkeys(["games", "white", "draws", "black", "plies", "nodes"], 1) | {"samples": self.samples}
        (folder / "summary.json").write_text(json.dumps(summary))


def stopped_loop(folder: Path, monkeypatch, samples: int = 1) -> tuple[Path, list[Path]]:
    """A loop that was stopped when the games of its first generation were over: its folder, and the files of visits."""
    monkeypatch.setattr(openings, "make", lambda *_: None)
    monkeypatch.setattr(loop.Loop, "publish", lambda _: None)
    program = TinyProgram()
    program.samples = samples
    made = loop.Loop(folder, program, {"shards": 2}, "1")
    program.refuses = "--fixed-order" if samples else ""
    with pytest.raises(LoopError, match="--fixed-order|no position"):
        made.run(1, math.inf)
    made.folder.close()
    files = sorted(folder.glob("gen-0001/games-best-*/positions-*.vis"))
    assert len(files) == 2 * samples
    assert list(json.loads((folder / "manifest.json").read_text())["current"]) == ["games"]
    return folder, files


def damage(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1] + b"x")


def test_games_of_which_nothing_is_whole_are_played_again(tmp_path, monkeypatch, capsys):
    folder, files = stopped_loop(tmp_path / "damaged", monkeypatch)
    for path in files:
        damage(path)
    program = TinyProgram()
    made = loop.Loop(folder, program, {}, "1")
    capsys.readouterr()
    made.run(1, math.inf)
    reported = capsys.readouterr().err.splitlines()
    for line, path in zip(reported, files):
        assert line == f"scorn loop: {path.relative_to(folder)} is damaged (its checksum is another): left out"
    aside = folder / "gen-0001/damaged-1"
    assert reported[2:] == [
        f"scorn loop: no usable positions are left of generation 1: its games are played again ({aside} has the old files)"
    ]
    # Nothing is lost, and it comes out as if nothing had been damaged.
    assert sorted(path.name for path in aside.glob("games-best-*/positions-*.vis")) == [path.name for path in files]
    other, _ = stopped_loop(tmp_path / "whole", monkeypatch)
    whole = loop.Loop(other, TinyProgram(), {}, "1")
    whole.run(1, math.inf)
    assert made.folder.manifest == whole.folder.manifest and len(made.folder.generations) == 2
    assert not list(other.glob("gen-0001/damaged-*"))


def test_games_of_which_a_part_is_whole_are_not_played_again(tmp_path, monkeypatch, capsys):
    folder, files = stopped_loop(tmp_path / "loop", monkeypatch)
    damage(files[0])
    program = TinyProgram()
    made = loop.Loop(folder, program, {}, "1")
    made.run(1, math.inf)
    assert not [arguments for arguments in program.calls if arguments[0] == "selfplay"]
    assert made.folder.generations[1]["training"]["left_out"] == [
        "gen-0001/games-best-1/positions-00001.vis is damaged (its checksum is another): left out"
    ]


def test_damage_that_comes_while_the_loop_runs_is_told(tmp_path, monkeypatch, capsys):
    folder, files = stopped_loop(tmp_path / "loop", monkeypatch)
    made = loop.Loop(folder, TinyProgram(), {}, "1")
    for path in files:
        damage(path)
    with pytest.raises(
        LoopError, match="^no complete games of generation 1 are left: the same command plays them again$"
    ):
        learning.train(made.folder, 1, made.program)


def test_games_without_a_position_to_learn_from_are_not_played_for_ever(tmp_path, monkeypatch, capsys):
    folder, _ = stopped_loop(tmp_path / "loop", monkeypatch, samples=0)
    program = TinyProgram()
    with pytest.raises(
        LoopError, match="^no position in the games of generation 1 .*--random-plies.*: change the settings$"
    ):
        loop.Loop(folder, program, {}, "1").run(1, math.inf)
    assert program.calls == []
    assert not list(folder.glob("gen-0001/damaged-*"))


def said_by_charts(folder: Path, monkeypatch, capsys) -> str:
    """What the command for curves says when it ends with an error."""
    monkeypatch.setattr("sys.argv", ["charts", str(folder)])
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        charts.main()
    said = capsys.readouterr()
    assert ended.value.code == 1 and said.out == ""
    return said.err


def test_curves_of_a_folder_that_is_no_loops_are_refused(tmp_path, monkeypatch, capsys):
    for folder in (tmp_path / "nosuch", tmp_path):
        assert said_by_charts(folder, monkeypatch, capsys) == f"scorn charts: {folder} holds no manifest.json\n"
    file = tmp_path / "games.pgn"
    file.touch()
    reported = f"scorn charts: {tmp_path} is not empty (games.pgn is in it) and holds no manifest.json\n"
    assert said_by_charts(tmp_path, monkeypatch, capsys) == reported
    assert str(file) in said_by_charts(file, monkeypatch, capsys)
    (tmp_path / "manifest.json").write_text(edited(lambda made: made.update(format=2)))
    assert "another version of this program: its format is 2" in said_by_charts(tmp_path, monkeypatch, capsys)


def test_a_manifest_of_something_else_is_named(tmp_path, monkeypatch, capsys):
    path = tmp_path / "manifest.json"
    # Such as that of `scorn selfplay`, beside its games.
    for other in (
        '{"format": 1, "games": 8}',
        "[]",
        '{"format": 1, "settings": [], "generations": []}',
        '{"format": 1',
    ):
        path.write_text(other)
        with pytest.raises(LoopError, match=r"manifest.json is damaged, or not that of a loop \("):
            loop.Loop(tmp_path, FakeProgram(), {}, "1")
    for other in ('{"format": 1, "games": 8}', "[]", '{"format": 1'):
        path.write_text(other)
        assert "manifest.json is damaged, or not that of a loop (" in said_by_charts(tmp_path, monkeypatch, capsys)


def test_a_folder_that_is_no_loops_is_left_as_it_is(tmp_path):
    games = tmp_path / "games.pgn"
    games.write_text("1-0")
    with pytest.raises(LoopError, match=r"is not empty \(games.pgn is in it\) and holds no manifest.json"):
        loop.Loop(tmp_path, FakeProgram(), {}, "1")
    assert list(tmp_path.iterdir()) == [games]
    games.unlink()
    other = tmp_path / "manifest.json"
    other.write_text('{"format": 1, "games": 8}')
    with pytest.raises(LoopError, match="not that of a loop"):
        loop.Loop(tmp_path, FakeProgram(), {}, "1")
    assert list(tmp_path.iterdir()) == [other] and other.read_text() == '{"format": 1, "games": 8}'


def edited(change) -> str:
    """The manifest of a loop of two generations in the middle of the third, after somebody has changed it."""
    third = generation(3, (1, 0, 1), "gen-2")
    made = {"format": 1, "program": "scorn 1", "settings": settings.as_dict(settings.Settings())}
    made["generations"] = [
        {"generation": 0, "network": "x"},
        generation(1, (1, 0, 1), "gen-0"),
        generation(2, (1, 0, 1), "gen-1"),
    ]
    made["current"] = {name: third[name] for name in ("games", "training", "matches")}
    change(made)
    return json.dumps(made)


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        (lambda made: made.pop("current"), '"current" is missing'),
        (lambda made: made.pop("program"), '"program" is missing'),
        (lambda made: made.update(current=[]), '"current" must be an object'),
        (lambda made: made.update(generations={}), '"generations" must be a list'),
        (lambda made: made.update(format="1"), '"format" must be a whole number'),
        (lambda made: made["settings"].update(games="500"), '"settings.games" must be a whole number'),
        (lambda made: made["settings"].update(rate=True), '"settings.rate" must be a number'),
        (lambda made: made["settings"].update(unique=1), '"settings.unique" must be true or false'),
        (lambda made: made["settings"].update(engine=None), '"settings.engine" must be a string'),
        (lambda made: made["settings"].update(games=0), '"settings": --games must be at least 1, not 0'),
        (lambda made: made["generations"].insert(1, 7), '"generations[1]" must be an object'),
        (lambda made: made["generations"].pop(1), '"generations[1].generation" must be 1'),
        (lambda made: made["generations"][1].pop("promoted"), '"promoted" is missing in "generations[1]"'),
        (lambda made: made["generations"][2]["games"].pop("folders"), '"folders" is missing in "generations[2].games"'),
        (
            lambda made: made["generations"][2].update(win_rates=[1]),
            '"generations[2].win_rates" must be a list of at least 2',
        ),
        (
            lambda made: made["generations"][2]["matches"][0].update(wins="3"),
            '"generations[2].matches[0].wins" must be a whole number',
        ),
        (
            lambda made: made["generations"][2]["training"]["learned"].update(kl="-"),
            '"generations[2].training.learned.kl" must be a number',
        ),
        (lambda made: made["current"]["games"].pop("samples"), '"samples" is missing in "current.games"'),
        (lambda made: made["current"].update(matches=[]), '"current.matches" must be a list of at least 1'),
        (
            lambda made: made["generations"][2]["matches"][0].update(first="gen-x"),
            '"generations[2].matches[0].first" must be such as gen-3 or Stockfish 1320',
        ),
        (
            lambda made: made["current"]["matches"][0].update(second="Stockfish 16 NNUE"),
            '"current.matches[0].second" must be such as gen-3 or Stockfish 1320',
        ),
    ],
)
def test_what_is_wrong_with_an_edited_manifest_is_named(tmp_path, monkeypatch, capsys, change, reported):
    path = tmp_path / "manifest.json"
    path.write_text(edited(change))
    with pytest.raises(LoopError) as error:
        loop.Loop(tmp_path, FakeProgram(), {}, "1")
    mend = "repair it, restore a copy, or start in another folder"
    assert str(error.value) == f"{path} is damaged, or not that of a loop ({reported}): {mend}"
    assert said_by_charts(tmp_path, monkeypatch, capsys) == f"scorn charts: {error.value}\n"


def test_a_whole_manifest_is_taken_and_that_of_another_version_is_not(tmp_path):
    path = tmp_path / "manifest.json"
    # Which numbers have a point hangs on who writes them, and settings may be younger than the loop.
    path.write_text(edited(lambda made: (made["settings"].update(rate=1), made["settings"].pop("value_loss"))))
    made = loop.Loop(tmp_path, FakeProgram(), {}, "1").folder
    assert (made.settings.rate, made.settings.value_loss, len(made.generations)) == (1, "cross-entropy", 3)
    made.close()
    path.write_text(edited(lambda made: made["settings"].update(gmaes=3)))
    with pytest.raises(LoopError, match="another version of this program: there is no setting gmaes$"):
        loop.Loop(tmp_path, FakeProgram(), {}, "1")
    path.write_text('{"format": 2, "rest": "unknown"}')
    with pytest.raises(LoopError, match="another version of this program: its format is 2, not 1$"):
        loop.Loop(tmp_path, FakeProgram(), {}, "1")


def test_former_names_of_settings_are_read(tmp_path):
    def with_former_names(made: dict) -> None:
        kept = made["settings"]
        for former, name in settings.RENAMED.items():
            kept[former] = kept.pop(name)
        kept.update(rivals=True, yardstick_every=7)

    path = tmp_path / "manifest.json"
    path.write_text(edited(with_former_names))
    made = loop.Loop(tmp_path, FakeProgram(), {}, "1").folder
    assert (made.settings.reference_opponents, made.settings.anchor_every) == (True, 7)
    made.close()
    parser = argparse.ArgumentParser()
    settings.add_arguments(parser)
    arguments = ["--no-rivals", "--yardstick", "stockfish", "--yardstick-every", "3"]
    named = settings.given(parser.parse_args([*arguments, "--longest", "9"]))
    expected = {"reference_opponents": False, "anchor_opponent": "stockfish", "anchor_every": 3, "max_plies": 9}
    assert named == expected
    # The help has the present names only.
    shown = parser.format_help()
    assert all("--" + name.replace("_", "-") in shown for name in settings.RENAMED.values())
    assert not re.search(r"--(no-)?(rivals|yardstick|longest)", shown)


@pytest.mark.parametrize(
    ("limit", "flags"),
    [
        ("", ["--nodes", "100"]),
        ("nodes=800", ["--nodes", "800"]),
        ("time=0.5", ["--st", "0.5"]),
        ("time=1:30", ["--st", "1:30"]),
        ("clock=10+0.1", ["--tc", "10+0.1"]),
        ("clock=10+0", ["--tc", "10+0"]),
        ("clock=.5", ["--tc", ".5"]),
        ("clock=40/1:00+0.6", ["--tc", "40/1:00+0.6"]),
    ],
)
def test_the_limit_of_matches_becomes_flags(limit, flags):
    assert settings.limit_flags(settings.Settings(match_limit=limit)) == flags


@pytest.mark.parametrize(
    "limit",
    ["foo", "800", "nodes", "nodes=", "nodes=0", "nodes=1.5", "nodes=1,2", "time=0", "time=-1", "time=0.0", "time=x"]
    + ["clock=0+1", "clock=0/10", "clock=10+", "clock=10+x", "clock=1/2/3", "clock=nan", "depth=3", "nodes=7\n"],
)
def test_a_wrong_limit_of_matches_is_refused_by_its_name(tmp_path, limit):
    program = FakeProgram()
    with pytest.raises(ValueError, match=f"^--match-limit is nodes=N, .*, not {re.escape(limit)}$"):
        loop.Loop(tmp_path / "loop", program, {"match_limit": limit}, "1")
    assert program.calls == [] and [path.name for path in (tmp_path / "loop").iterdir()] == [".lock"]


def test_a_damaged_checkpoint_is_named(tmp_path):
    path = tmp_path / "checkpoint"
    path.write_bytes(b'{"format": "x", "progress": {"step": 7}}\n\xff\0')
    assert learning.steps_of(path) == 7
    for damaged in (b"", b"xx", b"\xff", b"{}", b"[]", b'{"progress": 1}'):
        path.write_bytes(damaged)
        with pytest.raises(LoopError, match="checkpoint is damaged"):
            learning.steps_of(path)


def generation(number: int, score: tuple[int, int, int], opponent: str) -> dict:
    wins, draws, lost = score
    games = {
        "games": 10,
        "white": 3,
        "draws": 5,
        "black": 2,
        "decisive": 5,
        "plies": 500,
        "sc_limit": 5.0,
        "nodes": 100,
    }
    games |= {"samples": 400, "folders": ["games-best-1"]}
    match = {"first": f"gen-{number}", "second": opponent, "wins": wins, "draws": draws, "losses": lost}
    training = {
        "positions": 400,
        "steps": 8,
        "learned": {"kl": 1.0, "error": 0.8},
        "fresh": {"kl": 1.1, "error": 0.9},
        "network": "y",
    }
    verdict = {"network": "y", "promoted": True, "win_rates": [0.5, 0.5]}
    return {"generation": number, "games": games, "training": training, "matches": [match], **verdict}


def scalars_of(data: bytes) -> dict[str, list[tuple[int, float]]]:
    """Name to points of a TensorBoard log: records of a length, its checksum, an event and its checksum."""
    from tensorboardX.proto.event_pb2 import Event

    found: dict[str, list[tuple[int, float]]] = {}
    while data:
        length = int.from_bytes(data[:8], "little")
        event = Event.FromString(data[12 : 12 + length])
        data = data[16 + length :]
        for value in event.summary.value:
            found.setdefault(value.tag, []).append((event.step, value.simple_value))
    return found


def test_curves_and_page(tmp_path):
    generations = [
        generation(1, (6, 2, 2), "gen-0"),
        generation(2, (5, 5, 0), "gen-1"),
        generation(3, (0, 1, 9), "Stockfish 1320"),
    ]
    curves = charts.series(generations[:2])
    assert curves["games/total"] == [(1, 10.0), (2, 20.0)] and curves["loss/KL fresh"][0] == (1, 1.1)
    elo = dict(curves["elo/network"])
    assert elo[0] == 0 and elo[2] > elo[1] > 0
    # Stockfish's rating holds the scale, for all that are tied to it.
    generations[2]["matches"].append({"first": "gen-3", "second": "gen-2", "wins": 5, "draws": 0, "losses": 5})
    rated = charts.ratings(generations)
    assert rated["Stockfish 1320"].elo == 1320 and rated["gen-3"].elo < 1320 and rated["gen-0"].elo < rated["gen-2"].elo
    # But for a match in which it won everything: then generation 0 is 0.
    lost = [
        generation(1, (6, 2, 2), "gen-0"),
        generation(2, (0, 0, 20), "Stockfish 1350"),
        generation(3, (5, 5, 0), "gen-1"),
    ]
    assert charts.fixed(lost) == {} and charts.ratings(lost)["gen-0"].elo == 0
    heads, table = charts.rows(generations)
    losses = dict(zip(heads, table[0]))
    assert [losses[name] for name in ("KL fresh", "KL", "W-L error fresh", "W-L error")] == ["1.1", "1.0", "0.9", "0.8"]
    program = FakeProgram()
    charts.write_page(program, tmp_path / "report.html", "x < y", "three", generations)
    description = tmp_path / "report.json"
    assert program.calls == [["page", str(description), "--out", str(tmp_path / "report.html"), "--force"]]
    page = json.loads(description.read_text())
    assert page["title"] == "x < y" and page["parts"][0] == {"paragraph": "three"}
    plots = {
        part["figure"]["plot"]["y_name"]: part["figure"]["plot"]["series"] for part in page["parts"] if "figure" in part
    }
    assert list(plots) == ["Elo", "loss", "log10 of (w+l)/d", "ScLimit", "nodes a move", "games"]
    assert [point[0] for point in plots["Elo"][1]["values"]] == [0, 1, 2, 3]
    assert all(low < elo < high for _, elo, (low, high) in plots["Elo"][1]["values"][1:])
    assert {line["name"] for line in plots["loss"]} == {"KL learned", "KL fresh", "W-L error learned", "W-L error fresh"}
    assert plots["log10 of (w+l)/d"][0]["values"] == [[at, 0.0, None] for at in (1, 2, 3)]
    assert plots["games"][0]["values"][-1] == [3, 30.0, None]
    table = page["parts"][-1]["table"]
    assert len(table["rows"]) == 3 and {len(row) for row in table["rows"]} == {len(table["columns"])}
    # JSON has no word for what is not finite.
    unknown = charts._series("x", "points", 0, [(1, 2.0), (2, math.nan), (3, 4.0)], [1.0, 1.0, math.inf])
    assert unknown["values"] == [[1, 2.0, [1.0, 3.0]], [3, 4.0, None]]
    # A loop without a generation has a page, too.
    charts.write_page(program, tmp_path / "report.html", "x", "none", [])
    assert [*json.loads(description.read_text())["parts"][1]] == ["table"]
    charts.write_tensorboard(tmp_path / "tb", generations)
    charts.write_tensorboard(tmp_path / "tb", generations)
    (events,) = (tmp_path / "tb").iterdir()
    scalars = scalars_of(events.read_bytes())
    assert scalars["search/nodes"] == [(1, 100), (2, 100), (3, 100)]
    assert scalars["search/ScLimit"] == [(1, 5), (2, 5), (3, 5)]
    assert scalars["games/decisive_per_draw"] == [(1, 1), (2, 1), (3, 1)]
    assert scalars["games/total"] == [(1, 10), (2, 20), (3, 30)]
    assert [at for at, _ in scalars["elo/network"]] == [0, 1, 2, 3]
    assert {"loss/KL_learned", "loss/KL_fresh", "loss/W-L_error_learned", "loss/W-L_error_fresh"} < set(scalars)


def test_a_line_of_costs_that_was_cut_short_is_left_out(tmp_path):
    path = tmp_path / "times.jsonl"
    assert charts.costs(path) == []
    charts.write_cost(path, {"core_seconds": 1.0})
    with open(path, "a") as file:
        file.write('{"core_sec')
    charts.write_cost(path, {"core_seconds": 2.0})
    charts.write_cost(path, {"core_seconds": 3.0})
    assert [cost["core_seconds"] for cost in charts.costs(path)] == [1.0, 2.0, 3.0]


def test_random_openings_are_different_and_playable():
    positions = openings.random_positions(30, 4)
    assert len(set(positions)) == 30 and positions == openings.random_positions(30, 4)
    assert all(len(position.split()) == 4 for position in positions)


def test_what_the_program_says_of_openings_is_told(tmp_path):
    with pytest.raises(LoopError, match=r"^scorn analyze failed \(2\): error: --epd$"):
        openings.make(tmp_path / "openings.epd", FakeProgram("--epd"), 2, 1)


def test_seeds_are_in_the_range_of_the_program_and_differ():
    seeds = {settings.Settings(seed=1).derived(number, name) for number in range(50) for name in ("a", "b")}
    assert len(seeds) == 100 and all(1 <= seed < 2**31 for seed in seeds)
