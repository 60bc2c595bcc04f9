"""Every pass has a test that calls it by name: random graphs alone show no wrong rewrite."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("palmkit.engine._native", reason="the native runtime is not built")

from palmkit.engine.backends.cpu.passes import STEP_PASSES
from palmkit.engine.passes import LATER, PIPELINE

HERE = Path(__file__).parent


def names(folder: str) -> Iterator[str]:
    """Yield what the tests of a folder name in their code; an import alone is no test."""
    for path in (HERE / folder).glob("test_*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        yield from (each.id for each in ast.walk(tree) if isinstance(each, ast.Name))


@pytest.mark.parametrize("each", [*PIPELINE, *LATER], ids=lambda each: each.__name__)
def test_a_pass_has_a_test(each: object) -> None:
    assert getattr(each, "__name__", "") in {*names("passes")}


@pytest.mark.parametrize("each", STEP_PASSES, ids=lambda each: getattr(each, "__name__", ""))
def test_a_step_pass_has_a_test_of_text(each: object) -> None:
    assert getattr(each, "__name__", "") in {*names("steps")}
