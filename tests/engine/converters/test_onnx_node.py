"""The package onnx's own backend tests, on every backend."""

import fnmatch
from typing import Any

import pytest

from palmkit.engine.ops import find

onnx: Any = pytest.importorskip("onnx")
if tuple(map(int, onnx.__version__.split(".")[:2])) < (1, 22):
    pytest.skip("some expected outputs were put right in onnx 1.22", allow_module_level=True)

from tests.engine.converters.onnx_suite import (  # noqa: E402
    KINDS,
    check_case,
    graph_of,
    is_left_out,
    left_out,
    suite,
)

CASES = suite(*KINDS)
MOST_LEFT_OUT = 0.03


every_case = pytest.mark.parametrize("name", [name for name in CASES if not is_left_out(name)])


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@every_case
def test_case(name: str, backend: str) -> None:
    check_case(CASES[name], backend)


@every_case
def test_case_of_any_shape(name: str) -> None:
    check_case(CASES[name], "cpu", symbolic=True)


def test_few_are_left_out() -> None:
    names = [name for name in CASES if name.startswith("node/")]
    assert sum(map(is_left_out, names)) <= MOST_LEFT_OUT * len(names)


@pytest.mark.parametrize("pattern", left_out())
def test_what_is_left_out_fails(pattern: str) -> None:
    """A line of the file of what is left out is still needed."""
    names = [name for name in CASES if fnmatch.fnmatchcase(name, pattern)]
    if not names:
        pytest.skip("this version of the package onnx has no such case")
    for name in names:
        if all(find(node.op).pure for node in graph_of(CASES[name]).nodes):
            with pytest.raises(Exception):  # noqa: B017
                check_case(CASES[name], "reference")
