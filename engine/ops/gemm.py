"""The op gemm."""

from math import prod

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Node, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.dtypes import NUMBERS, is_float, wide
from palmkit.engine.ops.products import Types, dims_of
from palmkit.engine.ops.rules import need_broadcast_to, need_dtype, need_rank
from palmkit.engine.ops.traits import Layer, Traits


def _infer(
    a: Type,
    b: Type,
    c: Type | None = None,
    *,
    alpha: float,
    beta: float,
    transA: int,
    transB: int,
) -> Type:
    need_dtype("gemm", a, b, *([] if c is None else [c]), among=NUMBERS)
    need_rank("gemm", a, 2, 2)
    need_rank("gemm", b, 2, 2)
    m, k = reversed(a.dims) if transA else a.dims
    k_of_b, n = reversed(b.dims) if transB else b.dims
    if k != k_of_b:
        raise ShapeError(f"gemm: cannot multiply {a} by {b}, transA={transA}, transB={transB}")
    y = Type(a.dtype, (m, n))
    if c is not None:
        need_broadcast_to("gemm", c, y)
    return y


def _macs(node: Node, inputs: Types, outputs: Types) -> int:
    rows, columns = dims_of(inputs[0])
    return prod(dims_of(outputs[0])) * (rows if node.integer("transA") else columns)


@op(
    _infer,
    case((3, 70), (70, 5)),
    case((3, 7), (7, 5), (5,)),
    case((7, 3), (5, 7), (3, 5), transA=1, transB=1),
    case((1, 70), (33, 70), (33,), transB=1),
    case((3, 7), (7, 5), (3, 1), alpha=0.5, beta=2.0),
    case((3, 7), (7, 5), (), alpha=0.5),
    case((3, 7), (7, 5), (1, 5), beta=0.0),
    case((0, 7), (7, 5)),
    case(
        (1, 70),
        np.linspace(-1, 1, 33 * 70, dtype=np.float32).reshape(33, 70),
        np.linspace(-1, 1, 33, dtype=np.float32),
        transB=1,
    ),
    traits=Traits(layer=Layer.MATRIX),
    macs=_macs,
)
def gemm(
    a: Array,
    b: Array,
    c: Array | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Array:
    """y = alpha * a b + beta * c, a and b transposed if asked; c is broadcast."""
    y = wide(a.T if transA else a) @ wide(b.T if transB else b)
    if alpha != 1:
        y = np.asarray(alpha * y, y.dtype if is_float(y) else np.float64)
    if c is not None and beta:
        y = y + (wide(c) if beta == 1 else beta * wide(c))
    return np.asarray(y).astype(a.dtype, copy=False)
