"""What a repository holds, and how it is opened, made and locked.

FOLDER/repository.json   where the static part is
FOLDER/public/           the static part, all that a device ever asks for; or it is in a bucket
FOLDER/keys/             the private keys of this machine, or where they are; never served
FOLDER/public/.lock      held while something changes
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout
from packaging.version import Version
from tuf.api.metadata import TargetFile, Targets

from palmkit.delivery import manifest as manifests
from palmkit.delivery import policy as policies
from palmkit.delivery.manifest import Manifest
from palmkit.delivery.policy import Policy
from palmkit.delivery.repository import rollout
from palmkit.delivery.repository.keys import KeyRing, Secrets, from_environment
from palmkit.delivery.repository.roles import (
    KEY_NAMES,
    TOP_ROLES,
    Clock,
    Roles,
    role_of,
    utc_now,
)
from palmkit.delivery.repository.storage import (
    Conflict,
    Folder,
    Missing,
    Storage,
    sha256_of,
    write_durably,
)
from palmkit.engine.errors import RepositoryError

if TYPE_CHECKING:
    from typing_extensions import Self

# The role that holds the keys which a new model's role gets; it signs nothing itself.
TEMPLATE = "models"
_LOCK_S = 60.0
_BEGUN = ".begun"


class Contents:
    """A repository as it is read."""

    def __init__(
        self, folder: Path, storage: Storage, ring: KeyRing, clock: Clock = utc_now
    ) -> None:
        """Use `open` or `create` instead."""
        self.folder = folder
        self.storage = storage
        self.ring = ring
        self.roles = Roles(storage, ring, clock)
        # One lock for all who write the same files, whatever their own folder is.
        self._lock_file = (storage.path if isinstance(storage, Folder) else folder) / ".lock"
        self._lock = FileLock(self._lock_file, timeout=_LOCK_S)
        self._threads = threading.RLock()

    @classmethod
    def open(
        cls, folder: Path, secrets: Secrets = from_environment, clock: Clock = utc_now
    ) -> Self:
        """Open the repository in a folder.

        secrets: returns the passphrase of a key file, by the file's name; by default that of
        $PALMKIT_PASSPHRASE.
        Raises Missing if there is none.
        """
        try:
            config: Any = json.loads((folder / "repository.json").read_bytes())
            public = str(config["public"])
        except FileNotFoundError:
            raise Missing(f"no repository, make one with palmkit models create: {folder}") from None
        except (ValueError, KeyError, TypeError) as error:
            raise RepositoryError(f"damaged: {folder / 'repository.json'}") from error
        return cls(folder, open_storage(public, folder), KeyRing(folder / "keys", secrets), clock)

    @classmethod
    def create(
        cls,
        folder: Path,
        passphrase: str | None = None,
        public: str = "public",
        clock: Clock = utc_now,
    ) -> Self:
        """Make a new, empty repository with new keys.

        passphrase: encrypts the key files; None leaves them in the clear, readable by this user.
        public: where the static part lies: a folder within `folder`, or s3://bucket/prefix.
        Raises RepositoryError if there already is one.
        """
        folder.mkdir(parents=True, exist_ok=True)
        secrets = from_environment if passphrase is None else _give(passphrase)
        ring = KeyRing(folder / "keys", secrets)
        self = cls(folder, open_storage(public, folder), ring, clock)
        with self.changing():
            if (folder / "repository.json").exists():
                raise RepositoryError(f"there is a repository already: {folder}")
            self._begin()
            (folder / "keys").mkdir(mode=0o700)
            keys = {name: ring.generate(name, passphrase) for name in KEY_NAMES}
            with self.roles.edit_root() as root:
                for role in TOP_ROLES:
                    root.add_key(keys[role], role)
            with self.roles.edit_targets():
                pass
            self.roles.delegate(TEMPLATE, [keys["models"]], 1, [])
            self.roles.delegate("rollout", [keys["rollout"]], 1, ["rollout/*"])
            with self.roles.edit_targets("rollout"):
                pass
            self.roles.show()
            content = json.dumps({"schema": 1, "public": public}) + "\n"
            # Written last: a half-made repository does not count as one.
            write_durably(folder / "repository.json", [content.encode()])
            (folder / _BEGUN).unlink()
        return self

    def _begin(self) -> None:
        """Note that a repository is being made here; clear up after an unfinished attempt."""
        begun = self.folder / _BEGUN
        if begun.exists():
            for entry in list(self.storage.entries("metadata/")):
                self.storage.delete(entry.name)
            shutil.rmtree(self.folder / "keys", ignore_errors=True)
            self.roles.forget()
        if self.roles.versions or (self.folder / "keys").exists():
            raise RepositoryError(f"there is a repository already: {self.storage}")
        write_durably(begun, [b""])

    @property
    def public(self) -> Path:
        """The folder of the static part. Raises RepositoryError if it is in a bucket."""
        if isinstance(self.storage, Folder):
            return self.storage.path
        raise RepositoryError(f"not on this machine: {self.storage}")

    @contextmanager
    def changing(self) -> Generator[None]:
        """Hold the lock, and read the storage anew. Raises Conflict after a minute."""
        try:
            self._lock_file.parent.mkdir(parents=True, exist_ok=True)
            with self.reading(), self._lock:
                self.roles.forget()
                yield
        except Timeout:
            raise Conflict(
                f"locked for {_LOCK_S:.0f} s by another process: {self._lock_file}"
            ) from None

    @contextmanager
    def reading(self) -> Generator[None]:
        """Read the storage anew; threads take turns."""
        with self._threads:
            self.roles.forget()
            yield

    def show(self, force: bool = False) -> list[str]:
        """Publish the change to devices, if this machine has the keys; else the server will."""
        if not self.roles.can_sign("snapshot", "timestamp"):
            return []
        return self.roles.show(force)

    def root(self) -> bytes:
        """Return the newest root, which a device starts with."""
        with self.reading():
            return self.roles.content("root")

    def models(self) -> tuple[str, ...]:
        """Return the models that have a release, by name."""
        prefix = role_of("")
        with self.reading():
            found = [role for role in self.roles.delegated() if self.roles.newest(role)]
        return tuple(sorted(role.removeprefix(prefix) for role in found if role.startswith(prefix)))

    def releases(self, model: str) -> tuple[str, ...]:
        """Return a model's releases, oldest version first. Raises Missing without the model."""
        with self.reading():
            return self.releases_in(self.targets(model))

    def manifest(self, model: str, release: str) -> Manifest:
        """Return a release's manifest. Raises Missing if there is no such release."""
        with self.reading():
            return self.manifest_in(self.targets(model), model, release)

    def policy(self, model: str) -> Policy:
        """Return a model's policy; epoch 0 if nothing was ever promoted."""
        with self.reading():
            if not self.roles.newest(role_of(model)):
                raise Missing(f"no such model: {model}")
            return self.policy_now(model)

    def pending(self) -> list[str]:
        """Return roles that are signed, but not published to devices without an online key."""
        with self.reading():
            return self.roles.pending()

    def targets(self, model: str) -> Targets:
        """Return what the role of a model signs, as last read. Raises Missing."""
        if not self.roles.newest(role_of(model)):
            raise Missing(f"no such model: {model}")
        return self.roles.targets(role_of(model))

    @staticmethod
    def releases_in(targets: Targets) -> tuple[str, ...]:
        """Return the releases that a role signs, oldest version first."""
        found = [target.custom for target in targets.targets.values() if target.custom]
        return tuple(sorted((str(custom["release"]) for custom in found), key=Version))

    def manifest_in(self, targets: Targets, model: str, release: str) -> Manifest:
        """Return the manifest of a release that a role signs. Raises Missing."""
        target = targets.targets.get(f"models/{model}/{release}.json")
        if target is None or not target.custom:
            known = ", ".join(self.releases_in(targets)) or "none"
            raise Missing(f"no release {release} of {model}; there are: {known}")
        return manifests.parse(self.read_target(target))

    def policy_now(self, model: str) -> Policy:
        """Return a model's policy, as last read."""
        target = self.roles.targets("rollout").targets.get(f"rollout/{model}.json")
        if target is None:
            return rollout.empty(model)
        return policies.parse(self.read_target(target))

    def read_target(self, target: TargetFile) -> bytes:
        """Return the verified bytes of a target. Raises RepositoryError if they differ."""
        name = stored_name(target)
        content = self.storage.read(name)
        if content is None or sha256_of(content) != target.hashes["sha256"]:
            what = "missing" if content is None else "damaged"
            raise RepositoryError(f"{what} in {self.storage}: {name}")
        return content

    def expires(self) -> dict[str, str]:
        """Return when each role's metadata expires, ISO 8601 in UTC, by role."""
        with self.reading():
            delegated = [role for role in self.roles.delegated() if self.roles.newest(role)]
            ends = {role: self.roles.open(role).signed.expires for role in (*TOP_ROLES, *delegated)}
        return {role: f"{end:%Y-%m-%dT%H:%M:%SZ}" for role, end in ends.items()}


def open_storage(public: str, folder: Path) -> Storage:
    """Return the storage at s3://bucket/prefix, or in a folder relative to `folder`."""
    if public.startswith("s3://"):
        from palmkit.delivery.repository.s3 import Bucket

        return Bucket(public)
    return Folder(folder / public)


def stored_name(target: TargetFile) -> str:
    """Return a target's name in the storage, of which its digest is a part."""
    folder, _, name = target.path.rpartition("/")
    return f"targets/{folder}/{target.hashes['sha256']}.{name}"


def _give(passphrase: str) -> Secrets:
    return lambda name: passphrase
