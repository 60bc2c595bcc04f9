"""The live picture with its tools: source, pause, comparison, saving."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from PySide6.QtCore import QSize, Qt, QTimer, Signal
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QFileDialog,
    QFrame,
    QHBoxLayout,
    QMenu,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from palmkit.demos.app.controls import Elided
from palmkit.demos.app.icons import icon
from palmkit.demos.app.page import Context, LivePage
from palmkit.demos.app.saving import Saving
from palmkit.demos.app.source import (
    Camera,
    Sample,
    Source,
    SourceError,
    cameras,
    file_source,
    read_source,
)
from palmkit.demos.app.texts import Line
from palmkit.demos.app.theme import Theme
from palmkit.demos.app.view import View
from palmkit.demos.app.worker import Shown, Worker
from palmkit.kits.image import SUFFIXES as PICTURE_SUFFIXES
from palmkit.kits.image import Image
from palmkit.kits.video import SUFFIXES as VIDEO_SUFFIXES

# The time over which the frame rate is measured.
RATE_S = 1.0
# How long a source may take until its first frame before a message appears.
PATIENCE_MS = 5000
# The least width in pixels of what was found, in words.
SUMMARY = 50


class Live(QWidget):
    """The live picture and tools, shared by the pages that work on frames.

    shown: emitted with a frame (Shown). source_changed: emitted with its title. rate_changed:
    emitted with the frames shown in a second.
    """

    shown = Signal(object)
    source_changed = Signal(str)
    rate_changed = Signal(float)

    def __init__(self, context: Context, theme: Theme) -> None:
        """Build the widgets; nothing is read yet."""
        super().__init__()
        self._context = context
        self._theme = theme
        self.worker = Worker()
        self.view = View(theme)
        self.saving = Saving(context)
        self._page: LivePage | None = None
        self._source: Source = Sample()
        self._is_chosen = False
        self._mirrors = context.settings.value("mirror", "yes") != "no"
        self._last: Shown | None = None
        self._times: list[float] = []
        self._build()
        self.worker.ready.connect(self._take, Qt.ConnectionType.QueuedConnection)
        self.worker.failed.connect(self._complain)
        self.worker.broken.connect(self._replace)
        self.worker.opened.connect(self._opened)
        self.saving.recording.connect(self._show_recording)
        context.refresh.connect(self.worker.refresh)
        context.pause_live.connect(self._hold)
        theme.changed.connect(self._dress)
        self._patience = QTimer(self)
        self._patience.setSingleShot(True)
        self._patience.timeout.connect(self._complain_of_waiting)
        self._ticks = QTimer(self)
        self._ticks.setInterval(500)
        self._ticks.timeout.connect(self._tick)
        self._ticks.start()
        self._dress()

    def _build(self) -> None:
        self.source_button = self._button(
            "source", "Source", "camera", "Choose what is shown", "O", Elided
        )
        self.source_button.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self.source_button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.source_button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.menu = QMenu(self.source_button)
        self.menu.aboutToShow.connect(self._fill_menu)
        self.source_button.setMenu(self.menu)
        self.pause_button = self._button("pause", "Pause", "pause", "Hold the frame", "Space")
        self.pause_button.setCheckable(True)
        self.pause_button.toggled.connect(self._pause)
        self.compare_button = self._button(
            "compare", "Before and after", "compare", "Compare with the frame before", "B"
        )
        self.compare_button.setCheckable(True)
        self.compare_button.toggled.connect(self._compare)
        self.save_button = self._button("save", "Save picture", "save", "Save the picture", "S")
        self.save_button.clicked.connect(self._save)
        self.record_button = self._button(
            "record", "Record clip", "record", "Record a clip, or end it", "R"
        )
        self.record_button.setCheckable(True)
        self.record_button.clicked.connect(self._record)
        self.summary = Line("summary", "What was found")
        self.summary.setMinimumWidth(SUMMARY)
        self.summary.setProperty("role", "hint")
        bar = QFrame()
        bar.setObjectName("bar")
        line = QHBoxLayout(bar)
        line.setContentsMargins(10, 8, 10, 9)
        line.setSpacing(6)
        line.addWidget(self.source_button)
        line.addWidget(self.pause_button)
        line.addWidget(self.compare_button)
        line.addWidget(self.summary, 1)
        line.addWidget(self.save_button)
        line.addWidget(self.record_button)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(bar)
        column.addWidget(self.view, 1)

    def _button(
        self,
        name: str,
        text: str,
        sign: str,
        tip: str,
        key: str,
        kind: type[QToolButton] = QToolButton,
    ) -> QToolButton:
        made = kind()
        made.setObjectName(name)
        made.setText(text)
        made.setIconSize(QSize(20, 20))
        made.setToolTip(f"{tip} ({key})")
        made.setAccessibleName(text)
        made.setAccessibleDescription(tip)
        made.setProperty("sign", sign)
        made.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        # A shortcut would take Space away from buttons with the focus.
        if key != "Space":
            shortcut = QShortcut(QKeySequence(key), self)
            shortcut.activated.connect(made.showMenu if name == "source" else made.click)
        return made

    @property
    def controls(self) -> tuple[QWidget, ...]:
        """Return the controls in their tab order."""
        return (
            self.source_button,
            self.pause_button,
            self.compare_button,
            self.save_button,
            self.record_button,
            self.view,
        )

    def start(self, wanted: str | None) -> None:
        """Read the named source, or the first camera, or the sample.

        wanted: as for read_source; None: the default.
        """
        if wanted is None:
            found = cameras()
            first = Camera(found[0], self._mirrors) if found else self._sample()
            return self.open(first, by_user=False)
        if wanted == "sample":
            return self.open(self._sample(), by_user=False)
        try:
            self.open(read_source(wanted))
        except SourceError as error:
            self._replace(None, error)

    def open(self, source: Source, by_user: bool = True) -> None:
        """Read another source.

        by_user: whether it stays when a page prefers another sample.
        """
        self._source, self._is_chosen = source, by_user
        self._last = None
        self.pause_button.setChecked(False)
        self.source_button.setText(source.title)
        self.source_button.setToolTip(f"Choose what is shown (O): now {source.title}")
        self.source_changed.emit(source.title)
        self._dress()
        self._patience.start(PATIENCE_MS)
        self.worker.open(source)

    def show_page(self, page: LivePage | None) -> None:
        """Work for a page; None: for none."""
        self._page = page
        self.summary.say("")
        if self._last is not None:
            # Shown until the page's first picture arrives.
            self.view.show_pictures(self._last.shot.image, None)
            self._last = None
        self.compare_button.setEnabled(page is not None and page.has_before)
        self.compare_button.setChecked(False)
        self.worker.show(page)
        if page is not None and isinstance(self._source, Sample) and not self._is_chosen:
            wanted = self._sample()
            if wanted != self._source:
                self.open(wanted, by_user=False)

    def stop(self) -> None:
        """End the threads."""
        self._ticks.stop()
        self._patience.stop()
        self.saving.stop()
        self.worker.stop()

    @property
    def last(self) -> Shown | None:
        """Return the newest frame that is shown."""
        return self._last

    @property
    def source(self) -> Source:
        """Return the source being read."""
        return self._source

    def _sample(self) -> Sample:
        return Sample() if self._page is None else Sample(self._page.sample)

    def _opened(self, source: Source) -> None:
        if source == self._source:
            self._patience.stop()

    def _complain_of_waiting(self) -> None:
        self._context.say(
            f"{self._source.title} gives no picture yet",
            "warning",
            ("Show the sample", partial(self.open, self._sample())),
        )

    def _replace(self, source: Source | None, error: SourceError) -> None:
        """Report that the source has no frames (any more), and show the sample."""
        if source is not None and source != self._source:
            return
        self._patience.stop()
        if isinstance(source, Sample):
            self._context.say(f"the sample cannot be shown: {error}", "error")
            return
        again = None
        if isinstance(source, Camera):
            again = ("Try again", partial(self.open, source))
        if not self._is_chosen and error.problem in ("missing", "in use") and source is not None:
            self._context.say(f"{error}; this is the sample", "info", again)
        else:
            self._context.say(f"{error}; showing the sample instead", "warning", again)
        self.open(self._sample(), by_user=False)

    def _complain(self, text: str) -> None:
        self._context.say(text, "error")

    def _take(self) -> None:
        shown = self.worker.take()
        if shown is None or shown.page is not self._page:
            return
        self._last = shown
        outcome = shown.outcome
        self.view.show_pictures(outcome.picture, outcome.before if shown.page.has_before else None)
        self.summary.say(outcome.summary)
        if self.saving.is_recording and (seen := self.shown_picture()) is not None:
            self.saving.add(seen)
        shown.page.show_outcome(outcome)
        self._times.append(time.perf_counter())
        self.shown.emit(shown)

    def _tick(self) -> None:
        now = time.perf_counter()
        self._times = [at for at in self._times if now - at < RATE_S]
        is_still = self._last is not None and self._last.shot.is_still
        is_held = self.worker.is_paused or is_still
        self.rate_changed.emit(0.0 if is_held else len(self._times) / RATE_S)

    def _pause(self, is_on: bool) -> None:
        self.worker.pause(is_on)
        self._dress()

    def _hold(self, is_on: bool) -> None:
        """Pause while something else needs the machine."""
        self.worker.pause(is_on or self.pause_button.isChecked())

    def _compare(self, is_on: bool) -> None:
        self.view.compare(is_on)

    def _save(self) -> None:
        picture = self.shown_picture()
        if picture is not None:
            self.saving.save_picture(self, picture)

    def shown_picture(self) -> Image | None:
        """Return what is seen now, in the size of the frame."""
        if self._last is None:
            return None
        outcome, split = self._last.outcome, self.view.split
        if split is None:
            return outcome.picture
        both = outcome.picture.copy()
        at = round(split * both.shape[1])
        both[:, :at] = outcome.before[:, :at]
        both[:, max(at - 1, 0) : at + 1] = 255
        return both

    def _record(self) -> None:
        self.saving.toggle_clip(self, self.shown_picture())

    def _show_recording(self, is_on: bool) -> None:
        self.record_button.setChecked(is_on)
        self._dress()

    def _fill_menu(self) -> None:
        self.menu.clear()
        colours = self._theme.colours

        def add(sign: str, text: str, act: Callable[[], object]) -> None:
            self.menu.addAction(icon(sign, colours.soft, colours.accent), text).triggered.connect(
                lambda: act()
            )

        found = cameras()
        for number in found:
            camera = Camera(number, self._mirrors)
            add("camera", camera.title, partial(self.open, camera))
        if found:
            mirror = self.menu.addAction("Mirror cameras")
            mirror.setCheckable(True)
            mirror.setChecked(self._mirrors)
            mirror.toggled.connect(self._mirror)
        else:
            self.menu.addAction("No camera found").setEnabled(False)
        self.menu.addSeparator()
        add("open", "Open a picture or video…", self._choose_file)
        self.menu.addSeparator()
        add("sample", "Sample photograph", partial(self.open, Sample()))
        add("sample", "Drawn sample", partial(self.open, Sample("drawing")))

    def _mirror(self, is_on: bool) -> None:
        self._mirrors = is_on
        self._context.settings.setValue("mirror", "yes" if is_on else "no")
        if isinstance(self._source, Camera):
            self.open(replace(self._source, mirrored=is_on), self._is_chosen)

    def _choose_file(self) -> None:
        suffixes = " ".join(f"*{each}" for each in sorted(PICTURE_SUFFIXES | VIDEO_SUFFIXES))
        kept = str(self._context.settings.value("folder", str(Path.home())))
        name, _ = QFileDialog.getOpenFileName(
            self, "Open a picture or video", kept, f"Pictures and videos ({suffixes})"
        )
        if not name:
            return
        self._context.settings.setValue("folder", str(Path(name).parent))
        try:
            self.open(file_source(Path(name)))
        except SourceError as error:
            self._context.say(str(error), "error")

    def _dress(self) -> None:
        colours = self._theme.colours
        paused = self.pause_button.isChecked()
        self.pause_button.setProperty("sign", "play" if paused else "pause")
        recording = self.record_button.isChecked()
        self.record_button.setProperty("sign", "stop" if recording else "record")
        self.source_button.setProperty("sign", type(self._source).__name__.lower())
        for button in self.findChildren(QToolButton):
            colour = colours.error if button is self.record_button else colours.text
            button.setIcon(icon(str(button.property("sign")), colour, colours.accent))
