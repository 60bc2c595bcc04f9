"""Updates: releases of the repository are chosen, fetched, checked and staged on the device."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from palmkit.delivery import deadline, durable, golden, reports
from palmkit.delivery.choice import Choice, Chooser, Refused
from palmkit.delivery.codes import Code
from palmkit.delivery.device import NOT_BEFORE, Device
from palmkit.delivery.effects import LAST_ERROR, log
from palmkit.delivery.lock import FileLock, Held
from palmkit.delivery.manifest import File, Manifest
from palmkit.delivery.policy import Policy
from palmkit.delivery.policy import parse as parse_policy
from palmkit.delivery.releases import blob
from palmkit.delivery.slot import DAY_S, Chosen, ChosenEmbedded, Event, Placed, Reached, Slot
from palmkit.engine.errors import DeliveryError

if TYPE_CHECKING:
    from palmkit.delivery.http import Http
    from palmkit.delivery.trust import Remote

# Names of facts about the server, for all models together.
FAILED, ASKED, STALE = "failed", "asked_not_before", "stale_since"
CHECKED = "checked"
ROLLOUT_KEYS = "rollout_keys"
# The place of the models' policies in the repository.
ROLLOUT = "rollout"
Progress: TypeAlias = Callable[[str, int, int], None]
Prove: TypeAlias = Callable[[golden.Question], golden.Answer]


class Busy(DeliveryError):
    """Raised when another thread or process is updating."""

    def __init__(self, folder: Path) -> None:
        """Make the error.

        folder: the folder that is being updated.
        """
        super().__init__("download_fail", f"another process is updating: {folder}")


class Absent(DeliveryError):
    """Raised when the repository has nothing of a model."""

    def __init__(self, model: str) -> None:
        """Make the error.

        model: the model without a policy.
        """
        super().__init__("download_fail", f"the repository has no {model}")


class Updates:
    """Brings the releases of one repository to a device."""

    def __init__(
        self,
        device: Device,
        remote: Remote,
        urls: Sequence[str],
        http: Http,
        tags: Iterable[str] = (),
        keys: Mapping[str, bytes] | None = None,
        prove: Prove = golden.check,
    ) -> None:
        """Set up the updates of a device.

        urls: of the mirrors. tags: facts of the app. keys: keys of encrypted files, by key_id.
        """
        self._device, self._state = device, device.state
        self._remote, self._urls, self._http = remote, urls, http
        self._keys, self._prove = dict(keys or {}), prove
        self._chooser = Chooser(device, remote, tags, self._keys)

    def refresh(
        self,
        slots: Sequence[tuple[str, str]],
        limit_s: float,
        on_progress: Progress | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        """Ask what is new, and bring what is chosen for these (model, channel) to STAGED.

        limit_s: for all waiting, as in Client.refresh. on_progress: called with file, received,
        size. stop: ends it once it is set; with one, another process that does the same is not
        waited for.
        Raises DeliveryError, the first one if several models have one; what runs stays as it is.
        """
        with deadline.within(limit_s, stop):
            self._refresh(slots, on_progress)

    def _refresh(self, slots: Sequence[tuple[str, str]], on_progress: Progress | None) -> None:
        now = self._device.now()
        if now < (until := self._state.number(ASKED)) <= now + DAY_S:
            message = f"the server asked not to be asked, for {until - now:.0f} s more"
            raise DeliveryError("check_fail_http5xx", message)
        errors: list[DeliveryError] = []
        with self._alone():
            try:
                self._remote.refresh()
            except DeliveryError as error:
                if not deadline.is_stopped():
                    self._failed(error, slots)
                raise
            with self._state.transaction():
                for name in (FAILED, NOT_BEFORE, ASKED, STALE, LAST_ERROR):
                    self._state.set_fact(name, None)
                self._state.set_fact(CHECKED, now)
            for model, channel in slots:
                self._count(model, channel, "check_ok")
                try:
                    self._update(model, channel, on_progress)
                except DeliveryError as error:
                    if error.code == "state_rebuilt":
                        raise
                    if deadline.is_stopped():
                        raise
                    if not isinstance(error, Absent | Refused):
                        self._failed(error, [(model, channel)])
                    errors.append(error)
            self._device.collect()
        if errors:
            raise errors[0]

    def offered(self, channel: str, limit_s: float) -> dict[str, Manifest]:
        """Return the release of each model or data file this device would take now, by name.

        Only metadata is fetched. limit_s: as for refresh.
        Raises DeliveryError if the repository cannot be asked.
        """
        found: dict[str, Manifest] = {}
        with deadline.within(limit_s), self._alone():
            self._remote.refresh()
            for path in self._remote.below(ROLLOUT):
                try:
                    policy = parse_policy(self._remote.target(path))
                    choice = self._chooser.choose(policy, channel)
                except Refused:
                    continue
                except DeliveryError as error:
                    if error.code != "policy_invalid":
                        raise
                    log.warning("%s", error)
                    continue
                if isinstance(choice, Choice) and path == f"{ROLLOUT}/{policy.model}.json":
                    found[policy.model] = choice.manifest
        return found

    @contextmanager
    def _alone(self) -> Generator[None]:
        folder = self._device.folder
        lock = FileLock(folder / "update.lock")
        began = time.monotonic()
        try:
            durable.make_folder(folder, folder)
            # Half of the time is kept for the server.
            lock.acquire(0.0 if deadline.stop_event() is not None else deadline.left_s() / 2)
        except Held:
            raise Busy(folder) from None
        except OSError as error:
            raise DeliveryError("disk_full", f"{folder}: {error.strerror}") from None
        finally:
            deadline.spend(time.monotonic() - began)
        try:
            yield
        finally:
            lock.release()

    def _failed(self, error: DeliveryError, slots: Iterable[tuple[str, str]]) -> None:
        """Store when the next try may be, and count what happened."""
        from palmkit.delivery.http import backoff_s

        log.info("%s", error)
        now, failures = self._device.now(), int(self._state.number(FAILED))
        asked_s: float | None = getattr(error, "retry_after_s", None)
        wait_s = DAY_S if error.code == "disk_full" else backoff_s(failures)
        with self._state.transaction():
            self._state.set_fact(FAILED, failures + 1)
            self._state.set_fact(NOT_BEFORE, now + max(wait_s, asked_s or 0.0))
            self._state.set_fact(ASKED, None if asked_s is None else now + asked_s)
            self._state.set_fact(LAST_ERROR, f"{error.code}: {error}")
            if error.code == "expired" and self._state.fact(STALE) is None:
                self._state.set_fact(STALE, now)
        for model, channel in slots:
            self._count(model, channel, error.code)
            if error.code == "expired":
                self._count(model, channel, "stale")

    def _count(self, model: str, channel: str, code: str) -> None:
        slot = self._state.slot(model, channel)
        manifest = None if slot.active is None else self._state.manifest(slot.active)
        embedded = self._device.embedded(model)
        release = manifest.release if manifest else embedded.version if embedded else "0"
        where = "embedded" if manifest is None else slot.arm
        self._device.count(model, release, where, code)  # type: ignore[arg-type]

    def _update(self, model: str, channel: str, on_progress: Progress | None) -> None:
        document = self._policy(model)
        keys = self._remote.keys_of(f"{ROLLOUT}/{model}.json")
        if self._state.fact(ROLLOUT_KEYS) != keys:
            # A thief of the old key may have signed an epoch too high to exceed.
            with self._state.transaction():
                self._state.forget_epochs()
                self._state.set_fact(ROLLOUT_KEYS, keys)
        policy = parse_policy(document)
        if policy.model != model:
            message = f"policy: expected one of {model}, got one of {policy.model}"
            raise DeliveryError("policy_invalid", message)
        pause_s = policy.next_check_s * random.uniform(0.75, 1.25)
        with self._state.transaction():
            self._state.save(self._state.slot(model, channel))
        self._device.apply(policy, document, self._device.now() + pause_s)
        reports.sampling(model, policy.sampling)
        choice = self._chooser.choose(policy, channel)
        with self._state.transaction():
            slot = self._settle(policy, channel, choice)
        is_chosen = isinstance(choice, Choice) and slot.candidate == choice.digest
        if isinstance(choice, Choice) and is_chosen and slot.stage not in ("STAGED", "TRIAL"):
            self._install(slot, choice, on_progress)

    def _settle(
        self, policy: Policy, channel: str, choice: Choice | Literal["embedded"] | None
    ) -> Slot:
        """Make the choice the candidate if it should be, within a transaction."""
        event: Event = Chosen(None)
        if choice == "embedded":
            event = ChosenEmbedded()
        elif choice is not None:
            event = Chosen(choice.digest)
            if self._chooser.is_quarantined(policy, choice.digest):
                raise Refused(f"{policy.model}: failed in another process meanwhile")
            if self._state.manifest(choice.digest) is None:
                self._state.remember(choice.digest, choice.document)
        slot = self._device.feed(policy.model, channel, event)
        if slot.candidate is None or slot.stage == "TRIAL":
            slot = self._place(policy, slot, self._chooser.running(slot))
        return slot

    def _place(self, policy: Policy, slot: Slot, release: str | None) -> Slot:
        """Record the arm of the rollout that a device with this release is in."""
        arm = self._chooser.arm(policy, slot.channel, release)
        return self._device.feed(slot.model, slot.channel, Placed(arm))

    def _policy(self, model: str) -> bytes:
        from palmkit.delivery.trust import Missing

        try:
            return self._remote.target(f"{ROLLOUT}/{model}.json")
        except Missing:
            raise Absent(model) from None

    def _install(self, slot: Slot, choice: Choice, on_progress: Progress | None) -> None:
        manifest, digest = choice.manifest, choice.digest
        self._reach(slot, digest, "DOWNLOADING")
        for file in manifest.files:
            self._fetch(slot, manifest, file, on_progress)
        self._reach(slot, digest, "VERIFIED")
        self._device.releases.place(digest, choice.document)
        files = self._device.releases.files(digest, manifest) or {}
        answer = self._prove(self._question(slot, manifest, files))
        if answer.code is not None:
            if self._device.is_rotten(digest):
                self._device.lose(slot, digest)
                message = f"{manifest.model} {manifest.release}: a file was damaged on this device"
                raise DeliveryError("hash_mismatch", message)
            self._device.condemn(slot.model, digest, answer.code)
            message = f"{manifest.model} {manifest.release}: {answer.code}: {answer.reason}"
            raise Refused(message)
        self._reach(slot, digest, "STAGED")

    def _question(
        self, slot: Slot, manifest: Manifest, files: Mapping[str, Path]
    ) -> golden.Question:
        main, given = str(files[manifest.main]), manifest.golden
        if given is None:
            return golden.Question(main)
        return golden.Question(
            main,
            str(files[given.file]),
            given.rtol,
            given.atol,
            given.max_latency_ratio,
            self._baseline(slot),
        )

    def _baseline(self, slot: Slot) -> str | None:
        """Return the model that runs now; None for one that is new here."""
        try:
            return str(self._device.take(slot.model, slot.channel).path)
        except DeliveryError:
            return None

    def _reach(
        self, slot: Slot, digest: str, stage: Literal["DOWNLOADING", "VERIFIED", "STAGED"]
    ) -> None:
        """Record that the candidate got this far, if it still is the candidate."""
        with self._state.transaction():
            slot = self._device.feed(slot.model, slot.channel, Reached(digest, stage))
            if slot.candidate != digest:
                message = f"{slot.model}: another candidate came in between"
                raise DeliveryError("download_fail", message)
            if stage == "STAGED" and (policy := self._device.policy(slot.model)) is not None:
                manifest = self._state.manifest(digest)
                self._place(policy, slot, manifest.release if manifest else None)

    def _fetch(
        self, slot: Slot, manifest: Manifest, file: File, on_progress: Progress | None
    ) -> None:
        from palmkit.delivery.download import fetch

        model = slot.model
        embedded = self._device.embedded(model)
        store = self._device.store
        wanted, _ = blob(file)
        if embedded is not None and embedded.sha256 == wanted and store.path(wanted) is None:
            # If the wheel's own file is damaged, the published one is fetched.
            with suppress(DeliveryError, OSError):
                store.add(embedded.path, wanted)
        # The mirror that had the news probably has the files, too.
        urls = [*self._urls[self._remote.first :], *self._urls[: self._remote.first]]

        pace = Pace()

        def note(code: str) -> None:
            known: Code = code  # type: ignore[assignment]
            self._device.count(model, manifest.release, "candidate", known)
            if code == "download_ok" and (kbps := pace.kbps) is not None:
                reports.observe(model, manifest.release, "candidate", "download_kbps", kbps)

        def progress(received: int, total: int) -> None:
            pace.see(received, time.monotonic())
            if on_progress is not None:
                on_progress(file.name, received, total)

        def attempt() -> None:
            fetch(
                store,
                model,
                file,
                urls,
                self._http,
                base=None if embedded is None else embedded.path,
                key=self._keys.get(file.encryption.key_id) if file.encryption else None,
                metadata=self._remote.version,
                on_progress=progress,
                on_event=note,
                wait_s=deadline.left_s(),
            )

        try:
            attempt()
        except DeliveryError as error:
            if error.code != "disk_full":
                raise
            self._device.collect()
            attempt()


class Pace:
    """Measures how fast a file arrives."""

    def __init__(self) -> None:
        """Start with nothing received."""
        self._first = self._last = (0, 0.0)

    def see(self, received: int, time_s: float) -> None:
        """Record the bytes received at a time; fewer than before mean a new start."""
        if not self._first[1] or received < self._last[0]:
            self._first = received, time_s
        self._last = received, time_s

    @property
    def kbps(self) -> float | None:
        """Return kilobits a second from the first bytes to the last; None if it was too quick."""
        took_s = self._last[1] - self._first[1]
        return None if took_s < 1e-3 else (self._last[0] - self._first[0]) * 8e-3 / took_s
