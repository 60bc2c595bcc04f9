"""The effects of a step of a slot's state machine: on the disk and in reports."""

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

# Name of a device's fact: the last error, at the server or with a local file.
LAST_ERROR = "last_error"


class Counter(Protocol):
    """Counts events for reports."""

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
        """Count one event; never raises."""
        ...


class Place(Protocol):
    """The place where effects are done: what a Device has."""

    state: State
    releases: Releases
    count: Counter

    def now(self) -> float:
        """Return seconds since 1970."""
        ...

    def embedded(self, model: str) -> Embedded | None:
        """Return the model of the app or the wheel."""
        ...


class Effects:
    """Does the effects on one device."""

    def __init__(self, place: Place, processes: Processes) -> None:
        """Prepare for a device.

        processes: the processes that use the device's folder.
        """
        self._place, self._processes = place, processes

    def do(self, slot: Slot, effect: Effect) -> None:
        """Do an effect of a step to this slot, within the transaction that stores it.

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
        """Remove the note that a release proved itself, if possible."""
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
        # A new check of the server is due.
        if (known := state.policy(model)) is not None:
            state.save_policy(model, known[0], known[1], 0.0)
        self._place.count(model, manifest.release, arm, "hash_mismatch")

    def tell(self, model: str, counts: Iterable[Count]) -> None:
        """Report events of a model's releases."""
        for each in counts:
            if (manifest := self._place.state.manifest(each.digest)) is not None:
                previous = self.name(model) if each.is_over else ""
                about = model, manifest.release, each.arm, each.code
                self._place.count(*about, previous=previous, error=each.error)

    def name(self, model: str) -> str:
        """Return the release of a model that runs, "" for none."""
        for slot in self._place.state.slots(model):
            if slot.active and (manifest := self._place.state.manifest(slot.active)):
                return manifest.release
        found = self._place.embedded(model)
        return "" if found is None else found.version
