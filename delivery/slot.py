"""The life of a model on one channel of a device, as a pure state machine.

`step` takes a slot and an event, and returns the new slot and the effects to do. Nothing here reads
a clock, a file or a network, or draws random numbers: `device.py` feeds the events, stores the
slots and does the effects.

A chosen release goes through OFFERED, DOWNLOADING, VERIFIED, STAGED, TRIAL; once it has proved
itself it is the active one. Every way back ends at the model of the wheel.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, TypeAlias

from palmkit.delivery.codes import Code

Stage: TypeAlias = Literal["", "OFFERED", "DOWNLOADING", "VERIFIED", "STAGED", "TRIAL"]
DAY_S = 86400.0
# This many failed releases within HOLD_S keep new ones away for as long.
MOST_FAILED = 3
HOLD_S = 7 * DAY_S
# This many doubts, or deaths of processes on trial, make a failure.
STRIKES = 2
FAILURES = 3
# A trial ends after this many starts that ended well, or this long after the first.
STARTS = 3
TRIAL_S = DAY_S
# A pin on the model of the wheel.
EMBEDDED = "embedded"


@dataclass(frozen=True)
class Slot:
    """A model on a channel; releases are named by the sha256 of their manifests.

    active: the release that proved itself, None: the one in the wheel. previous: the one before.
    candidate: the next release, and its stage. starts, strikes, failures, since (seconds of the
    clock): of its trial. arm: its arm of the rollout. pinned: the release that the user wants,
    "embedded" for the one in the wheel. held_until: no new release is tried before.
    """

    model: str
    channel: str
    active: str | None = None
    previous: str | None = None
    candidate: str | None = None
    stage: Stage = ""
    starts: int = 0
    strikes: int = 0
    failures: int = 0
    since: float = 0.0
    arm: str = "embedded"
    pinned: str | None = None
    held_until: float = 0.0

    @property
    def on_trial(self) -> str | None:
        """The release that is on trial now."""
        return self.candidate if self.stage == "TRIAL" else None

    @property
    def running(self) -> str | None:
        """The release to run now; None for the one in the wheel."""
        return None if self.pinned == EMBEDDED else self.on_trial or self.active

    @property
    def digests(self) -> frozenset[str]:
        """Every release that it may still need."""
        known = self.active, self.previous, self.candidate
        return frozenset(each for each in known if each is not None)

    def without_candidate(self) -> Slot:
        """Return the slot without its candidate."""
        return replace(self, candidate=None, stage="", starts=0, strikes=0, failures=0)

    def without(self, digest: str) -> Slot:
        """Return the slot without a release, with the one before it in its place."""
        slot = self.without_candidate() if self.candidate == digest else self
        if slot.previous == digest:
            slot = replace(slot, previous=None)
        if slot.active == digest:
            slot = replace(slot, active=slot.previous, previous=None)
            # A release that proved itself before needs no second trial.
            return slot.without_candidate() if slot.active == slot.candidate else slot
        return slot


@dataclass(frozen=True)
class Chosen:
    """The policy names the release to run; None: no change."""

    digest: str | None


@dataclass(frozen=True)
class ChosenEmbedded:
    """The policy, or a pin, wants the model of the wheel."""


@dataclass(frozen=True)
class Placed:
    """The device is in this arm of the rollout."""

    arm: str


@dataclass(frozen=True)
class Reached:
    """The update brought a candidate to a stage before its trial."""

    digest: str
    stage: Literal["DOWNLOADING", "VERIFIED", "STAGED"]


@dataclass(frozen=True)
class Started:
    """A process begins.

    is_alone: whether no other living process has the candidate on trial.
    """

    now: float
    is_alone: bool = True


@dataclass(frozen=True)
class Died:
    """A process ended without notice while it had a release on trial."""

    digest: str


@dataclass(frozen=True)
class Worked:
    """A release ran well often enough."""

    digest: str


@dataclass(frozen=True)
class Failed:
    """A release failed at work.

    code: "rollback" is a doubt, any other is certain. error: the exception, for reports.
    """

    digest: str
    code: Code
    error: BaseException | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Lost:
    """The files of a release are no longer whole, which is no fault of the release."""

    digest: str


@dataclass(frozen=True)
class Condemned:
    """A release is in quarantine.

    failed: how many of the model's releases went there within HOLD_S. error: as in Failed.
    """

    digest: str
    code: Code
    now: float
    failed: int
    error: BaseException | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Forbidden:
    """Releases that the policy has recalled or revoked, or that are below its floor."""

    digests: frozenset[str]


@dataclass(frozen=True)
class Pinned:
    """The user wants a release, whatever the policy says; None: follow the policy."""

    release: str | None


@dataclass(frozen=True)
class Restored:
    """A release is known to have been active, after the device's state was lost."""

    digest: str


Event: TypeAlias = (
    Chosen
    | ChosenEmbedded
    | Placed
    | Reached
    | Started
    | Died
    | Worked
    | Failed
    | Lost
    | Condemned
    | Forbidden
    | Pinned
    | Restored
)


@dataclass(frozen=True)
class Blame:
    """Find out whether a release or its files are at fault, and feed Condemned or Lost."""

    digest: str
    code: Code
    error: BaseException | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Count:
    """Report an event of a release in an arm.

    is_over: another release runs now, whose name is reported too.
    """

    digest: str
    arm: str
    code: Code
    is_over: bool = False
    error: BaseException | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Enter:
    """Record that this process has a release on trial."""

    digest: str


@dataclass(frozen=True)
class EndTrials:
    """Stop counting deaths of processes that have the release on trial."""

    digest: str


@dataclass(frozen=True)
class Mark:
    """Record beside a release that it proved itself."""

    digest: str


@dataclass(frozen=True)
class Unmark:
    """Remove the note that a release proved itself, before the new slot is stored."""

    digest: str


@dataclass(frozen=True)
class Acquit:
    """Take a release out of quarantine, as it passed its check again."""

    digest: str


@dataclass(frozen=True)
class FetchAnew:
    """Record that files were damaged, and ask the server for them at the next occasion."""

    digest: str
    arm: str


Effect: TypeAlias = Blame | Count | Enter | EndTrials | Mark | Unmark | Acquit | FetchAnew


class Step(NamedTuple):
    """The result of an event: the slot to store, and the effects to do in this order."""

    slot: Slot
    effects: tuple[Effect, ...] = ()


def step(slot: Slot, event: Event) -> Step:
    """Return the slot after an event, and the effects; an event without meaning changes nothing."""
    match event:
        case Chosen(digest):
            return Step(_choose(slot, digest))
        case ChosenEmbedded():
            slot = slot.without_candidate()
            return Step(replace(slot, previous=slot.active or slot.previous, active=None))
        case Placed(arm):
            return Step(replace(slot, arm=arm))
        case Reached():
            return _reach(slot, event)
        case Started():
            return _start(slot, event)
        case Died(digest):
            return _die(slot, digest)
        case Worked(digest):
            return _prove(slot) if digest == slot.on_trial else Step(slot)
        case Failed():
            return _fail(slot, event)
        case Lost(digest):
            after = slot.without(digest)
            return Step(after, () if after == slot else (FetchAnew(digest, slot.arm),))
        case Condemned():
            return _condemn(slot, event)
        case Forbidden(digests):
            return _forbid(slot, digests)
        case Pinned(release):
            return Step(replace(slot, pinned=release))
        case Restored(digest):
            slot = slot.without(digest)
            return Step(replace(slot, previous=slot.active, active=digest, arm="stable"))


def _choose(slot: Slot, digest: str | None) -> Slot:
    if slot.candidate == digest:
        return slot
    if digest is None or digest == slot.active:
        # A trial goes on; an untried release that is no longer offered is dropped.
        ends = slot.on_trial is None or digest is not None
        return slot.without_candidate() if ends else slot
    return replace(slot.without_candidate(), candidate=digest, stage="OFFERED")


def _reach(slot: Slot, event: Reached) -> Step:
    if slot.candidate != event.digest or slot.stage in ("STAGED", "TRIAL"):
        return Step(slot)
    effects = (Acquit(event.digest),) if event.stage == "STAGED" else ()
    return Step(replace(slot, stage=event.stage), effects)


def _start(slot: Slot, event: Started) -> Step:
    if slot.candidate is None or slot.stage not in ("STAGED", "TRIAL") or slot.pinned == EMBEDDED:
        # A start says nothing about a release that it does not run.
        return Step(slot)
    is_proven = slot.starts >= STARTS or (slot.starts > 0 and event.now - slot.since > TRIAL_S)
    if slot.stage == "TRIAL" and is_proven and event.is_alone:
        return _prove(slot)
    since = event.now if slot.stage == "STAGED" else slot.since
    slot = replace(slot, stage="TRIAL", since=since, starts=slot.starts + 1)
    return Step(slot, (Enter(slot.on_trial or ""),))


def _prove(slot: Slot) -> Step:
    digest = slot.candidate or ""
    slot = replace(slot.without_candidate(), active=digest, previous=slot.active)
    return Step(slot, (EndTrials(digest), Mark(digest)))


def _die(slot: Slot, digest: str) -> Step:
    if slot.candidate != digest:
        return Step(slot)
    slot = replace(slot, strikes=slot.strikes + 1)
    if slot.strikes >= STRIKES:
        return Step(slot, (Blame(digest, "crash_trial"),))
    return Step(slot, (Count(digest, slot.arm, "crash_trial"),))


def _fail(slot: Slot, event: Failed) -> Step:
    if event.digest not in (slot.candidate, slot.active):
        return Step(slot)
    slot = replace(slot, failures=slot.failures + 1)
    is_certain = event.code != "rollback" or slot.failures >= FAILURES
    return Step(slot, (Blame(event.digest, event.code, event.error),) if is_certain else ())


def _condemn(slot: Slot, event: Condemned) -> Step:
    after = slot.without(event.digest)
    if after == slot:
        return Step(slot)
    if event.failed >= MOST_FAILED:
        after = replace(after, held_until=event.now + HOLD_S)
    effects = [Count(event.digest, slot.arm, event.code, is_over=True, error=event.error)]
    effects.append(Count(event.digest, slot.arm, "quarantined", is_over=True))
    if event.digest in (slot.active, slot.on_trial) and event.code != "rollback":
        effects.append(Count(event.digest, slot.arm, "rollback", is_over=True))
    return Step(replace(after, arm="stable"), tuple(effects))


def _forbid(slot: Slot, digests: frozenset[str]) -> Step:
    after, effects = slot, list[Effect]()
    for digest in sorted(slot.digests & digests):
        after = after.without(digest)
        effects.append(Unmark(digest))
        if digest in (slot.active, slot.on_trial):
            effects.append(Count(digest, slot.arm, "recall", is_over=True))
    return Step(after, tuple(effects))
