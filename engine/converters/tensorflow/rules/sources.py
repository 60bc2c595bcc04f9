"""Where values come from, and what passes them on."""

from __future__ import annotations

import numpy as np

from palmkit.engine.converters.tensorflow.building import Missing, Site, rule
from palmkit.engine.converters.tensorflow.schema import DTYPES, dtype_name
from palmkit.engine.converters.tensorflow.tensors import constant


@rule("Const", "HostConst")
def _const(n: Site) -> None:
    """A large tensor of few stored elements stays an expand: the file may be much smaller."""
    tensor = n.attrs["value"].tensor
    dtype = dtype_name(tensor.dtype)
    if dtype not in DTYPES.values():
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


@rule("_Variable")
def _variable(n: Site) -> None:
    """A variable of a SavedModel with the value it was saved with."""
    n.finish(n.building.constant(n.operation.value, n.name))


@rule("_Missing")
def _missing(n: Site) -> None:
    n.finish(Missing(n.operation.value))


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
    """start + i (stop - start) / (num - 1)."""
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
    """An int64 value in the dtype that an attribute names, int32 without it."""
    dtype = n.dtype(attribute, "int32")
    return value if dtype == "int64" else n.emit("cast", value, to=dtype)


@rule("Cast")
def _cast(n: Site) -> None:
    n.finish(n.emit("cast", n.value(0), to=n.dtype("DstT")))
