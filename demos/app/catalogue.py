"""The models that the kits run, and their sources."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from palmkit.delivery.app import configure, default_folder
from palmkit.delivery.client import Client
from palmkit.delivery.embedded import shipped


class Catalogue(QObject):
    """The models of the session: those shipped, until a repository is connected.

    changed: emitted when kits must be made anew. generation: counts these changes. client: of the
    connected repository, or None. url, channel: its address, and the channel that is followed.
    looks: delivered try-on looks on this device, versions by name; looks_changed: emitted when they
    change.
    """

    changed = Signal()
    looks_changed = Signal()

    def __init__(self) -> None:
        """Start with the models that came with PalmKit."""
        super().__init__()
        self.generation = 0
        self.client: Client | None = None
        self.url = ""
        self.channel = "stable"
        self.looks: Mapping[str, str] = {}

    def connect_to(self, url: str, root: Path, channel: str) -> None:
        """Have kits follow a channel of a repository from now on; no server is asked yet.

        root: the file of its trusted root metadata, as the server's owner gives it to apps. Models
        are kept in a folder for each root, beside those of the user's other apps.
        Raises OSError if the root cannot be read, ValueError for invalid arguments.
        """
        content = root.read_bytes()
        folder = default_folder() / "demo" / hashlib.sha256(content).hexdigest()[:16]
        self.client = configure([url], content, folder=folder, channel=channel)
        self.url, self.channel = url, channel
        self._change()

    def disconnect_from(self) -> None:
        """Have kits run what came with PalmKit again."""
        if self.client is not None:
            self.client, self.url = None, ""
            self._change()

    def show_looks(self, looks: Mapping[str, str]) -> None:
        """Set the delivered looks."""
        if looks != self.looks:
            self.looks = dict(looks)
            self.looks_changed.emit()

    def _change(self) -> None:
        self.show_looks({})
        self.generation += 1
        self.changed.emit()

    def source(self, model: str) -> str | None:
        """Return what kits take as their `model`; None: the one shipped."""
        return None if self.client is None else f"{model}@{self.channel}"

    def version(self, model: str, releases: Mapping[str, str]) -> str:
        """Return which version runs and where it is from.

        releases: releases of the kits, by model and channel.
        """
        own = shipped().get(model)
        for name, version in releases.items():
            if name.partition("@")[0] == model and (own is None or version != own.version):
                return f"{version} ({name.partition('@')[2]})"
        return "shipped" if own is None else f"{own.version} (shipped)"
