"""Devices under test: their store, their trust, and limits that make a fault quick to see."""

import hashlib
import json
import random
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from palmkit.delivery.clock import Clock
from palmkit.delivery.download import fetch
from palmkit.delivery.http import Http, Limits
from palmkit.delivery.manifest import File
from palmkit.delivery.store import BlobStore
from palmkit.delivery.trust import Remote
from palmkit.engine.errors import DeliveryError
from tests.delivery.fault_server import FaultServer
from tests.delivery.tuf_repository import TufRepository

# The same rules as those of a device, in less time.
QUICK = Limits(
    connect_timeout_s=2.0,
    read_timeout_s=1.0,
    headers_timeout_s=1.0,
    window_s=0.6,
    first_wait_s=0.01,
    longest_wait_s=0.3,
)

CONTENT = random.Random(1).randbytes(400_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
FILE = File("face-1.0.palm", len(CONTENT), SHA256)
PATH = f"/targets/models/face/{SHA256}.face-1.0.palm"


class Device:
    def __init__(self, folder: Path, *servers: FaultServer) -> None:
        self.folder, self.store, self.servers = folder, BlobStore(folder), servers
        self.http, self.events, self.progress = Http(QUICK), list[str](), list[int]()

    def fetch(self, file: File = FILE, **options: Any) -> Path:
        path = fetch(
            self.store,
            "face",
            file,
            [server.url for server in self.servers],
            self.http,
            on_progress=lambda received, total: self.progress.append(received),
            on_event=self.events.append,
            **options,
        )
        assert hashlib.sha256(path.read_bytes()).hexdigest() in path.name
        return path

    def fail(self, file: File = FILE, **options: Any) -> DeliveryError:
        with pytest.raises(DeliveryError) as caught:
            self.fetch(file, **options)
        return caught.value

    @property
    def part(self) -> bytes:
        part = self.store.part(SHA256)
        return part.read_bytes() if part.exists() else b""

    def have(self, content: bytes, **notes: str) -> None:
        """Store a part as if a fetch had ended here."""
        with self.store.lock():
            self.store.part(SHA256).write_bytes(content)
            self.store.note(SHA256, **notes)


class Time:
    def __init__(self) -> None:
        self.days = 0.0

    def __call__(self) -> datetime:
        return datetime.now(timezone.utc) + timedelta(days=self.days)


def remote_of(
    folder: Path,
    repository: TufRepository,
    *servers: FaultServer,
    wall: Time | None = None,
    not_before: datetime | None = None,
) -> Remote:
    folder.mkdir(exist_ok=True)
    clock = Clock(folder / "clock", not_before, wall or Time())
    return Remote(folder, [server.url for server in servers], repository.root(), Http(QUICK), clock)


def refused(remote: Remote) -> str:
    with pytest.raises(DeliveryError) as caught:
        remote.refresh()
    return caught.value.code


def versions(folder: Path) -> dict[str, int]:
    return {
        path.stem: json.loads(path.read_bytes())["signed"]["version"]
        for path in folder.glob("*.json")
    }
