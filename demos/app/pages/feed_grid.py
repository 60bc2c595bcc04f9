"""The grid of goods: cards for clicks and keys, which glide to their new places."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import TYPE_CHECKING

from PySide6.QtCore import (
    QEasingCurve,
    QEvent,
    QParallelAnimationGroup,
    QPoint,
    QPropertyAnimation,
    QRect,
    QRectF,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QFocusEvent,
    QFont,
    QFontMetrics,
    QKeyEvent,
    QPainter,
    QPaintEvent,
    QPalette,
    QPen,
    QPixmap,
    QResizeEvent,
)
from PySide6.QtWidgets import QAbstractButton, QScrollArea, QStyle, QWidget

from palmkit.demos.app.pages.feed_drawing import draw_good
from palmkit.demos.app.pages.feed_visit import Shown, told_why

if TYPE_CHECKING:
    from PySide6.QtGui import QEnterEvent

    from palmkit.demos.app.pages.feed_goods import Good

# In pixels; letters that are larger make a card wider.
WIDTH, GAP = 140, 12
# How many letters of a title, and lines of a reason, a card has room for.
LETTERS, REASON_LINES = 17, 3
GLIDE_MS = 420
# A shorter look says nothing.
LEAST_DWELL_S = 1.2
MOST_DWELL_S = 60.0


class Card(QAbstractButton):
    """The card of one good.

    done: emitted with an action (as for Visit.did), its Good and seconds. pointed_at: emitted with
    its id, by the pointer or a key. stepped: emitted with columns and rows to move the focus by.
    """

    done = Signal(str, object, float)
    pointed_at = Signal(str)
    stepped = Signal(str, int, int)

    def __init__(self, good: Good, parent: QWidget) -> None:
        """Make a card without a place yet."""
        super().__init__(parent)
        self.good = good
        self.place = 0
        self._before: int | None = None
        self._reason = ""
        self._since: float | None = None
        self._picture: QPixmap | None = None
        self.setObjectName(f"good {good.id}")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.clicked.connect(lambda: self.done.emit("click", good, 0.0))

    def put(self, place: int, count: int, reason: str) -> None:
        """Set its place from 1 to `count`, and the reason."""
        self._before, self.place = self.place or None, place
        self._reason = reason
        good = self.good
        self.setAccessibleName(
            f"{good.title}, {good.maker} {good.name}, {good.price:.2f} euros, "
            f"{good.stars:g} of 5 stars, place {place} of {count}"
        )
        self.setAccessibleDescription(reason)
        self.setToolTip(reason)
        self.update()

    def end_look(self) -> None:
        """End the look at this card."""
        since, self._since = self._since, None
        if since is not None:
            seconds = time.monotonic() - since
            if seconds >= LEAST_DWELL_S:
                self.done.emit("dwell", self.good, min(seconds, MOST_DWELL_S))

    def _begin_look(self) -> None:
        if self._since is None:
            self._since = time.monotonic()
        self.pointed_at.emit(self.good.id)

    def enterEvent(self, event: QEnterEvent) -> None:
        """Handle the pointer entering."""
        super().enterEvent(event)
        self._begin_look()

    def leaveEvent(self, event: QEvent) -> None:
        """Handle the pointer leaving."""
        super().leaveEvent(event)
        self.end_look()

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Handle the focus arriving."""
        super().focusInEvent(event)
        self._begin_look()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Handle the focus leaving."""
        super().focusOutEvent(event)
        self.end_look()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Handle keys: arrows move to neighbours; Enter opens, L likes, Delete or X skips."""
        steps = {
            Qt.Key.Key_Left: (-1, 0), Qt.Key.Key_Right: (1, 0),
            Qt.Key.Key_Up: (0, -1), Qt.Key.Key_Down: (0, 1),
        }  # fmt: skip
        key = Qt.Key(event.key())
        if key in steps:
            self.stepped.emit(self.good.id, *steps[key])
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.click()
        elif key == Qt.Key.Key_L:
            self.done.emit("like", self.good, 0.0)
        elif key in (Qt.Key.Key_X, Qt.Key.Key_Delete):
            self.done.emit("skip", self.good, 0.0)
        else:
            super().keyPressEvent(event)

    def sizeHint(self) -> QSize:
        """Return the size of all cards: a square picture, two lines, and those of a reason."""
        title, small = QFontMetrics(self.font()), QFontMetrics(self._small_font())
        width = max(WIDTH, LETTERS * title.averageCharWidth() + 24)
        lines = title.height() + (1 + REASON_LINES) * small.height()
        return QSize(width, width - 20 + 14 + lines + 10)

    def _small_font(self) -> QFont:
        font = QFont(self.font())
        font.setPointSizeF(max(7.0, font.pointSizeF() * 0.88))
        return font

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw picture, name, price, stars, reason, and change of place."""
        good, colours = self.good, self.palette()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        box = QRectF(self.rect()).adjusted(1.5, 1.5, -1.5, -1.5)
        is_marked = self.hasFocus() or self.underMouse()
        edge = colours.color(QPalette.ColorRole.Highlight if is_marked else QPalette.ColorRole.Mid)
        painter.setPen(QPen(edge, 3 if self.hasFocus() else 1))
        painter.setBrush(colours.color(QPalette.ColorRole.AlternateBase))
        painter.drawRoundedRect(box, 10, 10)
        side, ratio = self.width() - 20, self.devicePixelRatioF()
        if self._picture is None or self._picture.devicePixelRatio() != ratio:
            self._picture = draw_good(good, side, ratio)
        painter.drawPixmap(10, 10, self._picture)
        text = colours.color(QPalette.ColorRole.Text)
        painter.setPen(text)
        font = painter.font()
        font.setBold(True)
        painter.setFont(font)
        top, width = side + 14, self.width() - 24
        line = QRect(12, top, width, painter.fontMetrics().height())
        dots = Qt.TextElideMode.ElideRight
        title = painter.fontMetrics().elidedText(good.title, dots, width)
        painter.drawText(line, Qt.AlignmentFlag.AlignLeft, title)
        painter.setFont(self._small_font())
        small = painter.fontMetrics()
        line = QRect(12, line.bottom() + 1, width, small.height())
        painter.drawText(line, Qt.AlignmentFlag.AlignLeft, f"€{good.price:.2f}")
        painter.drawText(line, Qt.AlignmentFlag.AlignRight, f"★ {good.stars:g}")
        text.setAlphaF(0.75)
        painter.setPen(text)
        for words in wrapped(self._reason, small, width, REASON_LINES):
            line.translate(0, small.height())
            painter.drawText(line, Qt.AlignmentFlag.AlignLeft, words)
        self._paint_way(painter)

    def _paint_way(self, painter: QPainter) -> None:
        way = 0 if self._before is None else self._before - self.place
        if not way:
            return
        words = f"▲ {way}" if way > 0 else f"▼ {-way}"
        width = painter.fontMetrics().horizontalAdvance(words) + 12
        badge = QRect(self.width() - width - 14, 14, width, painter.fontMetrics().height() + 6)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(Qt.GlobalColor.darkGreen if way > 0 else Qt.GlobalColor.darkGray)
        painter.drawRoundedRect(badge, 10, 10)
        painter.setPen(Qt.GlobalColor.white)
        painter.drawText(badge, Qt.AlignmentFlag.AlignCenter, words)


def wrapped(text: str, metrics: QFontMetrics, width: int, most: int) -> list[str]:
    """Return a text in lines of a width in pixels, at most so many; the last one may be elided."""
    lines: list[str] = []
    words = text.split()
    while words and len(lines) < most:
        count = len(words)
        if len(lines) < most - 1:
            fits = (
                metrics.horizontalAdvance(" ".join(words[:n])) <= width for n in range(1, count)
            )
            count = max(1, sum(fits) + (metrics.horizontalAdvance(" ".join(words)) <= width))
        line = " ".join(words[:count])
        lines.append(metrics.elidedText(line, Qt.TextElideMode.ElideRight, width))
        words = words[count:]
    return lines


class Grid(QScrollArea):
    """All cards in their order, with their signals done and pointed_at.

    followed_by: the control that Tab reaches after the last card.
    """

    done = Signal(str, object, float)
    pointed_at = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        """Make an empty grid."""
        super().__init__(parent)
        self.setWidgetResizable(False)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._inside = QWidget()
        self._inside.setObjectName("goods")
        self._inside.setAccessibleName("goods on offer")
        self.setWidget(self._inside)
        self._cards: dict[str, Card] = {}
        self._order: list[str] = []
        self._columns = 1
        self.followed_by: QWidget | None = None
        self._glide: QParallelAnimationGroup | None = None

    @property
    def order(self) -> list[str]:
        """Return the ids in their order."""
        return list(self._order)

    def card(self, id: str) -> Card | None:
        """Return the card of a good, if it is here."""
        return self._cards.get(id)

    def seen(self) -> list[Good]:
        """Return the goods in sight."""
        window = self.viewport().rect()
        inside = window.translated(-self._inside.pos())
        cards = [self._cards[id] for id in self._order]
        return [card.good for card in cards if inside.contains(card.geometry().center())]

    def show_goods(self, shown: Shown) -> None:
        """Show an order: cards that stay glide, others appear and disappear."""
        ids = [good.id for good in shown.goods]
        gone = [self._cards.pop(id) for id in set(self._cards) - set(ids)]
        for good in shown.goods:
            if good.id not in self._cards:
                self._cards[good.id] = self._made(good)
        is_new = not set(ids) & set(self._order)
        self._order = ids
        for place, id in enumerate(ids):
            reason = shown.common[place]
            if not reason and shown.why is not None:
                reason = next(
                    (words for words, value in told_why(shown.why[place]) if value > 0), ""
                )
            self._cards[id].put(place + 1, len(ids), reason)
        self._order_tabs()
        self._lay_out(animated=not is_new)
        if is_new:
            self.verticalScrollBar().setValue(0)
        # Done last: a card that was looked at emits a signal, and the others must be in order by
        # then.
        for card in gone:
            card.hide()
            card.deleteLater()

    def _order_tabs(self) -> None:
        """Set the tab order: what precedes the goods, all of them, what follows."""
        if self.followed_by is None:
            return
        before = self.followed_by.previousInFocusChain()
        while isinstance(before, Card):
            before = before.previousInFocusChain()
        chain = [*filter(None, [before]), *(self._cards[id] for id in self._order)]
        for one, next_one in pairwise(chain):
            QWidget.setTabOrder(one, next_one)

    def _made(self, good: Good) -> Card:
        card = Card(good, self._inside)
        card.done.connect(self.done)
        card.pointed_at.connect(self.pointed_at)
        card.stepped.connect(self._step)
        card.show()
        return card

    def _step(self, id: str, across: int, down: int) -> None:
        at = self._order.index(id) + across + down * self._columns
        if 0 <= at < len(self._order):
            card = self._cards[self._order[at]]
            card.setFocus(Qt.FocusReason.OtherFocusReason)
            self.ensureWidgetVisible(card, GAP, GAP)

    def _lay_out(self, animated: bool) -> None:
        self.finish()
        cards = [self._cards[id] for id in self._order]
        size = cards[0].sizeHint() if cards else QSize(WIDTH, WIDTH)
        for card in cards:
            card.setFixedSize(size)
        step = size + QSize(GAP, GAP)
        room = self.viewport().width()
        self._columns = max(1, (room - GAP) // step.width())
        left = max(GAP, (room - self._columns * step.width() + GAP) // 2)
        rows = -(-len(self._order) // self._columns)
        self._inside.setMinimumWidth(step.width() + GAP)
        self._inside.resize(max(room, step.width() + GAP), rows * step.height() + GAP)
        # Zero if the desktop asks for no motion.
        moves = self.style().styleHint(QStyle.StyleHint.SH_Widget_Animation_Duration, None, self)
        glide = QParallelAnimationGroup(self)
        for place, id in enumerate(self._order):
            row, column = divmod(place, self._columns)
            to = QPoint(left + column * step.width(), GAP + row * step.height())
            card = self._cards[id]
            if not animated or not moves or card.pos() == to or not self.isVisible():
                card.move(to)
                continue
            move = QPropertyAnimation(card, b"pos", glide)
            move.setDuration(GLIDE_MS)
            move.setEndValue(to)
            move.setEasingCurve(QEasingCurve.Type.InOutCubic)
            glide.addAnimation(move)
        if glide.animationCount():
            self._glide = glide
            glide.start()
        else:
            glide.deleteLater()

    def finish(self) -> None:
        """Finish gliding: put every card at its place."""
        glide, self._glide = self._glide, None
        if glide is not None:
            glide.setCurrentTime(GLIDE_MS)
            glide.stop()
            glide.deleteLater()

    def end_look(self) -> None:
        """End the look at any card."""
        for card in self._cards.values():
            card.end_look()

    def minimumSizeHint(self) -> QSize:
        """Return room for one column, and for a card or a part of it."""
        bar = self.verticalScrollBar().sizeHint().width()
        return QSize(self._inside.minimumWidth() + bar, WIDTH)

    def changeEvent(self, event: QEvent) -> None:
        """Fit the cards to other letters."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._lay_out(animated=False)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Use as many columns as fit."""
        super().resizeEvent(event)
        self._lay_out(animated=False)
