"""bitcast: TFLite's BITCAST (tensorflow/lite/kernels/bitcast.cc)."""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type, numpy_dtype
from palmkit.engine.ops import case, op


def _infer(x: Type, *, to: str) -> Type:
    old, new = numpy_dtype(x.dtype).itemsize, numpy_dtype(to).itemsize
    if new < old:
        return Type(to, (*x.dims, old // new))
    if new > old and (not x.dims or x.dims[-1] != new // old):
        raise ShapeError(f"bitcast: expected a last axis of {new // old} for {to}, got {x}")
    return Type(to, x.dims[:-1] if new > old else x.dims)


@op(
    _infer,
    case((2, 19), to="int32"),
    case((2, 3), to="uint8"),
    case((2, 3, 4), dtype="uint8", to="int32"),
    case((), to="int16"),
)
def bitcast(x: Array, *, to: str) -> Array:
    """The same bytes, little endian, as another dtype.

    A narrower dtype adds a last axis for the parts of each element, a wider one takes it away.
    """
    target = _infer(Type.of(x), to=to)
    return np.frombuffer(x.tobytes(), numpy_dtype(to)).reshape(target.dims)
