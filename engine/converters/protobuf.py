"""Protobuf messages from a schema written here: no protoc, and no clash with other packages.

The schema is text in the protobuf language, of which the parts that model formats use are read:
messages, enums, oneofs, maps, labels, `default` and `packed`. Fields of a file that a schema
leaves out are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from os import PathLike, fspath
from typing import Any

from palmkit.engine.errors import ModelError, UnsupportedError

_TOKEN = re.compile(r'//[^\n]*|\s+|("[^"]*"|[\w.+-]+|[{}=;<>,\[\]])')
_MOST_OF_A_MESSAGE = 300
_MOST_BYTES = (1 << 31) - 1


def message_types(
    schema: str, package: str, extra: str, syntax: str = "proto3"
) -> Mapping[str, Any]:
    """Return the classes of the schema's outermost messages, by name.

    package: the protobuf package of the messages; they live in a pool of their own.
    extra: the extra of palmkit that brings the package protobuf, for the message of
    UnsupportedError, which is raised if that is missing.
    """
    try:
        descriptor_pb2, descriptor_pool, message_factory = map(
            _protobuf, ("descriptor_pb2", "descriptor_pool", "message_factory")
        )
    except ImportError:
        raise UnsupportedError(
            f'reading {extra} models needs the package protobuf: pip install "palmkit[{extra}]"'
        ) from None
    file = descriptor_pb2.FileDescriptorProto(
        name=f"palmkit/{package}.proto", package=package, syntax=syntax
    )
    _Schema(schema).read_file(file)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindFileByName(file.name).message_types_by_name
    return {name: message_factory.GetMessageClass(each) for name, each in found.items()}


def parse(message_type: Any, data: bytes, what: str) -> Any:
    """Parse a message; raise ModelError if the bytes are not one."""
    if len(data) > _MOST_BYTES:
        raise ModelError(f"{what}: larger than the 2 GiB that protobuf allows")
    message = message_type()
    try:
        message.ParseFromString(data)
    except (_protobuf("message").DecodeError, RuntimeError, ValueError) as error:
        raise _unreadable(message_type, what, error) from None
    return message


def parse_text(message_type: Any, text: str, what: str) -> Any:
    """Parse protobuf's text format; raise ModelError if the text is not such a message."""
    text_format, message = _protobuf("text_format"), message_type()
    try:
        text_format.Parse(text, message, allow_unknown_field=True)
    except (text_format.ParseError, RuntimeError, ValueError) as error:
        raise _unreadable(message_type, what, error) from None
    return message


def _protobuf(module: str) -> Any:
    return import_module(f"google.protobuf.{module}")


def _unreadable(message_type: Any, what: str, error: Exception) -> ModelError:
    why = str(error)[:_MOST_OF_A_MESSAGE]
    return ModelError(f"{what}: not a readable {message_type.DESCRIPTOR.name}: {why}")


def read_bytes(path: str | PathLike[str]) -> bytes:
    """Return the bytes of a file; raise ModelError if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise ModelError(f"cannot read model {fspath(path)}: {error.strerror or error}") from None


class _Schema:
    """A parser of schema text; an error in it is a programmer's, hence ValueError."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._place = 0

    def read_file(self, file: Any) -> None:
        """Fill in a FileDescriptorProto."""
        while self._place < len(self._tokens):
            kind = self._next("message", "enum")
            if kind == "message":
                self._read_message(file.message_type.add())
            else:
                self._read_enum(file.enum_type.add())
        enums = {f".{file.package}.{each.name}" for each in file.enum_type}
        messages: set[str] = set()
        for message in file.message_type:
            _collect(message, f".{file.package}", messages, enums)
        for message in file.message_type:
            _resolve(message, f".{file.package}", messages, enums)

    def _next(self, *expected: str) -> str:
        if self._place >= len(self._tokens):
            raise ValueError(f"schema ends early, expected {expected}")
        token = self._tokens[self._place]
        if expected and token not in expected:
            raise ValueError(f"schema: expected {expected}, got {token!r}")
        self._place += 1
        return token

    def _read_enum(self, enum: Any) -> None:
        enum.name = self._next()
        self._next("{")
        while (name := self._next()) != "}":
            self._next("=")
            enum.value.add(name=name, number=int(self._next(), 0))
            self._next(";")

    def _read_message(self, message: Any) -> None:
        message.name = self._next()
        self._next("{")
        while (token := self._next()) != "}":
            if token == "message":
                self._read_message(message.nested_type.add())
            elif token == "enum":
                self._read_enum(message.enum_type.add())
            elif token == "oneof":
                message.oneof_decl.add(name=self._next())
                self._next("{")
                while (kind := self._next()) != "}":
                    self._read_field(message, "optional", kind)
                    message.field[-1].oneof_index = len(message.oneof_decl) - 1
            elif token in ("optional", "required", "repeated"):
                self._read_field(message, token, self._next())
            else:
                self._read_field(message, "optional", token)

    def _read_field(self, message: Any, label: str, kind: str) -> None:
        field = message.field.add(label=f"LABEL_{label.upper()}")
        key = value = ""
        if kind == "map":
            self._next("<")
            key = self._next()
            self._next(",")
            value = self._next()
            self._next(">")
        field.name = self._next()
        if kind == "map":
            entry = message.nested_type.add(
                name="".join(map(str.capitalize, field.name.split("_"))) + "Entry"
            )
            entry.options.map_entry = True
            for number, name, each in ((1, "key", key), (2, "value", value)):
                entry.field.add(name=name, number=number, label="LABEL_OPTIONAL", type_name=each)
            field.label, kind = 3, entry.name
        field.type_name = kind
        self._next("=")
        field.number = int(self._next())
        if self._next(";", "[") == "[":
            self._read_options(field)
            self._next(";")

    def _read_options(self, field: Any) -> None:
        separator = ","
        while separator == ",":
            name, _, value = self._next("default", "packed"), self._next("="), self._next()
            if name == "default":
                field.default_value = value.strip('"')
            else:
                field.options.packed = value == "true"
            separator = self._next(",", "]")


def _tokens(text: str) -> Iterator[str]:
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise ValueError(f"schema: cannot read {text[place : place + 20]!r}")
        place = match.end()
        if match[1]:
            yield match[1]


def _collect(message: Any, scope: str, messages: set[str], enums: set[str]) -> None:
    name = f"{scope}.{message.name}"
    messages.add(name)
    enums.update(f"{name}.{each.name}" for each in message.enum_type)
    for each in message.nested_type:
        _collect(each, name, messages, enums)


def _resolve(message: Any, scope: str, messages: set[str], enums: set[str]) -> None:
    """Set each field's type: a scalar's number, or the full name, from the innermost scope."""
    scope = f"{scope}.{message.name}"
    for field in message.field:
        kind = field.type_name
        outer = scope
        while outer and f"{outer}.{kind}" not in messages | enums:
            outer = outer.rpartition(".")[0]
        if outer:
            field.type_name = f"{outer}.{kind}"
            what = "TYPE_MESSAGE" if field.type_name in messages else "TYPE_ENUM"
        else:
            field.ClearField("type_name")
            what = f"TYPE_{kind.upper()}"
        field.type = field.Type.Value(what)
    for each in message.nested_type:
        _resolve(each, scope, messages, enums)
