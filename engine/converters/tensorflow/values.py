"""What is known of a value while the graph is built: its type, and parts of its value.

Unknown dims are tried at two sizes at once, with the type rules of the ops themselves: dims that
come out the same both times are static, dims that differ are not known. For a small value that is
computed from shapes, a mask says which elements depend on static dims only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from palmkit.engine.errors import ModelError, PalmError
from palmkit.engine.ir import Array, Dim, Known, Node, Type
from palmkit.engine.ops import infer_outputs, run_reference

# The second is odd at every halving, so what holds only for even sizes does not hold for both.
_SIZES = (384, 577)
_MOST_RANK = 32
_MOVING = (
    "cast",
    "concat",
    "expand",
    "gather",
    "identity",
    "reshape",
    "slice",
    "split",
    "squeeze",
    "transpose",
    "unsqueeze",
)
_ELEMENTWISE = ("abs", "add", "div", "equal", "greater", "less", "max", "min", "mul", "neg", "sub")
# Ops whose results have the rank of their first input.
_RANK_KEPT = (
    "average_pool",
    "batch_normalization",
    "cast",
    "clip",
    "compress",
    "conv",
    "conv_transpose",
    "cum_sum",
    "depth_to_space",
    "log_softmax",
    "lrn",
    "max_pool",
    "pad",
    "resize",
    "reverse_sequence",
    "scatter_nd",
    "slice",
    "softmax",
    "space_to_depth",
    "split",
    "tile",
    "top_k",
    "transpose",
    "trilu",
)
# Ops whose results have the highest rank of their inputs.
_BROADCASTING = (
    *("add", "and", "div", "equal", "greater", "greater_or_equal", "less", "less_or_equal"),
    *("matmul", "max", "min", "mod", "mul", "or", "pow", "sub", "where", "xor"),
)
# Dtype and rank of each result of TensorFlow's own operators.
_OWN = {
    "combined_non_max_suppression": (("float32", 3), ("float32", 2), ("float32", 2), ("int32", 1)),
    "crop_and_resize": (("float32", 4),),
    "non_max_suppression_v5": (("int32", 1), ("float32", 1), ("int32", 0)),
    "resize_bicubic": (("float32", 4),),
}
_BOOLS = ("equal", "greater", "greater_or_equal", "less", "less_or_equal")
# Ops whose results' sizes depend on the values of the inputs after the first (range: of all); only
# sure values are taken for sizes.
_SIZED_BY_VALUES = ("slice", "top_k", "range", "tile", "pad", "resize", "non_max_suppression")


@dataclass(frozen=True)
class Fact:
    """A value's type at both sizes of the unknown dims.

    sure: for a value that is Known in both, which elements hold whatever the dims are.
    """

    types: tuple[Type, Type]
    sure: Array | None = None

    @staticmethod
    def of(array: Array) -> Fact:
        """Return the fact of a constant."""
        known = Known.of(array)
        return Fact((known, known), np.broadcast_to(np.True_, array.shape))

    @staticmethod
    def typed(type: Type) -> Fact:
        """Return the fact of a value of this type, whose dims may be names."""
        both = (
            Type(type.dtype, tuple(d if isinstance(d, int) else size for d in type.shape))
            for size in _SIZES
        )
        first, second = both
        return Fact((first, second))

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The dims; None for one that is not static."""
        first, second = self.types
        return tuple(a if a == b else None for a, b in zip(first.dims, second.dims, strict=True))

    @property
    def value(self) -> Array | None:
        """The value, if all of it is sure."""
        first = self.types[0]
        if isinstance(first, Known) and self.sure is not None and self.sure.all():
            return first.value
        return None

    def as_type(self, name: str) -> Type:
        """Return the type, with unknown dims named after value and axis."""
        shape: tuple[Dim, ...] = tuple(
            f"{name}.{axis}" if dim is None else dim for axis, dim in enumerate(self.shape)
        )
        return Type(self.types[0].dtype, shape)


def infer(node: Node, inputs: Sequence[Fact | None]) -> tuple[Fact, ...]:
    """Return the facts of the node's outputs, () if nothing is known.

    inputs: what is known of each input; None for one left out.
    Raises ModelError if inputs that are static do not fit the op.
    """
    outcomes: list[tuple[Type, ...]] = []
    for which in (0, 1):
        types = [_seen(node.op, i, each, which) for i, each in enumerate(inputs)]
        try:
            found = infer_outputs(node, types)
        except (PalmError, MemoryError):
            if all(each is None or None not in each.shape for each in inputs):
                raise
            found = ()
        outcomes.append(found or _guessed(node, types, which))
    first, second = outcomes
    if not first or not second:
        return ()
    facts: list[Fact] = []
    for number, (a, b) in enumerate(zip(first, second, strict=True)):
        if len(a.shape) != len(b.shape):
            return ()
        sure = None
        if isinstance(a, Known) and isinstance(b, Known):
            sure = _sureness(node, inputs, number, a)
        facts.append(Fact((a, b), sure))
    return tuple(facts)


def _seen(op: str, index: int, fact: Fact | None, which: int) -> Type | None:
    """Return the input's type as the type rule sees it."""
    if fact is None:
        return None
    type = fact.types[which]
    sizes = op in _SIZED_BY_VALUES and (index > 0 or op == "range")
    if sizes and isinstance(type, Known) and fact.value is None:
        return Type(type.dtype, type.shape)
    return type


def _guessed(node: Node, types: Sequence[Type | None], which: int) -> tuple[Type, ...]:
    """Return at least the rank of results whose sizes only a run gives, () if unknown."""
    given = [type for type in types if type is not None]
    x, size, op = given[0], _SIZES[which], node.op
    dtype, rank = x.dtype, -1
    if op in ("reshape", "expand") and len(given) == 2 and len(given[1].dims) == 1:
        rank = given[1].dims[0]
    elif op == "range":
        rank = 1
    elif op in _BROADCASTING:
        dtype = "bool" if op in _BOOLS else given[-1].dtype
        if op != "matmul":
            return (Type(dtype, _widest(given)),)
        rank = max(len(type.shape) for type in given)
    elif op == "concat":
        return (Type(dtype, _joined(given, int(str(node.attrs["axis"])))),)
    elif op == "squeeze" and len(given) == 2:
        rank = len(x.shape) - given[1].elements
    elif op == "unsqueeze":
        rank = len(x.shape) + given[1].elements
    elif op == "gather":
        rank = len(x.shape) + len(given[1].shape) - 1
    elif op == "gather_nd":
        last, batch = given[1].dims[-1], node.attrs.get("batch_dims", 0)
        rank = len(x.shape) + len(given[1].shape) - 1 - last - int(str(batch))
    elif op == "einsum" and "->" in (equation := str(node.attrs["equation"])):
        rank = -1 if "." in equation else len(equation.split("->")[1].strip())
    elif op == "one_hot":
        dtype, rank = given[2].dtype, len(x.shape) + 1
    elif op.startswith("reduce_") and len(given) == 2:
        gone = 0 if node.attrs.get("keepdims", 1) else given[1].elements
        rank = len(x.shape) - gone
    elif op in _OWN:
        return tuple(Type(each, (size,) * count) for each, count in _OWN[op])
    elif op == "non_max_suppression":
        return (Type("int64", (size, 3)),)
    elif op == "non_zero":
        return (Type("int64", (len(x.shape), size)),)
    elif op == "unique" and "axis" not in node.attrs:
        found = (Type(dtype, (size,)), *[Type("int64", (size,))] * 3)
        return found[: len(node.outputs)]
    elif op in _RANK_KEPT:
        rank = len(x.shape)
        dtype = str(node.attrs.get("to", dtype))
    if not 0 <= rank <= _MOST_RANK:
        return ()
    found = (Type(dtype, (size,) * rank),) * len(node.outputs)
    return (found[0], Type("int64", found[0].shape)) if op == "top_k" else found


def _widest(types: Sequence[Type]) -> tuple[int, ...]:
    """Return the greatest dim along each axis, counted from the back."""
    rank = max(len(type.shape) for type in types)
    padded = [(0,) * (rank - len(type.dims)) + type.dims for type in types]
    return tuple(map(max, zip(*padded, strict=True)))


def _joined(types: Sequence[Type], axis: int) -> tuple[int, ...]:
    """Return the dims of a concatenation along the axis."""
    dims = list(types[0].dims)
    if any(len(type.dims) != len(dims) for type in types):
        raise ModelError(f"cannot join {', '.join(map(str, types))}")
    dims[axis] = sum(type.dims[axis] for type in types)
    return tuple(dims)


def _sureness(node: Node, inputs: Sequence[Fact | None], number: int, result: Known) -> Array:
    """Return which elements of a result depend on sure elements only."""
    given = [each for each in inputs if each is not None]
    if node.op == "shape":
        start, end = int(node.attrs.get("start", 0)), node.attrs.get("end")  # type: ignore[arg-type]
        dims = given[0].shape[start : None if end is None else int(end)]  # type: ignore[arg-type]
        return np.array([dim is not None for dim in dims], np.bool_).reshape(result.dims)
    if node.op == "size":
        return np.full(result.dims, None not in given[0].shape)
    masks = [_mask(each) for each in given]
    if all(mask.all() for mask in masks):
        return np.ones(result.dims, np.bool_)
    parameters = given if node.op == "concat" else given[1:]
    if node.op in _MOVING and (node.op == "concat" or all(_mask(p).all() for p in parameters)):
        moved: list[Array | None] = []
        for i, each in enumerate(inputs):
            is_moved = each is not None and (i == 0 or node.op == "concat")
            if each is None or is_moved:
                moved.append(None if each is None else _mask(each).astype(np.int64))
            else:
                moved.append(each.value)
        if node.op == "cast":
            return _mask(given[0])
        return np.asarray(run_reference(node, moved)[number] != 0)
    if node.op in _ELEMENTWISE:
        return np.asarray(np.logical_and.reduce(np.broadcast_arrays(*masks)))
    return np.zeros(result.dims, np.bool_)


def _mask(fact: Fact) -> Array:
    return np.zeros(fact.types[0].dims, np.bool_) if fact.sure is None else fact.sure
