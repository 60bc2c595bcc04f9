"""The feed page."""

from __future__ import annotations

from typing import ClassVar

from palmkit.demos.app.page import Page


class FeedPage(Page):
    """Empty for now."""

    name: ClassVar[str] = "feed"
    title: ClassVar[str] = "Feed"
    icon: ClassVar[str] = "feed"
    hint: ClassVar[str] = ""
