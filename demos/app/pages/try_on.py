"""The try-on page: a mirror with make-up, hair dye and glasses."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from PySide6.QtCore import Signal
from PySide6.QtWidgets import (
    QButtonGroup,
    QFileDialog,
    QGridLayout,
    QPushButton,
    QWidget,
)

from palmkit import kits
from palmkit.demos.app.controls import OneOf, check, row
from palmkit.demos.app.editor import Editor
from palmkit.demos.app.page import Context, Kept, LivePage, Outcome
from palmkit.demos.app.shelf import Shelf
from palmkit.demos.app.source import Shot
from palmkit.engine.errors import DeliveryError, PalmError, TryOnError
from palmkit.kits.kit import Mode
from palmkit.kits.stopwatch import Stopwatch
from palmkit.kits.tryon.effect import Effect
from palmkit.kits.tryon.look import Look

KINDS = {
    "lipstick": "Lipstick",
    "blush": "Blush",
    "eye_shadow": "Eye shadow",
    "eyeliner": "Eyeliner",
    "iris": "Eye colour",
    "foundation": "Foundation",
    "hair": "Hair dye",
    "glasses": "Glasses",
}
COLUMNS = 2
FILES = "Looks (*.json)"


@dataclass(frozen=True)
class Worn:
    """The current look.

    followed: the name of a delivered look that is followed, "" for one's own.
    """

    look: Look
    followed: str = ""


class TryOnPage(LivePage):
    """Shows faces with a look."""

    name: ClassVar[str] = "try_on"
    title: ClassVar[str] = "Try-on"
    icon: ClassVar[str] = "try_on"
    hint: ClassVar[str] = "Tries make-up, hair dye and glasses on the faces in the picture."
    models: ClassVar[tuple[str, ...]] = ("face_detector", "face_mesh")

    # Emitted with the name of a delivered look that cannot be worn.
    lost = Signal(str)

    def __init__(self, context: Context) -> None:
        """Build the panel."""
        super().__init__(context)
        self._kit: Kept[kits.TryOn] = Kept()
        self._behind_hair = True
        self._now = Worn(self._kept_look())
        panel = self.panel
        panel.section("Looks")
        self._shelf = Shelf(context.settings, self.use, self.load_look, self.follow)
        panel.add(self._shelf)
        panel.add(
            row(
                (
                    self._button(
                        "Open…",
                        "load_look",
                        self._load,
                        "Open a look of a JSON file, or drop one on the window",
                    ),
                    self._button(
                        "Save…", "save_look", self._save, "Save what is worn as a small JSON file"
                    ),
                    self._button(
                        "Update",
                        "check_looks",
                        context.check_wanted.emit,
                        "Ask the server of the Models page for newer looks",
                    ),
                )
            )
        )
        panel.section("Change one thing")
        panel.add(self._tabs())
        self._stack = OneOf()
        self._editors: dict[str, Editor] = {}
        for name, words in KINDS.items():
            editor = Editor(Look.KINDS[name], words, partial(self._wear, name))
            self._editors[name] = editor
            self._stack.add(editor)
        panel.add(self._stack)
        panel.section("Hair over the face")
        panel.add(
            check(
                "Hair covers make-up",
                True,
                self._keep_hair,
                "Slower: strands that fall over the face are not covered",
            )
        )
        self._select_kind("lipstick")
        self.show_look(self.worn)
        self.lost.connect(self._go_on_without)
        context.catalogue.looks_changed.connect(self._show_delivered)

    @property
    def worn(self) -> Look:
        """Return the current look."""
        return self._now.look

    def _tabs(self) -> QWidget:
        whole = QWidget()
        grid = QGridLayout(whole)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setSpacing(6)
        group = QButtonGroup(self)
        self._kinds: dict[str, QPushButton] = {}
        for index, (name, words) in enumerate(KINDS.items()):
            button = self._button(
                words, f"effect_{name}", partial(self._select_kind, name), f"Change {words.lower()}"
            )
            button.setCheckable(True)
            button.setAutoExclusive(True)
            group.addButton(button)
            self._kinds[name] = button
            grid.addWidget(button, index // COLUMNS, index % COLUMNS)
        return whole

    def _button(self, text: str, name: str, act: Callable[[], None], tip: str) -> QPushButton:
        made = QPushButton(text)
        made.setObjectName(name)
        made.setToolTip(tip)
        made.setAccessibleDescription(tip)
        made.clicked.connect(lambda: act())
        return made

    def _select_kind(self, name: str) -> None:
        self._kinds[name].setChecked(True)
        editor = self._editors[name]
        self._stack.show_part(editor)

    def use(self, name: str) -> None:
        """Wear a look of the palette, or nothing for ""."""
        self.show_look(Look.load(name) if name else Look())

    def follow(self, name: str) -> None:
        """Wear a delivered look, and each newer version as it arrives."""
        try:
            look = Look.load(self._delivered_name(name))
        except PalmError as error:
            self.context.say(f"this look cannot be worn, nothing has changed: {error}", "error")
            self._shelf.show_worn(self.worn, self._now.followed)
            return
        self.show_look(look, name)

    def _delivered_name(self, name: str) -> str:
        return f"{name}@{self.context.catalogue.channel}"

    def _show_delivered(self) -> None:
        looks = self.context.catalogue.looks
        self._shelf.show_delivered(looks)
        if self._now.followed and self._now.followed not in looks:
            self.show_look(self.worn)

    def _go_on_without(self, followed: str) -> None:
        """Keep the current look as one's own if a delivered one cannot be worn."""
        if self._now.followed == followed:
            self.show_look(self.worn)

    def _wear(self, name: str, effect: Effect | None) -> None:
        changes: dict[str, Any] = {name: effect}
        self.show_look(replace(self.worn, **changes))

    def show_look(self, look: Look, followed: str = "") -> None:
        """Wear a look from now on.

        followed: the name under which newer versions are delivered.
        """
        self._now = Worn(look, followed)
        self.context.settings.setValue("page/try_on", json.dumps(look.to_dict()))
        for name, editor in self._editors.items():
            worn = getattr(look, name)
            editor.show_effect(worn)
            mark = " •" if worn is not None else ""
            self._kinds[name].setText(KINDS[name] + mark)
            state = "worn" if worn is not None else "not worn"
            self._kinds[name].setAccessibleName(f"{KINDS[name]}, {state}")
        self._shelf.show_worn(look, followed)
        self.context.refresh.emit()

    def _kept_look(self) -> Look:
        """Return the look of the last session, or a default."""
        kept = self.context.settings.value("page/try_on")
        try:
            return Look.from_dict(json.loads(str(kept))) if kept else Look.load("natural")
        except (ValueError, TypeError, TryOnError):
            return Look.load("natural")

    def _keep_hair(self, is_on: bool) -> None:
        self._behind_hair = is_on
        self.context.refresh.emit()

    def _save(self) -> None:
        name, _ = QFileDialog.getSaveFileName(
            self, "Save the look", str(Path.home() / "look.json"), FILES
        )
        if name:
            self.save_look(Path(name))

    def save_look(self, path: Path) -> None:
        """Write the current look as JSON."""
        path = path if path.suffix else path.with_suffix(".json")
        try:
            self.worn.save(path)
        except OSError as error:
            self.context.say(f"the look cannot be saved: {error}", "error")
        else:
            self.context.say(f"saved as {path}")

    def _load(self) -> None:
        name, _ = QFileDialog.getOpenFileName(self, "Load a look", str(Path.home()), FILES)
        if name:
            self.load_look(Path(name))

    def load_look(self, path: Path) -> None:
        """Wear the look in a file; a file without one changes nothing."""
        try:
            look = Look.read(path)
        except PalmError as error:
            self._shelf.forget_file(path)
            self._shelf.show_worn(self.worn, self._now.followed)
            self.context.say(f"this is no look, nothing has changed: {error}", "error")
            return
        self._shelf.add_file(path, look)
        self.show_look(look)
        self.context.say(f"wearing {path.name}")

    def drop(self, path: Path) -> bool:
        """Take a JSON file as a look, unless it is a server's root."""
        if path.suffix.lower() != ".json" or path.name == "root.json":
            return False
        self.load_look(path)
        return True

    def look(self, shot: Shot) -> Outcome:
        """Apply the look to every face."""
        now, watch, catalogue = self._now, Stopwatch(), self.context.catalogue
        mode: Mode = "image" if shot.is_still else "video"
        behind_hair, followed = self._behind_hair, now.followed
        try:
            kit = self._kit.get(
                watch,
                (catalogue.generation, mode, behind_hair, followed),
                lambda: kits.TryOn(
                    mode,
                    look=self._delivered_name(followed) if followed else None,
                    behind_hair=behind_hair,
                    model=catalogue.source("face_mesh"),
                    detector_model=catalogue.source("face_detector"),
                    hair_model=catalogue.source("hair"),
                ),
            )
            if not followed:
                kit.look = now.look
            found = kit.wear(shot.image, shot.timestamp_ms)
        except (DeliveryError, TryOnError):
            if followed:
                self.lost.emit(followed)
            raise
        worn = found.look
        count = len(found.faces)
        summary = "No face" if not count else "1 face" if count == 1 else f"{count} faces"
        effects = sum(1 for _ in worn)
        if count:
            summary += f", {effects} effect{'s' * (effects != 1)}"
        models = self.models
        if worn.hair is not None or (behind_hair and worn):
            models = (*models, "hair")
        if followed:
            models = (*models, followed)
        seen = Worn(worn, followed)
        stages_ms = {**watch.stages_ms, **found.stages_ms}
        return Outcome(found.after, shot.image, stages_ms, summary, kit.releases, seen, models)

    def show_outcome(self, outcome: Outcome) -> None:
        """Show a look that was delivered meanwhile."""
        seen = outcome.found
        is_followed = isinstance(seen, Worn) and seen.followed and seen != self._now
        if is_followed and seen.followed == self._now.followed:
            self.show_look(seen.look, seen.followed)

    def forget(self) -> None:
        """Reset the kit for another video."""
        self._kit.reset()

    def release(self) -> None:
        """Close the kit."""
        self._kit.close()
