"""What ops say of themselves holds for their cases, in numpy."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from palmkit.engine.ir import Array, Node
from palmkit.engine.ops import Case, Op, find, input_names, registry, run_reference
from palmkit.engine.ops.traits import Layer, Movement, Traits
from tests.engine.test_ops import arrays, assert_close, by_op


def cases_of(test: Callable[[Traits], bool]) -> Iterator[tuple[Op, Case]]:
    for op in registry().values():
        if op.pure and test(op.traits):
            assert op.cases, op.name
            yield from ((op, case) for case in op.cases)


def every_case_of(
    test: Callable[[Traits], bool],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return by_op(cases_of(test))


def run(op: Op, case: Case, inputs: list[Array | None]) -> list[Array]:
    names = tuple("" if x is None else f"x{i}" for i, x in enumerate(inputs))
    outputs = tuple(f"y{i}" for i in range(case.outputs))
    return list(run_reference(Node(op.name, names, outputs, case.attrs), inputs))


def first(op: Op, case: Case, change: Callable[[Array], Array] = lambda x: x) -> Array:
    """The first output, the first input changed."""
    x, *rest = arrays(case)
    assert x is not None
    return run(op, case, [change(x), *rest])[0]


@every_case_of(lambda traits: traits.is_unary)
def test_unary_ops_work_element_by_element(op: Op, case: Case) -> None:
    turned = first(op, case, lambda x: x.reshape(-1)[::-1])
    assert_close(turned, first(op, case).reshape(-1)[::-1])


@every_case_of(lambda traits: traits.broadcasts)
def test_broadcasting_ops_are_as_on_expanded_inputs(op: Op, case: Case) -> None:
    inputs = [x for x in arrays(case) if x is not None]
    spread = np.broadcast_arrays(*inputs)
    assert_close(run(op, case, [*spread])[0], run(op, case, [*inputs])[0])


@every_case_of(lambda traits: traits.commutative)
def test_inputs_of_commutative_ops_change_places(op: Op, case: Case) -> None:
    a, b = run(op, case, arrays(case)), run(op, case, arrays(case)[::-1])
    assert_close(a[0], b[0])


@every_case_of(lambda traits: traits.idempotent or traits.self_inverse)
def test_doing_it_twice(op: Op, case: Case) -> None:
    once = first(op, case)
    twice = first(op, case, lambda x: once)
    np.testing.assert_array_equal(twice, once if op.traits.idempotent else arrays(case)[0])


@every_case_of(lambda traits: traits.bounds is not None)
def test_bounds_are_what_it_cuts_off_at(op: Op, case: Case) -> None:
    x, *more = arrays(case)
    assert x is not None and op.traits.bounds is not None
    bounds = [*op.traits.bounds]
    for place, bound in enumerate(more):
        bounds[place] = bounds[place] if bound is None else bound.item()
    wanted = np.minimum(np.maximum(x, bounds[0]), bounds[1])
    np.testing.assert_array_equal(first(op, case), wanted.astype(x.dtype))


@every_case_of(lambda traits: bool(traits.slope))
def test_slope_is_by_what_it_multiplies_what_is_below_zero(op: Op, case: Case) -> None:
    x, *more = arrays(case)
    assert x is not None
    if op.traits.slope in input_names(op.name):
        slope = more[input_names(op.name).index(op.traits.slope) - 1]
    else:
        number = case.attrs.get(op.traits.slope, op.defaults[op.traits.slope])
        slope = np.asarray(number, x.dtype)
    assert slope is not None
    np.testing.assert_allclose(first(op, case), np.where(x < 0, x * slope, x), rtol=1e-6)


@every_case_of(lambda traits: traits.non_negative)
def test_nothing_is_below_zero(op: Op, case: Case) -> None:
    assert not (first(op, case) < 0).any()


@every_case_of(lambda traits: traits.keeps_sign or traits.moves)
def test_nothing_is_below_zero_where_nothing_was(op: Op, case: Case) -> None:
    assert not (first(op, case, np.abs) < 0).any()


@every_case_of(lambda traits: traits.homogeneous)
def test_twice_as_much_of_twice_as_much(op: Op, case: Case) -> None:
    x, *rest = arrays(case)
    assert x is not None
    if x.dtype.kind != "f" or case.attrs.get("extrapolation_value"):
        return
    more = [each * 2 if op.traits.broadcasts and each is not None else each for each in rest]
    np.testing.assert_array_equal(run(op, case, [x * 2, *more])[0], first(op, case) * 2)


@every_case_of(lambda traits: traits.moves)
def test_outputs_are_elements_of_the_first_input(op: Op, case: Case) -> None:
    x = arrays(case)[0]
    assert x is not None
    places = np.arange(x.size).reshape(x.shape)
    outputs = run(op, case, [places, *arrays(case)[1:]])
    found = np.concatenate([y.reshape(-1) for y in outputs])
    assert set(found.tolist()) <= set(range(x.size))
    if op.traits.movement is not Movement.PICKS:
        assert sorted(found.tolist()) == list(range(x.size))
    if op.traits.movement is Movement.RESHAPES:
        assert found.tolist() == list(range(x.size))


@pytest.mark.parametrize("name", sorted(registry()))
def test_what_traits_name_is_there(name: str) -> None:
    op = find(name)
    traits = op.traits
    known = {*op.attributes, *input_names(name), *("min", "max", "slope")}
    assert {*(traits.activation or ())} <= known
    if traits.slope:
        assert traits.slope in known
    if traits.fused:
        fused = find(traits.fused)
        assert fused.traits.layer is traits.layer and fused.traits.is_fused
        assert {"activation", "activation_params"} <= fused.attributes.keys()
        assert "slope" in input_names(fused.name)
    if traits.reduces:
        assert "keepdims" in op.attributes
    if traits.layer in (Layer.CONVOLUTION, Layer.TRANSPOSED):
        assert {"group", "pads", "strides", "auto_pad"} <= op.attributes.keys()
    if traits.layer is not None:
        assert op.macs is not None
