"""palmkit models: what users do with the models of their machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from palmkit.delivery.repository import Repository
from tests.delivery.fault_server import Fault, FaultServer
from tests.delivery.releases import QUICK, write_model
from tests.kits.conftest import on_a_terminal

MODEL = "face_detector"


class Served:
    """A repository with two releases of a model, the newer one offered, and its server."""

    def __init__(self, folder: Path) -> None:
        self.repository = Repository.create(folder / "repository")
        for number, release in enumerate(("1.1.0", "1.2.0")):
            file = write_model(folder / release / "model.palm", 2.0 + number)
            self.repository.publish(MODEL, release, [file], QUICK)
        self.repository.promote(MODEL, "1.2.0")
        self.server = FaultServer()
        for each in self.repository.public.rglob("*"):
            if each.is_file():
                path = f"/{each.relative_to(self.repository.public)}"
                self.server.files[path] = each.read_bytes()
        self.root = folder / "root.json"
        self.root.write_bytes(self.repository.root())


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("served"))
    yield served
    served.server.stop()


@pytest.fixture
def models(run: Any, tmp_path: Path) -> Any:
    """palmkit models, with a folder of its own."""

    def models(command: str, *arguments: object) -> Any:
        return run("models", command, "--folder", tmp_path / "models", *arguments)

    return models


def status(models: Any, name: str = MODEL) -> dict[str, Any]:
    found = json.loads(models("status", name, "--json").out)["models"]
    assert len(found) == 1
    return dict(found[0])


def test_without_a_repository(models: Any, tmp_path: Path) -> None:
    listed = models("list")
    assert listed.code == 0
    assert listed.out.splitlines()[0].split() == [
        "MODEL",
        "RUNS",
        "STATE",
        "CAME",
        "WITH",
        "PALMKIT",
    ]
    assert "face_detector@stable" in listed.out and "1.0" in listed.out
    names = {each["model"] for each in json.loads(models("list", "--json").out)["models"]}
    assert {"face_detector", "hair", "portrait"} <= names
    pulled = models("pull")
    assert pulled.code == 2 and "expected --url and --root" in pulled.err
    assert "nothing is asked" in models("status").out
    assert models("gc").out == "0.0 MB freed\n"
    assert not (tmp_path / "models").exists()


def test_the_life_of_a_release(models: Any, served: Served) -> None:
    pulled = models("pull", MODEL, "--url", served.server.url, "--root", served.root)
    assert pulled.code == 0, pulled.err
    assert pulled.out == (
        "face_detector@stable: 1.2.0 is here and is tried at its next use, 1.0 runs now\n"
    )
    assert (status(models)["state"], status(models)["candidate"]) == ("STAGED", "1.2.0")
    # What is known is kept; models that the repository has not are no error.
    again = models("pull", "--json")
    assert again.code == 0
    assert {each["model"] for each in json.loads(again.out)["models"]} >= {"face_detector", "hair"}
    assert models("pin", MODEL, "1.1.0").out == (
        "face_detector: pinned to 1.1.0, from the next pull on\n"
    )
    assert "1.1.0 is here" in models("pull", MODEL).out
    assert models("pin", MODEL, "embedded").out == "face_detector: pinned to embedded\n"
    assert models("pin", MODEL, "--none").code == 0
    assert "1.2.0 is here" in models("pull", MODEL).out
    assert models("gc").code == 0


def test_back_to_the_release_before(models: Any, served: Served, tmp_path: Path) -> None:
    from palmkit.delivery import Client

    models("pull", MODEL, "--url", served.server.url, "--root", served.root)
    client = Client(tmp_path / "models")
    client.mark_ok(client.get(MODEL, "local"))
    client.close()
    assert "1.2.0" in models("list").out
    assert models("rollback", MODEL).out == "face_detector: from 1.2.0 to 1.0\n"
    assert models("rollback", MODEL).out == "face_detector: 1.0 runs, none is before it\n"
    assert "refused    1.2.0: rollback" in models("status", MODEL).out
    models("pull", MODEL)
    assert status(models)["state"] == "EMBEDDED"


def test_what_goes_wrong_is_said_in_a_line(models: Any, served: Served, tmp_path: Path) -> None:
    given = ("--url", served.server.url, "--root")
    absent = models("pull", "hair", *given, served.root)
    assert (absent.code, absent.err) == (1, "palmkit: the repository has no hair\n")
    for command in ("status", "rollback"):
        assert models(command, "cat").err == "palmkit: no such model here: cat\n"
    assert models("pull", "No Name", *given, served.root).code == 2
    assert models("pull", MODEL, *given, tmp_path / "missing").code == 1
    assert models("pin", MODEL).code == models("pin", MODEL, "1.1.0", "--none").code == 2
    other = Repository.create(tmp_path / "other").root()
    (tmp_path / "other.json").write_bytes(other)
    distrusted = models("pull", MODEL, *given, tmp_path / "other.json", "--folder", tmp_path / "b")
    assert distrusted.code == 1 and distrusted.err.count("\n") == 1
    served.server.faults["*"] = Fault("status", status=404)
    try:
        failed = models("pull", MODEL, *given, served.root, "--folder", tmp_path / "c")
    finally:
        served.server.faults.clear()
    assert failed.code == 1 and "answered 404" in failed.err
    assert failed.out == "face_detector@stable: 1.0 runs\n"
    asked = models("status", "--folder", tmp_path / "c").out
    assert "failed" in asked and "again from" in asked


def test_a_bar_shows_how_far_it_is(served: Served, tmp_path: Path) -> None:
    out, shown = on_a_terminal(
        *("models", "pull", MODEL, "--folder", tmp_path / "models"),
        *("--url", served.server.url, "--root", served.root),
    )
    assert "1.2.0 is here" in out
    assert "face_detector-1.2.0" in shown and "B/s" in shown


@pytest.mark.parametrize("command", ["list", "pull", "pin", "rollback", "status", "gc"])
def test_help_teaches_by_example(run: Any, command: str) -> None:
    told = run("models", command, "--help")
    assert told.code == 0 and f"palmkit models {command}" in told.out.split("examples:")[1]
