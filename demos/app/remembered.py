"""Settings of pages that outlive the session, and are never needed."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from PySide6.QtCore import QSettings

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

AnySettings = TypeVar("AnySettings", bound="DataclassInstance")


def remember(kept: QSettings, name: str, settings: DataclassInstance) -> None:
    """Keep a dataclass of numbers and texts under a name."""
    kept.setValue(f"page/{name}", json.dumps(asdict(settings)))


def restore(kept: QSettings, name: str, default: AnySettings) -> AnySettings:
    """What was kept under a name; whatever is not of the default's type is as in the default."""
    assert is_dataclass(default)
    try:
        found: Any = json.loads(str(kept.value(f"page/{name}", "{}")))
    except ValueError:
        return default
    if not isinstance(found, dict):
        return default
    values = cast("dict[str, Any]", found)
    changes: dict[str, Any] = {}
    for each in fields(default):
        value, own = values.get(each.name), getattr(default, each.name)
        if type(value) is type(own):
            changes[each.name] = value
    try:
        return replace(default, **changes)
    except ValueError:
        return default
