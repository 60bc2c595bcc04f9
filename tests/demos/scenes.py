"""What the README's pictures of the demo application show, made anew for each of them.

`python -m tests.demos.scenes` (`make screenshots`) makes demos/app/*.jpg; the tests compare the
window with them by structure.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from palmkit import kits
from palmkit.kits.image import Image
from tests.demos.driving import Wait, pause

if TYPE_CHECKING:
    from palmkit.demos.app.window import Window

FOLDER = Path(__file__).parents[2] / "demos" / "app"
SIZE = (1180, 760)
QUALITY = 86
MOST_BYTES = 150_000


@dataclass(frozen=True)
class Scene:
    """A page and what is done there. source: "portrait", "hands" or ""; is_live: of frames."""

    page: str
    theme: str
    source: str = ""
    act: Callable[[Window, Wait], None] = lambda window, wait: None
    is_compared: bool = True


def _wear(window: Window, wait: Wait) -> None:
    page: Any = window.pages["try_on"]
    page.use("evening")
    _look_again(window, wait)
    window.live.compare_button.click()


def _look_again(window: Window, wait: Wait) -> None:
    """Repeat the frame, so that times do not include opening and the window is at rest."""
    seen: list[object] = []
    window.live.shown.connect(seen.append)
    for count in range(2):
        pause(wait, 0.4)
        window.context.refresh.emit()
        wait(lambda: len(seen) > count, "a frame")  # noqa: B023


def _open_lamps(window: Window, wait: Wait) -> None:
    page: Any = window.pages["feed"]
    wait(lambda: len(page.grid.order) == 60 and not page.is_busy, "the feed")
    for number in range(3):
        cards = [page.grid.card(id) for id in page.grid.order]
        lamps = [card for card in cards if card.good.category == "lamp"]
        lamps[number].click()
        wait(lambda: not page.is_busy)
    page.grid.finish()
    page.grid.verticalScrollBar().setValue(0)
    page.grid.card(page.grid.order[0]).setFocus()


def _measure(window: Window, wait: Wait) -> None:
    page: Any = window.pages["benchmark"]
    page.start(seconds=0.5)
    wait(lambda: not page.is_running, "the benchmark", limit_s=120)


SCENES = (
    Scene("face", "dark", "portrait"),
    Scene("portrait", "light", "portrait"),
    Scene("gesture", "dark", "hands"),
    Scene("try_on", "light", "portrait", _wear),
    Scene("feed", "dark", act=_open_lamps),
    # Its numbers and bars are of the machine.
    Scene("benchmark", "light", act=_measure, is_compared=False),
    Scene("updates", "dark"),
)


def source_of(scene: Scene, folder: Path) -> str:
    """Return a still picture: a photograph of scikit-image's (NASA, public domain), or hands."""
    if not scene.source:
        return "drawing"
    path = folder / f"{scene.source}.png"
    if scene.source == "portrait":
        import skimage.data

        kits.write_image(path, skimage.data.astronaut()[:384])  # type: ignore[no-untyped-call]
    else:
        from tests.kits.drawn_hands import scene as hands

        things = [(200, 300, "open_palm", "right"), (520, 300, "thumb_up", "left")]
        kits.write_image(path, hands(things, 540, 720))
    return str(path)


def play(window: Window, scene: Scene, wait: Wait) -> Image:
    """Do what a scene says in a window that shows its page; return the resulting picture."""
    window.theme.choose("dark" if scene.theme == "dark" else "light", keep=False)
    if scene.source:
        wait(lambda: window.live.shown_picture() is not None, "the first frame", limit_s=60)
        _look_again(window, wait)
    scene.act(window, wait)
    window.banner.close_message()
    pause(wait, 0.4)
    return picture_of(window)


def picture_of(widget: Any) -> Image:
    """Return a widget's picture, uint8[h, w, 3]."""
    from PySide6.QtGui import QImage

    image = widget.grab().toImage().convertToFormat(QImage.Format.Format_RGB888)
    rows = np.frombuffer(image.constBits(), np.uint8).reshape(image.height(), -1)
    return rows[:, : image.width() * 3].reshape(image.height(), image.width(), 3).copy()


def alike(one: Image, other: Image) -> float:
    """Return the structural similarity of two pictures: SSIM of small grey ones, at most 1."""
    import cv2
    import skimage.metrics

    metrics: Any = skimage.metrics
    small: list[Any] = []
    for each in (one, other):
        grey = cv2.cvtColor(each, cv2.COLOR_RGB2GRAY)
        small.append(cv2.resize(grey, (236, 152), interpolation=cv2.INTER_AREA))
    return float(metrics.structural_similarity(*small))


def main(arguments: list[str] | None = None) -> int:
    """Make the pictures."""
    parser = argparse.ArgumentParser(prog="python -m tests.demos.scenes")
    parser.add_argument("names", nargs="*", help="pages (all)")
    options = parser.parse_args(arguments)
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    from PySide6.QtCore import QSettings
    from PySide6.QtWidgets import QApplication

    from palmkit.demos.app import parser as command
    from palmkit.demos.app.application import make

    application = QApplication(["palmkit-demo"])

    def wait(until: Callable[[], object], what: str = "", limit_s: float = 60) -> None:
        end = time.monotonic() + limit_s
        while not until():
            assert time.monotonic() < end, what
            application.processEvents()
            time.sleep(0.005)

    with tempfile.TemporaryDirectory() as folder:
        for scene in SCENES:
            if options.names and scene.page not in options.names:
                continue
            settings = QSettings(f"{folder}/{scene.page}.ini", QSettings.Format.IniFormat)
            source = source_of(scene, Path(folder))
            asked = command().parse_args(["--page", scene.page, "--source", source])
            _, window = make(asked, settings)
            window.resize(*SIZE)
            window.show()
            window.start()
            path = FOLDER / f"{scene.page}.jpg"
            save(path, play(window, scene, wait))
            print(f"{path.name}: {path.stat().st_size} bytes")
            window.close()
    return 0


def save(path: Path, picture: Image) -> None:
    """Write a JPEG that is small enough for a README."""
    import PIL.Image

    PIL.Image.fromarray(picture).save(path, quality=QUALITY, optimize=True, progressive=True)
    assert path.stat().st_size < MOST_BYTES, f"{path}: {path.stat().st_size} bytes"


if __name__ == "__main__":
    sys.exit(main())
