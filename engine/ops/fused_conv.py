"""The op fused_conv."""

import numpy as np

from palmkit.engine.errors import ShapeError, UnsupportedError
from palmkit.engine.ir import Array, Attr, Type
from palmkit.engine.ops import Case, case, find, op, traits_of
from palmkit.engine.ops.conv import conv
from palmkit.engine.ops.products import macs_of_kernel
from palmkit.engine.ops.rules import need_broadcast_to, need_dtype
from palmkit.engine.ops.traits import Layer, Traits


def parameters_of(activation: str) -> tuple[str, ...]:
    """Return which attributes (of clip: inputs) of an activation are activation_params.

    Raises ValueError for an op that no layer can apply to its sums.
    """
    if not activation:
        return ()
    try:
        names = traits_of(activation).activation
    except UnsupportedError:
        names = None
    if names is None:
        raise ValueError(f"activation: expected one that a layer can do, got {activation}")
    return names


def activate(x: Array, activation: str, params: tuple[float, ...], slope: Array | None) -> Array:
    """Return the activation of x, as the op of that name computes it."""
    if not activation:
        return x
    inputs: list[Array] = [] if slope is None else [slope]
    attrs: dict[str, Attr] = {}
    if activation == "clip":
        inputs = [np.asarray(param, x.dtype) for param in params]
    else:
        attrs = dict(zip(parameters_of(activation), params, strict=True))
    return np.asarray(find(activation).reference(x, *inputs, **attrs))


def check_activation(
    op: str, y: Type, activation: str, params: tuple[float, ...], slope: Type | None
) -> None:
    """Raise ValueError or ShapeError unless the activation and its parameters are valid for y."""
    if len(params) != len(parameters_of(activation)):
        raise ValueError(f"{activation} takes {parameters_of(activation)}")
    if (slope is not None) != (activation == "prelu"):
        raise ValueError("slope and activation prelu go together")
    if slope is not None:
        need_dtype(op, y, slope, among=(y.dtype,))
        need_broadcast_to(op, slope, y)


def _infer(
    x: Type,
    w: Type,
    b: Type | None = None,
    z: Type | None = None,
    slope: Type | None = None,
    *,
    activation: str,
    activation_params: tuple[float, ...],
    **attrs: Attr,
) -> Type:
    y = conv.infer(x, w, b, **attrs)
    assert isinstance(y, Type)
    if z is not None:
        need_dtype("fused_conv", y, z, among=(y.dtype,))
        fits = len(z.shape) == len(y.shape) and z.dims[1] <= y.dims[1]
        if not fits or (z.dims[0], *z.dims[2:]) != (y.dims[0], *y.dims[2:]):
            raise ShapeError(f"fused_conv: cannot add {z} to {y}")
    check_activation("fused_conv", y, activation, activation_params, slope)
    return y


_W = np.linspace(-1, 1, 16 * 9 * 8, dtype=np.float32).reshape(16, 8, 3, 3)
_B = np.linspace(-1, 1, 16, dtype=np.float32)
_DEPTHWISE = np.linspace(-1, 1, 19 * 9, dtype=np.float32).reshape(19, 1, 3, 3)
_POINTWISE = np.linspace(-1, 1, 21 * 19, dtype=np.float32).reshape(21, 19, 1, 1)
_X = (1, 8, 7, 6)
_INFINITY = float("inf")


def _same(*inputs: tuple[int, ...] | Array | None, **attrs: Attr) -> Case:
    """Return a case whose pads keep height and width."""
    return Case(case(*inputs).inputs, {"pads": (1, 1, 1, 1), **attrs})


@op(
    _infer,
    _same(_X, _W, _B),
    _same(_X, _W, _B, activation="clip", activation_params=(0.0, _INFINITY)),
    _same(_X, _W, activation="clip", activation_params=(0.0, 6.0)),
    _same(_X, _W, _B, (1, 16, 7, 6)),
    _same(_X, _W, None, (1, 5, 7, 6), activation="hard_swish"),
    _same(_X, _W, _B, (1, 16, 7, 6), activation="clip", activation_params=(0.0, 6.0)),
    _same(_X, _W, _B, None, np.abs(_B).reshape(16, 1, 1), activation="prelu"),
    _same(_X, _W, _B, (1, 3, 7, 6), np.abs(_B).reshape(1, 16, 1, 1), activation="prelu"),
    _same(_X, _W, _B, None, np.full((1, 1, 1), 0.3, np.float32), activation="prelu"),
    _same(_X, _W, _B, activation="leaky_relu", activation_params=(0.1,)),
    _same(_X, _W, _B, activation="elu", activation_params=(1.0,)),
    _same(_X, _W, _B, activation="hard_sigmoid", activation_params=(0.25, 0.5)),
    _same(_X, _W, _B, activation="tanh"),
    _same(_X, _W, _B, activation="gelu"),
    _same(_X, _W, _B, activation="mish"),
    _same(_X, _W, _B, (1, 16, 7, 6), activation="swish", activation_params=(1.5,)),
    case(_X, _W, _B, activation="sigmoid", strides=(2, 2), auto_pad="SAME_UPPER"),
    _same(
        (1, 19, 9, 8),
        _DEPTHWISE,
        None,
        (1, 19, 9, 8),
        activation="clip",
        activation_params=(0.0, 6.0),
        group=19,
    ),
    case(
        (1, 19, 9, 8),
        _DEPTHWISE,
        activation="hard_swish",
        group=19,
        auto_pad="SAME_UPPER",
        strides=(2, 2),
    ),
    case(
        (1, 19, 5, 7),
        _POINTWISE,
        None,
        (1, 19, 5, 7),
        activation="clip",
        activation_params=(0.0, _INFINITY),
    ),
    like=conv.attributes,
    traits=Traits(layer=Layer.CONVOLUTION, fused="fused_conv", is_fused=True),
    macs=macs_of_kernel,
)
def fused_conv(
    x: Array,
    w: Array,
    b: Array | None = None,
    z: Array | None = None,
    slope: Array | None = None,
    *,
    activation: str = "",
    activation_params: tuple[float, ...] = (),
    **attrs: Attr,
) -> Array:
    """y = activation(conv(x, w, b) + z), after ONNX Runtime's FusedConv.

    z may have fewer channels than y: those it lacks count as zero.
    slope: of prelu only, as that op takes it.
    activation_params: of clip (min, max), elu (alpha), hard_sigmoid (alpha, beta), leaky_relu
    (alpha), swish (alpha), in this order; relu is clip (0, inf), gelu the one with erf.
    """
    y = np.array(conv.reference(x, w, b, **attrs))
    if z is not None:
        y[:, : z.shape[1]] += z
    return activate(y, activation, activation_params, slope)
