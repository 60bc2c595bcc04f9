"""What every page is, and what those are that work on frames."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

from PySide6.QtCore import QObject, QSettings, Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from palmkit.demos.app.catalogue import Catalogue
from palmkit.demos.app.controls import Panel
from palmkit.demos.app.source import SampleKind, Shot
from palmkit.kits.image import Image
from palmkit.kits.kit import Kit
from palmkit.kits.stopwatch import Stopwatch

Level: TypeAlias = Literal["info", "warning", "error"]
Action: TypeAlias = "tuple[str, Callable[[], None]]"
AnyKit = TypeVar("AnyKit", bound=Kit[Any])


class Context(QObject):
    """What pages share.

    said: level, text and action of a message. refresh: settings changed, work on the held frame
    again. pause_live: True while something needs the whole machine. check_wanted: ask the
    repository for what is new. page_wanted: show the page of this name.
    """

    said = Signal(str, str, object)
    refresh = Signal()
    pause_live = Signal(bool)
    check_wanted = Signal()
    page_wanted = Signal(str)

    def __init__(
        self, options: argparse.Namespace, settings: QSettings, catalogue: Catalogue
    ) -> None:
        """options: of the command line."""
        super().__init__()
        self.options = options
        self.settings = settings
        self.catalogue = catalogue

    def say(self, text: str, level: Level = "info", action: Action | None = None) -> None:
        """Show a message that does not interrupt; action: a button's text, and what it does."""
        self.said.emit(level, text, action)


class Page(QWidget):
    """A page of the window.

    name: on the command line and in the settings. icon: of palmkit.demos.app.icons. hint: one
    sentence on what it is for.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    icon: ClassVar[str]
    hint: ClassVar[str]

    def __init__(self, context: Context) -> None:
        """Build what is seen; models are opened later, and not in this thread."""
        super().__init__()
        self.context = context
        self.setObjectName(f"page_{self.name}")

    def entered(self) -> None:
        """It is seen from now on."""

    def left(self) -> None:
        """Another is seen from now on."""

    def shutdown(self) -> None:
        """The window closes: end what runs, within two seconds."""

    def drop(self, path: Path) -> bool:
        """Take a file that was dropped on the window; False if it is none for this page."""
        del path
        return False


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a page made of a frame.

    picture: to be shown, uint8[h, w, 3]. before: the frame itself, of the same size.
    stages_ms: by stage the time it took. summary: what was found, in some words.
    models: that were used, if they are not the page's. releases: what Kit.releases says of the
    kits. found: for the page itself.
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

    models: names of the models that it uses. sample: which sample shows it best. has_before:
    whether a comparison with the frame before makes sense.
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
        Raises PalmError if it cannot.
        """
        raise NotImplementedError

    def show_outcome(self, outcome: Outcome) -> None:
        """Show what else there is to see; called in the window's thread with the newest."""

    def forget(self) -> None:
        """Other frames follow than before; called in the worker's thread."""

    def release(self) -> None:
        """Give back the kits; called in the worker's thread. They may be needed again later."""


class Kept(Generic[AnyKit]):
    """A kit made where it is first needed, and anew when what it is made of changes.

    It belongs to the worker's thread.
    """

    def __init__(self) -> None:
        """Nothing is made yet."""
        self._kit: AnyKit | None = None
        self._key: Hashable = None

    def get(self, watch: Stopwatch, key: Hashable, make: Callable[[], AnyKit]) -> AnyKit:
        """The kit for this key; raises what `make` does, and then tries again at the next call."""
        if self._kit is None or key != self._key:
            self.close()
            with watch.stage("open models"):
                self._kit, self._key = make(), key
        return self._kit

    def reset(self) -> None:
        """The next frame is the first of another video."""
        if self._kit is not None:
            self._kit.reset()

    def close(self) -> None:
        """Give it back."""
        kit, self._kit = self._kit, None
        if kit is not None:
            kit.close()
