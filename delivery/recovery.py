"""What a device still knows when its state file is lost, from the notes beside the releases."""

from __future__ import annotations

from contextlib import suppress

from palmkit.delivery import durable
from palmkit.delivery.policy import parse
from palmkit.delivery.releases import Releases, forbidden
from palmkit.delivery.slot import Restored, Slot, step
from palmkit.delivery.state import State
from palmkit.engine.errors import DeliveryError


def rebuild(state: State, releases: Releases) -> set[str]:
    """Fill an empty state with the releases active last and the policies; return the models.

    Quarantine, pins and the place in rollouts are lost. A failed release was unmarked before the
    failure was recorded, so none comes back.
    """
    proven: dict[tuple[str, str], list[tuple[float, str]]] = {}
    for digest, document, manifest, channels in releases.found():
        state.remember(digest, document)
        for channel, at in channels.items():
            proven.setdefault((manifest.model, channel), []).append((at, digest))
    for (model, channel), found in proven.items():
        slot = Slot(model, channel, arm="stable")
        policy = None
        with suppress(OSError, DeliveryError):
            document = durable.read(releases.policy_file(model))
            policy = parse(document)
            state.save_policy(model, policy.epoch, document, 0)
        for _, digest in sorted(found):
            known = state.manifest(digest)
            if known is None or (policy is not None and forbidden(policy, digest, known)):
                continue
            slot = step(slot, Restored(digest)).slot
        state.save(slot)
    return {model for model, _ in proven}
