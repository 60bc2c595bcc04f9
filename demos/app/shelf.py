"""The looks on offer: those that come with PalmKit, those from files, those delivered."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import cast

from PySide6.QtCore import QSettings, Qt
from PySide6.QtWidgets import QButtonGroup, QGridLayout, QPushButton, QVBoxLayout, QWidget

from palmkit.demos.app.texts import label, spoken
from palmkit.kits.tryon import palettes
from palmkit.kits.tryon.look import Look

COLUMNS = 2
# How many letters of a name a button shows.
LETTERS = 14
MOST_FILES = 6
KEPT = "page/try_on_files"


class Shelf(QWidget):
    """A button for each look, with a mark on the current one."""

    def __init__(
        self,
        settings: QSettings,
        wear: Callable[[str], None],
        open_file: Callable[[Path], None],
        follow: Callable[[str], None],
    ) -> None:
        """Set up the buttons.

        wear: called with a preset, "" for nothing. open_file: called with a file to open again.
        follow: called with the name of a delivered look.
        """
        super().__init__()
        self._settings = settings
        self._open_file, self._follow = open_file, follow
        self._presets = {"": Look(), **{name: Look.load(name) for name in palettes.presets()}}
        self._read: dict[Path, Look] = {}
        self._files = [Path(each) for each in _texts(settings.value(KEPT))][:MOST_FILES]
        self._delivered: Mapping[str, str] = {}
        self._worn, self._followed = Look(), ""
        self._all = QButtonGroup(self)
        own = _Group("", self._all)
        for name in self._presets:
            words = spoken(name).capitalize() if name else "Nothing"
            tip = f"Wear the look {words.lower()}" if name else "Take everything off"
            own.add(name, words, f"look_{name or 'none'}", tip, wear)
        self._own = own
        self._from_files = _Group("From files", self._all)
        self._from_server = _Group("Delivered", self._all)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        for group in (self._own, self._from_files, self._from_server):
            column.addWidget(group)
        self._fill_files()
        self._from_server.hide()

    def add_file(self, path: Path, look: Look) -> None:
        """Add a button for the look in a file that is now worn, the newest first."""
        self._read[path] = look
        if path not in self._files:
            self._files = [path, *self._files][:MOST_FILES]
            self._keep()

    def forget_file(self, path: Path) -> None:
        """Remove the button of a file that holds no look any more."""
        self._read.pop(path, None)
        if path in self._files:
            self._files.remove(path)
            self._keep()

    def show_delivered(self, versions: Mapping[str, str]) -> None:
        """Show the looks of a repository that are on this device, versions by name."""
        if versions == self._delivered:
            return
        self._delivered = dict(versions)
        group = self._from_server
        group.clear()
        for name, version in versions.items():
            tip = f"Wear {spoken(name)} {version}, and each newer one as it comes"
            words = spoken(name).capitalize()
            group.add(name, words, f"delivered_{name}", tip, self._follow)
        group.setVisible(bool(versions))
        self.show_worn(self._worn, self._followed)

    def show_worn(self, look: Look, followed: str) -> None:
        """Mark the current look.

        followed: the name of the delivered look, or "".
        """
        self._worn, self._followed = look, followed
        is_own = not followed
        # No button may be down, which an exclusive group does not allow.
        self._all.setExclusive(False)
        self._own.check(name for name, each in self._presets.items() if is_own and each == look)
        self._from_files.check(
            str(path) for path in self._files if is_own and self._read.get(path) == look
        )
        self._from_server.check([followed])
        self._all.setExclusive(True)

    def _keep(self) -> None:
        self._settings.setValue(KEPT, json.dumps([str(path) for path in self._files]))
        self._fill_files()

    def _fill_files(self) -> None:
        group = self._from_files
        group.clear()
        for path in self._files:
            group.add(
                str(path), path.stem, f"file_{path.stem}", f"Wear the look in {path}", self._reopen
            )
        group.setVisible(bool(self._files))

    def _reopen(self, name: str) -> None:
        self._open_file(Path(name))


class _Group(QWidget):
    """A group of buttons below a title."""

    def __init__(self, title: str, buttons: QButtonGroup) -> None:
        super().__init__()
        self._all = buttons
        self._buttons: dict[str, QPushButton] = {}
        self._grid = QGridLayout()
        self._grid.setSpacing(6)
        for number in range(COLUMNS):
            self._grid.setColumnStretch(number, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        if title:
            column.addWidget(label(title, "hint"))
        column.addLayout(self._grid)

    def add(
        self, name: str, words: str, button_name: str, tip: str, act: Callable[[str], None]
    ) -> None:
        button = QPushButton()
        button.setObjectName(button_name)
        button.setCheckable(True)
        button.setAutoExclusive(True)
        button.setToolTip(tip)
        button.setAccessibleName(words)
        button.setAccessibleDescription(tip)
        dots = Qt.TextElideMode.ElideRight
        room = button.fontMetrics().averageCharWidth() * LETTERS
        button.setText(button.fontMetrics().elidedText(words, dots, room).replace("&", "&&"))
        button.clicked.connect(lambda: act(name))
        at = len(self._buttons)
        self._buttons[name] = button
        self._all.addButton(button)
        self._grid.addWidget(button, at // COLUMNS, at % COLUMNS)

    def clear(self) -> None:
        for button in self._buttons.values():
            self._grid.removeWidget(button)
            self._all.removeButton(button)
            # This may be called by the button that was clicked.
            button.setParent(None)
            button.deleteLater()
        self._buttons.clear()

    def check(self, names: Iterable[str]) -> None:
        wanted = set(names)
        for name, button in self._buttons.items():
            button.setChecked(name in wanted)


def _texts(kept: object) -> list[str]:
    """Return a stored list of texts; an empty one if it is damaged."""
    try:
        found: object = json.loads(str(kept)) if kept else []
    except ValueError:
        return []
    if not isinstance(found, list):
        return []
    return [each for each in cast("list[object]", found) if isinstance(each, str)]
