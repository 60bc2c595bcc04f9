"""The start of a server from a folder: keys, repository, tables and the admin token."""

from __future__ import annotations

import logging
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock
from sqlalchemy import Engine

from palmkit.delivery.repository import Repository
from palmkit.delivery.repository.storage import write_durably
from palmkit.delivery.server.app import Server, Settings
from palmkit.delivery.server.database import connect, migrate
from palmkit.delivery.server.rollouts import Gates
from palmkit.engine.errors import RepositoryError
from palmkit.engine.reading import read_bytes

PASSPHRASE = "PALMKIT_PASSPHRASE"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Place:
    """Where a server keeps its data: below one folder unless stated otherwise."""

    folder: Path
    database: str | None = None
    token_file: Path | None = None

    @property
    def repository(self) -> Path:
        """The folder of the repository and its keys."""
        return self.folder / "repository"

    @property
    def root(self) -> Path:
        """The newest root, which apps start with."""
        return self.folder / "root.json"

    @property
    def token(self) -> Path:
        """The file with the admin token."""
        return self.token_file or self.folder / "admin-token"

    @property
    def database_url(self) -> str:
        """The database, an SQLite file unless stated otherwise."""
        return self.database or f"sqlite:///{self.folder / 'server.db'}"


def read_token(file: Path) -> str:
    """Return the admin token; a new one is drawn if there is no file.

    Raises RepositoryError if the file holds no token.
    """
    try:
        token = read_bytes(file).decode("ascii").strip()
    except UnicodeDecodeError:
        raise RepositoryError(f"token: expected ASCII characters: {file}") from None
    except FileNotFoundError:
        token = secrets.token_urlsafe(32)
        file.parent.mkdir(parents=True, exist_ok=True)
        # Never readable by others, not even while it is written.
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as new:
            new.write(f"{token}\n".encode())
    if len(token) < 16:
        raise RepositoryError(f"token: expected 16 characters or more: {file}")
    return token


def open_repository(folder: Path) -> Repository:
    """Return the repository in a folder; a new one, with its keys, if there is none.

    $PALMKIT_PASSPHRASE encrypts the keys of a new one and opens those of an old one.
    """
    if (folder / "repository.json").exists():
        return Repository.open(folder)
    return Repository.create(folder, os.environ.get(PASSPHRASE) or None)


def check_keys(repository: Repository) -> None:
    """Open those keys of a server that are here, to see that it can sign.

    Raises RepositoryError if one cannot be opened: better now than when the timestamp expires.
    """
    with repository.reading():
        for role in ("rollout", "snapshot", "timestamp"):
            for key in repository.roles.keys_of(role):
                repository.ring.signer(key)
            if not repository.roles.can_sign(role):
                _log.warning("the keys of %s are not here: nothing is signed with them", role)


def public_of(repository: Repository | None) -> Path | None:
    """Return the folder of the static part; None if it is in a bucket."""
    try:
        return repository.public if repository else None
    except RepositoryError:
        return None


def prepare(
    place: Place, gates: Gates | None = None, kept_days: int = 400, signs: bool = True
) -> tuple[Server, Engine, Repository | None]:
    """Return a server ready to run, with its database and its repository.

    signs: whether this replica has the repository, serves it and signs rollouts. Safe if several
    start at once in one folder.
    """
    place.folder.mkdir(parents=True, exist_ok=True)
    with FileLock(place.folder / "start.lock"):
        token = read_token(place.token)
        repository = open_repository(place.repository) if signs else None
        if repository:
            check_keys(repository)
            write_durably(place.root, [repository.root()])
    engine = connect(place.database_url)
    try:
        migrate(engine)
    except BaseException:
        engine.dispose()
        raise
    settings = Settings(token, gates or Gates(), kept_days)
    return Server(engine, settings, repository, public_of(repository)), engine, repository
