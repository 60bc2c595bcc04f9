"""The op fused_conv_transpose."""

import numpy as np

from palmkit.engine.ir import Array, Attr, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.conv_transpose import conv_transpose
from palmkit.engine.ops.fused_conv import activate, check_activation
from palmkit.engine.ops.products import macs_of_transposed_kernel
from palmkit.engine.ops.traits import Layer, Traits


def _infer(
    x: Type,
    w: Type,
    b: Type | None = None,
    slope: Type | None = None,
    *,
    activation: str,
    activation_params: tuple[float, ...],
    **attrs: Attr,
) -> Type:
    y = conv_transpose.infer(x, w, b, **attrs)
    assert isinstance(y, Type)
    check_activation("fused_conv_transpose", y, activation, activation_params, slope)
    return y


_X = (1, 8, 6, 5)
_W = np.linspace(-1, 1, 8 * 3 * 9, dtype=np.float32).reshape(8, 3, 3, 3)
_TILES = np.linspace(-1, 1, 8 * 9 * 4, dtype=np.float32).reshape(8, 9, 2, 2)
_B = np.linspace(-1, 1, 9, dtype=np.float32)
_SLOPE = np.linspace(0, 1, 9, dtype=np.float32).reshape(9, 1, 1)


@op(
    _infer,
    case(_X, _W, activation="clip", activation_params=(0.0, 6.0), strides=(2, 2)),
    case(_X, _W, None, _SLOPE[:3], activation="prelu", auto_pad="SAME_UPPER", strides=(2, 2)),
    case(_X, _TILES, _B, _SLOPE, activation="prelu", strides=(2, 2)),
    case(_X, _TILES[:, :1], _B[:1], activation="sigmoid", strides=(2, 2)),
    case(_X, _TILES, _B, activation="hard_swish", strides=(2, 3)),
    case(_X, _W, activation="leaky_relu", activation_params=(0.1,), group=2, strides=(3, 1)),
    case(_X, _W, activation="elu", activation_params=(1.0,), strides=(4, 4), dilations=(2, 2)),
    like=conv_transpose.attributes,
    traits=Traits(layer=Layer.TRANSPOSED, is_fused=True),
    macs=macs_of_transposed_kernel,
)
def fused_conv_transpose(
    x: Array,
    w: Array,
    b: Array | None = None,
    slope: Array | None = None,
    *,
    activation: str = "",
    activation_params: tuple[float, ...] = (),
    **attrs: Attr,
) -> Array:
    """y = activation(conv_transpose(x, w, b)); slope and activation_params are as in fused_conv."""
    y = np.asarray(conv_transpose.reference(x, w, b, **attrs))
    return activate(y, activation, activation_params, slope)
