"""Messages that do not interrupt: above the page, until they are closed or old."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QTimer, Signal
from PySide6.QtGui import QAccessible, QAccessibleEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QSizePolicy, QToolButton

from palmkit.demos.app.controls import label
from palmkit.demos.app.icons import icon, pixmap
from palmkit.demos.app.theme import Theme

INFO_MS = 6000


class Banner(QFrame):
    """The newest message. Infos go by themselves, warnings and errors when they are closed.

    shown_or_hidden: whether there is one now.
    """

    shown_or_hidden = Signal(bool)

    def __init__(self, theme: Theme) -> None:
        """Show nothing yet."""
        super().__init__()
        self.setObjectName("banner")
        self._theme = theme
        self._level = "info"
        self._act: Callable[[], None] | None = None
        self._sign = QLabel()
        self.text = label("", wraps=True)
        self.text.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.action = QPushButton()
        self.action.setObjectName("banner_action")
        self.action.clicked.connect(self._do)
        self._close = QToolButton()
        self._close.setObjectName("banner_close")
        self._close.setProperty("flat", True)
        self._close.setToolTip("Close this message")
        self._close.setAccessibleName("Close this message")
        self._close.clicked.connect(self.close_message)
        line = QHBoxLayout(self)
        line.setContentsMargins(14, 8, 8, 8)
        line.setSpacing(10)
        line.addWidget(self._sign)
        line.addWidget(self.text, 1)
        line.addWidget(self.action)
        line.addWidget(self._close)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self.close_message)
        theme.changed.connect(self._dress)
        self.hide()

    def say(self, level: str, text: str, action: object) -> None:
        """Show a message; action: None, or a button's text and what it does."""
        if self.isVisible() and text == self.text.text() and level == self._level:
            return
        self._level = level
        self.text.setText(text)
        self._act = None
        if isinstance(action, tuple):
            words, self._act = action
            self.action.setText(str(words))
        self.action.setVisible(self._act is not None)
        self.setAccessibleName(f"{level}: {text}")
        self._dress()
        self.show()
        self.shown_or_hidden.emit(True)
        QAccessible.updateAccessibility(QAccessibleEvent(self, QAccessible.Event.Alert))
        if level == "info":
            self._timer.start(INFO_MS)
        else:
            self._timer.stop()

    def close_message(self) -> None:
        """It has been read."""
        self.hide()
        self.shown_or_hidden.emit(False)

    def _do(self) -> None:
        act = self._act
        self.close_message()
        if act is not None:
            act()

    def _dress(self) -> None:
        colours = self._theme.colours
        colour = {"warning": colours.warning, "error": colours.error}.get(
            self._level, colours.accent
        )
        picture = pixmap(self._level, colour, 44)
        picture.setDevicePixelRatio(2)
        self._sign.setPixmap(picture)
        self._close.setIcon(icon("close", colours.soft))
        self.setProperty("level", self._level)
        self.style().unpolish(self)
        self.style().polish(self)
