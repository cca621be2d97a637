"""Writes a network as ONNX for lc0-style engines: 112 planes in; policy, W/D/L and moves left out.

The graph is built by hand, so that it holds exactly the operations that were measured to run fast in ONNX Runtime and
in rten, and nothing that a converter happens to emit.
"""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from . import model
from .dense import load_network
from .files import check_new, write_whole
from .runs import command

# The planes the network looks at: pieces, castling, rule 50.
PLANES = [*range(12), 104, 105, 106, 107, 109]
OWN_VIEW_OF_PAWNS = [6, 19]  # the opponent's pawns now and one ply ago


def en_passant_weights() -> tuple[np.ndarray, np.ndarray]:
    """From the opponent's pawns now and before to the en passant plane: 2 - 1 after a double step, else at most 0."""
    weight = np.zeros((128, 64), np.float32)
    for file in range(8):
        target = 40 + file
        weight[48 + file, target], weight[32 + file, target] = -1, 1
        weight[64 + 48 + file, target], weight[64 + 32 + file, target] = 1, -1
    return weight, np.full(64, -1, np.float32)


NAMES = {"lines": "line-of-sight mixer", "residual": "residual tower"}


class Graph:
    """Collects nodes and constants; every method returns the name of its result."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, value: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def add(self, operation: str, *inputs: str | np.ndarray, output: str | None = None, **attributes) -> str:
        names = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        output = output or f"{operation.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(operation, names, [output], **attributes))
        return output

    def reshape(self, x: str, *shape: int) -> str:
        return self.add("Reshape", x, np.array(shape, np.int64))

    def linear(self, x: str, weight: np.ndarray, bias: np.ndarray) -> str:
        """On rows: runtimes fuse the bias and a following Relu into it."""
        return self.add("Gemm", x, weight, bias)


def build(network: model.Network) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    w = {name: value.detach().numpy().astype(np.float32) for name, value in network.named_parameters()}
    config, g = network.config, Graph()
    planes = g.add("Gather", "/input/planes", np.array(PLANES, np.int64), axis=1)
    pawns = g.add("Gather", "/input/planes", np.array(OWN_VIEW_OF_PAWNS, np.int64), axis=1)
    en_passant = g.add("Relu", g.linear(g.reshape(pawns, -1, 128), *en_passant_weights()))
    planes = g.reshape(planes, -1, len(PLANES), 64)
    features = g.add("Concat", planes, g.reshape(en_passant, -1, 1, 64), axis=1)
    embed = w["embed.weight"].T.copy()
    embed[16] /= 100  # the rule-50 plane counts plies
    tokens = g.add("Transpose", features, perm=[0, 2, 1])
    x = g.add("Relu", g.add("Add", g.add("MatMul", tokens, embed), w["embed.bias"] + w["place"]))
    parts = [
        {name.split(".", 2)[2]: value for name, value in w.items() if name.startswith(f"blocks.{index}.")}
        for index in range(config.blocks)
    ]
    if config.body == "residual":
        x = residual_tower(g, x, parts, config)
    else:
        seen = lines_of_sight(g, planes)
        x = g.reshape(x, -1, config.channels)
        for part in parts:
            x = block(g, x, seen, part, config)
        x = g.add("Relu", x)
    policy_head(g, x, w, config)
    value_heads(g, x, w, config)
    return g.nodes, g.constants


def lines_of_sight(g: Graph, planes: str) -> list[str]:
    """[n, 64, 64] each: open ranks and files, open diagonals."""
    start, end, axis = (np.array([value], np.int64) for value in (0, model.PIECE_PLANES, 1))
    occupied = g.add("ReduceSum", g.add("Slice", planes, start, end, axis), axis, keepdims=0)
    seen = []
    for line in model.reach()[model.LINES].reshape(-1, 4096):
        opened = g.add("Relu", g.linear(occupied, -model.squares_between() * line, line))
        seen.append(g.reshape(opened, -1, 64, 64))
    return seen


def block(g: Graph, x: str, seen: list[str], w: dict[str, np.ndarray], config: model.Config) -> str:
    heads = len(seen) + config.fixed_heads
    width = config.channels // heads
    values = g.add("Relu", g.linear(x, w["values.weight"].T, w["values.bias"]))
    parts = [f"{values}_{head}" for head in range(heads)]
    sizes = g.constant(np.full(heads, width, np.int64))
    g.nodes.append(helper.make_node("Split", [values, sizes], parts, axis=1))
    mixed = []
    for matrix, part in zip([*seen, *w["fixed"]], parts):
        mixed.append(g.reshape(g.add("MatMul", matrix, g.reshape(part, -1, 64, width)), -1, width))
    hidden = g.add("Relu", g.linear(g.add("Concat", x, *mixed, axis=1), w["into.weight"].T, w["into.bias"]))
    return g.add("Add", x, g.linear(hidden, w["out.weight"].T, w["out.bias"]))


def residual_tower(g: Graph, x: str, parts: list[dict[str, np.ndarray]], config: model.Config) -> str:
    """From [n, 64, channels] through planes [n, channels, 8, 8] to rows [n * 64, channels]."""
    x = g.reshape(g.add("Transpose", x, perm=[0, 2, 1]), -1, config.channels, 8, 8)
    how = {"kernel_shape": [3, 3], "pads": [1] * 4, "strides": [1, 1]}  # rten does not know the defaults
    for w in parts:
        y = g.add("Relu", g.add("Conv", x, w["first.weight"], w["first.bias"], **how))
        y = g.add("Conv", y, w["second.weight"], w["second.bias"], **how)
        mean = g.reshape(g.add("GlobalAveragePool", y), -1, config.channels)
        hidden = g.add("Relu", g.linear(mean, w["squeeze.weight"].T, w["squeeze.bias"]))
        # The two halves apart: rten and ONNX Runtime both broadcast them cheaply.
        halves = zip(np.split(w["excite.weight"], 2), np.split(w["excite.bias"], 2))
        scale, shift = (g.reshape(g.linear(hidden, a.T, b), -1, config.channels, 1, 1) for a, b in halves)
        y = g.add("Add", g.add("Mul", y, g.add("Sigmoid", scale)), shift)
        x = g.add("Relu", g.add("Add", x, y))
    return g.reshape(g.add("Transpose", x, perm=[0, 2, 3, 1]), -1, config.channels)


def policy_head(g: Graph, x: str, w: dict[str, np.ndarray], config: model.Config) -> None:
    scale = config.policy**-0.5
    start = g.linear(x, w["policy_from.weight"].T * scale, w["policy_from.bias"] * scale)
    start = g.reshape(start, -1, 64, config.policy)
    end = g.reshape(g.linear(x, w["policy_to.weight"].T, w["policy_to.bias"]), -1, 64, config.policy)
    moves = g.add("MatMul", start, g.add("Transpose", end, perm=[0, 2, 1]))
    moves = g.reshape(g.add("Add", moves, w["policy_bias"]), -1, 4096)
    bounds = [np.array([value], np.int64) for value in (48, 56, 1)]
    pawns = g.reshape(g.add("Slice", g.reshape(x, -1, 64, config.channels), *bounds), -1, config.channels)
    promotions = g.reshape(g.linear(pawns, w["promotion.weight"].T, w["promotion.bias"]), -1, 72)
    logits = g.add("Concat", moves, promotions, axis=1)
    g.add("Gather", logits, model.policy_gather().astype(np.int64), axis=1, output="/output/policy")


def value_heads(g: Graph, x: str, w: dict[str, np.ndarray], config: model.Config) -> None:
    squares = g.add("Relu", g.linear(x, w["value_squares.weight"].T, w["value_squares.bias"]))
    flat = g.reshape(squares, -1, 64 * config.value_channels)
    hidden = g.add("Relu", g.linear(flat, w["value_hidden.weight"].T, w["value_hidden.bias"]))
    wdl = g.linear(hidden, w["wdl.weight"].T, w["wdl.bias"])
    g.add("Softmax", wdl, axis=1, output="/output/wdl")
    plies = g.linear(hidden, w["plies.weight"].T * model.PLIES_UNIT, w["plies.bias"] * model.PLIES_UNIT)
    g.add("Relu", plies, output="/output/mlh")


def export(network: model.Network, path: Path, metadata: dict[str, str]) -> None:
    nodes, constants = build(network)
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "scorn",
        [tensor("/input/planes", TensorProto.FLOAT, ["batch", 112, 8, 8])],
        [
            tensor("/output/policy", TensorProto.FLOAT, ["batch", 1858]),
            tensor("/output/wdl", TensorProto.FLOAT, ["batch", 3]),
            tensor("/output/mlh", TensorProto.FLOAT, ["batch", 1]),
        ],
        constants,
    )
    whole = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="scorn_training"
    )
    helper.set_model_props(whole, metadata)
    onnx.checker.check_model(whole, full_check=True)
    write_whole(path, lambda partial: onnx.save(whole, partial))


def commit() -> str:
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True, cwd=Path(__file__).parent
        )
        return done.stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("onnx", type=Path)
    parser.add_argument("--name", default="scorn")
    parser.add_argument("--data", default="", help="what it was trained on, for the metadata")
    parser.add_argument("--licence", default="GPL-3.0-or-later")
    parser.add_argument("--force", action="store_true", help="replace the file if it exists")
    parser.add_argument("--raw", action="store_true", help="the last weights instead of their average")
    args = parser.parse_args()
    check_new(args.onnx, args.force)
    network, state = load_network(args.checkpoint, not args.raw)
    metadata = {
        "name": args.name,
        "input_format": "INPUT_CLASSICAL_112_PLANE",
        "training_data": args.data,
        "positions_seen": str(state["positions"]),
        "git_commit": commit(),
        "licence": args.licence,
        "architecture": f"{NAMES[network.config.body]} {state['config']}",
    }
    export(network, args.onnx, metadata)
    print(f"{args.onnx}: {args.onnx.stat().st_size} bytes")


if __name__ == "__main__":
    command("export", main)
