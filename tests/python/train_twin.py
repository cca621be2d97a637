"""Repeats the steps of `scorn train` with PyTorch, and compares the losses of 20 steps and the final weights.

The network is that of scorn_training.sparse, which trains on GPUs. Each step is computed twice: by its optimizer, and by
PyTorch's own.

Usage: train_twin.py FOLDER, written by `cargo run --example train_trace -- FOLDER [squared]`; PYTHONPATH=networks/training
"""

import itertools
import json
import sys

import numpy
import torch
from scorn_training.sparse import GROUP, Adam, Batch, Network, Shape


def untouched(gradient: torch.Tensor) -> torch.Tensor:
    """Which weights are in a group without gradient; those after the last whole group are each by themselves."""
    whole = gradient.numel() // GROUP * GROUP
    groups = (gradient[:whole].view(-1, GROUP) == 0).all(1).repeat_interleave(GROUP)
    return torch.cat([groups, gradient[whole:] == 0])


def step(optimizer: torch.optim.AdamW, weights: list[torch.Tensor], limits: list[float | None]) -> None:
    """A step of the optimizer that skips these weights, unlike the published AdamW, and clamps weights to their limits."""
    before = [(w.detach().clone(), {k: v.clone() for k, v in optimizer.state[w].items()}) for w in weights]
    optimizer.step()
    with torch.no_grad():
        for weight, (old, state), limit in zip(weights, before, limits):
            alone = untouched(weight.grad)
            weight[alone] = old[alone]
            for name in ("exp_avg", "exp_avg_sq"):
                optimizer.state[weight][name][alone] = state[name][alone] if state else 0.0
            if limit is not None:
                weight.clamp_(-limit, limit)


def flat(lists: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """The items of all lists, each with the index of its list."""
    numbers = torch.arange(len(lists)).repeat_interleave(torch.tensor([len(items) for items in lists]))
    return torch.tensor(list(itertools.chain(*lists))), numbers


def batch_of(trace: dict) -> Batch:
    policy, rows, value = (flat(trace[name]) for name in ("policy_inputs", "rows", "value_inputs"))
    columns = [trace["weights"], trace["plies"], trace["plies_weights"]]
    targets = torch.cat([torch.tensor(trace["wdl"]), torch.tensor(columns).T], 1)
    classes, _ = flat(trace["classes"])
    shares = torch.tensor(trace["shares"])
    return Batch(len(trace["rows"]), *policy, *rows, classes, shares, len(targets), *value, targets)


def main() -> None:
    folder = sys.argv[1]
    with open(f"{folder}/batch.json", encoding="utf-8") as file:
        trace = json.load(file)
    start, end = (numpy.fromfile(f"{folder}/{name}.f32", "<f4") for name in ("start", "end"))
    shape, batch = Shape(**trace["shape"]), batch_of(trace)
    sizes = [size for size, _ in shape.sections().values()]
    assert trace["sections"] == [[at - size, at] for size, at in zip(sizes, itertools.accumulate(sizes))]
    limits = [limit for _, limit in shape.sections().values()]
    assert all(a is b is None or abs(a - b) < 1e-6 for a, b in zip(limits, trace["limits"]))
    vectors = [torch.from_numpy(start.copy()) for _ in range(2)]
    networks = [Network(shape, vector) for vector in vectors]
    own, pytorch = (list(network.parts.values()) for network in networks)
    adam = Adam(shape, [vectors[0], *(torch.zeros_like(vectors[0]) for _ in range(3))])
    optimizer = torch.optim.AdamW(
        pytorch, lr=trace["rate"], betas=(0.9, 0.999), eps=1e-8, weight_decay=trace["weight_decay"]
    )
    for number, expected in enumerate(trace["losses"], 1):
        for network in networks:
            for part in network.parts.values():
                part.grad = None
            found = network.losses(batch, trace["squared"])
            difference = max(abs(a.item() - b) / max(1.0, abs(b)) for a, b in zip(found, expected))
            assert difference < 2e-5, f"step {number}: {[loss.item() for loss in found]} instead of {expected}"
            sum(scale * loss for scale, loss in zip(trace["scales"], found)).backward()
        adam.step([part.grad for part in own], trace["rate"], trace["weight_decay"], number)
        step(optimizer, pytorch, limits)
    before, after = (numpy.split(weights, numpy.cumsum(sizes)[:-1]) for weights in (start, end))
    for name, was, expected, *found in zip(shape.sections(), before, after, own, pytorch):
        differences = [numpy.abs(expected - part.detach().numpy()).max() for part in found]
        moved = numpy.abs(expected - was)
        print(
            f"{name:12} {(moved > 0).sum():6} of {len(was)} weights moved, by up to {moved.max():.3f};"
            f" differ by {differences[0]:.1e}, with PyTorch's optimizer by {differences[1]:.1e}"
        )
        assert max(differences) < 2e-5 < moved.max(), name
    first, last = trace["losses"][0], trace["losses"][-1]
    assert all(b < a for a, b in zip(first, last)), "nothing was learnt"


if __name__ == "__main__":
    main()
