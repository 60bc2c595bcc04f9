"""The notebook runs from the first cell to the last, and is kept without what it printed."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from palmkit import kits
from tests.demos.driving import NEEDS_MODELS

TOUR = Path(__file__).parents[2] / "demos" / "tour.ipynb"
# In a process of its own: what a kernel starts outlives a test, and warns of its own ways.
EXECUTE = """
import sys
import nbformat
from nbclient import NotebookClient
tour = nbformat.read(sys.argv[1], 4)
NotebookClient(tour, timeout=120, kernel_name="python3").execute()
nbformat.write(tour, sys.argv[2])
"""


def cells(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())["cells"]
    return [cell for cell in found if cell["cell_type"] == "code"]


def test_nothing_that_was_printed_is_kept() -> None:
    assert len(cells(TOUR)) > 8
    assert not any(cell["outputs"] or cell["execution_count"] for cell in cells(TOUR))


@NEEDS_MODELS
def test_the_tour_runs_and_shows_pictures(tmp_path: Path) -> None:
    pytest.importorskip("nbclient", reason="a notebook needs nbclient and ipykernel (extra dev)")
    folders = {name: str(tmp_path) for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "HOME")}
    done = subprocess.run(
        [sys.executable, "-c", EXECUTE, str(TOUR), str(tmp_path / "ran.ipynb")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, **folders},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    outputs = [output for cell in cells(tmp_path / "ran.ipynb") for output in cell["outputs"]]
    assert not [output for output in outputs if output["output_type"] == "error"]
    pictures = [
        each["data"]["image/png"] for each in outputs if "image/png" in each.get("data", {})
    ]
    assert len(pictures) >= 6
    assert all(kits.read_image(base64.b64decode(each)).std() > 10 for each in pictures)
    said = "".join("".join(each["text"]) for each in outputs if each["output_type"] == "stream")
    for words in ("ids: [0]", "('right', 'horns')", "as it runs", "embedded"):
        assert words in said
