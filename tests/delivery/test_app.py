"""The client that an app and its kits share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from palmkit import delivery
from palmkit.delivery import app
from palmkit.engine.errors import DeliveryError
from tests.delivery.worlds import MODEL, World


@pytest.fixture(autouse=True)
def own_client(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setattr(app, "_client", None)
    monkeypatch.setenv(app.FOLDER, str(tmp_path / "models"))
    yield
    if app._client is not None:  # pyright: ignore[reportPrivateUsage]
        app._client.close()  # pyright: ignore[reportPrivateUsage]


def test_without_a_word_nothing_is_asked_and_nothing_kept(tmp_path: Path) -> None:
    release = delivery.get("face_detector")
    assert (release.version, release.source) == ("1.0", "embedded")
    delivery.mark_ok(release)
    delivery.report_failure("face_detector", "nan")
    delivery.hint(3)
    assert delivery.status("face_detector")["urls"] == []
    assert not (tmp_path / "models").exists()
    with pytest.raises(DeliveryError, match="no server"):
        delivery.refresh("face_detector")


def test_what_is_configured_is_used(world: World) -> None:
    (world.folder / "root.json").write_bytes(world.repository.root())
    delivery.configure(
        [world.server.url], world.folder / "root.json", baselines={MODEL: world.baseline}
    )
    received: list[tuple[str, int, int]] = []

    def see(name: str, have: int, size: int) -> None:
        received.append((name, have, size))

    delivery.refresh(MODEL, see)
    assert {name for name, _, _ in received} >= {f"{MODEL}-1.0.0.palm"}
    assert all(0 < have <= size for _, have, size in received)
    release = delivery.get(MODEL, "local")
    assert (release.version, release.on_trial) == ("1.0.0", True)
    delivery.mark_ok(release)
    assert delivery.status()["models"][0]["state"] == "ACTIVE"
    delivery.report_failure(MODEL, "nan")
    assert delivery.get(MODEL, "local").source == "embedded"


def test_what_the_command_noted_is_used(world: World) -> None:
    app.note(app.default_folder(), [world.server.url], world.repository.root())
    delivery.refresh(MODEL)
    assert delivery.get(MODEL, "local").version == "1.0.0"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"urls": 3, "root": 1}', b'{"root": {}}'])
def test_a_damaged_note_is_none(content: bytes) -> None:
    app.default_folder().mkdir()
    (app.default_folder() / app.REPOSITORY).write_bytes(content)
    assert app.noted(app.default_folder()) == ((), b"")
    assert delivery.get("face_detector").source == "embedded"


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="root: expected the trusted root metadata"):
        delivery.configure(["https://models.test"])
    with pytest.raises(FileNotFoundError):
        delivery.configure(["https://models.test"], tmp_path / "missing.json")
    for name in ("", "Face", "face_detector@", "@stable", "a@b@c", "../face", "a/b"):
        with pytest.raises(ValueError, match="name: expected one like"):
            delivery.get(name)
    with pytest.raises(ValueError, match="mode: expected one of"):
        delivery.get("face_detector", "newest")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="code: expected one of"):
        delivery.report_failure("face_detector", "bad")  # type: ignore[arg-type]


def test_a_forked_process_has_trials_of_its_own(world: World) -> None:
    """Its end in the middle of one is not taken for that of its parent."""
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")
    program = """
import json, os, sys
from pathlib import Path
from palmkit.delivery import golden
from palmkit.delivery.client import Client
folder, url, root, baseline = sys.argv[1:]
client = Client(folder, [url], Path(root).read_bytes(), baselines={"doubler": Path(baseline)},
                prove=lambda question: golden.Answer(None))
client.refresh("doubler")
print(client.get("doubler", "local").version, flush=True)
child = os.fork()
if child == 0:
    print(client.get("doubler", "local").version, flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(client.get("doubler", "local").version)
client.mark_ok("doubler")
print(json.dumps(client.status("doubler")["models"][0]))
"""
    (world.folder / "root.json").write_bytes(world.repository.root())
    given = [world.folder / "device", world.server.url, world.folder / "root.json", world.baseline]
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, given)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    *versions, status = done.stdout.splitlines()
    assert versions == ["1.0.0"] * 3
    assert (json.loads(status)["state"], json.loads(status)["quarantine"]) == ("ACTIVE", [])
