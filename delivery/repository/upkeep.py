"""Keeping a repository well: checking all of it, removing what is old, copying it elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from tempfile import TemporaryDirectory
from typing import Any

from tuf.api.exceptions import DownloadError, DownloadHTTPError
from tuf.api.exceptions import RepositoryError as NotBelieved
from tuf.api.metadata import Metadata, TargetFile
from tuf.api.serialization import DeserializationError
from tuf.ngclient import Updater
from tuf.ngclient.fetcher import FetcherInterface

from palmkit.delivery import policy as policies
from palmkit.delivery.manifest import Manifest
from palmkit.delivery.repository.contents import Contents, stored_name
from palmkit.delivery.repository.keys import is_encrypted
from palmkit.delivery.repository.roles import TOP_ROLES, lifetime, role_of
from palmkit.delivery.repository.storage import Entry, Storage, sha256_of
from palmkit.engine.errors import PalmError, RepositoryError

KEEP_DAYS = 7.0
_TIMESTAMP = "metadata/timestamp.json"


class _Fetcher(FetcherInterface):
    """Lets the TUF client of devices read a storage."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def _fetch(self, url: str) -> Iterator[bytes]:
        content = self._storage.read(url.removeprefix("repository://"))
        if content is None:
            raise DownloadHTTPError(f"not there: {url}", 404)
        return iter([content])


def verify(repository: Contents, deep: bool = True) -> list[str]:
    """Return errors, a line each: as a device sees them from the first root on, and others.

    deep: read every file and compare its digest; else only its size.
    """
    with repository.reading():
        try:
            roles = repository.roles
            problems = [
                f"missing: metadata/{info.version}.{name}"
                for name, info in roles.snapshot().meta.items()
                if info.version not in roles.versions.get(name.removesuffix(".json"), [])
            ]
            problems += _seen_by_a_device(repository)
            problems += _expiring(repository)
            entries = {entry.name: entry for entry in repository.storage.entries("targets/")}
            for role in repository.roles.delegated():
                if not repository.roles.newest(role):
                    continue
                for target in repository.roles.targets(role).targets.values():
                    problems += _file(repository, target, entries, deep)
            for model in repository.models():
                problems += _model(repository, model)
            problems += [f"not shown to devices yet: {role}" for role in repository.roles.pending()]
        except PalmError as error:
            return [str(error)]
        problems += [
            f"readable by others: {path}"
            for path in sorted(repository.ring.folder.glob("*.pem"))
            if path.stat().st_mode & 0o077 and not is_encrypted(path)
        ]
    return problems


def _seen_by_a_device(repository: Contents) -> list[str]:
    first = repository.roles.versions.get("root", [0])[0]
    with TemporaryDirectory(prefix="palmkit-") as folder:
        updater = Updater(
            folder,
            "repository://metadata/",
            folder,
            "repository://targets/",
            fetcher=_Fetcher(repository.storage),
            bootstrap=repository.roles.content("root", first),
        )
        try:
            updater.refresh()
            for role in repository.roles.delegated():
                if repository.roles.newest(role):
                    for path in repository.roles.targets(role).targets:
                        if updater.get_targetinfo(path) is None:
                            return [f"a device does not find it: {path}"]
        except (NotBelieved, DownloadError) as error:
            return [f"a device does not believe it: {error}"]
    return []


def _expiring(repository: Contents) -> list[str]:
    roles, problems = repository.roles, list[str]()
    for role in (*TOP_ROLES, *(each for each in roles.delegated() if roles.newest(each))):
        expires = roles.open(role).signed.expires
        if (left := expires - roles.now()) < lifetime(role) / 8:
            word = "expired" if left <= timedelta(0) else "expires soon"
            problems.append(f"{word}: {role}, {expires:%Y-%m-%d %H:%M} UTC")
    return problems


def _file(
    repository: Contents, target: TargetFile, entries: dict[str, Entry], deep: bool
) -> list[str]:
    name = stored_name(target)
    if name not in entries:
        return [f"missing: {name}"]
    if entries[name].size != target.length:
        return [f"damaged: {name}: expected {target.length} bytes, got {entries[name].size}"]
    if deep and sha256_of(repository.storage.read(name) or b"") != target.hashes["sha256"]:
        return [f"damaged: {name}: its digest is another"]
    return []


def _model(repository: Contents, model: str) -> list[str]:
    problems: list[str] = []
    targets = repository.targets(model)
    releases = repository.releases_in(targets)
    for release in releases:
        manifest = repository.manifest_in(targets, model, release)
        if (manifest.model, manifest.release) != (model, release):
            problems.append(f"{model} {release}: its manifest is of another release")
        for name, size, digest in files_of(manifest):
            target = targets.targets.get(f"models/{model}/{name}")
            if target is None or (target.length, target.hashes["sha256"]) != (size, digest):
                problems.append(f"{model} {release}: not signed as its manifest says: {name}")
    policy = repository.policy_now(model)
    for channel, candidates in policy.channels.items():
        for each in candidates:
            if each.release not in releases:
                problems.append(f"{model} on {channel}: no such release: {each.release}")
            elif not each.recall and not policies.allowed(policy, each.release):
                problems.append(f"{model} on {channel}: revoked or below floor: {each.release}")
    return problems


def files_of(manifest: Manifest) -> Iterator[tuple[str, int, str]]:
    """Yield name, size and digest of each file and delta of a release."""
    for file in manifest.files:
        yield file.name, file.size, file.sha256
        for delta in file.deltas:
            yield delta.name, delta.size, delta.sha256


@dataclass(frozen=True)
class Collected:
    """What was removed."""

    files: int
    size_bytes: int


def collect(repository: Contents, keep_days: float = KEEP_DAYS) -> Collected:
    """Remove metadata replaced more than `keep_days` ago, and files that none refers to.

    A device that began an update before goes on with what it began with. Every root and release
    stays.
    """
    with repository.changing():
        roles, storage = repository.roles, repository.storage
        before = roles.now().timestamp() - keep_days * 86400
        metadata = {entry.name: entry for entry in storage.entries("metadata/")}
        gone: list[Entry] = []
        kept: set[str] = set()
        for role, versions in roles.versions.items():
            names = [f"metadata/{version}.{role}.json" for version in versions]
            for index, name in enumerate(names):
                replaced = index + 1 < len(names) and metadata[names[index + 1]].modified_s < before
                if replaced and role != "root":
                    gone.append(metadata[name])
                elif role == "rollout" or role.startswith(role_of("")):
                    kept |= _named(storage, name)
        for entry in storage.entries("targets/"):
            if entry.name not in kept and entry.modified_s < before:
                gone.append(entry)
        for entry in gone:
            storage.delete(entry.name)
    return Collected(len(gone), sum(entry.size for entry in gone))


def _named(storage: Storage, name: str) -> set[str]:
    """Return the files that some version of a role names."""
    try:
        metadata: Metadata[Any] = Metadata[Any].from_bytes(storage.read(name) or b"")
        return {stored_name(target) for target in metadata.signed.targets.values()}
    except (DeserializationError, AttributeError) as error:
        raise RepositoryError(f"damaged metadata: {name}") from error


def mirror(repository: Contents, to: Storage) -> int:
    """Copy the static part to another storage; return how many files were missing there.

    Files are copied in the order of a publish, so that a device there sees all of a change or
    nothing.
    Raises RepositoryError if the other storage is newer.
    """
    with repository.changing():
        storage = repository.storage
        there = {entry.name: entry.size for entry in to.entries("metadata/")}
        there |= {entry.name: entry.size for entry in to.entries("targets/")}
        here = [*storage.entries("targets/"), *storage.entries("metadata/")]
        # Files come before those that name them; root, whose keys decide what is believed, comes
        # late.
        order = (r"targets/", r".*/\d+\.(?!snapshot|root)", r".*snapshot", r".*root")
        copied = 0
        for kind in order:
            for entry in here:
                if not re.match(kind, entry.name) or there.get(entry.name) == entry.size:
                    continue
                content = storage.read(entry.name) or b""
                if kind == "targets/":
                    to.add(entry.name, content)
                else:
                    to.create(entry.name, content)
                copied += 1
        timestamp, found = storage.read(_TIMESTAMP), to.read(_TIMESTAMP)
        if timestamp is not None and timestamp != found:
            if found is not None and _version(found) > _version(timestamp):
                raise RepositoryError(f"what is there is newer: {to}")
            to.replace(_TIMESTAMP, timestamp)
            copied += 1
    return copied


def _version(content: bytes) -> int:
    return int(Metadata[Any].from_bytes(content).signed.version)
