"""Does with PyTorch what `scorn train` does, and compares: losses of each of 20 steps, and all weights at the end.

Usage: train_twin.py FOLDER, which `cargo run --example train_trace -- FOLDER [squared]` has made
"""

import json
import sys

import numpy
import torch
from torch.nn import functional

BLOCK, PAIRS, INPUTS, PIECE_INPUTS, OUTPUTS = 64, 32, 5026, 3072, 4
NAMES = (
    "policy_in policy_bias rows rows_bias value_in value_bias hidden hidden_bias second second_bias out out_bias direct"
).split()
# Groups of so many weights that have no gradient in a step are left alone, moments and all, which AdamW as published does not do.
GROUP = 16


def untouched(gradient: torch.Tensor) -> torch.Tensor:
    """Which weights are in such a group; those after the last whole group are each by themselves."""
    whole = gradient.numel() // GROUP * GROUP
    groups = (gradient[:whole].view(-1, GROUP) == 0).all(1).repeat_interleave(GROUP)
    return torch.cat([groups, gradient[whole:] == 0])


def step(optimizer: torch.optim.AdamW, weights: list[torch.Tensor], limits: list[float | None]) -> None:
    """A step of the optimizer that leaves those alone and keeps weights within their limits."""
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


def products(inputs: list[list[int]], table: torch.Tensor, bias: torch.Tensor, width: int) -> torch.Tensor:
    """A first layer: [position][product], from a table stored as [block][input][column]."""
    table, bias = table.view(width // BLOCK, INPUTS, BLOCK), bias.view(width // BLOCK, BLOCK)
    sums = torch.stack([table[:, active].sum(1) + bias for active in inputs]).clamp(0, 1)
    return (sums[..., :PAIRS] * sums[..., PAIRS:]).flatten(1)


def losses(w: dict[str, torch.Tensor], batch: dict) -> list[torch.Tensor]:
    shape = batch["shape"]
    found = products(batch["policy_inputs"], w["policy_in"], w["policy_bias"], shape["policy"])
    rows, policy, start = w["rows"].view(-1, shape["policy"] // 2), 0, 0
    for index, list_of_rows in enumerate(batch["rows"]):
        logits = rows[list_of_rows] @ found[index] + w["rows_bias"][list_of_rows]
        shares = torch.tensor(batch["shares"][start : start + len(list_of_rows)])
        start += len(list_of_rows)
        policy = policy - (shares * functional.log_softmax(logits, 0)).sum()
    units, stages = shape["hidden"], shape["stages"]
    pieces = torch.tensor([sum(number < PIECE_INPUTS for number in active) for active in batch["value_inputs"]])
    stage = ((pieces - 1) * stages // 32).clamp(0, stages - 1)

    def layer(x: torch.Tensor, name: str, outputs: int) -> torch.Tensor:
        of_stages, bias = w[name].view(stages, -1, outputs), w[f"{name}_bias"].view(stages, outputs)
        return (x.unsqueeze(1) @ of_stages[stage]).squeeze(1) + bias[stage]

    found = products(batch["value_inputs"], w["value_in"], w["value_bias"], shape["value"])
    first = layer(found, "hidden", units).clamp(0, 1) ** 2
    second = layer(first, "second", units).clamp(0, 1) ** 2
    direct = torch.stack([w["direct"].view(INPUTS, OUTPUTS)[active].sum(0) for active in batch["value_inputs"]])
    outputs = layer(second, "out", OUTPUTS) + direct
    wdl, weights = torch.tensor(batch["wdl"]), torch.tensor(batch["weights"])
    if batch["squared"]:
        found = functional.softmax(outputs[:, :3], 1)
        of_position = ((found[:, 0] - found[:, 2]) - (wdl[:, 0] - wdl[:, 2])) ** 2
    else:
        of_position = -(wdl * functional.log_softmax(outputs[:, :3], 1)).sum(1)
    value = (of_position * weights).sum()
    plies = functional.huber_loss(outputs[:, 3], torch.tensor(batch["plies"]), reduction="none", delta=1.0)
    return [policy, value, (plies * torch.tensor(batch["plies_weights"])).sum()]


def main() -> None:
    folder = sys.argv[1]
    with open(f"{folder}/batch.json", encoding="utf-8") as file:
        batch = json.load(file)
    start, end = (numpy.fromfile(f"{folder}/{name}.f32", "<f4") for name in ("start", "end"))
    ranges = dict(zip(NAMES, batch["sections"]))
    weights = {name: torch.tensor(start[a:b], requires_grad=True) for name, (a, b) in ranges.items()}
    optimizer = torch.optim.AdamW(
        weights.values(), lr=batch["rate"], betas=(0.9, 0.999), eps=1e-8, weight_decay=batch["weight_decay"]
    )
    for number, expected in enumerate(batch["losses"]):
        optimizer.zero_grad()
        found = losses(weights, batch)
        difference = max(abs(a.item() - b) / max(1.0, abs(b)) for a, b in zip(found, expected))
        assert difference < 2e-5, f"step {number + 1}: {[loss.item() for loss in found]} instead of {expected}"
        sum(scale * loss for scale, loss in zip(batch["scales"], found)).backward()
        step(optimizer, list(weights.values()), batch["limits"])
    for name, (a, b) in ranges.items():
        difference = numpy.abs(end[a:b] - weights[name].detach().numpy())
        moved = numpy.abs(end[a:b] - start[a:b])
        print(f"{name:12} {(moved > 0).sum():6} of {b - a} weights moved, by up to {moved.max():.3f}; differ by {difference.max():.1e}")
        assert difference.max() < 2e-5 < moved.max(), name
    first, last = batch["losses"][0], batch["losses"][-1]
    assert all(b < a for a, b in zip(first, last)), "nothing was learnt"


if __name__ == "__main__":
    main()
