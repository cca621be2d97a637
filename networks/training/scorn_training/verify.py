"""Checks an exported network against the checkpoint it came from, on real positions, and measures its speed."""

from __future__ import annotations

import argparse
import errno
import os
import time
from pathlib import Path

import numpy as np
import onnxruntime
import torch

from . import model
from .dense import load_network
from .records import boards, open_records, positions
from .runs import command


def planes(records: np.ndarray) -> np.ndarray:
    """lc0's 112 planes as far as the network uses them; the history only where a pawn has just made a double step."""
    codes = boards(records)
    out = np.zeros((len(records), 112, 64), np.float32)
    for piece in range(12):
        out[:, piece] = codes == piece + 1
    for bit in range(4):
        out[:, 104 + bit] = ((records["state"] >> bit) & 1)[:, None]
    out[:, 109] = np.minimum(records["rule50"], 100)[:, None]
    out[:, 111] = 1
    moved = np.flatnonzero(records["ep"] < 8)
    out[moved, 13:25] = out[moved, 0:12]
    files = records["ep"][moved].astype(int)
    out[moved, 19, 32 + files], out[moved, 19, 48 + files] = 0, 1
    return out.reshape(-1, 112, 8, 8)


def session(path: Path) -> onnxruntime.InferenceSession:
    """A network on one thread. Raises OSError or ValueError if it cannot be loaded."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    if not path.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # each kind is a class of its own
        raise ValueError(f"cannot load {path}: {error}") from error


def differences(network: model.Network, path: Path, records: np.ndarray) -> dict[str, float]:
    """Largest difference of each output."""
    policy, wdl, mlh = session(path).run(None, {"/input/planes": planes(records)})
    with torch.no_grad():
        logits, value, plies, _ = network(model.features(torch.from_numpy(positions(records))))
    found = {"policy": logits.numpy() - policy, "wdl": value.softmax(dim=1).numpy() - wdl}
    found["mlh"] = plies.relu().numpy() * model.PLIES_UNIT - mlh[:, 0]
    return {name: float(np.abs(value).max()) for name, value in found.items()}


def speed(path: Path, batch: int, seconds: float = 1.0) -> float:
    """Evaluations per second on one core."""
    run, x = session(path), np.random.default_rng(1).random((batch, 112, 8, 8), np.float32).round()
    run.run(None, {"/input/planes": x})
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        run.run(None, {"/input/planes": x})
        count += batch
    return count / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("onnx", type=Path)
    parser.add_argument("records", type=Path)
    parser.add_argument("--raw", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    network, _ = load_network(args.checkpoint, not args.raw)
    found = differences(network, args.onnx, np.array(open_records(args.records)[:2000]))
    print("largest differences:", ", ".join(f"{name} {value:.2e}" for name, value in found.items()))
    if not all(found[name] <= most for name, most in {"policy": 1e-3, "wdl": 1e-4, "mlh": 1e-2}.items()):
        raise SystemExit("the exported network does not compute what the checkpoint computes")
    for batch in (1, 16, 64):
        print(f"batch {batch}: {speed(args.onnx, batch):.0f} evaluations/s")


if __name__ == "__main__":
    command("verify", main)
