"""Fourier transforms and complex numbers, which are two values each."""

from __future__ import annotations

from palmkit.engine.converters.tensorflow.site import Site, complex_rule, rule
from palmkit.engine.converters.tensorflow.stand_ins import Complex


def _complex(n: Site, index: int) -> Complex:
    """Return an input as complex numbers; real ones have no imaginary part."""
    value = n.raw(index)
    if isinstance(value, Complex):
        return value
    real = n.value(index)
    zero = n.constant(0, "float32")
    return Complex(real, n.emit("expand", zero, n.emit("shape", real)))


@complex_rule(
    *("AddN", "AddV2", "Add", "Sub", "Neg", "Sum", "Mean", "Identity", "StopGradient", "Snapshot"),
    *("Reshape", "Squeeze", "ExpandDims", "Transpose", "ConcatV2", "Pack", "Slice", "StridedSlice"),
    *("GatherV2", "Tile", "Pad", "ReverseV2", "BroadcastTo", "ZerosLike"),
)
def _part_by_part(n: Site) -> None:
    """Apply the operator to both parts."""
    inputs = [n.raw(index) for index in range(n.count)]
    parts = [
        n.of(each.real if isinstance(each, Complex) else each for each in inputs),
        n.of(each.imaginary if isinstance(each, Complex) else each for each in inputs),
    ]
    n.finish(*(Complex(*map(str, pair)) for pair in zip(*parts, strict=True)))


@complex_rule("Mul")
def _mul(n: Site) -> None:
    a, b = _complex(n, 0), _complex(n, 1)
    real = n.emit("sub", n.emit("mul", a.real, b.real), n.emit("mul", a.imaginary, b.imaginary))
    first, second = n.emit("mul", a.real, b.imaginary), n.emit("mul", a.imaginary, b.real)
    n.finish(Complex(real, n.emit("add", first, second)))


@complex_rule("Exp")
def _exp(n: Site) -> None:
    x = _complex(n, 0)
    size = n.emit("exp", x.real)
    parts = [n.emit("mul", size, n.emit(op, x.imaginary)) for op in ("cos", "sin")]
    n.finish(Complex(*parts))


@complex_rule("Conj")
def _conj(n: Site) -> None:
    x = _complex(n, 0)
    n.finish(Complex(x.real, n.emit("neg", x.imaginary)))


@complex_rule("Cast")
def _cast(n: Site) -> None:
    """Cast to real numbers, which drops the imaginary parts."""
    x = _complex(n, 0)
    is_complex = n.attrs["DstT"].type in (8, 18) if n.has("DstT") else False
    n.finish(x if is_complex else n.emit("cast", x.real, to=n.dtype("DstT")))


@complex_rule("Real")
def _real(n: Site) -> None:
    n.finish(_complex(n, 0).real)


@complex_rule("Imag")
def _imag(n: Site) -> None:
    n.finish(_complex(n, 0).imaginary)


@complex_rule("ComplexAbs")
def _abs(n: Site) -> None:
    x = _complex(n, 0)
    squares = [n.emit("mul", part, part) for part in (x.real, x.imaginary)]
    n.finish(n.emit("sqrt", n.emit("add", *squares)))


@complex_rule("Angle")
def _angle(n: Site) -> None:
    x = _complex(n, 0)
    n.finish(n.emit("atan2", x.imaginary, x.real))


@rule("Complex")
def _pair(n: Site) -> None:
    n.finish(Complex(n.value(0), n.value(1)))


@rule("RFFT")
def _rfft(n: Site) -> None:
    """Transform the last axis, cut off or filled up with zeros to fft_length."""
    x = n.emit("unsqueeze", n.value(0), n.int64(-1))
    n.finish(_parts(n, n.emit("dft", x, _length(n), _axis(n), onesided=1)))


@complex_rule("IRFFT")
def _irfft(n: Site) -> None:
    y = n.emit("dft", _joined(n), _length(n), _axis(n), inverse=1, onesided=1)
    n.finish(n.emit("squeeze", y, n.int64(-1)))


@complex_rule("FFT", "IFFT")
def _fft(n: Site) -> None:
    n.finish(_parts(n, n.emit("dft", _joined(n), "", _axis(n), inverse=int(n.op == "IFFT"))))


def _axis(n: Site) -> str:
    return n.constant(-2, "int64")


def _length(n: Site) -> str:
    return n.emit("reshape", n.as_int64(n.value(1)), n.int64())


def _joined(n: Site) -> str:
    x, last = _complex(n, 0), n.int64(-1)
    parts = [n.emit("unsqueeze", part, last) for part in (x.real, x.imaginary)]
    return n.emit("concat", *parts, axis=-1)


def _parts(n: Site, value: str) -> Complex:
    """Return [..., 2] as complex numbers."""
    real, imaginary = (
        n.emit("gather", value, n.constant(part, "int64"), axis=-1) for part in (0, 1)
    )
    return Complex(real, imaginary)
