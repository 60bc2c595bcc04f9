"""A small player controlled by gestures: drawn slides, a volume, and the timing of commands."""

from __future__ import annotations

import math
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, QTimer
from PySide6.QtGui import (
    QBrush,
    QColor,
    QLinearGradient,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPen,
    QPolygonF,
)
from PySide6.QtWidgets import QSizePolicy

from palmkit.demos.app.icons import paint
from palmkit.demos.app.texts import Drawing

SLIDES = ("Dawn", "Sea", "Dunes", "Forest", "Night")
SLIDE_S = 4.0
STEP = 0.1


@dataclass(frozen=True)
class Command:
    """What a gesture does.

    repeats: whether it repeats while the gesture is held.
    """

    words: str
    act: str
    repeats: bool = False


COMMANDS: dict[str, Command] = {
    "open_palm": Command("Play or pause", "play"),
    "one": Command("Previous slide", "previous"),
    "two": Command("Next slide", "next"),
    "thumb_up": Command("Louder", "louder", repeats=True),
    "thumb_down": Command("Quieter", "quieter", repeats=True),
    "fist": Command("Mute", "mute"),
}


class Holding:
    """Measures how long a gesture is held, and says when it counts."""

    def __init__(self) -> None:
        """Start without a gesture."""
        self.gesture = ""
        self.share = 0.0
        self._since_ms = 0.0
        self._done = False
        self._seen_ms = 0.0

    def update(self, gesture: str, at_ms: float, hold_ms: float) -> str:
        """Return the command to run now, or "".

        gesture: seen now, "" for none. at_ms: the current time. Gaps under 250 ms do not count.
        """
        if at_ms < self._seen_ms:
            self._since_ms = self._seen_ms = at_ms
        if gesture not in COMMANDS:
            if at_ms - self._seen_ms > 250:
                self.gesture, self.share, self._done = "", 0.0, False
            return ""
        self._seen_ms = at_ms
        if gesture != self.gesture:
            self.gesture, self._since_ms, self._done = gesture, at_ms, False
        held_ms = at_ms - self._since_ms
        self.share = 1.0 if self._done else min(held_ms / max(hold_ms, 1.0), 1.0)
        if self._done or held_ms < hold_ms:
            return ""
        command = COMMANDS[gesture]
        if command.repeats:
            self._since_ms = at_ms - hold_ms / 2
        else:
            self._done = True
        return command.act


class Player(Drawing):
    """Shows slides and a volume."""

    def __init__(self) -> None:
        """Play from the first slide."""
        super().__init__()
        self.setObjectName("player")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.slide = 0
        self.volume = 0.5
        self.is_muted = False
        self.is_playing = True
        self._timer = QTimer(self)
        self._timer.setInterval(round(SLIDE_S * 1000))
        self._timer.timeout.connect(self._turn)
        self._describe()

    def sizeHint(self) -> QSize:
        """Return room for a slide and a line below it."""
        return QSize(264, 192)

    def run(self, is_on: bool) -> None:
        """Let slides change by themselves while they are seen."""
        if is_on and self.is_playing:
            self._timer.start()
        else:
            self._timer.stop()

    def do(self, act: str) -> None:
        """Run a command, one of Command.act."""
        if act == "play":
            self.is_playing = not self.is_playing
            self.run(True)
        elif act in ("next", "previous"):
            self.slide = (self.slide + (1 if act == "next" else -1)) % len(SLIDES)
            self.run(True)
        elif act == "mute":
            self.is_muted = not self.is_muted
        elif act in ("louder", "quieter"):
            step = STEP if act == "louder" else -STEP
            self.volume = round(min(max(self.volume + step, 0.0), 1.0), 2)
            self.is_muted = False
        self._describe()
        self.update()

    def _turn(self) -> None:
        self.slide = (self.slide + 1) % len(SLIDES)
        self._describe()
        self.update()

    def _describe(self) -> None:
        volume = "muted" if self.is_muted else f"volume {self.volume:.0%}"
        playing = "playing" if self.is_playing else "paused"
        words = f"{playing}, slide {self.slide + 1} of {len(SLIDES)}, {volume}"
        self.setAccessibleName("Player")
        self.setAccessibleDescription(words)
        self.setToolTip(words.capitalize())

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the slide and the volume."""
        painter = QPainter(self)
        painter.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        place = QRectF(0, 0, self.width(), self.height() - 42)
        card = QPainterPath()
        card.addRoundedRect(place, 10, 10)
        painter.save()
        painter.setClipPath(card)
        draw_slide(painter, place, self.slide)
        painter.restore()
        painter.setPen(QColor("white"))
        words = f"{SLIDES[self.slide]}  {self.slide + 1}/{len(SLIDES)}"
        painter.drawText(place.adjusted(12, 8, -12, -8), Qt.AlignmentFlag.AlignBottom, words)
        if not self.is_playing:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(0, 0, 0, 120))
            painter.drawEllipse(place.center(), 26, 26)
            sign = QRectF(place.center().x() - 16, place.center().y() - 16, 32, 32)
            paint(painter, "pause", "#ffffff", sign)
        self._paint_volume(painter, QRectF(0, self.height() - 30, self.width(), 24))

    def _paint_volume(self, painter: QPainter, place: QRectF) -> None:
        colours = self.palette()
        soft, accent = colours.mid().color(), colours.highlight().color()
        name = "muted" if self.is_muted else "sound"
        sign = QRectF(place.left(), place.top(), 24, 24)
        paint(painter, name, colours.text().color().name(), sign)
        bar = QRectF(place.left() + 34, place.center().y() - 3, place.width() - 82, 6)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(soft)
        painter.drawRoundedRect(bar, 3, 3)
        level = 0.0 if self.is_muted else self.volume
        painter.setBrush(accent)
        if level > 0:
            painter.drawRoundedRect(
                QRectF(bar.left(), bar.top(), bar.width() * level, bar.height()), 3, 3
            )
        painter.setPen(colours.text().color())
        painter.drawText(
            place, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, f"{level:.0%}"
        )


# For each slide the colours of the sky, the sun, and three rows of hills.
_SKIES = (
    ("#2b3a67", "#f2a65a", "#ffe0a3", ("#6d4c6e", "#4b3558", "#2a2140")),
    ("#4aa3df", "#cdeaf7", "#ffffff", ("#2f7fb5", "#1f6496", "#134a75")),
    ("#8ec5e8", "#fbe3b5", "#fff7dd", ("#e0ac69", "#c98a4b", "#a56a35")),
    ("#9fd0c8", "#eaf6e6", "#fdfdf0", ("#5d9c74", "#3d7a57", "#22553b")),
    ("#0b1030", "#33407a", "#f4f1d8", ("#1f2750", "#161c3d", "#0c1029")),
)


def draw_slide(painter: QPainter, place: QRectF, number: int) -> None:
    """Draw a landscape."""
    top, bottom, sun, hills = _SKIES[number]
    sky = QLinearGradient(place.topLeft(), place.bottomLeft())
    sky.setColorAt(0, QColor(top))
    sky.setColorAt(0.75, QColor(bottom))
    painter.fillRect(place, QBrush(sky))
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(sun))
    across = 0.25 + 0.13 * number
    centre = QPointF(place.left() + across * place.width(), place.top() + 0.34 * place.height())
    painter.drawEllipse(centre, 15, 15)
    if number == 4:
        for index in range(26):
            x = place.left() + (index * 61 % 100) / 100 * place.width()
            y = place.top() + (index * 37 % 60) / 100 * place.height()
            painter.drawEllipse(QPointF(x, y), 0.9, 0.9)
    for row, colour in enumerate(hills):
        base = place.top() + (0.55 + 0.14 * row) * place.height()
        outline = [place.bottomLeft()]
        for step in range(41):
            x = step / 40
            rise = math.sin(x * (5 + 2 * row) + number * 1.7 + row * 2.1)
            rise += 0.5 * math.sin(x * 13 + row * 3 + number)
            outline.append(QPointF(place.left() + x * place.width(), base - 9 * rise))
        outline.append(place.bottomRight())
        painter.setBrush(QColor(colour))
        painter.drawPolygon(QPolygonF(outline))
    painter.setPen(QPen(Qt.PenStyle.NoPen))
