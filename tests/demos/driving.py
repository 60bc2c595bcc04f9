"""Clicks and keys for the tests of the demo application, and its messages."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import pytest

from palmkit.delivery.embedded import shipped

if TYPE_CHECKING:
    from PySide6.QtCore import QObject, Qt
    from PySide6.QtWidgets import QWidget

    from palmkit.demos.app.page import Context
    from palmkit.demos.app.window import Window

Wait: TypeAlias = Callable[..., None]
OpenWindow: TypeAlias = Callable[..., "Window"]
Kind = TypeVar("Kind", bound="QObject")
# What takes minutes together, so that the whole suite stays short.
LONG = pytest.mark.skipif(
    os.environ.get("APP_TESTS") != "all", reason="make test-app runs it (APP_TESTS=all)"
)

NEEDS_MODELS = pytest.mark.skipif(
    not all(model.path.is_file() for model in shipped().values()),
    reason="the models have not been made here",
)


class Said:
    """The messages of an application: level and text."""

    def __init__(self, context: Context) -> None:
        self.all: list[tuple[str, str]] = []
        self.actions: list[object] = []
        context.said.connect(self._note)

    def _note(self, level: str, text: str, action: object) -> None:
        self.all.append((level, text))
        self.actions.append(action)

    def of(self, level: str) -> list[str]:
        return [text for each, text in self.all if each == level]


def find(parent: QObject, kind: type[Kind], name: str) -> Kind:
    """Return the child of this name."""
    found = parent.findChild(kind, name)
    assert found is not None, f"no {kind.__name__} is called {name}"
    return found


def shows(window: Window, wait: Wait, page: str) -> None:
    """Wait until a page has shown a picture; a still one comes once, and may already be there."""
    wait(lambda: getattr(window.live.last, "page", None) is window.pages[page], page)


def goes_on(window: Window, wait: Wait, count: int = 3) -> None:
    """Wait until new frames are shown."""
    seen: list[object] = []
    window.live.shown.connect(seen.append)
    wait(lambda: len(seen) >= count, "other frames", limit_s=60)
    window.live.shown.disconnect(seen.append)


def pause(wait: Wait, seconds: float) -> None:
    """Let the window run for so many seconds."""
    end = time.monotonic() + seconds
    wait(lambda: time.monotonic() > end)


def click(widget: QWidget) -> None:
    from PySide6.QtCore import Qt
    from PySide6.QtTest import QTest

    assert widget.isVisible() and widget.isEnabled(), widget.objectName()
    QTest.mouseClick(widget, Qt.MouseButton.LeftButton)


def press(widget: QWidget, key: Qt.Key) -> None:
    from PySide6.QtTest import QTest

    assert widget.isVisible() and widget.isEnabled(), widget.objectName()
    QTest.keyClick(widget, key)


def discard(widget: QWidget) -> None:
    """Close a window, and delete it with all that is in it.

    Outside an event loop Qt deletes nothing by itself, and a style sheet costs all widgets there
    are.
    """
    from PySide6.QtCore import QCoreApplication, QEvent

    widget.close()
    widget.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    QCoreApplication.processEvents()


def tab_order(first: QWidget) -> list[QWidget]:
    """Return the widgets that Tab reaches from a control on, until one repeats."""
    from PySide6.QtCore import Qt
    from PySide6.QtWidgets import QApplication

    first.setFocus()
    reached: list[QWidget] = []
    while (here := QApplication.focusWidget()) is not None and here not in reached:
        reached.append(here)
        assert len(reached) < 300
        press(here, Qt.Key.Key_Tab)
    return reached
