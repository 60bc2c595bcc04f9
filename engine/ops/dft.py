"""The op dft."""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.rules import known_number, need_dtype, need_rank, positive_axis

MOST_POINTS = 1 << 31


def as_complex(x: Array) -> Array:
    """Return x[..., 1 or 2], whose last axis is real and imaginary part, as complex numbers."""
    wide = x.astype(np.promote_types(x.dtype, np.float32))
    return wide[..., 0] if x.shape[-1] == 1 else wide[..., 0] + np.complex64(1j) * wide[..., 1]


def as_pairs(x: Array, dtype: np.dtype[np.generic]) -> Array:
    """Return complex numbers as [..., 2]."""
    return np.stack([np.real(x), np.imag(x)], -1).astype(dtype)


def _plan(
    x: Type, dft_length: Array | None, axis: Array | None, inverse: int, onesided: int
) -> tuple[int, int, int]:
    """Return the axis, how many points are transformed, and how many come out."""
    which = positive_axis("dft", -2 if axis is None else int(axis.reshape(())), x)
    if which == len(x.dims) - 1:
        raise ShapeError(f"dft: the last axis of {x} holds real and imaginary parts")
    if inverse and onesided and x.dims[-1] != 2:
        raise ShapeError(f"dft: expected complex numbers, got {x}")
    if onesided and not inverse and x.dims[-1] != 1:
        raise ShapeError(f"dft: expected real numbers, got {x}")
    length = x.dims[which]
    points = 2 * (length - 1) if inverse and onesided else length
    if dft_length is not None and dft_length.size:
        points = int(dft_length.reshape(()))
    if not 0 < points < MOST_POINTS:
        raise ShapeError(f"dft: cannot transform {points} points of {x}")
    return which, points, points // 2 + 1 if onesided and not inverse else points


def _infer(
    x: Type,
    dft_length: Type | None = None,
    axis: Type | None = None,
    *,
    inverse: int,
    onesided: int,
) -> Type:
    need_dtype("dft", x, among=FLOATS)
    need_rank("dft", x, 2)
    if x.dims[-1] not in (1, 2):
        raise ShapeError(f"dft: expected real and imaginary parts, got {x}")
    length, place = (None if t is None else known_number(t, "dft") for t in (dft_length, axis))
    which, _, size = _plan(x, length, place, inverse, onesided)
    dims = [size if i == which else dim for i, dim in enumerate(x.dims)]
    dims[-1] = 1 if inverse and onesided else 2
    return Type(x.dtype, tuple(dims))


@op(
    _infer,
    case((2, 10, 1)),
    case((2, 10, 2)),
    case((2, 10, 1), onesided=1),
    case((2, 3, 10, 2), None, np.array(1), inverse=1),
    case((2, 10, 1), np.array(16), onesided=1),
    case((2, 10, 2), np.array(6)),
    case((1, 6, 2), inverse=1, onesided=1),
    case((1, 6, 2), np.array(11), np.array(1), inverse=1, onesided=1),
)
def dft(
    x: Array,
    dft_length: Array | None = None,
    axis: Array | None = None,
    *,
    inverse: int = 0,
    onesided: int = 0,
) -> Array:
    """The discrete Fourier transform along an axis, by default the last but one.

    x: [..., 1] real or [..., 2] complex numbers; cut, or filled up with zeros, to dft_length.
    onesided: only the first half of the spectrum of real numbers, dft_length // 2 + 1 points; the
    inverse takes such a half and gives real numbers.
    """
    which, points, size = _plan(Type.of(x), dft_length, axis, inverse, onesided)
    numbers = as_complex(x)
    if inverse and onesided:
        return np.fft.irfft(numbers, points, which)[..., None].astype(x.dtype)
    transform = np.fft.ifft if inverse else np.fft.fft
    return as_pairs(transform(numbers, points, which).take(range(size), which), x.dtype)
