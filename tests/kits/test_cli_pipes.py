"""A picture from standard input, and one to standard output."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit import kits
from palmkit.kits import cli
from palmkit.kits.image import Image, read_image
from tests.kits.conftest import picture
from tests.kits.test_cli_streams import NO_SPACE, shell


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    kits.write_image("a.png", picture(320, 640, (0, 64, 96, 32)))
    return tmp_path / "a.png"


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


class Piped:
    """The command in this process, whose standard streams are bytes."""

    def __init__(self, patch: pytest.MonkeyPatch, model: Path) -> None:
        self._patch, self._model = patch, model

    def __call__(
        self, data: bytes, *arguments: str, kind: type[io.TextIOWrapper] = io.TextIOWrapper
    ) -> tuple[int, bytes, str]:
        streams = {
            name: kind(io.BytesIO(given), encoding="utf-8")
            for name, given in (("stdin", data), ("stdout", b""), ("stderr", b""))
        }
        given = ["face", *arguments, "--size", "640", "--model", str(self._model)]
        with self._patch.context() as patch:
            for name, stream in streams.items():
                patch.setattr(sys, name, stream)
            try:
                code: Any = cli.main(given)
            except SystemExit as ended:
                code = ended.code
        written = [streams[name].buffer for name in ("stdout", "stderr")]
        for stream in streams.values():
            stream.flush()
        out, err = (each.getvalue() for each in written if isinstance(each, io.BytesIO))
        return code, out, err.decode()


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch, red_model: Path) -> Piped:
    return Piped(monkeypatch, red_model)


def decoded(data: bytes) -> Image:
    assert data.startswith(b"\x89PNG")
    return read_image(data)


def test_a_picture_in_and_out(piped: Piped, source: Path) -> None:
    assert piped(b"", "a.png", "-o", "drawn.png")[0] == 0
    code, out, err = piped(source.read_bytes(), "-", "-o", "-")
    assert (code, err) == (0, "")
    assert np.array_equal(decoded(out), read_image("drawn.png"))
    code, out, _ = piped(b"", "a.png", "-o", "-")
    assert np.array_equal(decoded(out), read_image("drawn.png"))
    assert sorted(os.listdir()) == ["a.png", "drawn.png"]


def test_json_goes_out_where_the_picture_goes_to_a_file(piped: Piped, source: Path) -> None:
    code, out, err = piped(source.read_bytes(), "-", "--json", "-o", "found.png")
    assert (code, err) == (0, "")
    assert list(json.loads(out)) == ["width", "height", "faces"]
    assert read_image("found.png").shape == (320, 640, 3)
    code, out, _ = piped(source.read_bytes(), "-", "a.png", "--json", "-o", "folder")
    assert [json.loads(line)["file"] for line in out.splitlines()] == ["-", "a.png"]
    assert sorted(os.listdir("folder")) == ["a.png", "stdin.png"]
    assert piped(source.read_bytes(), "-")[1].startswith(b"standard input: 1 face\n")


def test_they_are_never_mixed(piped: Piped, source: Path) -> None:
    code, out, err = piped(source.read_bytes(), "-", "--json", "-o", "-")
    assert (code, out) == (2, b"")
    assert err == "palmkit face: -o -: standard output is that of --json, expected a file\n"


def test_a_file_of_this_name(piped: Piped, source: Path) -> None:
    source.rename("-")
    assert piped(b"", "./-")[1].startswith(b"./-: 1 face\n")
    assert "the picture is empty" in piped(b"", "-")[2]


@pytest.mark.parametrize(
    ("data", "arguments", "told"),
    [
        (b"", ("-",), "standard input: the picture is empty"),
        (b"hello", ("-",), "standard input: not a picture"),
        (b"hello", ("-", "-o", "-"), "standard input: not a picture"),
        (bytes(3 << 20), ("-", "--max-pixels", "9"), "no picture of 9 pixels has more than 1048"),
        (bytes(1 << 20), ("-", "--max-pixels", "9"), "standard input: not a picture"),
    ],
)
def test_bad_input(piped: Piped, data: bytes, arguments: tuple[str, ...], told: str) -> None:
    code, out, err = piped(data, *arguments)
    assert (code, out) == (1, b"") and err.count("\n") == 1
    assert err.startswith("palmkit: standard input: ") and told in err


def test_a_terminal_is_no_picture(piped: Piped, source: Path) -> None:
    for arguments in (("-",), ("a.png", "-o", "-")):
        code, out, err = piped(b"", *arguments, kind=Terminal)
        assert (code, out) == (2, b"") and "terminal" in err and err.count("\n") == 1


def test_pipes_of_a_shell(source: Path, tmp_path: Path) -> None:
    line = "$P face - -o - < a.png | $P face - -o - > b.png && $P face b.png"
    code, out, err = shell(tmp_path, line)
    assert (code, out, err) == (0, "b.png: no faces\n", "")
    for line, code, err in (
        ("$P face a.png -o - > /dev/full", 1, NO_SPACE),
        ("$P face a.png -o - >&-", 0, ""),
        ("$P face a.png -o - | true", 0, ""),
        ("$P face - <&-", 1, "palmkit: standard input: the picture is empty: bytes of length 0\n"),
    ):
        assert shell(tmp_path, line) == (code, "", err)
