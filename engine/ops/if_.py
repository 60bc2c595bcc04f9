"""The op if."""

import numpy as np

from palmkit.engine.errors import PalmError
from palmkit.engine.ir import Array, Graph, Known, Type
from palmkit.engine.ops import Results, Undetermined, op
from palmkit.engine.ops.bodies import infer_body, run_body
from palmkit.engine.ops.traits import Family, Traits


def is_true(condition: Array) -> bool:
    """Return the one value of a condition; raise ValueError if it is not one."""
    if condition.size != 1:
        raise ValueError(f"expected a condition of one value, got {Type.of(condition)}")
    return bool(condition.reshape(()))


def _infer(
    cond: Type, *captured: Type, then_branch: Graph, else_branch: Graph, captures: int
) -> tuple[Type, ...]:
    if isinstance(cond, Known):
        first = infer_body(then_branch if is_true(cond.value) else else_branch, captured)
        second = first
    else:
        try:
            first, second = infer_body(then_branch, captured), infer_body(else_branch, captured)
        except PalmError as error:
            # Inputs of these types may never reach that branch.
            raise Undetermined(f"if: a branch does not take these inputs: {error}") from None
    known = tuple(type for type in first if type is not None)
    if len(known) != len(first) or first != second:
        raise Undetermined("if: the types of the results hang on the branch that is taken")
    return known


@op(_infer, traits=Traits(family=Family.CONTROL))
def if_(
    cond: Array, *captured: Array, then_branch: Graph, else_branch: Graph, captures: int
) -> Results:
    """The outputs of then_branch if cond holds, else of else_branch.

    captured: what the branches read from outside, `captures` many; the inputs of both.
    """
    return tuple(
        np.asarray(y) for y in run_body(then_branch if is_true(cond) else else_branch, captured)
    )
