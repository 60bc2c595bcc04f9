"""The op linear_attention."""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Attr, Type
from palmkit.engine.ops import Case, Results, op
from palmkit.engine.ops.attention import split_heads
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.rules import need_dtype, need_rank

UPDATE_RULES = ("linear", "gated", "delta", "gated_delta")


def _infer(
    query: Type,
    key: Type,
    value: Type,
    past_state: Type | None = None,
    decay: Type | None = None,
    beta: Type | None = None,
    *,
    kv_num_heads: int,
    q_num_heads: int,
    chunk_size: int,
    scale: float,
    update_rule: str,
) -> tuple[Type, Type]:
    need_dtype("linear_attention", query, key, value, among=FLOATS)
    for each in (query, key, value):
        need_rank("linear_attention", each, 3, 3)
    if update_rule not in UPDATE_RULES:
        raise ValueError(f"unknown update_rule: {update_rule}")
    if kv_num_heads < 1 or q_num_heads < 1 or q_num_heads % kv_num_heads:
        raise ShapeError(f"linear_attention: {kv_num_heads} heads do not divide {q_num_heads}")
    n, length, width = query.dims
    size, value_size = width // q_num_heads, value.dims[2] // kv_num_heads
    if (
        width % q_num_heads
        or value.dims != (n, length, kv_num_heads * value_size)
        or key.dims != (n, length, kv_num_heads * size)
    ):
        raise ShapeError(f"linear_attention: cannot match {query}, {key}, {value}")
    if (decay is None) == ("gated" in update_rule) or (beta is None) == ("delta" in update_rule):
        raise ShapeError(f"linear_attention: wrong inputs for {update_rule}: {decay}, {beta}")
    for given, widths in ((decay, (kv_num_heads, kv_num_heads * size)), (beta, (kv_num_heads, 1))):
        if given is not None and given.dims not in [(n, length, width) for width in widths]:
            raise ShapeError(f"linear_attention: expected one of {widths} a step, got {given}")
    state = (n, kv_num_heads, size, value_size)
    if past_state is not None and past_state.dims != state:
        raise ShapeError(f"linear_attention: expected a state of {state}, got {past_state}")
    kept = query.dtype if past_state is None else past_state.dtype
    return Type(query.dtype, (n, length, q_num_heads * value_size)), Type(kept, state)


_DECAY = -np.linspace(0.1, 2, 12, dtype=np.float32).reshape(2, 3, 2)


def _case(*more: Array | Type | None, outputs: int = 1, **attrs: Attr) -> Case:
    given = [Type("float32", (2, 3, width)) for width in (32, 16, 12)]
    heads: dict[str, Attr] = {"q_num_heads": 4, "kv_num_heads": 2}
    return Case((*given, *more), {**heads, **attrs}, outputs)


@op(
    _infer,
    _case(update_rule="linear", outputs=2),
    _case(Type("float32", (2, 2, 8, 6)), _DECAY, update_rule="gated"),
    _case(None, _DECAY, Type("float32", (2, 3, 1)), outputs=2),
)
def linear_attention(
    query: Array,
    key: Array,
    value: Array,
    past_state: Array | None = None,
    decay: Array | None = None,
    beta: Array | None = None,
    *,
    kv_num_heads: int,
    q_num_heads: int,
    chunk_size: int = 64,
    scale: float = 0.0,
    update_rule: str = "gated_delta",
) -> Results:
    """Attention by a state that every step updates; y[n, length, heads * size] and the last state.

    Each step: S = exp(decay) S; S = S + key (beta (value - S^T key))^T; y = scale S^T query.
    Without decay the first step is left out, without beta the value is used as it is.
    scale: 0 is 1 / sqrt(size). chunk_size: a hint without effect.
    Yang et al.: Gated Delta Networks, 2024; ONNX operator LinearAttention, opset 27.
    """
    wide = np.promote_types(query.dtype, np.float32)
    q = split_heads(query, q_num_heads).astype(wide)
    k, v = (split_heads(x, kv_num_heads).astype(wide) for x in (key, value))
    n, heads, length, size = k.shape
    state = np.zeros((n, heads, size, v.shape[3]), wide)
    if past_state is not None:
        state = past_state.astype(wide)
    fade = None if decay is None else split_heads(decay, heads).astype(wide)
    rate = None if beta is None else split_heads(beta, beta.shape[2]).astype(wide)
    repeats = q.shape[1] // heads
    y = np.zeros((*q.shape[:3], v.shape[3]), wide)
    for step in range(length):
        new = v[:, :, step]
        if fade is not None:
            state = state * np.exp(fade[:, :, step])[..., None]
        if rate is not None:
            found = np.einsum("nhkv,nhk->nhv", state, k[:, :, step])
            new = rate[:, :, step] * (new - found)
        state = state + k[:, :, step, :, None] * new[:, :, None, :]
        read = np.repeat(state, repeats, 1)
        y[:, :, step] = np.einsum("nhk,nhkv->nhv", q[:, :, step], read)
    y = y * (scale or 1 / np.sqrt(size))
    y = y.swapaxes(1, 2).reshape(n, length, -1).astype(query.dtype)
    return y, state.astype(query.dtype if past_state is None else past_state.dtype)
