"""Tables and lists that are read, and say what to do while they are empty."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QEvent, QObject, QSize, Qt
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QListWidget, QTableWidget

from palmkit.demos.app.scrolled import GAP, LEAST_HEIGHT
from palmkit.demos.app.texts import Label

LEAST_ROWS = 4


class Table(QTableWidget):
    """A table of texts that are read, not edited; without rows it says what to do."""

    def __init__(self, name: str, says: str, columns: Mapping[str, str], empty: str = "") -> None:
        """Set up a table without rows.

        name: the object's name. says: what it holds, for screen readers. columns: what each holds,
        by its title; the last one takes the room that is left. empty: shown while there are no
        rows.
        """
        super().__init__(0, len(columns))
        self.setObjectName(name)
        self.setAccessibleName(says)
        self.setHorizontalHeaderLabels(list(columns))
        for at, tip in enumerate(columns.values()):
            item = self.horizontalHeaderItem(at)
            assert item is not None
            item.setToolTip(tip)
        self.verticalHeader().hide()
        self.setShowGrid(False)
        self.setTabKeyNavigation(False)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        header = self.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(len(columns) - 1, QHeaderView.ResizeMode.Stretch)
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        self.hint = EmptyHint(self, empty)

    def updateGeometries(self) -> None:
        """Have the last column take the room that is left, if that is enough for its contents."""
        header, last = self.horizontalHeader(), self.columnCount() - 1
        need = max(header.sectionSizeHint(last), self.sizeHintForColumn(last))
        fits = header.length() - header.sectionSize(last) + need <= self.viewport().width()
        mode = QHeaderView.ResizeMode
        wanted = mode.Stretch if fits else mode.ResizeToContents
        if header.sectionResizeMode(last) != wanted:
            header.setSectionResizeMode(last, wanted)
        super().updateGeometries()

    def minimumSizeHint(self) -> QSize:
        """Return room for the titles and a few rows."""
        least = super().minimumSizeHint()
        row = self.verticalHeader().defaultSectionSize()
        high = self.horizontalHeader().sizeHint().height() + LEAST_ROWS * row
        return QSize(least.width(), max(least.height(), high))

    def sizeHint(self) -> QSize:
        """Ask for no more than that, as a table takes what is left."""
        return self.minimumSizeHint()


class Listing(QListWidget):
    """A list of texts that are read; without any it says so."""

    def __init__(self, name: str, says: str, empty: str) -> None:
        """Set up an empty list.

        name: the object's name. says: what it holds, for screen readers. empty: shown while there
        is nothing.
        """
        super().__init__()
        self.setObjectName(name)
        self.setAccessibleName(says)
        self.setWordWrap(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.hint = EmptyHint(self, empty)

    def minimumSizeHint(self) -> QSize:
        """Return room for a few texts."""
        return QSize(LEAST_HEIGHT, round(1.5 * LEAST_ROWS * self.fontMetrics().height()))

    def sizeHint(self) -> QSize:
        """Ask for no more than that, as a list takes what is left."""
        return self.minimumSizeHint()


class EmptyHint(Label):
    """Words in the middle of a list or table, for as long as that is empty."""

    def __init__(self, view: QAbstractItemView, text: str) -> None:
        """Lay the words over a view, which may get rows later."""
        super().__init__(text, view.viewport())
        self._view = view
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setObjectName("empty_hint")
        self.setProperty("role", "hint")
        self.setWordWrap(True)
        self.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.setMargin(GAP)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        view.viewport().installEventFilter(self)
        model = view.model()
        for changed in (model.rowsInserted, model.rowsRemoved, model.modelReset):
            changed.connect(self._settle)
        self._settle()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Stay as large as the view."""
        if event.type() == QEvent.Type.Resize:
            self.setGeometry(self._view.viewport().rect())
        return False

    def _settle(self) -> None:
        self.setVisible(bool(self.text()) and not self._view.model().rowCount())
