"""Ops that find elements, or put them, by index: along an axis or anywhere."""

from palmkit.engine.backends.cpu.registry import rule
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Node
from palmkit.engine.steps.lowering import Lowering, axis_attrs, plain, reduced_order
from palmkit.engine.steps.step import StepAttr, View

INDICES = ("int32", "int64")
REDUCED = ("float32", "int32", "int64")


def _whole(lowering: Lowering, name: str) -> View:
    return lowering.get(name, plain(len(lowering.dims(name))))


@rule("arg_max", "arg_min")
def lower_arg_max(lowering: Lowering, node: Node) -> None:
    """Along one axis, wherever it lies in memory."""
    x, y = node.inputs[0], node.outputs[0]
    lowering.need_dtype(x, dtypes=(*REDUCED, "int8", "uint8"))
    if 0 in lowering.dims(x):
        raise UnsupportedError("an empty axis")
    order = lowering.order(x)
    axis = node.integer("axis") % len(order)
    view = lowering.get(x, order)
    attrs = {
        **axis_attrs(view.dims, order.index(axis)),
        "op": node.op[-3:],
        "last": node.integer("select_last_index"),
    }
    left = reduced_order(order, {axis}, bool(node.integer("keepdims")))
    lowering.step("arg_max", {"x": view}, {"y": lowering.put(y, left)}, attrs)


@rule("top_k")
def lower_top_k(lowering: Lowering, node: Node) -> None:
    """A constant number of elements along one axis; they come sorted, asked or not."""
    x, k = node.inputs
    lowering.need_dtype(x, dtypes=REDUCED)
    order = lowering.order(x)
    axis = node.integer("axis") % len(order)
    count = int(lowering.constant_of(k, "k").item())
    view = lowering.get(x, order)
    outputs: dict[str, View] = {}
    results = {"y": view.dtype, "indices": "int64"}
    for name, (result, dtype) in zip((*node.outputs, "")[:2], results.items(), strict=True):
        dims = [count if a == axis else lowering.dims(x)[a] for a in order]
        taken = lowering.put(name, order) if name else lowering.scratch(dtype, dims)
        outputs[result] = taken
    attrs = {"k": count, "largest": node.integer("largest")}
    lowering.step(
        "top_k", {"x": view}, outputs, {**axis_attrs(view.dims, order.index(axis)), **attrs}
    )


@rule("cum_sum")
def lower_cum_sum(lowering: Lowering, node: Node) -> None:
    """Along one axis, wherever it lies in memory."""
    x, axis = node.inputs
    lowering.need_dtype(x, dtypes=(*REDUCED, "float64"))
    order = lowering.order(x)
    position = order.index(int(lowering.constant_of(axis, "axis").item()) % len(order))
    view = lowering.get(x, order)
    attrs = {name: node.integer(name) for name in ("exclusive", "reverse")}
    lowering.step(
        "cum_sum",
        {"x": view},
        {"y": lowering.put(node.outputs[0], order)},
        {**axis_attrs(view.dims, position), **attrs},
        in_place="x",
    )


def _tuples(lowering: Lowering, data: str, indices: str, batch_dims: int) -> dict[str, StepAttr]:
    """How the kernels see indices[..., depth] into data."""
    dims = lowering.dims(data)
    depth = lowering.dims(indices)[-1]
    if depth == 0 or 0 in dims or 0 in lowering.dims(indices):
        raise UnsupportedError("nothing to index")
    batch, inner = 1, 1
    for dim in dims[:batch_dims]:
        batch *= dim
    for dim in dims[batch_dims + depth :]:
        inner *= dim
    return {"batch": batch, "dims": list(dims[batch_dims : batch_dims + depth]), "inner": inner}


@rule("gather_nd")
def lower_gather_nd(lowering: Lowering, node: Node) -> None:
    """Runs of elements, each named by a tuple."""
    data, indices = node.inputs
    lowering.need_dtype(indices, dtypes=INDICES)
    attrs = _tuples(lowering, data, indices, node.integer("batch_dims"))
    inputs = {"x": _whole(lowering, data), "indices": _whole(lowering, indices)}
    lowering.step("gather_nd", inputs, {"y": lowering.put(node.outputs[0])}, attrs)


def _need_reduction(lowering: Lowering, node: Node) -> str:
    reduction = node.text("reduction")
    if reduction != "none":
        lowering.need_dtype(node.inputs[0], dtypes=REDUCED)
    return reduction


@rule("scatter_nd")
def lower_scatter_nd(lowering: Lowering, node: Node) -> None:
    """A copy of the data, and runs of elements put where a tuple says."""
    data, indices = node.inputs[:2]
    lowering.need_dtype(indices, dtypes=INDICES)
    attrs: dict[str, StepAttr] = {**_tuples(lowering, data, indices, 0)}
    attrs["reduction"] = _need_reduction(lowering, node)
    _scatter(lowering, node, attrs)


def _scatter(lowering: Lowering, node: Node, attrs: dict[str, StepAttr]) -> None:
    """In place, unless the data is read as something else as well."""
    x, *others = (_whole(lowering, name) for name in node.inputs)
    indices, updates = others
    alone = all(view.buffer is not x.buffer for view in others)
    lowering.step(
        node.op,
        {"x": x, "indices": indices, "updates": updates},
        {"y": lowering.put(node.outputs[0])},
        attrs,
        in_place="x" if alone else None,
    )


@rule("gather_elements", "scatter_elements")
def lower_gather_elements(lowering: Lowering, node: Node) -> None:
    """An index along one axis for each element."""
    data, indices = node.inputs[:2]
    lowering.need_dtype(indices, dtypes=INDICES)
    dims = lowering.dims(data)
    if not dims:
        raise UnsupportedError("no axis")
    attrs: dict[str, StepAttr] = {
        "shape": list(lowering.dims(indices)),
        "dims": list(dims),
        "axis": node.integer("axis") % len(dims),
    }
    if node.op == "scatter_elements":
        attrs["reduction"] = _need_reduction(lowering, node)
        _scatter(lowering, node, attrs)
    else:
        inputs = {"x": _whole(lowering, data), "indices": _whole(lowering, indices)}
        lowering.step(node.op, inputs, {"y": lowering.put(node.outputs[0])}, attrs)
