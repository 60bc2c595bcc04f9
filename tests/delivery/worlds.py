"""Complete worlds: a repository that signs, a server that may be hostile, and devices."""

from __future__ import annotations

import shutil
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from palmkit import engine
from palmkit.delivery.client import Client, Mode
from palmkit.delivery.clock import Clock
from palmkit.delivery.repository import Repository
from tests.delivery.devices import Time, good, model_file
from tests.delivery.fault_server import FaultServer

MODEL = "doubler"


class World:
    """A repository with release 1.0.0 for all, its server, and devices."""

    def __init__(self, folder: Path, repository: Path, device: Path | None = None) -> None:
        """Copy the folders; device: one that runs its release 1.0.0."""
        self.folder, self._device = folder, device
        self.repository = Repository.open(Path(shutil.copytree(repository, folder / "repository")))
        self.server = FaultServer()
        self.baseline = model_file(folder / "baseline.palm", 1)
        self.time = Time()
        self.time.now = datetime.now(timezone.utc)
        self.show()

    def promote(self, release: str, percent: float = 100) -> None:
        self.repository.promote(MODEL, release, percent=percent)
        self.show()

    def show(self) -> None:
        """Copy what was published to the server."""
        for file in self.repository.public.rglob("*"):
            if file.is_file():
                path = f"/{file.relative_to(self.repository.public)}"
                self.server.files[path] = file.read_bytes()

    def client(self, name: str = "device", **options: Any) -> Client:
        folder = self.folder / name
        given: dict[str, Any] = {
            "baselines": {MODEL: self.baseline},
            "clock": Clock(folder / "clock", wall=self.time),
            "prove": good,
        }
        root = self.repository.root()
        return Client(folder, [self.server.url], root, **{**given, **options})

    def with_first_release(self) -> Client:
        """Return a device that runs release 1.0.0."""
        if self._device is not None:
            shutil.copytree(self._device, self.folder / "device")
            return self.client()
        client = self.client()
        client.refresh(MODEL)
        client.mark_ok(client.get(MODEL, "local"))
        return client


def runs(client: Client, mode: Mode = "local") -> str:
    """Return the version of the running release, and check that it runs."""
    release = client.get(MODEL, mode)
    model = engine.load(release.path)
    outputs = model.run({name: np.ones(t.dims, np.float32) for name, t in model.inputs.items()})
    assert np.isfinite(outputs["y"]).all()
    return release.version
