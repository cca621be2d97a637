"""Trains a sparse network on a GPU: `scorn train run` with the arithmetic in PyTorch.

The program draws the batches and computes their inputs and targets (`scorn train batches`); options that are not listed
here, such as --result-weight, are passed on to it. Checkpoints are those of `scorn train`, which tests and exports them
and can continue a run. A run can be stopped at any time and continues from its last checkpoint. `--decay` starts a copy
of a run whose learning rate falls to zero.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from pathlib import Path

import torch

from .batches import Feeder
from .runs import ENDLESS_MINUTES, ENDLESS_STEPS, Log, check_decay, check_settings, command, ends_decay
from .sparse import AVERAGE_EVERY, BATCHES, Adam, Batch, Checkpoint, Network, unpack


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--folder", type=Path, required=True, help="folder of the checkpoint and the log")
    parser.add_argument("--data", action="append", required=True, metavar="FILE:SHARE", help="as for scorn train run")
    parser.add_argument("--scorn", default="scorn", help="the program")
    parser.add_argument("--device", default="cuda", help="cuda or cpu")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="that prepare batches")
    parser.add_argument("--batch", type=int, default=16384, help="positions per step")
    parser.add_argument("--rate", type=float, default=1e-3, help="learning rate")
    parser.add_argument("--warmup", type=int, default=200, help="steps over which the learning rate rises from 0")
    parser.add_argument(
        "--weight-decay", type=float, default=0.01, help="weight decay of used weights, multiplied by the learning rate"
    )
    parser.add_argument("--steps", type=int, default=ENDLESS_STEPS, help="step at which the run ends")
    minutes = "minutes after which the run ends, counted from the start of the decay if it is one"
    parser.add_argument("--minutes", type=float, default=ENDLESS_MINUTES, help=minutes)
    parser.add_argument("--decay", type=Path, help="checkpoint to start a decay from; use another --folder")
    parser.add_argument("--only", choices=["both", "policy", "value"], default="both", help="network to train")
    parser.add_argument("--value-loss", choices=["cross-entropy", "squared"], default="cross-entropy")
    parser.add_argument("--plies-weight", type=float, default=0.02, help="of the plies-left loss")
    parser.add_argument("--seed", type=int, default=1, help="of the choice of positions")
    parser.add_argument("--save-every", type=int, default=500, help="steps between checkpoints")
    parser.add_argument("--log-every", type=int, default=100, help="steps between lines of the log")
    args, args.target_options = parser.parse_known_args(argv)
    return args


class Training:
    """The state of a run."""

    def __init__(self, args: argparse.Namespace):
        self.args = args
        check_settings(args, torch.cuda.device_count() if torch.cuda.is_available() else 0)
        # TensorFloat-32: its 10 bits of mantissa are finer than the 8 bits of the quantised weights.
        torch.set_float32_matmul_precision("high")
        self.device = torch.device(args.device)
        self.path = args.folder / "checkpoint"
        self.log_file = Log(args.folder)
        try:
            self._load()
        except BaseException:
            self.log_file.discard()
            raise

    def _load(self) -> None:
        """The checkpoint in the run's folder, or the one to start a decay from."""
        args = self.args
        start = self.path if self.path.exists() else args.decay
        if start is None:
            raise ValueError(
                f"{self.path} does not exist: create it with scorn train start, or name a checkpoint with --decay"
            )
        saved = Checkpoint.load(start)
        self.shape, self.progress = saved.shape, saved.progress
        is_fresh = start != self.path
        check_decay(args, self.path, self.progress, is_fresh, Checkpoint.progress_of)
        if is_fresh:
            step, seconds = self.progress["step"], self.progress["seconds"]
            self.progress |= {"decay_step": step, "decay_seconds": seconds, "is_decay": True, "decay_end": None}
        self.vectors = [torch.from_numpy(vector).to(self.device) for vector in saved.vectors]
        self.network = Network(self.shape, self.vectors[0])
        self.adam = Adam(self.shape, self.vectors)

    def feeder(self) -> Feeder:
        """The program that prepares batches, from the current step on."""
        args, first = self.args, self.progress["step"]
        command = [args.scorn, "train", "batches", "--from", str(first), "--config", ""]
        for name in ("threads", "batch", "only", "seed"):
            command += [f"--{name}", str(getattr(args, name))]
        command += args.target_options
        for part in args.data:
            command += ["--data", part]
        return Feeder(command, BATCHES, args.batch, first, pinned=self.device.type == "cuda")

    def rate(self) -> float:
        """Learning rate: rising, then constant; falling in a decay, over --steps or --minutes, whichever ends first."""
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
        """One step. Returns sums: losses, entropy of the policy targets, number of positions of each loss."""
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
        start, before, first_step = time.monotonic(), progress["seconds"], progress["step"]
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
        if ends_decay(args, first_step, progress["step"]):
            progress["decay_end"] = progress["step"]
        self.save()

    def save(self) -> None:
        vectors = [vector.cpu().numpy() for vector in self.vectors]
        if not math.isfinite(sum(float(vector.sum()) for vector in vectors)):
            raise FloatingPointError(
                f"the weights are not finite at step {self.progress['step']}; the last checkpoint is kept: lower --rate"
            )
        Checkpoint(self.shape, self.progress, vectors).save(self.path)

    def log(self, text: str) -> None:
        progress = self.progress
        start = f"{progress['seconds']:.0f} s step {progress['step']} positions {progress['positions'] / 1e6:.2f}M"
        self.log_file.write(f"{start} {text}")


def text_of(sums: list[float]) -> str:
    """The mean losses, for the log."""
    policy, value, plies, entropy, policies, values, known = sums
    means = (
        policy / max(1, policies),
        (policy - entropy) / max(1, policies),
        value / max(1, values),
        plies / max(1, known),
    )
    return "policy {:.4f} kl {:.4f} value {:.4f} plies {:.4f}".format(*means)


def main() -> None:
    Training(arguments()).run()


if __name__ == "__main__":
    command("train_sparse", main)
