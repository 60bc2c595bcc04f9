"""Decision trees."""

from palmkit.engine.backends.cpu.registry import rule
from palmkit.engine.ir import Node
from palmkit.engine.ops import input_names
from palmkit.engine.steps.lowering import Lowering, plain
from palmkit.engine.steps.step import View


@rule("tree_ensemble")
def lower_tree_ensemble(lowering: Lowering, node: Node) -> None:
    """Rows of features, and the trees as the op has them."""
    x, *others = node.inputs
    lowering.need_dtype(x, dtypes=("float32", "int32", "int64"))
    features = lowering.get(x, plain(len(lowering.dims(x))))
    if features.dtype != "float32":
        features = lowering.cast(features, "float32")
    lowering.need_dtype(others[input_names(node.op).index("nodes_splits") - 1])
    trees: dict[str, View | None] = {
        operand: lowering.get(name, plain(len(lowering.dims(name)))) if name else None
        for operand, name in zip(input_names(node.op)[1:], others, strict=False)
    }
    attrs = {name: node.integer(name) for name in ("aggregate_function", "n_targets")}
    y = lowering.put(node.outputs[0])
    lowering.step(node.op, {"x": features, **trees}, {"y": y}, attrs)
