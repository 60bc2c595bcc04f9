"""What MediaPipe is told by a TFLite file leaves the network as it was."""

from pathlib import Path

import numpy as np
import pytest

from palmkit import engine
from tests.engine.web.bench.metadata import NAME, SCALES, with_metadata
from tests.engine.web.package import ROOT

pytest.importorskip("ai_edge_litert", reason="needs LiteRT's tables")
TEACHERS = ROOT.parent / "shared" / "teachers"


@pytest.mark.parametrize("network", SCALES)
def test_networks_stay_as_they_are(network: str, tmp_path: Path) -> None:
    path = TEACHERS / f"{network}.tflite"
    if not path.is_file():
        pytest.skip("needs ../shared/teachers")
    content = path.read_bytes()
    more = with_metadata(content, network)
    assert NAME in more and more != content
    assert with_metadata(more, network) == more
    assert with_metadata(content, "another") == content
    (tmp_path / path.name).write_bytes(more)
    before, after = engine.convert(path), engine.convert(tmp_path / path.name)
    assert before.nodes == after.nodes
    assert before.constants.keys() == after.constants.keys()
    for name, value in before.constants.items():
        np.testing.assert_array_equal(value, after.constants[name])
