"""What goes wrong in the middle of a session: the window says so, and goes on."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from palmkit import kits
from palmkit.delivery import app
from palmkit.delivery.embedded import shipped
from palmkit.delivery.repository import Options, Repository
from palmkit.kits import delivered
from palmkit.kits.image import Image
from palmkit.kits.tryon.look import Look
from tests.demos.driving import (
    LONG,
    NEEDS_MODELS,
    OpenWindow,
    Said,
    Wait,
    click,
    find,
    goes_on,
)
from tests.demos.test_app_updates import broken_model

if TYPE_CHECKING:
    pass

pytestmark = NEEDS_MODELS


def test_a_camera_that_is_unplugged_while_it_is_shown(
    open_window: OpenWindow, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    from palmkit.demos.app import source

    plugged_in = True

    class Reader:
        """A camera until it is pulled out."""

        def __init__(self, number: object) -> None:
            if not plugged_in:
                raise kits.ImageError("camera cannot be opened")

        def __enter__(self) -> Reader:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def __iter__(self) -> Iterator[tuple[Image, float]]:
            shade = 0
            while plugged_in:
                shade = (shade + 1) % 200
                yield np.full((48, 64, 3), shade, np.uint8), 0.0

    def is_there(number: int) -> bool:
        return plugged_in

    monkeypatch.setattr(source, "VideoReader", Reader)
    monkeypatch.setattr(source, "_is_there", is_there)
    window = open_window("--page", "face", "--source", "0")
    said = Said(window.context)
    goes_on(window, wait)
    assert isinstance(window.live.source, source.Camera) and not said.all
    plugged_in = False
    wait(lambda: said.all, "that it is gone")
    assert "camera 0 gives no more pictures" in said.of("warning")[0]
    assert isinstance(window.live.source, source.Sample)
    goes_on(window, wait)
    # Plugged in again, the message's button brings it back.
    plugged_in = True
    assert window.banner.isVisible()
    click(window.banner.action)
    wait(lambda: isinstance(window.live.source, source.Camera), "the camera again")
    goes_on(window, wait)


def test_a_camera_that_hangs(
    open_window: OpenWindow, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its driver answers neither to be opened nor with a frame: the window goes on meanwhile."""
    from palmkit.demos.app import live, source, worker

    over = threading.Event()

    class Reader:
        """A camera whose driver hangs."""

        def __init__(self, number: object) -> None:
            over.wait()
            raise kits.ImageError("camera cannot be opened")

    def at_once(act: Callable[[], None]) -> None:
        """Whoever waits for the driver finds it over."""
        watchdog = threading.Timer(30, over.set)
        watchdog.start()
        act()
        watchdog.cancel()
        assert not over.is_set()

    monkeypatch.setattr(source, "VideoReader", Reader)
    monkeypatch.setattr(worker, "LEAVE_S", 60)
    # A sample may be slow on a busy machine: that is not what is said here.
    monkeypatch.setattr(live, "PATIENCE_MS", 600_000)
    window = open_window("--page", "face", "--source", "drawing")
    said = Said(window.context)
    goes_on(window, wait)
    monkeypatch.setattr(live, "PATIENCE_MS", 300)
    for number in (3, 4):
        at_once(partial(window.live.open, source.Camera(number)))
    wait(lambda: said.all, "that it hangs")
    assert said.of("warning") == ["Camera 4 gives no picture yet"]
    monkeypatch.setattr(live, "PATIENCE_MS", 600_000)
    at_once(partial(click, window.banner.action))
    goes_on(window, wait)
    assert isinstance(window.live.source, source.Sample)
    over.set()
    goes_on(window, wait)
    assert len(said.all) == 1


NO_LOOKS = (
    b"",
    b"{",
    b"[]",
    b"\xff\xfe\x00",
    b'{"palmkit_look": 99}',
    b'{"palmkit_look": 1, "lipstick": {"colour": "no colour"}}',
    b'{"palmkit_look": 1, "lipstick": {"colour": [1e400, 0, 0]}}',
    b'{"palmkit_look": 1, "moustache": {}}',
    b"[" * 100_000,
)


def test_looks_that_are_none(open_window: OpenWindow, wait: Wait, tmp_path: Path) -> None:
    window = open_window("--page", "try_on", "--source", "drawing")
    page: Any = window.pages["try_on"]
    said, worn = Said(window.context), page.worn
    for number, content in enumerate(NO_LOOKS, 1):
        (tmp_path / "look.json").write_bytes(content)
        window.take_file(tmp_path / "look.json")
        assert len(said.of("error")) == number, content[:40]
        assert "nothing has changed" in said.of("error")[-1]
        assert page.worn is worn and window.banner.isVisible()
    goes_on(window, wait)
    Look.load("party").save(tmp_path / "look.json")
    window.take_file(tmp_path / "look.json")
    assert page.worn == Look.load("party")


@LONG
def test_settings_that_are_damaged_are_those_of_a_new_user(
    open_window: OpenWindow, settings: Any, wait: Wait
) -> None:
    for name in ("face", "portrait", "gesture", "try_on"):
        settings.setValue(f"page/{name}", '{"lipstick": 3, "show": [], "most": "many"')
    for name in ("geometry", "page", "theme", "updates/url", "folder"):
        settings.setValue(name, json.dumps({"no": "such"}))
    window = open_window("--source", "drawing")
    assert window.current is window.pages["face"]
    for name in ("portrait", "gesture", "try_on", "face"):
        window.select(name)
        goes_on(window, wait, 1)
    assert not window.banner.isVisible()


@LONG
def test_an_update_that_fails_in_the_middle_of_a_session(
    open_window: OpenWindow, wait: Wait, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server goes, comes back with a release that gives NaN, then with one that is good."""
    pytest.importorskip("starlette", reason="palmkit serve needs the extra [server]")
    from PySide6.QtWidgets import QLabel, QPushButton

    from tests.delivery.server.test_serve import serving

    monkeypatch.setattr(app, "_client", None)
    monkeypatch.setattr(delivered, "POLL_EVERY_S", 0.05)
    folder = tmp_path / "server"

    def check() -> None:
        window.select("updates")
        button = find(page, QPushButton, "updates_check")
        click(button)
        wait(lambda: button.isEnabled() and not page.is_busy, "the end of a check", limit_s=60)
        window.select("face")

    def models() -> str:
        return find(window, QLabel, "status_models").text()

    def serve_until_checked(port: int) -> None:
        with serving(folder, port=port):
            check()

    with serving(folder) as (url, _process):
        port = int(url.rpartition(":")[2])
        window = open_window(
            "--source", "sample", "--page", "face",
            "--repository", url, "--root", str(folder / "root.json"),
        )  # fmt: skip
        page: Any = window.pages["updates"]
        said = Said(window.context)
        goes_on(window, wait)
    check()
    assert said.of("warning")[0].startswith("The update failed; the models that are here")
    goes_on(window, wait)
    black: Any = {"in/black/image": np.zeros((1, 64, 64, 3), np.float32)}
    np.savez(tmp_path / "golden.npz", **black)
    repository = Repository.open(folder / "repository")
    model = "face_detector"
    broken = broken_model(tmp_path / "broken.palm")
    repository.publish(model, "1.2.0", [broken], Options(golden=tmp_path / "golden.npz"))
    repository.promote(model, "1.2.0", "stable")
    serve_until_checked(port)
    refused = f"{model} 1.2.0 failed here (nan): going on with 1.0"
    wait(lambda: refused in said.of("warning"), "that it was refused", limit_s=60)
    goes_on(window, wait)
    wait(lambda: "face detector 1.0 (shipped)" in models(), "the old one")
    repository.publish(model, "1.3.0", [shipped()[model].path], Options(golden=1))
    repository.promote(model, "1.3.0", "stable")
    serve_until_checked(port)
    wait(lambda: "face detector 1.3.0 (stable)" in models(), "the good one", limit_s=60)
    goes_on(window, wait)
    assert not said.of("error")
    if app._client is not None:  # pyright: ignore[reportPrivateUsage]
        app._client.close()  # pyright: ignore[reportPrivateUsage]
