"""The one client of an app, which its kits take their models from."""

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

# Of the folder; what is kept there says which repository it is of.
FOLDER = "PALMKIT_DELIVERY_FOLDER"
REPOSITORY = "repository.json"

_client: Client | None = None


class _Lock:
    """Held while `_client` changes."""

    def __init__(self) -> None:
        renewed_in_children(self, _Lock._renew)

    def _renew(self) -> None:
        self.lock = threading.Lock()


_changes = _Lock()


def default_folder() -> Path:
    """Where models are kept unless the app says otherwise: $PALMKIT_DELIVERY_FOLDER moves it.

    It is not a cache: a cleaner that removes what failed here would let it be tried again.
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
    """Say once, before models are asked for, where they come from; nothing is asked yet.

    urls: of the repository's mirrors, the best first. root: its trusted root metadata, or the path
    of the file. The rest are as in Client; folder: None: the user's data folder.
    Raises OSError if the root cannot be read, ValueError for what cannot be.
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
    """The app's client; without `configure` that of the default folder.

    It asks the repository that `palmkit models pull --url` noted there, or none.
    """
    global _client
    with _changes.lock:
        if _client is None:
            folder = default_folder()
            _client = Client(folder, *noted(folder))
        return _client


def note(folder: Path, urls: Sequence[str], root: bytes) -> None:
    """Keep in a folder which repository it is of."""
    durable.make_folder(folder, folder)
    content = {"urls": list(urls), "root": json.loads(root)}
    durable.write(folder / REPOSITORY, json.dumps(content, indent=1).encode())


def noted(folder: Path) -> tuple[tuple[str, ...], bytes]:
    """The URLs and the root that were kept; none if they were not."""
    try:
        content = json.loads(durable.read(folder / REPOSITORY))
        return tuple(map(str, content["urls"])), json.dumps(content["root"]).encode()
    except (OSError, ValueError, KeyError, TypeError):
        return (), b""


def get(name: str, mode: Mode = "local_update_in_background") -> Release:
    """As Client.get, of the app's client."""
    return client().get(name, mode)


def refresh(
    name: str | None = None, on_progress: Progress | None = None, *, limit_s: float = LIMIT_S
) -> None:
    """As Client.refresh, of the app's client."""
    client().refresh(name, on_progress, limit_s=limit_s)


def hint(number: int) -> None:
    """As Client.hint, of the app's client."""
    client().hint(number)


def mark_ok(release: Release | str) -> None:
    """As Client.mark_ok, of the app's client."""
    client().mark_ok(release)


def report_failure(
    release: Release | str, code: Code = "rollback", error: BaseException | None = None
) -> None:
    """As Client.report_failure, of the app's client."""
    client().report_failure(release, code, error)


def status(name: str | None = None) -> dict[str, Any]:
    """As Client.status, of the app's client."""
    return client().status(name)
