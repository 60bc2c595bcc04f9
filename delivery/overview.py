"""The state of a device's models for people and programs, ready for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from palmkit.delivery.device import NOT_BEFORE, Device
from palmkit.delivery.effects import LAST_ERROR
from palmkit.delivery.slot import Slot
from palmkit.delivery.update import CHECKED, FAILED, STALE


def overview(
    device: Device, slots: Sequence[tuple[str, str]], urls: Sequence[str]
) -> dict[str, Any]:
    """Return what runs, pending and refused releases, and when the server was asked.

    slots: model and channel of those to include. urls: the repository's URLs.
    Raises DeliveryError if the stored state cannot be read.
    """
    facts: dict[str, Any] = dict.fromkeys((CHECKED, LAST_ERROR, STALE, NOT_BEFORE, FAILED))
    if device.folder.is_dir():
        facts = {each: device.state.fact(each) for each in facts}
    return {
        "folder": str(device.folder),
        "urls": list(urls),
        "checked": _time(facts[CHECKED]),
        "not_before": _time(facts[NOT_BEFORE]),
        "stale_since": _time(facts[STALE]),
        "failures": int(facts[FAILED] or 0),
        "last_error": facts[LAST_ERROR],
        "size_bytes": device.store.size_bytes(),
        "models": [_describe(device, *each) for each in slots],
    }


def _describe(device: Device, model: str, channel: str) -> dict[str, Any]:
    state, is_here = device.state, device.folder.is_dir()
    slot = state.slot(model, channel) if is_here else Slot(model, channel)
    embedded = device.embedded(model)
    known = state.policy(model) if is_here else None
    active = _release(device, slot.active)
    return {
        "model": model,
        "channel": channel,
        "state": slot.stage or ("ACTIVE" if active else "EMBEDDED"),
        "active": active,
        "embedded": embedded.version if embedded else None,
        "candidate": _release(device, slot.candidate),
        "previous": _release(device, slot.previous),
        "arm": slot.arm,
        "pinned": slot.pinned,
        "epoch": known[0] if known else None,
        "next_check": _time(known[2]) if known else None,
        "held_until": _time(slot.held_until or None),
        "quarantine": [
            {"release": each.release, "code": each.code, "at": _time(each.at)}
            for each in (state.quarantine(model) if is_here else ())
        ],
    }


def _release(device: Device, digest: str | None) -> str | None:
    manifest = device.state.manifest(digest) if digest else None
    return manifest.release if manifest else None


def _time(seconds: float | None) -> str | None:
    if not seconds:
        return None
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="seconds")
