"""Attention becomes matrix products round a softmax, which have kernels."""

from typing import Any, cast

import numpy as np

from palmkit.engine.ir import Graph, Node, Type
from palmkit.engine.passes.rewrite import Change, Draft, input_at, rewrite
from palmkit.engine.passes.writer import Writer

_PLAIN = {"left_window_size": -1, "right_window_size": -1}


def write_out_attention(graph: Graph) -> Graph:
    """Write out attention of known sizes without windows and lengths, with two products."""
    return rewrite(graph, _write_out, {"attention"})


def _write_out(draft: Draft, node: Node) -> Change:
    types = [draft.type(name) if name else None for name in node.inputs]
    if any(name and type is None for name, type in zip(node.inputs, types, strict=True)):
        return None
    q, k, v, mask, past, past_value, lengths = (*types, *[None] * 7)[:7]
    attrs = cast(dict[str, Any], dict(node.attrs))
    if (
        q is None
        or k is None
        or v is None
        or lengths is not None
        or q.dtype not in ("float32", "float64")
        or v.dtype != q.dtype
        or attrs.get("softmax_precision", q.dtype) != q.dtype
        or any(attrs.get(name, value) != value for name, value in _PLAIN.items())
        or (len(node.outputs) > 3 and draft.reads(node.outputs[3]))
        or 0 in (*q.dims, *k.dims, *v.dims)
    ):
        return None
    offset = 0 if past is None else past.dims[2]
    total = k.dims[-2] + offset
    if mask is not None and (not mask.dims or mask.dims[-1] not in (1, total) or 0 in mask.dims):
        return None
    writer = Writer(draft, node)
    heads, key_heads = attrs.get("q_num_heads", 0), attrs.get("kv_num_heads", 0)
    query = _heads(writer, node.inputs[0], q, heads)
    keys = _heads(writer, node.inputs[1], k, key_heads)
    values = _heads(writer, node.inputs[2], v, key_heads)
    if len(q.dims) == 4:
        heads, key_heads = q.dims[1], k.dims[1]
    n, queries = q.dims[0], q.dims[-2]
    size = q.dims[-1] if len(q.dims) == 4 else q.dims[-1] // heads
    if past is not None and past_value is not None:
        keys = writer.add("concat", [node.inputs[4], keys], axis=2)
        values = writer.add("concat", [node.inputs[5], values], axis=2)
    for place, x in ((1, keys), (2, values)):
        if len(node.outputs) > place and node.outputs[place]:
            writer.nodes.append(Node("identity", (x,), (node.outputs[place],), name=node.name))
    scale = attrs.get("scale")
    scale = size**-0.5 if scale is None else scale
    query = writer.add("mul", [query, writer.constant("scale", np.array(scale, q.dtype))])
    # Several heads of queries that share one head of keys are rows of one product.
    if heads != key_heads:
        query = writer.reshape(query, [n, key_heads, heads // key_heads * queries, size])
    scores = writer.add("matmul", [query, writer.transpose(keys, (0, 1, 3, 2))])
    if heads != key_heads:
        scores = writer.reshape(scores, [n, heads, queries, total])
    if attrs.get("softcap"):
        cap = writer.constant("cap", np.array(attrs["softcap"], q.dtype))
        scores = writer.add("mul", [writer.add("tanh", [writer.add("div", [scores, cap])]), cap])
    hidden = _hidden(queries, total, offset, q.dtype) if attrs.get("is_causal") else None
    weights = _softmax(writer, scores, input_at(node, 3), mask, hidden)
    if heads != key_heads:
        weights = writer.reshape(weights, [n, key_heads, heads // key_heads * queries, total])
    y = writer.add("matmul", [weights, values])
    width = v.dims[-1] if len(v.dims) == 4 else v.dims[-1] // key_heads
    if heads != key_heads:
        y = writer.reshape(y, [n, heads, queries, width])
    if len(q.dims) == 3:
        y = writer.reshape(writer.transpose(y, (0, 2, 1, 3)), [n, queries, heads * width])
    writer.finish(y)
    return writer.nodes


def _heads(writer: Writer, x: str, type: Type, heads: int) -> str:
    """Return x as [n, heads, length, size]."""
    if len(type.dims) == 4:
        return x
    n, length, width = type.dims
    return writer.transpose(writer.reshape(x, [n, length, heads, width // heads]), (0, 2, 1, 3))


def _hidden(queries: int, total: int, offset: int, dtype: str) -> np.ndarray[Any, Any]:
    """Return a mask that is -inf where a key comes after the query, else 0."""
    ahead = np.arange(total) > np.arange(queries)[:, None] + offset
    return np.where(ahead, -np.inf, 0).astype(dtype)


def _softmax(
    writer: Writer, x: str, mask: str, type: Type | None, hidden: np.ndarray[Any, Any] | None
) -> str:
    """Write the softmax of x plus masks; a row that is masked whole becomes zeros."""
    bias = writer.constant("causal", hidden) if hidden is not None else ""
    if type is None:
        return writer.add("softmax", [writer.add("add", [x, bias]) if bias else x], axis=-1)
    dtype = (writer.draft.type(writer.node.inputs[0]) or type).dtype
    zero = writer.constant("zero", np.array(0, dtype))
    minus = writer.constant("minus", np.array(-np.inf, dtype))
    if type.dtype == "bool":
        mask = writer.add("where", [mask, zero, minus])
    elif type.dtype != dtype:
        mask = writer.add("cast", [mask], to=dtype)
    bias = writer.add("add", [mask, bias]) if bias else mask
    axes = writer.constant("axes", np.array([-1]))
    greatest = writer.add("reduce_max", [bias, axes], keepdims=1)
    nothing = writer.add("equal", [greatest, minus])
    weights = writer.add("softmax", [writer.add("add", [x, bias])], axis=-1)
    return writer.add("where", [nothing, zero, weights])
