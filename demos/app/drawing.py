"""A drawn figure in a room, whose head moves and whose hand shows one gesture after another."""

from __future__ import annotations

import math
from dataclasses import fields
from functools import lru_cache
from typing import cast

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import (
    QBrush,
    QColor,
    QImage,
    QLinearGradient,
    QPainter,
    QPainterPath,
    QPen,
    QPolygonF,
    QRadialGradient,
)

from palmkit.kits.hands.skeleton import POSES, Pose, limbs
from palmkit.kits.image import Image

WIDTH, HEIGHT = 640, 480
GESTURES = ("open_palm", "two", "one", "thumb_up", "thumb_down", "fist")
# How long a gesture is held, and how long it takes to form.
HOLD_S, MAKE_S = 2.2, 0.5
PALM = 62.0
SKIN, SHADE, DARK_SKIN = QColor(226, 176, 146), QColor(205, 150, 121), QColor(150, 98, 76)
HAIR, HAIR_LIGHT = QColor(58, 36, 26), QColor(96, 62, 42)
SHIRT, SHIRT_DARK = QColor(46, 92, 142), QColor(33, 68, 108)


def draw(time_s: float) -> Image:
    """Return the figure at a time, uint8[480, 640, 3]."""
    canvas = room().copy()
    painter = QPainter(canvas)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    sway = math.sin(time_s * 0.9)
    painter.save()
    painter.translate(250 + 10 * sway, 236)
    _body(painter)
    painter.rotate(4 * math.sin(time_s * 0.7 + 1))
    is_blinking = time_s % 3.7 < 0.16
    smile = 0.5 + 0.5 * math.sin(time_s * 0.5)
    _head(painter, is_blinking, smile, 4 * math.sin(time_s * 0.6))
    painter.restore()
    _hand(painter, QPointF(498 + 8 * math.sin(time_s * 1.3), 330 + 5 * sway), pose_at(time_s))
    painter.end()
    return _pixels(canvas)


def pose_at(time_s: float) -> Pose:
    """Return how the hand is held at a time."""
    number, passed_s = divmod(time_s, HOLD_S + MAKE_S)
    before = POSES[GESTURES[int(number) % len(GESTURES)]][0]
    after = POSES[GESTURES[(int(number) + 1) % len(GESTURES)]][0]
    part = min(max((passed_s - HOLD_S) / MAKE_S, 0.0), 1.0)
    part = part * part * (3 - 2 * part)
    mixed: dict[str, object] = {}
    for each in fields(Pose):
        a, b = getattr(before, each.name), getattr(after, each.name)
        values = np.asarray(a) * (1 - part) + np.asarray(b) * part
        mixed[each.name] = float(values) if values.ndim == 0 else tuple(values.tolist())
    return Pose(**mixed)  # type: ignore[arg-type]


@lru_cache(maxsize=1)
def room() -> QImage:
    """Return the background of the figure."""
    canvas = QImage(WIDTH, HEIGHT, QImage.Format.Format_RGB888)
    painter = QPainter(canvas)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    wall = QLinearGradient(0, 0, WIDTH, HEIGHT)
    wall.setColorAt(0, QColor(212, 205, 186))
    wall.setColorAt(1, QColor(150, 140, 118))
    painter.fillRect(canvas.rect(), QBrush(wall))
    painter.setPen(QPen(QColor(126, 100, 78), 6))
    sky = QLinearGradient(0, 40, 0, 210)
    sky.setColorAt(0, QColor(186, 214, 232))
    sky.setColorAt(1, QColor(232, 238, 238))
    painter.setBrush(QBrush(sky))
    painter.drawRect(QRectF(34, 40, 104, 172))
    painter.drawLine(QPointF(86, 40), QPointF(86, 212))
    random = np.random.default_rng(3)
    painter.setPen(Qt.PenStyle.NoPen)
    for shelf in (150, 250):
        x = 470.0
        while x < WIDTH - 8:
            width, height = float(random.uniform(9, 19)), float(random.uniform(48, 74))
            hue = int(random.integers(0, 360))
            painter.setBrush(QColor.fromHsv(hue, 96, int(random.integers(90, 180))))
            painter.drawRect(QRectF(x, shelf - height, width, height))
            x += width + 2
        painter.setBrush(QColor(110, 82, 60))
        painter.drawRect(QRectF(456, shelf, WIDTH - 456, 9))
    painter.end()
    return canvas


def _body(painter: QPainter) -> None:
    path = QPainterPath(QPointF(-190, 250))
    path.cubicTo(QPointF(-180, 130), QPointF(-128, 118), QPointF(-52, 96))
    path.lineTo(QPointF(52, 96))
    path.cubicTo(QPointF(128, 118), QPointF(180, 130), QPointF(190, 250))
    path.closeSubpath()
    cloth = QLinearGradient(-150, 100, 160, 250)
    cloth.setColorAt(0, SHIRT)
    cloth.setColorAt(1, SHIRT_DARK)
    # Hair that falls behind the shoulders.
    painter.setBrush(HAIR)
    painter.drawRoundedRect(QRectF(-104, -70, 208, 182), 92, 70)
    painter.setBrush(QBrush(cloth))
    painter.drawPath(path)
    neck = QLinearGradient(0, 60, 0, 116)
    neck.setColorAt(0, DARK_SKIN)
    neck.setColorAt(0.6, SHADE)
    painter.setBrush(QBrush(neck))
    painter.drawRoundedRect(QRectF(-34, 46, 68, 74), 26, 26)
    painter.setBrush(SHADE)
    painter.drawEllipse(QPointF(0, 104), 50, 20)


def _head(painter: QPainter, is_blinking: bool, smile: float, turn: float) -> None:
    """Draw the head.

    turn: pixels by which the features move aside.
    """
    skin = QRadialGradient(QPointF(-22, -34), 150)
    skin.setColorAt(0, QColor(240, 196, 168))
    skin.setColorAt(0.6, SKIN)
    skin.setColorAt(1, SHADE)
    painter.setBrush(QBrush(skin))
    face = QPainterPath(QPointF(-78, -34))
    face.cubicTo(QPointF(-80, 36), QPointF(-48, 92), QPointF(0, 94))
    face.cubicTo(QPointF(48, 92), QPointF(80, 36), QPointF(78, -34))
    face.cubicTo(QPointF(76, -118), QPointF(-76, -118), QPointF(-78, -34))
    painter.drawPath(face)
    for side in (-1, 1):
        blush = QRadialGradient(QPointF(side * 42 + turn, 26), 26)
        blush.setColorAt(0, QColor(226, 120, 104, 70))
        blush.setColorAt(1, QColor(226, 120, 104, 0))
        painter.setBrush(QBrush(blush))
        painter.drawEllipse(QPointF(side * 42 + turn, 26), 26, 22)
        painter.save()
        painter.translate(side * 31 + turn, -12)
        _eye(painter, side, is_blinking)
        painter.restore()
    _nose_and_mouth(painter, smile, turn)
    hair = QLinearGradient(-60, -130, 60, 0)
    hair.setColorAt(0, HAIR_LIGHT)
    hair.setColorAt(0.5, HAIR)
    hair.setColorAt(1, HAIR_LIGHT.darker(120))
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QBrush(hair))
    top = QPainterPath(QPointF(-74, 30))
    top.cubicTo(QPointF(-122, -10), QPointF(-104, -136), QPointF(0, -136))
    top.cubicTo(QPointF(104, -136), QPointF(122, -10), QPointF(74, 30))
    top.cubicTo(QPointF(84, -20), QPointF(72, -58), QPointF(38, -74))
    top.cubicTo(QPointF(6, -58), QPointF(-50, -56), QPointF(-66, -40))
    top.cubicTo(QPointF(-76, -20), QPointF(-78, 6), QPointF(-74, 30))
    painter.drawPath(top)


def _eye(painter: QPainter, side: int, is_blinking: bool) -> None:
    painter.setPen(QPen(QColor(70, 44, 34), 5.5, c=Qt.PenCapStyle.RoundCap))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    brow = QPainterPath(QPointF(-17, -18))
    brow.quadTo(QPointF(side * 2, -28), QPointF(17, -19))
    painter.drawPath(brow)
    lid = QPainterPath(QPointF(-15, 2))
    lid.quadTo(QPointF(0, 8 if is_blinking else -13), QPointF(15, 1))
    if not is_blinking:
        white = QPainterPath(lid)
        white.quadTo(QPointF(0, 11), QPointF(-15, 2))
        painter.save()
        painter.setClipPath(white)
        painter.fillPath(white, QColor(248, 246, 242))
        painter.setPen(Qt.PenStyle.NoPen)
        for radius, colour in (
            (7.4, QColor(72, 52, 38)),
            (6.2, QColor(104, 76, 48)),
            (3.0, "#140d0a"),
        ):
            painter.setBrush(QColor(colour))
            painter.drawEllipse(QPointF(0, -1), radius, radius)
        painter.setBrush(QColor("white"))
        painter.drawEllipse(QPointF(-2.2, -3.6), 1.7, 1.7)
        painter.restore()
    painter.setPen(QPen(QColor(48, 28, 22), 2.6, c=Qt.PenCapStyle.RoundCap))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawPath(lid)


def _nose_and_mouth(painter: QPainter, smile: float, turn: float) -> None:
    painter.save()
    painter.translate(turn * 1.4, 0)
    ridge = QLinearGradient(-9, 0, 12, 0)
    ridge.setColorAt(0, QColor(255, 222, 196, 120))
    ridge.setColorAt(1, QColor(170, 110, 84, 90))
    painter.setBrush(QBrush(ridge))
    nose = QPainterPath(QPointF(-4, -8))
    nose.cubicTo(QPointF(-6, 14), QPointF(-16, 26), QPointF(-12, 31))
    nose.quadTo(QPointF(0, 39), QPointF(13, 31))
    nose.cubicTo(QPointF(15, 24), QPointF(6, 10), QPointF(4, -8))
    painter.drawPath(nose)
    painter.setBrush(QColor(130, 76, 60))
    for side in (-1, 1):
        painter.drawEllipse(QPointF(side * 6, 32), 3.2, 1.9)
    painter.restore()
    painter.translate(turn, 58)
    wide = 25 + 3 * smile
    lift = 3 + 4 * smile
    lips = QPainterPath(QPointF(-wide, -lift * 0.6))
    lips.cubicTo(QPointF(-12, -8), QPointF(-6, -9), QPointF(0, -6))
    lips.cubicTo(QPointF(6, -9), QPointF(12, -8), QPointF(wide, -lift * 0.6))
    lips.cubicTo(QPointF(12, 13), QPointF(-12, 13), QPointF(-wide, -lift * 0.6))
    painter.fillPath(lips, QColor(186, 92, 88))
    gap = QPainterPath(QPointF(-wide + 3, -lift * 0.4))
    gap.quadTo(QPointF(0, 3 + lift * 0.3), QPointF(wide - 3, -lift * 0.4))
    painter.setPen(QPen(QColor(120, 44, 46), 2, c=Qt.PenCapStyle.RoundCap))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawPath(gap)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.translate(-turn, -58)


def _hand(painter: QPainter, wrist: QPointF, pose: Pose) -> None:
    points = pose.landmarks().astype(np.float64) * PALM
    # The left hand, beside the figure's left.
    points[:, 0] *= -1
    points[:, :2] += wrist.x(), wrist.y()
    flat = points[:, :2]
    painter.setPen(Qt.PenStyle.NoPen)
    elbow = flat[0] + (6.0, 200.0)
    _limb(painter, flat[0], elbow, 0.27 * PALM, 0.42 * PALM, 0.93)
    sleeve = flat[0] + (2.0, 88.0)
    painter.setBrush(SHIRT_DARK)
    painter.drawRoundedRect(QRectF(sleeve[0] - 34, sleeve[1], 70, 120), 12, 12)
    hull = QPolygonF([QPointF(*flat[index]) for index in (0, 17, 13, 9, 5, 2, 1)])
    painter.setBrush(_skin(0.97))
    painter.drawPolygon(hull)
    for limb in limbs(points, PALM):
        _limb(painter, *limb)


def _limb(
    painter: QPainter,
    start: NDArray[np.float64],
    end: NDArray[np.float64],
    near: float,
    far: float,
    share: float,
) -> None:
    """Draw a rounded cone from a circle of one radius to one of another."""
    painter.setBrush(_skin(share))
    a, b = QPointF(*start), QPointF(*end)
    painter.drawEllipse(a, near, near)
    painter.drawEllipse(b, far, far)
    along = end - start
    length = float(np.hypot(*along))
    if length > abs(near - far):
        side = np.array([-along[1], along[0]]) / length
        corners = (start + side * near, end + side * far, end - side * far, start - side * near)
        painter.drawPolygon(QPolygonF([QPointF(*corner) for corner in corners]))


def _skin(share: float) -> QColor:
    return QColor.fromRgbF(
        min(SKIN.redF() * share, 1), min(SKIN.greenF() * share, 1), min(SKIN.blueF() * share, 1)
    )


def _pixels(canvas: QImage) -> Image:
    """Return uint8[h, w, 3], softened as by a lens."""
    import cv2

    stride = canvas.bytesPerLine()
    whole = np.frombuffer(canvas.constBits(), np.uint8).reshape(HEIGHT, stride)
    pixels = whole[:, : 3 * WIDTH].reshape(HEIGHT, WIDTH, 3)
    return cast(Image, cv2.GaussianBlur(pixels, (0, 0), 0.7))
