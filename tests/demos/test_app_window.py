"""The window as it is used: pages, sources, pause, comparison, saving, files dropped on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from palmkit import kits
from palmkit.kits.tryon.look import Look
from palmkit.kits.video import VideoReader
from tests.demos.driving import (
    LONG,
    NEEDS_MODELS,
    OpenWindow,
    Said,
    Wait,
    click,
    find,
    goes_on,
    pause,
    press,
    shows,
)

if TYPE_CHECKING:
    from PySide6.QtCore import QSettings


pytestmark = NEEDS_MODELS


def test_every_page_shows_something(open_window: OpenWindow, wait: Wait) -> None:
    from PySide6.QtCore import Qt
    from PySide6.QtTest import QTest

    window = open_window("--source", "drawing", "--page", "face")
    stages = {"face": "find", "portrait": "mask", "gesture": "hands", "try_on": "things"}
    for number, (page, stage) in enumerate(stages.items(), start=1):
        key = Qt.Key(Qt.Key.Key_0.value + number)
        QTest.keyClick(window, key, Qt.KeyboardModifier.ControlModifier)
        assert window.current is window.pages[page]
        shows(window, wait, page)
        for name in (stage, "draw"):
            wait(lambda: f"{name} " in window.status.text("status_stages"), name)  # noqa: B023
        assert not window.banner.isVisible()
        assert "1 " in window.live.summary.text() or "%" in window.live.summary.text()
    for name in window.pages:
        window.select(name)
        assert window.current is window.pages[name]
    window.select("face")
    shows(window, wait, "face")
    wait(lambda: "fps" in window.status.text("status_rate"), "a frame rate")
    assert "shipped" in window.status.text("status_models")
    assert window.status.text("status_source") == "Drawn sample"


def test_without_a_camera_there_is_the_sample_and_no_error(
    open_window: OpenWindow, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    from palmkit.demos.app import live, source

    monkeypatch.setattr(live, "cameras", list)
    window = open_window("--page", "face")
    shows(window, wait, "face")
    assert isinstance(window.live.source, source.Sample) and not window.banner.isVisible()


def test_a_camera_in_use_is_said_and_the_sample_shown(
    open_window: OpenWindow, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    from palmkit.demos.app import source

    def is_there(number: int) -> bool:
        return True

    monkeypatch.setattr(source, "_is_there", is_there)
    window = open_window("--page", "face", "--source", "7")
    # It may have been said before the window was there: the banner keeps it.
    wait(window.banner.isVisible, "a message")
    text = window.banner.text.text()
    assert "Camera 7" in text and "another program" in text and "sample" in text
    assert window.banner.property("level") == "warning"
    assert window.banner.action.text() == "Try again"
    shows(window, wait, "face")
    click(window.banner.action)
    wait(window.banner.isVisible, "the second attempt")
    window.banner.close_message()
    assert not window.banner.isVisible()


def test_sources_that_cannot_be_read_are_said(
    open_window: OpenWindow, wait: Wait, tmp_path: Path
) -> None:
    window = open_window("--page", "face", "--source", str(tmp_path / "gone.mp4"))
    said = Said(window.context)
    shows(window, wait, "face")
    assert window.banner.isVisible() and "No such file" in window.banner.text.text()
    (tmp_path / "bad.mp4").write_bytes(b"no video")
    window.take_file(tmp_path / "bad.mp4")
    wait(lambda: said.of("warning"), "a message")
    assert "bad.mp4" in said.of("warning")[0]
    (tmp_path / "notes.txt").write_text("no picture")
    window.take_file(tmp_path / "notes.txt")
    assert "neither a picture nor a video: notes.txt" in said.of("error")[0]
    shows(window, wait, "face")


def test_space_holds_the_frame_and_settings_still_act(open_window: OpenWindow, wait: Wait) -> None:
    from PySide6.QtCore import Qt

    window = open_window("--source", "drawing", "--page", "portrait")
    shows(window, wait, "portrait")
    press(window.live.view, Qt.Key.Key_Space)
    assert window.worker.is_paused
    wait(lambda: window.status.text("status_rate") == "", "no frame rate")

    def shown() -> bytes:
        picture = window.live.shown_picture()
        return b"" if picture is None else picture.tobytes()

    held = shown()
    page = window.pages["portrait"]
    page._show("colour")  # type: ignore[attr-defined]
    wait(lambda: shown() != held, "the other background")
    press(window.live.view, Qt.Key.Key_Space)
    assert not window.worker.is_paused


def test_before_and_after(open_window: OpenWindow, wait: Wait) -> None:
    from PySide6.QtCore import QPoint, Qt
    from PySide6.QtTest import QTest

    window = open_window("--source", "drawing", "--page", "try_on")
    shows(window, wait, "try_on")
    view = window.live.view
    press(view, Qt.Key.Key_B)
    assert view.split == 0.5
    press(view, Qt.Key.Key_Right)
    assert view.split == pytest.approx(0.52)
    place = view.place()
    middle = QPoint(round(place.left() + place.width() / 4), round(place.center().y()))
    QTest.mouseClick(view, Qt.MouseButton.LeftButton, pos=middle)
    assert view.split == pytest.approx(0.25, abs=0.01)
    view.set_split(1.0)
    window.worker.pause(True)
    picture, last = window.live.shown_picture(), window.live.last
    assert picture is not None and last is not None
    assert np.array_equal(picture[:, :-1], last.outcome.before[:, :-1])
    click(window.live.compare_button)
    assert view.split is None


def test_a_picture_and_a_clip_are_saved(
    open_window: OpenWindow, wait: Wait, tmp_path: Path
) -> None:
    window = open_window("--source", "drawing", "--page", "face")
    said = Said(window.context)
    shows(window, wait, "face")
    picture = window.live.shown_picture()
    assert picture is not None
    window.live.saving.write_picture(tmp_path / "a", picture)
    wait(lambda: said.of("info"), "saved")
    assert np.array_equal(kits.read_image(tmp_path / "a.png"), picture)
    window.live.saving.begin_clip(tmp_path / "b.mp4")
    assert window.live.record_button.isChecked()
    pause(wait, 0.5)
    click(window.live.record_button)
    wait(lambda: len(said.of("info")) == 2, "saved")
    with VideoReader(tmp_path / "b.mp4") as video:
        assert len(list(video)) >= 12
    window.live.saving.write_picture(tmp_path / "gone" / "a.png", picture)
    wait(lambda: said.of("error"), "an error")
    assert sorted(each.name for each in tmp_path.iterdir() if each.suffix != ".ini") == [
        "a.png",
        "b.mp4",
    ]


def test_a_clip_goes_on_over_other_sources(
    open_window: OpenWindow, wait: Wait, tmp_path: Path
) -> None:
    """A still picture lasts as long as it was recorded; others are put into its size."""
    green, red = (np.full((60, 80, 3), colour, np.uint8) for colour in ((0, 255, 0), (255, 0, 0)))
    kits.write_image(tmp_path / "green.png", green)
    kits.write_image(tmp_path / "red.png", np.concatenate([red, red], axis=1))
    window = open_window("--source", str(tmp_path / "green.png"), "--page", "face")
    said = Said(window.context)
    shows(window, wait, "face")

    window.live.saving.begin_clip(tmp_path / "a.mp4", window.live.shown_picture())
    pause(wait, 0.6)
    window.take_file(tmp_path / "red.png")
    shows(window, wait, "face")
    pause(wait, 0.3)
    click(window.live.record_button)
    wait(lambda: said.of("info"), "saved")
    with VideoReader(tmp_path / "a.mp4") as video:
        seen = [frame for frame, _ in video]
    assert len(seen) >= 27 and {frame.shape for frame in seen} == {(60, 80, 3)}
    middles = [frame[30, 40].argmax() for frame in seen]
    assert middles[:18] == [1] * 18 and middles[-9:] == [0] * 9 and middles == sorted(middles)[::-1]
    # The wide picture leaves bars above and below.
    assert seen[-1][3, 40].max() < 40


def test_files_that_are_dropped(open_window: OpenWindow, wait: Wait, tmp_path: Path) -> None:
    from palmkit.demos.app.pages.try_on import TryOnPage
    from palmkit.demos.app.source import Picture

    window = open_window("--source", "drawing", "--page", "face")
    said = Said(window.context)
    shows(window, wait, "face")
    Look.of(lipstick="plum").save(tmp_path / "mine.json")
    window.take_file(tmp_path / "mine.json")
    page = window.pages["try_on"]
    assert isinstance(page, TryOnPage) and window.current is page
    assert page.worn == Look.of(lipstick="plum")
    (tmp_path / "bad.json").write_text('{"palmkit_look": 1, "lipstick": 3}')
    window.take_file(tmp_path / "bad.json")
    assert "nothing has changed" in said.of("error")[0] and "bad.json" in said.of("error")[0]
    assert page.worn == Look.of(lipstick="plum")
    kits.write_image(tmp_path / "wall.png", np.full((30, 40, 3), (10, 200, 30), np.uint8))
    window.take_file(tmp_path / "wall.png")
    assert window.live.source == Picture(tmp_path / "wall.png")
    wait(lambda: window.live.summary.text() == "No face", "the wall")


def test_a_page_that_fails_is_said_and_the_rest_goes_on(
    open_window: OpenWindow, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = open_window("--source", "drawing", "--page", "portrait")
    said = Said(window.context)
    shows(window, wait, "portrait")

    def fail(shot: object) -> None:
        raise kits.PalmError("the model is damaged")

    monkeypatch.setattr(window.pages["portrait"], "look", fail)
    wait(lambda: said.of("error"), "an error")
    assert said.of("error")[0] == "the model is damaged"
    goes_on(window, wait)
    monkeypatch.undo()
    window.select("face")
    shows(window, wait, "face")


def test_no_size_is_too_small(open_window: OpenWindow, wait: Wait) -> None:
    window = open_window("--source", "drawing", "--page", "face")
    shows(window, wait, "face")
    view = window.live.view
    view.setMinimumSize(0, 0)
    for width, height in ((0, 0), (1, 1), (1, 300), (300, 1), (400, 300)):
        view.setParent(None) if view.parent() else None
        view.resize(width, height)
        assert not view.grab().isNull() or 0 in (width, height)
    assert not view.place().isEmpty()
    view.show_pictures(None, None)
    assert view.place().isEmpty() and not view.grab().isNull()


def test_what_was_chosen_is_there_again(
    open_window: OpenWindow, wait: Wait, settings: QSettings
) -> None:
    from palmkit.demos.app.pages.try_on import TryOnPage

    window = open_window("--source", "drawing", "--page", "try_on")
    page = window.pages["try_on"]
    assert isinstance(page, TryOnPage)
    page.use("evening")
    window.theme.choose("dark")
    window.close()
    again = open_window("--source", "drawing")
    page = again.pages["try_on"]
    assert again.current is page and isinstance(page, TryOnPage)
    assert page.worn == Look.load("evening") and again.theme.choice == "dark"
    again.close()


@LONG
def test_damaged_settings_are_left_out(open_window: OpenWindow, settings: QSettings) -> None:
    for damaged in ("[", json.dumps({"lipstick": {"colour": 4}}), json.dumps([1])):
        for name in ("face", "portrait", "gesture", "try_on"):
            settings.setValue(f"page/{name}", damaged)
        settings.setValue("theme", "purple")
        settings.setValue("geometry", "nonsense")
        open_window("--source", "drawing").close()


def test_effects_are_chosen_by_clicks(open_window: OpenWindow, wait: Wait) -> None:
    from PySide6.QtWidgets import QPushButton

    from palmkit.demos.app.controls import Swatch
    from palmkit.demos.app.pages.try_on import TryOnPage

    window = open_window("--source", "drawing", "--page", "try_on")
    page = window.pages["try_on"]
    assert isinstance(page, TryOnPage)
    click(find(page, QPushButton, "look_none"))
    assert not page.worn
    shows(window, wait, "try_on")
    click(find(page, Swatch, "swatch_classic_red"))
    assert page.worn == Look.of(lipstick="classic_red")

    def is_worn() -> bool:
        last = window.live.last
        assert last is not None
        changed = (last.outcome.picture != last.outcome.before).any(axis=2)
        return bool(0 < changed.mean() < 0.05)

    wait(is_worn, "red lips")
    click(find(page, QPushButton, "effect_blush"))
    click(find(page, QPushButton, "look_evening"))
    assert page.worn == Look.load("evening")
    assert "•" in find(page, QPushButton, "effect_blush").text()
