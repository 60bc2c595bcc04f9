"""Faces: boxes, meshes, pose and what they do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from PySide6.QtWidgets import QVBoxLayout

from palmkit import kits
from palmkit.demos.app.controls import Panel, Slider, check, choice
from palmkit.demos.app.page import Context, Kept, LivePage, Outcome, Stopwatch
from palmkit.demos.app.source import Shot
from palmkit.kits.kit import Mode
from palmkit.kits.results import Faces


@dataclass(frozen=True)
class Settings:
    """What is looked for and drawn."""

    shows: str = "mesh"
    max_faces: int = 4
    min_score: float = 0.5
    labels: bool = True
    axes: bool = True
    tessellation: bool = True


class FacePage(LivePage):
    """Finds faces."""

    name: ClassVar[str] = "face"
    title: ClassVar[str] = "Faces"
    icon: ClassVar[str] = "face"
    hint: ClassVar[str] = "Boxes, 478 points, head pose and what a face does."
    models: ClassVar[tuple[str, ...]] = ("face_detector", "face_mesh")

    def __init__(self, context: Context) -> None:
        """Build the panel."""
        super().__init__(context)
        self._settings = Settings()
        self._detector: Kept[kits.FaceDetector] = Kept()
        self._mesh: Kept[kits.FaceMesh] = Kept()
        panel = Panel(self.title, self.hint)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(panel)
        whole, _ = choice(
            "Show",
            {"mesh": "Mesh and pose", "boxes": "Boxes and key points"},
            "mesh",
            lambda value: self._set(shows=value),
        )
        panel.add(whole)
        most = Slider("Most faces", 4, 1, 10, 1, lambda value: f"{value:.0f}")
        most.changed.connect(lambda value: self._set(max_faces=round(value)))
        panel.add(most)
        panel.add(check("Labels", True, lambda on: self._set(labels=on)))

    def _set(self, **changes: Any) -> None:
        self._settings = replace(self._settings, **changes)
        self.context.refresh.emit()

    def look(self, shot: Shot) -> Outcome:
        """Find the faces and draw them."""
        settings, watch, catalogue = self._settings, Stopwatch(), self.context.catalogue
        mode: Mode = "image" if shot.is_still else "video"
        key = (catalogue.generation, mode, settings.max_faces)
        found: Faces
        with watch.stage("mesh"):
            kit = self._mesh.get(
                key,
                lambda: kits.FaceMesh(
                    mode,
                    max_faces=settings.max_faces,
                    model=catalogue.source("face_mesh"),
                    detector=catalogue.source("face_detector"),
                ),
            )
            found = kit.detect(shot.image, shot.timestamp_ms)
        with watch.stage("draw"):
            picture = kits.draw.mesh(shot.image, found, labels=settings.labels)
        summary = f"{len(found)} face{'s' * (len(found) != 1)}"
        return Outcome(picture, shot.image, watch.stages_ms, summary, kit.releases, found)

    def forget(self) -> None:
        """Another video follows."""
        self._detector.reset()
        self._mesh.reset()

    def release(self) -> None:
        """Give back the kits."""
        self._detector.close()
        self._mesh.close()
