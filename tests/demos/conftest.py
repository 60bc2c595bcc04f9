"""A screen for the tests of the demo application: an X server of their own, with Qt on it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from palmkit.kits.screen import INSTALL
from tests.demos.driving import OpenWindow, Wait, discard

if TYPE_CHECKING:
    from PySide6.QtCore import QSettings
    from PySide6.QtWidgets import QApplication

    from palmkit.demos.app.page import Context
    from palmkit.demos.app.window import Window

SCREEN = "1400x1000x24"
SIZE = (1180, 760)
# What Qt says of itself under a server without a window manager, and of fonts that are not there.
HARMLESS = ("propagateSizeHints", "QFont", "fontconfig", "qt.accessibility", "cached device pixel")


@pytest.fixture(scope="session")
def screen() -> Iterator[str]:
    """Yield the display of an X server that ends with the tests, or why there is none."""
    if shutil.which("Xvfb") is None:
        yield "Xvfb is not here: apt-get install xvfb"
        return
    reading, writing = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-screen", "0", SCREEN, "-nolisten", "tcp", "-displayfd", str(writing)],
        pass_fds=[writing],
        stderr=subprocess.DEVNULL,
    )
    os.close(writing)
    with os.fdopen(reading) as told:
        number = told.readline().strip()
    yield f":{number}" if number else "Xvfb does not start here"
    server.terminate()
    server.wait(10)


@pytest.fixture(scope="session")
def application(screen: str) -> Iterator[QApplication]:
    """Yield Qt on that screen, or without one."""
    pytest.importorskip("PySide6.QtWidgets", reason="PySide6 is not here, or cannot be loaded")
    from PySide6.QtWidgets import QApplication

    os.environ["LC_ALL"] = "C.UTF-8"
    on_screen = {"DISPLAY": screen, "QT_QPA_PLATFORM": "xcb"}
    without = {"QT_QPA_PLATFORM": "offscreen"}
    problem = _problem(on_screen) if screen.startswith(":") else screen
    if problem and (worse := _problem(without)):
        pytest.skip(f"Qt cannot be started here: {worse}")
    os.environ.update(without if problem else on_screen)
    made = QApplication(["palmkit-demo"])
    made.setProperty("problem", problem)
    made.setQuitOnLastWindowClosed(False)
    yield made
    made.processEvents()


def _problem(environment: dict[str, str]) -> str:
    """Return why Qt cannot start; tried in another process, which that would end."""
    program = "from PySide6.QtGui import QGuiApplication; QGuiApplication([])"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    if not done.returncode:
        return ""
    first = (done.stderr.strip().splitlines() or ["?"])[0]
    return f"{INSTALL} ({first:.100})"


@pytest.fixture
def real_screen(application: QApplication, screen: str) -> str:
    """Return the display, for tests that need an X server."""
    problem = str(application.property("problem"))
    if problem:
        pytest.skip(f"no X server: {problem}")
    return screen


@pytest.fixture
def complaints(application: QApplication) -> Iterator[list[str]]:
    """Yield messages of Qt and errors in slots during a test; none may be left."""
    from PySide6.QtCore import QMessageLogContext, QtMsgType, qInstallMessageHandler

    found: list[str] = []

    def note(kind: QtMsgType, context: QMessageLogContext, text: str) -> None:
        if kind != QtMsgType.QtDebugMsg and not any(each in text for each in HARMLESS):
            found.append(text)

    before = sys.excepthook

    def raised(*error: object) -> None:
        found.append(f"{error[1]!r}")
        before(*error)  # type: ignore[arg-type]

    qInstallMessageHandler(note)
    sys.excepthook = raised
    yield found
    sys.excepthook = before
    qInstallMessageHandler(None)
    assert not found


@pytest.fixture
def settings(application: QApplication, tmp_path: Path) -> QSettings:
    """Return empty user settings."""
    from PySide6.QtCore import QSettings

    return QSettings(str(tmp_path / "settings.ini"), QSettings.Format.IniFormat)


@pytest.fixture
def context(settings: QSettings) -> Context:
    """Return the pages' context, without a window."""
    from palmkit.demos.app import parser
    from palmkit.demos.app.catalogue import Catalogue
    from palmkit.demos.app.page import Context

    return Context(parser().parse_args([]), settings, Catalogue())


@pytest.fixture
def open_window(
    application: QApplication, settings: QSettings, complaints: list[str], wait: Wait
) -> Iterator[OpenWindow]:
    """open_window("--page", "feed", ...): the application's window, as its command opens it."""
    from palmkit.demos.app import parser
    from palmkit.demos.app.application import make

    made: list[Window] = []

    def open_window(*arguments: str) -> Window:
        _, window = make(parser().parse_args(arguments), settings)
        made.append(window)
        window.resize(*SIZE)
        window.show()
        window.activateWindow()
        window.start()
        wait(window.isActiveWindow, "the focus")
        return window

    yield open_window
    for window in made:
        discard(window)


@pytest.fixture(autouse=True)
def own_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep the tests away from the user's files."""
    monkeypatch.setenv("PALMKIT_DELIVERY_FOLDER", str(tmp_path / "delivered"))


@pytest.fixture
def wait(application: QApplication) -> Wait:
    """wait(until, what, limit_s): let the window live until something is so."""

    def wait(until: Callable[[], object], what: str = "", limit_s: float = 30) -> None:
        end = time.monotonic() + limit_s
        while not until():
            assert time.monotonic() < end, f"not within {limit_s} s: {what or until}"
            application.processEvents()
            time.sleep(0.005)

    return wait
