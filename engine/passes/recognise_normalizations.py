"""Normalizations and softmax written out in simple ops become one op each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from palmkit.engine.ir import Array, Attr, Graph, Node
from palmkit.engine.passes.patterns import Found, by_root, match
from palmkit.engine.passes.rewrite import Change, Draft, input_at, rewrite

_Make: TypeAlias = "Callable[[Draft, Node, Found], Change]"


def recognise_normalizations(graph: Graph) -> Graph:
    """Recognise layer, instance, group and rms normalization, softmax and reduce_l2.

    Their scale and bias become inputs. Only floats of at least 32 bits are rewritten: with fewer
    bits the order of rounding would show.
    """
    patterns = by_root(graph, _PATTERNS)

    def recognise(draft: Draft, node: Node) -> Change:
        type = draft.type(node.outputs[0])
        if type is None or type.dtype not in ("float32", "float64") or 0 in type.dims:
            return None
        for text, make in patterns.get(node.op, ()):
            found = match(draft, text, node)
            change = None if found is None else make(draft, node, found)
            if change is not None:
                return change
        return _with_parameter(draft, node)

    return rewrite(graph, recognise, {*patterns, "mul", "add", "reshape"})


def _axes(draft: Draft, found: Found) -> list[int]:
    """Return the axes A as positive numbers; empty if they are not known."""
    dims = draft.dims(found.values["x"])
    if dims is None:
        return []
    return sorted(int(axis) % len(dims) for axis in found.constants["A"].reshape(-1))


def _standardised(draft: Draft, node: Node, found: Found) -> Change:
    """Rewrite as layer normalization (last axes) or instance normalization (all spatial axes)."""
    x, epsilon, axes = found.values["x"], found.number("E"), _axes(draft, found)
    dims = draft.dims(x)
    if dims is None or epsilon is None or not axes or dims != draft.dims(node.outputs[0]):
        return None
    attrs: dict[str, Attr] = {"epsilon": epsilon}
    if len(axes) > 1 and axes == list(range(2, len(dims))):
        return [_per_channel("instance_normalization", draft, node, x, attrs)]
    if axes != list(range(axes[0], len(dims))):
        return None
    attrs["axis"] = axes[0] - len(dims)
    scale = _filled(draft, node, "scale", dims[axes[0] :], 1)
    return [Node("layer_normalization", (x, scale), node.outputs, attrs, node.name)]


def _layer(draft: Draft, node: Node, found: Found) -> Change:
    """Rewrite over the last axes, with its scale and perhaps its bias written into the formula."""
    x, epsilon, axes = found.values["x"], found.number("E"), _axes(draft, found)
    dims = draft.dims(x)
    if dims is None or epsilon is None or not axes or dims != draft.dims(node.outputs[0]):
        return None
    if axes != list(range(axes[0], len(dims))):
        return None
    y = node.outputs[0]
    inputs = [x]
    for constant, what in (("G", "scale"), ("B", "bias")):
        value = found.constants.get(constant)
        if value is None:
            continue
        shape = (1,) * (len(dims) - value.ndim) + value.shape
        if len(shape) > len(dims) or any(size != 1 for size in shape[: axes[0]]):
            return None
        spread = np.broadcast_to(value.reshape(shape[axes[0] :]), dims[axes[0] :])
        inputs.append(draft.new_constant(f"{y}/{what}", spread))
    attrs: dict[str, Attr] = {"axis": axes[0] - len(dims), "epsilon": epsilon}
    return [Node("layer_normalization", tuple(inputs), node.outputs, attrs, node.name)]


def _root_mean_square(draft: Draft, node: Node, found: Found) -> Change:
    x, epsilon, axes = found.values["x"], found.number("E"), _axes(draft, found)
    dims = draft.dims(x)
    if dims is None or epsilon is None or not axes or axes != list(range(axes[0], len(dims))):
        return None
    if dims != draft.dims(node.outputs[0]):
        return None
    attrs: dict[str, Attr] = {"axis": axes[0] - len(dims), "epsilon": epsilon}
    scale = _filled(draft, node, "scale", dims[axes[0] :], 1)
    return [Node("rms_normalization", (x, scale), node.outputs, attrs, node.name)]


def _grouped(draft: Draft, node: Node, found: Found) -> Change:
    """Rewrite an instance normalization of groups of adjacent channels."""
    x = found.values["x"]
    dims, inner = draft.dims(x), draft.producer(node.inputs[0])
    groups = None if inner is None else draft.dims(inner.inputs[0])
    if dims is None or inner is None or groups is None or draft.dims(node.outputs[0]) != dims:
        return None
    scale, bias = found.constants["SCALE"], found.constants["BIAS"]
    if groups[:1] != dims[:1] or len(dims) < 3 or not groups[1] or dims[1] % groups[1]:
        return None
    if (scale != scale[:1]).any() or (bias != bias[:1]).any():
        return None
    attrs: dict[str, Attr] = {"num_groups": groups[1], "epsilon": inner.number("epsilon")}
    y = node.outputs[0]
    names = [
        draft.new_constant(f"{y}/{what}", np.full(dims[1], value[0], value.dtype))
        for what, value in (("scale", scale), ("bias", bias))
    ]
    return [Node("group_normalization", (x, *names), node.outputs, attrs, node.name)]


def _softmax(draft: Draft, node: Node, found: Found) -> Change:
    """Rewrite exp(x - max) / sum; without the maximum it differs where exp overflows."""
    exp = draft.producer(found.values["e"])
    axes = found.constants["A"].reshape(-1)
    if exp is None or exp.op != "exp" or axes.size != 1:
        return None
    dims = draft.dims(exp.inputs[0])
    centred = draft.producer(exp.inputs[0])
    inner = (
        None if centred is None else match(draft, "sub(x, reduce_max(x, A, keepdims=1))", centred)
    )
    if dims is None or inner is None or inner.constants["A"].reshape(-1).tolist() != axes.tolist():
        return None
    attrs: dict[str, Attr] = {"axis": int(axes[0])}
    return [Node("softmax", (inner.values["x"],), node.outputs, attrs, node.name)]


def _length(draft: Draft, node: Node, found: Found) -> Change:
    summed = draft.producer(node.inputs[0])
    if summed is None:
        return None
    inputs = (found.values["x"], *summed.inputs[1:])
    return [replace(summed, op="reduce_l2", inputs=inputs, outputs=node.outputs)]


def _per_channel(op: str, draft: Draft, node: Node, x: str, attrs: dict[str, Attr]) -> Node:
    channels = (draft.dims(x) or (0, 0))[1:2]
    names = [
        _filled(draft, node, what, channels, value) for what, value in (("scale", 1), ("bias", 0))
    ]
    return Node(op, (x, *names), node.outputs, attrs, node.name)


def _filled(draft: Draft, node: Node, what: str, shape: Sequence[int], value: float) -> str:
    dtype = draft.type(node.outputs[0])
    assert dtype is not None
    return draft.new_constant(f"{node.outputs[0]}/{what}", np.full(shape, value, dtype.dtype))


_NORMALIZED = (
    "layer_normalization",
    "rms_normalization",
    "instance_normalization",
    "group_normalization",
)


def _with_parameter(draft: Draft, node: Node) -> Change:
    """Turn mul and add by constants behind a normalization into its scale and bias."""
    if node.op not in ("mul", "add"):
        return None
    for x, operand in (node.inputs, node.inputs[::-1]):
        before, value = draft.sole_producer(x, *_NORMALIZED), draft.constant(operand)
        if before is None or value is None:
            continue
        scale = draft.constant(before.inputs[1])
        dims = draft.dims(x)
        if scale is None or dims is None or dims != draft.dims(node.outputs[0]):
            return None
        shaped = _shaped(before, value, scale, len(dims))
        return None if shaped is None else _scaled(draft, before, node, scale, shaped)
    return None


def _shaped(node: Node, value: Array, scale: Array, rank: int) -> Array | None:
    """Return the value in the shape of the normalization's scale, or None if it has another."""
    by_channel = node.op in ("instance_normalization", "group_normalization")
    if value.ndim > rank:
        return None
    full = value.reshape((1,) * (rank - value.ndim) + value.shape)
    if by_channel:
        if full.size != full.shape[1]:
            return None
        full = full.reshape(-1)
    else:
        if any(size != 1 for size in full.shape[: rank - scale.ndim]):
            return None
        full = full.reshape(full.shape[rank - scale.ndim :])
    return np.broadcast_to(full, scale.shape)


def _scaled(draft: Draft, before: Node, node: Node, scale: Array, value: Array) -> Change:
    bias_name = input_at(before, 2)
    bias = draft.constant(bias_name) if bias_name else np.zeros(scale.shape, scale.dtype)
    if bias is None or (before.op == "rms_normalization" and node.op == "add"):
        return None
    if node.op == "mul":
        scale, bias = scale * value, bias * value
    else:
        bias = bias + value
    y = node.outputs[0]
    inputs = [before.inputs[0], draft.new_constant(f"{y}/scale", scale)]
    if bias_name or node.op == "add":
        inputs.append(draft.new_constant(f"{y}/bias", bias))
    return [replace(before, inputs=tuple(inputs), outputs=node.outputs)]


_MEAN = "reduce_mean(x, A, keepdims=1)"
_CENTRED = f"sub(x, {_MEAN})"
_DEVIATION = f"sqrt(add(reduce_mean(mul({_CENTRED}, {_CENTRED}), A, keepdims=1), E))"
_FACTOR = f"mul(reciprocal({_DEVIATION}), G)"
_MEAN_SQUARE = "sqrt(add(reduce_mean(mul(x, x), A, keepdims=1), E))"
_PATTERNS: Sequence[tuple[str, _Make]] = (
    (f"div({_CENTRED}, {_DEVIATION})", _standardised),
    (f"mul({_CENTRED}, reciprocal({_DEVIATION}))", _standardised),
    (f"mul({_CENTRED}, div(1, {_DEVIATION}))", _standardised),
    (f"add(mul(x, {_FACTOR}), sub(B, mul({_MEAN}, {_FACTOR})))", _layer),
    (f"mul({_CENTRED}, {_FACTOR})", _layer),
    (f"div(x, {_MEAN_SQUARE})", _root_mean_square),
    (f"mul(x, reciprocal({_MEAN_SQUARE}))", _root_mean_square),
    (f"mul(x, div(1, {_MEAN_SQUARE}))", _root_mean_square),
    ("reshape(instance_normalization(reshape(x, S), SCALE, BIAS), R)", _grouped),
    ("div(e, reduce_sum(e, A, keepdims=1))", _softmax),
    ("sqrt(reduce_sum(mul(x, x), A))", _length),
)
