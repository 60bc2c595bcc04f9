"""What models are timed on, and when two engines' outputs are the same."""

import numpy as np
import pytest

from palmkit.engine.bench.inputs import largest_difference, open_dims, random_inputs
from palmkit.engine.bench.measurement import Times, geometric_mean, memory_in_use, processor
from palmkit.engine.ir import Array, Type


def array(*values: float) -> Array:
    return np.array([values], np.float32)


def test_random_inputs_are_the_same_each_time() -> None:
    types = {"x": Type("float32", ("batch", 3, "height")), "k": Type("int64", ())}
    sizes = open_dims(types)
    assert sizes == {"batch": 1, "height": 320}
    assert open_dims({"x": Type("float32", ("any", 3)), "k": Type("int64", ("length",))}) == {
        "any": 1,
        "length": 320,
    }
    assert open_dims({"x": Type("float32", ("a", "a"))}) == {"a": 320}
    first, second = (random_inputs(types, sizes) for _ in range(2))
    assert first["x"].shape == (1, 3, 320) and first["k"].dtype == np.int64
    assert np.array_equal(first["x"], second["x"])
    assert 0 <= first["x"].min() < 0.1 and 0.9 < first["x"].max() < 1


@pytest.mark.parametrize(
    ("found", "difference"),
    [
        ([("y", array(0, 2, 4))], 0.0),
        ([("y", array(0, 2, 5))], 0.25),
        ([("other", array(0, 2, 4))], 0.0),
        ([("y", array(0, 2, 4)[0])], 0.0),
        ([("y", array(0, 2, np.nan))], np.inf),
        ([("y", array(0, np.inf, 4))], np.inf),
        ([("y", array(0, 2))], None),
        ([], None),
        ([("z", array(9, 9, 9)), ("w", array(0, 2, 3.9))], pytest.approx(0.025)),
        ([("y", array(9, 9, 9)), ("w", array(0, 2, 4))], 2.25),
    ],
)
def test_largest_difference(found: list[tuple[str, Array]], difference: float | None) -> None:
    assert largest_difference({"y": array(0, 2, 4)}, found) == difference


def test_what_is_no_number_may_be_none_in_both() -> None:
    y = array(np.nan, np.inf, 1)
    assert largest_difference({"y": y}, [("y", y)]) == 0
    assert largest_difference({"y": array(3, 3, 3)}, [("y", array(3, 3, 6))]) == 1
    tiny = {"y": array(0, 0, 1e-9)}
    assert largest_difference(tiny, [("y", array(0, 0, 0))]) == pytest.approx(1)
    assert largest_difference(tiny, [("y", array(0, 0, 0))], 1e-6) == 0
    assert largest_difference({"y": array()}, [("y", array())]) == 0


def test_outputs_without_names_go_to_the_most_alike() -> None:
    expected = {"a": array(0, 1), "b": array(1, 0)}
    assert largest_difference(expected, [("", array(1, 0)), ("", array(0, 1))]) == 0
    # The one with its right name is not given away.
    assert largest_difference(expected, [("x", array(0, 1)), ("a", array(0, 1))]) == 1


def test_difference_over_a_given_span() -> None:
    found = [("y", array(0, 2, 3))]
    assert largest_difference({"y": array(0, 2, 4)}, found, spans={"y": 10}) == 0.1
    assert largest_difference({"y": array(0, 2, 4)}, found, spans={"z": 10}) == 0.25


def test_times() -> None:
    times = Times.of([0.001 * n for n in range(100, 0, -1)])
    assert (times.runs, times.min_ms, times.median_ms) == (100, 1.0, 50.5)
    assert times.p95_ms == pytest.approx(95)
    assert Times.of([0.5]).p95_ms == 500
    assert geometric_mean([2, 8]) == pytest.approx(4)


def test_the_machine_is_described() -> None:
    assert " core" in processor()
    memory = memory_in_use()
    assert memory is None or 1e6 < memory < 1e11
