"""The models on a device: which release runs, which is tried, which must not run any more.

Nothing here needs a network. A release goes OFFERED, DOWNLOADING, VERIFIED, STAGED, TRIAL, ACTIVE;
one that fails goes into quarantine, and what was active stays so. At the end of every way there is
the model of the wheel, which no policy and no failure takes away.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from palmkit.delivery import durable
from palmkit.delivery.codes import Code
from palmkit.delivery.embedded import Embedded, shipped
from palmkit.delivery.policy import Policy
from palmkit.delivery.policy import parse as parse_policy
from palmkit.delivery.recovery import rebuild
from palmkit.delivery.releases import Releases, blob, forbidden
from palmkit.delivery.running import Processes
from palmkit.delivery.state import Quarantined, Slot, State
from palmkit.engine.errors import DeliveryError

if TYPE_CHECKING:
    from palmkit.delivery.clock import Clock
    from palmkit.delivery.store import BlobStore

log = logging.getLogger("palmkit.delivery")

DAY_S = 86400.0
# Until when the server is not asked, after it failed.
NOT_BEFORE = "not_before"
# What went wrong last, at the server or with a file that is here.
LAST_ERROR = "last_error"
HOLD_S = 7 * DAY_S
# So many releases that fail within HOLD_S keep new ones away for as long.
MOST_FAILED = 3
STRIKES = 2
FAILURES = 3
# A trial is over after so many starts that ended well, or so long after the first.
STARTS = 3
TRIAL_S = DAY_S


class Counter(Protocol):
    """Takes note of what happened, for reports."""

    def __call__(
        self,
        model: str,
        release: str,
        arm: str,
        code: Code,
        *,
        previous: str = "",
        error: BaseException | None = None,
    ) -> None:
        """Count one; never raises."""
        ...


@dataclass(frozen=True)
class Release:
    """A model ready to run.

    path: of the main file. version: PEP 440. source: "delivered", or "embedded": it came in the
    wheel. files: all of them by name. digest: sha256 of its manifest, None if embedded.
    on_trial: it has yet to prove itself, see Client.mark_ok. arm: of the rollout, for reports.
    """

    model: str
    channel: str
    path: Path
    version: str
    source: Literal["embedded", "delivered"]
    files: Mapping[str, Path]
    digest: str | None = None
    on_trial: bool = False
    arm: str = "embedded"


class Device:
    """One folder of a device; any thread may use it, and several processes at a time."""

    def __init__(
        self,
        folder: Path,
        store: BlobStore,
        clock: Clock,
        count: Counter,
        baselines: Mapping[str, Path],
    ) -> None:
        """baselines: models of the app that stand in the place of the wheel's, by name."""
        self.folder = folder
        self.store = store
        self.state = State(folder / "state.db", self._rebuild)
        self.releases = Releases(folder / "releases", store)
        self.count = count
        self._clock = clock
        self._processes = Processes(folder / "running")
        self._baselines = {
            name: Embedded(name, "0", path.absolute()) for name, path in baselines.items()
        }
        # Of this process: the releases it runs, and the candidates it has begun to try.
        self._entered: set[tuple[str, str, str]] = set()
        self._tried: dict[tuple[str, str], str] = {}

    def now(self) -> float:
        """Seconds since 1970, by the clock that does not go back."""
        return self._clock.now().timestamp()

    def is_due(self, model: str) -> bool:
        """Whether it is time to ask the server what is new of a model."""
        now = self.now()
        waits = [self.state.number(NOT_BEFORE)]
        if (known := self.state.policy(model)) is not None:
            waits.append(known[2])
        # A clock that was far ahead when a time was noted must not put checks off for long.
        return all(not now < wait < now + 31 * DAY_S for wait in waits)

    def embedded(self, model: str) -> Embedded | None:
        """The model of the app or the wheel."""
        return self._baselines.get(model) or shipped().get(model)

    def take(self, model: str, channel: str) -> Release:
        """The release to run now; it only reads but for a release that is yet to be tried.

        Raises DeliveryError if nothing of this name was ever here.
        """
        if self.folder.is_dir():
            for _ in range(2):
                try:
                    return self._take(model, channel)
                except DeliveryError as error:
                    log.warning("%s", error)
                    if error.code != "state_rebuilt":
                        break
        return self.fallback(model, channel)

    def _take(self, model: str, channel: str) -> Release:
        slot = self.state.slot(model, channel)
        tried = self._tried.get((model, channel))
        is_new = slot.stage == "TRIAL" and slot.candidate != tried
        if tried is None or is_new or slot.stage == "STAGED":
            slot = self._begin(slot)
        while True:
            is_trial = slot.stage == "TRIAL" and slot.candidate is not None
            digest = slot.candidate if is_trial else slot.active
            if digest is None or slot.pinned == "embedded":
                return self.fallback(model, channel, slot.arm)
            release = self._opened(slot, digest, is_trial)
            if release is not None:
                return release
            slot = self.lose(slot, digest)

    def _begin(self, slot: Slot) -> Slot:
        """What the process finds at its start: those that died on trial, and a trial of its own."""
        key = slot.model, slot.channel
        try:
            with self.state.transaction():
                self._bury()
                slot = self.state.slot(*key)
                if slot.candidate is not None and slot.stage in ("STAGED", "TRIAL"):
                    self._try(slot)
        except (DeliveryError, OSError) as error:
            if isinstance(error, DeliveryError) and error.code == "state_rebuilt":
                raise
            # What cannot be noted down beforehand is not tried.
            log.warning("%s", error)
            slot.drop_candidate()
        self._tried[key] = slot.candidate or "" if slot.stage == "TRIAL" else ""
        return slot

    def _try(self, slot: Slot) -> None:
        token, now = self._processes.token(), self.now()
        self._processes.at_end_of_worker(self.close)
        digest = slot.candidate or ""
        on_trial = [row for row in self.state.running() if row[3] == digest and row[4]]
        is_proven = slot.starts >= STARTS or (slot.starts and now - slot.since > TRIAL_S)
        if slot.stage == "TRIAL" and is_proven and not on_trial:
            self._promote(slot)
            return
        if slot.stage == "STAGED":
            slot.stage, slot.since = "TRIAL", now
        slot.starts += 1
        self.state.enter(token, slot.model, slot.channel, digest, True)
        self.state.save(slot)

    def _bury(self) -> None:
        """Count against a release each process that died while it tried it."""
        rows = self.state.running()
        dead = {token for token in {row[0] for row in rows} if self._processes.is_dead(token)}
        for token, model, channel, digest, on_trial in rows:
            if token not in dead or not on_trial:
                continue
            slot = self.state.slot(model, channel)
            if slot.candidate != digest:
                continue
            slot.strikes += 1
            self.state.save(slot)
            if slot.strikes >= STRIKES:
                self._blame(slot, digest, "crash_trial")
            elif (manifest := self.state.manifest(digest)) is not None:
                self.count(model, manifest.release, slot.arm, "crash_trial")
        for token in dead:
            self.state.leave(token)

    def _opened(self, slot: Slot, digest: str, on_trial: bool) -> Release | None:
        """The release, or None if its files are not whole or the wheel has a newer one."""
        manifest = self.state.manifest(digest)
        if manifest is None or self.is_older(slot.model, manifest.release):
            return None
        try:
            files = self.releases.files(digest, manifest)
        except OSError as error:
            raise durable.explain(error, f"{slot.model} {manifest.release}") from error
        if files is None:
            return None
        key = slot.model, slot.channel
        if not on_trial and (*key, digest) not in self._entered:
            with suppress(DeliveryError, OSError):
                self.state.enter(self._processes.token(), *key, digest, False)
            self._entered.add((*key, digest))
        return Release(
            *key,
            files[manifest.main],
            manifest.release,
            "delivered",
            files,
            digest,
            on_trial,
            slot.arm,
        )

    def lose(self, slot: Slot, digest: str) -> Slot:
        """A release cannot be opened any more: the one before it runs, until it was fetched anew.

        That is no fault of the release, so that it does not go into quarantine.
        """
        with suppress(DeliveryError), self.state.transaction():
            slot = self.state.slot(slot.model, slot.channel)
            arm, manifest = slot.arm, self.state.manifest(digest)
            was_held = slot.forget(digest)
            self.state.save(slot)
            if manifest is None or self.is_older(slot.model, manifest.release):
                was_held = False
            if was_held and manifest is not None:
                message = f"{slot.model} {manifest.release}: its files here were damaged"
                log.warning("%s", message)
                self.state.set_fact(LAST_ERROR, f"hash_mismatch: {message}")
                # It is time to ask for it.
                if (known := self.state.policy(slot.model)) is not None:
                    self.state.save_policy(slot.model, known[0], known[1], 0.0)
                self.count(slot.model, manifest.release, arm, "hash_mismatch")
        slot.forget(digest)
        return slot

    def is_rotten(self, digest: str) -> bool:
        """Whether a file of a release is not what was signed, so that it proves nothing."""
        manifest = self.state.manifest(digest)
        return manifest is not None and self.releases.is_damaged(digest, manifest)

    def _blame(
        self, slot: Slot, digest: str, code: Code, error: BaseException | None = None
    ) -> None:
        """Condemn a release, unless it is its file that was damaged."""
        if self.is_rotten(digest):
            self.lose(slot, digest)
        else:
            self.condemn(slot.model, digest, code, error)

    def fallback(self, model: str, channel: str, arm: str = "embedded") -> Release:
        """The model of the app or the wheel, as a release; DeliveryError if there is none."""
        found = self.embedded(model)
        if found is None:
            raise DeliveryError("download_fail", f"no such model here: {model}")
        files = {found.path.name: found.path}
        arm = "control" if arm == "control" else "embedded"
        return Release(model, channel, found.path, found.version, "embedded", files, arm=arm)

    def is_older(self, model: str, release: str) -> bool:
        """Whether a release is below the one in the wheel, which then is better."""
        from packaging.version import Version

        found = self.embedded(model)
        return found is not None and Version(release) < Version(found.version)

    def mark_ok(self, release: Release) -> None:
        """A release on trial works: it is the active one from now on."""
        if release.digest is None:
            return
        with self.state.transaction():
            slot = self.state.slot(release.model, release.channel)
            if slot.candidate == release.digest and slot.stage == "TRIAL":
                self._promote(slot)

    def _promote(self, slot: Slot) -> None:
        digest = slot.candidate or ""
        slot.promote()
        self.state.save(slot)
        self.state.trial_is_over(slot.model, slot.channel, digest)
        if (manifest := self.state.manifest(digest)) is not None:
            self.releases.mark(manifest, digest, slot.channel, self.now())

    def fail(self, release: Release, code: Code, error: BaseException | None = None) -> None:
        """A release failed at work; code "rollback" is a doubt, of which it takes three."""
        if release.digest is None:
            return
        with self.state.transaction():
            slot = self.state.slot(release.model, release.channel)
            if release.digest not in (slot.candidate, slot.active):
                return
            slot.failures += 1
            self.state.save(slot)
            if code != "rollback" or slot.failures >= FAILURES:
                self._blame(slot, release.digest, code, error)

    def condemn(
        self, model: str, digest: str, code: Code, error: BaseException | None = None
    ) -> None:
        """A release must not run again: into quarantine, and back to the one before it."""
        manifest = self.state.manifest(digest)
        if manifest is None:
            return
        with suppress(OSError):
            self.releases.unmark(manifest, digest)
        now = self.now()
        with self.state.transaction():
            arms: list[tuple[str, str]] = []
            known = self.policy(model)
            entry = Quarantined(
                digest, model, manifest.release, code, now, known.retry_epoch if known else 0
            )
            self.state.put_in_quarantine(entry)
            failed = [each for each in self.state.quarantine(model) if each.at > now - HOLD_S]
            for slot in self.state.slots(model):
                ran = digest == slot.active or (slot.candidate == digest and slot.stage == "TRIAL")
                if not slot.forget(digest):
                    continue
                arms.append((slot.arm, "rollback" if ran else ""))
                slot.arm = "stable"
                if len(failed) >= MOST_FAILED:
                    slot.held_until = now + HOLD_S
                self.state.save(slot)
        log.warning("%s %s: in quarantine: %s", model, manifest.release, code)
        for arm, rollback in arms:
            previous = self._name(model)
            self.count(model, manifest.release, arm, code, previous=previous, error=error)
            self.count(model, manifest.release, arm, "quarantined", previous=previous)
            if rollback and code != "rollback":
                self.count(model, manifest.release, arm, "rollback", previous=previous)

    def _name(self, model: str) -> str:
        for slot in self.state.slots(model):
            if slot.active is not None and (manifest := self.state.manifest(slot.active)):
                return manifest.release
        found = self.embedded(model)
        return "" if found is None else found.version

    def policy(self, model: str) -> Policy | None:
        """The last policy that was verified."""
        known = self.state.policy(model)
        with suppress(DeliveryError):
            return None if known is None else parse_policy(known[1])
        # Damaged on the disk: the server has it.
        return None

    def apply(self, policy: Policy, document: bytes, next_check: float) -> None:
        """Keep a policy, and take away at once what it takes away.

        Raises DeliveryError (rollback_attack) if a later one was seen.
        """
        with self.state.transaction():
            known = self.state.policy(policy.model)
            if known is not None and known[0] > policy.epoch:
                message = f"policy of {policy.model}: expected epoch {known[0]}, got {policy.epoch}"
                raise DeliveryError("rollback_attack", message)
            self.state.save_policy(policy.model, policy.epoch, document, next_check)
            recalled = self._take_away(policy)
        self._tell_of_recall(policy.model, recalled)
        with suppress(OSError):
            file = self.releases.policy_file(policy.model)
            durable.make_folder(file.parent, file.parent.parent)
            durable.write(file, document)

    def recall(self, model: str, kept: str | None = None) -> None:
        """Take away what the last policy takes away, as when nothing is pinned any more.

        kept: the release that is pinned now; that it is called back does not matter.
        """
        policy = self.policy(model)
        if policy is not None:
            with self.state.transaction():
                recalled = self._take_away(policy, kept)
            self._tell_of_recall(model, recalled)

    def _take_away(self, policy: Policy, kept: str | None = None) -> list[tuple[str, str]]:
        """Within a transaction; release and arm of each that ran."""
        recalled: list[tuple[str, str]] = []
        for slot in self.state.slots(policy.model):
            called_back = {
                each.release for each in policy.channels.get(slot.channel, ()) if each.recall
            } - {kept}
            for digest in slot.digests():
                manifest = self.state.manifest(digest)
                is_back = manifest is None or manifest.release in called_back
                if manifest is None or is_back or forbidden(policy, digest, manifest):
                    ran = digest == slot.active or slot.stage == "TRIAL"
                    if manifest is not None:
                        with suppress(OSError):
                            self.releases.unmark(manifest, digest)
                        recalled += [(manifest.release, slot.arm)] if ran else []
                    slot.forget(digest)
            self.state.save(slot)
        return recalled

    def _tell_of_recall(self, model: str, recalled: list[tuple[str, str]]) -> None:
        for release, arm in recalled:
            self.count(model, release, arm, "recall", previous=self._name(model))

    def collect(self) -> int:
        """Remove what no slot and no living process needs; how many bytes that freed."""
        with self.state.transaction():
            self._bury()
            kept = {digest for slot in self.state.slots() for digest in slot.digests()}
            kept |= {row[3] for row in self.state.running()}
            for digest in self.state.releases():
                if digest not in kept:
                    self.state.forget(digest)
        blobs: set[str] = set()
        for digest in kept:
            if (manifest := self.state.manifest(digest)) is not None:
                blobs |= {blob(file)[0] for file in manifest.files}
                # What has come of an encrypted file goes by the name of its cipher text.
                blobs |= {file.sha256 for file in manifest.files}
        self.releases.keep_only(kept)
        return self.store.collect(blobs)

    def close(self) -> None:
        """The process ends in good order: that says nothing against what it tried."""
        with suppress(DeliveryError, OSError):
            if (self._entered or self._tried) and self.state.exists():
                self.state.leave(self._processes.token())
        self._processes.leave()
        self.state.close()

    def _rebuild(self, state: State) -> None:
        for model in rebuild(state, self.releases):
            self.count(model, self._name(model), "stable", "state_rebuilt")
