"""Texts and drawings that widgets show, each known to screen readers."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPixmap
from PySide6.QtWidgets import QLabel, QVBoxLayout


class Label(QLabel):
    """A plain text that asks for the room of its ink.

    Qt counts the advance, which cuts letters that reach beyond it, as after a kerned mnemonic.
    """

    def sizeHint(self) -> QSize:
        """Return the size that shows the whole text."""
        return self._with_ink(super().sizeHint())

    def minimumSizeHint(self) -> QSize:
        """Return the least size; a text that wraps can be narrower than its line."""
        return self._with_ink(super().minimumSizeHint())

    def _with_ink(self, size: QSize) -> QSize:
        if self.wordWrap():
            return size
        margins = self.contentsMargins()
        ink = ink_width(self) + margins.left() + margins.right()
        return QSize(max(size.width(), ink), size.height())


def ink_width(widget: QLabel) -> int:
    """Return the width in pixels of a label's line of text, as it is drawn."""
    words = widget.text()
    if widget.buddy():
        words = words.replace("&", "")
    return widget.fontMetrics().boundingRect(words).width()


def label(text: str, role: str = "", wraps: bool = False) -> QLabel:
    """Return a label.

    role: "title", "section", "hint", "value", "big" or "pill".
    """
    made = Label(text)
    made.setTextFormat(Qt.TextFormat.PlainText)
    made.setWordWrap(wraps)
    if role:
        made.setProperty("role", role)
    return made


def head(column: QVBoxLayout, title: str, hint: str) -> None:
    """Add a title, and a hint on its use, at the end of a column."""
    column.addWidget(label(title, "title"))
    column.addWidget(label(hint, "hint", wraps=True))


class Drawing(QLabel):
    """A widget that draws itself, which screen readers know as a picture with a name."""

    def __init__(self) -> None:
        """Start empty."""
        super().__init__()
        nothing = QPixmap(1, 1)
        nothing.fill(Qt.GlobalColor.transparent)
        self.setPixmap(nothing)


class Line(QLabel):
    """A text of one line, elided where there is no room for it."""

    def __init__(self, name: str, says: str = "", tip: str = "") -> None:
        """Set up the line.

        name: the object's name. says: what screen readers say before the text.
        """
        super().__init__()
        self._says, self._tip = says, tip
        self.setObjectName(name)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setMinimumWidth(24)
        self.say("")

    def say(self, text: str) -> None:
        """Show a text from now on."""
        name = f"{self._says}: {text or 'nothing'}"
        # Screen readers announce each call, so it is made for changes only.
        if name != self.accessibleName():
            self.setText(text)
            self.setAccessibleName(name)
            self.setToolTip("\n".join(filter(None, (self._tip, text))))

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw as much as fits."""
        painter = QPainter(self)
        place = self.contentsRect()
        dots = Qt.TextElideMode.ElideRight
        text = self.fontMetrics().elidedText(self.text(), dots, place.width())
        painter.setPen(self.palette().color(self.foregroundRole()))
        painter.drawText(place, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, text)


def spoken(name: str) -> str:
    """Return the name of a shade or look in words."""
    return name.replace("_", " ")
