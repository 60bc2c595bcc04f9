"""The state machine of a slot: what each event does, and what no sequence of events may do."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from palmkit.delivery.codes import Code
from palmkit.delivery.slot import (
    EMBEDDED,
    FAILURES,
    HOLD_S,
    MOST_FAILED,
    STARTS,
    STRIKES,
    TRIAL_S,
    Acquit,
    Blame,
    Chosen,
    ChosenEmbedded,
    Condemned,
    Count,
    Died,
    Effect,
    EndTrials,
    Enter,
    Event,
    Failed,
    FetchAnew,
    Forbidden,
    Lost,
    Mark,
    Pinned,
    Placed,
    Reached,
    Restored,
    Slot,
    Stage,
    Started,
    Unmark,
    Worked,
    step,
)
from palmkit.delivery.state import read_slot

NEW = Slot("doubler", "stable")
DIGESTS = ("a", "b", "c", "d")
STAGES: tuple[Literal["DOWNLOADING", "VERIFIED", "STAGED"], ...] = (
    "DOWNLOADING",
    "VERIFIED",
    "STAGED",
)
CODES: tuple[Code, ...] = ("nan", "load_fail", "crash_trial", "rollback")


def after(slot: Slot, *events: Event) -> Slot:
    for event in events:
        slot = step(slot, event).slot
    return slot


def staged(digest: str) -> tuple[Event, ...]:
    return (Chosen(digest), *(Reached(digest, stage) for stage in STAGES))


def active(*digests: str) -> Slot:
    """A slot where these proved themselves, one after the other."""
    slot = NEW
    for digest in digests:
        slot = after(slot, *staged(digest), Started(0.0), Worked(digest))
    return slot


def test_a_release_goes_through_all_stages() -> None:
    slot, effects, stages = NEW, list[Effect](), list[Stage]()
    for event in (*staged("a"), Started(5.0), Worked("a")):
        slot, done = step(slot, event)
        effects += done
        stages.append(slot.stage)
        assert slot.running == ("a" if slot.stage == "TRIAL" or slot.active else None)
    assert stages == ["OFFERED", "DOWNLOADING", "VERIFIED", "STAGED", "TRIAL", ""]
    assert slot == replace(NEW, active="a", since=5.0)
    assert effects == [Acquit("a"), Enter("a"), EndTrials("a"), Mark("a")]


def test_a_release_that_failed_gives_way_to_the_one_before() -> None:
    slot = after(active("a"), *staged("b"), Started(0.0), Placed("candidate"))
    assert slot.running == "b"
    slot, effects = step(slot, Failed("b", "nan"))
    assert effects == (Blame("b", "nan"),) and slot.running == "b", "nobody was condemned yet"
    slot, effects = step(slot, Condemned("b", "nan", 9.0, failed=1))
    assert (slot.running, slot.stage, slot.arm, slot.held_until) == ("a", "", "stable", 0.0)
    assert effects == tuple(
        Count("b", "candidate", code, is_over=True) for code in ("nan", "quarantined", "rollback")
    )


def test_doubts_add_up() -> None:
    slot = active("a", "b")
    for number in range(1, FAILURES + 1):
        slot, effects = step(slot, Failed("b", "rollback"))
        assert effects == ((Blame("b", "rollback"),) if number == FAILURES else ())


def test_a_trial_ends_by_deaths() -> None:
    slot, told = after(NEW, *staged("a"), Started(0.0)), list[Effect]()
    for _ in range(STRIKES):
        slot, effects = step(slot, Died("a"))
        told += effects
    assert told == [Count("a", "embedded", "crash_trial"), Blame("a", "crash_trial")]


@pytest.mark.parametrize("later_s, starts", [(0.0, STARTS), (TRIAL_S + 1, 1)])
def test_a_trial_ends_by_starts_and_by_time(later_s: float, starts: int) -> None:
    slot = after(NEW, *staged("a"), *[Started(7.0)] * starts)
    assert (slot.stage, slot.starts) == ("TRIAL", starts)
    others = Started(7.0 + later_s, is_alone=False)
    assert after(slot, others).stage == "TRIAL", "another process may still die of it"
    assert after(slot, Started(7.0 + later_s)) == replace(NEW, active="a", since=7.0)


def test_so_many_that_failed_keep_new_ones_away() -> None:
    slot = after(NEW, *staged("a"))
    for failed in range(MOST_FAILED + 1):
        held = after(slot, Condemned("a", "nan", 100.0, failed)).held_until
        assert held == (100.0 + HOLD_S if failed >= MOST_FAILED else 0.0)


def test_damaged_files_are_no_fault() -> None:
    slot, effects = step(active("a", "b"), Lost("b"))
    assert slot.running == "a" and effects == (FetchAnew("b", "embedded"),)


def test_what_is_recalled_is_told_only_if_it_ran() -> None:
    slot = after(active("a", "b"), *staged("c"))
    slot, effects = step(slot, Forbidden(frozenset("abcx")))
    assert slot == replace(NEW, since=0.0)
    assert effects == (
        Unmark("a"),
        Unmark("b"),
        Count("b", "embedded", "recall", is_over=True),
        Unmark("c"),
    )


@pytest.mark.parametrize(
    "chosen, running, candidate",
    [
        (None, "c", "c"),
        ("c", "c", "c"),
        ("b", "b", None),
        ("a", "b", "a"),
        ("d", "b", "d"),
    ],
)
def test_what_a_choice_makes_of_a_trial(
    chosen: str | None, running: str, candidate: str | None
) -> None:
    slot = after(active("a", "b"), *staged("c"), Started(0.0), Chosen(chosen))
    assert (slot.running, slot.candidate) == (running, candidate)


def test_what_is_not_offered_any_more_is_not_tried() -> None:
    for reached in range(1, 5):
        slot = after(active("a"), *staged("b")[:reached], Chosen(None), Started(0.0))
        assert (slot.running, slot.candidate) == ("a", None)


def test_the_one_before_that_is_tried_again_is_active_at_once_when_it_is_needed() -> None:
    slot = after(active("a", "b"), *staged("a"), Started(0.0), Lost("b"))
    assert (slot.active, slot.candidate, slot.stage) == ("a", None, "")


def test_what_an_update_says_late_undoes_nothing() -> None:
    for slot in (after(NEW, *staged("a")), after(NEW, *staged("a"), Started(0.0)), active("a")):
        for digest in ("a", "b"):
            for stage in STAGES:
                assert step(slot, Reached(digest, stage)) == (slot, ())


def test_the_wheels_model_is_a_choice_that_can_be_taken_back() -> None:
    slot = after(active("a"), ChosenEmbedded())
    assert (slot.running, slot.previous) == (None, "a")
    assert after(slot, ChosenEmbedded()) == slot


def test_a_pin_on_the_wheels_model_starts_no_trial() -> None:
    """Else a release that never ran would be proved by starts."""
    slot = after(NEW, *staged("a"), Pinned(EMBEDDED), *[Started(0.0)] * (STARTS + 1))
    assert (slot.running, slot.stage, slot.active) == (None, "STAGED", None)
    assert after(slot, Pinned(None), Started(0.0)).running == "a"


def test_a_slot_that_was_kept_before_there_was_a_machine_is_read() -> None:
    kept = (
        '{"model": "doubler", "channel": "beta", "active": "a", "previous": null, "candidate": "b",'
        ' "stage": "TRIAL", "starts": 2, "strikes": 1, "failures": 0, "since": 1764000000.5,'
        ' "arm": "candidate", "pinned": null, "held_until": 0.0}'
    )
    slot = Slot("doubler", "beta", "a", None, "b", "TRIAL", 2, 1, 0, 1764000000.5, "candidate")
    assert read_slot(kept) == slot
    assert json.dumps(asdict(slot)) == kept, "an earlier version reads what this one keeps"
    assert read_slot('{"model": "doubler", "channel": "stable", "of_a_later_one": 1}') == NEW


digests = st.sampled_from(DIGESTS)
events = st.one_of(
    st.builds(Chosen, st.none() | digests),
    st.just(ChosenEmbedded()),
    st.builds(Placed, st.sampled_from(("stable", "candidate", "control"))),
    st.builds(Reached, digests, st.sampled_from(STAGES)),
    st.builds(Started, st.floats(0, 1e6), st.booleans()),
    st.builds(Died, digests),
    st.builds(Worked, digests),
    st.builds(Failed, digests, st.sampled_from(CODES)),
    st.builds(Lost, digests),
    st.builds(Condemned, digests, st.sampled_from(CODES), st.floats(0, 1e6), st.integers(0, 5)),
    st.builds(Forbidden, st.frozensets(digests)),
    st.builds(Pinned, st.none() | st.just(EMBEDDED) | digests),
    st.builds(Restored, digests),
)
# What counts how often it comes; that a process died is kept with its count.
COUNTED = (Started, Died, Failed)
lives = st.lists(events, max_size=30).map(lambda found: after(NEW, *found))


@given(lives, events)
def test_any_event_in_any_state_leaves_a_slot_that_makes_sense(slot: Slot, event: Event) -> None:
    found, _ = step(slot, event)
    assert (found.model, found.channel) == (NEW.model, NEW.channel)
    assert (found.candidate is None) == (found.stage == "")
    if found.candidate is None:
        assert (found.starts, found.strikes) == (0, 0)
    assert found.candidate is None or found.candidate != found.active
    assert found.running in (None, found.candidate, found.active)
    assert read_slot(json.dumps(asdict(found))) == found


@given(lives, events)
def test_only_what_is_chosen_or_restored_comes_in(slot: Slot, event: Event) -> None:
    new = step(slot, event).slot.digests - slot.digests
    assert new <= ({event.digest} if isinstance(event, Chosen | Restored) else set())


@given(lives, events)
def test_what_happened_again_after_a_crash_changes_nothing_more(slot: Slot, event: Event) -> None:
    """The new slot was kept, and the process ended before it knew."""
    once = step(slot, event).slot
    if not isinstance(event, COUNTED):
        again = step(once, event)
        assert again.slot == once
        assert not [each for each in again.effects if not isinstance(each, Acquit)]


@given(lives, digests)
def test_what_may_not_run_is_gone_from_every_place(slot: Slot, digest: str) -> None:
    for event in (
        Lost(digest),
        Condemned(digest, "nan", 0.0, 1),
        Forbidden(frozenset({digest})),
    ):
        assert digest not in step(slot, event).slot.digests


@given(lives)
def test_there_is_always_a_way_back_to_the_wheels_model(slot: Slot) -> None:
    slot = after(slot, Pinned(None))
    for _ in range(3):
        if slot.running is not None:
            slot = after(slot, Condemned(slot.running, "rollback", 0.0, 1))
    assert slot.running is None


@given(lives, st.floats(0, 1e6))
def test_a_trial_ends_whatever_was_before(slot: Slot, now: float) -> None:
    slot = after(slot, Pinned(None), *[Started(now)] * (STARTS + 2))
    assert slot.on_trial is None


@given(lives, st.lists(events, max_size=10))
def test_a_trial_that_nobody_ends_is_not_forgotten(slot: Slot, found: list[Event]) -> None:
    """Only what says something of the release, or what the policy or the user wants, ends it."""
    if (digest := slot.on_trial) is not None:
        harmless = [e for e in found if isinstance(e, Placed | Reached | Pinned | Died | Failed)]
        assert after(slot, *harmless, Chosen(None)).on_trial == digest


class Life(RuleBasedStateMachine):
    """A model on two channels, and a device that does the effects in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.slots = {name: Slot("doubler", name) for name in ("stable", "beta")}
        self.quarantine: set[str] = set()
        self.forbidden: set[str] = set()
        self.rotten: set[str] = set()
        self.proved: set[str] = set()
        self.tried: set[str] = set()
        self.now = 0.0

    def feed(self, channel: str, event: Event) -> None:
        slot, effects = step(self.slots[channel], event)
        self.slots[channel] = slot
        for effect in effects:
            match effect:
                case Blame(digest, code):
                    if digest in self.rotten:
                        self.feed(channel, Lost(digest))
                    else:
                        self.condemn(digest, code)
                case Acquit(digest):
                    self.quarantine.discard(digest)
                case Enter(digest):
                    self.tried.add(digest)
                case Mark(digest):
                    assert digest in self.tried, "proved without a trial"
                    self.proved.add(digest)
                case Unmark(digest):
                    self.proved.discard(digest)
                case Count() | EndTrials() | FetchAnew():
                    pass

    def condemn(self, digest: str, code: Code) -> None:
        self.proved.discard(digest)
        self.quarantine.add(digest)
        for channel in self.slots:
            self.feed(channel, Condemned(digest, code, self.now, len(self.quarantine)))

    channels = st.sampled_from(("stable", "beta"))

    @rule(channel=channels, digest=st.none() | digests, passes=st.booleans(), retry=st.booleans())
    def update(self, channel: str, digest: str | None, passes: bool, retry: bool) -> None:
        """What an update does: it chooses nothing that may not run, and proves what it stages."""
        if digest is None or digest in self.forbidden:
            return self.feed(channel, Chosen(None))
        if digest in self.quarantine and not retry:
            return self.feed(channel, Chosen(None))
        self.feed(channel, Chosen(digest))
        if self.slots[channel].candidate != digest or self.slots[channel].stage == "TRIAL":
            return None
        self.feed(channel, Reached(digest, "DOWNLOADING"))
        self.rotten.discard(digest)
        self.feed(channel, Reached(digest, "VERIFIED"))
        if passes:
            return self.feed(channel, Reached(digest, "STAGED"))
        return self.condemn(digest, "golden_fail")

    @rule(digest=digests)
    def forbid(self, digest: str) -> None:
        self.forbidden.add(digest)
        for channel in self.slots:
            self.feed(channel, Forbidden(frozenset(self.forbidden)))

    @rule(channel=channels, hours=st.sampled_from((0.0, 1.0, 30.0)), alone=st.booleans())
    def start(self, channel: str, hours: float, alone: bool) -> None:
        self.now += hours * 3600
        self.feed(channel, Started(self.now, alone))

    @precondition(lambda self: self.tried)
    @rule(channel=channels, data=st.data(), code=st.sampled_from(CODES), what=st.integers(0, 2))
    def end(self, channel: str, data: st.DataObject, code: Code, what: int) -> None:
        digest = data.draw(st.sampled_from(sorted(self.tried)))
        event: Event = (Died(digest), Worked(digest), Failed(digest, code))[what]
        self.feed(channel, event)

    @rule(digest=digests)
    def rot(self, digest: str) -> None:
        self.rotten.add(digest)

    @rule(channel=channels, release=st.none() | st.just(EMBEDDED))
    def pin(self, channel: str, release: str | None) -> None:
        self.feed(channel, Pinned(release))

    @rule(channel=channels)
    def want_the_wheels(self, channel: str) -> None:
        self.feed(channel, ChosenEmbedded())

    @rule(channel=channels)
    def lose_the_state(self, channel: str) -> None:
        slot = Slot("doubler", channel)
        for digest in sorted(self.proved - self.forbidden):
            slot = step(slot, Restored(digest)).slot
        self.slots[channel] = slot

    @invariant()
    def nothing_runs_that_may_not(self) -> None:
        for slot in self.slots.values():
            assert slot.running not in self.quarantine | self.forbidden
            assert slot.active not in self.quarantine | self.forbidden
            assert slot.running is None or slot.running in self.tried


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
