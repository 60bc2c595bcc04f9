"""The rollout policy of a model, and how a device applies it by itself.

The policy is data, signed by the rollout role: which release runs where, for what share of the
devices. A device draws its place between 0 and 1 from a random seed that never leaves it; no server
is asked and none learns who takes part.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, cast

from palmkit.delivery.document import MODEL, RELEASE, Fields, dump
from palmkit.engine.errors import DeliveryError

Arm = Literal["candidate", "control"]
MOST_EPOCH = 1 << 53


@dataclass(frozen=True)
class Condition:
    """A fact of the device that must hold.

    fact: sdk, os, arch, cpu, memory_mb or tag.
    test: "in" (one of the list; for sdk: PEP 440 versions like ">=0.2"), "has" (all of the list),
    "at_least", "at_most". A fact or test that is not known does not hold.
    """

    fact: str
    test: str
    value: Any


@dataclass(frozen=True)
class Candidate:
    """A release offered on a channel.

    percent: share of the devices, 0..100, that take it. salt: drawn anew for a new release, so that
    other devices go first. halt: no further device takes it, those that have it keep it. recall:
    those that have it go back. when: conditions that must all hold.
    """

    release: str
    percent: float
    salt: str = ""
    halt: bool = False
    recall: bool = False
    when: tuple[Condition, ...] = ()


@dataclass(frozen=True)
class Policy:
    """What is to run where.

    epoch: counts up with each change; a device accepts a smaller one only after the rollout's key
    was replaced.
    channels: candidates of each channel, the best first.
    floor: releases below it may not run (None: all may). revoked: sha256 of manifests or files, or
    releases, that may not run. retry_epoch: counting it up lets devices retry what they put into
    quarantine. sampling: share of the devices, 0..1, that may report. next_check_s: seconds until a
    device asks again.
    """

    model: str
    epoch: int
    channels: Mapping[str, tuple[Candidate, ...]]
    floor: str | None = None
    revoked: frozenset[str] = field(default_factory=frozenset[str])
    retry_epoch: int = 0
    sampling: float = 1.0
    next_check_s: float = 86400.0

    def dump(self) -> bytes:
        """Return the document as bytes."""
        content = asdict(self) | {"revoked": sorted(self.revoked)}
        return dump({"schema": 1, **content})


def parse(content: bytes) -> Policy:
    """Return the policy in the bytes of a document.

    Raises DeliveryError (policy_invalid) that says what is wrong where.
    """
    fields = Fields.parse(content, "policy", "policy_invalid")
    channels = fields.object("channels")
    policy = Policy(
        model=fields.text("model", MODEL),
        epoch=fields.whole("epoch", 0, MOST_EPOCH),
        channels={
            name: tuple(_candidate(entry) for entry in channels.objects(name, 64))
            for name in channels.names()
        },
        floor=fields.text("floor", RELEASE) if fields.has("floor") else None,
        revoked=frozenset(fields.texts("revoked")),
        retry_epoch=fields.whole("retry_epoch", 0),
        sampling=fields.number("sampling", 0, 1),
        next_check_s=fields.number("next_check_s", 60, 30 * 86400),
    )
    for release in (policy.floor, *(c.release for cs in policy.channels.values() for c in cs)):
        if release is not None and _version(release) is None:
            raise DeliveryError("policy_invalid", f"policy: expected a version, got {release!r}")
    return policy


def _condition(fields: Fields) -> Condition:
    return Condition(
        fields.text("fact", most=64), fields.text("test", most=64), fields.value("value")
    )


def _candidate(fields: Fields) -> Candidate:
    return Candidate(
        fields.text("release", RELEASE),
        fields.number("percent", 0, 100),
        fields.text("salt", most=256),
        fields.flag("halt"),
        fields.flag("recall"),
        tuple(_condition(entry) for entry in fields.objects("when", 64)),
    )


def bucket(seed: bytes, model: str, release: str, salt: str) -> float:
    """Return a device's place, 0 to below 1, in a release's rollout: uniform and permanent.

    seed: random bytes of the device, made once and never sent.
    """
    message = f"{model}|{release}|{salt}".encode()
    return int.from_bytes(hmac.digest(seed, message, "sha256")[:8], "big") / 2**64


def arm(candidate: Candidate, place: float) -> Arm | None:
    """Return whether a device takes the release, or is in its equally large control group.

    place: the device's bucket.
    """
    share = candidate.percent / 100
    if place < share:
        return "candidate"
    return "control" if place < 2 * share else None


def holds(condition: Condition, facts: Mapping[str, object]) -> bool:
    """Return whether a condition holds for the facts of this device; never raises."""
    fact, value = facts.get(condition.fact), condition.value
    if condition.fact == "sdk" and condition.test == "in":
        return isinstance(fact, str) and isinstance(value, str) and sdk_fits(value, fact)
    if condition.test == "in" and isinstance(value, list):
        return fact in value
    if condition.test == "has" and isinstance(value, list) and isinstance(fact, frozenset):
        return all(isinstance(one, str) and one in fact for one in cast("list[object]", value))
    if condition.test in ("at_least", "at_most"):
        if not isinstance(fact, int | float) or not isinstance(value, int | float):
            return False
        return fact >= value if condition.test == "at_least" else fact <= value
    return False


def sdk_fits(specifier: str, version: str) -> bool:
    """Return whether a version matches a PEP 440 specifier; False if either is invalid."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    number = _version(version)
    try:
        return number is not None and SpecifierSet(specifier).contains(number, prereleases=True)
    except InvalidSpecifier:
        return False


def allowed(policy: Policy, release: str) -> bool:
    """Return whether a release is neither revoked by its name nor below the floor."""
    version = _version(release)
    if version is None or release in policy.revoked:
        return False
    floor = None if policy.floor is None else _version(policy.floor)
    return floor is None or version >= floor


def choose(
    policy: Policy,
    channel: str,
    facts: Mapping[str, object],
    seed: bytes,
    installed: str | None,
    can_run: Callable[[str], bool],
) -> Candidate | None:
    """Return the first candidate of a channel that this device is to run; None: nothing new.

    facts: sdk, os, arch (texts), cpu, tag (frozensets of texts), memory_mb (a number). installed:
    the release that runs here now. can_run: returns whether a release's manifest fits this device
    and is neither revoked nor in quarantine; called last, as it may have to fetch the manifest.
    Raises DeliveryError (policy_invalid) if there is no such channel.
    """
    if channel not in policy.channels:
        known = ", ".join(sorted(policy.channels)) or "none"
        raise DeliveryError("policy_invalid", f"no channel {channel!r}, those there are: {known}")
    for candidate in policy.channels[channel]:
        release = candidate.release
        if candidate.recall or not allowed(policy, release):
            continue
        if not all(holds(condition, facts) for condition in candidate.when):
            continue
        if release != installed:
            place = bucket(seed, policy.model, release, candidate.salt)
            if candidate.halt or arm(candidate, place) != "candidate":
                continue
        if can_run(release):
            return candidate
    return None


def _version(text: str) -> Any:
    from packaging.version import InvalidVersion, Version

    try:
        return Version(text)
    except InvalidVersion:
        return None
