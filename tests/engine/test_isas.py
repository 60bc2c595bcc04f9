"""A whole network gives the same numbers on every instruction set of this machine."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

import palmkit.models
from palmkit import engine
from palmkit.engine import _native

MODEL = Path(palmkit.models.__file__).parent / "face_detector" / "face_detector.palm"


@pytest.mark.parametrize("isa", _native.isas())
def test_network_agrees_with_the_reference(isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_native, "Program", partial(_native.Program, isa=isa))
    random = np.random.default_rng(0)
    inputs = {"image": random.uniform(0, 255, (1, 96, 160, 3)).astype(np.float32)}
    got = engine.load(MODEL, threads=2).run(inputs)
    expected = engine.load(MODEL, backend="reference").run(inputs)
    for name, value in expected.items():
        atol = 1e-5 * float(np.abs(value).max())
        np.testing.assert_allclose(got[name], value, rtol=0, atol=atol, err_msg=name)
