"""Element-wise nodes between quantized values become lookups, or compute in integers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from palmkit.engine.ir import Array, Attr, Graph, Node
from palmkit.engine.ops import run_reference, traits_of
from palmkit.engine.ops.average_pool import counts_along
from palmkit.engine.ops.quantized_resize import fixed_weights
from palmkit.engine.ops.resize import taps_of
from palmkit.engine.ops.windows import windows_of
from palmkit.engine.passes.integer_layers import Bounded, bounded
from palmkit.engine.passes.levels import Levels, are_computed_with, dequantized, written
from palmkit.engine.passes.rewrite import Change, Draft, rewrite

_LONGEST = 8
# Bound on the length of an axis, as every window along it is checked.
_MOST_ALONG_AN_AXIS = 1 << 24


def integer_sums(graph: Graph) -> Graph:
    """Rewrite sums and differences of quantized values as one integer op."""
    return rewrite(graph, _sum, ("quantize_linear",))


def integer_elements(graph: Graph) -> Graph:
    """Rewrite chains of unary ops as one lookup; products, means and resizes as integer ops.

    All of them lie between dequantize_linear and quantize_linear. An op that combines two functions
    of one value is a lookup, too.
    """
    graph = rewrite(graph, _integer, ("quantize_linear",))
    return rewrite(graph, _combined, ("quantized_add", "quantized_mul"))


def _sum(draft: Draft, node: Node) -> Change:
    y, found = written(draft, node), bounded(draft, node.inputs[0])
    if y is None or found is None or found.node.op not in ("add", "sub"):
        return None
    return _binary(draft, node, y, found)


def _integer(draft: Draft, node: Node) -> Change:
    y = written(draft, node)
    if y is None:
        return None
    table = _table(draft, node, y)
    if table is not None:
        return table
    found = bounded(draft, node.inputs[0])
    if found is None:
        return None
    if found.node.op == "concat":
        return _concat(draft, node, y, found)
    rule = _RULES.get(found.node.op)
    return None if rule is None else rule(draft, node, y, found)


def _table(draft: Draft, node: Node, y: Levels) -> Change:
    """Return a lookup in place of a chain that begins at quantized values."""
    chain: list[Node] = []
    name = node.inputs[0]
    x = dequantized(draft, name)
    while x is None:
        before = draft.producer(name)
        if before is None or traits_of(before.op).elementwise is None or len(chain) == _LONGEST:
            return None
        computed = [n for n in before.inputs if n and draft.constant(n) is None]
        type = draft.type(before.outputs[0])
        if len(computed) != 1 or type is None or type.dtype != "float32":
            return None
        chain.append(before)
        name = computed[0]
        x = dequantized(draft, name)
    out, dims = node.outputs[0], draft.dims(x.name)
    if dims is None or dims != draft.dims(out):
        return None
    if x.is_like(y) and not chain:
        return [Node("identity", (x.name,), (out,), name=node.name)]
    real = _tabled(draft, x, name, chain, dims)
    if real is None:
        return None
    table = draft.new_constant(f"{out}/table", y.nearest(real))
    label = chain[0].name if chain else node.name
    return [Node("lookup", (x.name, table), (out,), name=label)]


def _tabled(
    draft: Draft, x: Levels, name: str, chain: list[Node], dims: tuple[int, ...]
) -> Array | None:
    """Return what the chain makes of each uint8: [256], or [c, 256] if it differs by channel."""
    rank = max(1, len(dims))
    values: dict[str, Array] = {name: x.real().reshape(256, *[1] * (rank - 1))}
    for node in reversed(chain):
        inputs = [
            None if not each else values[each] if each in values else draft.constant(each)
            for each in node.inputs
        ]
        if any(value is not None and value.ndim > rank for value in inputs):
            return None
        if rank == 1 and any(value is not None and value.size not in (1, 256) for value in inputs):
            return None
        result = run_reference(node, inputs)[0]
        channels = result.shape[1] if rank > 1 else 1
        if result.shape != (256, channels, *[1] * (rank - 2))[:rank]:
            return None
        values[node.outputs[0]] = result
    last = values[chain[0].outputs[0] if chain else name].reshape(256, -1)
    if last.shape[1] == 1:
        return last[:, 0]
    return np.ascontiguousarray(last.T) if last.shape[1] == dims[1] else None


def _range(y: Levels, found: Bounded) -> dict[str, Attr]:
    low, high = y.bounds(found.least, found.most)
    return {"y_zero_point": y.zero_point, "low": low, "high": high}


def _binary(draft: Draft, node: Node, y: Levels, found: Bounded) -> Change:
    op = found.node.op
    a, b = (dequantized(draft, name) for name in found.node.inputs)
    if a is None or b is None:
        return None
    attrs: dict[str, Attr] = {"a_zero_point": a.zero_point, "b_zero_point": b.zero_point}
    if op == "mul":
        scale = np.float64(a.scale) * np.float64(b.scale) / np.float64(y.scale)
        attrs["scale"] = float(np.float32(scale))
        if not are_computed_with(scale):
            return None
    else:
        ratios = (a.scale / y.scale, b.scale / y.scale * np.float32(-1 if op == "sub" else 1))
        attrs |= {"a_scale": float(ratios[0]), "b_scale": float(ratios[1])}
        if not are_computed_with(*ratios):
            return None
    kind = "quantized_mul" if op == "mul" else "quantized_add"
    attrs |= _range(y, found)
    return [Node(kind, (a.name, b.name), node.outputs, attrs, found.node.name)]


def _pool(draft: Draft, node: Node, y: Levels, found: Bounded) -> Change:
    pool = found.node
    x = dequantized(draft, pool.inputs[0])
    type = None if x is None else draft.type(x.name)
    if x is None or type is None or len(type.dims) not in (3, 4):
        return None
    if not type.elements or max(type.dims) > _MOST_ALONG_AN_AXIS:
        return None
    attrs: dict[str, Attr] = dict(pool.attrs)
    is_global = pool.op == "global_average_pool"
    if is_global:
        attrs = {"kernel_shape": type.dims[2:]}
    windows = windows_of("average_pool", type, attrs)
    counts = counts_along(
        windows, type.dims[2:], not is_global and pool.integer("count_include_pad") != 0
    )
    is_whole = all(along.all() for along in counts)
    if not is_whole or not (is_global or pool.text("auto_pad") == "NOTSET"):
        return None
    if not are_computed_with(x.scale / y.scale):
        return None
    attrs |= {"scale": float(x.scale / y.scale), "x_zero_point": x.zero_point}
    attrs |= _range(y, found)
    return [Node("quantized_average_pool", (x.name,), node.outputs, attrs, pool.name)]


def _mean(draft: Draft, node: Node, y: Levels, found: Bounded) -> Change:
    """Rewrite the mean over height and width without keeping the axes."""
    mean = found.node
    x, dims = dequantized(draft, mean.inputs[0]), draft.dims(mean.inputs[0])
    axes = draft.constant(mean.inputs[1]) if len(mean.inputs) > 1 else None
    if x is None or axes is None or dims is None or len(dims) != 4 or mean.integer("keepdims"):
        return None
    if sorted(int(axis) % 4 for axis in axes) != [2, 3] or not are_computed_with(x.scale / y.scale):
        return None
    pooled = draft.new_value(f"{node.outputs[0]}/pooled")
    shape = np.array(dims[:2], np.int64)
    attrs: dict[str, Attr] = {"kernel_shape": dims[2:], "scale": float(x.scale / y.scale)}
    attrs |= {"x_zero_point": x.zero_point, **_range(y, found)}
    name = draft.new_constant(f"{node.outputs[0]}/shape", shape)
    return [
        Node("quantized_average_pool", (x.name,), (pooled,), attrs, mean.name),
        Node("reshape", (pooled, name), node.outputs, name=mean.name),
    ]


def _resize(draft: Draft, node: Node, y: Levels, found: Bounded) -> Change:
    """Rewrite a linear resize of height and width."""
    resize = found.node
    x = dequantized(draft, resize.inputs[0])
    dims = draft.dims(resize.inputs[0])
    if x is None or dims is None or len(dims) != 4 or resize.text("mode") != "linear":
        return None
    types: dict[str, Any] = {n: draft.type(n) for n in (*resize.inputs, *resize.outputs) if n}
    options, taps = taps_of(resize, types)
    two = all(each.index.shape[1] == 2 and not each.outside.any() for each in taps.values())
    if not two or not set(taps) <= {2, 3} or options.exclude_outside:
        return None
    if not are_computed_with(x.scale / y.scale):
        return None
    inputs = [x.name]
    for axis in (2, 3):
        index = np.repeat(np.arange(dims[axis], dtype=np.int32)[:, None], 2, 1)
        weight = np.zeros(dims[axis], np.int32)
        if axis in taps:
            index, weight = taps[axis].index, fixed_weights(taps[axis].weight[:, 1])
        inputs += [draft.new_constant(f"{resize.outputs[0]}/{axis}", v) for v in (index, weight)]
    attrs: dict[str, Attr] = {"scale": float(x.scale / y.scale), "x_zero_point": x.zero_point}
    attrs |= _range(y, found)
    return [Node("quantized_resize", tuple(inputs), node.outputs, attrs, resize.name)]


def _rescale(draft: Draft, stem: str, x: Levels, y: Levels, found: Bounded) -> str:
    table = np.clip(y.nearest(x.real()), *y.bounds(found.least, found.most))
    return draft.new_constant(f"{stem}/table", table.astype(np.uint8))


def _concat(draft: Draft, node: Node, y: Levels, found: Bounded) -> Change:
    """Rewrite a concat, with every part in the scale of the result."""
    parts = [dequantized(draft, name) for name in found.node.inputs]
    nodes: list[Node] = []
    names: list[str] = []
    for part in parts:
        if part is None:
            return None
        if part.is_like(y) and y.bounds(found.least, found.most) == (0, 255):
            names.append(part.name)
            continue
        names.append(draft.new_value(f"{node.outputs[0]}/part"))
        table = _rescale(draft, node.outputs[0], part, y, found)
        nodes.append(Node("lookup", (part.name, table), (names[-1],), name=found.node.name))
    return [*nodes, replace(found.node, inputs=tuple(names), outputs=node.outputs)]


def _combined(draft: Draft, node: Node) -> Change:
    """Rewrite x * sigmoid(x) and similar expressions as one lookup."""
    first, second = (_tables(draft, name) for name in node.inputs)
    for x in first.keys() & second.keys():
        type = draft.type(x)
        if type is None or type.dtype != "uint8" or draft.dims(node.outputs[0]) != type.dims:
            continue
        both = run_reference(node, [first[x], second[x]])[0]
        table = draft.new_constant(f"{node.outputs[0]}/table", both)
        return [Node("lookup", (x, table), node.outputs, name=node.name)]
    return None


def _tables(draft: Draft, name: str) -> dict[str, Array]:
    """Return for each value that this one is a function of, the function's table."""
    tables = {name: np.arange(256, dtype=np.uint8)}
    before = draft.producer(name)
    table = None if before is None or before.op != "lookup" else draft.constant(before.inputs[1])
    if before is not None and table is not None and table.ndim == 1:
        tables[before.inputs[0]] = table
    return tables


_RULES = {
    "mul": _binary,
    "average_pool": _pool,
    "global_average_pool": _pool,
    "reduce_mean": _mean,
    "resize": _resize,
}
