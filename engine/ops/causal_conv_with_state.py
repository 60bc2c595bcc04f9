"""The op causal_conv_with_state."""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import Results, case, op
from palmkit.engine.ops.dtypes import FLOATS, wide
from palmkit.engine.ops.rules import need_dtype, need_rank


def _infer(
    x: Type,
    weight: Type,
    bias: Type | None = None,
    past_state: Type | None = None,
    *,
    activation: str,
) -> tuple[Type, Type]:
    given = [each for each in (weight, bias, past_state) if each is not None]
    need_dtype("causal_conv_with_state", x, *given, among=FLOATS)
    need_rank("causal_conv_with_state", x, 3, 3)
    need_rank("causal_conv_with_state", weight, 3, 3)
    n, channels, length = x.dims
    kernel = weight.dims[2]
    if activation not in ("none", "silu", "swish"):
        raise ValueError(f"unknown activation: {activation}")
    if weight.dims != (channels, 1, kernel) or kernel < 1:
        raise ShapeError(f"causal_conv_with_state: {weight} does not fit {x}")
    state = (n, channels, kernel - 1)
    if bias is not None and bias.dims != (channels,):
        raise ShapeError(f"causal_conv_with_state: expected a bias of [{channels}], got {bias}")
    if past_state is not None and past_state.dims != state:
        raise ShapeError(f"causal_conv_with_state: expected {list(state)}, got {past_state}")
    return Type(x.dtype, (n, channels, length)), Type(x.dtype, state)


@op(
    _infer,
    case((2, 3, 8), (3, 1, 4), outputs=2),
    case((2, 3, 8), (3, 1, 4), (3,), (2, 3, 3), activation="silu", outputs=2),
    case((2, 3, 1), (3, 1, 4), (3,), (2, 3, 3), outputs=2),
)
def causal_conv_with_state(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    past_state: Array | None = None,
    *,
    activation: str = "none",
) -> Results:
    """Each channel of x[n, c, length] convolved with weight[c, 1, k] over what came before.

    Returns y and the last k - 1 elements, the past_state of what follows; zeros came first.
    activation: silu, also called swish, is y * sigmoid(y).
    """
    kernel = weight.shape[2]
    state = past_state
    if state is None:
        state = np.zeros((*x.shape[:2], kernel - 1), x.dtype)
    padded = np.concatenate([state, x], 2)
    y = np.zeros_like(wide(x))
    for place in range(kernel):
        y += wide(padded[:, :, place : place + x.shape[2]]) * weight[:, 0, place, None]
    if bias is not None:
        y = y + bias[:, None]
    if activation != "none":
        y = y / (1 + np.exp(-y))
    return y.astype(x.dtype), padded[:, :, padded.shape[2] - kernel + 1 :]
