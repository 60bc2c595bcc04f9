"""The release that a device runs: the best of those that the policy offers and that fit."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Literal

from palmkit.delivery.device import Device
from palmkit.delivery.effects import log
from palmkit.delivery.facts import facts
from palmkit.delivery.manifest import Manifest, parse
from palmkit.delivery.policy import Policy, bucket, sdk_fits
from palmkit.delivery.policy import arm as arm_of
from palmkit.delivery.policy import choose as first_that_fits
from palmkit.delivery.releases import forbidden
from palmkit.delivery.slot import Slot
from palmkit.engine.errors import DeliveryError

if TYPE_CHECKING:
    from palmkit.delivery.trust import Remote


class Refused(DeliveryError):
    """A release that may not run here."""

    def __init__(self, message: str) -> None:
        """Make the error.

        message: which release, and why.
        """
        super().__init__("quarantined", message)


@dataclass(frozen=True)
class Choice:
    """A release that this device is to run."""

    manifest: Manifest
    digest: str
    document: bytes


class Chooser:
    """Decides on the device itself, and asks only the repository, for manifests."""

    def __init__(
        self, device: Device, remote: Remote, tags: Iterable[str], keys: Container[str]
    ) -> None:
        """Decide for a device.

        tags: facts of the app. keys: the key_ids of the keys that it has.
        """
        self._device, self._state, self._remote = device, device.state, remote
        self._tags, self._keys = tuple(tags), keys

    def choose(self, policy: Policy, channel: str) -> Choice | Literal["embedded"] | None:
        """Return the release to run, "embedded" for the wheel's, or None for no change."""
        slot = self._state.slot(policy.model, channel)
        found: dict[str, Choice] = {}
        if slot.pinned == "embedded":
            return "embedded"
        if slot.pinned is not None:
            if not self._can_run(policy, slot.pinned, found):
                message = f"{policy.model} {slot.pinned}: pinned, but it may not run here"
                raise Refused(message)
            return found[slot.pinned]
        if self._device.now() < slot.held_until:
            return None
        installed = self.running(slot)
        embedded = self._device.embedded(policy.model)
        version = None if embedded is None else embedded.version
        chosen = first_that_fits(
            policy,
            channel,
            facts(self._tags),
            self._state.seed(),
            installed,
            lambda release: release == version or self._can_run(policy, release, found),
        )
        if chosen is None:
            return None
        return "embedded" if chosen.release == version else found[chosen.release]

    def running(self, slot: Slot) -> str | None:
        """Return the release that runs here; one on trial comes before the active one."""
        digest = slot.on_trial or slot.active
        manifest = None if digest is None else self._state.manifest(digest)
        if manifest is not None:
            return manifest.release
        embedded = self._device.embedded(slot.model)
        return None if embedded is None else embedded.version

    def _can_run(self, policy: Policy, release: str, found: dict[str, Choice]) -> bool:
        from palmkit.engine.format import VERSION

        model = policy.model
        if self._device.is_older(model, release):
            return False
        document = self._remote.target(f"models/{model}/{release}.json")
        try:
            manifest = parse(document)
        except DeliveryError as error:
            self._failed_release(model, release, error)
            return False
        if (manifest.model, manifest.release) != (model, release):
            return False
        digest = sha256(document).hexdigest()
        if self.is_quarantined(policy, digest):
            return False
        needs = manifest.needs
        has_keys = all(
            file.encryption is None or file.encryption.key_id in self._keys
            for file in manifest.files
        )
        found[release] = Choice(manifest, digest, document)
        return (
            needs.palm_format <= VERSION
            and sdk_fits(needs.sdk, str(facts()["sdk"]))
            and has_keys
            and not forbidden(policy, digest, manifest)
        )

    def is_quarantined(self, policy: Policy, digest: str) -> bool:
        """Return whether a release failed here and its publisher has asked for no retry since."""
        return any(
            entry.digest == digest and policy.retry_epoch <= entry.retry_epoch
            for entry in self._state.quarantine(policy.model)
        )

    def _failed_release(self, model: str, release: str, error: DeliveryError) -> None:
        log.warning("%s %s: %s", model, release, error)
        self._device.count(model, release, "stable", "manifest_invalid")

    def arm(self, policy: Policy, channel: str, running: str | None) -> str:
        """Return the arm of the rollout that a device with this release is in."""
        seed = self._state.seed()
        for each in policy.channels.get(channel, ()):
            if each.recall:
                continue
            if each.release == running:
                return "candidate" if each.percent < 100 else "stable"
            if arm_of(each, bucket(seed, policy.model, each.release, each.salt)) == "control":
                return "control"
        return "stable"
