"""The op loop."""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Graph, Type, numpy_dtype
from palmkit.engine.ops import Results, Undetermined, op
from palmkit.engine.ops.bodies import run_body
from palmkit.engine.ops.if_ import is_true
from palmkit.engine.ops.traits import Family, Traits


def _infer(
    m: Type | None, cond: Type | None = None, *values: Type, body: Graph, captures: int
) -> tuple[Type, ...]:
    raise Undetermined("loop: how often it runs, and what it leaves, is known at run time only")


def stack(rows: list[Array], declared: Type, axis: int = 0) -> Array:
    """Return the rows along a new axis; without any, an empty array of the declared type."""
    if rows:
        return np.stack(rows, axis)
    dims = [dim if isinstance(dim, int) else 0 for dim in declared.shape if declared.has_rank]
    dims.insert(axis if axis >= 0 else len(dims) + 1 + axis, 0)
    known = declared.dtype if declared.dtype != "undefined" else "float32"
    return np.zeros(dims, numpy_dtype(known))


@op(_infer, traits=Traits(family=Family.CONTROL))
def loop(
    m: Array | None, cond: Array | None = None, *values: Array, body: Graph, captures: int
) -> Results:
    """Run the body until its condition is false, at most m times.

    values: those carried from one turn to the next, then `captures` values that every turn reads.
    body: a graph from (turn, cond, *carried, *captured) to (cond, *carried, *rows).
    Returns the carried values after the last turn, then the rows of all turns stacked.
    """
    count = len(values) - captures
    carried, captured = list(values[:count]), values[count:]
    if len(body.outputs) < 1 + count:
        raise ShapeError(f"loop: the body gives {len(body.outputs)} values for {count} carried")
    declared = [*body.outputs.values()][1 + count :]
    rows: list[list[Array]] = [[] for _ in declared]
    most = None if m is None else int(m.reshape(()))
    turn, going = 0, np.array(cond is None or is_true(cond))
    while (most is None or turn < most) and is_true(going):
        going, *results = run_body(body, [np.array(turn, np.int64), going, *carried, *captured])
        carried = results[:count]
        for row, result in zip(rows, results[count:], strict=True):
            row.append(result)
        turn += 1
    return (*carried, *(stack(row, type) for row, type in zip(rows, declared, strict=True)))
