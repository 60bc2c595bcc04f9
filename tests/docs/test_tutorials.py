"""The tutorials' code runs as it stands, from the first block to the last, in an empty folder."""

import importlib
import re
from pathlib import Path

import pytest

from tests.docs.examples import NEEDS_MODELS, ROOT, blocks, run_blocks

DOCS = ROOT / "docs"
# Figures, which are no tutorial.
FIGURES = "benchmarks"
TUTORIALS = sorted(path for path in DOCS.glob("*.md") if path.stem != FIGURES)


@NEEDS_MODELS
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs(path: Path, nothing: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_blocks(path, {"__name__": "__main__"})
    assert "Traceback" not in capsys.readouterr().err


def test_every_kit_and_part_has_a_tutorial() -> None:
    assert {path.stem for path in TUTORIALS} == {
        "c", "command_line", "compression", "delivery", "engine", "faces", "hands", "index",
        "mesh", "portraits", "rerank", "results", "training", "try_on",
        "videos",
    }  # fmt: skip
    assert all(blocks(path) for path in TUTORIALS)


REFERENCE = "\n".join(path.read_text() for path in sorted((DOCS / "api").glob("*.md")))


@pytest.mark.parametrize("package", ["kits", "engine", "engine.train", "delivery"])
def test_the_reference_has_every_public_name(package: str) -> None:
    names: list[str] = importlib.import_module(f"palmkit.{package}").__all__
    there = set(re.findall(rf"^::: palmkit\.{package}\.(\w+)$", REFERENCE, re.MULTILINE))
    assert set(names) <= there
