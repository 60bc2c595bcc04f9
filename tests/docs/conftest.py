"""What a reader has at hand: files, a repository that is served, and values."""

from __future__ import annotations

import json
import secrets
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit import delivery, engine, kits
from palmkit.delivery import app
from palmkit.delivery.repository import Repository
from palmkit.engine.ir import Node, Type
from palmkit.kits import live
from palmkit.kits.kit import shipped_model
from palmkit.kits.video import VideoWriter

# A page of a shop, and what its user did.
ITEMS = [{"id": number, "category": ("lamp", "vase")[number % 2]} for number in range(12)]
HISTORY = [{"event": "click", "id": 7, "time": 1_700_000_000.0}]


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and says nothing of it."""

    def log_message(self, format: str, *args: object) -> None:
        pass


def classifier() -> engine.Graph:
    """Return a network of two layers that tells two classes."""
    rng = np.random.default_rng(0)
    shapes = {"w": (12, 8), "a": (8,), "v": (8, 2), "b": (2,)}
    draw = {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}
    return engine.Graph(
        inputs={"image": Type("float32", (4, 12))},
        outputs={"logits": Type("float32", (4, 2))},
        nodes=(
            Node("matmul", ("image", "w"), ("h",), {}),
            Node("add", ("h", "a"), ("i",), {}),
            Node("relu", ("i",), ("j",), {}),
            Node("matmul", ("j", "v"), ("k",), {}),
            Node("add", ("k", "b"), ("logits",), {}),
        ),
        constants=draw,
    )


@pytest.fixture(scope="session")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with all files that examples speak of."""
    folder = tmp_path_factory.mktemp("reader")
    face, hands = live.sample("face"), live.sample("hands")
    for name in ("me", "group", "photo"):
        kits.write_image(folder / f"{name}.jpg", face)
    kits.write_image(folder / "beach.jpg", live.sample("gravel"))
    halves = np.array_split(hands, 2, axis=1)
    for name in "abcdefgh":
        kits.write_image(folder / f"{name}.jpg", halves[name > "e"])
    for photos in ("photos", "waving"):
        (folder / photos).mkdir()
        shutil.copy(folder / "a.jpg", folder / photos)
    with VideoWriter(folder / "clip.mp4", 30) as clip, live.Live("face", frames=3) as frames:
        for frame, _ in frames:
            clip.write(frame)
    model = engine.convert(shipped_model("face_detector"))
    engine.save(model, folder / "face_detector.palm")
    engine.save(model, folder / "net.onnx")
    shutil.copy(shipped_model("reranker"), folder / "my.palm")
    inputs = {"one/image": np.zeros((1, 320, 320, 3), np.float32)}
    np.savez(folder / "inputs.npz", **inputs)  # type: ignore[arg-type]
    kits.Look.of(lipstick="ruby").save(folder / "summer.json")
    page = {"items": ITEMS, "history": HISTORY, "chosen": [7], "time": 1.7e9}
    engine.save(classifier(), folder / "classifier.palm")
    (folder / "page.json").write_text(json.dumps(page))
    repository = Repository.create(folder / "repository")
    repository.publish("face_detector", "1.0.1", [folder / "face_detector.palm"])
    repository.promote("face_detector", "1.0.1")
    (folder / "root.json").write_bytes(repository.root())
    return folder


@pytest.fixture
def here(reader: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Work in a copy of the reader's folder; what was said of delivery is forgotten after it."""
    folder = shutil.copytree(reader, tmp_path / "reader")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PALMKIT_DELIVERY_FOLDER", str(tmp_path / "device"))
    yield from _as_new(folder, monkeypatch)


@pytest.fixture
def nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Work in an empty folder; what was said of delivery is forgotten after it."""
    monkeypatch.chdir(tmp_path)
    yield from _as_new(tmp_path, monkeypatch)


def _as_new(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Leave packages with their public names only, as in a process that has imported no more."""
    for package in (kits, engine, delivery):
        for name, value in list(vars(package).items()):
            if isinstance(value, ModuleType) and name not in package.__all__:
                monkeypatch.delattr(package, name)
    monkeypatch.setattr(app, "_client", None)
    yield folder
    delivery.reports.disable()
    if (client := app._client) is not None:  # pyright: ignore[reportPrivateUsage]
        client.close()


@pytest.fixture
def address(here: Path) -> Iterator[str]:
    """Serve the repository in the folder, and return its address."""
    serve = partial(Quiet, directory=str(here / "repository/public"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), serve)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def values() -> dict[str, Any]:
    """Return the values that examples speak of without making them."""
    frame, rng = live.sample("face"), np.random.default_rng(0)
    return {
        "__name__": "__main__",
        "batches": [(rng.random((4, 12), np.float32), np.array([0, 1, 1, 0]))],
        "frame": frame,
        "history": HISTORY,
        "image": np.zeros((1, 320, 320, 3), np.float32),
        "items": ITEMS,
        "key": secrets.token_bytes(32),
        "mirrors": [],
        "one_hot": np.eye(2, dtype=np.float32).__getitem__,
        "page": ITEMS,
        "samples": [{"image": rng.uniform(0, 255, (1, 320, 320, 3)).astype(np.float32)}],
        "show": show,
        "timestamp_ms": 0.0,
    }


def show(picture: NDArray[np.uint8]) -> None:
    """Stand for a program's own way to show a picture."""
    assert picture.ndim == 3
