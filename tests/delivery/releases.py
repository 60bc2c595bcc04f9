"""Small models and repositories for the tests of delivery."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np

from palmkit.delivery.repository import Options, Repository
from palmkit.engine import save
from palmkit.engine.ir import Graph, Node, Type

QUICK = Options(golden=1)


def write_model(path: Path, factor: float = 2.0, elements: int = 16) -> Path:
    """Write a model whose output y is its input x times weights around `factor`."""
    type = Type("float32", (1, elements))
    weights = np.random.default_rng(0).normal(factor, 0.01, elements).astype(np.float32)
    nodes = (Node("mul", ("x", "w"), ("y",)),)
    path.parent.mkdir(parents=True, exist_ok=True)
    save(Graph({"x": type}, {"y": type}, nodes, {"w": weights}), path)
    return path


class SetClock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=timezone.utc)

    def __call__(self) -> datetime:
        return self.time

    def go_on(self, **duration: float) -> None:
        """Let time pass."""
        self.time += timedelta(**duration)


def make_repository(folder: Path, model: str = "doubler", *releases: str) -> Repository:
    """Make a repository with different releases of one model, none promoted."""
    repository = Repository.create(folder / "repository")
    for number, release in enumerate(releases or ("1.0.0",)):
        file = write_model(folder / release / "model.palm", 2.0 + number)
        repository.publish(model, release, [file], QUICK)
    return repository
