"""Damage to models: to the fields of what protobuf and flatbuffers hold, and to bytes."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from tests.engine.converters.fuzz_seeds import Part, Seed

INTEGERS = (
    *(0, 1, -1, 2, -2, 3, 4, 7, 8, 16, 31, 32, 33, 64, 100, 127, 128, 255, 256, 1000, 4096, 65535),
    *(2**16, 2**20, 2**24, 2**30, 2**31 - 1, -(2**31), 2**31, 2**32 - 1, 2**32, 2**40, 2**53),
    *(2**61, 2**62, 2**63 - 1, -(2**63), -(2**63) + 1, 2**64 - 1),
)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e-38, 3.4e38, 1e30, float("inf"), float("nan"), -7.25)
TEXTS = (
    "",
    "x",
    "y",
    "axis",
    "a\nb",
    "é\0",
    "x" * 3000,
    "0",
    "-1",
    "NHWC",
    "NCHW",
    "SAME",
    "ij,jk",
)
WORDS = (0, 1, 2, 3, 4, 127, 128, 255, 2**15, 2**16, 2**31 - 1, 2**31, 2**32 - 1)
MOST_BYTES = 1 << 25
MOST_NESTED = 40
TRIES = 20
PARTS_OF_TEXT = (
    *(b"-", b"0", b"9999999999", b"}", b"{", b'"', b"\xff", b"nan", b"inf", b"1e40", b"true"),
    *(b": [", b"]", b"layer {", b"dim: 4611686018427387904 ", b"\n", b"# ", b"{ { { {" * 99),
)


def damaged(seed: Seed, chance: random.Random) -> dict[str, bytes]:
    """Return the files of the model with a few changes to one of them."""
    files = {name: part.data for name, part in seed.parts.items()}
    structured = [name for name, part in seed.parts.items() if part.kind != "other"]
    name = chance.choice(structured * 4 + list(files))
    part = seed.parts[name]
    count = chance.choice((1, 1, 1, 2, 2, 4, 8))
    if part.kind == "protobuf" and chance.random() < 0.8:
        files[name] = _changed_message(part, count, chance)
    elif part.kind == "flatbuffer" and chance.random() < 0.8:
        files[name] = _changed_tables(part, count, chance)
    elif part.kind == "text":
        files[name] = _changed_text(part, count, chance)
    else:
        files[name] = _changed_bytes(part.data, count, chance)
    if len(files) > 1 and chance.random() < 0.03:
        del files[chance.choice([each for each in files if each != seed.main])]
    return files


def _integer(value: int, chance: random.Random) -> int:
    near = (value + 1, value - 1, 2 * value, -value, value // 2)
    return chance.choice(INTEGERS) if chance.random() < 0.7 else chance.choice(near)


# Protobuf


def _changed_message(part: Part, count: int, chance: random.Random) -> bytes:
    message = part.message.FromString(part.data)
    for _ in range(count):
        _change_message(message, chance)
    data = cast(bytes, message.SerializePartialToString())
    if len(data) > MOST_BYTES:
        return part.data
    return _changed_bytes(data, 1, chance) if chance.random() < 0.05 else data


def _messages(message: Any, depth: int = 0) -> Iterator[Any]:
    """Yield the message, and those in it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is None or depth > MOST_NESTED:
            continue
        if _is_map(field):
            if field.message_type.fields_by_name["value"].message_type is not None:
                for key in sorted(value):
                    yield from _messages(value[key], depth + 1)
        else:
            for each in [value] if hasattr(value, "ListFields") else value:
                yield from _messages(each, depth + 1)


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _change_message(message: Any, chance: random.Random) -> None:
    """Change one field somewhere."""
    found = list(_messages(message))
    owner = chance.choice(found)
    if chance.random() < 0.5:
        # Nodes, attributes and tensors are few beside dims and strings of the same file.
        kinds = sorted({each.DESCRIPTOR.name for each in found})
        kind = chance.choice(kinds)
        owner = chance.choice([each for each in found if each.DESCRIPTOR.name == kind])
    fields = [field for field, _ in owner.ListFields()]
    if chance.random() < 0.15 or not fields:
        fields = list(owner.DESCRIPTOR.fields)
    if not fields:
        return
    field = chance.choice(fields)
    value = getattr(owner, field.name)
    try:
        if _is_map(field):
            _change_map(value, field, found, chance)
        elif hasattr(value, "append") or hasattr(value, "add"):
            _change_list(value, field, found, chance)
        elif chance.random() < 0.15:
            owner.ClearField(field.name)
        elif field.message_type is not None:
            others = _of_kind(found, field.message_type)
            value.SetInParent()
            if others:
                value.CopyFrom(_copy(chance.choice(others)))
        else:
            setattr(owner, field.name, _scalar(value, field, found, chance))
    except (ValueError, TypeError):
        # A number that the field cannot hold.
        return


def _of_kind(found: list[Any], kind: Any) -> list[Any]:
    return [each for each in found if each.DESCRIPTOR is kind]


def _copy(message: Any) -> Any:
    twin = type(message)()
    twin.CopyFrom(message)
    return twin


def _change_map(value: Any, field: Any, found: list[Any], chance: random.Random) -> None:
    kind = field.message_type.fields_by_name["value"].message_type
    keys = sorted(value)
    key = chance.choice(keys) if keys else "T"
    way = chance.randrange(3)
    if way == 0 and keys:
        del value[key]
    elif kind is None:
        value[key] = chance.choice([value[each] for each in keys] or list(TEXTS))
    else:
        other = chance.choice(_of_kind(found, kind) or [value[key]])
        new = key if way == 1 else chance.choice([*keys, *TEXTS, "shape", "dtype", "N", "value"])
        value[new].CopyFrom(_copy(other))


def _change_list(value: Any, field: Any, found: list[Any], chance: random.Random) -> None:
    way, size = chance.randrange(6), len(value)
    place = chance.randrange(size) if size else 0
    if way == 0 and size:
        del value[place]
    elif way == 1 and size > 1:
        kept = [_copy(each) if field.message_type is not None else each for each in value]
        chance.shuffle(kept)
        del value[:]
        value.extend(kept)
    elif way == 2 and chance.random() < 0.2:
        del value[:]
    elif field.message_type is not None:
        others = _of_kind(found, field.message_type)
        added = _copy(chance.choice(list(value) if size and way < 4 else others or [value.add()]))
        for _ in range(chance.choice((1, 1, 1, 2, 40))):
            value.add().CopyFrom(added)
    elif size and way < 5:
        value[place] = _scalar(value[place], field, found, chance)
    else:
        blank: Any = {"string": "", "bytes": b""}.get(_python_kind(field), 0)
        added = _scalar(value[place] if size else blank, field, found, chance)
        value.extend([added] * chance.choice((1, 1, 1, 3, 40)))


def _python_kind(field: Any) -> str:
    kinds = {field.CPPTYPE_DOUBLE: "float", field.CPPTYPE_FLOAT: "float"}
    if field.cpp_type == field.CPPTYPE_STRING:
        return "bytes" if field.type == field.TYPE_BYTES else "string"
    return kinds.get(field.cpp_type, "integer")


def _scalar(value: Any, field: Any, found: list[Any], chance: random.Random) -> Any:
    kind = _python_kind(field)
    if kind == "float":
        return chance.choice(FLOATS)
    if kind == "bytes":
        data = value if isinstance(value, bytes) else b""
        cut = data[: chance.randrange(len(data) + 1)]
        texts = [text.encode() for text in TEXTS]
        return chance.choice([b"", b"\xff", cut, data * 2, data[::-1], b"\xff" * len(data), *texts])
    if kind == "string":
        names = [each for message in found for each in _strings(message)]
        return chance.choice(names) if names and chance.random() < 0.8 else chance.choice(TEXTS)
    if field.enum_type is not None:
        return chance.choice([*field.enum_type.values_by_number, *INTEGERS[:12]])
    small = field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_UINT32, field.CPPTYPE_BOOL)
    for _ in range(TRIES):
        number = _integer(int(value), chance)
        if not small or -(2**31) <= number < 2**31:
            return bool(number) if field.cpp_type == field.CPPTYPE_BOOL else number
    return 0


def _strings(message: Any) -> Iterator[str]:
    """Yield the strings in the message itself."""
    for field, value in message.ListFields():
        if field.message_type is None and field.cpp_type == field.CPPTYPE_STRING:
            if isinstance(value, str):
                yield value
            elif not isinstance(value, bytes):
                yield from (each for each in value if isinstance(each, str))


# Flatbuffers, by the classes that flatc makes for whole tables


def _changed_tables(part: Part, count: int, chance: random.Random) -> bytes:
    import flatbuffers

    root = part.message.InitFromPackedBuf(part.data)
    for _ in range(count):
        _change_table(root, chance)
    builder: Any = flatbuffers.Builder(len(part.data))
    try:
        builder.Finish(root.Pack(builder), part.data[4:8])
    except Exception:  # noqa: BLE001
        # The writer does not write everything that a file can say.
        return _changed_bytes(part.data, count, chance)
    data = bytes(builder.Output())
    return _changed_bytes(data, 1, chance) if chance.random() < 0.05 else data


def _fields(table: Any) -> dict[str, Any]:
    return {name: getattr(table, name) for name in sorted(table.__dict__)}


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _tables(table: Any) -> Iterator[Any]:
    """Yield the table, and those in it."""
    yield table
    for value in _fields(table).values():
        for each in value if _is_list(value) else [value]:
            if hasattr(each, "Pack"):
                yield from _tables(each)


def _change_table(root: Any, chance: random.Random) -> None:
    """Change one field somewhere."""
    found = list(_tables(root))
    kinds: dict[str, list[Any]] = {}
    for each in found:
        kinds.setdefault(type(each).__name__, []).append(each)
    owner = chance.choice(found if chance.random() < 0.3 else kinds[chance.choice(sorted(kinds))])
    fields = _fields(owner)
    if not fields:
        return
    given = [name for name, value in fields.items() if value is not None]
    name = chance.choice(given if given and chance.random() < 0.9 else list(fields))
    setattr(owner, name, _changed_field(fields[name], found, chance))


def _changed_field(value: Any, found: list[Any], chance: random.Random) -> Any:
    if hasattr(value, "Pack"):
        options = [each for each in found if type(each).__name__.endswith("OptionsT")]
        same = [each for each in found if type(each) is type(value)]
        others = options if type(value) in map(type, options) else same
        return chance.choice([None, *map(copy.copy, others)])
    if _is_list(value) and not isinstance(next(iter(value), 0), int):
        _change_tables(value, chance)
        return value
    if _is_list(value) or hasattr(value, "dtype"):
        return _numbers(np.array(value), chance)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return _integer(value, chance)
    if isinstance(value, float):
        return chance.choice(FLOATS)
    if isinstance(value, bytes):
        names = [each.name for each in found if getattr(each, "name", None)]
        return chance.choice([*names, *(text.encode() for text in TEXTS), b"\xff\xfe", None])
    return chance.choice([None, 0, 1, np.array([chance.choice(INTEGERS[:30])])])


def _change_tables(value: list[Any], chance: random.Random) -> None:
    """Drop, repeat, swap or mix up what is in a list of tables."""
    if not value:
        return
    way, place, other = chance.randrange(4), chance.randrange(len(value)), chance.choice(value)
    if way == 0:
        del value[place]
    elif way == 1:
        value.insert(place, copy.copy(other))
    elif way == 2:
        value[place] = other
    else:
        chance.shuffle(value)


def _numbers(value: Any, chance: random.Random) -> Any:
    """Return a changed list of numbers; None if it is to be left out."""
    way = chance.randrange(7)
    if way == 0:
        return None
    if way == 1:
        return value[: chance.randrange(len(value) + 1)]
    if way == 2 and len(value) < MOST_BYTES // 4:
        return np.concatenate([value, value])
    if way == 3 and value.dtype.itemsize > 1:
        return np.array(value[::-1])
    value = np.array(value)
    if not len(value):
        return value
    for _ in range(chance.choice((1, 1, 3))):
        place = chance.randrange(len(value))
        if value.dtype.kind == "f":
            value[place] = chance.choice(FLOATS)
            continue
        limits = np.iinfo(value.dtype)
        number = _integer(int(value[place]), chance)
        value[place] = min(max(number, int(limits.min)), int(limits.max))
    return value


# Text and bytes


def _changed_text(part: Part, count: int, chance: random.Random) -> bytes:
    """Return a changed text, or the text of the changed message."""
    if part.message is not None and chance.random() < 0.6:
        from google.protobuf import text_format  # type: ignore[import-untyped]

        message = part.message()
        text_format.Parse(part.data.decode(), message)
        for _ in range(count):
            _change_message(message, chance)
        text: str = text_format.MessageToString(message)
        return text.encode()
    data = bytearray(part.data)
    for _ in range(count):
        place, way = chance.randrange(len(data) + 1), chance.randrange(4)
        digits = [match.span() for match in re.finditer(rb"\d+", bytes(data))]
        if way == 0:
            data[place:place] = chance.choice(PARTS_OF_TEXT)
        elif way == 1 and digits:
            first, last = chance.choice(digits)
            data[first:last] = str(_integer(int(data[first:last]), chance)).encode()
        else:
            return _changed_bytes(bytes(data), count, chance)
    return bytes(data)


def _changed_bytes(data: bytes, count: int, chance: random.Random) -> bytes:
    """Change bits and words, cut, and repeat pieces."""
    changed = bytearray(data)
    if not changed:
        return b"\0"
    for _ in range(count):
        # Most of a large file is weights: what says how they are used stands at its ends.
        near = min(len(changed), 6000)
        place = chance.randrange(near) if chance.random() < 0.7 else -1 - chance.randrange(near)
        place %= len(changed)
        way = chance.randrange(8)
        if way < 2:
            changed[place] ^= 1 << chance.randrange(8)
        elif way < 4:
            changed[place] = chance.choice((0, 1, 2, 127, 128, 255))
        elif way < 6:
            changed[place : place + 4] = chance.choice(WORDS).to_bytes(4, "little")
        elif way == 6:
            start = chance.randrange(len(changed))
            changed[place:place] = changed[start : start + chance.choice((1, 4, 30, 200))]
        elif chance.random() < 0.3:
            del changed[place:]
        else:
            del changed[place : place + chance.choice((1, 2, 4, 30))]
        if not changed:
            return b""
    return bytes(changed)
