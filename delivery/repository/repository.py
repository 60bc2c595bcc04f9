"""A repository of releases: what there is, what runs where, and every change to it.

FOLDER/repository.json   where the static part is
FOLDER/public/           the static part, all that a device ever asks for; or it is in a bucket
FOLDER/keys/             the private keys of this machine, or where they are; never served
FOLDER/lock              held while something changes
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from filelock import FileLock, Timeout
from packaging.version import Version
from tuf.api.metadata import TargetFile, Targets

from palmkit.delivery import manifest as manifests
from palmkit.delivery import policy as policies
from palmkit.delivery.manifest import File, Manifest
from palmkit.delivery.policy import Condition, Policy
from palmkit.delivery.repository import rollout
from palmkit.delivery.repository.keys import KeyRing, Secrets, from_environment
from palmkit.delivery.repository.release import Made, Options, check_name, make, with_deltas
from palmkit.delivery.repository.roles import (
    KEY_NAMES,
    TOP_ROLES,
    Clock,
    Roles,
    lifetime,
    role_of,
    utc_now,
)
from palmkit.delivery.repository.storage import (
    Folder,
    Missing,
    Storage,
    sha256_of,
    write_durably,
)
from palmkit.engine.errors import RepositoryError

# The role that holds the keys which a new model's role gets; it signs nothing itself.
TEMPLATE = "models"
DELTA_BASES = 3
_LOCK_S = 60.0


class Repository:
    """One repository. Each call that changes it holds its lock, and is seen whole or not at all."""

    def __init__(
        self, folder: Path, storage: Storage, ring: KeyRing, clock: Clock = utc_now
    ) -> None:
        """Use `open` or `create`."""
        self.folder = folder
        self.storage = storage
        self.ring = ring
        self.roles = Roles(storage, ring, clock)
        self._lock = FileLock(folder / "lock", timeout=_LOCK_S)
        self._threads = threading.RLock()

    @classmethod
    def open(
        cls, folder: Path, secrets: Secrets = from_environment, clock: Clock = utc_now
    ) -> Repository:
        """The repository in a folder.

        secrets: gives the passphrase of a key file, by the file's name; $PALMKIT_PASSPHRASE.
        Raises Missing if there is none.
        """
        try:
            config: Any = json.loads((folder / "repository.json").read_bytes())
            public = str(config["public"])
        except FileNotFoundError:
            raise Missing(f"no repository, make one with palmkit models create: {folder}") from None
        except (ValueError, KeyError, TypeError) as error:
            raise RepositoryError(f"damaged: {folder / 'repository.json'}") from error
        return cls(folder, Folder(folder / public), KeyRing(folder / "keys", secrets), clock)

    @classmethod
    def create(
        cls,
        folder: Path,
        passphrase: str | None = None,
        public: str = "public",
        clock: Clock = utc_now,
    ) -> Repository:
        """A new repository with new keys, empty.

        passphrase: encrypts the key files; None leaves them in the clear, readable by this user.
        public: where the static part lies: a folder within `folder`.
        Raises RepositoryError if there is one.
        """
        if (folder / "repository.json").exists():
            raise RepositoryError(f"there is a repository already: {folder}")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "keys").mkdir(mode=0o700, exist_ok=True)
        secrets = from_environment if passphrase is None else _give(passphrase)
        ring = KeyRing(folder / "keys", secrets)
        self = cls(folder, Folder(folder / public), ring, clock)
        with self._changing():
            if self.roles.versions:
                raise RepositoryError(f"there is a repository already: {self.storage}")
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
        # Last: a repository of which the half was made is none.
        write_durably(folder / "repository.json", [content.encode()])
        return self

    @property
    def public(self) -> Path:
        """The folder of the static part. Raises RepositoryError if it is in a bucket."""
        if isinstance(self.storage, Folder):
            return self.storage.path
        raise RepositoryError(f"not on this machine: {self.storage}")

    @contextmanager
    def _changing(self) -> Generator[None]:
        try:
            with self._reading(), self._lock:
                self.roles.forget()
                yield
        except Timeout:
            raise RepositoryError(
                f"locked for {_LOCK_S:.0f} s by another process: {self.folder / 'lock'}"
            ) from None

    @contextmanager
    def _reading(self) -> Generator[None]:
        with self._threads:
            self.roles.forget()
            yield

    # What there is

    def root(self) -> bytes:
        """The newest root: what a device is given to begin with."""
        with self._reading():
            return self.roles.content("root")

    def models(self) -> tuple[str, ...]:
        """The models that have a release, by name."""
        prefix = role_of("")
        with self._reading():
            found = [role for role in self.roles.delegated() if self.roles.newest(role)]
        return tuple(sorted(role.removeprefix(prefix) for role in found if role.startswith(prefix)))

    def releases(self, model: str) -> tuple[str, ...]:
        """The releases of a model, oldest version first. Raises Missing if there is no such one."""
        with self._reading():
            return self._releases(self._targets(model))

    def manifest(self, model: str, release: str) -> Manifest:
        """What a release is. Raises Missing if there is no such one."""
        with self._reading():
            return self._manifest(self._targets(model), model, release)

    def policy(self, model: str) -> Policy:
        """What of a model runs where; epoch 0 if nothing was ever promoted."""
        with self._reading():
            if not self.roles.newest(role_of(model)):
                raise Missing(f"no such model: {model}")
            return self._policy(model)

    def pending(self) -> list[str]:
        """Roles that were signed here, but not yet shown to devices for want of an online key."""
        with self._reading():
            return self.roles.pending()

    def _targets(self, model: str) -> Targets:
        if not self.roles.newest(role_of(model)):
            raise Missing(f"no such model: {model}")
        return self.roles.targets(role_of(model))

    @staticmethod
    def _releases(targets: Targets) -> tuple[str, ...]:
        found = [target.custom for target in targets.targets.values() if target.custom]
        return tuple(sorted((str(custom["release"]) for custom in found), key=Version))

    def _manifest(self, targets: Targets, model: str, release: str) -> Manifest:
        target = targets.targets.get(f"models/{model}/{release}.json")
        if target is None or not target.custom:
            known = ", ".join(self._releases(targets)) or "none"
            raise Missing(f"no release {release} of {model}; there are: {known}")
        return manifests.parse(self.read_target(target))

    def _policy(self, model: str) -> Policy:
        target = self.roles.targets("rollout").targets.get(f"rollout/{model}.json")
        if target is None:
            return rollout.empty(model)
        return policies.parse(self.read_target(target))

    def read_target(self, target: TargetFile) -> bytes:
        """The bytes of a target, checked. Raises RepositoryError if they are not as signed."""
        name = stored_name(target)
        content = self.storage.read(name)
        if content is None or sha256_of(content) != target.hashes["sha256"]:
            what = "missing" if content is None else "damaged"
            raise RepositoryError(f"{what} in {self.storage}: {name}")
        return content

    # Releases: signed by `models`

    def publish(
        self,
        model: str,
        release: str,
        files: Sequence[Path],
        options: Options | None = None,
        deltas: bool = True,
        shipped: Sequence[Path] = (),
    ) -> Manifest:
        """Sign a release. It is on no channel before it is promoted.

        Publishing the same files again is no error, and finishes what was interrupted.
        deltas: from the last releases, where they save enough; and from the files `shipped`, which
        came with the app. Raises RepositoryError if the release is there with other files, if a
        file is missing, if the model does not run, or if the keys for it are not here.
        """
        check_name(model, release)
        options = options or Options()
        with self._changing(), TemporaryDirectory(prefix="palmkit-") as temporary:
            folder = Path(temporary)
            role = role_of(model)
            self._check_keys(model)
            if self.roles.newest(role):
                targets = self._targets(model)
                if release in self._releases(targets):
                    found = self._manifest(targets, model, release)
                    _check_same(found, files)
                    self._show()
                    return found
            made = make(folder, model, release, files, options, self.roles.now())
            if deltas and (self.roles.newest(role) or shipped):
                made = with_deltas(made, folder, self._earlier(model), self._reader(model), shipped)
            self._add(model, made)
            policy = self._policy(model)
            if not policy.epoch and self.roles.can_sign("rollout"):
                # A device that asks is to find a policy, even if nothing is promoted yet.
                self._set(policy)
            self._show()
        return made.manifest

    def _check_keys(self, model: str) -> None:
        """Before the work: whether the keys are here that a release takes."""
        known = self.roles.newest(role_of(model)) > 0
        for role in (role_of(model),) if known else ("targets", TEMPLATE):
            if not self.roles.can_sign(role):
                raise RepositoryError(f"the keys of {role} are not here: {self.ring.folder}")

    def _earlier(self, model: str) -> list[Manifest]:
        if not self.roles.newest(role_of(model)):
            return []
        targets = self._targets(model)
        last = self._releases(targets)[-DELTA_BASES:]
        return [self._manifest(targets, model, release) for release in reversed(last)]

    def _reader(self, model: str) -> Callable[[File], bytes]:
        def read(file: File) -> bytes:
            path = f"models/{model}/{file.name}"
            return self.read_target(TargetFile(file.size, {"sha256": file.sha256}, path))

        return read

    def _add(self, model: str, made: Made) -> None:
        manifest, role = made.manifest, role_of(model)
        new = [
            self._put(f"models/{model}/{name}", path) for name, path in sorted(made.paths.items())
        ]
        custom = {"custom": {"release": manifest.release}}
        new.append(self._put(f"models/{model}/{manifest.release}.json", manifest.dump(), custom))
        if role not in self.roles.delegated():
            targets = self.roles.targets()
            template = targets.get_delegated_role(TEMPLATE)
            keys = [targets.get_key(keyid) for keyid in template.keyids]
            self.roles.delegate(role, keys, template.threshold, [f"models/{model}/*"])
        with self.roles.edit_targets(role) as targets:
            for target in new:
                if target.path in targets.targets:
                    raise RepositoryError(f"a name never changes its bytes: {target.path}")
                targets.targets[target.path] = target

    def _put(
        self, path: str, source: Path | bytes, custom: dict[str, Any] | None = None
    ) -> TargetFile:
        size = len(source) if isinstance(source, bytes) else source.stat().st_size
        target = TargetFile(size, {"sha256": sha256_of(source)}, path, custom)
        self.storage.add(stored_name(target), source)
        return target

    def _show(self, force: bool = False) -> list[str]:
        """Let devices see the change, if this machine has the keys; else the server will."""
        if not self.roles.can_sign("snapshot", "timestamp"):
            return []
        return self.roles.show(force)

    # What runs where: signed by `rollout`

    def promote(
        self,
        model: str,
        release: str,
        channel: str = "stable",
        percent: float = 100.0,
        when: Sequence[Condition] | None = None,
    ) -> Policy:
        """Offer a release on a channel, to a share of its devices, before all others there.

        One that is there keeps its place and its devices: more percent adds to them. A halt or a
        recall of it ends. when: None keeps the conditions that it has.
        Raises Missing if there is no such release, RepositoryError if it is revoked.
        """

        def change(policy: Policy) -> Policy:
            self._manifest(self._targets(model), model, release)
            return rollout.promoted(policy, release, channel, percent, when)

        return self._change(model, change)

    def halt(self, model: str, release: str, channel: str | None = None) -> Policy:
        """No more devices take a release; those that have it keep it. channel: None for all."""
        return self._change(model, lambda old: rollout.stopped(old, release, channel, False))

    def recall(self, model: str, release: str, channel: str | None = None) -> Policy:
        """Devices that have a release go back to the one behind it. channel: None for all."""
        return self._change(model, lambda old: rollout.stopped(old, release, channel, True))

    def rollback(self, model: str, channel: str = "stable", release: str | None = None) -> Policy:
        """Recall the release that a channel offers first, so that the one behind it runs again.

        release: go back to this one, which is then offered to all; those before it are recalled.
        Raises Missing if there is nothing to go back to.
        """
        return self._change(model, lambda old: rollout.rolled_back(old, channel, release))

    def revoke(self, model: str, release: str) -> Policy:
        """No device may run a release again, on any channel: neither by its name nor by its bytes.

        Files that it shares with other releases may.
        """

        def change(policy: Policy) -> Policy:
            targets = self._targets(model)
            digests = {
                name: {file.sha256 for file in self._manifest(targets, model, name).files}
                for name in self._releases(targets)
            }
            if release not in digests:
                raise Missing(f"no such release: {model} {release}")
            own = digests.pop(release).difference(*digests.values())
            own.add(targets.targets[f"models/{model}/{release}.json"].hashes["sha256"])
            return replace(policy, revoked=policy.revoked | own | {release})

        return self._change(model, change)

    def set_floor(self, model: str, release: str | None) -> Policy:
        """Releases below this one may not run any more; None lets all."""
        if release is not None:
            check_name(model, release)
        return self._change(model, lambda policy: replace(policy, floor=release))

    def retry(self, model: str) -> Policy:
        """Devices try anew what failed on them and was put into quarantine there."""
        return self._change(model, lambda old: replace(old, retry_epoch=old.retry_epoch + 1))

    def tune(
        self, model: str, sampling: float | None = None, next_check_s: float | None = None
    ) -> Policy:
        """Which share of devices may report (0..1), and after how many seconds they ask again."""

        def change(policy: Policy) -> Policy:
            return replace(
                policy,
                sampling=policy.sampling if sampling is None else sampling,
                next_check_s=policy.next_check_s if next_check_s is None else next_check_s,
            )

        return self._change(model, change)

    def _change(self, model: str, change: Callable[[Policy], Policy]) -> Policy:
        with self._changing():
            if not self.roles.newest(role_of(model)):
                raise Missing(f"no such model: {model}")
            if not self.roles.can_sign("rollout"):
                raise RepositoryError(f"the keys of rollout are not here: {self.ring.folder}")
            policy = self._set(change(self._policy(model)))
            self._show()
            return policy

    def _set(self, policy: Policy) -> Policy:
        policy = replace(policy, epoch=policy.epoch + 1)
        content = policy.dump()
        policies.parse(content)
        target = self._put(f"rollout/{policy.model}.json", content)
        with self.roles.edit_targets("rollout") as targets:
            targets.targets[target.path] = target
        return policy

    # Signing again

    def resign(self, force: bool = False) -> list[str]:
        """Sign anew what is past half of its life, and show devices what was signed elsewhere.

        To be called every few hours: devices believe a timestamp for a day. Only the roles whose
        keys are here. force: sign all of them. Returns the roles that were signed.
        """
        with self._changing():
            renewed: list[str] = []
            if self.roles.can_sign("rollout") and (force or self._is_old("rollout")):
                with self.roles.edit_targets("rollout"):
                    renewed.append("rollout")
            if self.roles.can_sign("snapshot", "timestamp"):
                snapshot = force or self._is_old("snapshot")
                renewed += ["snapshot"] * self.roles.do_snapshot(snapshot)[0]
                timestamp = force or self._is_old("timestamp")
                renewed += ["timestamp"] * self.roles.do_timestamp(timestamp)[0]
            return renewed

    def _is_old(self, role: str) -> bool:
        left = self.roles.open(role).signed.expires - self.roles.now()
        return bool(left < lifetime(role) / 2)

    def expires(self) -> dict[str, str]:
        """When each role ends to be believed, ISO 8601 in UTC, by role."""
        with self._reading():
            delegated = [role for role in self.roles.delegated() if self.roles.newest(role)]
            ends = {role: self.roles.open(role).signed.expires for role in (*TOP_ROLES, *delegated)}
        return {role: f"{end:%Y-%m-%dT%H:%M:%SZ}" for role, end in ends.items()}


def stored_name(target: TargetFile) -> str:
    """Where a target lies in the storage: its digest is part of its name."""
    folder, _, name = target.path.rpartition("/")
    return f"targets/{folder}/{target.hashes['sha256']}.{name}"


def _give(passphrase: str) -> Secrets:
    return lambda name: passphrase


def _check_same(found: Manifest, files: Sequence[Path]) -> None:
    """Raise RepositoryError unless a release that is there has these files."""
    golden = found.golden.file if found.golden else None
    there = {
        file.encryption.plain_sha256 if file.encryption else file.sha256
        for file in found.files
        if file.name != golden
    }
    if there != {sha256_of(file) for file in files}:
        raise RepositoryError(
            f"there is such a release, of other files; a release never changes, publish a new one: "
            f"{found.model} {found.release}"
        )
