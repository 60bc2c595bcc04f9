"""Operators that make values, and those that pass them on."""

from __future__ import annotations

import numpy as np

from palmkit.engine.converters.tensorflow.schema import DTYPES, QUANTIZED, dtype_name
from palmkit.engine.converters.tensorflow.site import Site, rule
from palmkit.engine.converters.tensorflow.stand_ins import Complex, Missing
from palmkit.engine.converters.tensorflow.tensors import complex_parts, constant


@rule("Const", "HostConst")
def _const(n: Site) -> None:
    """Add a constant; a large tensor of few stored elements stays an expand, to keep it small."""
    tensor = n.attrs["value"].tensor
    dtype = dtype_name(tensor.dtype)
    if dtype == "complex64":
        real, imaginary = complex_parts(tensor, n.operation.label)
        n.finish(Complex(n.constant(real, "float32"), n.constant(imaginary, "float32")))
        return
    if dtype not in DTYPES.values() and dtype not in QUANTIZED:
        n.finish(Missing(f"constant {n.name} of {dtype}"))
        return
    found = constant(tensor, n.operation.label)
    if found.is_small:
        n.finish(n.building.constant(found.array(), n.name))
        return
    stored = found.values if len(found.values) else np.zeros(1, found.values.dtype)
    last = n.building.constant(np.array(stored[-1]), f"{n.name}/last")
    if len(stored) <= 1:
        n.finish(n.emit("expand", last, n.int64(*found.shape)))
        return
    rest = n.emit("expand", last, n.int64(found.missing))
    flat = n.emit("concat", n.building.constant(stored, f"{n.name}/first"), rest, axis=0)
    n.finish(n.emit("reshape", flat, n.int64(*found.shape), allowzero=1))


@rule(
    "Identity",
    "StopGradient",
    "PreventGradient",
    "CheckNumerics",
    "Snapshot",
    "EnsureShape",
    "PlaceholderWithDefault",
    "ReadVariableOp",
    "Print",
    "RefIdentity",
    "LoopCond",
    "_EagerConst",
    "OptimizationBarrier",
    "DeepCopy",
    "XlaSharding",
)
def _identity(n: Site) -> None:
    n.finish(n.raw(0))


@rule("IdentityN")
def _identity_n(n: Site) -> None:
    n.finish(*(n.raw(index) for index in range(n.count)))


@rule("ZerosLike", "OnesLike")
def _zeros_like(n: Site) -> None:
    zero = n.constant(int(n.op == "OnesLike"), n.dtype())
    n.finish(n.emit("expand", zero, n.emit("shape", n.value(0))))


@rule("Fill")
def _fill(n: Site) -> None:
    n.finish(n.emit("expand", n.value(1), n.as_int64(n.value(0))))


@rule("Range")
def _range(n: Site) -> None:
    n.finish(n.emit("range", *n.values()))


@rule("LinSpace")
def _lin_space(n: Site) -> None:
    """Write start + i (stop - start) / (num - 1)."""
    dtype = n.dtype()
    count = n.emit("cast", n.value(2), to="int64")
    places = n.emit("range", n.constant(0, "int64"), count, n.constant(1, "int64"))
    places = n.emit("cast", places, to=dtype)
    last = n.emit("max", n.emit("sub", count, n.constant(1, "int64")), n.constant(1, "int64"))
    distance = n.emit("sub", n.value(1), n.value(0))
    step = n.emit("div", distance, n.emit("cast", last, to=dtype))
    n.finish(n.emit("add", n.emit("mul", places, step), n.value(0)))


@rule("Shape")
def _shape(n: Site) -> None:
    shape = n.emit("shape", n.value(0))
    n.finish(_as(n, shape, "out_type"))


@rule("ShapeN")
def _shape_n(n: Site) -> None:
    n.finish(*(_as(n, n.emit("shape", value), "out_type") for value in n.values()))


@rule("Size")
def _size(n: Site) -> None:
    n.finish(_as(n, n.emit("size", n.value(0)), "out_type"))


@rule("Rank")
def _rank(n: Site) -> None:
    fact = n.fact(0)
    if fact is not None:
        n.finish(n.constant(len(fact.shape), "int32"))
    else:
        rank = n.emit("size", n.emit("shape", n.value(0)))
        n.finish(n.emit("cast", rank, to="int32"))


def _as(n: Site, value: str, attribute: str) -> str:
    """Return an int64 value in the dtype that an attribute names, int32 without it."""
    dtype = n.dtype(attribute, "int32")
    return value if dtype == "int64" else n.emit("cast", value, to=dtype)


@rule("Cast")
def _cast(n: Site) -> None:
    n.finish(n.emit("cast", n.value(0), to=n.dtype("DstT")))


_RANDOM = {
    "RandomStandardNormal": "random_normal_like",
    "RandomUniform": "random_uniform_like",
    "StatelessRandomNormalV2": "random_normal_like",
    "StatelessRandomUniformV2": "random_uniform_like",
}


@rule("StatelessRandomGetKeyCounter")
def _random_key(n: Site) -> None:
    """Ignore keys: random generators here have keys of their own."""
    n.finish(Missing("the key of a random number"), Missing("the counter of a random number"))


@rule(*_RANDOM)
def _random(n: Site) -> None:
    """Draw from the same distribution, though other numbers than TensorFlow's."""
    shape = n.emit("expand", n.constant(0, n.dtype("dtype")), n.as_int64(n.value(0)))
    n.finish(n.emit(_RANDOM[n.op], shape))


_QUANTIZED_RANGES = {11: (-128, 127), 12: (0, 255), 13: (-(2**31), 2**31 - 1)}


@rule("Dequantize")
def _dequantize(n: Site) -> None:
    """Dequantize constants, as graph_transforms wrote them.

    Source: tensorflow/core/kernels/dequantize_op.cc. Other values have no rule.
    """
    kind = n.attrs["T"].type if n.has("T") else 0
    mode = n.text("mode", "MIN_COMBINED")
    if kind not in _QUANTIZED_RANGES or n.integer("axis", -1) != -1:
        raise n.unsupported("such a dtype or axis")
    least, most = _QUANTIZED_RANGES[kind]
    stored = n.array(0).astype(np.float64)
    low, high = (float(n.array(index).reshape(())) for index in (1, 2))
    if mode == "MIN_COMBINED":
        half = (most - least + 1) / 2 if least < 0 else 0
        found = low + (stored + half) * ((high - low) / (most - least))
    elif mode == "MIN_FIRST":
        step = (high - low) / (most - least)
        start = np.rint(low / step) * step if step else low
        found = start + (stored - least) * step
    else:
        negative = low / least if least else 0.0
        found = stored * max(negative, high / most)
    n.finish(n.constant(found, n.dtype("dtype")))


@rule("Bitcast")
def _bitcast(n: Site) -> None:
    """Write a bitcast; quantized numbers already are the integers that they are stored as."""
    names = [dtype_name(n.attrs[key].type) for key in ("T", "type")]
    source, target = (QUANTIZED.get(name, name) for name in names)
    n.finish(n.raw(0) if source == target else n.emit("bit_cast", n.value(0), to=target))
