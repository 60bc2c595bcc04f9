"""The package onnx's own backend tests, on every backend."""

import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit.engine.backends import BACKENDS
from palmkit.engine.converters.onnx import convert
from palmkit.engine.errors import PalmError
from palmkit.engine.ir import Type
from palmkit.engine.model import Model

onnx: Any = pytest.importorskip("onnx")
if tuple(map(int, onnx.__version__.split(".")[:2])) < (1, 22):
    pytest.skip("some expected outputs were put right in onnx 1.22", allow_module_level=True)

from tests.case_groups import in_groups  # noqa: E402
from tests.engine.converters.onnx_suite import (  # noqa: E402
    KINDS,
    SuiteCase,
    check_case,
    is_left_out,
    left_out,
    suite,
)

CASES = suite(*KINDS)
MOST_LEFT_OUT = 0.03


def first_operator(name: str) -> str:
    return CASES[name].operators[0] if CASES[name].operators else "none"


every_case = in_groups(
    "name", [name for name in CASES if not is_left_out(name)], first_operator, str
)


needs_cpu = pytest.mark.skipif(
    bool(BACKENDS["cpu"].missing()), reason="the native module is not built for this Python"
)


@pytest.mark.parametrize("backend", ["reference", pytest.param("cpu", marks=needs_cpu)])
@every_case
def test_case(name: str, backend: str) -> None:
    check_case(CASES[name], backend)


@needs_cpu
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
    assert all(is_random(CASES[name]) or fails(CASES[name]) for name in names)


def fails(case: SuiteCase) -> bool:
    try:
        check_case(case, "reference")
    except (PalmError, AssertionError):
        return True
    return False


def is_random(case: SuiteCase) -> bool:
    """Its outputs may be the expected ones, by luck."""
    return any("Random" in operator or operator == "Bernoulli" for operator in case.operators)


LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
"""Published classifiers with weights of one number; the package has no data for others."""
LIGHT_MODELS = (
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
)
"""Not the three that have to make hundreds of megabytes of weights to run."""


@needs_cpu
@pytest.mark.parametrize("name", LIGHT_MODELS)
def test_light_model(name: str) -> None:
    path = LIGHT / f"light_{name}.onnx"
    if not path.exists():
        pytest.skip(f"this version of the package onnx has no {path.name}")
    graph = convert(path)
    ((image, type),) = graph.inputs.items()
    # As onnx.backend.test.runner makes them.
    pixels = (np.arange(type.elements).reshape(type.dims) / type.elements).astype(np.float32)
    (got,) = Model(graph, "cpu").run({image: pixels}).values()
    expected = onnx.TensorProto.FromString((LIGHT / f"light_{name}_output_0.pb").read_bytes())
    wanted = onnx.numpy_helper.to_array(expected)
    assert Type.of(got) == Type.of(wanted)
    np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-7)
