"""The window as people use it: a real screen, real clicks and keys, what is seen."""

from __future__ import annotations

import shutil
import subprocess
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from palmkit.demos.app import PAGES
from palmkit.kits import read_image
from palmkit.kits.image import Image
from tests.demos.driving import LONG, NEEDS_MODELS, OpenWindow, Wait, find, pause, press
from tests.demos.scenes import FOLDER, MOST_BYTES, SCENES, Scene, alike, picture_of, play, source_of

if TYPE_CHECKING:
    from palmkit.demos.app.window import Window

pytestmark = NEEDS_MODELS
COMPARED = [scene for scene in SCENES if scene.is_compared]
# Of two pictures of one scene; of two scenes it is below .8.
LEAST_ALIKE = 0.9


def colours(picture: Image) -> int:
    """How many there are, roughly."""
    return len(np.unique(picture.reshape(-1, 3) >> 4, axis=0))


def seen(window: Window, widget: Any) -> Image:
    """The part of the window's picture in which a widget lies."""
    from PySide6.QtCore import QPoint

    corner = widget.mapTo(window, QPoint(0, 0))
    whole = picture_of(window)
    return whole[
        corner.y() : corner.y() + widget.height(), corner.x() : corner.x() + widget.width()
    ]


@LONG
@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_seen_on_a_real_screen(
    open_window: OpenWindow, real_screen: str, wait: Wait, name: str
) -> None:
    """What the X server has of the window, not what Qt would draw into it."""
    from PySide6.QtCore import Qt
    from PySide6.QtTest import QTest

    first = "portrait" if name == "face" else "face"
    window = open_window("--page", first, "--source", "drawing", "--theme", "dark")
    number = PAGES.index(name) + 1
    QTest.keyClick(window, Qt.Key(Qt.Key.Key_0 + number), Qt.KeyboardModifier.ControlModifier)
    assert window.current is window.pages[name] and window.navigation.currentRow() == number - 1
    page: Any = window.pages[name]
    if name in PAGES[:4]:
        wait(lambda: window.live.shown_picture() is not None, "a frame", limit_s=60)
    elif name == "feed":
        wait(lambda: len(page.grid.order) == 60 and not page.is_busy, "the feed")
    pause(wait, 0.3)
    screen = window.screen()
    assert screen is not None
    shot = screen.grabWindow(int(window.winId()))
    ratio = shot.devicePixelRatio()
    assert (shot.width() / ratio, shot.height() / ratio) == (window.width(), window.height())
    image = shot.toImage()
    spread = {
        image.pixelColor(x, y).name()
        for x in range(210, image.width() - 10, 7)
        for y in range(10, image.height() - 40, 7)
    }
    assert len(spread) > (40 if name in PAGES[:5] else 4)
    assert window.isVisible() and not window.banner.isVisible()


@LONG
@pytest.mark.parametrize("scene", COMPARED, ids=lambda scene: scene.page)
def test_it_looks_as_in_the_readme(
    open_window: OpenWindow, wait: Wait, tmp_path: Path, scene: Scene
) -> None:
    """Pictures agree in structure, as fonts may differ. `make screenshots` makes them anew."""
    window = open_window("--page", scene.page, "--source", source_of(scene, tmp_path))
    found = play(window, scene, wait)
    likes = {other.page: alike(found, read_image(FOLDER / f"{other.page}.jpg")) for other in SCENES}
    assert likes[scene.page] > LEAST_ALIKE
    assert max(likes, key=lambda page: likes[page]) == scene.page
    assert all(like < LEAST_ALIKE for page, like in likes.items() if page != scene.page)


def test_pictures_of_the_readme_are_small() -> None:
    assert {path.stem for path in FOLDER.glob("*.jpg")} == {scene.page for scene in SCENES}
    for path in FOLDER.glob("*.jpg"):
        assert path.stat().st_size < MOST_BYTES


@LONG
def test_widgets_are_where_they_are_expected(open_window: OpenWindow, wait: Wait) -> None:
    from PySide6.QtCore import QPoint
    from PySide6.QtWidgets import QLabel, QToolButton, QWidget

    window = open_window("--page", "face", "--source", "sample", "--theme", "dark")
    wait(lambda: window.live.shown_picture() is not None, "a frame", limit_s=60)

    def place(name: str, kind: type[QWidget] = QWidget) -> tuple[int, int, int, int]:
        widget = find(window, kind, name)
        corner = widget.mapTo(window, QPoint(0, 0))
        assert widget.isVisible() and widget.width() > 8 and widget.height() > 8, name
        return corner.x(), corner.y(), widget.width(), widget.height()

    navigation, panel = place("navigation"), place("panel")
    buttons = [
        place(name, QToolButton) for name in ("source", "pause", "compare", "save", "record")
    ]
    assert navigation[0] < buttons[0][0]
    assert [each[0] for each in buttons] == sorted(each[0] for each in buttons)
    assert {each[1] for each in buttons} == {buttons[0][1]}
    assert buttons[-1][0] + buttons[-1][2] <= panel[0]
    assert panel[0] + panel[2] <= window.width()
    view = window.live.view
    assert colours(seen(window, view)) > 100
    wait(lambda: find(window, QLabel, "status_rate").text().endswith("fps"), "a frame rate")
    wait(lambda: " ms" in find(window, QLabel, "status_stages").text(), "times")
    assert "1.0 (shipped)" in find(window, QLabel, "status_models").text()
    assert find(window, QLabel, "status_source").text() == "Sample"


@LONG
def test_dark_and_light(open_window: OpenWindow, wait: Wait) -> None:
    window = open_window("--page", "updates", "--source", "drawing", "--theme", "dark")
    dark = picture_of(window).mean()
    window.theme.choose("light", keep=False)
    wait(lambda: picture_of(window).mean() > 200, "a light window")
    assert dark < 60
    # Words can be read: WCAG's contrast of 4.5.
    from palmkit.demos.app.theme import DARK, LIGHT

    for each in (DARK, LIGHT):
        for text in (each.text, each.soft):
            for ground in (each.window, each.surface):
                assert contrast(text, ground) >= 4.5, (text, ground)


def test_a_theme_seen_before_makes_no_pictures(open_window: OpenWindow) -> None:
    from PySide6.QtWidgets import QAbstractButton, QLabel

    window = open_window("--page", "updates", "--source", "drawing", "--theme", "dark")

    def pictures(is_dark: bool) -> list[int]:
        """A number for each; a picture made anew has another."""
        window.theme.choose("dark" if is_dark else "light", keep=False)
        rows = (window.navigation.item(row) for row in range(window.navigation.count()))
        icons = [window.windowIcon(), *(row.icon() for row in rows)]
        icons += [button.icon() for button in window.findChildren(QAbstractButton)]
        keys = [each.cacheKey() for each in icons]
        keys += [label.pixmap().cacheKey() for label in window.findChildren(QLabel)]
        return [key for key in keys if key]

    light, dark = pictures(False), pictures(True)
    assert len(dark) == len(light) > 10 and dark != light
    assert (pictures(False), pictures(True)) == (light, dark)


def contrast(one: str, other: str) -> float:
    def light(name: str) -> float:
        parts = np.array([int(name[at : at + 2], 16) for at in (1, 3, 5)]) / 255
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ (0.2126, 0.7152, 0.0722))

    lights = sorted((light(one), light(other)))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def test_keys_hold_compare_and_go_on(open_window: OpenWindow, wait: Wait) -> None:
    from PySide6.QtCore import Qt

    window = open_window("--page", "portrait", "--source", "sample")
    wait(lambda: window.live.shown_picture() is not None, "a frame", limit_s=60)
    view = window.live.view
    press(view, Qt.Key.Key_Space)
    assert window.live.pause_button.isChecked() and window.worker.is_paused

    def is_last_shown() -> bool:
        """Frames that were under way have been shown."""
        last = window.worker._last  # pyright: ignore[reportPrivateUsage]
        return window.live.last is not None and window.live.last.shot is last

    wait(is_last_shown, "the frame that is held")
    held = picture_of(view)
    pause(wait, 0.4)
    assert np.array_equal(held, picture_of(view))
    press(view, Qt.Key.Key_B)
    assert window.live.compare_button.isChecked() and view.split is not None
    wait(lambda: not np.array_equal(held, picture_of(view)), "the frame before")
    press(view, Qt.Key.Key_B)
    press(view, Qt.Key.Key_Space)
    wait(lambda: not np.array_equal(held, picture_of(view)), "other frames")


def test_clicks_of_the_x_server(open_window: OpenWindow, real_screen: str, wait: Wait) -> None:
    """The pointer and the keys of the screen itself, by xdotool."""
    if shutil.which("xdotool") is None:
        pytest.skip("xdotool is not here: apt-get install xdotool")
    from PySide6.QtCore import QPoint

    window = open_window("--page", "face", "--source", "drawing", "--theme", "dark")
    window.move(20, 20)

    def xdotool(*arguments: object) -> None:
        subprocess.run(["xdotool", *map(str, arguments)], check=True, timeout=20)

    def click_at(widget: Any, x: int, y: int) -> None:
        at = widget.mapToGlobal(QPoint(x, y))
        xdotool("mousemove", at.x(), at.y(), "click", 1)

    item = window.navigation.visualItemRect(window.navigation.item(PAGES.index("feed")))
    click_at(window.navigation.viewport(), item.center().x(), item.center().y())
    feed: Any = window.pages["feed"]
    wait(lambda: window.current is feed, "the page that was clicked")
    wait(lambda: len(feed.grid.order) == 60 and not feed.is_busy, "the feed")
    card = feed.grid.card(feed.grid.order[1])
    click_at(card, 70, 70)
    wait(lambda: feed.shown.deeds, "an answer to the click")
    assert feed.shown.deeds[-1].words == f"opened the {card.good.title}"
    xdotool("key", "l")
    wait(lambda: feed.shown.deeds[-1].kind == "like", "an answer to the key")
    xdotool("key", "ctrl+4")
    wait(lambda: window.current is window.pages["try_on"], "the page of the keys")
    wait(lambda: window.live.shown_picture() is not None, "a frame", limit_s=60)
    click_at(window.live.pause_button, 10, 10)
    wait(lambda: window.worker.is_paused, "an answer to the click")


def test_frames_are_dropped_and_never_queued(
    open_window: OpenWindow, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that is far too slow: the window lives, and what is seen is new."""
    from palmkit.demos.app.page import Outcome

    window = open_window("--page", "face", "--source", "drawing")
    page: Any = window.pages["face"]
    timestamps: list[float] = []
    turns_meanwhile: list[int] = []
    turns = 0

    def slow(shot: Any) -> Outcome:
        timestamps.append(shot.timestamp_ms)
        before = turns
        time.sleep(0.3)
        turns_meanwhile.append(turns - before)
        return Outcome(shot.image, shot.image, {})

    monkeypatch.setattr(page, "look", slow)

    def enough() -> bool:
        nonlocal turns
        turns += 1
        return len(turns_meanwhile) >= 8

    wait(enough, "eight slow frames")
    assert window.worker.dropped > 10
    # The window's loop went on while a frame was looked at.
    assert min(turns_meanwhile[1:]) >= 2
    # The next frame is not the one that came next, at 30 a second.
    steps = [after - before for before, after in pairwise(timestamps[1:])]
    assert min(steps) > 50
