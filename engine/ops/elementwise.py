"""Builder of the element-wise ops, on inputs broadcast as in numpy."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps

import numpy as np

from palmkit.engine.ir import Array, Attr, Type
from palmkit.engine.ops import Case, Op, case, op
from palmkit.engine.ops.dtypes import NUMBERS, wide
from palmkit.engine.ops.rules import broadcast, need_dtype
from palmkit.engine.ops.traits import PLAIN, Elementwise, Traits


def elementwise(
    *cases: Case,
    dtypes: Sequence[str] = NUMBERS,
    result: str = "",
    traits: Traits = PLAIN,
) -> Callable[[Callable[..., Array]], Op]:
    """Register the decorated numpy function: inputs of one dtype, the output of the same.

    dtypes: dtypes that the inputs may have.
    result: the output's dtype if it is another.
    traits: traits besides being element-wise.
    """

    def register(reference: Callable[..., Array]) -> Op:
        name = reference.__name__.rstrip("_")
        signature = inspect.signature(reference)
        places = [each for each in signature.parameters.values() if each.kind != each.KEYWORD_ONLY]
        is_unary = len(places) == 1 and places[0].kind != places[0].VAR_POSITIONAL
        kind = Elementwise.UNARY if is_unary else Elementwise.BROADCAST

        def infer(*inputs: Type, **attrs: Attr) -> Type:
            signature.bind(*inputs, **attrs)
            dtype = need_dtype(name, *inputs, among=dtypes)
            return Type(result or dtype, broadcast(name, *inputs))

        @wraps(reference)
        def meaning(*inputs: Array, **attrs: Attr) -> Array:
            y = np.asarray(reference(*map(wide, inputs), **attrs))
            return y.astype(result or inputs[0].dtype, copy=False)

        return op(infer, *cases, traits=replace(traits, elementwise=kind))(meaning)

    return register


def unary_cases(dtype: str = "float32", **attrs: Attr) -> tuple[Case, ...]:
    """Return shapes to test one input with."""
    shapes: tuple[tuple[int, ...], ...] = ((), (67,), (0, 3), (1, 19, 5, 3), (2, 3, 4))
    return tuple(Case((Type(dtype, shape),), attrs) for shape in shapes)


def binary_cases(dtype: str = "float32") -> tuple[Case, ...]:
    """Return pairs of shapes to test two inputs with, and a constant on either side."""
    pairs: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
        ((), ()),
        ((4,), (4,)),
        ((3, 70), (3, 70)),
        ((2, 3), (3,)),
        ((), (2, 3)),
        ((1, 8, 5, 4), (4,)),
        ((1, 19, 5, 7), (1, 19, 1, 1)),
        ((19, 1, 1), (1, 19, 5, 7)),
        ((2, 1, 4), (3, 1)),
        ((0, 3), (3,)),
    )
    constant = np.linspace(-2, 3, 19).astype(dtype)
    return (
        *(case(a, b, dtype=dtype) for a, b in pairs),
        case((1, 19, 5, 7), constant.reshape(19, 1, 1), dtype=dtype),
        case(constant.reshape(1, 19, 1), (2, 19, 3), dtype=dtype),
        case((2, 19), constant[:1].reshape(()), dtype=dtype),
    )
