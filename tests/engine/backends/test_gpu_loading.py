"""Backend gpu: what loading a model again saves, and weights on their way to the device."""

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import pytest

from palmkit.engine.backends.gpu import Gpu
from palmkit.engine.backends.gpu import pages as gpu_pages
from palmkit.engine.backends.gpu import shader as gpu_shader
from palmkit.engine.backends.gpu.dispatches import Dispatch
from palmkit.engine.backends.gpu.emission import Target
from palmkit.engine.backends.gpu.lowering import lower
from palmkit.engine.backends.gpu.pages import Page, Pages
from palmkit.engine.backends.partition import specialise
from palmkit.engine.errors import PalmError, UnsupportedError
from palmkit.engine.ir import Array, Graph, Node, Type
from palmkit.engine.ops import Case, Op
from tests.engine.test_ops import CASES, one_node

CONVOLUTIONS = ("conv", "conv_transpose", "fused_conv", "fused_conv_transpose")
TARGETS = (
    Target(),
    Target(half=True),
    Target(invocations=8, threads=64),
    Target(binding_bytes=1 << 12, groups=5),
)


def graphs() -> list[Graph]:
    found: list[tuple[Op, Case]] = [each for each in CASES if each[0].name in CONVOLUTIONS]
    return [one_node(op, case) for op, case in found]


def written(graph: Graph, target: Target) -> tuple[tuple[Dispatch, str], ...] | str:
    """The dispatches of a graph with their shaders, or why there are none."""
    try:
        dispatches, _, _ = lower(specialise(graph, graph.inputs, Gpu()), target)
    except PalmError as error:
        return str(error)
    return tuple((each, dispatches.shaders[each.shader]) for each in dispatches.dispatches)


def test_a_shader_that_was_written_before_is_the_one_that_would_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    every = [(graph, target) for graph in graphs() for target in TARGETS]
    monkeypatch.setattr(gpu_shader, "_texts", {})
    kept = [[written(*each) for each in every] for _ in range(2)]
    assert kept[0] == kept[1]

    def always(_key: Hashable, write: Callable[[], Any]) -> Any:
        return write()

    monkeypatch.setattr(gpu_shader, "_once", always)
    anew = [written(*each) for each in every]
    assert kept[0] == anew
    assert sum(isinstance(each, tuple) for each in anew) > len(every) // 2


def twice(dims: tuple[int, ...] = (1, 8, 6, 6)) -> Graph:
    """Two equal convolutions of other weights, one behind the other."""
    random = np.random.default_rng(3)
    weights = {name: random.normal(size=(8, 8, 3, 3)).astype(np.float32) for name in "vw"}
    attrs = {"pads": (1, 1, 1, 1)}
    nodes = (Node("conv", ("x", "v"), ("a",), attrs), Node("conv", ("a", "w"), ("y",), attrs))
    type = Type("float32", dims)
    return Graph({"x": type}, {"y": type}, nodes, weights)


def test_equal_steps_have_their_shader_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_shader, "_texts", {})
    asked: list[Hashable] = []
    once = gpu_shader._once  # pyright: ignore[reportPrivateUsage]
    lines: list[int] = []

    def counted(key: Hashable, write: Callable[[], Any]) -> Any:
        asked.append(key)

        def writes() -> Any:
            lines.append(1)
            return write()

        return once(key, writes)

    monkeypatch.setattr(gpu_shader, "_once", counted)
    assert isinstance(written(twice(), Target()), tuple)
    # What reads an input and writes an output lies elsewhere than what does not.
    assert len(asked) == 2 and len(lines) == len(set(asked))
    assert isinstance(written(twice(), Target()), tuple)
    assert len(asked) == 4 and len(lines) == len(set(asked))


def test_no_more_texts_are_kept_than_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_shader, "_texts", {})
    monkeypatch.setattr(gpu_shader, "_TEXTS_KEPT", 2)
    once = gpu_shader._once  # pyright: ignore[reportPrivateUsage]
    for key in "abc":
        text = (key, frozenset[int]())
        assert once(key, [text].pop) == text
    assert list(gpu_shader._texts) == ["b", "c"]  # pyright: ignore[reportPrivateUsage]


def words_of(page: Page) -> Array:
    found = np.full(page.words, 0xFFFFFFFF, np.uint32)
    for begin, words in page.parts():
        found[begin : begin + words.size] = words
    return found


def page_of(*arrays: Array, half: bool = False) -> tuple[Array, list[int]]:
    """The words of a page of these arrays, and the element that each of them begins at."""
    pages = Pages(1 << 30, half)
    begins: list[int] = []
    for array in arrays:
        number, places = pages.put([array])
        assert number == 0
        begins.append(places[id(array)])
    (page,) = pages.result()
    assert page.nbytes == 4 * page.words
    return words_of(page), begins


@pytest.mark.parametrize("at_once", [4, 64, 1 << 18])
def test_pages_hold_what_is_put_there(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_pages, "_AT_ONCE", at_once)
    random = np.random.default_rng(0)
    values = random.normal(size=(5, 3, 2, 37)).astype(np.float32)
    arrays: list[Array] = [
        values,
        values.transpose(1, 2, 3, 0),
        values[::2, :, :, ::-3],
        values.astype(np.float64),
        values.astype(np.float16),
        np.array(7, np.float32),
        np.arange(-3, 4, dtype=np.int64),
        np.array([[True, False, True]]),
        np.zeros((0, 3), np.float32),
    ]
    words, begins = page_of(*arrays)
    covered = np.zeros(words.size, bool)
    for array, begin in zip(arrays, begins, strict=True):
        dtype = np.float32 if array.dtype.kind == "f" else np.int32
        found = words[begin : begin + array.size].view(dtype).reshape(array.shape)
        np.testing.assert_array_equal(found, array.astype(dtype))
        assert begin % 4 == 0
        covered[begin : begin + array.size] = True
    assert not words[~covered].any()


def test_pages_hold_halves() -> None:
    values = np.random.default_rng(0).normal(size=(33, 41)).astype(np.float32)
    few = values[0, :3].copy()
    words, (at, of_few) = page_of(values.T, few, half=True)
    halves = words.view(np.float16)
    np.testing.assert_array_equal(
        halves[at : at + values.size].reshape(41, 33), values.T.astype(np.float16)
    )
    # Too few to be worth it.
    np.testing.assert_array_equal(words.view(np.float32)[of_few : of_few + 3], few)


def test_a_page_of_nothing_is_a_vector() -> None:
    (page,) = Pages(1 << 20, False).result()
    np.testing.assert_array_equal(words_of(page), np.zeros(4, np.uint32))


def test_constants_of_more_than_32_bits_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"a constant: integers from 1 to 1099511627776"):
        page_of(np.array([1, 1 << 40]))


def test_weights_are_not_copied_before_they_go_to_the_device() -> None:
    graph = specialise(twice(), twice().inputs, Gpu())
    dispatches, plan, _ = lower(graph, Target())
    pieces = [piece.array for page in dispatches.pages for piece in page.pieces]
    weights = [value for value in plan.constants if value.size == 8 * 8 * 3 * 3]
    assert len(weights) == 2
    for value in weights:
        assert any(np.shares_memory(each, value) for each in pieces)
