"""The live picture: fitted, crisp, with the original frame on one side of a handle."""

from __future__ import annotations

from typing import Final

import numpy as np
from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QImage,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
)
from PySide6.QtWidgets import QSizePolicy

from palmkit.demos.app.texts import Drawing
from palmkit.demos.app.theme import Theme
from palmkit.kits.image import Image

STEP: Final = 0.02
GRIP: Final = 22.0
ROUND: Final = 12.0


class View(Drawing):
    """Shows the newest picture.

    moved: emitted with the handle's place, 0..1 of the width.
    """

    moved = Signal(float)

    def __init__(self, theme: Theme) -> None:
        """Start empty."""
        super().__init__()
        self.setObjectName("view")
        self.setAccessibleName("Live picture")
        self.setMinimumSize(160, 120)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._theme = theme
        self._picture: QImage | None = None
        self._before: QImage | None = None
        self._split: float | None = None
        self._position = 0.5
        self._is_dragged = False
        self.empty_text = "Waiting for the first frame"
        self._describe()
        theme.changed.connect(self.update)

    def sizeHint(self) -> QSize:
        """Return a size large enough for a camera's picture."""
        return QSize(800, 600)

    def show_pictures(self, picture: Image | None, before: Image | None) -> None:
        """Show a picture, uint8[h, w, 3], and the original for the comparison; None: nothing."""
        self._picture = as_qimage(picture)
        self._before = as_qimage(before)
        self.update()

    def compare(self, is_on: bool) -> None:
        """Show the original frame on the left of the handle."""
        self._split = self._position if is_on else None
        self._describe()
        self.setCursor(Qt.CursorShape.SplitHCursor if is_on else Qt.CursorShape.ArrowCursor)
        self.update()

    @property
    def split(self) -> float | None:
        """Return the handle's place, 0..1 of the width; None without a comparison."""
        return self._split

    def place(self) -> QRectF:
        """Return the picture's rectangle; empty without a picture, or without room."""
        if self._picture is None or self._picture.isNull() or self.width() < 2 or self.height() < 2:
            return QRectF()
        size = self._picture.size().scaled(self.size(), Qt.AspectRatioMode.KeepAspectRatio)
        left = (self.width() - size.width()) / 2
        top = (self.height() - size.height()) / 2
        return QRectF(left, top, size.width(), size.height())

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the picture."""
        painter = QPainter(self)
        colours = self._theme.colours
        painter.fillRect(self.rect(), QColor(colours.stage))
        place = self.place()
        if self._picture is None or place.isEmpty():
            painter.setPen(QColor(colours.soft))
            painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter, self.empty_text)
            return
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.drawImage(place, self._picture)
        if self._split is not None and self._before is not None:
            self._paint_before(painter, place, self._split, self._before)

    def _paint_before(self, painter: QPainter, place: QRectF, split: float, before: QImage) -> None:
        at = place.left() + split * place.width()
        painter.save()
        painter.setClipRect(QRectF(place.left(), place.top(), at - place.left(), place.height()))
        painter.drawImage(place, before)
        painter.restore()
        for width, colour in ((4.0, QColor(0, 0, 0, 90)), (2.0, QColor("white"))):
            painter.setPen(QPen(colour, width))
            painter.drawLine(QPointF(at, place.top()), QPointF(at, place.bottom()))
        middle = QPointF(at, place.center().y())
        accent = QColor(self._theme.colours.accent)
        painter.setPen(QPen(accent if self.hasFocus() else QColor(0, 0, 0, 90), 3))
        painter.setBrush(QColor("white"))
        painter.drawEllipse(middle, GRIP * 0.75, GRIP * 0.75)
        painter.setPen(QPen(QColor("#33414c"), 2.2, c=Qt.PenCapStyle.RoundCap))
        for side in (-1, 1):
            tip = middle + QPointF(side * 9, 0)
            for up in (-1, 1):
                painter.drawLine(tip, tip + QPointF(-side * 4, up * 4.5))
        self._label(painter, QPointF(at - 14, place.top() + 14), "Before", True)
        self._label(painter, QPointF(at + 14, place.top() + 14), "After", False)

    def _label(self, painter: QPainter, corner: QPointF, text: str, ends: bool) -> None:
        size = painter.fontMetrics().size(0, text)
        left = corner.x() - size.width() - 16 if ends else corner.x()
        box = QRectF(left, corner.y(), size.width() + 16, size.height() + 8)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(0, 0, 0, 140))
        painter.drawRoundedRect(box, ROUND, ROUND)
        painter.setPen(QColor("white"))
        painter.drawText(box, Qt.AlignmentFlag.AlignCenter, text)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Move the handle to the mouse."""
        if self._split is not None and event.button() == Qt.MouseButton.LeftButton:
            self._is_dragged = True
            self._move_to(event.position().x())

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Move the handle."""
        if self._is_dragged:
            self._move_to(event.position().x())

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Release the handle."""
        self._is_dragged = False

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Move the handle by the arrow keys."""
        steps = {Qt.Key.Key_Left: -STEP, Qt.Key.Key_Right: STEP}
        step = steps.get(Qt.Key(event.key()))
        if self._split is None or step is None:
            super().keyPressEvent(event)
            return
        self.set_split(self._split + step)

    def _describe(self) -> None:
        words = "Before and after can be compared"
        if self._split is not None:
            words = f"Before on the left of {self._split:.0%} of the width; arrows move that"
        self.setAccessibleDescription(words)

    def _move_to(self, x: float) -> None:
        place = self.place()
        if not place.isEmpty():
            self.set_split((x - place.left()) / place.width())

    def set_split(self, position: float) -> None:
        """Set the handle's place, 0..1 of the width."""
        self._position = self._split = min(max(position, 0.0), 1.0)
        self._describe()
        self.moved.emit(self._split)
        self.update()


def as_qimage(image: Image | None) -> QImage | None:
    """Return a copy of a picture as a QImage."""
    if image is None or image.size == 0:
        return None
    pixels = np.ascontiguousarray(image)
    height, width = pixels.shape[:2]
    return QImage(pixels.data, width, height, 3 * width, QImage.Format.Format_RGB888).copy()
