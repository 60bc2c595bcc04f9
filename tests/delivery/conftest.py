"""Worlds for tests, each a copy of one that is made once a module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.delivery.releases import make_repository
from tests.delivery.worlds import MODEL, World


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the folders of a repository, and of a device that runs its release 1.0.0."""
    folder = tmp_path_factory.mktemp("made")
    make_repository(folder, MODEL, "1.0.0", "2.0.0").promote(MODEL, "1.0.0")
    world = World(folder / "world", folder / "repository")
    world.with_first_release().close()
    world.server.stop()
    return folder / "repository", folder / "world/device"


@pytest.fixture
def world(tmp_path: Path, made: tuple[Path, Path]) -> Iterator[World]:
    world = World(tmp_path, *made)
    yield world
    world.server.stop()
