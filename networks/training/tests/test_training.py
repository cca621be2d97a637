"""Tests of the parts that must agree with the engine: planes, policy indices, masks, export."""

import gzip
import re
import subprocess
import sys
from pathlib import Path

import chess
import numpy as np
import pytest
import torch

from scorn_training import dense, evaluate, human_books, model, play, policy, records, selfplay, train, verify
from scorn_training.batches import Targets, is_held_out
from scorn_training.export import export
from scorn_training.export import main as export_main

SHARED = Path(__file__).parents[4] / "shared" / "reference"


def record_of(board: chess.Board) -> np.ndarray:
    """A board as `scorn dataset` would pack it."""
    out = np.zeros(1, records.DTYPE)
    codes = np.zeros(64, np.uint8)
    us = board.turn
    for square, piece in board.piece_map().items():
        codes[square if us else square ^ 56] = piece.piece_type + (0 if piece.color == us else 6)
    out["board"] = codes[0::2] | codes[1::2] << 4
    rights = [
        board.has_queenside_castling_rights(us),
        board.has_kingside_castling_rights(us),
        board.has_queenside_castling_rights(not us),
        board.has_kingside_castling_rights(not us),
    ]
    out["state"] = sum(right << bit for bit, right in enumerate(rights))
    out["ep"] = 255 if board.ep_square is None else chess.square_file(board.ep_square)
    out["rule50"] = min(board.halfmove_clock, 255)
    out["score"], out["result"], out["plies_left"] = records.NO_SCORE, records.NO_RESULT, records.NO_PLIES
    return out


def random_boards(count: int, seed: int) -> list[chess.Board]:
    rng = np.random.default_rng(seed)
    boards, board = [], chess.Board()
    while len(boards) < count:
        moves = list(board.legal_moves)
        if not moves or board.is_insufficient_material():
            board = chess.Board()
            continue
        boards.append(board.copy())
        board.push(moves[rng.integers(len(moves))])
    return boards


def random_network(**sizes: int) -> model.Network:
    torch.manual_seed(1)
    network = model.Network(model.Config(**sizes))
    for parameter in network.parameters():
        parameter.data += torch.randn_like(parameter) * 0.05
    return network


def test_policy_vector_is_lc0s():
    if not SHARED.exists():
        pytest.skip(f"NO REFERENCE FILES at {SHARED}: the policy index was not compared with lc0's")
    lines = (SHARED / "lc0-policy-index-1858.txt").read_text().splitlines()
    table = dict(line.split() for line in lines if line and not line.startswith("#"))
    assert table == {str(index): name for index, name in enumerate(policy.names())}


def test_legal_moves_are_never_masked():
    boards = random_boards(600, 3)
    for start in range(0, 600, 200):
        some = boards[start : start + 200]
        packed = records.positions(np.concatenate([record_of(board) for board in some]))
        tokens = model.features(torch.from_numpy(packed))
        open_lines = model.Network(model.Config())(tokens)[3]
        mask = model.MoveMask()(tokens, open_lines)
        for row, board in zip(mask, some):
            legal = {play.index(board, move) for move in board.legal_moves}
            assert all(row[index] for index in legal), board.fen()
            pseudo = {play.index(board, move) for move in board.pseudo_legal_moves}
            assert int(row.sum()) <= len(pseudo) + 4, board.fen()


@pytest.mark.parametrize("body", model.BODIES)
def test_export_agrees_with_the_network_on_real_planes(tmp_path: Path, body: str):
    network = random_network(body=body, channels=32, hidden=32, blocks=2, value_channels=8, value_hidden=32)
    path = tmp_path / "net.onnx"
    export(network, path, {"input_format": "INPUT_CLASSICAL_112_PLANE"})
    run = verify.session(path)
    for board in random_boards(150, 5):
        packed = torch.from_numpy(records.positions(record_of(board)))
        logits, wdl, plies, _ = network(model.features(packed))
        out = run.run(None, {"/input/planes": play.planes(board)})
        np.testing.assert_allclose(out[0], logits.detach().numpy(), atol=1e-4)
        np.testing.assert_allclose(out[1], wdl.softmax(dim=1).detach().numpy(), atol=1e-5)
        np.testing.assert_allclose(out[2][:, 0], plies.relu().detach().numpy() * model.PLIES_UNIT, atol=1e-3)


E4, D4 = 12 | 28 << 6, 11 | 27 << 6


def test_the_policy_loss_counts_every_move_with_a_share():
    tokens = model.features(start_positions(2))
    e4, d4 = (int(policy.PACKED_TO_INDEX[move]) for move in (E4, D4))
    index = torch.tensor([[e4, d4, e4], [0, 0, 0]])
    shares = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]])
    zeros, wdl = torch.zeros(2), torch.tensor([[0.5, 0.3, 0.2]] * 2)
    targets = Targets(index, shares, torch.tensor([1.0, 0.0]), wdl, torch.ones(2), zeros, zeros)
    network, mask = random_network(), model.MoveMask()
    logits, _, _, open_lines = network(tokens)
    chances = logits.masked_fill(~mask(tokens, open_lines), -30.0).log_softmax(dim=1)[0]
    expected = -(chances[e4] + chances[d4]) / 2
    assert train.losses(network, mask, tokens, targets)[0].item() == pytest.approx(expected.item(), rel=1e-5)


def start_positions(count: int) -> torch.Tensor:
    return torch.from_numpy(records.positions(np.concatenate([record_of(chess.Board())] * count)))


def values_only(weights: list[float], wdl: tuple[float, float, float] = (0.0, 0.0, 1.0)) -> Targets:
    """Targets of positions that have a value of this weight, and nothing else."""
    count = len(weights)
    zeros = torch.zeros(count)
    index, shares = torch.zeros((count, 1), dtype=torch.long), torch.zeros((count, 1))
    return Targets(index, shares, zeros, torch.tensor([wdl] * count), torch.tensor(weights), zeros, zeros)


def test_the_value_loss_counts_a_result_by_its_weight():
    network, mask = random_network(), model.MoveMask()
    tokens = model.features(start_positions(2))

    def value(*weights: float) -> float:
        return train.losses(network, mask, tokens, values_only(list(weights)))[1].item()

    whole = value(1, 1)
    # Also where no position of the batch has more than a result.
    assert value(0.1, 0.1) == pytest.approx(0.1 * whole, rel=1e-5)
    assert value(1, 0.1) == pytest.approx(0.55 * whole, rel=1e-5)
    # A position without a value target does not count.
    assert value(1, 0) == pytest.approx(whole, rel=1e-5)
    assert value(0, 0) == 0


@pytest.mark.filterwarnings("error")
def test_what_no_position_has_is_not_measured():
    network = random_network()
    some = evaluate.measure(network, [(start_positions(3), values_only([1, 1, 0]))])
    assert (some["positions"], some["policy"], some["top1"]) == (3, None, None)
    text = evaluate.summary(some)
    assert re.fullmatch(r"policy - top-1 - value \d.*\(floor .*\) W/D/L \d.* % \|q error\| \d.*", text), text
    none = [(start_positions(1), values_only([0]))]
    text = "policy - top-1 - value - (floor -) W/D/L - |q error| -"
    assert evaluate.summary(evaluate.measure(network, none)) == text
    assert evaluate.calibration(network, none) == ""


def test_openings_may_be_packed_and_other_files_are_named(tmp_path: Path):
    epd = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq -"
    for name, text in [("x.epd", f"{epd}\n"), ("x.pgn", "1. e4 e5 *\n")]:
        (tmp_path / name).write_text(text)
        plain = list(human_books.openings(tmp_path / name))
        assert len(plain) == 1
        packed = tmp_path / f"{name}.gz"
        packed.write_bytes(gzip.compress(text.encode()))
        assert list(human_books.openings(packed)) == plain
        for damaged in (packed.read_bytes()[:-9], text.encode()):
            packed.write_bytes(damaged)
            with pytest.raises(ValueError, match=f"{name}.gz is neither text nor text packed as .gz"):
                list(human_books.openings(packed))
    (tmp_path / "x.epd").write_bytes(gzip.compress(b"x"))
    with pytest.raises(ValueError, match="x.epd is neither text.*unpack it first"):
        list(human_books.openings(tmp_path / "x.epd"))


def test_features_are_those_of_the_board():
    board = chess.Board("r3k3/8/8/3pP3/8/8/8/4K2R w Kq d6 30 40")
    tokens = model.features(torch.from_numpy(records.positions(record_of(board))))[0]
    pieces = {square: int(tokens[square, :12].argmax()) for square in range(64) if tokens[square, :12].any()}
    assert pieces == {4: 5, 7: 3, 35: 6, 36: 0, 56: 9, 60: 11}
    assert (tokens[:, 12:16] == torch.tensor([0.0, 1.0, 1.0, 0.0])).all()
    assert (tokens[:, 16] == 0.3).all()
    assert tokens[:, 17].nonzero().flatten().tolist() == [43]


def write_records(path: Path, many: np.ndarray) -> None:
    size = many.dtype.itemsize
    version = {dtype: number for number, dtype in records.FORMATS.items()}[many.dtype]
    header = records.MAGIC + version.to_bytes(4, "little") + size.to_bytes(4, "little")
    path.write_bytes(header.ljust(size, b"\0") + many.tobytes())


SIZES = '{"channels": 16, "hidden": 16, "blocks": 1}'


# A program that writes the batches of `scorn train batches`, or one of `scorn train held-out`: random positions, each
# with one move and a value.
PROGRAM = """#!{python}
import json, sys
import numpy as np
options = dict(zip(sys.argv[3::2], sys.argv[4::2]))
count, first = int(options.get("--batch", 512)), int(options.get("--from", 0))
sys.stdout.write(json.dumps({{"format": "scorn-dense-batches-1", "inputs": 36, "rows": 1858, "batch": count,
    "from": first, "plies_unit": 20.0}}) + "\\n")
sys.stdout.flush()
positions = np.load({positions!r})
step = first
while True:
    rng = np.random.default_rng(step)
    step += 1
    drawn = positions[rng.integers(0, len(positions), count)]
    policy = np.zeros((count, 5), "<f4")
    policy[:, 0] = 1
    values = np.tile(np.array([0.5, 0.3, 0.2, 1, 2, 1], "<f4"), (count, 1))
    body = b""
    for array in (drawn, np.full((count, 5), 322, "<u2"), policy, values):
        body += array.tobytes() + bytes(-array.nbytes % 8)
    sys.stdout.buffer.write(np.array([count, 5, len(body)], "<u4").tobytes() + body)
    if sys.argv[2] == "held-out":
        break
"""


def program(path: Path) -> list[str]:
    """Options of a run with a program that writes such batches."""
    packed = records.positions(np.concatenate([record_of(board) for board in random_boards(64, 9)]))
    np.save(path / "positions.npy", packed)
    script = path / "scorn"
    script.write_text(PROGRAM.format(python=sys.executable, positions=str(path / "positions.npy")))
    script.chmod(0o755)
    return ["--scorn", str(script), "--data", "x.rec:1"]


def run_training(folder: Path, *arguments: str) -> dict:
    train.Training(train.arguments(["--folder", str(folder), "--batch", "16", "--save-every", "2", *arguments])).run()
    return torch.load(folder / "checkpoint.pt", weights_only=True)


def test_an_interrupted_run_gives_the_same_network(tmp_path: Path):
    common = [*program(tmp_path), "--config", SIZES]
    whole = run_training(tmp_path / "whole", "--steps", "6", *common)
    run_training(tmp_path / "run", "--steps", "3", *common)
    state = run_training(tmp_path / "run", "--steps", "6", *common)
    assert (state["step"], state["positions"]) == (6, 96)
    for kind in ("network", "average"):
        for name, weights in whole[kind].items():
            torch.testing.assert_close(state[kind][name], weights, msg=f"{kind} {name}")
    end = run_training(tmp_path / "end", "--decay", f"{tmp_path}/run/checkpoint.pt", "--steps", "9", *common)
    assert end["decay_step"] == 6
    with pytest.raises(ValueError, match="a run that is not a decay"):
        run_training(tmp_path / "run", "--decay", f"{tmp_path}/run/checkpoint.pt", "--steps", "9", *common)
    again = run_training(tmp_path / "end", "--decay", f"{tmp_path}/run/checkpoint.pt", "--steps", "9", *common)
    assert (again["step"], again["decay_step"], again["decay_end"]) == (9, 6, 9)
    # Its rate has reached zero, and would rise again.
    with pytest.raises(ValueError, match="ended at step 9"):
        run_training(tmp_path / "end", "--decay", f"{tmp_path}/run/checkpoint.pt", "--steps", "12", *common)
    # Without --decay it would go on at the full rate.
    with pytest.raises(ValueError, match="belongs to a decay.*give it the checkpoint"):
        run_training(tmp_path / "end", "--steps", "12", *common)
    for steps, message in [([], "needs an end"), (["--steps", "6"], "would end at step 6")]:
        with pytest.raises(ValueError, match=message):
            run_training(tmp_path / "other", "--decay", f"{tmp_path}/run/checkpoint.pt", *steps, *common)
    # A run that cannot start leaves no folder.
    assert not (tmp_path / "other").exists()


def write_searched(path: Path, flags: list[int]) -> str:
    positions = np.zeros(len(flags), selfplay.POSITION)
    positions["flags"] = flags
    selfplay.Searched(positions, np.zeros(0, selfplay.ENTRY)).write(path)
    return str(path)


def test_searched_positions_are_tested_if_they_are_held_out_or_of_another_file(tmp_path: Path):
    common = [*program(tmp_path), "--config", SIZES, "--steps", "4", "--test-every", "2"]
    game, held_out = 1 << 4, 1 << 4 | records.HELD_OUT
    marked = write_searched(tmp_path / "marked.vis", [game, game, held_out])
    unmarked = write_searched(tmp_path / "unmarked.vis", [game, game])
    empty = write_searched(tmp_path / "empty.vis", [])
    write_records(tmp_path / "games.rec", record_of(chess.Board()))
    names = [marked, unmarked, empty, tmp_path / "games.rec"]
    assert [is_held_out(Path(name)) for name in names] == [True, False, False, True]
    with pytest.raises(ValueError, match="unmarked.vis is given to both --data and --test.*not in --data"):
        run_training(tmp_path / "run", "--data", f"{unmarked}:1", "--test", unmarked, *common)
    assert not (tmp_path / "run").exists()
    run_training(tmp_path / "run", "--data", f"{marked}:1", "--test", marked, "--test", unmarked, *common)
    lines = (tmp_path / "run" / "log.txt").read_text().splitlines()
    # Each step once, also the last.
    tested = [re.search(r"step (\d+) .*?M (.*?):", line).groups() for line in lines]
    tests = [f"held out {marked}", f"test {unmarked}"]
    assert tested == [(step, test) for step in "24" for test in tests]


def test_a_damaged_checkpoint_is_named(tmp_path: Path):
    common = program(tmp_path)
    run_training(tmp_path / "run", "--steps", "1", "--config", SIZES, *common)
    path = tmp_path / "run" / "checkpoint.pt"
    whole = path.read_bytes()
    torch.save({"weights": torch.zeros(3)}, tmp_path / "other.pt")
    middle = len(whole) // 2
    for damaged, message in [
        (whole[:middle], "is not a checkpoint.*or is damaged"),
        (whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :], "damaged: the checksum of"),
        (b"something else", "is not a checkpoint"),
        ((tmp_path / "other.pt").read_bytes(), "is not a checkpoint"),
    ]:
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=f"{path}.*{message}"):
            run_training(tmp_path / "run", "--steps", "2", *common)
        with pytest.raises(ValueError, match=f"{path}.*{message}"):
            dense.load_network(path)
    path.write_bytes(whole)
    run_training(tmp_path / "run", "--steps", "2", *common)


def test_an_export_replaces_a_file_only_if_forced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    run_training(tmp_path / "run", "--steps", "1", "--config", SIZES, *program(tmp_path))
    out = tmp_path / "net.onnx"
    out.write_text("mine")
    with pytest.raises(ValueError, match="cannot load .*net.onnx"):
        verify.session(out)
    command = ["export", str(tmp_path / "run" / "checkpoint.pt"), str(out)]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(ValueError, match="net.onnx exists; --force overwrites it"):
        export_main()
    assert out.read_text() == "mine"
    monkeypatch.setattr(sys, "argv", [*command, "--force"])
    export_main()
    assert verify.session(out).get_inputs()[0].name == "/input/planes"


def test_wrong_arguments_are_reported_before_the_training(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    common = program(tmp_path)
    with pytest.raises(FileNotFoundError, match="no-such.rec"):
        run_training(tmp_path / "run", "--steps", "1", "--test", "no-such.rec", *common)
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="--device cpu"):
            run_training(tmp_path / "run", "--steps", "1", "--device", "cuda", *common)
    with monkeypatch.context() as patch, pytest.raises(ValueError, match="2 processes .* on --device cpu only"):
        patch.setenv("WORLD_SIZE", "2")
        patch.setattr(torch.cuda, "is_available", lambda: True)
        patch.setattr(torch.cuda, "device_count", lambda: 2)
        run_training(tmp_path / "run", "--steps", "1", "--device", "cuda:1", *common)
    assert not (tmp_path / "run").exists()
    for config, message in [("{", "double quotes"), ('{"chan": 3}', "'chan'"), ('{"channels": 50}', "cannot be div")]:
        with pytest.raises(SystemExit):
            train.arguments(["--folder", "x", "--data", "x.rec:1", "--config", config])
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("--rate 1e9", "--rate is 1000000000.0: it must be above 0 and at most 0.1"),
        ("--rate -1", "--rate is -1.0: it must be above 0"),
        ("--rate nan", "--rate is nan"),
        ("--minutes -1", "--minutes is -1.0: it must be a number above 0"),
        ("--minutes inf", "--minutes is inf"),
        ("--value-weight -1", "--value-weight is -1.0: it must be a number of at least 0"),
        ("--plies-weight nan", "--plies-weight is nan"),
        ("--decay-power -1", "--decay-power is -1.0"),
        ("--steps -1", "--steps is -1: it must be a number of at least 0"),
        ("--warmup -5", "--warmup is -5"),
        ("--seed -1", "--seed is -1"),
        ("--batch 0", "--batch is 0: it must be at least 1"),
        ("--threads 0", "--threads is 0"),
        ("--save-every 0", "--save-every is 0"),
        ("--test-every 0", "--test-every is 0"),
        ("--device foo", "--device is foo: it must be cpu, cuda or cuda:N"),
    ],
)
def test_settings_out_of_range_are_refused(tmp_path: Path, setting: str, message: str):
    with pytest.raises(ValueError, match=re.escape(message)):
        run_training(tmp_path / "run", *program(tmp_path), *setting.split())
    assert not (tmp_path / "run").exists()


def test_a_network_of_another_shape_is_refused(tmp_path: Path):
    common = program(tmp_path)
    run_training(tmp_path / "run", "--steps", "1", "--config", SIZES, *common)
    run_training(tmp_path / "run", "--steps", "2", *common)
    with pytest.raises(ValueError, match="channels=16.*not of.*channels=32"):
        run_training(tmp_path / "run", "--steps", "3", "--config", SIZES.replace("16", "32"), *common)
    with pytest.raises(ValueError, match="50 channels cannot be divided among 4"):
        model.Config(channels=50)


def test_options_of_the_targets_are_passed_on(tmp_path: Path):
    args = train.arguments(["--folder", "x", "--data", "x.rec:1", "--result-mix", "0.5", "--policy-temperature", "0.1"])
    assert args.target_options == ["--result-mix", "0.5", "--policy-temperature", "0.1"]
    with pytest.raises(ValueError, match="name the program with --scorn"):
        run_training(tmp_path / "run", "--steps", "1", "--data", "x.rec:1", "--scorn", "no-such-program")


def test_damaged_record_files_are_refused(tmp_path: Path):
    (tmp_path / "x.rec").write_bytes(b"nonsense" * 20)
    with pytest.raises(ValueError, match="not a record file"):
        records.open_records(tmp_path / "x.rec")


def test_a_missing_package_is_named_with_the_command_that_installs_it() -> None:
    folder = Path(__file__).parents[1]
    # -S hides the installed packages.
    command = [sys.executable, "-S", "-m", "scorn_training.loop", "--help"]
    found = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr.startswith("error: ") and len(found.stderr.splitlines()) == 1, found.stderr
    assert f"no package numpy; install what is needed with: {sys.executable} -m pip install '{folder}'" in found.stderr
