"""Bytes of pictures as inputs of float32."""

from typing import Any, cast

import numpy as np
import pytest

from palmkit import engine
from palmkit.engine import Graph, Levels, ShapeError, Type
from palmkit.engine.backends.gpu.dispatches import Border
from palmkit.engine.backends.gpu.levels import dispatches
from palmkit.engine.ir import Node

RANDOM = np.random.default_rng(5)
DIMS = (1, 5, 7, 3)


def doubled() -> Graph:
    """Two inputs, of which one is doubled: more elements than whole words have."""
    two = np.array(2, np.float32)
    return Graph(
        {"image": Type("float32", DIMS), "add": Type("float32", (3,))},
        {"y": Type("float32", DIMS)},
        (Node("mul", ("image", "two"), ("a",)), Node("add", ("a", "add"), ("y",))),
        {"two": two},
    )


def missing(backend: str) -> str:
    """Why a backend is not there; "" if it is."""
    try:
        engine.Model(doubled(), backend)
    except engine.BackendError as error:
        return f"{error}"
    return ""


@pytest.mark.parametrize("slice_ms", [None, 5.0])
@pytest.mark.parametrize("backend", ["cpu", "reference", "gpu:software"])
def test_levels_are_the_floats_that_they_say(
    backend: str, slice_ms: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("palmkit.engine.backends.gpu.levels.LEAST", 16)
    if reason := missing(backend):
        pytest.skip(reason)
    if backend == "reference" and slice_ms:
        pytest.skip("it has no slices")
    model = engine.Model(doubled(), backend)
    add = RANDOM.normal(size=3).astype(np.float32)
    bytes = RANDOM.integers(0, 256, DIMS, np.uint8)
    expected = bytes.astype(np.float32) * 2 + add
    # Their pixels may lie anyhow.
    for array in (bytes, np.ascontiguousarray(bytes[:, :, ::-1])[:, :, ::-1]):
        found = model.run({"image": Levels(array), "add": add}, slice_ms=slice_ms)["y"]
        assert np.array_equal(found, expected)
    both = {"image": Levels(bytes), "add": Levels(np.array([1, 0, 255], np.uint8))}
    found = model.run(both, slice_ms=slice_ms)["y"]
    assert np.array_equal(found, bytes.astype(np.float32) * 2 + np.array([1, 0, 255], np.float32))
    # Floats go on as before.
    found = model.run({"image": expected, "add": add}, slice_ms=slice_ms)["y"]
    assert np.array_equal(found, expected * 2 + add)


def test_a_part_of_a_large_arena_is_bound_alone() -> None:
    inputs = {"a": Border(1000, "float32", (70,)), "b": Border(2000, "float32", (5, 3))}
    [a, b], begins = dispatches(inputs, 40000, 1024, 65535)
    assert begins == {"a": 0, "b": 18}
    for each, border in ((a, inputs["a"]), (b, inputs["b"])):
        [(begin, size)] = each.windows
        count, word, element, _ = each.numbers
        assert (count, word) == (border.elements, begins["a" if each is a else "b"])
        assert begin % 256 == 0 and begin // 4 + element == border.offset
        assert begin <= border.offset * 4 and (border.offset + count) * 4 <= begin + size
    assert a.workgroups == (1, 1)
    [wide], _ = dispatches({"a": Border(0, "float32", (64 * 4 * 25,))}, 1 << 16, 1 << 16, 10)
    assert wide.workgroups[0] <= 10 and wide.workgroups[0] * wide.workgroups[1] >= 25
    assert wide.numbers[3] == wide.workgroups[0]


def test_levels_are_of_bytes_and_for_floats() -> None:
    with pytest.raises(TypeError, match="levels: expected uint8, got float32"):
        Levels(cast(Any, np.zeros(3, np.float32)))
    model, add = engine.Model(doubled()), np.zeros(3, np.float32)
    with pytest.raises(
        ShapeError, match=r"input image: expected float32\[1, 5, 7, 3\], got levels"
    ):
        model.run({"image": Levels(np.zeros((1, 5, 7), np.uint8)), "add": add})
    node = Node("add", ("x", "x"), ("y",))
    bytes = {"x": Type("uint8", (4,))}
    integers = engine.Model(Graph(bytes, {"y": Type("uint8", (4,))}, (node,), {}), "reference")
    with pytest.raises(ShapeError, match="input x: expected uint8"):
        integers.run({"x": Levels(np.zeros(4, np.uint8))})
