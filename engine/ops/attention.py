"""The op attention."""

from dataclasses import dataclass
from math import prod

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Node, Type, numpy_dtype
from palmkit.engine.ops import Results, case, op
from palmkit.engine.ops.dtypes import FLOATS, wide
from palmkit.engine.ops.products import Types, dims_of
from palmkit.engine.ops.rules import need_dtype, need_rank
from palmkit.engine.ops.traits import Family, Traits

OUTPUTS = ("raw", "capped", "biased", "probabilities")
"""What qk_matmul_output_mode makes of the fourth output."""


@dataclass(frozen=True)
class _Sizes:
    batch: int
    heads: int
    key_heads: int
    queries: int
    keys: int
    past: int
    key_size: int
    value_size: int


def _sizes(
    q: Type,
    k: Type,
    v: Type,
    past_key: Type | None,
    past_value: Type | None,
    q_num_heads: int,
    kv_num_heads: int,
) -> _Sizes:
    """Return the sizes of heads and sequences; raise ShapeError if the inputs disagree."""
    rank = need_rank("attention", q, 3, 4)
    need_rank("attention", k, rank, rank)
    need_rank("attention", v, rank, rank)
    if (past_key is None) != (past_value is None):
        raise ShapeError("attention: expected both or none of past_key and past_value")
    if rank == 3:
        if q_num_heads < 1 or kv_num_heads < 1:
            raise ShapeError(f"attention: expected q_num_heads and kv_num_heads for {q}")
        widths = (q.dims[2], q_num_heads), (k.dims[2], kv_num_heads), (v.dims[2], kv_num_heads)
        if any(width % heads for width, heads in widths):
            raise ShapeError(f"attention: the heads do not divide {q}, {k}, {v}")
        q, k, v = (
            Type(x.dtype, (x.dims[0], heads, x.dims[1], width // heads))
            for x, (width, heads) in zip((q, k, v), widths, strict=True)
        )
    batch, heads, queries, size = q.dims
    key_heads, keys, value_size = k.dims[1], k.dims[2], v.dims[3]
    if k.dims != (batch, key_heads, keys, size) or v.dims[:3] != (batch, key_heads, keys):
        raise ShapeError(f"attention: cannot match {q}, {k}, {v}")
    if not key_heads or heads % key_heads:
        raise ShapeError(f"attention: {key_heads} heads of keys do not divide {heads} of queries")
    past = 0
    if past_key is not None and past_value is not None:
        past = need_rank("attention", past_key, 4, 4) and past_key.dims[2]
        if past_key.dims != (batch, key_heads, past, size) or past_value.dims != (
            batch,
            key_heads,
            past,
            value_size,
        ):
            raise ShapeError(f"attention: past {past_key}, {past_value} is not of {k}, {v}")
    return _Sizes(batch, heads, key_heads, queries, keys, past, size, value_size)


def _infer(
    q: Type,
    k: Type,
    v: Type,
    attn_mask: Type | None = None,
    past_key: Type | None = None,
    past_value: Type | None = None,
    nonpad_kv_seqlen: Type | None = None,
    *,
    is_causal: int,
    kv_num_heads: int,
    left_window_size: int,
    q_num_heads: int,
    qk_matmul_output_mode: int,
    right_window_size: int,
    scale: float | None,
    softcap: float,
    softmax_precision: str,
) -> tuple[Type, Type, Type, Type]:
    need_dtype("attention", q, k, among=FLOATS)
    need_dtype("attention", v, among=FLOATS)
    if softmax_precision not in ("", *FLOATS):
        raise ValueError(f"softmax_precision: expected a float dtype, got {softmax_precision}")
    if not 0 <= qk_matmul_output_mode < len(OUTPUTS):
        raise ValueError(f"qk_matmul_output_mode is out of range: {qk_matmul_output_mode}")
    s = _sizes(q, k, v, past_key, past_value, q_num_heads, kv_num_heads)
    total = s.past + s.keys
    if attn_mask is not None:
        need_dtype("attention", attn_mask, among=(*FLOATS, "bool"))
        wanted = (s.batch, s.heads, s.queries, total)
        pairs = zip(reversed(attn_mask.dims), reversed(wanted), strict=False)
        fits = [
            have in (1, want) or (have < want and not i) for i, (have, want) in enumerate(pairs)
        ]
        if not all(fits) or len(attn_mask.dims) > 4:
            raise ShapeError(f"attention: cannot broadcast {attn_mask} to {list(wanted)}")
    if nonpad_kv_seqlen is not None and nonpad_kv_seqlen.dims != (s.batch,):
        raise ShapeError(f"attention: expected {s.batch} lengths, got {nonpad_kv_seqlen}")
    shape: tuple[int, ...] = (s.batch, s.heads, s.queries, s.value_size)
    if len(q.dims) == 3:
        shape = (s.batch, s.queries, s.heads * s.value_size)
    return (
        Type(q.dtype, shape),
        Type(k.dtype, (s.batch, s.key_heads, total, s.key_size)),
        Type(v.dtype, (s.batch, s.key_heads, total, s.value_size)),
        Type(q.dtype, (s.batch, s.heads, s.queries, total)),
    )


def split_heads(x: Array, heads: int) -> Array:
    """Return x[n, length, heads * size] as [n, heads, length, size]; rank 4 stays as it is."""
    if x.ndim == 4:
        return x
    return x.reshape(*x.shape[:2], heads, x.shape[2] // heads).swapaxes(1, 2)


def _bias(
    scores: Array,
    attn_mask: Array | None,
    lengths: Array | None,
    past: int,
    is_causal: int,
    windows: tuple[int, int],
) -> Array:
    """Return the addend of the scores [n, heads, queries, keys]: -inf where a key is hidden."""
    queries, keys = int(scores.shape[2]), int(scores.shape[3])
    minus = scores.dtype.type(-np.inf)
    bias: Array = np.zeros((1, 1, queries, keys), scores.dtype)
    if attn_mask is not None:
        bias = bias + _added(attn_mask, scores)
    key: Array = np.arange(keys)
    offset: Array = np.full((1, 1, 1, 1), past)
    if lengths is not None:
        bias = np.where(key < lengths.reshape(-1, 1, 1, 1), bias, minus)
        offset = lengths.reshape(-1, 1, 1, 1).astype(np.int64) - queries
    ahead: Array = key - (np.arange(queries)[:, None] + offset)
    left, right = windows
    if is_causal:
        bias = np.where(ahead <= 0, bias, minus)
    if left >= 0:
        bias = np.where(ahead >= -left, bias, minus)
    if right >= 0:
        bias = np.where(ahead <= right, bias, minus)
    return bias


def _added(mask: Array, scores: Array) -> Array:
    """Return the mask as numbers to add, one for each key."""
    if mask.dtype == np.bool_:
        mask = np.where(mask, 0, -np.inf)
    missing = scores.shape[-1] - mask.shape[-1]
    if missing and mask.shape[-1] > 1:
        mask = np.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, missing)], constant_values=-np.inf)
    return mask.astype(scores.dtype)


def masked_softmax(x: Array, bias: Array) -> Array:
    """Return the softmax along the last axis; a row that the bias masks whole is zeros."""
    hidden: Array = bias.max(-1, keepdims=True, initial=-np.inf) == -np.inf
    top: Array = x.max(-1, keepdims=True, initial=-np.inf)
    y: Array = np.exp(x - np.where(top == -np.inf, x.dtype.type(0), top))
    total: Array = y.sum(-1, keepdims=True)
    y = y / np.where(total == 0, x.dtype.type(1), total)
    return np.asarray(np.where(hidden, x.dtype.type(0), y))


_MASK = np.array([[True, False, True, True], [False, False, False, False], [True] * 4])


def _macs(node: Node, inputs: Types, outputs: Types) -> int:
    """Count queries by keys, then weights by values; heads are an axis, or part of the last."""
    q, k, v = (dims_of(each) for each in inputs[:3])
    queries, keys = prod(q[:-1]), k[-2]
    if len(q) == 3:
        return queries * keys * (q[-1] + dims_of(outputs[0])[-1])
    return queries * keys * (q[-1] + v[-1])


@op(
    _infer,
    case((2, 4, 3, 8), (2, 4, 5, 8), (2, 4, 5, 6)),
    case((2, 3, 32), (2, 5, 16), (2, 5, 12), q_num_heads=4, kv_num_heads=2),
    case((2, 4, 3, 8), (2, 4, 3, 8), (2, 4, 3, 8), is_causal=1),
    case((2, 4, 3, 8), (2, 4, 5, 8), (2, 4, 5, 8), (3, 5), scale=0.1, softcap=2.0),
    case((2, 2, 3, 8), (2, 2, 4, 8), (2, 2, 4, 8), _MASK),
    case((2, 3, 3, 8), (2, 3, 4, 8), (2, 3, 4, 8), (2, 1, 3, 4)),
    case((1, 2, 3, 8), (1, 2, 4, 8), (1, 2, 4, 8), None, (1, 2, 5, 8), (1, 2, 5, 8), outputs=3),
    case(
        (1, 2, 3, 8),
        (1, 2, 3, 8),
        (1, 2, 3, 8),
        (3, 8),
        (1, 2, 5, 8),
        (1, 2, 5, 8),
        is_causal=1,
        outputs=4,
    ),
    case(
        (2, 2, 3, 8),
        (2, 2, 6, 8),
        (2, 2, 6, 8),
        None,
        None,
        None,
        np.array([4, 6]),
        is_causal=1,
    ),
    case((1, 2, 5, 4), (1, 2, 5, 4), (1, 2, 5, 4), left_window_size=2, right_window_size=1),
    *(
        case((1, 2, 3, 8), (1, 2, 4, 8), (1, 2, 4, 8), (3, 4), qk_matmul_output_mode=m, outputs=4)
        for m in range(4)
    ),
    traits=Traits(family=Family.MATRICES),
    macs=_macs,
)
def attention(
    q: Array,
    k: Array,
    v: Array,
    attn_mask: Array | None = None,
    past_key: Array | None = None,
    past_value: Array | None = None,
    nonpad_kv_seqlen: Array | None = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int = 0,
    left_window_size: int = -1,
    q_num_heads: int = 0,
    qk_matmul_output_mode: int = 0,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: str = "",
) -> Results:
    """softmax(q k^T * scale + mask) v of each head.

    q, k, v: [n, heads, length, size], or [n, length, heads * size]; fewer heads of k and v serve
    several of q each. The past is put before k and v. Returns y, in the shape of q, the keys and
    the values with their past, and the scores [n, heads, queries, keys] as `OUTPUTS` says.
    attn_mask: what is added to the scores, or which keys are seen; missing keys are not.
    nonpad_kv_seqlen: how many of the keys count, for each of the batch.
    Query i stands at i + the length of the past, or at i + nonpad_kv_seqlen - queries; it sees no
    key after it if is_causal, none further off than the windows where those are not -1.
    scale: 1 / sqrt(size) if left out. softcap: if not 0, bounds the scores by tanh.
    Vaswani et al.: Attention Is All You Need, 2017; ONNX operator Attention, opset 25.
    """
    rank = q.ndim
    heads, key_heads = q_num_heads or q.shape[1], kv_num_heads or k.shape[1]
    q, k, v = split_heads(q, heads), split_heads(k, key_heads), split_heads(v, key_heads)
    past = 0
    if past_key is not None and past_value is not None:
        past = past_key.shape[2]
        k, v = np.concatenate([past_key, k], 2), np.concatenate([past_value, v], 2)
    repeats = q.shape[1] // k.shape[1]
    root = q.dtype.type(np.sqrt(1 / np.sqrt(q.shape[3]) if scale is None else scale))
    keys, values = np.repeat(k, repeats, 1), np.repeat(v, repeats, 1)
    scores = np.matmul(wide(q * root), wide(keys.swapaxes(2, 3) * root)).astype(q.dtype)
    stages = {"raw": scores}
    if softcap:
        cap = q.dtype.type(softcap)
        scores = np.tanh(scores / cap) * cap
    windows = left_window_size, right_window_size
    bias = _bias(scores, attn_mask, nonpad_kv_seqlen, past, is_causal, windows)
    stages |= {"capped": scores, "biased": scores + bias}
    weights = masked_softmax(
        stages["biased"].astype(numpy_dtype(softmax_precision or q.dtype.name)), bias
    ).astype(q.dtype)
    stages["probabilities"] = weights
    y = np.matmul(wide(weights), wide(values)).astype(q.dtype)
    if rank == 3:
        y = y.swapaxes(1, 2).reshape(y.shape[0], y.shape[2], -1)
    shown = np.broadcast_to(stages[OUTPUTS[qk_matmul_output_mode]], scores.shape)
    return np.asarray(y), k, v, np.asarray(shown)
