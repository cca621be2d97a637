"""Tests of the parts that must agree with the engine: planes, policy indices, masks, export."""

from pathlib import Path

import chess
import numpy as np
import pytest
import torch

from scorn_training import data, model, odds, play, policy, records, train, verify
from scorn_training.data import DEFAULT_WDL
from scorn_training.export import export

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
        batch = records.make_batch(np.concatenate([record_of(board) for board in some]), data.DEFAULT_WDL, None, 0, 0)
        tokens, _ = data.tensors(batch)
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
        batch = records.make_batch(record_of(board), data.DEFAULT_WDL, None, 0, 0)
        logits, wdl, plies, _ = network(data.tensors(batch)[0])
        out = run.run(None, {"/input/planes": play.planes(board)})
        np.testing.assert_allclose(out[0], logits.detach().numpy(), atol=1e-4)
        np.testing.assert_allclose(out[1], wdl.softmax(dim=1).detach().numpy(), atol=1e-5)
        np.testing.assert_allclose(out[2][:, 0], plies.relu().detach().numpy() * model.PLIES_UNIT, atol=1e-3)


def test_mirrored_positions_have_mirrored_moves():
    board = chess.Board("4k3/8/8/3pP3/8/8/8/4K3 w - d6 0 1")
    record = record_of(board)
    record["move"] = 36 | 43 << 6
    codes, ep, move = records.boards(record), record["ep"].copy(), record["move"].copy()
    records.mirror_files(codes, ep, move, np.array([True]))
    assert (ep[0], move[0]) == (4, 35 | 44 << 6)
    assert codes[0, 35] == 1 and codes[0, 36] == 7


def test_targets():
    many = np.concatenate([record_of(chess.Board())] * 3)
    many["score"], many["result"] = [200, records.NO_SCORE, -records.MATE], [255, 2, 0]
    batch = records.make_batch(many, DEFAULT_WDL, None, 0.1, 0.5)
    assert batch.value_weight.tolist() == pytest.approx([1, 0.1, 1])
    assert batch.wdl[1].tolist() == [1, 0, 0]
    assert batch.wdl[2].tolist() == pytest.approx([0, 0, 1], abs=1e-3)
    assert batch.wdl.sum(axis=1).tolist() == pytest.approx([1, 1, 1])
    assert batch.wdl[0, 0] > batch.wdl[0, 1] > batch.wdl[0, 2]


def ranked_record(best: tuple[int, int], *alternatives: tuple[int, int]) -> np.ndarray:
    """The start position with moves and what they score."""
    record = records.ranked(record_of(chess.Board()))
    record["move"], record["score"] = best
    for place, alternative in enumerate(alternatives):
        record["alternatives"][0, place] = alternative
    return record


E4, D4, G4 = 12 | 28 << 6, 11 | 27 << 6, 14 | 30 << 6


def test_moves_share_the_policy_by_what_they_lose():
    many = np.concatenate(
        [
            ranked_record((E4, 30), (D4, 30), (G4, -120)),
            ranked_record((E4, 30), (D4, 80)),
            ranked_record((E4, 30)),
            ranked_record((0, records.NO_SCORE)),
            ranked_record((E4, records.MATE), (D4, 900)),
        ]
    )
    soft = records.move_shares(many, DEFAULT_WDL, 0.04)
    assert soft[0, 0] == soft[0, 1] > 40 * soft[0, 2] > 0
    assert soft[1].tolist() == [0.5, 0.5, 0, 0, 0]
    assert soft[2].tolist() == [1, 0, 0, 0, 0]
    assert soft[3].tolist() == [0, 0, 0, 0, 0]
    assert soft[4, 0] > soft[4, 1]
    assert soft.sum(axis=1).tolist() == pytest.approx([1, 1, 1, 0, 1])
    hard = records.move_shares(many, DEFAULT_WDL, 0)
    assert hard[:, 0].tolist() == [1, 1, 1, 0, 1] and not hard[:, 1:].any()


def test_the_policy_loss_counts_every_move_that_has_a_share():
    many = np.concatenate([ranked_record((E4, 30), (D4, 30)), ranked_record((0, 10))])
    batch = records.make_batch(many, DEFAULT_WDL, None, 0.1, 0.2, 0.04)
    tokens, targets = data.tensors(batch)
    network, mask = random_network(), model.MoveMask()
    logits, _, _, open_lines = network(tokens)
    chances = logits.masked_fill(~mask(tokens, open_lines), -30.0).log_softmax(dim=1)[0]
    e4, d4 = (int(policy.PACKED_TO_INDEX[move]) for move in (E4, D4))
    expected = -(chances[e4] + chances[d4]) / 2
    assert train.losses(network, mask, tokens, targets)[0].item() == pytest.approx(expected.item(), rel=1e-5)
    assert not mask(tokens, open_lines).scatter(1, targets.index, True)[0, 0], "a missing move does not become a1b1"


def test_won_positions_still_differ():
    scores = np.array(
        [-records.MATE, -1500, -1000, -560, -380, -200, 0, 200, 380, 560, 1000, 1500, records.MATE], np.int16
    )
    wdl = DEFAULT_WDL(scores)
    assert (np.diff(wdl[:, 0]) > 0).all() and (np.diff(wdl[:, 2]) < 0).all()
    assert np.diff(wdl[:, 0])[8:11].min() > 0.01, "a queen, a rook and a knight are told apart"
    assert wdl[:, 0] == pytest.approx(wdl[::-1, 2], abs=1e-6)


def test_material_orders_what_the_teacher_calls_lost():
    def target(squares: list[str], score: int, giver: chess.Color) -> float:
        board = odds.odds_board(squares, giver)
        return float(records.with_material(np.array([score], np.int16), records.boards(record_of(board)))[0])

    # Stockfish's medians of such positions.
    lost = [
        target(*odds_and_score, chess.WHITE)
        for odds_and_score in [
            (["d1"], -662),
            (["a1", "h1"], -630),
            (["a1"], -597),
            (["c1"], -550),
            (["b1"], -498),
            (["f2"], -90),
        ]
    ]
    assert (np.diff(lost) > 0).all(), lost
    won = [target(*odds_and_score, chess.BLACK) for odds_and_score in [(["b1"], 640), (["a1"], 747), (["d1"], 724)]]
    assert won[0] < won[1] < won[2] and lost[-1] == -90, (won, lost)
    # What hangs does not count against the evaluation, and a mate stays one.
    assert target(["d1"], 500, chess.WHITE) == 450
    for mate in (records.MATE, records.MATE - 1, records.MATE - 99):
        assert target(["d1"], -mate, chess.WHITE) == -mate


def write_records(path: Path, many: np.ndarray) -> None:
    size = many.dtype.itemsize
    version = {dtype: number for number, dtype in records.FORMATS.items()}[many.dtype]
    header = records.MAGIC + version.to_bytes(4, "little") + size.to_bytes(4, "little")
    path.write_bytes(header.ljust(size, b"\0") + many.tobytes())


def test_files_with_and_without_alternatives_are_mixed(tmp_path: Path):
    plain = np.concatenate([record_of(board) for board in random_boards(32, 9)])
    plain["move"], plain["score"] = E4, 30
    write_records(tmp_path / "plain.rec", plain)
    write_records(tmp_path / "ranked.rec", np.concatenate([ranked_record((E4, 30), (D4, 20))] * 32))
    parts = [data.Part(tmp_path / name, 0.5) for name in ("plain.rec", "ranked.rec")]
    _, targets = data.Mixture(parts, 16, 1, 0.1, 0.2, policy_temperature=0.04).batch(0)
    assert targets.policy.sum(dim=1).tolist() == pytest.approx([1.0] * 16)
    assert ((targets.policy > 0).sum(dim=1) == 2).sum() == 8
    with open(tmp_path / "ranked.rec", "ab") as file:
        file.write(b"half a record")
    assert len(records.open_records(tmp_path / "ranked.rec")) == 32


SIZES = '{"channels": 16, "hidden": 16, "blocks": 1}'


def training_data(path: Path) -> Path:
    many = np.concatenate([record_of(board) for board in random_boards(64, 9)])
    many["move"], many["score"] = 12 | 28 << 6, 30
    write_records(path / "x.rec", many)
    return path / "x.rec"


def run_training(folder: Path, *arguments: str) -> dict:
    train.Training(train.arguments(["--folder", str(folder), "--batch", "16", "--save-every", "2", *arguments])).run()
    return torch.load(folder / "checkpoint.pt", weights_only=True)


def test_a_killed_run_goes_on_as_if_it_had_not_been(tmp_path: Path):
    common = ["--data", f"{training_data(tmp_path)}:1", "--config", SIZES]
    whole = run_training(tmp_path / "whole", "--steps", "6", *common)
    run_training(tmp_path / "run", "--steps", "3", *common)
    state = run_training(tmp_path / "run", "--steps", "6", *common)
    assert (state["step"], state["positions"]) == (6, 96)
    for kind in ("network", "average"):
        for name, weights in whole[kind].items():
            torch.testing.assert_close(state[kind][name], weights, msg=f"{kind} {name}")
    end = run_training(tmp_path / "end", "--decay", f"{tmp_path}/run/checkpoint.pt", "--steps", "9", *common)
    assert end["decay_start"] == 6
    with pytest.raises(ValueError, match="a run that is no decay"):
        run_training(tmp_path / "run", "--decay", f"{tmp_path}/run/checkpoint.pt", "--steps", "9", *common)
    again = run_training(tmp_path / "end", "--decay", f"{tmp_path}/run/checkpoint.pt", "--steps", "9", *common)
    assert (again["step"], again["decay_start"]) == (9, 6)


def test_a_network_of_another_shape_is_refused(tmp_path: Path):
    common = ["--data", f"{training_data(tmp_path)}:1"]
    run_training(tmp_path / "run", "--steps", "1", "--config", SIZES, *common)
    run_training(tmp_path / "run", "--steps", "2", *common)
    with pytest.raises(ValueError, match="channels=16.*not of.*channels=32"):
        run_training(tmp_path / "run", "--steps", "3", "--config", SIZES.replace("16", "32"), *common)
    with pytest.raises(ValueError, match="50 channels cannot be divided among 4"):
        model.Config(channels=50)


def test_files_with_nothing_to_train_on_are_refused(tmp_path: Path):
    many = np.concatenate([record_of(board) for board in random_boards(8, 9)])
    many["flags"] = 1 << 4
    write_records(tmp_path / "x.rec", many)
    part = data.Part(tmp_path / "x.rec", 1.0)
    with pytest.raises(ValueError, match="x.rec: nothing to train on"):
        data.Mixture([part], 16, 1, 0.1, 0.2).batch(0)
    for name in ("game", "chess960 game"):
        many["flags"] = records.SOURCES.index(name) << 4
        write_records(tmp_path / "x.rec", many)
        assert len(data.Mixture([part], 16, 1, 0.1, 0.2).batch(0)[0]) == 16


def test_damaged_record_files_are_refused(tmp_path: Path):
    (tmp_path / "x.rec").write_bytes(b"nonsense" * 20)
    with pytest.raises(ValueError, match="not a record file"):
        records.open_records(tmp_path / "x.rec")
