"""Makes the tiny ONNX networks of this folder: meaningless outputs, with lc0's tensors (or defects in them).

    python3 -m pip install onnx && python3 make.py
"""

import onnx
from onnx import TensorProto, helper


def network(
    name, policy_width=1858, nan=None, declared=None, planes=112, policy="/output/policy", extra=None, shape=None, metadata=None
):
    def constant(label, values):
        return helper.make_tensor(label, TensorProto.INT64, [len(values)], values)

    def tensor(label, *dims):
        return helper.make_tensor_value_info(label, TensorProto.FLOAT, ["batch", *dims])

    inputs = [tensor("/input/planes", planes, 8, 8)]
    outputs = [tensor(policy, *(shape or [declared or policy_width])), tensor("/output/wdl", 3)]
    nodes = [
        helper.make_node("Flatten", ["/input/planes"], ["flat"], axis=1),
        helper.make_node("Slice", ["flat", "zero", "policy_end", "axis"], ["raw"]),
        helper.make_node("Slice", ["flat", "zero", "wdl_end", "axis"], ["wdl_raw"]),
        helper.make_node("Softmax", ["wdl_raw"], ["/output/wdl"], axis=1),
    ]
    constants = [
        constant("zero", [0]),
        constant("axis", [1]),
        constant("policy_end", [policy_width]),
        constant("wdl_end", [3]),
    ]
    # The logarithm of a negative number is not a number.
    if nan == "always":
        nodes += [
            helper.make_node("Neg", ["raw"], ["signed"]),
            helper.make_node("Log", ["signed"], [policy]),
        ]
    elif nan == "black":
        # Plane 108 is set when Black is to move.
        constants += [constant("black", [108 * 64]), constant("black_end", [108 * 64 + 1])]
        nodes += [
            helper.make_node("Slice", ["flat", "black", "black_end", "axis"], ["is_black"]),
            helper.make_node("Neg", ["is_black"], ["negative"]),
            helper.make_node("Sqrt", ["negative"], ["root"]),
            helper.make_node("Add", ["raw", "root"], [policy]),
        ]
    elif extra:
        inputs.append(tensor(extra, 1))
        nodes.append(helper.make_node("Add", ["raw", extra], [policy]))
    elif shape:
        constants.append(constant("shape", [-1, *shape]))
        nodes.append(helper.make_node("Reshape", ["raw", "shape"], [policy]))
    else:
        nodes.append(helper.make_node("Identity", ["raw"], [policy]))
    graph = helper.make_graph(nodes, "tiny", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, metadata or {})
    onnx.checker.check_model(model)
    onnx.save(model, name)


network("tiny.onnx")
network("nan.onnx", nan="always")
# Works for White only.
network("late-nan.onnx", nan="black")
network("narrow.onnx", policy_width=1800)
# Its metadata do not match its outputs.
network("liar.onnx", policy_width=1800, declared="classes")
# Foreign inputs and outputs.
network("planes.onnx", planes=119)
network("outputs.onnx", policy="moves")
network("inputs.onnx", extra="temperature")
# AlphaZero's planes and moves, with and without the metadata entry.
network("alphazero.onnx", planes=119, policy_width=4672, metadata={"scorn.encoding": "alphazero"})
network("alphazero-planes.onnx", planes=119, policy_width=4672, shape=[73, 8, 8])
