"""The feed page: a shop's goods, re-ordered at once by what the visitor does, with reasons."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import (
    QAccessible,
    QAccessibleAnnouncementEvent,
    QPainter,
    QPaintEvent,
    QPalette,
)
from PySide6.QtWidgets import (
    QCheckBox,
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from palmkit.demos.app.background import Background
from palmkit.demos.app.page import Context, Page
from palmkit.demos.app.pages.feed_drawing import draw_good
from palmkit.demos.app.pages.feed_goods import Good
from palmkit.demos.app.pages.feed_grid import Grid
from palmkit.demos.app.pages.feed_visit import Shown, Visit, told_why
from palmkit.demos.app.scrolled import Scrolled
from palmkit.demos.app.tables import Listing
from palmkit.demos.app.texts import Drawing, Line, head, label
from palmkit.kits.ranking.learning import LEAST_PAGES, Learned

_PANEL_WIDTH = 300
_LISTED = 30
# How many reasons are shown, and the height in pixels of a bar with the gap below it.
_BARS, _BAR = 4, 16


NOTHING_OPEN = "Nothing is open. Click one of the goods."


class Reasons(Drawing):
    """Bars of the contributions to a score: to the right for, to the left against."""

    def __init__(self) -> None:
        """Start empty."""
        super().__init__()
        self._parts: list[tuple[str, float]] = []
        self._nothing = "Nothing is known yet: open or like something."
        self.tell([])

    def tell(self, parts: list[tuple[str, float]]) -> None:
        """Show words and log-odds, strongest first."""
        self._parts = parts
        spoken = "; ".join(f"{words}: {value:+.2f}" for words, value in parts)
        self.setAccessibleName(f"why: {spoken or 'nothing is known yet'}")
        self.update()

    def sizeHint(self) -> QSize:
        """Return room for four bars."""
        return QSize(_PANEL_WIDTH - 24, _BARS * self._line())

    def minimumSizeHint(self) -> QSize:
        """Return room for four bars of a word."""
        return QSize(_PANEL_WIDTH // 2, _BARS * self._line())

    def _line(self) -> int:
        """Return the height of a text with its bar."""
        return self.fontMetrics().height() + _BAR

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw words, bars and numbers."""
        painter = QPainter(self)
        colours = self.palette()
        text = colours.color(QPalette.ColorRole.WindowText)
        width, middle = self.width(), self.width() // 2
        most = max((abs(value) for _, value in self._parts), default=0) or 1
        high = painter.fontMetrics().height()
        if not self._parts:
            painter.setPen(colours.color(QPalette.ColorRole.PlaceholderText))
            wrapped = Qt.AlignmentFlag.AlignLeft | Qt.TextFlag.TextWordWrap
            painter.drawText(self.rect(), wrapped, self._nothing)
        for row, (words, value) in enumerate(self._parts):
            top = row * self._line()
            painter.setPen(text)
            line = QRect(0, top, width, high)
            number = f"{value:+.2f}"
            room = width - painter.fontMetrics().horizontalAdvance(number) - 8
            short = painter.fontMetrics().elidedText(words, Qt.TextElideMode.ElideRight, room)
            painter.drawText(line, Qt.AlignmentFlag.AlignLeft, short)
            painter.drawText(line, Qt.AlignmentFlag.AlignRight, number)
            length = round(abs(value) / most * (middle - 2))
            left = middle if value > 0 else middle - length
            role = QPalette.ColorRole.Highlight if value > 0 else QPalette.ColorRole.Mid
            painter.fillRect(QRect(left, top + high + 2, max(1, length), 7), colours.color(role))
            painter.fillRect(QRect(middle, top + high, 1, 11), text)


class FeedPage(Page):
    """Goods in a grid, and beside it what the visit knows."""

    name: ClassVar[str] = "feed"
    title: ClassVar[str] = "Feed"
    icon: ClassVar[str] = "feed"
    hint: ClassVar[str] = (
        "Open what you like, or just look: the goods are re-ordered for you at once, on this "
        "device."
    )

    def __init__(self, context: Context) -> None:
        """Build the page; the model is opened when the page is first shown."""
        super().__init__(context)
        self._background = Background("palmkit demo feed", self)
        self._visit: Visit | None = None
        self._generation = -1
        self._is_opening = False
        self._shown: Shown | None = None
        self._pointed: str | None = None
        self._opened: Good | None = None
        self._exposed: set[str] = set()
        self._build()
        context.catalogue.changed.connect(self._open)

    def _build(self) -> None:
        self.grid = Grid()
        self.grid.setObjectName("grid")
        self.grid.done.connect(self._do)
        self.grid.pointed_at.connect(self._point_at)
        self._status = Line("feed_status", "Order")
        self._status.setProperty("role", "hint")
        self._status.say("The model is being opened.")
        panel = QFrame()
        panel.setProperty("card", True)
        panel.setMinimumWidth(_PANEL_WIDTH)
        panel.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Preferred)
        area = Scrolled(12)
        frame = QVBoxLayout(panel)
        frame.setContentsMargins(1, 1, 1, 1)
        frame.addWidget(area)
        inside = area.column
        self._picture = QLabel()
        self._picture.setFixedSize(96, 96)
        self._details = QLabel(NOTHING_OPEN)
        self._details.setWordWrap(True)
        self._details.setObjectName("feed_details")
        top = QHBoxLayout()
        top.addWidget(self._picture)
        top.addWidget(self._details, 1)
        inside.addLayout(top)
        self._like = self._button("&Like", "feed_like", lambda: self._judge("like"))
        self.grid.followed_by = self._like
        self._skip = self._button("Not for &me", "feed_skip", lambda: self._judge("skip"))
        judged = QHBoxLayout()
        judged.addWidget(self._like)
        judged.addWidget(self._skip)
        inside.addLayout(judged)
        self._explain = QCheckBox("&Explain each place")
        self._explain.setToolTip(
            "Show what speaks for the place of what you point at (to the right), and against it"
        )
        self._explain.setObjectName("feed_explain")
        self._explain.setChecked(True)
        self._explain.toggled.connect(lambda: self._rerank())
        inside.addWidget(self._explain)
        self._reasons = Reasons()
        self._reasons.setObjectName("feed_reasons")
        inside.addWidget(self._reasons)
        known = label("What you &did", "section")
        known.setTextFormat(Qt.TextFormat.AutoText)
        inside.addWidget(known)
        self._deeds = Listing("feed_deeds", "what you did, the latest first", "Nothing yet.")
        known.setBuddy(self._deeds)
        inside.addWidget(self._deeds, 1)
        self._learned = QLabel()
        self._learned.setObjectName("feed_learned")
        self._learned.setWordWrap(True)
        inside.addWidget(self._learned)
        self._more = self._button(
            "Other &goods",
            "feed_more",
            self._turn_page,
            "Other goods, in the order that you are likely to like",
        )
        self._reset = self._button(
            "&Start over",
            "feed_reset",
            self._forget,
            "Forget all you did, and go back to the first goods",
        )
        self._learn = self._button(
            "Learn &now",
            "feed_learn",
            self._learn_now,
            "Train the model a little, on this device, with what you chose",
        )
        self._undo = self._button(
            "&Undo learning", "feed_undo", self._undo_learning, "Go back to the model as it was"
        )
        self._undo.setEnabled(False)
        buttons = QGridLayout()
        for at, button in enumerate((self._more, self._reset, self._learn, self._undo)):
            buttons.addWidget(button, at // 2, at % 2)
        inside.addLayout(buttons)
        left = QVBoxLayout()
        head(left, self.title, self.hint)
        left.addWidget(self.grid, 1)
        left.addWidget(self._status)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(18, 18, 18, 12)
        layout.setSpacing(14)
        layout.addLayout(left, 1)
        layout.addWidget(panel)
        self._show_opened(None)

    def _button(self, text: str, name: str, call: Callable[[], None], tip: str = "") -> QPushButton:
        button = QPushButton(text)
        button.setObjectName(name)
        button.setToolTip(tip)
        button.clicked.connect(lambda: call())
        return button

    @property
    def is_busy(self) -> bool:
        """Return whether an order is still to come."""
        return self._background.is_busy

    @property
    def shown(self) -> Shown | None:
        """Return the order that is shown."""
        return self._shown

    def entered(self) -> None:
        """Open the model, or go on."""
        if self._visit is None:
            self._open()

    def left(self) -> None:
        """End the look at a good."""
        self.grid.end_look()

    def shutdown(self) -> None:
        """End the thread, and close the model."""
        self._background.close()
        self._visit = None

    def _open(self) -> None:
        """Start a visit with the current models; keep the one before if that fails."""
        catalogue = self.context.catalogue
        if self._is_opening or catalogue.generation == self._generation:
            return
        if self._visit is None and not self.isVisible():
            return
        self._is_opening, generation = True, catalogue.generation
        source = catalogue.source("reranker")

        def opened(visit: Visit) -> None:
            self._is_opening, self._generation = False, generation
            self._visit = visit
            self._start_over()

        def failed(error: Exception) -> None:
            self._is_opening, self._generation = False, generation
            self._status.say(f"The model could not be opened: {error}")
            self.context.say(f"feed: {error}", "error", ("Try again", self._try_again))

        self._background.run(lambda: Visit(source), opened, failed)

    def _try_again(self) -> None:
        self._generation = -1
        self._open()

    def _do(self, kind: str, good: Good, seconds: float) -> None:
        """Record an action, and re-rank."""
        new = (each for each in self.grid.seen() if each.id not in self._exposed)
        seen = [each for each in new if each != good]
        self._exposed.update(each.id for each in seen)
        if kind == "click":
            self._show_opened(good)
            self._pointed = good.id

        def note(visit: Visit) -> None:
            visit.did("exposure", seen)
            visit.did(kind, [good], seconds)

        self._rerank(note)

    def _rerank(self, first: Callable[[Visit], None] | None = None) -> None:
        """Apply something to the visit, then show the order that follows."""
        visit = self._visit
        if visit is None:
            return
        why, keep = self._explain.isChecked(), None
        if self._pointed in self.grid.order:
            keep = self._pointed, self.grid.order.index(self._pointed) + 1

        def job() -> Shown:
            if first is not None:
                first(visit)
            return visit.show(why, keep)

        self._background.run(job, self._show, self._say)

    def _say(self, error: Exception) -> None:
        self.context.say(f"feed: {error}", "error")

    def _show(self, shown: Shown) -> None:
        self._shown = shown
        self.grid.show_goods(shown)
        version = self.context.catalogue.version("reranker", shown.version)
        order = "put in the shop's order" if shown.cold else "re-ordered for you"
        reasons = "" if shown.why is None else " with reasons"
        self._status.say(
            f"{len(shown.goods)} goods {order} in {shown.milliseconds:.1f} ms{reasons}; "
            f"{shown.events} actions known; model {version}"
        )
        self._deeds.clear()
        self._deeds.addItems([deed.words for deed in reversed(shown.deeds[-_LISTED:])])
        self._tell_reasons()
        if shown.deeds and not shown.cold:
            first = shown.goods[0]
            _announce(self.grid, f"{shown.deeds[-1].words}; first is now the {first.title}")

    def _point_at(self, id: str) -> None:
        self._pointed = id
        self._tell_reasons()

    def _tell_reasons(self) -> None:
        """Show the reasons of the good pointed at."""
        shown, parts = self._shown, dict[str, float]()
        self._reasons.setVisible(self._explain.isChecked())
        if shown is not None and shown.why is not None:
            ids = [good.id for good in shown.goods]
            at = ids.index(self._pointed) if self._pointed in ids else 0
            parts = shown.why[at]
        self._reasons.tell(told_why(parts))

    def _show_opened(self, good: Good | None) -> None:
        self._opened = good
        self._like.setEnabled(good is not None)
        self._skip.setEnabled(good is not None)
        if good is None:
            self._picture.clear()
            self._picture.hide()
            self._details.setText(NOTHING_OPEN)
            return
        self._picture.show()
        self._picture.setPixmap(draw_good(good, 96, self.devicePixelRatioF()))
        self._details.setText(
            f"<b>{good.title}</b><br>{good.maker} {good.name}<br>€{good.price:.2f}, "
            f"{good.stars:g} of 5 stars"
        )

    def _judge(self, kind: str) -> None:
        if self._opened is not None:
            self._do(kind, self._opened, 0.0)

    def _turn_page(self) -> None:
        self._exposed.clear()
        self._pointed = None
        self._rerank(Visit.turn_page)

    def _forget(self) -> None:
        # The look in progress is forgotten, too.
        self.grid.end_look()
        self._rerank(Visit.reset)
        self._start_over()

    def _start_over(self) -> None:
        self._exposed.clear()
        self._pointed = None
        self._show_opened(None)
        self._learned.clear()
        self._undo.setEnabled(False)
        self._rerank()

    def _learn_now(self) -> None:
        visit = self._visit
        if visit is None:
            return

        def learned(found: Learned) -> None:
            self._learned.setText(told_learned(found))
            _announce(self._learned, self._learned.text())
            self._undo.setEnabled(found.kept or self._undo.isEnabled())
            if found.kept:
                self._rerank()

        self._background.run(visit.learn, learned, self._say)

    def _undo_learning(self) -> None:
        visit = self._visit
        if visit is None:
            return

        def undone(is_undone: bool) -> None:
            self._undo.setEnabled(False)
            self._learned.setText("As before what was learned last." if is_undone else "")
            self._rerank()

        self._background.run(visit.undo, undone, self._say)


def told_learned(found: Learned) -> str:
    """Return the result of learning in words."""
    if found.loss is None or found.ndcg10 is None:
        pages = found.pages + found.held_back
        if pages < LEAST_PAGES:
            return f"Learning takes {LEAST_PAGES} choices; there were {pages} so far."
        return f"Nothing was learned: {found.reason}."
    judged = (
        f"on {found.held_back} of your choices that it had not seen, the order's quality (NDCG@10) "
        f"went from {found.ndcg10[0]:.2f} to {found.ndcg10[1]:.2f}, by {found.steps} steps in "
        f"{found.seconds * 1e3:.0f} ms"
    )
    return f"Learned: {judged}." if found.kept else f"Not kept, {found.reason}: {judged}."


def _announce(widget: QWidget, text: str) -> None:
    """Have a screen reader say something."""
    QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(widget, text))
