"""The gesture page: a player controlled by hands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QGridLayout, QWidget

from palmkit import kits
from palmkit.demos.app.controls import Slider, check
from palmkit.demos.app.page import Context, Kept, LivePage, Outcome
from palmkit.demos.app.player import COMMANDS, Holding, Player
from palmkit.demos.app.remembered import Remembered
from palmkit.demos.app.source import SampleKind, Shot
from palmkit.demos.app.texts import label, spoken
from palmkit.kits.kit import Mode
from palmkit.kits.results import Hands
from palmkit.kits.stopwatch import Stopwatch


@dataclass(frozen=True)
class Settings:
    """How gestures are read."""

    hold_s: float = 0.7
    max_hands: int = 2
    draws: bool = True


@dataclass(frozen=True)
class Seen:
    """The gesture in a frame.

    gesture: of the largest hand, "" for none. at_ms: time of the frame.
    """

    hands: Hands
    gesture: str
    at_ms: float


class GesturePage(LivePage):
    """Reads gestures, and lets them control the player."""

    name: ClassVar[str] = "gesture"
    title: ClassVar[str] = "Gestures"
    icon: ClassVar[str] = "gesture"
    hint: ClassVar[str] = "Hold a gesture in front of the camera to control the player."
    models: ClassVar[tuple[str, ...]] = ("hand_detector", "hand_landmarks")
    sample: ClassVar[SampleKind] = "drawing"

    def __init__(self, context: Context) -> None:
        """Build the panel."""
        super().__init__(context)
        self._settings = Remembered(context.settings, self.name, Settings(), context.refresh.emit)
        settings = self._settings.now
        self._recognizer: Kept[kits.GestureRecognizer] = Kept()
        self._holding = Holding()
        self.player = Player()
        self._rings: dict[str, _Ring] = {}
        panel = self.panel
        panel.add(self.player)
        self._did = label("Show a hand to the camera.", "hint", wraps=True)
        self._did.setObjectName("gesture_did")
        panel.add(self._did)
        panel.section("What gestures do")
        panel.add(self._table())
        panel.section("How gestures are read")
        panel.add(
            Slider(
                "Hold for",
                settings.hold_s,
                lambda value: self._settings.set(hold_s=round(value, 2)),
                0.2,
                2.0,
                0.1,
                lambda value: f"{value:.1f} s",
                "A gesture counts once it has been held this long",
            )
        )
        panel.add(
            Slider(
                "At most",
                settings.max_hands,
                lambda value: self._settings.set(max_hands=round(value)),
                1,
                6,
                1,
                lambda value: "1 hand" if value == 1 else f"{value:.0f} hands",
                "Where there are more, those found most surely are followed",
            )
        )
        panel.add(check("Draw hands", settings.draws, lambda on: self._settings.set(draws=on)))

    def _table(self) -> QWidget:
        whole = QWidget()
        grid = QGridLayout(whole)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setVerticalSpacing(4)
        for row, (gesture, command) in enumerate(COMMANDS.items()):
            ring = self._rings[gesture] = _Ring()
            grid.addWidget(ring, row, 0)
            grid.addWidget(label(worded(gesture).capitalize(), wraps=True), row, 1)
            grid.addWidget(label(command.words, "hint", wraps=True), row, 2)
        for column in (1, 2):
            grid.setColumnStretch(column, 1)
        return whole

    def entered(self) -> None:
        """Let the slides change."""
        self.player.run(True)

    def left(self) -> None:
        """Stop the slides."""
        self.player.run(False)

    def look(self, shot: Shot) -> Outcome:
        """Find the hands and draw them."""
        settings, watch, catalogue = self._settings.now, Stopwatch(), self.context.catalogue
        mode: Mode = "image" if shot.is_still else "video"
        kit = self._recognizer.get(
            watch,
            (catalogue.generation, mode, settings.max_hands),
            lambda: kits.GestureRecognizer(
                mode,
                max_hands=settings.max_hands,
                model=catalogue.source("hand_landmarks"),
                detector_model=catalogue.source("hand_detector"),
            ),
        )
        with watch.stage("hands"):
            hands = kit.recognize(shot.image, shot.timestamp_ms)
        with watch.stage("draw"):
            picture = kits.draw.hands(shot.image, hands) if settings.draws else shot.image
        gesture = ""
        if len(hands):
            largest = int(np.argmax(hands.boxes[:, 2] * hands.boxes[:, 3]))
            gesture = hands.gestures[largest]
        count = len(hands)
        summary = "No hand" if not count else "1 hand" if count == 1 else f"{count} hands"
        if gesture:
            summary += f", {worded(gesture)}"
        seen = Seen(hands, gesture, shot.timestamp_ms)
        return Outcome(picture, shot.image, watch.stages_ms, summary, kit.releases, seen)

    def show_outcome(self, outcome: Outcome) -> None:
        """Do what the held gesture means."""
        seen = outcome.found
        if not isinstance(seen, Seen):
            return
        act = self._holding.update(seen.gesture, seen.at_ms, self._settings.now.hold_s * 1e3)
        for gesture, ring in self._rings.items():
            ring.show_share(self._holding.share if gesture == self._holding.gesture else 0.0)
        if act:
            self.player.do(act)
            self._did.setText(f"{COMMANDS[seen.gesture].words}: {self.player.toolTip().lower()}")

    def forget(self) -> None:
        """Reset the kit for another video."""
        self._recognizer.reset()

    def release(self) -> None:
        """Close the kit."""
        self._recognizer.close()


def worded(gesture: str) -> str:
    """Return a gesture in words that show how to make it."""
    return {"one": "one finger", "two": "two fingers"}.get(gesture, spoken(gesture))


class _Ring(QWidget):
    """A ring that fills while a gesture is held."""

    def __init__(self) -> None:
        super().__init__()
        self._share = 0.0

    def sizeHint(self) -> QSize:
        return QSize(20, 20)

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def show_share(self, share: float) -> None:
        if share != self._share:
            self._share = share
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        place = QRectF(self.width() / 2 - 7, self.height() / 2 - 7, 14, 14)
        painter.setPen(QPen(self.palette().mid().color(), 2.4))
        painter.drawEllipse(place)
        if self._share <= 0:
            return
        accent: QColor = self.palette().highlight().color()
        painter.setPen(QPen(accent, 2.6, c=Qt.PenCapStyle.RoundCap))
        painter.drawArc(place, 90 * 16, -round(self._share * 360 * 16))
        if self._share >= 1:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(accent)
            painter.drawEllipse(place.center(), 3.4, 3.4)
