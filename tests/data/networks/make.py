"""Makes the tiny ONNX networks of this folder: they know nothing, but have lc0's inputs and outputs (or nearly).

    python3 -m pip install onnx && python3 make.py
"""

import onnx
from onnx import TensorProto, helper


def network(name, policy_width=1858, nan=False, declared=None):
    def constant(label, values):
        return helper.make_tensor(label, TensorProto.INT64, [len(values)], values)

    planes = helper.make_tensor_value_info("/input/planes", TensorProto.FLOAT, ["batch", 112, 8, 8])
    policy = helper.make_tensor_value_info("/output/policy", TensorProto.FLOAT, ["batch", declared or policy_width])
    wdl = helper.make_tensor_value_info("/output/wdl", TensorProto.FLOAT, ["batch", 3])
    nodes = [
        helper.make_node("Flatten", ["/input/planes"], ["flat"], axis=1),
        helper.make_node("Slice", ["flat", "zero", "policy_end", "axis"], ["raw"]),
        helper.make_node("Slice", ["flat", "zero", "wdl_end", "axis"], ["wdl_raw"]),
        # The logarithm of a negative number is not a number.
        helper.make_node("Neg" if nan else "Identity", ["raw"], ["signed"]),
        helper.make_node("Log" if nan else "Identity", ["signed"], ["/output/policy"]),
        helper.make_node("Softmax", ["wdl_raw"], ["/output/wdl"], axis=1),
    ]
    constants = [
        constant("zero", [0]),
        constant("axis", [1]),
        constant("policy_end", [policy_width]),
        constant("wdl_end", [3]),
    ]
    graph = helper.make_graph(nodes, "tiny", [planes], [policy, wdl], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, name)


network("tiny.onnx")
network("nan.onnx", nan=True)
network("narrow.onnx", policy_width=1800)
# What it says of itself is not what it does.
network("liar.onnx", policy_width=1800, declared="classes")
