"""The tutorials' code runs as it stands, from the first block to the last, in an empty folder."""

import importlib
import re
from pathlib import Path

import pytest

from palmkit.kits.table import KITS
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


def test_every_tutorial_has_code() -> None:
    assert all(blocks(path) for path in TUTORIALS)


@pytest.mark.parametrize("name", KITS)
def test_every_kit_has_a_tutorial(name: str) -> None:
    """It calls the kit's function; what greets the reader is none."""
    call = f"kits.{KITS[name].function}("
    pages = (path for path in TUTORIALS if path.stem != "index")
    assert any(call in block.text for path in pages for block in blocks(path))


REFERENCE = "\n".join(path.read_text() for path in sorted((DOCS / "api").glob("*.md")))


@pytest.mark.parametrize("package", ["kits", "engine", "engine.train", "delivery"])
def test_the_reference_has_every_public_name(package: str) -> None:
    names: list[str] = importlib.import_module(f"palmkit.{package}").__all__
    there = set(re.findall(rf"^::: palmkit\.{package}\.(\w+)$", REFERENCE, re.MULTILINE))
    assert set(names) <= there
