"""The pages of the application, a file each."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from palmkit.demos.app.page import Page


def page_types() -> tuple[type[Page], ...]:
    """Return the pages in the order of the navigation."""
    from palmkit.demos.app.pages.benchmark import BenchmarkPage
    from palmkit.demos.app.pages.face import FacePage
    from palmkit.demos.app.pages.feed import FeedPage
    from palmkit.demos.app.pages.gesture import GesturePage
    from palmkit.demos.app.pages.portrait import PortraitPage
    from palmkit.demos.app.pages.try_on import TryOnPage
    from palmkit.demos.app.pages.updates import UpdatesPage

    return (
        FacePage,
        PortraitPage,
        GesturePage,
        TryOnPage,
        FeedPage,
        BenchmarkPage,
        UpdatesPage,
    )
