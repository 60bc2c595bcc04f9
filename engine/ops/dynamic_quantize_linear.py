"""The op dynamic_quantize_linear."""

import numpy as np

from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import Results, case, op
from palmkit.engine.ops.quantization import narrowed
from palmkit.engine.ops.rules import need_dtype
from palmkit.engine.ops.traits import Family, Traits


def _infer(x: Type) -> tuple[Type, Type, Type]:
    need_dtype("dynamic_quantize_linear", x, among=["float32"])
    return Type("uint8", x.shape), Type("float32", ()), Type("uint8", ())


@op(
    _infer,
    case((3, 7), outputs=3),
    case(np.array([1, 2, 3.5], np.float32), outputs=3),
    case(np.array([-1, -2, -3.5], np.float32), outputs=3),
    case(np.zeros(3, np.float32), outputs=3),
    traits=Traits(family=Family.QUANTIZATION),
)
def dynamic_quantize_linear(x: Array) -> Results:
    """x as uint8 over its own range, 0 included; with its scale and zero point."""
    low, high = min(x.min(initial=0), 0), max(x.max(initial=0), 0)
    scale = np.float32(high - low) / np.float32(255)
    if not scale:
        scale = np.float32(1)
    zero = np.clip(np.rint((0 - low) / scale), 0, 255)
    y = narrowed(np.rint(x / scale) + zero, "uint8")
    return y, np.array(scale, np.float32), np.array(zero).astype(np.uint8)
