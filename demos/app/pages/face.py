"""The face page: boxes, meshes, pose and expressions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from PySide6.QtWidgets import QFrame, QGridLayout

from palmkit import kits
from palmkit.demos.app.controls import Slider, check, choice
from palmkit.demos.app.page import Context, Kept, LivePage, Outcome
from palmkit.demos.app.remembered import Remembered
from palmkit.demos.app.source import Shot
from palmkit.demos.app.texts import Line, label
from palmkit.kits.kit import Mode
from palmkit.kits.results import ACTIONS, POSE, Faces
from palmkit.kits.stopwatch import Stopwatch

# What each angle of POSE measures.
TURNS = ("Turned to its left or right", "Looking up or down", "Tilted to a shoulder")
# Each of ACTIONS in words.
DOES = {
    "eye_blink": "blinks",
    "mouth_open": "mouth open",
    "head_yaw": "shakes the head",
    "head_pitch": "nods",
    "brow_jump": "raises the brows",
}
SHOWN = {
    "mesh": "All points, as a mesh",
    "contours": "Outlines only",
    "boxes": "Boxes and key points",
}


@dataclass(frozen=True)
class Settings:
    """What to find and draw."""

    shows: str = "mesh"
    max_faces: int = 4
    min_score: float = 0.5
    labels: bool = True
    axes: bool = True


class FacePage(LivePage):
    """Finds faces."""

    name: ClassVar[str] = "face"
    title: ClassVar[str] = "Faces"
    icon: ClassVar[str] = "face"
    hint: ClassVar[str] = (
        "Finds faces with 478 points each, where the head turns, and what the face does."
    )
    models: ClassVar[tuple[str, ...]] = ("face_detector", "face_mesh")

    def __init__(self, context: Context) -> None:
        """Build the panel."""
        super().__init__(context)
        self._settings = Remembered(context.settings, self.name, Settings(), context.refresh.emit)
        settings = self._settings.now
        self._detector: Kept[kits.FaceDetector] = Kept()
        self._mesh: Kept[kits.FaceMesh] = Kept()
        panel = self.panel
        whole, _ = choice(
            "Show", SHOWN, settings.shows, lambda value: self._settings.set(shows=value)
        )
        panel.add(whole)
        panel.add(
            Slider(
                "At most",
                settings.max_faces,
                lambda value: self._settings.set(max_faces=round(value)),
                1,
                10,
                1,
                lambda value: "1 face" if value == 1 else f"{value:.0f} faces",
                "Where there are more, those found most surely are followed",
            )
        )
        panel.add(
            Slider(
                "Minimum confidence",
                settings.min_score,
                lambda value: self._settings.set(min_score=round(value, 2)),
                0.1,
                0.95,
                0.05,
                tip="How sure the detector must be that something is a face",
            )
        )
        panel.add(
            check(
                "Labels",
                settings.labels,
                lambda on: self._settings.set(labels=on),
                "The number of each face, and how sure it was found",
            )
        )
        panel.add(
            check(
                "Axes of the head",
                settings.axes,
                lambda on: self._settings.set(axes=on),
                "Red points to the face's left, green up, blue forward",
            )
        )
        panel.section("Largest face")
        panel.add(self._card())

    def _card(self) -> QFrame:
        card = QFrame()
        card.setProperty("card", True)
        grid = QGridLayout(card)
        grid.setContentsMargins(14, 12, 14, 12)
        grid.setHorizontalSpacing(8)
        self._angles = [
            Line(f"face_{name}", name, tip) for name, tip in zip(POSE, TURNS, strict=True)
        ]
        for column, (name, value) in enumerate(zip(POSE, self._angles, strict=True)):
            grid.addWidget(label(name.capitalize(), "hint"), 0, column)
            grid.addWidget(value, 1, column)
            value.say("-")
        self._does = label("", "hint", wraps=True)
        self._does.setMinimumHeight(2 * self._does.fontMetrics().lineSpacing() + 4)
        grid.addWidget(self._does, 2, 0, 1, len(POSE))
        return card

    def look(self, shot: Shot) -> Outcome:
        """Find the faces and draw them."""
        settings, watch = self._settings.now, Stopwatch()
        kit = self._kit(watch, settings, "image" if shot.is_still else "video")
        with watch.stage("find"):
            found = kit.detect(shot.image, shot.timestamp_ms)
        with watch.stage("draw"):
            if found.mesh is None:
                picture = kits.draw.faces(shot.image, found, labels=settings.labels)
            else:
                picture = kits.draw.mesh(
                    shot.image,
                    found,
                    tessellation=settings.shows == "mesh",
                    axes=settings.axes,
                    labels=settings.labels,
                )
        count = len(found)
        summary = "No face" if not count else "1 face" if count == 1 else f"{count} faces"
        models = self.models[:1] if settings.shows == "boxes" else self.models
        return Outcome(picture, shot.image, watch.stages_ms, summary, kit.releases, found, models)

    def _kit(
        self, watch: Stopwatch, settings: Settings, mode: Mode
    ) -> kits.FaceDetector | kits.FaceMesh:
        catalogue = self.context.catalogue
        key = (catalogue.generation, mode, settings.max_faces, settings.min_score)
        if settings.shows == "boxes":
            return self._detector.get(
                watch,
                key,
                lambda: kits.FaceDetector(
                    mode,
                    max_faces=settings.max_faces,
                    min_score=settings.min_score,
                    model=catalogue.source("face_detector"),
                ),
            )
        return self._mesh.get(
            watch,
            key,
            lambda: kits.FaceMesh(
                mode,
                max_faces=settings.max_faces,
                min_score=settings.min_score,
                model=catalogue.source("face_mesh"),
                detector_model=catalogue.source("face_detector"),
            ),
        )

    def show_outcome(self, outcome: Outcome) -> None:
        """Show the pose and expression of the largest face."""
        found = outcome.found
        if not isinstance(found, Faces) or not len(found) or found.pose is None:
            for value in self._angles:
                value.say("-")
            self._does.clear()
            return
        face = found[int(np.argmax(found.boxes[:, 2] * found.boxes[:, 3]))]
        assert face.pose is not None and face.actions is not None
        for value, angle in zip(self._angles, face.pose.tolist(), strict=True):
            value.say(f"{round(angle):+d}°")
        done = [DOES[name] for name, on in zip(ACTIONS, face.actions, strict=True) if on]
        self._does.setText(", ".join(done).capitalize())

    def forget(self) -> None:
        """Reset the kits for another video."""
        self._detector.reset()
        self._mesh.reset()

    def release(self) -> None:
        """Close the kits."""
        self._detector.close()
        self._mesh.close()
