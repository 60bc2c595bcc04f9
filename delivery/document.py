"""Reading a signed JSON document field by field, without trusting its signer's care."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from palmkit.engine.errors import DeliveryError

MODEL = re.compile(r"[a-z][a-z0-9_]{0,63}", re.ASCII)
RELEASE = re.compile(r"[0-9A-Za-z][0-9A-Za-z.!+-]{0,63}", re.ASCII)
FILE = re.compile(r"[0-9A-Za-z][0-9A-Za-z._+-]{0,127}", re.ASCII)
SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
MOST_BYTES = 1 << 20
# What Windows takes for a device, with whatever suffix.
_DEVICES = frozenset(
    ["con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))]
)


def is_portable(name: str) -> bool:
    """Return whether every system takes the name of a file or folder as it is."""
    return name.lower().partition(".")[0] not in _DEVICES and not name.endswith(".")


class Fields:
    """A JSON object whose fields are read by name and kind; unknown fields are ignored.

    Every method raises DeliveryError with the document's code, saying what was expected where.
    """

    def __init__(self, value: object, where: str, code: str) -> None:
        """Wrap an object.

        value: the result of json.loads; where: its description, for messages.
        """
        self.where, self._code = where, code
        if not isinstance(value, dict):
            raise self._error(where, "an object", value)
        self._values: dict[str, Any] = value

    @classmethod
    def parse(cls, content: bytes, where: str, code: str) -> Fields:
        """Return the object in the bytes of a document of schema 1."""
        if len(content) > MOST_BYTES:
            raise DeliveryError(code, f"{where}: expected at most 1 MiB, got {len(content)} bytes")
        try:
            value = json.loads(content, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise DeliveryError(code, f"{where}: not JSON: {error}") from None
        fields = cls(value, where, code)
        if (schema := fields.whole("schema", 1)) != 1:
            raise DeliveryError(code, f"{where}: of a newer kind, upgrade palmkit: schema {schema}")
        return fields

    def _error(self, where: str, expected: str, got: object) -> DeliveryError:
        text = repr(got)
        text = text if len(text) <= 80 else text[:77] + "..."
        return DeliveryError(self._code, f"{where}: expected {expected}, got {text}")

    def _get(self, name: str) -> tuple[str, Any]:
        return f"{self.where}: {name}", self._values.get(name)

    def has(self, name: str) -> bool:
        """Return whether the field exists and is not null."""
        return self._values.get(name) is not None

    def text(self, name: str, kind: re.Pattern[str] | None = None, most: int = 4096) -> str:
        """Return a text of at most `most` characters that matches `kind` as a whole."""
        where, value = self._get(name)
        if not isinstance(value, str) or len(value) > most:
            raise self._error(where, f"a text of at most {most} characters", value)
        if kind is not None and not kind.fullmatch(value):
            raise self._error(where, f"a text like {kind.pattern}", value)
        return value

    def whole(self, name: str, least: int, most: int = 1 << 62) -> int:
        """Return an integer of this range."""
        where, value = self._get(name)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self._error(where, f"a whole number from {least} to {most}", value)
        return value

    def number(self, name: str, least: float, most: float) -> float:
        """Return a finite number of this range."""
        where, value = self._get(name)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not least <= value <= most:
            raise self._error(where, f"a number from {least:g} to {most:g}", value)
        return float(value)

    def flag(self, name: str) -> bool:
        """Return a bool."""
        where, value = self._get(name)
        if not isinstance(value, bool):
            raise self._error(where, "true or false", value)
        return value

    def value(self, name: str) -> Any:
        """Return the field's value, None if it is missing."""
        return self._values.get(name)

    def object(self, name: str) -> Fields:
        """Return an object."""
        where, value = self._get(name)
        return Fields(value, where, self._code)

    def objects(self, name: str, most: int = 1000) -> Iterator[Fields]:
        """Yield a list's objects."""
        for index, value in enumerate(self._list(name, most)):
            yield Fields(value, f"{self.where}: {name}[{index}]", self._code)

    def texts(self, name: str, most: int = 10000) -> tuple[str, ...]:
        """Return a list of texts."""
        values = self._list(name, most)
        for index, value in enumerate(values):
            if not isinstance(value, str):
                raise self._error(f"{self.where}: {name}[{index}]", "a text", value)
        return tuple(values)

    def _list(self, name: str, most: int) -> list[Any]:
        where, value = self._get(name)
        if not isinstance(value, list):
            raise self._error(where, f"a list of at most {most}", value)
        values: list[Any] = [*value]
        if len(values) > most:
            raise self._error(where, f"a list of at most {most}", values)
        return values

    def names(self) -> tuple[str, ...]:
        """Return the names of the fields."""
        return tuple(self._values)

    def refuse(self, name: str, expected: str) -> DeliveryError:
        """Return the error that says that a field is not what was expected."""
        where, value = self._get(name)
        return self._error(where, expected, value)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def dump(value: Mapping[str, object]) -> bytes:
    """Write a document in canonical form: equal documents are equal bytes."""
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False
    )
    return text.encode()
