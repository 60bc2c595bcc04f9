"""The portrait page: another background behind people, as in a video call."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from PySide6.QtWidgets import QFileDialog, QPushButton, QVBoxLayout, QWidget

from palmkit import kits
from palmkit.demos.app.controls import OneOf, Slider, Swatches, check, choice
from palmkit.demos.app.page import Context, Kept, LivePage, Outcome
from palmkit.demos.app.remembered import Remembered
from palmkit.demos.app.source import Shot
from palmkit.demos.app.texts import label
from palmkit.engine.errors import ImageError
from palmkit.kits.image import SUFFIXES as PICTURE_SUFFIXES
from palmkit.kits.image import Image
from palmkit.kits.kit import Mode
from palmkit.kits.portrait.compose import Backdrop
from palmkit.kits.stopwatch import Stopwatch

SHOWN = {
    "blur": "Blurred background",
    "colour": "One colour behind",
    "picture": "Another picture behind",
    "mask": "People, as a mask",
    "hair": "Hair, as a mask",
}
COLOURS = {
    "slate": "#20304a",
    "night": "#12161c",
    "white": "#f4f5f6",
    "sand": "#d9c6a5",
    "mint": "#a8d5c2",
    "sky": "#8fc1e3",
    "lavender": "#b8a9d9",
    "coral": "#e88873",
    "forest": "#2f5d46",
    "studio green": "#00b140",
}


@dataclass(frozen=True)
class Settings:
    """The background behind people."""

    shows: str = "blur"
    blur: float = 18.0
    colour: str = "#20304a"
    picture: str = ""
    is_steady: bool = True


class PortraitPage(LivePage):
    """Puts people in front of another background."""

    name: ClassVar[str] = "portrait"
    title: ClassVar[str] = "Portrait"
    icon: ClassVar[str] = "portrait"
    hint: ClassVar[str] = "Puts another background behind people, down to single strands of hair."
    models: ClassVar[tuple[str, ...]] = ("portrait",)

    def __init__(self, context: Context) -> None:
        """Build the panel."""
        super().__init__(context)
        self._settings = Remembered(context.settings, self.name, Settings(), context.refresh.emit)
        self._person: Kept[kits.PortraitSegmenter] = Kept()
        self._hair: Kept[kits.HairSegmenter] = Kept()
        self._backdrop: tuple[object, Backdrop] | None = None
        settings, panel = self._settings.now, self.panel
        whole, self._box = choice("Show", SHOWN, settings.shows, self._show)
        panel.add(whole)
        self._options = OneOf()
        self._parts = {name: self._option(name) for name in SHOWN}
        for part in self._parts.values():
            self._options.add(part)
        panel.add(self._options)
        panel.add(
            check(
                "Steady edges in videos",
                settings.is_steady,
                lambda on: self._settings.set(is_steady=on),
                "Edges stay still where the picture is still",
            )
        )
        self._show(settings.shows if settings.shows in SHOWN else "blur")

    def _option(self, name: str) -> QWidget:
        settings = self._settings.now
        whole = QWidget()
        column = QVBoxLayout(whole)
        column.setContentsMargins(0, 0, 0, 0)
        if name == "blur":
            column.addWidget(
                Slider(
                    "Strength",
                    settings.blur,
                    lambda value: self._settings.set(blur=value),
                    2,
                    60,
                    1,
                    lambda value: f"{value:.0f} px",
                    "How far the background is blurred",
                )
            )
        elif name == "colour":
            swatches = Swatches(
                "background colour",
                {words: (colour, "") for words, colour in COLOURS.items()},
                lambda words: self._settings.set(colour=COLOURS[words]),
                none=False,
            )
            chosen = [words for words, colour in COLOURS.items() if colour == settings.colour]
            swatches.select(chosen[0] if chosen else None)
            column.addWidget(swatches)
        elif name == "picture":
            button = QPushButton("Choose a picture…")
            button.setObjectName("choose_background")
            button.setToolTip("Or drop one on the window")
            button.clicked.connect(self._choose)
            column.addWidget(button)
            self._file = label(Path(settings.picture).name or "No picture yet", "hint", wraps=True)
            column.addWidget(self._file)
        return whole

    def _show(self, shows: str) -> None:
        self._options.show_part(self._parts[shows])
        self._settings.set(shows=shows)

    def _choose(self) -> None:
        suffixes = " ".join(f"*{each}" for each in sorted(PICTURE_SUFFIXES))
        name, _ = QFileDialog.getOpenFileName(
            self, "Choose a background", str(Path.home()), f"Pictures ({suffixes})"
        )
        if name:
            self.use_picture(Path(name))

    def use_picture(self, path: Path) -> None:
        """Put a picture behind people."""
        try:
            kits.read_image(path)
        except ImageError as error:
            self.context.say(f"the background cannot be used: {error}", "error")
            return
        self._file.setText(path.name)
        self._settings.set(picture=str(path))
        self._box.setCurrentIndex(self._box.findData("picture"))
        self._show("picture")

    def drop(self, path: Path) -> bool:
        """Use a dropped picture as background while a picture is chosen."""
        is_wanted = self.isVisible() and self._settings.now.shows == "picture"
        if not is_wanted or path.suffix.lower() not in PICTURE_SUFFIXES:
            return False
        self.use_picture(path)
        return True

    def look(self, shot: Shot) -> Outcome:
        """Find the people, and draw the result."""
        settings, watch = self._settings.now, Stopwatch()
        mode: Mode = "image" if shot.is_still else "video"
        kit = self._segmenter(watch, settings, mode)
        with watch.stage("mask"):
            found = kit.segment(shot.image, shot.timestamp_ms)
        with watch.stage("draw"):
            if settings.shows in ("mask", "hair"):
                picture = kits.draw.mask(shot.image, found)
            else:
                picture = found.composite(self._behind(settings, shot.image))
        what = "hair" if settings.shows == "hair" else "person"
        summary = f"{found.coverage:.0%} of the picture is {what}"
        models = ("face_detector", "hair") if settings.shows == "hair" else self.models
        return Outcome(picture, shot.image, watch.stages_ms, summary, kit.releases, found, models)

    def _segmenter(
        self, watch: Stopwatch, settings: Settings, mode: Mode
    ) -> kits.PortraitSegmenter | kits.HairSegmenter:
        catalogue = self.context.catalogue
        key = (catalogue.generation, mode, settings.is_steady)
        if settings.shows == "hair":
            return self._hair.get(
                watch,
                key,
                lambda: kits.HairSegmenter(
                    mode,
                    smoothing=settings.is_steady,
                    model=catalogue.source("hair"),
                    face_model=catalogue.source("face_detector"),
                ),
            )
        return self._person.get(
            watch,
            key,
            lambda: kits.PortraitSegmenter(
                mode, smoothing=settings.is_steady, model=catalogue.source("portrait")
            ),
        )

    def _behind(self, settings: Settings, image: Image) -> Backdrop:
        """Return the chosen background, read once."""
        wanted: tuple[object, ...]
        if settings.shows == "picture" and settings.picture:
            wanted = ("picture", settings.picture)
        elif settings.shows == "blur":
            # The slider counts pixels of a picture 640 pixels wide.
            wanted = ("blur", settings.blur * max(image.shape[:2]) / 640)
        else:
            wanted = ("colour", settings.colour)
        if self._backdrop is None or self._backdrop[0] != wanted:
            self._backdrop = wanted, Backdrop.of(wanted[1])  # type: ignore[arg-type]
        return self._backdrop[1]

    def forget(self) -> None:
        """Reset the kits for another video."""
        self._person.reset()
        self._hair.reset()

    def release(self) -> None:
        """Close the kits."""
        self._person.close()
        self._hair.close()
