"""The portrait page."""

from __future__ import annotations

from typing import ClassVar

from palmkit.demos.app.page import LivePage, Outcome
from palmkit.demos.app.source import Shot


class PortraitPage(LivePage):
    """To be built."""

    name: ClassVar[str] = "portrait"
    title: ClassVar[str] = "Portrait"
    icon: ClassVar[str] = "portrait"
    hint: ClassVar[str] = ""
    models: ClassVar[tuple[str, ...]] = ()

    def look(self, shot: Shot) -> Outcome:
        """Show the frame."""
        return Outcome(shot.image, shot.image, {})
