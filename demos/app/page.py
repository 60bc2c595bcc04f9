"""The interfaces of all pages, and of pages that work on frames."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

from PySide6.QtCore import QObject, QSettings, Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from palmkit.demos.app.catalogue import Catalogue
from palmkit.demos.app.scrolled import Panel
from palmkit.demos.app.source import SampleKind, Shot
from palmkit.kits.image import Image
from palmkit.kits.kit import Kit
from palmkit.kits.stopwatch import Stopwatch

Level: TypeAlias = Literal["info", "warning", "error"]
Action: TypeAlias = "tuple[str, Callable[[], None]]"
AnyKit = TypeVar("AnyKit", bound=Kit[Any])


class Context(QObject):
    """What pages share.

    said: emitted with level, text and action of a message. refresh: emitted when settings changed,
    to work on the held frame again. pause_live: emitted with True while something needs the whole
    machine. check_wanted: emitted to check the repository for updates. page_wanted: emitted with
    the name of a page to show.
    """

    said = Signal(str, str, object)
    refresh = Signal()
    pause_live = Signal(bool)
    check_wanted = Signal()
    page_wanted = Signal(str)

    def __init__(
        self, options: argparse.Namespace, settings: QSettings, catalogue: Catalogue
    ) -> None:
        """Set up the context.

        options: of the command line.
        """
        super().__init__()
        self.options = options
        self.settings = settings
        self.catalogue = catalogue

    def say(self, text: str, level: Level = "info", action: Action | None = None) -> None:
        """Show a message that does not interrupt.

        action: a button's text, and what it does.
        """
        self.said.emit(level, text, action)


class Page(QWidget):
    """A page of the window.

    name: its name on the command line and in the settings. icon: a name of palmkit.demos.app.icons.
    hint: one sentence on its use.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    icon: ClassVar[str]
    hint: ClassVar[str]

    def __init__(self, context: Context) -> None:
        """Build the widgets; models are opened later, and in another thread."""
        super().__init__()
        self.context = context
        self.setObjectName(f"page_{self.name}")

    def entered(self) -> None:
        """Handle that the page is shown."""

    def left(self) -> None:
        """Handle that another page is shown."""

    def shutdown(self) -> None:
        """End what runs within two seconds, as the window closes."""

    def drop(self, path: Path) -> bool:
        """Take a file that was dropped on the window; return False if it is not for this page."""
        del path
        return False


@dataclass(frozen=True, eq=False)
class Outcome:
    """A page's result for a frame.

    picture: the picture to show, uint8[h, w, 3]. before: the frame itself, of the same size.
    stages_ms: the time of each stage. summary: what was found, in a few words. models: the models
    used, if they are not the page's. releases: Kit.releases of the kits. found: for the page
    itself.
    """

    picture: Image
    before: Image
    stages_ms: Mapping[str, float]
    summary: str = ""
    releases: Mapping[str, str] = field(default_factory=dict[str, str])
    found: Any = None
    models: tuple[str, ...] = ()


class LivePage(Page):
    """A page that works on frames; the widget itself is the panel with its settings.

    models: names of the models that it uses. sample: the sample that shows it best. has_before:
    whether a comparison with the original frame makes sense.
    """

    models: ClassVar[tuple[str, ...]]
    sample: ClassVar[SampleKind] = "portrait"
    has_before: ClassVar[bool] = True

    def __init__(self, context: Context) -> None:
        """Build an empty panel."""
        super().__init__(context)
        self.panel = Panel(self.title, self.hint)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.panel)

    def look(self, shot: Shot) -> Outcome:
        """Work on a frame; called in the worker's thread, one call at a time.

        Settings are read once from an immutable object that the window's thread replaces.
        Raises PalmError on failure.
        """
        raise NotImplementedError

    def show_outcome(self, outcome: Outcome) -> None:
        """Show further results; called in the window's thread with the newest."""

    def forget(self) -> None:
        """Forget earlier frames, as others follow; called in the worker's thread."""

    def release(self) -> None:
        """Close the kits; called in the worker's thread. They may be needed again later."""


class Kept(Generic[AnyKit]):
    """A kit made on first use, and again when what it is made of changes.

    It belongs to the worker's thread.
    """

    def __init__(self) -> None:
        """Start without a kit."""
        self._kit: AnyKit | None = None
        self._key: Hashable = None

    def get(self, watch: Stopwatch, key: Hashable, make: Callable[[], AnyKit]) -> AnyKit:
        """Return the kit for this key; if `make` fails, raise its error and try again next time."""
        if self._kit is None or key != self._key:
            self.close()
            with watch.stage("open models"):
                self._kit, self._key = make(), key
        return self._kit

    def reset(self) -> None:
        """Treat the next frame as the first of another video."""
        if self._kit is not None:
            self._kit.reset()

    def close(self) -> None:
        """Close the kit."""
        kit, self._kit = self._kit, None
        if kit is not None:
            kit.close()
