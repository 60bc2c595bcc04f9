"""palmkit doctor says what there is on a machine, and finds what does not work."""

import json
import re
import socket
from pathlib import Path
from typing import Any, NoReturn

import pytest

from palmkit.delivery import embedded
from palmkit.delivery.embedded import Embedded
from palmkit.engine.backends import BACKENDS
from palmkit.kits import doctor
from palmkit.kits.table import KITS
from tests.demos.driving import NEEDS_MODELS
from tests.engine.backends.first import NAME, First
from tests.kits.conftest import Result

pytestmark = NEEDS_MODELS


def test_all_works_and_nothing_is_asked(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*given: object) -> NoReturn:
        raise AssertionError(f"a connection: {given}")

    monkeypatch.setattr(socket.socket, "connect", connect)
    found: Result = run("doctor")
    assert found.code == 0 and not found.err
    tried = re.findall(r"^ok +(\w+ \w+)", found.out, re.MULTILINE)
    assert {f"kit {name}" for name in KITS} | {f"backend {name}" for name in BACKENDS} <= {*tried}
    assert {f"model {name}" for name in embedded.shipped()} <= {*tried}
    assert "all of it works" in found.out


def test_json_has_the_same(run: Any) -> None:
    found: Result = run("doctor", "--json")
    said = json.loads(found.out)
    assert found.code == 0 and said.keys() == {"machine", "extras", "checks"}
    assert all(check["works"] for check in said["checks"])
    assert said["machine"]["palmkit"] and "scalar" in said["machine"]["instructions"]
    assert "onnx" in said["extras"] and "dev" not in said["extras"]


def test_a_damaged_model_and_a_kit_that_fails_are_found(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = tmp_path / "hair.palm"
    bad.write_bytes(b"PALM")
    of = Embedded("hair", "1.0", bad, "0" * 64)
    monkeypatch.setattr(embedded, "shipped", lambda: {"hair": of})
    monkeypatch.setattr(doctor, "KITS", {"gesture": KITS["gesture"]})
    monkeypatch.setattr(doctor, "GESTURES", ("fist", "fist"))
    found: Result = run("doctor")
    assert found.code == 1 and not found.err
    failed = re.findall(r"^FAILED +(\w+ \w+) +(.*)", found.out, re.MULTILINE)
    assert [name for name, _ in failed] == ["model hair", "kit gesture"]
    assert "not the one that was released" in failed[0][1] and "fist" in failed[1][1]
    assert "2 of these do not work" in found.out


def test_a_backend_without_convolution_is_not_said_to_have_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(BACKENDS, NAME, First())
    monkeypatch.setattr(embedded, "shipped", dict)
    monkeypatch.setattr(doctor, "KITS", {})
    said = {check.name: check.said for check in doctor.checks()}
    assert said["backend cpu"] == "runs a convolution right, on cpu"
    assert said[f"backend {NAME}"].startswith("leaves to numpy: y (fused_conv): no kernel for")


def test_an_extra_lacks_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(package: str) -> str:
        return "1.0" if package == "onnx" else ""

    monkeypatch.setattr(doctor, "_version", version)
    found = doctor.extras()
    assert any(each.startswith("onnx>=") for each in found["onnx"])
    assert any(each.startswith("tflite") for each in found["bench"])


def test_paths_do_not_name_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert doctor.short(tmp_path / "a" / "b") == "~/a/b"
    assert doctor.short(Path("/elsewhere")) == "/elsewhere"


def test_it_says_of_a_repository_that_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PALMKIT_DELIVERY_FOLDER", str(tmp_path))
    assert doctor.repository().startswith("none")
    (tmp_path / "repository.json").write_text("{}")
    assert str(tmp_path) in doctor.repository()
