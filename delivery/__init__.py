"""Model delivery: signed updates of the models into a verified local store.

    from palmkit import delivery
    delivery.configure(["https://models.example.com"], root="root.json")
    release = delivery.get("face_detector")

Without `configure` nothing is ever asked, and the models are those that came with PalmKit.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from palmkit.delivery import reports
    from palmkit.delivery.app import (
        configure,
        get,
        hint,
        mark_ok,
        refresh,
        report_failure,
        status,
    )
    from palmkit.delivery.client import Client
    from palmkit.delivery.device import Release

__all__ = [
    "Client",
    "Release",
    "configure",
    "get",
    "hint",
    "mark_ok",
    "refresh",
    "report_failure",
    "reports",
    "status",
]

_HOMES = {"Client": "palmkit.delivery.client", "Release": "palmkit.delivery.device"}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name == "reports":
        return import_module("palmkit.delivery.reports")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES.get(name, "palmkit.delivery.app")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
