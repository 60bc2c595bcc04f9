"""ONNX sequences between tensors: resolved where their structure is in the file."""

from typing import Any

import numpy as np
import pytest

from palmkit.engine.backends.reference import Reference
from palmkit.engine.converters.onnx import convert
from palmkit.engine.errors import UnsupportedError

onnx: Any = pytest.importorskip("onnx")

CASES = {
    "build and join": """
        (float[?,4] x) => (float[?,4] y) {
            n = Neg (x)
            s = SequenceConstruct (x, n)
            y = ConcatFromSequence <axis=0> (s)
        }""",
    "a new axis": """
        (float[?,4] x) => (float[?,3,4] y) {
            n = Neg (x)
            e = SequenceEmpty ()
            a = SequenceInsert (e, x)
            b = SequenceInsert (a, n)
            zero = Constant <value = int64 {0}> ()
            c = SequenceInsert (b, n, zero)
            y = ConcatFromSequence <axis=1, new_axis=1> (c)
        }""",
    "take one": """
        (float[?,4] x) => (float[?,4] y, int64 n) {
            a = Neg (x)
            b = Abs (x)
            s = SequenceConstruct (x, a, b)
            t = SequenceErase (s)
            last = Constant <value = int64 {-1}> ()
            y = SequenceAt (t, last)
            n = SequenceLength (t)
        }""",
    "split by sizes": """
        (float[?,4] x) => (float[?,4] y) {
            sizes = Constant <value = int64[2] {1, 3}> ()
            s = SplitToSequence <axis=1> (x, sizes)
            one = Constant <value = int64 {1}> ()
            zero = Constant <value = int64 {0}> ()
            a = SequenceAt (s, one)
            b = SequenceAt (s, zero)
            y = Concat <axis=1> (a, b)
        }""",
    "split an unknown length": """
        (float[?,4] x) => (float[?,4] y) {
            size = Constant <value = int64 {2}> ()
            s = SplitToSequence <axis=0> (x, size)
            one = Constant <value = int64 {1}> ()
            y = SequenceAt (s, one)
        }""",
    "count": """
        (float[?,4] x) => (int64 y) {
            size = Constant <value = int64 {2}> ()
            s = SplitToSequence <axis=0> (x, size)
            y = SequenceLength (s)
        }""",
    "rows": """
        (float[?,4] x) => (float[4] y) {
            s = SplitToSequence <axis=0, keepdims=0> (x)
            two = Constant <value = int64 {2}> ()
            y = SequenceAt (s, two)
        }""",
}


def model(text: str) -> bytes:
    source = f'<ir_version: 8, opset_import: ["" : 17]> g {text}'
    made: bytes = onnx.parser.parse_model(source).SerializeToString()
    return made


@pytest.mark.parametrize("name", CASES)
def test_structure_in_the_file(name: str) -> None:
    runtime: Any = pytest.importorskip("onnxruntime")
    source = model(CASES[name])
    session = runtime.InferenceSession(source, providers=["CPUExecutionProvider"])
    x = np.arange(20, dtype=np.float32).reshape(5, 4) - 7
    wanted = session.run(None, {"x": x})
    got = Reference().compile(convert(source)).run({"x": x})
    for y, peer in zip(got.values(), wanted, strict=True):
        np.testing.assert_array_equal(y, peer)


def test_computed_structure_is_refused() -> None:
    source = model("""
        (float[5,4] x, int64 n) => (float[?,4] y) {
            s = SplitToSequence <axis=0> (x)
            y = SequenceAt (s, n)
        }""")
    with pytest.raises(UnsupportedError, match="a computed place in a sequence"):
        convert(source)
    source = model("""
        (float[5,4] x) => (float[?,4] y) {
            s = SplitToSequence <axis=0> (x)
            y = ConcatFromSequence <axis=0> (s)
        }""")
    with pytest.raises(UnsupportedError, match="a length that is computed"):
        convert(source)
