"""The models on a device: which release runs, which is on trial, which must not run any more.

Everything that happens is an event for the state machine of `slot.py`, whose effects are done here.
Nothing here needs a network.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from palmkit.delivery import durable
from palmkit.delivery.codes import Code
from palmkit.delivery.effects import Counter, Effects, log
from palmkit.delivery.embedded import Embedded, is_older, shipped
from palmkit.delivery.policy import Policy
from palmkit.delivery.policy import parse as parse_policy
from palmkit.delivery.recovery import rebuild
from palmkit.delivery.releases import Releases, blob, forbidden
from palmkit.delivery.running import Processes
from palmkit.delivery.slot import (
    DAY_S,
    HOLD_S,
    Blame,
    Condemned,
    Count,
    Died,
    Event,
    Failed,
    Forbidden,
    Lost,
    Pinned,
    Slot,
    Started,
    Worked,
    step,
)
from palmkit.delivery.state import Quarantined, State
from palmkit.engine.errors import DeliveryError

if TYPE_CHECKING:
    from palmkit.delivery.clock import Clock
    from palmkit.delivery.store import BlobStore

# Name of a fact: until when the server is not asked after a failure.
NOT_BEFORE = "not_before"


@dataclass(frozen=True)
class Release:
    """A model ready to run.

    path: its main file. version: PEP 440. source: "delivered", or "embedded" for the wheel's.
    files: all files by name. digest: sha256 of its manifest, None if embedded. on_trial: whether it
    has yet to prove itself, see Client.mark_ok. arm: its arm of the rollout, for reports.
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
    """One folder of a device; threads and several processes may use it at the same time."""

    def __init__(
        self,
        folder: Path,
        store: BlobStore,
        clock: Clock,
        count: Counter,
        baselines: Mapping[str, Path],
    ) -> None:
        """Open the folder.

        baselines: models of the app that replace the wheel's, by name.
        """
        self.folder = folder
        self.store = store
        self.state = State(folder / "state.db", self._rebuild)
        self.releases = Releases(folder / "releases", store)
        self.count = count
        self._clock = clock
        self._processes = Processes(folder / "running")
        self._effects = Effects(self, self._processes)
        self._baselines = {
            name: Embedded(name, "0", path.absolute()) for name, path in baselines.items()
        }
        # The releases that this process runs, and the candidates it has begun to try.
        self._entered: set[tuple[str, str, str]] = set()
        self._tried: dict[tuple[str, str], str] = {}

    def now(self) -> float:
        """Return seconds since 1970, by the clock that does not go back."""
        return self._clock.now().timestamp()

    def is_due(self, model: str) -> bool:
        """Return whether it is time to ask the server for updates of a model."""
        if not self.folder.is_dir():
            return True
        now = self.now()
        waits = [self.state.number(NOT_BEFORE)]
        if (known := self.state.policy(model)) is not None:
            waits.append(known[2])
        # A clock that was far ahead when a time was stored must not postpone checks for long.
        return all(not now < wait < now + 31 * DAY_S for wait in waits)

    def is_news(self, number: int) -> bool:
        """Return whether a hint's number differs from the last one, and record it."""
        if self.state.fact("hint") == number:
            return False
        self.state.set_fact("hint", number)
        return True

    def slots(self) -> list[tuple[str, str]]:
        """Return model and channel of all that was ever asked for here."""
        if not self.folder.is_dir():
            return []
        return [(slot.model, slot.channel) for slot in self.state.slots()]

    def embedded(self, model: str) -> Embedded | None:
        """Return the model of the app or the wheel."""
        return self._baselines.get(model) or shipped().get(model)

    def take(self, model: str, channel: str) -> Release:
        """Return the release to run now; this only writes for a release that has yet to be tried.

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
        is_new = slot.on_trial is not None and slot.on_trial != tried
        if tried is None or is_new or slot.stage == "STAGED":
            slot = self._begin(slot)
        while (digest := slot.running) is not None:
            release = self._opened(slot, digest)
            if release is not None:
                return release
            slot = self.lose(slot, digest)
        return self.fallback(model, channel, slot.arm)

    def _begin(self, slot: Slot) -> Slot:
        """Record the start of this process: earlier deaths on trial, and a trial of its own."""
        key = slot.model, slot.channel
        try:
            with self.state.transaction():
                self._bury()
                slot = self.state.slot(*key)
                if slot.candidate is not None and slot.stage in ("STAGED", "TRIAL"):
                    self._processes.at_end_of_worker(self.close)
                    on_trial = {row[3] for row in self.state.running() if row[4]}
                    slot = self.feed(*key, Started(self.now(), slot.candidate not in on_trial))
        except (DeliveryError, OSError) as error:
            if isinstance(error, DeliveryError) and error.code == "state_rebuilt":
                raise
            # A trial that cannot be recorded beforehand does not begin.
            log.warning("%s", error)
            slot = slot.without_candidate()
        self._tried[key] = slot.on_trial or ""
        return slot

    def _bury(self) -> None:
        """Count each process that died while trying a release against it."""
        rows = self.state.running()
        dead = {token for token in {row[0] for row in rows} if self._processes.is_dead(token)}
        for token, model, channel, digest, on_trial in rows:
            if token in dead and on_trial:
                self.feed(model, channel, Died(digest))
        for token in dead:
            self.state.leave(token)

    def feed(self, model: str, channel: str, event: Event) -> Slot:
        """Apply an event to a slot, do its effects and return the new slot.

        Raises DeliveryError; then nothing has changed.
        """
        with self.state.transaction():
            counts = self._step(self.state.slot(model, channel), event)
            slot = self.state.slot(model, channel)
        self._effects.tell(model, counts)
        return slot

    def _step(self, slot: Slot, event: Event) -> list[Count]:
        """Apply an event within a transaction; return what to report after it."""
        after, effects = step(slot, event)
        if after != slot:
            self.state.save(after)
        counts: list[Count] = []
        for effect in effects:
            match effect:
                case Count():
                    counts.append(effect)
                case Blame(digest, code, error):
                    if self.is_rotten(digest):
                        self.feed(slot.model, slot.channel, Lost(digest))
                    else:
                        self.condemn(slot.model, digest, code, error)
                case _:
                    self._effects.do(after, effect)
        return counts

    def _opened(self, slot: Slot, digest: str) -> Release | None:
        """Return the release; None if its files are not whole or the wheel has a newer one."""
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
        on_trial = digest == slot.on_trial
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
        """Run the release before one that cannot be opened, until that was fetched anew.

        That is no fault of the release, so it does not go into quarantine.
        """
        lost = Lost(digest)
        with suppress(DeliveryError):
            slot = self.feed(slot.model, slot.channel, lost)
        # The loss holds even if it cannot be recorded.
        return step(slot, lost).slot

    def is_rotten(self, digest: str) -> bool:
        """Return whether a release has a file that is not as signed, and so proves nothing."""
        manifest = self.state.manifest(digest)
        return manifest is not None and self.releases.is_damaged(digest, manifest)

    def fallback(self, model: str, channel: str, arm: str = "embedded") -> Release:
        """Return the model of the app or the wheel as a release; DeliveryError if none."""
        found = self.embedded(model)
        if found is None:
            raise DeliveryError("download_fail", f"no such model here: {model}")
        files = {found.path.name: found.path}
        arm = "control" if arm == "control" else "embedded"
        return Release(model, channel, found.path, found.version, "embedded", files, arm=arm)

    def is_older(self, model: str, release: str) -> bool:
        """Return whether a release is below the wheel's, which is then better."""
        return is_older(release, self.embedded(model))

    def mark_ok(self, release: Release) -> None:
        """Make a release on trial that works the active one."""
        if release.digest is not None:
            self.feed(release.model, release.channel, Worked(release.digest))

    def fail(self, release: Release, code: Code, error: BaseException | None = None) -> None:
        """Record that a release failed at work; three doubts ("rollback") make one failure."""
        if release.digest is not None:
            self.feed(release.model, release.channel, Failed(release.digest, code, error))

    def roll_back(self, model: str, channel: str) -> None:
        """Condemn what runs because the user wants the release before it."""
        slot = self.state.slot(model, channel)
        if (digest := slot.on_trial or slot.active) is not None:
            self.condemn(model, digest, "rollback")

    def condemn(
        self, model: str, digest: str, code: Code, error: BaseException | None = None
    ) -> None:
        """Put a release that must not run again into quarantine, and go back to the one before."""
        manifest = self.state.manifest(digest)
        if manifest is None:
            return
        self._effects.unmark(manifest, digest)
        now = self.now()
        with self.state.transaction():
            known = self.policy(model)
            retry_epoch = known.retry_epoch if known else 0
            entry = Quarantined(digest, model, manifest.release, code, now, retry_epoch)
            self.state.put_in_quarantine(entry)
            failed = [each for each in self.state.quarantine(model) if each.at > now - HOLD_S]
            condemned = Condemned(digest, code, now, len(failed), error)
            counts = [
                count for slot in self.state.slots(model) for count in self._step(slot, condemned)
            ]
        log.warning("%s %s: in quarantine: %s", model, manifest.release, code)
        self._effects.tell(model, counts)

    def policy(self, model: str) -> Policy | None:
        """Return the last policy that was verified."""
        known = self.state.policy(model)
        with suppress(DeliveryError):
            return None if known is None else parse_policy(known[1])
        # Damaged on the disk: the server has it.
        return None

    def apply(self, policy: Policy, document: bytes, next_check: float) -> None:
        """Store a policy, and remove at once what it forbids.

        Raises DeliveryError (rollback_attack) if a later one was seen.
        """
        with self.state.transaction():
            known = self.state.policy(policy.model)
            if known is not None and known[0] > policy.epoch:
                message = f"policy of {policy.model}: expected epoch {known[0]}, got {policy.epoch}"
                raise DeliveryError("rollback_attack", message)
            self.state.save_policy(policy.model, policy.epoch, document, next_check)
            counts = self._take_away(policy)
        self._effects.tell(policy.model, counts)
        with suppress(OSError):
            file = self.releases.policy_file(policy.model)
            durable.make_folder(file.parent, file.parent.parent)
            durable.write(file, document)

    def pin(self, model: str, channel: str, release: str | None) -> None:
        """Stay with a release, or with "embedded"; None: follow the policy again.

        Another release that the policy has recalled, and that a pin has kept, ends at once.
        """
        self.feed(model, channel, Pinned(release))
        policy = self.policy(model)
        if policy is not None:
            with self.state.transaction():
                counts = self._take_away(policy, release)
            self._effects.tell(model, counts)

    def _take_away(self, policy: Policy, kept: str | None = None) -> list[Count]:
        """Remove forbidden releases within a transaction.

        kept: the release that is pinned, even if it was recalled.
        """
        counts: list[Count] = []
        for slot in self.state.slots(policy.model):
            back = {each.release for each in policy.channels.get(slot.channel, ()) if each.recall}
            counts += self._step(slot, Forbidden(self._forbidden(policy, slot, back - {kept})))
        return counts

    def _forbidden(self, policy: Policy, slot: Slot, recalled: Container[str]) -> frozenset[str]:
        """Return the releases of a slot that may not run."""
        found: set[str] = set()
        for digest in slot.digests:
            manifest = self.state.manifest(digest)
            if (
                manifest is None
                or manifest.release in recalled
                or forbidden(policy, digest, manifest)
            ):
                found.add(digest)
        return frozenset(found)

    def collect(self) -> int:
        """Remove what no slot and no living process needs; return the bytes freed."""
        if not self.folder.is_dir():
            return 0
        with self.state.transaction():
            self._bury()
            kept = {digest for slot in self.state.slots() for digest in slot.digests}
            kept |= {row[3] for row in self.state.running()}
            for digest in self.state.releases():
                if digest not in kept:
                    self.state.forget(digest)
        blobs: set[str] = set()
        for digest in kept:
            if (manifest := self.state.manifest(digest)) is not None:
                blobs |= {blob(file)[0] for file in manifest.files}
                # The part of an encrypted file is named by the digest of its ciphertext.
                blobs |= {file.sha256 for file in manifest.files}
        self.releases.keep_only(kept)
        return self.store.collect(blobs)

    def close(self) -> None:
        """End in good order, which does not count against a release on trial."""
        with suppress(DeliveryError, OSError):
            if (self._entered or self._tried) and self.state.exists():
                self.state.leave(self._processes.token())
        self._processes.leave()
        self.state.close()

    def _rebuild(self, state: State) -> None:
        for model in rebuild(state, self.releases):
            self.count(model, self._effects.name(model), "stable", "state_rebuilt")
