"""Worlds for tests, each a copy of one that is made once a module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.delivery.releases import make_repository
from tests.delivery.worlds import MODEL, World


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a repository that every test gets a copy of."""
    folder = tmp_path_factory.mktemp("made")
    make_repository(folder, MODEL, "1.0.0", "2.0.0").promote(MODEL, "1.0.0")
    return folder / "repository"


@pytest.fixture
def world(tmp_path: Path, made: Path) -> Iterator[World]:
    world = World(tmp_path, made)
    yield world
    world.server.stop()
