"""The window: navigation, pages, and the status bar."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

from PySide6.QtCore import QByteArray, QEvent, QSettings, QSize, Qt, Signal
from PySide6.QtGui import (
    QAction,
    QCloseEvent,
    QDragEnterEvent,
    QDropEvent,
    QKeyEvent,
    QKeySequence,
    QResizeEvent,
)
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QListWidget,
    QListWidgetItem,
    QMainWindow,
    QMenu,
    QSizePolicy,
    QStackedWidget,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from palmkit.demos.app.banner import Banner
from palmkit.demos.app.catalogue import Catalogue
from palmkit.demos.app.icons import icon
from palmkit.demos.app.live import Live
from palmkit.demos.app.page import Context, LivePage, Page
from palmkit.demos.app.pages import page_types
from palmkit.demos.app.source import SourceError, file_source
from palmkit.demos.app.status import Status
from palmkit.demos.app.texts import label
from palmkit.demos.app.theme import CHOICES, Theme
from palmkit.demos.app.worker import Shown

SIDEBAR, PANEL = 196, 304
LEAST = QSize(760, 480)
# The picture's width, in pixels, below which the pages' names give way to their icons.
LEAST_PICTURE = 400
# Widths in pixels: of the sidebar without names, and of what stands around a name.
_ICONS, _AROUND_NAME = 56, 80


class _Navigation(QListWidget):
    def minimumSizeHint(self) -> QSize:
        """Leave the width to the sidebar, which shows names or icons."""
        return QSize(0, super().minimumSizeHint().height())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Leave Space to the page: rows are chosen by the arrow keys."""
        if event.key() == Qt.Key.Key_Space:
            event.ignore()
        else:
            super().keyPressEvent(event)


def _without_arguments(act: Callable[[], None]) -> Callable[[], None]:
    """Wrap a slot for signals that carry more arguments than it takes."""
    return lambda: act()


class Window(QMainWindow):
    """The main window.

    finished: emitted when as many frames were shown as were asked for.
    """

    finished = Signal()

    def __init__(self, options: argparse.Namespace, settings: QSettings, theme: Theme) -> None:
        """Build the window; nothing is read and no model is opened yet.

        options: of the command line.
        """
        super().__init__()
        self.setWindowTitle("PalmKit")
        self.setObjectName("window")
        self.setMinimumSize(LEAST)
        self.setAcceptDrops(True)
        self.theme = theme
        self.catalogue = Catalogue()
        self.context = Context(options, settings, self.catalogue)
        self.banner = Banner(theme)
        self.live = Live(self.context, theme)
        self.worker = self.live.worker
        self.pages: dict[str, Page] = {}
        self.status = Status(self.catalogue)
        self.setStatusBar(self.status)
        self._current: Page | None = None
        self._frames = 0
        self._build()
        self.context.said.connect(self.banner.say)
        self.context.page_wanted.connect(self.select)
        self.live.shown.connect(self._count)
        self.live.source_changed.connect(self.status.show_source)
        self.live.rate_changed.connect(self.status.show_rate)
        theme.changed.connect(self._dress)
        self._dress()
        geometry = settings.value("geometry")
        if not (isinstance(geometry, QByteArray) and self.restoreGeometry(geometry)):
            self.resize(1180, 760)

    def start(self) -> None:
        """Begin to read the source, and show the wanted page."""
        settings, options = self.context.settings, self.context.options
        self.select(options.page or str(settings.value("page", "face")))
        self.live.start(options.source)
        self.live.view.setFocus()

    def select(self, name: str) -> None:
        """Show a page; an unknown name shows the first."""
        index = list(self.pages).index(name) if name in self.pages else 0
        self.navigation.setCurrentRow(index)

    @property
    def current(self) -> Page | None:
        """Return the page that is shown."""
        return self._current

    def _build(self) -> None:
        self.navigation = _Navigation()
        self.navigation.setObjectName("navigation")
        self.navigation.setAccessibleName("Pages")
        self.navigation.setIconSize(QSize(20, 20))
        self.navigation.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._panels = QStackedWidget()
        self._full = QStackedWidget()
        for number, kind in enumerate(page_types(), start=1):
            page = kind(self.context)
            self.pages[kind.name] = page
            (self._panels if isinstance(page, LivePage) else self._full).addWidget(page)
            item = QListWidgetItem(kind.title)
            item.setToolTip(f"{kind.hint} (Ctrl+{number})")
            item.setData(Qt.ItemDataRole.AccessibleTextRole, kind.title)
            self.navigation.addItem(item)
            action = QAction(kind.title, self)
            action.setShortcut(QKeySequence(f"Ctrl+{number}"))
            action.triggered.connect(_without_arguments(partial(self.select, kind.name)))
            self.addAction(action)
        self.navigation.currentRowChanged.connect(self._turn_to)
        panel = self._panel = QFrame()
        panel.setObjectName("panel")
        panel.setMinimumWidth(PANEL)
        panel.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Preferred)
        inside = QVBoxLayout(panel)
        inside.setContentsMargins(1, 0, 0, 0)
        inside.addWidget(self._panels)
        live = QWidget()
        line = QHBoxLayout(live)
        line.setContentsMargins(0, 0, 0, 0)
        line.setSpacing(0)
        line.addWidget(self.live, 1)
        line.addWidget(panel)
        self._kinds = QStackedWidget()
        self._kinds.addWidget(live)
        self._kinds.addWidget(self._full)
        whole = QWidget()
        outer = QHBoxLayout(whole)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.setSpacing(0)
        outer.addWidget(self._sidebar())
        outer.addWidget(self._kinds, 1)
        self.setCentralWidget(whole)
        self._order_tabs()
        self.banner.float_over(self.live)

    def _order_tabs(self) -> None:
        """Set the tab order from the pages over the tools to the settings, the appearance last."""
        inside = [each for page in self.pages.values() for each in page.findChildren(QWidget)]
        # Windows of their own have a tab order of their own.
        controls = [
            each
            for each in inside
            if each.focusPolicy() & Qt.FocusPolicy.TabFocus and each.window() is self
        ]
        order = (self.navigation, *self.live.controls, *controls, self._theme_button)
        for before, after in pairwise(order):
            self.setTabOrder(before, after)

    def _sidebar(self) -> QWidget:
        side = self._side = QFrame()
        side.setObjectName("sidebar")
        self._mark = QLabel()
        self._brand = label("PalmKit", "brand")
        brand = QHBoxLayout()
        brand.setContentsMargins(18, 16, 12, 12)
        brand.addWidget(self._mark)
        brand.addWidget(self._brand, 1)
        self._theme_button = QToolButton()
        self._theme_button.setObjectName("theme")
        self._theme_button.setText("Appearance")
        self._theme_button.setToolTip("Dark, light, or as the system is")
        self._theme_button.setAccessibleName("Appearance")
        self._theme_button.setProperty("flat", True)
        self._theme_button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self._theme_button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        menu = QMenu(self._theme_button)
        for each in CHOICES:
            words = "Same as the system" if each == "system" else each.capitalize()
            choose = _without_arguments(partial(self.theme.choose, each))
            menu.addAction(words).triggered.connect(choose)
        self._theme_button.setMenu(menu)
        foot = QHBoxLayout()
        foot.setContentsMargins(8, 6, 8, 12)
        foot.addWidget(self._theme_button)
        foot.addStretch(1)
        column = QVBoxLayout(side)
        column.setContentsMargins(0, 0, 1, 0)
        column.setSpacing(0)
        column.addLayout(brand)
        column.addWidget(self.navigation, 1)
        column.addLayout(foot)
        return side

    def _fit(self) -> None:
        """Give the pages' names up where the picture needs their room, and ask for enough."""
        metrics = self.navigation.fontMetrics()
        names = (metrics.horizontalAdvance(page.title) for page in self.pages.values())
        whole = max(SIDEBAR, max(names) + _AROUND_NAME)
        panel = max(PANEL, self._panel.sizeHint().width())
        is_short = self.width() < whole + panel + LEAST_PICTURE
        row = QSize(_ICONS if is_short else whole, max(42, metrics.height() + 26))
        if self.navigation.item(0).sizeHint() != row:
            self._show_names(not is_short, row)
        if not self.navigation.isVisible():
            # Hints are of the final style only then.
            return
        contents = max(
            self.live.minimumSizeHint().width() + panel, self._full.minimumSizeHint().width()
        )
        high = self._kinds.minimumSizeHint().height() + self.status.sizeHint().height()
        self.setMinimumSize(LEAST.expandedTo(QSize(_ICONS + contents, high)))

    def _show_names(self, are_shown: bool, row: QSize) -> None:
        """Show the pages' names beside their icons, or the icons alone, in rows of a size."""
        for at, page in enumerate(self.pages.values()):
            item = self.navigation.item(at)
            item.setText(page.title if are_shown else "")
            item.setSizeHint(row)
        self._brand.setVisible(are_shown)
        style = Qt.ToolButtonStyle
        self._theme_button.setToolButtonStyle(
            style.ToolButtonTextBesideIcon if are_shown else style.ToolButtonIconOnly
        )
        self._side.setFixedWidth(row.width())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Fit the sidebar to the window."""
        self._fit()
        super().resizeEvent(event)

    def event(self, event: QEvent) -> bool:
        """Fit everything to the contents, as they or the application's font change."""
        if event.type() == QEvent.Type.ApplicationFontChange:
            self.theme.follow_font()
        if event.type() in (
            QEvent.Type.ApplicationFontChange,
            QEvent.Type.LayoutRequest,
            QEvent.Type.Show,
        ):
            self._fit()
        return super().event(event)

    def _dress(self) -> None:
        colours = self.theme.colours
        for row, page in enumerate(self.pages.values()):
            self.navigation.item(row).setIcon(icon(page.icon, colours.soft, colours.accent))
        self._theme_button.setIcon(icon("theme", colours.soft))
        mark = icon("gesture", colours.accent)
        self._mark.setPixmap(mark.pixmap(QSize(24, 24), self.devicePixelRatioF()))
        self.setWindowIcon(mark)

    def _turn_to(self, row: int) -> None:
        page = list(self.pages.values())[row]
        before, self._current = self._current, page
        if before is page:
            return
        if before is not None:
            before.left()
        is_live = isinstance(page, LivePage)
        (self._panels if is_live else self._full).setCurrentWidget(page)
        self._kinds.setCurrentIndex(0 if is_live else 1)
        is_shown = self.banner.isVisible()
        self.banner.float_over(self.live if is_live else self._full)
        self.banner.setVisible(is_shown)
        self.live.show_page(page if isinstance(page, LivePage) else None)
        self.status.show_page(page)
        page.entered()
        self.setWindowTitle(f"{page.title} - PalmKit")
        self.context.settings.setValue("page", page.name)

    def _count(self, shown: Shown) -> None:
        self.status.show_outcome(shown)
        self._frames += 1
        wanted = self.context.options.frames
        if wanted is not None and self._frames == wanted:
            self.finished.emit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Hold the frame on Space, if the focused widget does not take it."""
        is_space = event.key() == Qt.Key.Key_Space and not event.isAutoRepeat()
        if is_space and isinstance(self._current, LivePage):
            self.live.pause_button.toggle()
        elif event.key() == Qt.Key.Key_Escape and self.banner.isVisible():
            self.banner.close_message()
        else:
            super().keyPressEvent(event)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Accept files."""
        if any(url.isLocalFile() for url in event.mimeData().urls()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        """Give a dropped file to the page, or show it."""
        for url in event.mimeData().urls():
            if url.isLocalFile():
                event.acceptProposedAction()
                self.take_file(Path(url.toLocalFile()))
                return

    def take_file(self, path: Path) -> None:
        """Give a file to the current page, to another page, or show it as a source."""
        first = [] if self._current is None else [self._current]
        for page in (*first, *self.pages.values()):
            if page.drop(path):
                self.select(page.name)
                return
        try:
            source = file_source(path)
        except SourceError as error:
            self.context.say(str(error), "error")
            return
        if not isinstance(self._current, LivePage):
            self.select("face")
        self.live.open(source)

    def closeEvent(self, event: QCloseEvent) -> None:
        """End the threads, and store the window's state."""
        self.context.settings.setValue("geometry", self.saveGeometry())
        for page in self.pages.values():
            page.shutdown()
        self.live.stop()
        self.context.settings.sync()
        event.accept()
