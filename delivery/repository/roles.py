"""The signed metadata of a repository: which role is signed by whom, in which order it is written.

    root (offline) > targets (offline) > model-<name> (key `models`: which files are releases)
                                       > rollout      (online key: which release runs where)
                   > snapshot, timestamp (online keys: what is the newest of it all)

Versions, signatures and delegations are python-tuf's. Everything is read anew from the storage for
each change, and believed only as far as it is signed: an operator's bucket is not trusted either.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from typing import Any, TypeAlias

from securesystemslib.signer import Key
from tuf.api.exceptions import UnsignedMetadataError
from tuf.api.metadata import (
    DelegatedRole,
    Delegations,
    Metadata,
    MetaFile,
    Root,
    Snapshot,
    Targets,
    Timestamp,
)
from tuf.api.serialization import DeserializationError
from tuf.ngclient import UpdaterConfig
from tuf.repository import Repository as _Repository

from palmkit.delivery.repository.keys import KeyRing
from palmkit.delivery.repository.storage import Missing, Storage
from palmkit.engine.errors import RepositoryError

TOP_ROLES = ("root", "targets", "snapshot", "timestamp")
# The names of keys; `models` signs the roles of all models.
KEY_NAMES = ("root", "targets", "models", "rollout", "snapshot", "timestamp")
LIFETIMES = {
    "timestamp": timedelta(days=1),
    "rollout": timedelta(days=2),
    "snapshot": timedelta(days=7),
}
_OFFLINE_LIFETIME = timedelta(days=365)
_VERSIONED = re.compile(r"metadata/([1-9][0-9]{0,17})\.([a-z][a-z0-9_-]*)\.json", re.ASCII)
# Field for the time at which a timestamp was signed: a device's clock is not behind it.
SIGNED_FIELD = "x-palmkit-signed"

Clock: TypeAlias = Callable[[], datetime]
Kind: TypeAlias = type[Root] | type[Snapshot] | type[Timestamp] | type[Targets]
_KINDS: dict[str, Kind] = {
    "root": Root,
    "snapshot": Snapshot,
    "timestamp": Timestamp,
}


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(timezone.utc)


def role_of(model: str) -> str:
    """Return the role that signs a model's releases."""
    return f"model-{model}"


def lifetime(role: str) -> timedelta:
    """Return for how long the metadata of a role is believed."""
    return LIFETIMES.get(role, _OFFLINE_LIFETIME)


def most_bytes(role: str) -> int:
    """Return the largest size of a role's metadata, which the TUF client of devices accepts."""
    limits = UpdaterConfig()
    kinds = {
        "root": limits.root_max_length,
        "snapshot": limits.snapshot_max_length,
        "timestamp": limits.timestamp_max_length,
    }
    return kinds.get(role, limits.targets_max_length)


def versions_in(names: Iterable[str]) -> dict[str, list[int]]:
    """Return the versions of each role, smallest first, among the names of a storage."""
    versions: dict[str, list[int]] = {}
    for name in names:
        if match := _VERSIONED.fullmatch(name):
            versions.setdefault(match[2], []).append(int(match[1]))
    return {role: sorted(found) for role, found in versions.items()}


class Roles(_Repository):
    """Reads, changes and signs the metadata in a storage; its caller holds the lock."""

    def __init__(self, storage: Storage, ring: KeyRing, now: Clock = utc_now) -> None:
        """Sign metadata in `storage` with the keys of `ring`."""
        self._storage = storage
        self.ring = ring
        self.now = now
        self._versions: dict[str, list[int]] | None = None
        self._contents: dict[str, bytes] = {}
        # Keys that sign besides those of a role while they replace others: what both have signed
        # is believed before and after.
        self.joining: dict[str, list[Key]] = {}

    def forget(self) -> None:
        """Forget what was read, so that the storage is read anew."""
        self._versions = None
        self._contents.clear()

    @property
    def versions(self) -> dict[str, list[int]]:
        """Versions by role, smallest first; the timestamp has none."""
        if self._versions is None:
            self._versions = versions_in(entry.name for entry in self._storage.entries("metadata/"))
        return self._versions

    def newest(self, role: str) -> int:
        """Return the newest version of a role, 0 if it has none."""
        return self.versions.get(role, [0])[-1]

    def content(self, role: str, version: int | None = None) -> bytes:
        """Return the file of a role's version, by default the newest. Raises Missing."""
        if role == "timestamp":
            name = "metadata/timestamp.json"
        else:
            name = f"metadata/{version or self.newest(role)}.{role}.json"
        if name not in self._contents:
            if (found := self._storage.read(name)) is None:
                raise Missing(f"no such metadata: {name}")
            self._contents[name] = found
        return self._contents[name]

    def read(self, kind: Kind, role: str, version: int | None = None) -> Metadata[Any]:
        """Return a role's metadata without checking signatures. Raises Missing, RepositoryError."""
        try:
            metadata: Metadata[Any] = Metadata[Any].from_bytes(self.content(role, version))
        except DeserializationError as error:
            raise RepositoryError(f"damaged metadata: {role}: {error.__cause__}") from error
        if not isinstance(metadata.signed, kind):
            raise RepositoryError(f"metadata of another kind: {role}: {metadata.signed.type}")
        return metadata

    def open(self, role: str) -> Metadata[Any]:
        """Return a role's newest metadata, signatures checked; a new role has version 0.

        A snapshot or timestamp that is not signed correctly (its key is no longer one of the role)
        counts as empty, with its version.
        """
        kind = _KINDS.get(role, Targets)
        version = self.newest(role)
        if role == "timestamp":
            version = int(self._storage.read("metadata/timestamp.json") is not None)
        if not version:
            return _fresh(kind)
        metadata = self.read(kind, role)
        found = metadata.signed.version
        if role != "timestamp" and found != version:
            raise RepositoryError(f"{role}: expected version {version} in its file, got {found}")
        if role == "root":
            if version > 1 and version - 1 in self.versions["root"]:
                self.check(self.read(Root, "root", version - 1).signed, role, metadata)
            self.check(metadata.signed, role, metadata)
            return metadata
        try:
            self.check(self.delegator(role), role, metadata)
        except RepositoryError:
            if role not in ("snapshot", "timestamp"):
                raise
            return _fresh(kind, found)
        return metadata

    def open_shown(self, role: str) -> Metadata[Any]:
        """Return targets or a role of targets as devices see it, even if its keys changed since.

        It must be what the snapshot names, signed by the keys of that time.
        Raises RepositoryError if it is not.
        """
        try:
            return self.open(role)
        except RepositoryError:
            above = "root" if role in TOP_ROLES else "targets"
            seen = self.snapshot().meta.get(f"{role}.json")
            if seen is None or seen.version != self.newest(role):
                raise
            metadata = self.read(Targets, role)
            for version in reversed(self.versions[above][:-1]):
                earlier = self.read(Root if above == "root" else Targets, above, version).signed
                with suppress(RepositoryError):
                    self.check(earlier, role, metadata)
                    return metadata
            raise

    def delegator(self, role: str) -> Root | Targets:
        """Return the metadata that names the keys of a role."""
        return self.root() if role in TOP_ROLES else self.targets()

    @staticmethod
    def check(delegator: Root | Targets, role: str, metadata: Metadata[Any]) -> None:
        """Raise RepositoryError unless enough of a role's keys have signed."""
        try:
            delegator.verify_delegate(role, metadata.signed_bytes, metadata.signatures)
        except (UnsignedMetadataError, ValueError) as error:
            raise RepositoryError(f"not signed by who may sign it: {role}: {error}") from error

    def keys_of(self, role: str, delegator: Root | Targets | None = None) -> list[Key]:
        """Return the keys that may sign a role."""
        delegator = self.delegator(role) if delegator is None else delegator
        try:
            keyids = delegator.get_delegated_role(role).keyids
        except ValueError as error:
            raise Missing(f"no such role: {role}") from error
        return [delegator.get_key(keyid) for keyid in keyids]

    def can_sign(self, *roles: str) -> bool:
        """Return whether this machine has enough keys for each of the roles."""
        return all(
            sum(key.keyid in self.ring for key in self.keys_of(role))
            >= self.delegator(role).get_delegated_role(role).threshold
            for role in roles
        )

    def close(self, role: str, md: Metadata[Any]) -> None:
        """Sign the next version of a role and write it. Raises RepositoryError, Conflict."""
        signed = md.signed
        signed.version += 1
        now = self.now().replace(microsecond=0)
        signed.expires = now + lifetime(role)
        if role == "timestamp":
            signed.unrecognized_fields[SIGNED_FIELD] = f"{now:%Y-%m-%dT%H:%M:%SZ}"
        self.sign(role, md)
        content = md.to_bytes()
        if len(content) > (most := most_bytes(role)):
            raise RepositoryError(
                f"{role}: expected at most {most} bytes, which devices take, got {len(content)}"
            )
        if role == "timestamp":
            self._storage.replace("metadata/timestamp.json", content)
            self._contents["metadata/timestamp.json"] = content
            return
        self._storage.create(f"metadata/{signed.version}.{role}.json", content)
        self.versions.setdefault(role, []).append(signed.version)

    def add_root(self, metadata: Metadata[Any]) -> None:
        """Write a root that is signed already. Raises RepositoryError if it is not, Conflict."""
        version = metadata.signed.version
        for each in (self.root(), metadata.signed):
            self.check(each, "root", metadata)
        self._storage.create(f"metadata/{version}.root.json", metadata.to_bytes())
        self.versions["root"].append(version)

    def sign(self, role: str, metadata: Metadata[Any]) -> None:
        """Sign with every key within reach; RepositoryError if that is not enough."""
        delegators: list[Root | Targets] = []
        if role == "root":
            delegators += [self.root()] if self.newest("root") else []
            delegators += [metadata.signed]
        else:
            delegators += [self.delegator(role)]
        keys = {key.keyid: key for each in delegators for key in self.keys_of(role, each)}
        keys |= {key.keyid: key for key in self.joining.get(role, [])}
        metadata.signatures.clear()
        for key in keys.values():
            if (signer := self.ring.signer(key)) is not None:
                metadata.sign(signer, append=True)
        for each in delegators:
            result = each.get_verification_result(role, metadata.signed_bytes, metadata.signatures)
            if not result:
                raise RepositoryError(
                    f"not enough keys here for {role}: expected {result.threshold}, "
                    f"got {len(result.signed)} of those it has: {self.ring.folder}"
                )

    @property
    def targets_infos(self) -> dict[str, MetaFile]:
        """Return the roles that a snapshot names, checking those newer than in the last one."""
        last = self.open("snapshot").signed.meta
        names = ["targets", *(self._delegations().roles or {})]
        found: dict[str, MetaFile] = {}
        for role in names:
            if not (version := self.newest(role)):
                continue
            name = f"{role}.json"
            if name not in last or last[name].version < version:
                self.open(role)
            found[name] = MetaFile(version)
        return found

    @property
    def snapshot_info(self) -> MetaFile:
        """Return the newest snapshot's entry."""
        return MetaFile(self.newest("snapshot"))

    def pending(self) -> list[str]:
        """Return roles that are signed, but not in the snapshot that devices see."""
        seen = self.snapshot().meta if self.newest("snapshot") else {}
        return [
            name.removesuffix(".json")
            for name, info in self.targets_infos.items()
            if name not in seen or seen[name].version < info.version
        ]

    def show(self, force: bool = False) -> list[str]:
        """Publish what was signed: a new snapshot and timestamp, as far as needed.

        force: even if nothing is new. Returns the roles that were signed.
        """
        snapshot, _ = self.do_snapshot(force)
        timestamp, _ = self.do_timestamp(force)
        return ["snapshot"] * snapshot + ["timestamp"] * timestamp

    def delegate(self, role: str, keys: list[Key], threshold: int, paths: list[str]) -> None:
        """Have targets delegate paths to a role."""
        with self.edit_targets() as targets:
            if targets.delegations is None:
                targets.delegations = Delegations({}, {})
            assert targets.delegations.roles is not None
            delegated = DelegatedRole(role, [], threshold, terminating=True, paths=paths)
            targets.delegations.roles[role] = delegated
            for key in keys:
                targets.add_key(key, role)

    def _delegations(self) -> Delegations:
        return self.targets().delegations or Delegations({}, {})

    def delegated(self) -> list[str]:
        """Return the roles that targets delegates to."""
        return list(self._delegations().roles or {})


def _fresh(kind: Kind, version: int = 0) -> Metadata[Any]:
    signed: Any = kind()
    # Closing it makes the next version.
    signed.version = version
    if kind is Snapshot:
        signed.meta.clear()
    if kind is Timestamp:
        signed.snapshot_meta.version = 0
    return Metadata(signed)
