"""The Fourier transform of TFLite, whose complex tensors have no type here."""

from __future__ import annotations

import numpy as np
import pytest

from palmkit.engine.converters.tflite import convert
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.passes import optimise
from tests.engine.converters.tflite_models import ModelFile, assert_agrees, floats, ints, litert


def transform(dims: tuple[int, ...], lengths: tuple[int, int]) -> ModelFile:
    file = ModelFile()
    file.input("x", dims)
    file.tensor("lengths", ints(*lengths))
    result = (*dims[:-2], lengths[0], lengths[1] // 2 + 1)
    file.tensor("spectrum", result, "complex64")
    for name in ("real", "imaginary", "size"):
        file.tensor(name, result)
    file.operator("RFFT2D", ["x", "lengths"], ["spectrum"], "Rfft2dOptions")
    file.operator("REAL", ["spectrum"], ["real"])
    file.operator("IMAG", ["spectrum"], ["imaginary"])
    file.operator("COMPLEX_ABS", ["spectrum"], ["size"])
    return file


@pytest.mark.parametrize(
    ("dims", "lengths"),
    [((3, 1, 16), (1, 16)), ((2, 8, 16), (8, 16)), ((4, 12), (2, 16)), ((2, 8, 20), (4, 8))],
)
def test_transform(dims: tuple[int, ...], lengths: tuple[int, int]) -> None:
    model = transform(dims, lengths).pack(["real", "imaginary", "size"])
    inputs = {"x": floats(*dims)}
    wanted = litert(model, inputs)
    for graph in (convert(model), optimise(convert(model))):
        if lengths[0] == 1:
            wanted["imaginary"] = np.where(wanted["imaginary"] == 0, 0, wanted["imaginary"])
        assert_agrees(graph, inputs, wanted)


def test_a_spectrum_may_be_reshaped() -> None:
    """Return what tf.signal.stft writes: one line of 1 x 16 a frame."""
    file = ModelFile()
    file.input("x", (2, 5, 1, 16))
    file.tensor("lengths", ints(1, 16))
    file.tensor("dims", ints(2, 5, 9))
    file.tensor("spectrum", (2, 5, 1, 9), "complex64")
    file.tensor("lines", (2, 5, 9), "complex64")
    file.tensor("size", (2, 5, 9))
    file.operator("RFFT2D", ["x", "lengths"], ["spectrum"], "Rfft2dOptions")
    file.operator("RESHAPE", ["spectrum", "dims"], ["lines"], "ReshapeOptions")
    file.operator("COMPLEX_ABS", ["lines"], ["size"])
    model, inputs = file.pack(["size"]), {"x": floats(2, 5, 1, 16)}
    assert_agrees(convert(model), inputs, litert(model, inputs))


def test_a_complex_output_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="spectrum"):
        convert(transform((3, 1, 16), (1, 16)).pack(["spectrum"]))
