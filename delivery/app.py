"""The one client of an app, from which its kits take their models."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from palmkit.delivery import durable
from palmkit.delivery.client import LIMIT_S, Client, Mode
from palmkit.delivery.codes import Code
from palmkit.delivery.device import Release
from palmkit.delivery.update import Progress
from palmkit.engine.forks import renewed_in_children

# The file in the folder that records its repository.
FOLDER = "PALMKIT_DELIVERY_FOLDER"
REPOSITORY = "repository.json"

_client: Client | None = None


class _Lock:
    """A lock that is held while `_client` changes."""

    def __init__(self) -> None:
        renewed_in_children(self, _Lock._renew)

    def _renew(self) -> None:
        self.lock = threading.Lock()


_changes = _Lock()


def default_folder() -> Path:
    """Return the folder of models; $PALMKIT_DELIVERY_FOLDER moves it.

    It is not a cache: a cleaner that removes the record of a failed release would let it be tried
    again.
    """
    if folder := os.environ.get(FOLDER):
        return Path(folder)
    from platformdirs import user_data_path

    return user_data_path("palmkit", appauthor=False) / "delivery"


def configure(
    urls: Sequence[str] = (),
    root: str | os.PathLike[str] | bytes = b"",
    *,
    folder: str | os.PathLike[str] | None = None,
    channel: str = "stable",
    tags: Iterable[str] = (),
    keys: Mapping[str, bytes] | None = None,
    quota_bytes: int | None = None,
    baselines: Mapping[str, Path] | None = None,
) -> Client:
    """Set where models come from, once, before they are asked for; this asks no server yet.

    urls: the repository's mirrors, the best first. root: its trusted root metadata, or the path of
    the file. The rest are as in Client; folder: None: the user's data folder.
    Raises OSError if the root cannot be read, ValueError for invalid arguments.
    """
    content = root if isinstance(root, bytes) else Path(root).read_bytes()
    made = Client(
        default_folder() if folder is None else Path(folder),
        urls,
        content,
        channel=channel,
        tags=tags,
        keys=keys,
        quota_bytes=quota_bytes,
        baselines=baselines,
    )
    global _client
    with _changes.lock:
        before, _client = _client, made
    if before is not None:
        before.close()
    return made


def client() -> Client:
    """Return the app's client; without `configure` that of the default folder.

    It asks the repository that `palmkit models pull --url` recorded there, or none.
    """
    global _client
    with _changes.lock:
        if _client is None:
            folder = default_folder()
            _client = Client(folder, *noted(folder))
        return _client


def note(folder: Path, urls: Sequence[str], root: bytes) -> None:
    """Record in a folder which repository it belongs to."""
    durable.make_folder(folder, folder)
    content = {"urls": list(urls), "root": json.loads(root)}
    durable.write(folder / REPOSITORY, json.dumps(content, indent=1).encode())


def noted(folder: Path) -> tuple[tuple[str, ...], bytes]:
    """Return the recorded URLs and root, or empty ones."""
    try:
        content = json.loads(durable.read(folder / REPOSITORY))
        return tuple(map(str, content["urls"])), json.dumps(content["root"]).encode()
    except (OSError, ValueError, KeyError, TypeError):
        return (), b""


def get(name: str, mode: Mode = "local_update_in_background") -> Release:
    """Do what Client.get does, on the app's client."""
    return client().get(name, mode)


def refresh(
    name: str | None = None, on_progress: Progress | None = None, *, limit_s: float = LIMIT_S
) -> None:
    """Do what Client.refresh does, on the app's client."""
    client().refresh(name, on_progress, limit_s=limit_s)


def hint(number: int) -> None:
    """Do what Client.hint does, on the app's client."""
    client().hint(number)


def mark_ok(release: Release | str) -> None:
    """Do what Client.mark_ok does, on the app's client."""
    client().mark_ok(release)


def report_failure(
    release: Release | str, code: Code = "rollback", error: BaseException | None = None
) -> None:
    """Do what Client.report_failure does, on the app's client."""
    client().report_failure(release, code, error)


def status(name: str | None = None) -> dict[str, Any]:
    """Do what Client.status does, on the app's client."""
    return client().status(name)
