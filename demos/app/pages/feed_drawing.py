"""Drawn pictures of the goods, so that no photographs are needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QLinearGradient, QPainter, QPainterPath, QPen, QPixmap

from palmkit.demos.app.pages.feed_goods import COLOURS, Good


@dataclass(frozen=True)
class Brush:
    """The means of a drawing, in a square of 100 units.

    vary: three numbers from 0 to 1, the good's own.
    """

    painter: QPainter
    base: QColor
    vary: tuple[float, ...]

    @property
    def dark(self) -> QColor:
        """Return the colour in shade."""
        return self.base.darker(150)

    @property
    def light(self) -> QColor:
        """Return the colour in light."""
        return self.base.lighter(135)

    def fill(self, path: QPainterPath, colour: QColor | None = None) -> None:
        """Fill a shape, lighter at the left."""
        box = path.boundingRect()
        shade = QLinearGradient(box.topLeft(), box.topRight())
        chosen = self.base if colour is None else colour
        shade.setColorAt(0, chosen.lighter(118))
        shade.setColorAt(0.45, chosen)
        shade.setColorAt(1, chosen.darker(128))
        self.painter.fillPath(path, shade)

    def line(self, path: QPainterPath, width: float, colour: QColor | None = None) -> None:
        """Draw along a path, with round ends."""
        pen = QPen(self.dark if colour is None else colour, width)
        pen.setCapStyle(Qt.PenCapStyle.RoundCap)
        pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
        self.painter.strokePath(path, pen)


def _path(*points: tuple[float, ...], closed: bool = True) -> QPainterPath:
    """Return a path through points: two numbers a line, four a quadratic curve, six a cubic one."""
    path = QPainterPath(QPointF(*points[0]))
    for point in points[1:]:
        ends = [QPointF(x, y) for x, y in zip(point[::2], point[1::2], strict=True)]
        if len(ends) == 1:
            path.lineTo(ends[0])
        elif len(ends) == 2:
            path.quadTo(ends[0], ends[1])
        else:
            path.cubicTo(ends[0], ends[1], ends[2])
    if closed:
        path.closeSubpath()
    return path


def _ellipse(x: float, y: float, across: float, down: float) -> QPainterPath:
    path = QPainterPath()
    path.addEllipse(QPointF(x, y), across, down)
    return path


def _box(x: float, y: float, width: float, height: float, round: float = 0) -> QPainterPath:
    path = QPainterPath()
    path.addRoundedRect(QRectF(x, y, width, height), round, round)
    return path


def _cup(brush: Brush) -> None:
    top, foot = 26 + 4 * brush.vary[0], 52 - 14 * brush.vary[1]
    brush.line(_path((66, 40), (92, 38, 90, 64, 64, 66), closed=False), 7)
    left, right = 48 - foot / 2, 48 + foot / 2
    brush.fill(_path((22, top), (22, 66, left, 82), (48, 88, right, 82), (74, 66, 74, top)))
    brush.fill(_ellipse(48, top, 26, 6), brush.dark)
    brush.fill(_ellipse(48, top + 1.5, 22, 4), QColor("#5b3a25"))
    if brush.vary[2] > 0.5:
        brush.line(_path((24, 52), (48, 60, 73, 52), closed=False), 4, brush.light)


def _shoe(brush: Brush) -> None:
    high = 30 + 14 * brush.vary[0]
    brush.fill(_box(10, 70, 82, 10, 5), QColor("#e9e6df"))
    brush.fill(
        _path((12, 72), (10, high), (26, high + 10, 36, high), (46, 52, 66, 54), (92, 58, 91, 72))
    )
    brush.fill(_path((70, 72), (70, 58, 82, 57), (92, 62, 91, 72)), brush.light)
    for step in range(3):
        x, y = 40 + 7 * step, high + 8 + (54 - high) * step / 4
        brush.line(_path((x, y), (x + 7, y - 5), closed=False), 2.4, QColor("#f4f1ea"))
    if brush.vary[1] > 0.4:
        brush.line(_path((16, 64), (40, 70, 62, 58), closed=False), 4, brush.dark)


def _lamp(brush: Brush) -> None:
    top = 22 - 6 * brush.vary[0]
    brush.line(_path((50, 50), (50, 84), closed=False), 3.5, QColor("#6b6257"))
    brush.fill(_ellipse(50, 85, 18, 4.5), QColor("#6b6257"))
    narrow = 10 + 10 * brush.vary[1]
    glow = QColor("#fff3c4")
    glow.setAlpha(110)
    brush.fill(_path((28, 54), (72, 54), (82, 84), (18, 84)), glow)
    brush.fill(_path((50 - narrow, top), (50 + narrow, top), (76, 54), (50, 60, 24, 54)))
    if brush.vary[2] > 0.5:
        brush.line(_path((27, 48), (50, 54, 73, 48), closed=False), 2.5, brush.light)


def _bag(brush: Brush) -> None:
    top = 40 + 6 * brush.vary[0]
    brush.line(_path((34, top + 4), (34, 12, 66, 12, 66, top + 4), closed=False), 4.5)
    wide = 30 + 7 * brush.vary[1]
    brush.fill(
        _path((50 - wide + 6, top), (50 + wide - 6, top), (50 + wide, 84), (50, 88, 50 - wide, 84))
    )
    if brush.vary[2] > 0.45:
        flap = _path((50 - wide + 5, top), (50 + wide - 5, top), (50, top + 30, 50 - wide + 5, top))
        brush.fill(flap, brush.dark)
        brush.fill(_ellipse(50, top + 15, 3.5, 3.5), QColor("#e4c56b"))
    else:
        brush.line(_path((50 - wide + 3, top + 14), (50 + wide - 3, top + 14), closed=False), 2)


def _chair(brush: Brush) -> None:
    wood = QColor("#8a6445")
    for x, end in ((32, 27), (66, 72), (40, 39), (60, 61)):
        brush.line(_path((x, 58), (end, 88), closed=False), 4, wood)
    curve = 8 * brush.vary[0]
    brush.fill(_path((30, 14 + curve), (50, 14 - curve, 70, 14 + curve), (68, 52), (32, 52)))
    if brush.vary[1] > 0.5:
        for x in (40, 50, 60):
            brush.line(_path((x, 20), (x, 46), closed=False), 2, brush.dark)
    brush.fill(_path((28, 50), (72, 50), (77, 60), (50, 65, 23, 60)), brush.light)


def _plant(brush: Brush) -> None:
    leaf = QColor("#3f8a4c")
    leaves = 5 + int(3 * brush.vary[0])
    for number in range(leaves):
        turn = (number / (leaves - 1) - 0.5) * 2
        x, y = 50 + 34 * turn, 18 + 24 * abs(turn) + 6 * brush.vary[1]
        side = 9 - 3 * abs(turn)
        middle = (50 + x) / 2
        shade = leaf.lighter(100 + 12 * (number % 3))
        brush.fill(_path((50, 62), (middle - side, 38, x, y), (middle + side, 44, 50, 62)), shade)
    brush.fill(_path((32, 58), (68, 58), (62, 87), (50, 90, 38, 87)))
    brush.fill(_box(29, 55, 42, 8, 3), brush.light)


def _watch(brush: Brush) -> None:
    brush.fill(_path((40, 30), (42, 8), (58, 8), (60, 30), (60, 70), (58, 92), (42, 92), (40, 70)))
    for y in (13, 18, 81, 86):
        brush.line(_path((47, y), (53, y), closed=False), 1.6)
    metal = QColor("#c9ccd1" if brush.vary[0] > 0.4 else "#d8b45e")
    brush.fill(_box(73, 46, 5, 8, 2), metal)
    if brush.vary[1] > 0.5:
        brush.fill(_ellipse(50, 50, 25, 25), metal)
        brush.fill(_ellipse(50, 50, 20, 20), QColor("#f7f5ef"))
    else:
        brush.fill(_box(27, 27, 46, 46, 10), metal)
        brush.fill(_box(32, 32, 36, 36, 6), QColor("#20252c"))
    hand = brush.base
    brush.line(_path((50, 38), (50, 50), (59, 55), closed=False), 2.6, hand)


def _hat(brush: Brush) -> None:
    tall = 20 + 10 * brush.vary[0]
    brush.fill(_ellipse(50, 70, 42, 11), brush.dark)
    brush.fill(_ellipse(50, 68, 42, 10))
    brush.fill(
        _path((27, 68), (26, 66 - tall, 40, 64 - tall), (50, 70 - tall, 60, 64 - tall),
              (74, 66 - tall, 73, 68), (50, 77, 27, 68))
    )  # fmt: skip
    band = brush.light if brush.vary[1] > 0.5 else brush.dark
    brush.line(_path((28, 63), (50, 72, 72, 63), closed=False), 5, band)


DRAWINGS: dict[str, Callable[[Brush], None]] = {
    "cup": _cup,
    "shoe": _shoe,
    "lamp": _lamp,
    "bag": _bag,
    "chair": _chair,
    "plant": _plant,
    "watch": _watch,
    "hat": _hat,
}


def draw_good(good: Good, side: int, ratio: float = 1.0) -> QPixmap:
    """Return the picture of a good on a soft ground.

    side: in points, each of which has `ratio` pixels of the screen.
    """
    pixels = max(1, round(side * ratio))
    found = QPixmap(pixels, pixels)
    found.fill(Qt.GlobalColor.transparent)
    painter = QPainter(found)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.scale(pixels / 100, pixels / 100)
    vary = tuple(np.random.default_rng(good.seed).random(3).tolist())
    base = QColor(COLOURS[good.colour]).lighter(94 + round(16 * vary[0]))
    ground = QLinearGradient(0, 0, 0, 100)
    ground.setColorAt(0, QColor("#f7f5f1"))
    ground.setColorAt(1, QColor("#e4e0d8"))
    painter.fillPath(_box(0, 0, 100, 100, 6), ground)
    painter.fillPath(_ellipse(50, 87, 34, 5), QColor(60, 50, 40, 40))
    DRAWINGS[good.category](Brush(painter, base, vary))
    painter.end()
    found.setDevicePixelRatio(ratio)
    return found
