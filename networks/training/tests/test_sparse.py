"""Tests of sparse networks in PyTorch: checkpoints, streams of batches, the optimizer. What they compute is compared by
tests/python/train_twin.py.
"""

import errno
import io
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from scorn_training import batches, sparse
from scorn_training.batches import Feeder
from scorn_training.files import write_whole
from scorn_training.narrow import drawn, narrow, split
from scorn_training.runs import NO_PROGRESS
from scorn_training.train_sparse import Training, arguments, text_of

SHAPE = sparse.Shape(policy=64, value=64, hidden=4, stages=2)


def checkpoint(shape: sparse.Shape = SHAPE) -> sparse.Checkpoint:
    """Weights of 0.5."""
    count = sum(size for size, _ in shape.sections().values())
    vectors = [np.full(count, number, "<f4") for number in (0.5, 0, 0, 0.25)]
    return sparse.Checkpoint(shape, NO_PROGRESS | {"step": 7, "positions": 99, "seconds": 1.5}, vectors)


def frame(counts: list[int], *arrays: np.ndarray) -> bytes:
    """A batch as the program writes it."""
    parts = [array.tobytes() for array in arrays]
    body = b"".join(part + bytes(-len(part) % 8) for part in parts)
    return np.array([*counts, len(body)], "<u4").tobytes() + body


def two_positions() -> bytes:
    """Two positions for the policy, with three and one legal move, and one for the value."""
    u16, f32 = (lambda *items: np.array(items, "<u2")), (lambda *items: np.array(items, "<f4"))
    return frame(
        [2, 5, 4, 1, 3],
        *(u16(2, 3), u16(0, 9, 1, 2, 5025), u16(3, 1), u16(4, 5, 7767, 6), u16(7768, 7768, 8253, 7770)),
        f32(0.5, 0.5, 0, 1),
        *(u16(3), u16(8, 100, 3072), f32(0.2, 0.3, 0.5, 1, 2.5, 1)),
    )


def test_a_checkpoint_is_read_back_unchanged_and_damage_is_an_error(tmp_path: Path):
    path = tmp_path / "checkpoint"
    saved = checkpoint()
    saved.save(path)
    loaded = sparse.Checkpoint.load(path)
    assert (loaded.shape, loaded.progress) == (saved.shape, saved.progress)
    assert all((a == b).all() for a, b in zip(loaded.vectors, saved.vectors))
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint"]
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(ValueError, match="checkpoint is damaged"):
        sparse.Checkpoint.load(path)
    path.write_bytes(b"something else")
    with pytest.raises(ValueError, match="is not a checkpoint"):
        sparse.Checkpoint.load(path)
    path.write_bytes(whole.replace(b'"inputs": 5026', b'"inputs": 5027', 1))
    with pytest.raises(ValueError, match="other inputs"):
        sparse.Checkpoint.load(path)
    for at in (whole.index(b'"step"') + 8, whole.index(b'"sha256"') + 12, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(ValueError, match="checksum does not match"):
            sparse.Checkpoint.load(path)
    path.write_bytes(re.sub(rb', "sha256": "[0-9a-f]{64}"', b"", whole))
    with pytest.raises(ValueError, match="is not a checkpoint"):
        sparse.Checkpoint.load(path)


def test_a_batch_is_read_as_it_was_written():
    stream = io.BytesIO(two_positions() * 2)
    found = [sparse.unpack(*read) for read in batches.read_frames(stream, 5, pinned=False)]
    assert len(found) == 2
    for batch in found:
        assert (batch.policy_count, batch.value_count) == (2, 1)
        assert batch.policy_inputs.tolist() == [0, 9, 1, 2, 5025] and batch.policy_of.tolist() == [0, 0, 1, 1, 1]
        assert batch.rows.tolist() == [4, 5, 7767, 6] and batch.rows_of.tolist() == [0, 0, 0, 1]
        assert batch.classes.tolist() == [7768, 7768, 8253, 7770]
        assert batch.shares.tolist() == [0.5, 0.5, 0, 1]
        assert batch.value_inputs.tolist() == [8, 100, 3072] and batch.value_of.tolist() == [0, 0, 0]
        assert torch.allclose(batch.targets, torch.tensor([[0.2, 0.3, 0.5, 1, 2.5, 1]]))


@pytest.mark.parametrize("kept", [10, 40, -1])
def test_a_stream_that_ends_in_a_batch_is_an_error(kept: int):
    stream = io.BytesIO(two_positions()[:kept])
    with pytest.raises(ValueError, match="ends within a batch"):
        list(batches.read_frames(stream, 5, pinned=False))


def test_a_stream_with_another_header_is_refused():
    header = {"format": "scorn-batches-2", "inputs": 5026, "rows": 8254, "batch": 16, "from": 3}
    batches.read_header(io.BytesIO(json.dumps(header).encode() + b"\n"), sparse.BATCHES, 16, 3)
    for line in (json.dumps(header | {"rows": 7768}).encode(), b"", b"error: no such file"):
        with pytest.raises(ValueError, match="did not write the requested batches"):
            batches.read_header(io.BytesIO(line + b"\n"), sparse.BATCHES, 16, 3)


HEADER = (
    json.dumps({"format": "scorn-batches-2", "inputs": 5026, "rows": 8254, "batch": 16, "from": 3}).encode() + b"\n"
)


def program_that_writes(path: Path, text: bytes) -> list[str]:
    path.write_bytes(text)
    return [sys.executable, "-c", "import sys; sys.stdout.buffer.write(open(sys.argv[1], 'rb').read())", str(path)]


def test_batches_are_read_until_the_stream_ends(tmp_path: Path):
    command = program_that_writes(tmp_path / "stream", HEADER + two_positions() * 9)
    found = []
    with pytest.raises(EOFError, match="has ended"), Feeder(command, sparse.BATCHES, 16, 3, pinned=False) as feeder:
        found.extend(feeder)
    assert len(found) == 9
    with Feeder(command, sparse.BATCHES, 16, 3, pinned=False) as feeder:
        counts, _ = next(iter(feeder))
    # Batches that were not consumed block neither the reader nor the program.
    assert counts == (2, 5, 4, 1, 3)
    assert not feeder.reader.is_alive() and feeder.program.returncode is not None


@pytest.mark.parametrize("text", [b"", HEADER[:20], HEADER + two_positions()[:50]])
def test_a_failing_program_is_an_error(tmp_path: Path, text: bytes):
    command = program_that_writes(tmp_path / "stream", text)
    with pytest.raises(ValueError, match="batches"), Feeder(command, sparse.BATCHES, 16, 3, pinned=False) as feeder:
        list(feeder)


def test_a_checkpoint_with_classes_of_moves_is_read_and_other_inputs_are_refused(tmp_path: Path):
    path = tmp_path / "checkpoint"
    shape = replace(SHAPE, inputs="classes")
    checkpoint(shape).save(path)
    assert sparse.Checkpoint.load(path).shape == shape
    path.write_bytes(path.read_bytes().replace(b'"classes"', b'"history"', 1))
    with pytest.raises(ValueError, match="inputs of history"):
        sparse.Checkpoint.load(path)


@pytest.mark.parametrize(("inputs", "expected"), [("position", []), ("classes", [7768, 8253])])
def test_untouched_weights_stay_unchanged(inputs: str, expected: list[int]):
    shape = replace(SHAPE, inputs=inputs)
    vectors = [torch.from_numpy(vector) for vector in checkpoint(shape).vectors]
    network, adam = sparse.Network(shape, vectors[0]), sparse.Adam(shape, vectors)
    batch = sparse.unpack(*next(batches.read_frames(io.BytesIO(two_positions()), 5, pinned=False)))
    losses = network.losses(batch)
    assert all(torch.isfinite(loss) and loss > 0 for loss in losses)
    sum(losses).backward()
    adam.step([part.grad for part in network.parts.values()], 1e-2, 0.0, 1)
    moved = {name: (part != 0.5) for name, part in network.parts.items()}
    rows = moved["rows"].view(shape.rows, -1).any(1)
    # A position with one legal move has no policy gradient.
    assert rows.nonzero().flatten().tolist() == [4, 5, 7767, *expected]
    direct = moved["direct"].view(sparse.INPUTS, sparse.OUTPUTS).any(1)
    assert direct.nonzero().flatten().tolist() == [8, 100, 3072]
    adam.average_in(100)
    assert 0.25 < vectors[3].mean() < 0.5


def test_a_run_that_cannot_start_gives_the_reason(tmp_path: Path):
    usual = ["--folder", str(tmp_path / "run"), "--data", "x.rec:1", "--device", "cpu"]
    with pytest.raises(ValueError, match="scorn train start"):
        Training(arguments(usual))
    with pytest.raises(ValueError, match="needs an end"):
        Training(arguments([*usual, "--decay", "start"]))
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="--device cpu"):
            Training(arguments([*usual, "--device", "cuda"]))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("--rate 1e9", "--rate is 1000000000.0: it must be above 0 and at most 0.1"),
        ("--rate 0", "--rate is 0.0"),
        ("--weight-decay -1", "--weight-decay is -1.0: it must be a number of at least 0"),
        ("--weight-decay 2e3", "--weight-decay is 2000.0: at --rate 0.001 it must be at most 1000"),
        ("--minutes -1", "--minutes is -1.0"),
        ("--plies-weight -1", "--plies-weight is -1.0"),
        ("--steps -1", "--steps is -1"),
        ("--log-every 0", "--log-every is 0: it must be at least 1"),
        ("--device cuda:x", "--device is cuda:x: it must be cpu, cuda or cuda:N"),
    ],
)
def test_settings_out_of_range_leave_the_checkpoint(tmp_path: Path, setting: str, message: str):
    path = tmp_path / "checkpoint"
    checkpoint().save(path)
    before = path.read_bytes()
    usual = ["--folder", str(tmp_path), "--data", "x.rec:1", "--device", "cpu"]
    with pytest.raises(ValueError, match=re.escape(message)):
        Training(arguments([*usual, *setting.split()]))
    assert path.read_bytes() == before and [file.name for file in tmp_path.iterdir()] == ["checkpoint"]


def test_a_decay_continues_in_its_own_folder_and_never_starts_in_that_of_another_run(tmp_path: Path):
    main, end, other = (tmp_path / name / "checkpoint" for name in ("main", "end", "other"))
    for path, step in [(main, 7), (other, 5)]:
        path.parent.mkdir()
        saved = checkpoint()
        saved.progress["step"] = step
        saved.save(path)

    def decay(folder: Path, origin: Path, steps: int) -> Training:
        usual = ["--folder", str(folder.parent), "--data", "x.rec:1", "--device", "cpu"]
        return Training(arguments([*usual, "--decay", str(origin), "--steps", str(steps)]))

    with pytest.raises(ValueError, match="would end at step 7"):
        decay(end, main, 7)
    assert not end.parent.exists()
    begun = decay(end, main, 9)
    assert (begun.progress["decay_step"], begun.progress["is_decay"]) == (7, True)
    begun.progress["step"] = 9
    begun.save()
    with pytest.raises(ValueError, match="another program trains in"):
        decay(end, main, 9)
    begun.log_file.close()
    # Without --decay it would go on at the full rate.
    with pytest.raises(ValueError, match="belongs to a decay.*give it the checkpoint"):
        Training(arguments(["--folder", str(end.parent), "--data", "x.rec:1", "--device", "cpu"]))
    # A finished decay is accepted, too.
    again = decay(end, main, 9)
    assert again.progress == begun.progress
    # Once it has ended, its rate would rise again.
    again.progress["decay_end"] = 9
    again.save()
    again.log_file.close()
    with pytest.raises(ValueError, match="ended at step 9"):
        decay(end, main, 20)
    ended = decay(end, main, 9)
    ended.log_file.close()
    for folder, origin, message in [
        (main, main, "not a decay: use another --folder"),
        (end, end, "of this decay itself"),
        (end, other, "began at step 7, so it did not start from"),
    ]:
        with pytest.raises(ValueError, match=message):
            decay(folder, origin, 20)


def test_a_full_disk_leaves_the_old_checkpoint_and_nothing_else(tmp_path: Path):
    path = tmp_path / "checkpoint"
    path.write_text("old")

    def fail(partial: Path) -> None:
        partial.write_text("half of it")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match=f"No space left on device.*{path}"):
        write_whole(path, fail)
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint"] and path.read_text() == "old"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_weights_that_do_not_fit_on_the_disk_are_an_error_that_says_so(tmp_path: Path):
    (tmp_path / "checkpoint.partial").symlink_to("/dev/full")
    with pytest.raises(OSError, match=f"No space left on device.*{tmp_path}/checkpoint"):
        checkpoint().save(tmp_path / "checkpoint")


def test_the_log_contains_means():
    assert text_of([6, 4, 3, 2, 2, 4, 6]) == "policy 3.0000 kl 2.0000 value 1.0000 plies 0.5000"
    assert text_of([0] * 7) == "policy 0.0000 kl 0.0000 value 0.0000 plies 0.0000"


def test_a_configuration_file_has_no_effect_on_the_batch_of_products(tmp_path: Path):
    header = json.dumps({"format": "scorn-batches-2", "inputs": 5026, "rows": 8254, "batch": 2, "from": 0})
    (tmp_path / "stream").write_bytes(header.encode() + b"\n" + two_positions())
    script = tmp_path / "scorn"
    script.write_text(
        f"#!{sys.executable}\nimport sys\nat = sys.argv.index('--config')\nassert sys.argv[at + 1] == ''\n"
        f"sys.stdout.buffer.write(open({str(tmp_path / 'stream')!r}, 'rb').read())\n"
    )
    script.chmod(0o755)
    assert drawn(str(script), "x.rec", 2).policy_count == 2


@pytest.mark.parametrize("inputs", list(sparse.POLICY_ROWS))
def test_a_narrower_policy_keeps_the_products_that_matter(inputs: str):
    batch = sparse.unpack(*next(batches.read_frames(io.BytesIO(two_positions()), 5, pinned=False)))
    rng = np.random.default_rng(3)
    wide = sparse.Shape(policy=128, value=64, hidden=4, inputs=inputs)
    vectors = [rng.uniform(0, 0.1, sum(size for size, _ in wide.sections().values())).astype("<f4") for _ in range(4)]
    policy = sparse.Checkpoint(wide, dict(checkpoint().progress), vectors)
    # Every second product counts for nothing: leaving those out changes no answer.
    split(policy)["rows"].reshape(wide.rows, -1)[:, ::2] = 0
    value = checkpoint()
    value.vectors[0][:] = 0.25
    narrower = narrow(policy, value, 64, batch)
    assert narrower.shape == sparse.Shape(policy=64, value=64, hidden=4, stages=2, inputs=inputs)
    assert narrower.progress["step"] == 0
    assert (split(narrower)["direct"] == 0.25).all()

    def loss(of: sparse.Checkpoint) -> float:
        network = sparse.Network(of.shape, torch.from_numpy(of.vectors[0]))
        return float(network.losses(batch)[0].detach())

    assert loss(narrower) == pytest.approx(loss(policy), rel=1e-5)
    with pytest.raises(ValueError, match="up to 128"):
        narrow(policy, value, 192, batch)
