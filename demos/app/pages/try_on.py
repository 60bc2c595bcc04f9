"""The try_on page."""

from __future__ import annotations

from typing import ClassVar

from palmkit.demos.app.page import LivePage, Outcome
from palmkit.demos.app.source import Shot


class TryOnPage(LivePage):
    """To be built."""

    name: ClassVar[str] = "try_on"
    title: ClassVar[str] = "Try-on"
    icon: ClassVar[str] = "try_on"
    hint: ClassVar[str] = ""
    models: ClassVar[tuple[str, ...]] = ()

    def look(self, shot: Shot) -> Outcome:
        """Show the frame."""
        return Outcome(shot.image, shot.image, {})
