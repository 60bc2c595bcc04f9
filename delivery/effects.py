"""What a step of a slot's state machine asks for, done on the disk and in reports."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import Protocol

from palmkit.delivery.codes import Code
from palmkit.delivery.embedded import Embedded, is_older
from palmkit.delivery.manifest import Manifest
from palmkit.delivery.releases import Releases
from palmkit.delivery.running import Processes
from palmkit.delivery.slot import (
    Acquit,
    Count,
    Effect,
    EndTrials,
    Enter,
    FetchAnew,
    Mark,
    Slot,
    Unmark,
)
from palmkit.delivery.state import State

log = logging.getLogger("palmkit.delivery")

# Among the facts of a device: what went wrong last, at the server or with a file that is here.
LAST_ERROR = "last_error"


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


class Place(Protocol):
    """Where effects are done: what a Device has."""

    state: State
    releases: Releases
    count: Counter

    def now(self) -> float:
        """Seconds since 1970."""
        ...

    def embedded(self, model: str) -> Embedded | None:
        """The model of the app or the wheel."""
        ...


class Effects:
    """Does them, on one device."""

    def __init__(self, place: Place, processes: Processes) -> None:
        """processes: those that use the device's folder."""
        self._place, self._processes = place, processes

    def do(self, slot: Slot, effect: Effect) -> None:
        """Do what a step to this slot asks for, within the transaction that keeps it.

        Raises DeliveryError, OSError.
        """
        state = self._place.state
        manifest = state.manifest(effect.digest)
        match effect:
            case Enter(digest):
                state.enter(self._processes.token(), slot.model, slot.channel, digest, True)
            case EndTrials(digest):
                state.trial_is_over(slot.model, slot.channel, digest)
            case Mark(digest):
                if manifest is not None:
                    self._place.releases.mark(manifest, digest, slot.channel, self._place.now())
            case Unmark(digest):
                self.unmark(manifest, digest)
            case Acquit(digest):
                state.release_from_quarantine(digest)
            case FetchAnew(_, arm):
                self._fetch_anew(slot.model, manifest, arm)
            case _:
                raise TypeError(f"effect: expected one of the disk, got {effect!r}")

    def unmark(self, manifest: Manifest | None, digest: str) -> None:
        """Take away the note that a release proved itself, if it can be."""
        if manifest is not None:
            with suppress(OSError):
                self._place.releases.unmark(manifest, digest)

    def _fetch_anew(self, model: str, manifest: Manifest | None, arm: str) -> None:
        state, embedded = self._place.state, self._place.embedded(model)
        if manifest is None or is_older(manifest.release, embedded):
            return
        message = f"{model} {manifest.release}: its files here were damaged"
        log.warning("%s", message)
        state.set_fact(LAST_ERROR, f"hash_mismatch: {message}")
        # It is time to ask for it.
        if (known := state.policy(model)) is not None:
            state.save_policy(model, known[0], known[1], 0.0)
        self._place.count(model, manifest.release, arm, "hash_mismatch")

    def tell(self, model: str, counts: Iterable[Count]) -> None:
        """Report what happened to releases of a model."""
        for each in counts:
            if (manifest := self._place.state.manifest(each.digest)) is not None:
                previous = self.name(model) if each.is_over else ""
                about = model, manifest.release, each.arm, each.code
                self._place.count(*about, previous=previous, error=each.error)

    def name(self, model: str) -> str:
        """The release of a model that runs, "" for none."""
        for slot in self._place.state.slots(model):
            if slot.active and (manifest := self._place.state.manifest(slot.active)):
                return manifest.release
        found = self._place.embedded(model)
        return "" if found is None else found.version
