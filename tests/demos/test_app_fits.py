"""Nothing of the window is cut off, in small and large windows and with large letters."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest

from palmkit.demos.app import PAGES
from tests.demos.driving import NEEDS_MODELS, OpenWindow, Wait, find, pause

if TYPE_CHECKING:
    from PySide6.QtWidgets import QApplication, QWidget

    from palmkit.demos.app.page import Page
    from palmkit.demos.app.window import Window

pytestmark = NEEDS_MODELS
SIZES = ((760, 480), (1180, 760), (1440, 900), (1920, 1080))


def cut_off(window: QWidget) -> list[str]:
    """Return what can be seen neither whole nor by scrolling, and what covers other things."""
    from PySide6.QtWidgets import QWidget

    seen = [each for each in window.findChildren(QWidget) if each.isVisibleTo(window)]
    found: list[str] = []
    for each in seen:
        if each.window() is window:
            found += [f"{_called(each)} {problem}" for problem in _problems(each)]
    return found + [f"{_called(one)} overlaps {_called(other)}" for one, other in overlaps(window)]


def _called(widget: QWidget) -> str:
    from PySide6.QtWidgets import QAbstractButton, QLabel

    text = widget.text() if isinstance(widget, (QAbstractButton, QLabel)) else ""
    return f"{type(widget).__name__} {widget.objectName() or text!r}"


def _problems(widget: QWidget) -> Iterator[str]:
    from PySide6.QtCore import QPoint, Qt
    from PySide6.QtWidgets import QAbstractItemView, QAbstractScrollArea, QHeaderView

    parent = widget.parentWidget()
    area = parent.parentWidget() if parent is not None else None
    if isinstance(area, QHeaderView) or parent is None:
        return
    view = area if isinstance(area, QAbstractScrollArea) and area.viewport() is parent else None
    place = widget.geometry()
    off = Qt.ScrollBarPolicy.ScrollBarAlwaysOff
    across = view is not None and view.horizontalScrollBarPolicy() != off
    down = view is not None and view.verticalScrollBarPolicy() != off
    if view is not None:
        # As if it were scrolled to the top left.
        place.moveTo(
            place.topLeft()
            + QPoint(view.horizontalScrollBar().value(), view.verticalScrollBar().value())
        )
    if place.left() < 0 or (place.right() >= parent.width() and not across):
        yield f"reaches from {place.left()} to {place.right()} of {parent.width()} across"
    if place.top() < 0 or (place.bottom() >= parent.height() and not down):
        yield f"reaches from {place.top()} to {place.bottom()} of {parent.height()} down"
    yield from _small(widget)
    if isinstance(widget, QAbstractItemView):
        yield from _narrow_columns(widget)


def _small(widget: QWidget) -> Iterator[str]:
    """Say what has less room than it needs."""
    from PySide6.QtCore import QSize
    from PySide6.QtWidgets import (
        QAbstractButton,
        QComboBox,
        QHeaderView,
        QLabel,
        QLineEdit,
        QProgressBar,
    )

    from palmkit.demos.app.controls import Elided
    from palmkit.demos.app.texts import Drawing, Line, ink_width

    if isinstance(widget, (QHeaderView, QProgressBar)):
        # A header is as high as its titles, a progress bar as its style says: their hints differ.
        return
    least = widget.minimumSizeHint()
    if isinstance(widget, Elided):
        least.setHeight(widget.fontMetrics().height())
        if widget.text() not in widget.toolTip():
            yield "is elided, and says nowhere what it hides"
    elif isinstance(widget, (QAbstractButton, QComboBox)):
        # Styles change the height with the focus, so it is of the text and the icon.
        high = max(widget.fontMetrics().height(), widget.iconSize().height())
        least = QSize(widget.sizeHint().width(), high)
    elif isinstance(widget, QLineEdit):
        least.setHeight(widget.fontMetrics().height())
    elif isinstance(widget, Line):
        least.setWidth(0)
        if not all(part in widget.toolTip() for part in widget.text().split("   ")):
            yield "is elided, and says nowhere what it hides"
    elif isinstance(widget, QLabel) and not isinstance(widget, Drawing):
        if widget.wordWrap():
            least.setHeight(widget.heightForWidth(widget.width()))
        elif widget.text():
            least.setWidth(max(least.width(), ink_width(widget)))
    if widget.width() < least.width():
        yield f"is {widget.width()} wide, and needs {least.width()}"
    if widget.height() < least.height():
        yield f"is {widget.height()} high, and needs {least.height()}"


def _narrow_columns(view: Any) -> Iterator[str]:
    from PySide6.QtWidgets import QTableView

    if not isinstance(view, QTableView):
        return
    header = view.horizontalHeader()
    for at in range(header.count()):
        need = max(header.sectionSizeHint(at), view.sizeHintForColumn(at))
        if header.sectionSize(at) < need:
            yield f"has column {at} of {header.sectionSize(at)}, which needs {need}"


def overlaps(window: QWidget) -> Iterator[tuple[QWidget, QWidget]]:
    """Yield pairs of widgets of one layout of which one covers a part of the other."""
    from PySide6.QtWidgets import QWidget

    for parent in (window, *window.findChildren(QWidget)):
        layout = parent.layout()
        if layout is None or not parent.isVisibleTo(window):
            continue
        children = [each for each in parent.children() if isinstance(each, QWidget)]
        shown = [each for each in children if each.isVisibleTo(parent) and not each.isWindow()]
        for one, other in combinations(shown, 2):
            if "banner" in (one.objectName(), other.objectName()):
                continue
            if one.geometry().intersects(other.geometry()):
                yield one, other


@pytest.fixture
def letters(application: QApplication, request: pytest.FixtureRequest) -> Iterator[float]:
    """Make the letters of the application larger for a test."""
    before = application.font()
    larger = application.font()
    larger.setPointSizeF(before.pointSizeF() * request.param)
    application.setFont(larger)
    yield request.param
    application.setFont(before)


def go_through(window: Window, wait: Wait) -> Iterator[str]:
    """Show each page, and each part of one that is shown by itself."""
    from palmkit.demos.app.pages.portrait import SHOWN
    from palmkit.demos.app.pages.try_on import KINDS

    for name in PAGES:
        window.select(name)
        page: Any = window.pages[name]
        if name == "feed":
            wait(lambda page=page: len(page.grid.order) == 60 and not page.is_busy, "the feed")
        parts: dict[str, Any] = {"portrait": (SHOWN, page_show), "try_on": (KINDS, page_kind)}
        yield name
        some, show = parts.get(name, ([], page_show))
        for part in some:
            show(page, part)
            yield f"{name} {part}"


def page_show(page: Any, part: str) -> None:
    page._box.setCurrentIndex(page._box.findData(part))


def page_kind(page: Any, part: str) -> None:
    page._select_kind(part)


@pytest.mark.parametrize("letters", [1.0, 1.5], indirect=True)
def test_nothing_is_cut_off(open_window: OpenWindow, wait: Wait, letters: float) -> None:
    window = open_window("--page", "face", "--source", "drawing")
    wait(lambda: window.live.shown_picture() is not None, "a frame", limit_s=60)
    window.worker.pause(True)
    wrong: list[str] = []
    shown: set[Page | None] = set()
    for name in go_through(window, wait):
        # The parts of a page differ in height only, for which there is least room in the first.
        sizes = SIZES if window.current not in shown else SIZES[:1]
        shown.add(window.current)
        for size in sizes:
            window.resize(*size)
            pause(wait, 0.02)
            if (window.width(), window.height()) != size:
                wrong.append(f"{name}: the window cannot be {size}, but {window.size()}")
            wrong += [f"{name}, {size}: {each}" for each in cut_off(window)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("letters", [1.0, 1.5], indirect=True)
def test_messages_are_whole(open_window: OpenWindow, wait: Wait, letters: float) -> None:
    window = open_window("--page", "face", "--source", "drawing")
    text = "camera 0 cannot be opened: another program may be using it; showing the sample instead"
    for size in SIZES[:2]:
        window.resize(*size)
        window.context.say(text, "warning", ("Show the sample", lambda: None))
        pause(wait, 0.1)
        assert window.banner.isVisible() and not cut_off(window)
        window.banner.close_message()


def test_long_words_of_others_are_elided(
    open_window: OpenWindow, wait: Wait, tmp_path: Any
) -> None:
    """Names of files are as long as they like: the window keeps its width."""
    import numpy as np

    from palmkit import kits

    path = tmp_path / f"{'a very long name ' * 9}.png"
    kits.write_image(path, np.full((48, 64, 3), 128, np.uint8))
    window = open_window("--page", "face", "--source", str(path))
    window.resize(*SIZES[0])
    pause(wait, 0.1)
    assert window.width() == SIZES[0][0] and not cut_off(window)
    assert path.name in window.live.source_button.toolTip()


def test_what_is_cut_off_is_found(open_window: OpenWindow, wait: Wait) -> None:
    """The check itself: a panel narrower than its contents, and a label narrower than its text."""
    from PySide6.QtWidgets import QFrame, QLabel

    window = open_window("--page", "gesture", "--source", "drawing")
    pause(wait, 0.1)
    assert not cut_off(window)
    panel = find(window, QFrame, "panel")
    panel.setFixedWidth(120)
    pause(wait, 0.1)
    assert any("across" in each for each in cut_off(window))
    panel.setFixedWidth(400)
    label = QLabel("no room for these words", panel)
    label.setGeometry(0, 0, 30, 14)
    label.show()
    assert any(each.startswith("QLabel 'no room") for each in cut_off(window))
