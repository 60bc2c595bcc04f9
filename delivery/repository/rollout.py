"""Changes to a rollout policy, as data: each function returns the next policy."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from palmkit.delivery.policy import Candidate, Condition, Policy, allowed
from palmkit.delivery.repository.storage import Missing
from palmkit.engine.errors import RepositoryError

CHANNELS = ("stable", "beta", "canary")


def empty(model: str) -> Policy:
    """Return the policy of a model of which nothing was ever promoted."""
    return Policy(model, 0, {channel: () for channel in CHANNELS})


def promoted(
    policy: Policy,
    release: str,
    channel: str,
    percent: float,
    when: Sequence[Condition] | None,
) -> Policy:
    """Offer a release on a channel before all others, or raise the percent in its place."""
    if not 0 <= percent <= 100:
        raise RepositoryError(f"percent: expected 0 to 100, got {percent}")
    if not allowed(policy, release):
        raise RepositoryError(f"revoked, or below the floor: {policy.model} {release}")
    candidates = policy.channels.get(channel, ())
    for index, each in enumerate(candidates):
        if each.release == release:
            conditions = each.when if when is None else tuple(when)
            again = Candidate(release, percent, each.salt, when=conditions)
            return _with(policy, channel, candidates[:index] + (again,) + candidates[index + 1 :])
    # With a new salt, other devices go first than the last time.
    new = Candidate(release, percent, secrets.token_hex(8), when=tuple(when or ()))
    return _with(policy, channel, (new, *candidates))


def stopped(policy: Policy, release: str, channel: str | None, recall: bool) -> Policy:
    """Halt or recall a release on one channel or (None) on all that have it."""
    changed = policy
    for name, candidates in policy.channels.items():
        if channel in (None, name) and release in [each.release for each in candidates]:
            marked = [
                replace(each, halt=True, recall=recall or each.recall)
                if each.release == release
                else each
                for each in candidates
            ]
            changed = _with(changed, name, tuple(marked))
    if changed is policy:
        where = "any channel" if channel is None else f"the channel {channel}"
        raise Missing(f"not on {where}: {policy.model} {release}")
    return changed


def revoked(policy: Policy, release: str, digests: Iterable[str]) -> Policy:
    """Forbid a release and files with these digests, and recall it wherever it is offered."""
    with suppress(Missing):
        policy = stopped(policy, release, None, recall=True)
    return replace(policy, revoked=policy.revoked | {release, *digests})


def usable(policy: Policy, channel: str) -> list[str]:
    """Return the releases that a channel's devices may run, the best first.

    A rollback recalls the first for the second; with one alone only a recall is left.
    """
    candidates = policy.channels.get(channel, ())
    return [candidates[place].release for place in _places(policy, channel)]


def _places(policy: Policy, channel: str) -> list[int]:
    return [
        place
        for place, each in enumerate(policy.channels.get(channel, ()))
        if not each.recall and allowed(policy, each.release)
    ]


def rolled_back(policy: Policy, channel: str, release: str | None) -> Policy:
    """Recall a channel's first release for the one behind it, or those before `release`.

    That release, if given, is then offered to all.
    """
    candidates = policy.channels.get(channel, ())
    behind = _places(policy, channel)[1:]
    found = [place for place in behind if release in (None, candidates[place].release)]
    if not found:
        there = usable(policy, channel)
        raise Missing(_no_way_back(f"{policy.model} on {channel}", there, release))
    place = found[0]
    recalled = [replace(each, halt=True, recall=True) for each in candidates[:place]]
    back = candidates[place]
    if release is not None:
        back = replace(back, percent=100.0, halt=False)
    return _with(policy, channel, (*recalled, back, *candidates[place + 1 :]))


def _no_way_back(what: str, there: Sequence[str], release: str | None) -> str:
    """Return why a channel cannot be rolled back, and what can be done instead."""
    if not there:
        return f"{what}: nothing to roll back: no release is offered there; promote one"
    if len(there) == 1:
        return (
            f"{what}: nothing behind {there[0]} to go back to; recall {there[0]}, and devices go "
            "back to what they had before it, or promote another release"
        )
    others = ", ".join(there[1:])
    return f"{what}: no {release} behind {there[0]} to go back to, only {others}"


def _with(policy: Policy, channel: str, candidates: Sequence[Candidate]) -> Policy:
    return replace(policy, channels={**policy.channels, channel: tuple(candidates)})
