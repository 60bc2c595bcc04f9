"""Looks of files and of a real `palmkit serve` on the try-on page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from palmkit.delivery import app, data_files
from palmkit.delivery.client import Client
from palmkit.delivery.repository import Repository
from palmkit.kits import Look, delivered
from tests.demos.driving import NEEDS_MODELS, OpenWindow, Said, Wait, click, find

if TYPE_CHECKING:
    from PySide6.QtCore import QSettings
    from PySide6.QtWidgets import QPushButton

    from palmkit.demos.app.window import Window

pytestmark = NEEDS_MODELS


def button(window: Window, name: str) -> QPushButton:
    from PySide6.QtWidgets import QPushButton

    return find(window.pages["try_on"], QPushButton, name)


def buttons(window: Window, start: str) -> list[str]:
    from PySide6.QtWidgets import QPushButton

    found = window.pages["try_on"].findChildren(QPushButton)
    return [each.objectName() for each in found if each.objectName().startswith(start)]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Path]]:
    """The URL of palmkit serve, and its folder."""
    pytest.importorskip("starlette", reason="palmkit serve needs the extra [server]")
    from tests.delivery.server.test_serve import serving

    monkeypatch.setattr(app, "_client", None)
    monkeypatch.setattr(delivered, "POLL_EVERY_S", 0.05)
    with serving(tmp_path / "server") as (url, _process):
        yield url, tmp_path / "server"
    if app._client is not None:  # pyright: ignore[reportPrivateUsage]
        app._client.close()  # pyright: ignore[reportPrivateUsage]


def publish(folder: Path, version: str, content: bytes) -> None:
    repository = Repository.open(folder / "repository")
    (folder / "summer.json").write_bytes(content)
    repository.publish("summer", version, [folder / "summer.json"])
    repository.promote("summer", version, "stable")


def content(look: Look) -> bytes:
    return json.dumps({"palmkit_look": 1, **look.to_dict()}).encode()


def test_looks_are_delivered_and_changed_while_they_are_worn(
    open_window: OpenWindow,
    wait: Wait,
    server: tuple[str, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url, folder = server
    red, plum = Look.of(lipstick="classic_red"), Look.of(lipstick="plum", glasses="gold_aviator")
    publish(folder, "1.0.0", content(red))
    window = open_window(
        "--page", "try_on", "--source", "sample",
        "--repository", url, "--root", str(folder / "root.json"),
    )  # fmt: skip
    page: Any = window.pages["try_on"]
    updates: Any = window.pages["updates"]
    heard = Said(window.context)

    def update() -> None:
        wait(lambda: not updates.is_busy)
        click(button(window, "check_looks"))
        wait(lambda: not updates.is_busy, "the end of a check", limit_s=60)

    def proved(version: str) -> bool:
        client = window.context.catalogue.client
        assert client is not None
        return bool(client.status("summer")["models"][0]["active"] == version)

    assert not buttons(window, "delivered_")
    update()
    wait(lambda: buttons(window, "delivered_") == ["delivered_summer"], "the look")
    assert page.worn != red
    click(button(window, "delivered_summer"))
    assert page.worn == red and button(window, "delivered_summer").isChecked()
    models = window.status
    wait(lambda: "summer 1.0.0 (stable)" in models.text("status_models"), "its version")
    # A release that is yet to prove itself gives way to a newer one, whatever becomes of that.
    wait(lambda: proved("1.0.0"), "the end of its trial", limit_s=60)
    publish(folder, "1.1.0", content(plum))
    update()
    wait(lambda: page.worn == plum, "the newer look", limit_s=60)
    assert button(window, "delivered_summer").isChecked()
    wait(lambda: "summer 1.1.0 (stable)" in models.text("status_models"), "its version")
    wait(lambda: proved("1.1.0"), "the end of its trial", limit_s=60)
    # What is no look, published by a tool that did not check it.
    with monkeypatch.context() as unchecked:
        unchecked.setattr(data_files, "check", lambda path: None)  # pyright: ignore
        publish(folder, "1.2.0", b'{"palmkit_look": 1, "hat": {}}')
    update()
    wait(lambda: heard.of("warning"), "that it was refused", limit_s=60)
    assert "summer 1.2.0" in heard.of("warning")[0]
    wait(lambda: window.live.last is not None and window.live.last.outcome.found.look == plum)
    # A change of one's own stays, whatever comes.
    click(button(window, "look_evening"))
    assert page.worn == Look.load("evening")
    assert not button(window, "delivered_summer").isChecked()
    publish(folder, "1.3.0", content(red))
    update()
    wait(lambda: any("1.3.0" in text for text in heard.of("info")), "the newest")
    assert page.worn == Look.load("evening")
    window.context.catalogue.disconnect_from()
    assert not window.context.catalogue.looks and page.worn == Look.load("evening")
    wait(lambda: not buttons(window, "delivered_"), "no delivered looks")


def test_a_look_that_goes_while_it_is_worn_stays_as_ones_own(
    open_window: OpenWindow, wait: Wait, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its files are gone from the disk, or another program took them away."""
    monkeypatch.setattr(app, "_client", Client(tmp_path / "device"))
    window = open_window("--page", "try_on", "--source", "drawing")
    page: Any = window.pages["try_on"]
    heard, worn = Said(window.context), page.worn
    window.context.catalogue.show_looks({"summer": "1.0"})
    click(button(window, "delivered_summer"))
    assert "cannot be worn, nothing has changed" in heard.of("error")[0]
    assert page.worn == worn and not button(window, "delivered_summer").isChecked()
    page.show_look(worn, "summer")
    wait(lambda: len(heard.of("error")) > 1, "that it cannot be worn")
    wait(lambda: not button(window, "delivered_summer").isChecked(), "one's own look")
    last = window.live.last
    wait(lambda: window.live.last is not last, "other frames")
    assert page.worn == worn


def test_without_a_server_the_way_to_one_is_shown(open_window: OpenWindow) -> None:
    window = open_window("--page", "try_on", "--source", "drawing")
    heard = Said(window.context)
    click(button(window, "check_looks"))
    assert "connect to one first" in heard.of("info")[0]
    click(window.banner.action)
    assert window.current is window.pages["updates"]


def test_looks_of_files_are_listed_and_kept(
    open_window: OpenWindow, tmp_path: Path, settings: QSettings
) -> None:
    window = open_window("--page", "try_on", "--source", "drawing")
    page: Any = window.pages["try_on"]
    heard = Said(window.context)
    ruby = Look.of(lipstick="ruby")
    ruby.save(tmp_path / "a & b.json")
    window.take_file(tmp_path / "a & b.json")
    assert page.worn == ruby and buttons(window, "file_") == ["file_a & b"]
    assert button(window, "file_a & b").isChecked()
    click(button(window, "look_none"))
    assert not button(window, "file_a & b").isChecked()
    again = open_window("--page", "try_on", "--source", "drawing")
    click(button(again, "file_a & b"))
    assert again.pages["try_on"].worn == ruby  # type: ignore[attr-defined]
    # Damaged since: that is said, what is worn stays, and its button goes.
    (tmp_path / "a & b.json").write_text("{")
    click(button(window, "file_a & b"))
    assert "nothing has changed" in heard.of("error")[0] and page.worn == Look()
    assert not [each for each in buttons(window, "file_") if button(window, each).isVisible()]
    assert button(window, "look_none").isChecked()
    for number in range(9):
        ruby.save(tmp_path / f"{number}.json")
        window.take_file(tmp_path / f"{number}.json")
    kept = json.loads(str(settings.value("page/try_on_files")))
    assert [Path(each).stem for each in kept] == ["8", "7", "6", "5", "4", "3"]


def test_a_root_is_dropped_on_any_page(open_window: OpenWindow, tmp_path: Path) -> None:
    window = open_window("--page", "try_on", "--source", "drawing")
    (tmp_path / "root.json").write_text("{}")
    window.take_file(tmp_path / "root.json")
    assert window.current is window.pages["updates"]
