"""Published .tflite files of others run, and agree with LiteRT where it takes them.

The files lie in ../shared/foreign and are not part of the project.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from palmkit.engine.converters.tflite import convert
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Array
from palmkit.engine.model import Model
from tests.engine.converters.tflite_models import litert

FOLDER = Path(__file__).parents[3].parent / "shared" / "foreign"
# Steps off, at most. mobilenet_v2's softmax is in steps of 1/256, 17 in all: between LiteRT's own
# kernels it is two, too.
STEPS = {
    "seanet_conv5": 1,
    "dtln_noise_suppression": 0,
    "trained_lstm_int8": 0,
    "mobilenet_v2_1.0_224_quant": 2,
}
# A bias names an axis that it lacks; a state of int8 that LiteRT writes int16 to; a shape.
NOT_IN_LITERT = ("person_detect", "keyword_scrambled_8bit", "seanet_transpose_conv0")

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the networks of ../shared/foreign are not here"
)


def run_both(name: str) -> tuple[dict[str, Array], dict[str, Array]]:
    graph = convert(FOLDER / f"{name}.tflite")
    random = np.random.default_rng(0)
    inputs: dict[str, Array] = {}
    for key, type in graph.inputs.items():
        limits = np.iinfo("int16" if type.dtype == "int32" else type.dtype)
        values = random.integers(limits.min, limits.max, type.dims, endpoint=True)
        inputs[key] = values.astype(type.dtype)
    return inputs, Model(graph, "cpu").run(inputs)


@pytest.mark.parametrize("name", STEPS)
def test_agrees(name: str) -> None:
    inputs, got = run_both(name)
    for key, wanted in litert((FOLDER / f"{name}.tflite").read_bytes(), inputs, True).items():
        assert np.abs(got[key].astype(np.int64) - wanted).max() <= STEPS[name]


@pytest.mark.parametrize("name", NOT_IN_LITERT)
def test_runs(name: str) -> None:
    _, got = run_both(name)
    for value in got.values():
        assert len(np.unique(value)) > 1


def test_operators_of_signals_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match="SignalFilterBank"):
        convert(FOLDER / "audio_preprocessor_int8.tflite")
