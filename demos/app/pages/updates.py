"""The updates page."""

from __future__ import annotations

from typing import ClassVar

from palmkit.demos.app.page import Page


class UpdatesPage(Page):
    """Empty for now."""

    name: ClassVar[str] = "updates"
    title: ClassVar[str] = "Models"
    icon: ClassVar[str] = "updates"
    hint: ClassVar[str] = ""
