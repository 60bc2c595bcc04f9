"""The models page and a real `palmkit serve`: publish, promote, check, and a kit that goes on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import skimage.data

from palmkit import engine, kits
from palmkit.delivery.embedded import shipped
from palmkit.delivery.repository import Options, Repository
from palmkit.demos.app.updates import Standing, told
from palmkit.engine.ir import Node
from palmkit.kits import delivered
from palmkit.kits.image import Image
from tests.demos.driving import NEEDS_MODELS, Said, Wait, click, discard, find

if TYPE_CHECKING:
    from palmkit.demos.app.page import Context
    from palmkit.demos.app.pages.updates import UpdatesPage

MODEL = "face_detector"

pytestmark = NEEDS_MODELS


@pytest.fixture(scope="module")
def astronaut() -> Image:
    return kits.read_image(skimage.data.astronaut())  # type: ignore[no-untyped-call]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The URL of palmkit serve, and its folder."""
    pytest.importorskip("starlette", reason="palmkit serve needs the extra [server]")
    from tests.delivery.server.test_serve import serving

    folder = tmp_path / "server"
    with serving(folder) as (url, _process):
        yield url, folder


@pytest.fixture
def page(
    context: Context, complaints: list[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[UpdatesPage]:
    from palmkit.delivery import app
    from palmkit.demos.app.pages.updates import UpdatesPage

    monkeypatch.setattr(app, "_client", None)
    monkeypatch.setattr(delivered, "POLL_EVERY_S", 0.05)
    page = UpdatesPage(context)
    page.resize(900, 600)
    page.show()
    yield page
    page.shutdown()
    discard(page)
    if app._client is not None:  # pyright: ignore[reportPrivateUsage]
        app._client.close()  # pyright: ignore[reportPrivateUsage]


def palmkit(*arguments: object) -> None:
    """The command, as people type it."""
    command = [sys.executable, "-m", "palmkit", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def connect(page: UpdatesPage, url: str, root: Path) -> None:
    from PySide6.QtWidgets import QLineEdit, QPushButton

    find(page, QLineEdit, "updates_url").setText(url)
    find(page, QLineEdit, "updates_root").setText(str(root))
    click(find(page, QPushButton, "updates_connect"))


def check(page: UpdatesPage, wait: Wait) -> None:
    from PySide6.QtWidgets import QPushButton

    button = find(page, QPushButton, "updates_check")
    click(button)
    wait(lambda: button.isEnabled() and not page.is_busy, "the end of a check", limit_s=60)


def row(page: UpdatesPage, model: str) -> list[str]:
    for at in range(page.table.rowCount()):
        texts = [page.table.item(at, column).text() for column in range(5)]  # type: ignore[union-attr]
        if texts[0] == model:
            return texts
    raise AssertionError(model)


def said_text(page: UpdatesPage) -> str:
    from PySide6.QtWidgets import QLabel

    return find(page, QLabel, "updates_said").text()


def test_shipped_models_need_no_server(page: UpdatesPage, context: Context) -> None:
    from PySide6.QtWidgets import QPushButton

    assert {row(page, name)[1] for name in shipped()} == {"1.0"}
    assert not find(page, QPushButton, "updates_check").isEnabled()
    assert context.catalogue.source(MODEL) is None
    assert context.catalogue.version(MODEL, {}) == "1.0 (shipped)"


def test_a_model_changes_between_frames_as_the_readme_says(
    page: UpdatesPage, context: Context, server: tuple[str, Path], wait: Wait, astronaut: Image
) -> None:
    """What demos/app/README.md tells to try on one machine, step by step."""
    url, folder = server
    said = Said(context)
    connect(page, url, folder / "root.json")
    assert context.catalogue.source(MODEL) == f"{MODEL}@stable"
    check(page, wait)
    assert said_text(page) == "Nothing new."
    assert row(page, MODEL)[1:] == ["1.0", "shipped", "came with PalmKit", "not in the repository"]
    detector = kits.FaceDetector("video", model=context.catalogue.source(MODEL))
    assert len(detector.detect(astronaut, 0.0)) == 1
    repository = ["-r", folder / "repository"]
    palmkit("models", "publish", MODEL, "1.1.0", shipped()[MODEL].path, *repository)
    palmkit("models", "promote", MODEL, "1.1.0", *repository)
    check(page, wait)
    assert said_text(page) == f"New: {MODEL}."
    frames = iter(range(1, 1000))

    def goes_on(version: str) -> bool:
        assert len(detector.detect(astronaut, next(frames) * 33.0)) == 1
        return detector.releases == {f"{MODEL}@stable": version}

    wait(lambda: goes_on("1.1.0"), "the new model")
    assert context.catalogue.version(MODEL, detector.releases) == "1.1.0 (stable)"
    wait(lambda: row(page, MODEL)[1:3] == ["1.1.0", "stable"], "the table")
    assert any("1.0 → 1.1.0" in text for text in said.of("info"))
    palmkit("models", "recall", MODEL, "1.1.0", *repository)
    check(page, wait)
    wait(lambda: goes_on("1.0"), "the old model again")
    wait(lambda: row(page, MODEL)[1:3] == ["1.0", "shipped"], "the table")
    detector.close()


def broken_model(path: Path) -> Path:
    """The detector, whose outputs are NaN for every picture that is not all black."""
    graph = engine.convert(shipped()[MODEL].path)
    first = (
        Node("neg", ("image",), ("below",)),
        Node("sqrt", ("below",), ("root",)),
        Node("add", ("image", "root"), ("odd",)),
    )
    others = [
        replace(node, inputs=tuple("odd" if name == "image" else name for name in node.inputs))
        for node in graph.nodes
    ]
    engine.save(replace(graph, nodes=(*first, *others)), path)
    return path


def test_a_release_that_fails_is_said_and_the_old_one_goes_on(
    page: UpdatesPage,
    context: Context,
    server: tuple[str, Path],
    wait: Wait,
    astronaut: Image,
    tmp_path: Path,
) -> None:
    """In the middle of a session: it passes its golden inputs, all black, and fails at a frame."""
    url, folder = server
    said = Said(context)
    connect(page, url, folder / "root.json")
    detector = kits.FaceDetector("video", model=context.catalogue.source(MODEL))
    assert len(detector.detect(astronaut, 0.0)) == 1
    black: Any = {"in/black/image": np.zeros((1, 64, 64, 3), np.float32)}
    np.savez(tmp_path / "golden.npz", **black)
    repository = Repository.open(folder / "repository")
    options = Options(golden=tmp_path / "golden.npz")
    repository.publish(MODEL, "1.2.0", [broken_model(tmp_path / "broken.palm")], options)
    repository.promote(MODEL, "1.2.0", "stable")
    check(page, wait)
    assert said_text(page) == f"New: {MODEL}."
    frames = iter(range(1, 10_000))

    def refused() -> list[str]:
        # Every frame has its face: the one at which the release fails is looked at anew.
        assert len(detector.detect(astronaut, next(frames) * 33.0)) == 1
        return [text for text in said.of("warning") if "1.2.0 failed here" in text]

    wait(refused, "a message")
    assert refused() == [f"{MODEL} 1.2.0 failed here (nan): going on with 1.0"]
    assert detector.releases == {f"{MODEL}@stable": "1.0"}
    wait(lambda: "1.2.0 refused (nan)" in row(page, MODEL)[4], "the table")
    detector.close()


def test_a_server_that_is_gone_is_said_and_all_goes_on(
    page: UpdatesPage, context: Context, tmp_path: Path, wait: Wait, astronaut: Image
) -> None:
    said = Said(context)
    pytest.importorskip("starlette", reason="palmkit serve needs the extra [server]")
    from tests.delivery.server.test_serve import serving

    with serving(tmp_path / "server") as (url, _process):
        connect(page, url, tmp_path / "server" / "root.json")
    detector = kits.FaceDetector("video", model=context.catalogue.source(MODEL))
    check(page, wait)
    assert said.of("warning")[0].startswith("The update failed; the models that are here")
    assert said_text(page).startswith("The check failed: ")
    assert len(detector.detect(astronaut, 0.0)) == 1
    assert said.actions[-1] is not None
    detector.close()


@pytest.mark.parametrize("content", [None, b"", b"{", b"[]"])
def test_a_root_that_is_none_is_said(
    page: UpdatesPage, context: Context, tmp_path: Path, wait: Wait, content: bytes | None
) -> None:
    said = Said(context)
    root = tmp_path / "root.json"
    if content is not None:
        root.write_bytes(content)
    connect(page, "http://127.0.0.1:9", root)
    if context.catalogue.client is not None:
        check(page, wait)
    assert said.of("error") or said.of("warning")
    assert row(page, MODEL)[1:3] == ["1.0", "shipped"]


def test_disconnected_is_as_shipped(
    page: UpdatesPage, context: Context, server: tuple[str, Path]
) -> None:
    from PySide6.QtWidgets import QPushButton

    url, folder = server
    changes: list[int] = []
    context.catalogue.changed.connect(lambda: changes.append(context.catalogue.generation))
    connect(page, url, folder / "root.json")
    click(find(page, QPushButton, "updates_connect"))
    assert changes == [1, 2]
    assert context.catalogue.source(MODEL) is None and context.catalogue.client is None


def test_what_changed_in_words() -> None:
    old = Standing("hair", "1.0", "shipped", "EMBEDDED")
    new = Standing("hair", "1.1", "stable", "TRIAL")
    assert told([old], [old]) == told([], [new]) == []
    assert told([old], [new]) == [("hair: 1.0 → 1.1 (stable)", False)]
    failed = replace(old, refused=(("1.1", "nan"),))
    assert told([new], [failed]) == [("hair 1.1 failed here (nan): going on with 1.0", True)]
