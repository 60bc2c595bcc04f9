"""The tutorials' code runs as it stands, from the first block to the last, in an empty folder."""

import importlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from palmkit.delivery import app
from palmkit.kits.cli import main
from palmkit.kits.kit import shipped_model

DOCS = Path(__file__).parents[2] / "docs"
TUTORIALS = sorted(DOCS.glob("*.md"))
_BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.skipif(
    not all(
        shipped_model(name).is_file()
        for name in (
            "face_detector",
            "face_mesh",
            "portrait",
            "person_finder",
            "hair",
            "hand_landmarks",
            "reranker",
        )
    ),
    reason="models have not been made here",
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder; what the tutorial says of delivery is forgotten after it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(app, "_client", None)
    yield tmp_path
    if (client := app._client) is not None:  # pyright: ignore[reportPrivateUsage]
        client.close()


def blocks(path: Path) -> list[tuple[str, str]]:
    """Each block's language and text; line numbers are those of the file."""
    text = path.read_text()
    return [
        (match[1], "\n" * text.count("\n", 0, match.start(2)) + match[2])
        for match in _BLOCK.finditer(text)
    ]


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    for language, text in blocks(path):
        if language == "python":
            exec(compile(text, path, "exec"), names)
            continue
        for line in text.strip().splitlines():
            assert line.startswith("$ palmkit ")
            assert run(shlex.split(line)[2:]) == 0, line
    assert "Traceback" not in capsys.readouterr().err


def run(arguments: list[str]) -> int:
    """The command in this process; --shades and its like end by themselves."""
    try:
        return main(arguments)
    except SystemExit as ended:
        return int(ended.code or 0)


def test_every_kit_and_part_has_a_tutorial() -> None:
    assert {path.stem for path in TUTORIALS} == {
        "c", "compression", "delivery", "engine", "faces", "hands", "index",
        "mesh", "portraits", "rerank", "training", "try_on",
    }  # fmt: skip
    assert all(blocks(path) for path in TUTORIALS)


REFERENCE = "\n".join(path.read_text() for path in sorted((DOCS / "api").glob("*.md")))


@pytest.mark.parametrize("package", ["kits", "engine", "engine.train", "delivery"])
def test_the_reference_has_every_public_name(package: str) -> None:
    names: list[str] = importlib.import_module(f"palmkit.{package}").__all__
    there = set(re.findall(rf"^::: palmkit\.{package}\.(\w+)$", REFERENCE, re.MULTILINE))
    assert set(names) <= there
