"""Optional settings of pages that outlive the session."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from PySide6.QtCore import QSettings

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

AnySettings = TypeVar("AnySettings", bound="DataclassInstance")


class Remembered(Generic[AnySettings]):
    """A frozen dataclass of settings; any thread may read `now`, which is replaced whole."""

    def __init__(
        self, kept: QSettings, name: str, default: AnySettings, changed: Callable[[], None]
    ) -> None:
        """Read the stored values; those of another type take the default.

        name: the key of the settings. changed: called after each change.
        """
        self._kept, self._name, self._changed = kept, f"page/{name}", changed
        self.now = _restored(kept.value(self._name, "{}"), default)

    def set(self, **changes: Any) -> None:
        """Change some of it."""
        self.now = replace(self.now, **changes)
        self._kept.setValue(self._name, json.dumps(asdict(self.now)))
        self._changed()


def _restored(kept: object, default: AnySettings) -> AnySettings:
    assert is_dataclass(default)
    try:
        found: Any = json.loads(str(kept))
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
