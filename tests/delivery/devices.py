"""A device and a repository in memory: signatures are trusted, answers may be faulty."""

from __future__ import annotations

import io
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from palmkit.delivery import golden
from palmkit.delivery.client import Client
from palmkit.delivery.clock import Clock
from palmkit.delivery.http import Limits
from palmkit.delivery.manifest import File, Golden, Manifest, Needs
from palmkit.delivery.policy import Candidate, Policy
from palmkit.delivery.trust import Missing
from palmkit.engine import Graph, Type, save
from palmkit.engine.errors import DeliveryError
from palmkit.engine.ir import Node

MODEL = "doubler"
NOW = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)


def model_file(path: Path, factor: float, **metadata: str) -> Path:
    """Write a model that multiplies float32[4] by a factor."""
    types = {"x": Type("float32", (4,))}, {"y": Type("float32", (4,))}
    nodes = (Node("mul", ("x", "factor"), ("y",)),)
    save(Graph(*types, nodes, {"factor": np.array([factor], np.float32)}, metadata), path)
    return path


def golden_bytes(factor: float) -> bytes:
    """Return golden inputs of such a model."""
    file = io.BytesIO()
    x = np.arange(4, dtype=np.float32)
    arrays: Any = {"in/one/x": x, "out/one/y": x * np.float32(factor)}
    np.savez(file, **arrays)
    return file.getvalue()


class Answer:
    """A stand-in for palmkit.delivery.http.Response."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status, self.headers, self._body = status, headers, body

    def chunks(self, is_large: bool = False) -> Iterator[bytes]:
        for start in range(0, len(self._body), 1 << 16):
            yield self._body[start : start + (1 << 16)]

    def refuse(self) -> None:
        raise DeliveryError("check_fail_http4xx", f"answered {self.status}")


@dataclass
class Published:
    """A repository, a stand-in for Remote and Http; fault: the error that requests raise."""

    targets: dict[str, bytes] = field(default_factory=dict[str, bytes])
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    policies: dict[str, Policy] = field(default_factory=dict[str, Policy])
    fault: DeliveryError | None = None
    limits: Limits = field(default_factory=Limits)
    fetched: list[str] = field(default_factory=list[str])
    asked: int = 0
    keys: str = "keys of the rollout"
    first: int = 0

    def publish(
        self,
        release: str,
        content: bytes,
        model: str = MODEL,
        golden_content: bytes | None = None,
        ratio: float = 1e6,
        suffix: str = ".palm",
        **changes: Any,
    ) -> str:
        """Sign a release, and return its digest."""
        contents = {f"{model}-{release}{suffix}": content}
        if golden_content is not None:
            contents[f"{model}-{release}.npz"] = golden_content
        files = tuple(
            File(name, len(data), sha256(data).hexdigest()) for name, data in contents.items()
        )
        manifest = Manifest(
            model,
            release,
            "2026-11-21T10:00:00Z",
            files,
            files[0].name,
            Needs(1, ">=0.0"),
            Golden(files[1].name, 1e-3, 1e-3, ratio) if golden_content is not None else None,
        )
        document = replace(manifest, **changes).dump()
        self.targets[f"models/{model}/{release}.json"] = document
        for file, data in zip(files, contents.values(), strict=True):
            self.files[f"{file.sha256}.{file.name}"] = data
        return sha256(document).hexdigest()

    def offer(self, *candidates: Candidate, model: str = MODEL, **changes: Any) -> Policy:
        """Sign a policy whose stable channel has these candidates, of the next epoch."""
        before = self.policies.get(model, Policy(model, 0, {}))
        policy = replace(
            before,
            **{
                "epoch": before.epoch + 1,
                "channels": {**before.channels, "stable": tuple(candidates)},
                **changes,
            },
        )
        self.policies[model] = policy
        self.targets[f"rollout/{model}.json"] = policy.dump()
        return policy

    def refresh(self) -> None:
        self.asked += 1
        if self.fault is not None:
            raise self.fault

    def target(self, path: str) -> bytes:
        if self.fault is not None:
            raise self.fault
        if path not in self.targets:
            raise Missing("download_fail", f"{path}: nobody signs such a target")
        return self.targets[path]

    def below(self, folder: str) -> list[str]:
        return sorted(path for path in self.targets if path.startswith(f"{folder}/"))

    def keys_of(self, path: str) -> str:
        return self.keys

    @property
    def version(self) -> str:
        return str(len(self.targets))

    @contextmanager
    def open(self, url: str, headers: Mapping[str, str] | None = None) -> Generator[Answer]:
        name = url.rsplit("/", 1)[1]
        self.fetched.append(name.split(".", 1)[1])
        if self.fault is not None:
            raise self.fault
        found = self.files.get(name)
        yield Answer(404, {}, b"") if found is None else Answer(200, {}, found)


class Time:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now

    def pass_(self, **duration: float) -> None:
        self.now += timedelta(**duration)


def good(question: golden.Question) -> golden.Answer:
    """Pass every release, for tests of later steps."""
    return golden.Answer(None)


class Devices:
    """Devices with a repository of their own, all made in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.published = Published()
        self.time = Time()
        self.baseline = model_file(folder / "baseline.palm", 1)

    def client(
        self,
        name: str = "device",
        prove: Callable[[golden.Question], golden.Answer] = good,
        **options: Any,
    ) -> Client:
        """Return a process of a device; call it again for the next process."""
        folder = self.folder / name
        given: Any = {
            "baselines": {MODEL: self.baseline},
            "clock": Clock(None, wall=self.time),
            "http": self.published,
            "remote": self.published,
            "prove": prove,
            **options,
        }
        return Client(folder, ["https://models.test"], b"{}", **given)

    def content(self, factor: float) -> bytes:
        """Return the file of a model."""
        return model_file(self.folder / f"{factor}.palm", factor).read_bytes()
