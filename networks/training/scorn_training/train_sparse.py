"""Trains a sparse network on a GPU: `scorn train run` with PyTorch doing the arithmetic.

The program draws the batches and works out their inputs (`scorn train batches`), on as many threads as it is given; checkpoints are
those of `scorn train`, which measures them, exports them, or trains on from them. A run can be stopped at any time and goes on
from its last checkpoint; `--decay` is a copy of a run whose rate falls to zero.
"""

from __future__ import annotations

import argparse
import math
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Self

import torch

from .sparse import AVERAGE_EVERY, Adam, Batch, Checkpoint, Network, read_batches, read_header, unpack

PIPE_BYTES = 1 << 20
AHEAD = 4  # batches that wait for the GPU


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="folder of the checkpoint and the log")
    parser.add_argument("--data", action="append", required=True, metavar="FILE:SHARE", help="as for scorn train run")
    parser.add_argument("--scorn", default="scorn", help="the program")
    parser.add_argument("--device", default="cuda", help="cuda or cpu")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="that draw batches")
    parser.add_argument("--batch", type=int, default=16384, help="positions a step")
    parser.add_argument("--rate", type=float, default=1e-3, help="learning rate")
    parser.add_argument("--warmup", type=int, default=200, help="steps over which the rate rises from 0")
    parser.add_argument(
        "--weight-decay", type=float, default=0.01, help="what used weights lose in a step, times the rate"
    )
    parser.add_argument("--steps", type=int, default=sys.maxsize, help="stop at this step")
    parser.add_argument(
        "--minutes", type=float, default=1e9, help="stop after so many minutes (of the decay, if it is one)"
    )
    parser.add_argument("--decay", type=Path, help="start from this checkpoint and let the rate fall to 0")
    parser.add_argument("--only", choices=["both", "policy", "value"], default="both", help="what to learn")
    parser.add_argument("--value-loss", choices=["cross-entropy", "squared"], default="cross-entropy")
    parser.add_argument("--plies-weight", type=float, default=0.02, help="of the plies left beside the value")
    parser.add_argument("--result-weight", type=float, default=0.1, help="of a game's result where there is no score")
    parser.add_argument(
        "--result-share", default="1", help="X[,Y]: of the result beside what a search of self-play found"
    )
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn")
    parser.add_argument("--save-every", type=int, default=500, help="steps")
    parser.add_argument("--log-every", type=int, default=100, help="steps")
    return parser.parse_args(argv)


class Feeder:
    """A program that draws batches, and a thread that reads them ahead. Used with `with`, which ends both."""

    def __init__(self, command: list[str], batch: int, first: int, pinned: bool):
        self.program = subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=PIPE_BYTES)
        widen(self.program.stdout)
        self.ready: queue.Queue = queue.Queue(AHEAD)
        self.is_over = threading.Event()
        self.reader = threading.Thread(target=self._read, args=(batch, first, pinned), daemon=True)
        self.reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.is_over.set()
        self.program.terminate()
        self.reader.join()
        self.program.stdout.close()
        self.program.wait()

    def __iter__(self) -> Iterator[tuple[tuple[int, ...], torch.Tensor]]:
        """Counts and bytes of each batch; raises what went wrong, also when there are no more."""
        while True:
            item = self.ready.get()
            if isinstance(item, Exception):
                raise item
            yield item

    def _read(self, batch: int, first: int, pinned: bool) -> None:
        try:
            read_header(self.program.stdout, batch, first)
            for item in read_batches(self.program.stdout, pinned):
                if not self._put(item):
                    return
            self._put(EOFError("the program that draws batches has stopped"))
        except (OSError, ValueError) as error:
            self._put(error)

    def _put(self, item: object) -> bool:
        """Waits for room; whether the item is still wanted."""
        while not self.is_over.is_set():
            try:
                self.ready.put(item, timeout=0.2)
                return True
            except queue.Full:
                pass
        return False


class Training:
    """The state of a run."""

    def __init__(self, args: argparse.Namespace):
        self.args = args
        if args.decay and args.steps == sys.maxsize and args.minutes >= 1e9:
            raise ValueError("a decay needs an end, where the rate is zero: --minutes or --steps")
        if args.device.startswith("cuda") and not torch.cuda.is_available():
            raise ValueError("PyTorch finds no NVIDIA GPU: --device cpu, or scorn train run, which is faster there")
        # 10 bits of mantissa: finer than the 8 bits of which weights and outputs will consist.
        torch.set_float32_matmul_precision("high")
        self.device = torch.device(args.device)
        self.path = args.folder / "checkpoint"
        start = self.path if self.path.exists() else args.decay
        if start is None:
            raise ValueError(
                f"{self.path} does not exist: make it with scorn train start, or name a checkpoint with --decay"
            )
        saved = Checkpoint.load(start)
        self.shape, self.progress = saved.shape, saved.progress
        if start == self.path and args.decay:
            check_is_decay_of(args.decay, self.path, self.progress)
        elif args.decay:
            self._begin_decay()
        args.folder.mkdir(parents=True, exist_ok=True)
        self.vectors = [torch.from_numpy(vector).to(self.device) for vector in saved.vectors]
        self.network = Network(self.shape, self.vectors[0])
        self.adam = Adam(self.shape, self.vectors)

    def _begin_decay(self) -> None:
        step, seconds = self.progress["step"], self.progress["seconds"]
        if step >= self.args.steps:
            raise ValueError(
                f"the decay is to end at step {self.args.steps}, and the checkpoint is at step {step}: steps count from the "
                "beginning of the run"
            )
        self.progress |= {"decay_step": step, "decay_seconds": seconds, "is_decay": True}

    def feeder(self) -> Feeder:
        """The program that draws batches, from the step on at which the run is."""
        args, first = self.args, self.progress["step"]
        command = [args.scorn, "train", "batches", "--from", str(first), "--config", ""]
        for name in ("threads", "batch", "only", "seed", "result_weight", "result_share"):
            command += [f"--{name.replace('_', '-')}", str(getattr(args, name))]
        for part in args.data:
            command += ["--data", part]
        return Feeder(command, args.batch, first, pinned=self.device.type == "cuda")

    def rate(self) -> float:
        """Rising, then constant; falling in a decay, by steps or minutes, whichever are further."""
        args, progress = self.args, self.progress
        if not args.decay:
            return args.rate * min(1.0, progress["step"] / max(1, args.warmup))
        done = max(
            (progress["step"] - progress["decay_step"]) / max(1, args.steps - progress["decay_step"]),
            (progress["seconds"] - progress["decay_seconds"]) / (60 * args.minutes),
        )
        return args.rate * max(0.0, 1 - done)

    def is_over(self, elapsed: float) -> bool:
        if self.args.decay:
            elapsed = self.progress["seconds"] - self.progress["decay_seconds"]
        return self.progress["step"] >= self.args.steps or elapsed >= 60 * self.args.minutes

    def step(self, batch: Batch) -> torch.Tensor:
        """One step; the sums of the losses, of their positions, and of the policy targets' entropy."""
        args, progress = self.args, self.progress
        policy, value, plies = self.network.losses(batch, args.value_loss == "squared")
        ((policy + value + args.plies_weight * plies) / args.batch).backward()
        parts = self.network.parts.values()
        progress["step"] += 1
        progress["positions"] += args.batch
        self.adam.step([part.grad for part in parts], self.rate(), args.weight_decay, progress["step"])
        for part in parts:
            part.grad = None
        if progress["step"] % AVERAGE_EVERY == 0:
            self.adam.average_in(progress["step"] - progress["decay_step"])
        counts = torch.stack([batch.targets[:, 3].sum(), batch.targets[:, 5].sum()])
        entropy = torch.special.entr(batch.shares).sum()
        policies = counts.new_tensor([batch.policy_count])
        return torch.cat([torch.stack([policy, value, plies, entropy]).detach(), policies, counts]).double()

    def run(self) -> None:
        args, progress = self.args, self.progress
        start, before = time.monotonic(), progress["seconds"]
        sums, since, counted = torch.zeros(7, dtype=torch.double, device=self.device), start, progress["positions"]
        with self.feeder() as feeder:
            for counts, body in feeder:
                if self.is_over(time.monotonic() - start):
                    break
                progress["seconds"] = before + time.monotonic() - start
                sums += self.step(unpack(counts, body.to(self.device, non_blocking=True)))
                if progress["step"] % args.log_every == 0:
                    speed = (progress["positions"] - counted) / (time.monotonic() - since)
                    self.log(f"{text_of(sums.tolist())} speed {speed:.0f}/s")
                    sums, since, counted = torch.zeros_like(sums), time.monotonic(), progress["positions"]
                if progress["step"] % args.save_every == 0:
                    self.save()
        self.save()

    def save(self) -> None:
        vectors = [vector.cpu().numpy() for vector in self.vectors]
        if not math.isfinite(sum(float(vector.sum()) for vector in vectors)):
            raise FloatingPointError(
                f"the weights are not finite at step {self.progress['step']}; the last checkpoint is kept"
            )
        Checkpoint(self.shape, self.progress, vectors).save(self.path)

    def log(self, text: str) -> None:
        progress = self.progress
        start = f"{progress['seconds']:.0f} s step {progress['step']} positions {progress['positions'] / 1e6:.2f}M"
        print(f"{start} {text}", flush=True)
        with open(self.args.folder / "log.txt", "a", encoding="utf-8") as file:
            file.write(f"{start} {text}\n")


def check_is_decay_of(origin: Path, own: Path, progress: dict) -> None:
    """Raises ValueError if a folder's run is no decay of this checkpoint, which may be gone or newer by now."""
    other = "for the decay name another --folder"
    began = progress["decay_step"]
    # Files of older versions say by the step alone that they are of a decay.
    if not (progress.get("is_decay") or began > 0):
        raise ValueError(f"{own} is of a run that is no decay: {other}")
    if origin.exists():
        if origin.samefile(own):
            raise ValueError(f"{origin} is of this decay itself: {other}")
        now = Checkpoint.progress_of(origin)
        is_same = now["step"] == began and abs(now["seconds"] - progress["decay_seconds"]) < 1e-3
        if not is_same and now["step"] <= began:
            raise ValueError(
                f"{own} is of a decay that began at step {began}, and not from {origin}, which is at step {now['step']}: {other}"
            )


def widen(pipe: IO[bytes]) -> None:
    """Has a pipe hold more, where that can be said: fewer hand-overs between two programs."""
    if sys.platform == "linux":
        import fcntl

        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)


def text_of(sums: list[float]) -> str:
    """The means of the losses, for the log."""
    policy, value, plies, entropy, policies, values, known = sums
    means = (
        policy / max(1, policies),
        (policy - entropy) / max(1, policies),
        value / max(1, values),
        plies / max(1, known),
    )
    return "policy {:.4f} kl {:.4f} value {:.4f} plies {:.4f}".format(*means)


def main() -> None:
    try:
        Training(arguments()).run()
    except (OSError, ValueError, EOFError, FloatingPointError) as error:
        sys.exit(f"train_sparse: {error}")


if __name__ == "__main__":
    main()
