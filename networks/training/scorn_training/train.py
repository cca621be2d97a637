"""Trains a dense network; can be stopped and continued at any time.

The learning rate is constant after a warm-up, so a run can be extended at will. `--decay` continues a copy of a run
with the rate falling to zero, which yields the best network. The exported weights are an exponential average.

The program draws the positions and computes their targets: all options that are not listed here, such as
--result-weight or --policy-temperature, are passed on to `scorn train batches`.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from . import dense
from .batches import DENSE, Feeder, Targets, is_held_out, unpack_dense
from .evaluate import evaluate_files, summary
from .model import Config, MoveMask, Network, features
from .runs import ENDLESS_MINUTES, ENDLESS_STEPS, Log, check_decay, check_settings, command, ends_decay


def losses(
    network: nn.Module, mask: MoveMask, tokens: torch.Tensor, targets: Targets
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Cross-entropies of policy (over pseudo-legal moves) and value, and the Huber loss of the plies left.

    Each is a sum over positions, divided by the number of those that have such a target.
    """
    logits, wdl, plies, open_lines = network(tokens)
    with torch.no_grad():
        allowed = mask(tokens, open_lines)
        allowed = allowed.scatter(1, targets.index, True)
    logits = logits.masked_fill(~allowed, -30.0)
    policy = -(targets.policy * F.log_softmax(logits, dim=1).gather(1, targets.index)).sum()
    policy = policy / targets.policy_weight.sum().clamp(min=1)
    value = -(targets.wdl * F.log_softmax(wdl, dim=1)).sum(dim=1)
    value = (value * targets.value_weight).sum() / targets.value_weight.count_nonzero().clamp(min=1)
    error = F.huber_loss(plies, targets.plies, reduction="none", delta=1.0)
    moves_left = (error * targets.plies_weight).sum() / targets.plies_weight.sum().clamp(min=1)
    return policy, value, moves_left


def optimizers(network: Network, rate: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the blocks, AdamW for the rest."""
    matrices, others = [], []
    for name, parameter in network.named_parameters():
        inner = name.startswith(("blocks.", "policy_from.w", "policy_to.w", "value_hidden.w"))
        (matrices if inner and parameter.ndim == 2 else others).append(parameter)
    adam = torch.optim.AdamW(others, lr=rate, betas=(0.9, 0.98), weight_decay=0.0)
    muon = torch.optim.Muon(matrices, lr=rate, weight_decay=0.01, adjust_lr_fn="match_rms_adamw")
    return [muon, adam]


class Average:
    """Exponential average of the weights, with a horizon that grows with the run."""

    def __init__(self, network: Network, share: float = 0.1, longest: int = 2000):
        self.share, self.longest = share, longest
        self.weights = {name: p.detach().clone() for name, p in network.named_parameters()}

    @torch.no_grad()
    def update(self, network: Network, step: int) -> None:
        keep = 1 - 1 / max(1, min(self.longest, self.share * step))
        names, new = zip(*network.named_parameters())
        torch._foreach_lerp_([self.weights[name] for name in names], list(new), 1 - keep)

    def network(self, config: Config) -> Network:
        network = Network(config)
        network.load_state_dict({name: w.cpu() for name, w in self.weights.items()})
        return network


def keep_freed_memory() -> None:
    """Stops glibc from returning memory between steps: allocating it again takes a quarter of the time on a CPU."""
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        trim_threshold, mmap_threshold, arena_max = -1, -3, -8
        libc.mallopt(arena_max, 1)
        libc.mallopt(mmap_threshold, 1 << 30)
        libc.mallopt(trim_threshold, 2**31 - 1)


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--folder", type=Path, required=True, help="folder of checkpoints and the log")
    parser.add_argument("--data", action="append", required=True, metavar="FILE:SHARE", help="training data")
    parser.add_argument("--scorn", default="scorn", help="the program")
    parser.add_argument("--threads", type=int, default=1, help="threads of the program that prepare batches")
    tests = """file whose held-out positions the network is tested on; repeatable. A file of searched positions (.vis)
    without held-out ones is tested on any of its positions and cannot be in --data"""
    parser.add_argument("--test", type=Path, action="append", default=[], metavar="FILE", help=tests)
    parser.add_argument("--config", type=Config.parse, help="network sizes as JSON, see model.Config")
    parser.add_argument("--batch", type=int, default=512, help="positions per step")
    parser.add_argument("--rate", type=float, default=2e-3, help="learning rate")
    parser.add_argument("--warmup", type=int, default=300, help="steps over which the learning rate rises from 0")
    parser.add_argument("--steps", type=int, default=ENDLESS_STEPS, help="step at which the run ends")
    minutes = "minutes after which the run ends, counted from the start of the decay if it is one"
    parser.add_argument("--minutes", type=float, default=ENDLESS_MINUTES, help=minutes)
    parser.add_argument("--decay", type=Path, help="checkpoint to start a decay from; use another --folder")
    parser.add_argument("--decay-power", type=float, default=1.0, help="exponent of the falling rate")
    parser.add_argument("--value-weight", type=float, default=1.5, help="of the value loss")
    parser.add_argument("--plies-weight", type=float, default=0.05, help="of the plies-left loss")
    parser.add_argument("--seed", type=int, default=1, help="of the weights and of the choice of positions")
    parser.add_argument("--save-every", type=int, default=500, help="steps between checkpoints")
    parser.add_argument("--test-every", type=int, default=2000, help="steps between tests")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--compile", action="store_true", help="needs a C++ compiler, pays off on a GPU")
    args, args.target_options = parser.parse_known_args(argv)
    return args


def kind_of_test(path: Path, data: list[str]) -> str:
    """What the log calls a test on a file. Raises ValueError if its positions are neither held out nor apart from the
    training data."""
    if is_held_out(path):
        return "held out"
    for part in data:
        trained = Path(part.rpartition(":")[0])
        if trained.exists() and trained.samefile(path):
            raise ValueError(
                f"{path} is given to both --data and --test, and none of its positions is marked as held out: it would "
                "be tested on what it is trained on. Give --test a file that is not in --data"
            )
    return "test"


class Training:
    """The state of a run: network, optimizers, average, counters."""

    def __init__(self, args: argparse.Namespace):
        self.args = args
        # Several processes (torchrun) share each batch. Each has one thread, which suits busy machines.
        self.world = int(os.environ.get("WORLD_SIZE", "1"))
        self.rank = int(os.environ.get("RANK", "0"))
        check_settings(args, torch.cuda.device_count() if torch.cuda.is_available() else 0)
        if self.world > 1 and args.device != "cpu":
            raise ValueError(f"{self.world} processes (torchrun) train on --device cpu only: use one for {args.device}")
        if args.batch % self.world:
            raise ValueError(f"{self.world} processes cannot share a batch of {args.batch}: set another --batch")
        self.kinds = {str(path): kind_of_test(path, args.data) for path in args.test}
        self.tested_step: int | None = None  # the step of the last test
        if self.world > 1:
            dist.init_process_group("gloo")
        torch.set_num_threads(1)
        torch.manual_seed(args.seed)
        self.device = torch.device(args.device)
        self.checkpoint = args.folder / "checkpoint.pt"
        self.log_file = Log(args.folder) if self.rank == 0 else None
        try:
            self._load()
        except BaseException:
            if self.log_file:
                self.log_file.discard()
            raise

    def _load(self) -> None:
        """The state in the run's folder, or that of the checkpoint to start from, or a new one."""
        args = self.args
        start = self.checkpoint if self.checkpoint.exists() else args.decay
        state = dense.load(start, args.device) if start else None
        self.config = Config(**state["config"]) if state else args.config or Config()
        if args.config and args.config != self.config:
            raise ValueError(f"{start} holds a network of {self.config}, not of {args.config}: leave out --config")
        self.network = Network(self.config).to(self.device)
        self.average = Average(self.network)
        self.optimizers = optimizers(self.network, args.rate)
        self.step = self.positions = 0
        self.decay_step = 0
        self.decay_end: int | None = None  # the step at which a decay ended
        self.seconds = self.decay_seconds = 0.0  # of training, and when the decay began
        if state:
            is_fresh = start != self.checkpoint
            progress = dense.progress_of(state)
            check_decay(args, self.checkpoint, progress, is_fresh, lambda path: dense.progress_of(dense.load(path)))
            self.restore(state, is_fresh)

    def restore(self, state: dict, fresh_decay: bool) -> None:
        self.network.load_state_dict(state["network"])
        self.average.weights = state["average"]
        for optimizer, saved in zip(self.optimizers, state["optimizers"]):
            optimizer.load_state_dict(saved)
        self.step, self.positions, self.seconds = state["step"], state["positions"], state["seconds"]
        self.decay_step = self.step if fresh_decay else state["decay_step"]
        self.decay_seconds = self.seconds if fresh_decay else state["decay_seconds"]
        self.decay_end = None if fresh_decay else state["decay_end"]

    def save(self) -> None:
        if self.rank == 0:
            if not all(weights.isfinite().all() for weights in self.network.parameters()):
                raise FloatingPointError(f"the weights are not finite at step {self.step}: lower --rate")
            state = {
                "config": self.config.as_dict(),
                "network": dict(self.network.named_parameters()),
                "average": self.average.weights,
                "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
                "step": self.step,
                "positions": self.positions,
                "seconds": self.seconds,
                "decay_step": self.decay_step,
                "decay_seconds": self.decay_seconds,
                "decay_end": self.decay_end,
                "is_decay": self.args.decay is not None,
            }
            dense.save(state, self.checkpoint)

    def rate(self) -> float:
        """Learning rate: constant after the warm-up; with --decay, falling over --steps or --minutes."""
        if self.args.decay:
            done = max(
                (self.step - self.decay_step) / max(1, self.args.steps - self.decay_step),
                (self.seconds - self.decay_seconds) / (60 * self.args.minutes),
            )
            return self.args.rate * max(0.0, 1 - done) ** self.args.decay_power
        return self.args.rate * min(1.0, (self.step + 1) / max(1, self.args.warmup))

    def log(self, text: str) -> None:
        if self.log_file:
            self.log_file.write(
                f"{time.strftime('%H:%M:%S')} step {self.step} positions {self.positions / 1e6:.2f}M {text}"
            )

    def test(self) -> None:
        """Tests the network and logs the results, unless that was done at this step."""
        if self.rank == 0 and self.args.test and self.tested_step != self.step:
            self.tested_step = self.step
            network = self.average.network(self.config)
            for name, result in evaluate_files(network, self.args.scorn, self.args.test, 8000).items():
                self.log(f"{self.kinds[name]} {name}: {summary(result)}")

    def share_gradients(self) -> None:
        """Averages gradients and the clock, on which the rate depends, over the processes, so that they stay equal."""
        if self.world > 1:
            gradients = [p.grad for p in self.network.parameters()]
            flat = torch.cat([*(gradient.flatten() for gradient in gradients), torch.tensor([self.seconds])])
            dist.all_reduce(flat)
            flat /= self.world
            self.seconds = flat[-1].item()
            for gradient, part in zip(gradients, flat[:-1].split([gradient.numel() for gradient in gradients])):
                gradient.copy_(part.view_as(gradient))

    def stop(self, elapsed: float) -> bool:
        """Whether the time is up. The first process decides, so that all stop at the same step."""
        if self.args.decay:
            elapsed = self.seconds - self.decay_seconds
        flag = torch.tensor([float(elapsed > 60 * self.args.minutes)])
        if self.world > 1:
            dist.broadcast(flag, 0)
        return bool(flag.item())

    def batches(self) -> Iterator[tuple[torch.Tensor, Targets]]:
        """Positions and targets of each step from the current one on. Data files may grow: they are opened again after
        every checkpoint."""
        args = self.args
        batch = args.batch // self.world
        command = [args.scorn, "train", "batches", "--encoding", "dense", "--config", "", "--batch", str(batch)]
        command += ["--threads", str(args.threads), "--seed", str(args.seed + 1000 * self.rank), *args.target_options]
        for part in args.data:
            command += ["--data", part]
        pinned = self.device.type == "cuda"
        while True:
            with Feeder([*command, "--from", str(self.step)], DENSE, batch, self.step, pinned) as feeder:
                for counts, body in feeder:
                    before = self.step
                    yield unpack_dense(counts, body.to(self.device, non_blocking=True))
                    if self.step == before:
                        return
                    if self.step % args.save_every == 0:
                        break

    def run(self) -> None:
        args = self.args
        mask = MoveMask().to(self.device)
        loss = torch.compile(losses) if args.compile else losses
        start, sums, since, steps = time.time(), torch.zeros(3), time.time(), 0
        before, first_step = self.seconds, self.step
        for positions, targets in self.batches():
            if self.step >= args.steps or (self.step % 20 == 0 and self.stop(time.time() - start)):
                break
            for optimizer in self.optimizers:
                optimizer.zero_grad()
            policy, value, moves_left = loss(self.network, mask, features(positions), targets)
            (policy + args.value_weight * value + args.plies_weight * moves_left).backward()
            self.seconds = before + time.time() - start
            self.share_gradients()
            nn.utils.clip_grad_norm_(self.network.parameters(), 5.0)
            for optimizer in self.optimizers:
                for group in optimizer.param_groups:
                    group["lr"] = self.rate()
                optimizer.step()
            self.step += 1
            self.positions += args.batch
            self.average.update(self.network, self.step - self.decay_step if args.decay else self.step)
            sums += torch.tensor([policy.item(), value.item(), moves_left.item()])
            steps += 1
            if not math.isfinite(sums.sum().item()):
                raise FloatingPointError(f"the loss is not finite at step {self.step}: lower --rate")
            if self.step % 100 == 0:
                speed = steps * args.batch / (time.time() - since)
                p, v, m = (sums / steps).tolist()
                self.log(f"policy {p:.4f} value {v:.4f} plies {m:.4f} speed {speed:.0f}/s")
                sums, since, steps = torch.zeros(3), time.time(), 0
            if self.step % args.save_every == 0:
                self.save()
            if self.step % args.test_every == 0:
                self.test()
        if ends_decay(args, first_step, self.step):
            self.decay_end = self.step
        self.save()
        self.test()


def main() -> None:
    keep_freed_memory()
    Training(arguments()).run()


if __name__ == "__main__":
    command("train", main)
