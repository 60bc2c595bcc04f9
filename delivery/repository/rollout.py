"""Changes to a rollout policy, as data: each gives the policy that comes after."""

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
    """The policy of a model of which nothing was ever promoted."""
    return Policy(model, 0, {channel: () for channel in CHANNELS})


def promoted(
    policy: Policy,
    release: str,
    channel: str,
    percent: float,
    when: Sequence[Condition] | None,
) -> Policy:
    """A release is offered on a channel before all others, or keeps its place with more percent."""
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
    # A new salt: others go first than did the last time.
    new = Candidate(release, percent, secrets.token_hex(8), when=tuple(when or ()))
    return _with(policy, channel, (new, *candidates))


def stopped(policy: Policy, release: str, channel: str | None, recall: bool) -> Policy:
    """A release is halted, or recalled, on one channel or (None) on all that have it."""
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
    """A release, and files with these digests, may not run; it is recalled wherever it stands."""
    with suppress(Missing):
        policy = stopped(policy, release, None, recall=True)
    return replace(policy, revoked=policy.revoked | {release, *digests})


def rolled_back(policy: Policy, channel: str, release: str | None) -> Policy:
    """What a channel offers first is recalled, so that what is behind it runs; or up to `release`.

    That one, if given, is then offered to all.
    """
    candidates = policy.channels.get(channel, ())
    usable = [
        index
        for index, each in enumerate(candidates)
        if not each.recall and allowed(policy, each.release)
    ]
    places = [index for index in usable[1:] if release in (None, candidates[index].release)]
    if not places:
        there = ", ".join(candidates[index].release for index in usable) or "none"
        what = f"{policy.model} on {channel}"
        if release is not None:
            raise Missing(
                f"{what}: no {release} behind the first to go back to; releases there: {there}"
            )
        raise Missing(
            f"{what}: nothing behind the first to go back to; releases there: {there}; recall one "
            "by its name to send devices back to what they had before"
        )
    place = places[0]
    recalled = [replace(each, halt=True, recall=True) for each in candidates[:place]]
    back = candidates[place]
    if release is not None:
        back = replace(back, percent=100.0, halt=False)
    return _with(policy, channel, (*recalled, back, *candidates[place + 1 :]))


def _with(policy: Policy, channel: str, candidates: Sequence[Candidate]) -> Policy:
    return replace(policy, channels={**policy.channels, channel: tuple(candidates)})
