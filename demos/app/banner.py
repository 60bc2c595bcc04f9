"""Messages that do not interrupt: above the page, until they are closed or expire."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, QPoint, QSize, QTimer
from PySide6.QtGui import QAccessible, QAccessibleEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QSizePolicy,
    QToolButton,
    QWidget,
)

from palmkit.demos.app.icons import icon
from palmkit.demos.app.texts import label
from palmkit.demos.app.theme import Theme

INFO_MS = 6000
EDGE, TOP, WIDEST = 16, 66, 640


class Banner(QFrame):
    """The newest message. Infos expire, warnings and errors stay until they are closed."""

    def __init__(self, theme: Theme) -> None:
        """Start without a message."""
        super().__init__()
        self.setObjectName("banner")
        self._theme = theme
        self._host: QWidget | None = None
        self._level, self._said = "info", ""
        self._act: Callable[[], None] | None = None
        self._sign = QLabel()
        self.text = label("", wraps=True)
        self.text.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.action = QPushButton("Try again")
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

    def say(self, level: str, text: str, action: tuple[str, Callable[[], None]] | None) -> None:
        """Show a message.

        action: a button's text and what it does.
        """
        if self.isVisible() and (level, text) == (self._level, self._said):
            return
        self._level, self._said = level, text
        self.text.setText(text[:1].upper() + text[1:])
        self._act = None
        if action is not None:
            words, self._act = action
            self.action.setText(words)
        self.action.setVisible(self._act is not None)
        self.setAccessibleName(f"{level}: {text}")
        self._dress()
        self._settle()
        self.show()
        self.raise_()
        QAccessible.updateAccessibility(QAccessibleEvent(self, QAccessible.Event.Alert))
        if level == "info":
            self._timer.start(INFO_MS)
        else:
            self._timer.stop()

    def close_message(self) -> None:
        """Hide the message."""
        self._timer.stop()
        self.hide()

    def float_over(self, host: QWidget) -> None:
        """Float over the top of a widget, so that nothing moves when a message appears."""
        if self._host is not None:
            self._host.removeEventFilter(self)
        self.setParent(host.window())
        self._host = host
        host.installEventFilter(self)
        self._settle()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Stay in place when the host is resized."""
        if watched is self._host and event.type() in (QEvent.Type.Resize, QEvent.Type.Move):
            self._settle()
        return False

    def _settle(self) -> None:
        if self._host is None:
            return
        # Over a narrow host it reaches beyond it, so that messages are not columns of words.
        room = self.window().width() - 2 * EDGE
        width = max(min(room, WIDEST), 1)
        height = max(self.heightForWidth(width), self.sizeHint().height())
        corner = self._host.mapTo(self.window(), QPoint(0, 0))
        left = corner.x() + (self._host.width() - width) // 2
        left = max(min(left, EDGE + room - width), EDGE)
        self.setGeometry(left, corner.y() + TOP, width, height)

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
        sign = icon(self._level, colour)
        self._sign.setPixmap(sign.pixmap(QSize(24, 24), self.devicePixelRatioF()))
        self._close.setIcon(icon("close", colours.soft))
        self.setProperty("level", self._level)
        self.style().unpolish(self)
        self.style().polish(self)
