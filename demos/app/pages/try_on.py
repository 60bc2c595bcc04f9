"""Try-on: a mirror with make-up, hair dye and glasses."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from PySide6.QtWidgets import (
    QButtonGroup,
    QFileDialog,
    QGridLayout,
    QPushButton,
    QStackedWidget,
    QWidget,
)

from palmkit import kits
from palmkit.demos.app.controls import check, row, spoken
from palmkit.demos.app.editor import Editor
from palmkit.demos.app.page import Context, Kept, LivePage, Outcome, Stopwatch
from palmkit.demos.app.source import Shot
from palmkit.engine.errors import LookError, PalmError
from palmkit.kits.kit import Mode
from palmkit.kits.tryon import palettes
from palmkit.kits.tryon.effect import Effect
from palmkit.kits.tryon.look import Look

KINDS = {
    "lipstick": "Lipstick",
    "blush": "Blush",
    "eye_shadow": "Shadow",
    "eyeliner": "Eyeliner",
    "iris": "Eyes",
    "foundation": "Skin",
    "hair": "Hair",
    "glasses": "Glasses",
}
FILES = "Looks (*.json)"


class TryOnPage(LivePage):
    """Shows faces with a look."""

    name: ClassVar[str] = "try_on"
    title: ClassVar[str] = "Try-on"
    icon: ClassVar[str] = "try_on"
    hint: ClassVar[str] = "Make-up, hair colours and glasses, worn in the mirror."
    models: ClassVar[tuple[str, ...]] = ("face_detector", "face_mesh")

    def __init__(self, context: Context) -> None:
        """Build the panel."""
        super().__init__(context)
        self._kit: Kept[kits.TryOn] = Kept()
        self._behind_hair = True
        self.worn = self._kept_look()
        panel = self.panel
        panel.section("Looks")
        panel.add(self._look_buttons())
        panel.section("Effects")
        panel.add(self._tabs())
        self._stack = QStackedWidget()
        self._editors: dict[str, Editor] = {}
        for name, words in KINDS.items():
            editor = Editor(Look.KINDS[name], words, partial(self._wear, name))
            self._editors[name] = editor
            self._stack.addWidget(editor)
        panel.add(self._stack)
        panel.section("Mirror")
        panel.add(
            check(
                "Strands of hair stay in front",
                True,
                self._keep_hair,
                "Slower, but make-up does not cover hair over the face",
            )
        )
        save = self._button("Save look...", "save_look", self._save, "As a small JSON file")
        load = self._button("Load look...", "load_look", self._load, "Or drop one on the window")
        panel.add(row((save, load)))
        self._select_kind("lipstick")
        self.show_look(self.worn)

    def _look_buttons(self) -> QWidget:
        whole = QWidget()
        grid = QGridLayout(whole)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setSpacing(6)
        self._looks = QButtonGroup(self)
        for index, name in enumerate(("", *palettes.presets())):
            words = spoken(name).capitalize() if name else "Nothing"
            tip = f"Wear the look {words.lower()}" if name else "Take everything off"
            button = self._button(words, f"look_{name or 'none'}", partial(self.use, name), tip)
            button.setCheckable(True)
            self._looks.addButton(button)
            grid.addWidget(button, index // 3, index % 3)
        return whole

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
            group.addButton(button)
            self._kinds[name] = button
            grid.addWidget(button, index // 3, index % 3)
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
        self._stack.setCurrentWidget(editor)
        self._stack.setFixedHeight(editor.sizeHint().height())

    def use(self, name: str) -> None:
        """Wear a look of the palette, or nothing: ""."""
        self.show_look(Look.load(name) if name else Look())

    def _wear(self, name: str, effect: Effect | None) -> None:
        changes: dict[str, Any] = {name: effect}
        self.show_look(replace(self.worn, **changes))

    def show_look(self, look: Look) -> None:
        """Wear a look from now on."""
        self.worn = look
        self.context.settings.setValue("page/try_on", json.dumps(look.to_dict()))
        for name, editor in self._editors.items():
            worn = getattr(look, name)
            editor.show_effect(worn)
            mark = " •" if worn is not None else ""
            self._kinds[name].setText(KINDS[name] + mark)
            state = "worn" if worn is not None else "not worn"
            self._kinds[name].setAccessibleName(f"{KINDS[name]}, {state}")
        names = {"": Look(), **{name: Look.load(name) for name in palettes.presets()}}
        is_preset = dict(zip(names, (each == look for each in names.values()), strict=True))
        self._looks.setExclusive(False)
        for button, name in zip(self._looks.buttons(), names, strict=True):
            button.setChecked(is_preset[name])
        self._looks.setExclusive(True)
        self.context.refresh.emit()

    def _kept_look(self) -> Look:
        """What was worn the last time; a look to begin with where nothing is known of it."""
        kept = self.context.settings.value("page/try_on")
        try:
            return Look.from_dict(json.loads(str(kept))) if kept else Look.load("natural")
        except (ValueError, TypeError, LookError):
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
        """Write what is worn as JSON."""
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
        """Wear the look in a file; a file that holds none changes nothing."""
        try:
            look = Look.load(path)
        except (PalmError, OSError) as error:
            self.context.say(f"this is no look, nothing has changed: {error}", "error")
            return
        self.show_look(look)
        self.context.say(f"wearing {path.name}")

    def drop(self, path: Path) -> bool:
        """A JSON file is a look."""
        if path.suffix.lower() != ".json":
            return False
        self.load_look(path)
        return True

    def look(self, shot: Shot) -> Outcome:
        """Put the look on every face."""
        worn, watch, catalogue = self.worn, Stopwatch(), self.context.catalogue
        mode: Mode = "image" if shot.is_still else "video"
        behind_hair = self._behind_hair
        kit = self._kit.get(
            (catalogue.generation, mode, behind_hair),
            lambda: kits.TryOn(
                mode,
                behind_hair=behind_hair,
                model=catalogue.source("face_mesh"),
                detector=catalogue.source("face_detector"),
                hair_model=catalogue.source("hair"),
            ),
        )
        kit.look = worn
        with watch.stage("try on"):
            found = kit.wear(shot.image, shot.timestamp_ms)
        count = len(found.faces)
        summary = "No face" if not count else "1 face" if count == 1 else f"{count} faces"
        effects = sum(1 for _ in worn)
        if count:
            summary += f", {effects} effect{'s' * (effects != 1)}"
        models = self.models
        if worn.hair is not None or (behind_hair and worn):
            models = (*models, "hair")
        return Outcome(
            found.picture, shot.image, watch.stages_ms, summary, kit.releases, found, models
        )

    def forget(self) -> None:
        """Another video follows."""
        self._kit.reset()

    def release(self) -> None:
        """Give back the kit."""
        self._kit.close()
