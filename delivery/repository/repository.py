"""A repository as publishers change it: releases, rollouts, keys, upkeep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from securesystemslib.signer import Key
from tuf.api.metadata import TargetFile

from palmkit.delivery import policy as policies
from palmkit.delivery.manifest import File, Manifest
from palmkit.delivery.policy import Condition, Policy
from palmkit.delivery.repository import rollout, rotation, upkeep
from palmkit.delivery.repository.contents import TEMPLATE, Contents, open_storage, stored_name
from palmkit.delivery.repository.release import Made, Options, check_name, make, with_deltas
from palmkit.delivery.repository.roles import lifetime, role_of
from palmkit.delivery.repository.storage import Missing, sha256_of
from palmkit.engine.errors import RepositoryError

DELTA_BASES = 3


class Repository(Contents):
    """One repository; each change holds its lock and is visible as a whole or not at all."""

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
        """Sign a release, which is on no channel before it is promoted.

        Publishing the same files again is no error, and finishes what was interrupted.
        deltas: whether to add deltas from the last releases, where they save enough; and from the
        files `shipped`, which came with the app.
        Raises RepositoryError if the release exists with other files, if a file is missing, if the
        model does not run, or if the keys for it are not here.
        """
        check_name(model, release)
        made: Made | None = None
        with TemporaryDirectory(prefix="palmkit-") as temporary:
            folder = Path(temporary)
            with self.reading():
                self._check_keys(model)
                is_new = self._known(model, release, files) is None
                earlier = self._earlier(model)
            if is_new:
                # Before the lock is taken, as running the model and making deltas take time.
                made = make(folder, model, release, files, options or Options(), self.roles.now())
                if deltas:
                    made = with_deltas(made, folder, earlier, self._reader(model), shipped)
            with self.changing():
                if made is not None and self._known(model, release, files) is None:
                    self._add(model, made)
                if not (policy := self.policy_now(model)).epoch and self.roles.can_sign("rollout"):
                    # A device that asks must find a policy, even if nothing is promoted yet.
                    self._set(policy)
                self.show()
        return self.manifest(model, release)

    def _known(self, model: str, release: str, files: Sequence[Path]) -> Manifest | None:
        """Return the release if it exists; raise RepositoryError if it has other files."""
        if not self.roles.newest(role_of(model)):
            return None
        targets = self.targets(model)
        if release not in self.releases_in(targets):
            return None
        found = self.manifest_in(targets, model, release)
        _check_same(found, files)
        return found

    def _check_keys(self, model: str) -> None:
        """Raise an error before any work if the keys that a release needs are not here."""
        known = self.roles.newest(role_of(model)) > 0
        for role in (role_of(model),) if known else ("targets", TEMPLATE):
            if not self.roles.can_sign(role):
                raise RepositoryError(f"the keys of {role} are not here: {self.ring.folder}")

    def _earlier(self, model: str) -> list[Manifest]:
        if not self.roles.newest(role_of(model)):
            return []
        targets = self.targets(model)
        last = self.releases_in(targets)[-DELTA_BASES:]
        return [self.manifest_in(targets, model, release) for release in reversed(last)]

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

        A release that is already there keeps its place and its devices: more percent adds to them.
        Its halt or recall ends. when: None keeps its conditions.
        Raises Missing if there is no such release, RepositoryError if it is revoked.
        """

        def change(policy: Policy) -> Policy:
            self.manifest_in(self.targets(model), model, release)
            return rollout.promoted(policy, release, channel, percent, when)

        return self._change(model, change)

    def halt(self, model: str, release: str, channel: str | None = None) -> Policy:
        """Stop offering a release to more devices; those that have it keep it.

        channel: None for all channels.
        """
        return self._change(model, lambda old: rollout.stopped(old, release, channel, False))

    def recall(self, model: str, release: str, channel: str | None = None) -> Policy:
        """Have devices with a release go back to the one behind it.

        channel: None for all channels.
        """
        return self._change(model, lambda old: rollout.stopped(old, release, channel, True))

    def rollback(self, model: str, channel: str = "stable", release: str | None = None) -> Policy:
        """Recall the release that a channel offers first, so that the one behind it runs again.

        release: go back to this one, which is then offered to all; those before it are recalled.
        Raises Missing if there is nothing to go back to.
        """
        return self._change(model, lambda old: rollout.rolled_back(old, channel, release))

    def revoke(self, model: str, release: str) -> Policy:
        """Forbid a release on all devices and channels, by its name and by its bytes.

        Files that it shares with other releases stay allowed.
        """

        def change(policy: Policy) -> Policy:
            targets = self.targets(model)
            digests = {
                name: {file.sha256 for file in self.manifest_in(targets, model, name).files}
                for name in self.releases_in(targets)
            }
            if release not in digests:
                raise Missing(f"no such release: {model} {release}")
            own = digests.pop(release).difference(*digests.values())
            own.add(targets.targets[f"models/{model}/{release}.json"].hashes["sha256"])
            return rollout.revoked(policy, release, own)

        return self._change(model, change)

    def set_floor(self, model: str, release: str | None) -> Policy:
        """Forbid releases below this one; None allows all."""
        if release is not None:
            check_name(model, release)
        return self._change(model, lambda policy: replace(policy, floor=release))

    def retry(self, model: str) -> Policy:
        """Have devices retry what failed on them and was put into quarantine there."""
        return self._change(model, lambda old: replace(old, retry_epoch=old.retry_epoch + 1))

    def tune(
        self, model: str, sampling: float | None = None, next_check_s: float | None = None
    ) -> Policy:
        """Set the share of devices that may report (0..1), and the seconds between checks."""

        def change(policy: Policy) -> Policy:
            return replace(
                policy,
                sampling=policy.sampling if sampling is None else sampling,
                next_check_s=policy.next_check_s if next_check_s is None else next_check_s,
            )

        return self._change(model, change)

    def _change(self, model: str, change: Callable[[Policy], Policy]) -> Policy:
        with self.changing():
            if not self.roles.newest(role_of(model)):
                raise Missing(f"no such model: {model}")
            if not self.roles.can_sign("rollout"):
                raise RepositoryError(f"the keys of rollout are not here: {self.ring.folder}")
            policy = self._set(change(self.policy_now(model)))
            self.show()
            return policy

    def _set(self, policy: Policy) -> Policy:
        # A thief may have used higher epochs; with another rollout key devices start over.
        epoch = policy.epoch + 1 if policy.epoch < policies.MOST_EPOCH else 1
        policy = replace(policy, epoch=epoch)
        try:
            content = policy.dump()
        except ValueError as error:
            raise RepositoryError(f"the policy cannot be described: {error}") from error
        policies.parse(content)
        target = self._put(f"rollout/{policy.model}.json", content)
        with self.roles.edit_targets("rollout") as targets:
            targets.targets[target.path] = target
        return policy

    # Signing again

    def resign(self, force: bool = False) -> list[str]:
        """Sign anew what is past half of its life, and publish what was signed elsewhere.

        To be called every few hours, as devices believe a timestamp for a day. Only the roles whose
        keys are here are signed. force: rollout, snapshot and timestamp at once.
        Returns the roles that were signed.
        """
        with self.changing():
            roles = self.roles
            signed = [role for role in roles.delegated() if roles.newest(role)]
            renewed: list[str] = []
            for role in ("root", "targets", *signed):
                due = (force and role == "rollout") or self._is_old(role)
                if due and roles.can_sign(role):
                    with roles.edit(role):
                        renewed.append(role)
            if roles.can_sign("snapshot", "timestamp"):
                renewed += ["snapshot"] * roles.do_snapshot(force or self._is_old("snapshot"))[0]
                renewed += ["timestamp"] * roles.do_timestamp(force or self._is_old("timestamp"))[0]
            return renewed

    def rotate_key(self, name: str, key: Key | None = None, instead_of: str | None = None) -> str:
        """Replace a key by a new one, as `rotation.rotate` says, and return its id."""
        return rotation.rotate(self, name, key, instead_of).keyid

    def verify(self, deep: bool = True) -> list[str]:
        """Return the errors of the whole repository, a line each.

        deep: read every file, not only its size.
        """
        return upkeep.verify(self, deep)

    def gc(self, keep_days: float = upkeep.KEEP_DAYS) -> upkeep.Collected:
        """Remove metadata replaced so many days ago, and files that none refers to any more."""
        return upkeep.collect(self, keep_days)

    def mirror(self, place: str) -> int:
        """Copy what is new to s3://bucket/prefix or a folder; return the number of files."""
        return upkeep.mirror(self, open_storage(place, Path()))

    def _is_old(self, role: str) -> bool:
        left = self.roles.open(role).signed.expires - self.roles.now()
        return bool(left < lifetime(role) / 2)


def _check_same(found: Manifest, files: Sequence[Path]) -> None:
    """Raise RepositoryError unless an existing release has these files."""
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
