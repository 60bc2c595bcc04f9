"""Columns of contents that are scrolled where they are too high."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QSize, Qt
from PySide6.QtWidgets import QFrame, QScrollArea, QVBoxLayout, QWidget

from palmkit.demos.app.texts import head, label

GAP, MARGIN = 10, 18
# In pixels; contents that are higher are scrolled.
LEAST_HEIGHT = 120


class Scrolled(QScrollArea):
    """Contents in a column: never narrower than they ask for, scrolled where they are too high."""

    def __init__(self, margin: int = MARGIN) -> None:
        """Set up an empty column.

        margin: in pixels, around the contents.
        """
        super().__init__()
        inside = self._inside = QWidget()
        self.column = QVBoxLayout(inside)
        self.column.setContentsMargins(margin, margin, margin, margin)
        self.column.setSpacing(GAP)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setWidget(inside)
        inside.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Ask for another size when the contents do."""
        if event.type() == QEvent.Type.LayoutRequest:
            self.updateGeometry()
        return super().eventFilter(watched, event)

    def minimumSizeHint(self) -> QSize:
        """Return the width of the contents and of a scroll bar, and a height that can be used."""
        least = self._inside.minimumSizeHint()
        bar = self.verticalScrollBar().sizeHint().width()
        return QSize(least.width() + bar, min(least.height(), LEAST_HEIGHT))

    def sizeHint(self) -> QSize:
        """Return the least width, and the height of the contents."""
        least = self.minimumSizeHint()
        return QSize(least.width(), max(least.height(), self._inside.sizeHint().height()))


def scroll(page: QWidget) -> QVBoxLayout:
    """Fill a page with a column that scrolls, and return the column."""
    area = Scrolled()
    outer = QVBoxLayout(page)
    outer.setContentsMargins(0, 0, 0, 0)
    outer.addWidget(area)
    return area.column


class Panel(Scrolled):
    """Controls in a column."""

    def __init__(self, title: str, hint: str) -> None:
        """Set up the panel with a title and a hint at its top."""
        super().__init__()
        head(self.column, title, hint)
        self.column.addStretch(1)

    def add(self, widget: QWidget) -> None:
        """Add a control below the others."""
        self.column.insertWidget(self.column.count() - 1, widget)

    def section(self, text: str) -> None:
        """Add a heading below the others."""
        self.column.insertSpacing(self.column.count() - 1, 6)
        self.add(label(text, "section", wraps=True))
