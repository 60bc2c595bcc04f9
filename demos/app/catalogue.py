"""Which models the kits run, and where they come from."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QObject, Signal


class Catalogue(QObject):
    """The models of the session: those shipped, until a repository is connected.

    changed: kits are to be made anew. generation: counts that.
    """

    changed = Signal()

    def __init__(self) -> None:
        """Use what came with PalmKit."""
        super().__init__()
        self.generation = 0

    def source(self, model: str) -> str | None:
        """What kits take as their `model`; None: the one shipped."""
        del model
        return None

    def version(self, model: str, releases: Mapping[str, str]) -> str:
        """Which version runs and where it is from; releases: of the kits, by model and channel."""
        for name, version in releases.items():
            if name.partition("@")[0] == model:
                return f"{version} ({name.partition('@')[2]})"
        from palmkit.delivery.embedded import shipped

        release = shipped().get(model)
        return "shipped" if release is None else f"{release.version} (shipped)"
