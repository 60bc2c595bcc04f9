"""A device and a real repository over HTTP: the server well or hostile, the clock right or not."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from palmkit import engine
from palmkit.delivery import client as client_module
from palmkit.delivery import golden
from palmkit.delivery.client import Client, Mode
from palmkit.delivery.clock import Clock
from palmkit.delivery.http import Http, Limits
from palmkit.delivery.repository import Options, Repository
from palmkit.engine.errors import DeliveryError
from tests.delivery.devices import Time, good, model_file
from tests.delivery.fault_server import Fault, FaultServer
from tests.delivery.releases import make_repository, write_model

MODEL = "doubler"
ALL = "*"
QUICK = Limits(
    connect_timeout_s=0.2,
    read_timeout_s=0.2,
    headers_timeout_s=0.3,
    window_s=0.3,
    attempts=2,
    first_wait_s=0.01,
    longest_wait_s=0.02,
)


class World:
    """A repository with release 1.0.0 for all, its server, and devices."""

    def __init__(self, folder: Path, made: Path) -> None:
        self.folder = folder
        self.repository = Repository.open(Path(shutil.copytree(made, folder / "repository")))
        self.server = FaultServer()
        self.baseline = model_file(folder / "baseline.palm", 1)
        self.time = Time()
        self.time.now = datetime.now(timezone.utc)
        self.show()

    def promote(self, release: str, percent: float = 100) -> None:
        self.repository.promote(MODEL, release, percent=percent)
        self.show()

    def show(self) -> None:
        """Let the server have what was published."""
        for file in self.repository.public.rglob("*"):
            if file.is_file():
                path = f"/{file.relative_to(self.repository.public)}"
                self.server.files[path] = file.read_bytes()

    def client(self, name: str = "device", **options: Any) -> Client:
        folder = self.folder / name
        given: dict[str, Any] = {
            "baselines": {MODEL: self.baseline},
            "clock": Clock(folder / "clock", wall=self.time),
            "prove": good,
        }
        root = self.repository.root()
        return Client(folder, [self.server.url], root, **{**given, **options})

    def with_first_release(self, name: str = "device") -> Client:
        client = self.client(name)
        client.refresh(MODEL)
        client.mark_ok(client.get(MODEL, "local"))
        return client


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a repository that every test gets a copy of."""
    folder = tmp_path_factory.mktemp("made")
    make_repository(folder, MODEL, "1.0.0", "2.0.0").promote(MODEL, "1.0.0")
    return folder / "repository"


@pytest.fixture
def world(tmp_path: Path, made: Path) -> Iterator[World]:
    world = World(tmp_path, made)
    yield world
    world.server.stop()


def runs(client: Client, mode: Mode = "local") -> str:
    """The version of the release that runs, which it does."""
    release = client.get(MODEL, mode)
    model = engine.load(release.path)
    outputs = model.run({name: np.ones(t.dims, np.float32) for name, t in model.inputs.items()})
    assert np.isfinite(outputs["y"]).all()
    return release.version


def test_from_the_publisher_to_the_model_that_runs(world: World) -> None:
    client = world.client(prove=golden.check)
    assert runs(client) == "0"
    client.refresh(MODEL)
    assert runs(client) == "1.0.0"
    client.mark_ok(MODEL)
    world.promote("2.0.0")
    assert runs(client, "latest") == "2.0.0"
    client.mark_ok(MODEL)
    world.repository.rollback(MODEL)
    world.show()
    asked = len(world.server.requests)
    assert runs(client, "latest") == "1.0.0"
    assert not [path for path in world.server.paths()[asked:] if path.endswith(".palm")]


@pytest.mark.parametrize(
    "fault",
    [
        Fault("refuse"),
        Fault("hang"),
        Fault("status", status=500),
        Fault("status", status=404),
        Fault("status", status=503, headers={"Retry-After": "3600"}),
        Fault("truncated", at=20),
        Fault("flipped", at=10),
        Fault("endless"),
        Fault("drip"),
        Fault("drip_headers"),
        Fault("redirects"),
        Fault("other"),
    ],
    ids=lambda fault: f"{fault.kind}{fault.status if fault.kind == 'status' else ''}",
)
def test_whatever_the_server_does_a_model_runs(world: World, fault: Fault) -> None:
    world.with_first_release().close()
    fresh, client = (world.client(name, http=Http(QUICK)) for name in ("fresh", "device"))
    world.promote("2.0.0")
    world.server.faults[ALL] = fault
    for mode in get_args(Mode):
        assert (runs(fresh, mode), runs(client, mode)) == ("0", "1.0.0")
    with pytest.raises(DeliveryError):
        client.refresh(MODEL)
    status = client.status(MODEL)
    assert status["failures"] >= 1 and status["not_before"] is not None
    world.server.faults.clear()
    world.time.pass_(hours=2)
    client = world.client()
    client.refresh(MODEL)
    assert (runs(client), client.status()["failures"]) == ("2.0.0", 0)


@pytest.mark.parametrize("kind", ["truncated", "flipped", "other", "hang"])
def test_a_file_that_comes_wrong_is_not_kept(world: World, kind: str) -> None:
    world.with_first_release().close()
    client = world.client(http=Http(QUICK))
    world.promote("2.0.0")
    file = next(path for path in world.server.files if path.endswith("-2.0.0.palm"))
    world.server.faults[file] = Fault(kind, at=100)
    with pytest.raises(DeliveryError) as caught:
        client.refresh(MODEL)
    assert caught.value.code in ("hash_mismatch", "download_fail")
    assert runs(client) == "1.0.0"
    assert client.status(MODEL)["models"][0]["state"] == "DOWNLOADING"
    world.server.faults.clear()
    client = world.client()
    client.refresh(MODEL)
    assert runs(client) == "2.0.0"


def test_a_server_that_asks_to_be_left_alone_is(world: World) -> None:
    client = world.with_first_release()
    world.server.faults[ALL] = Fault("status", status=503, headers={"Retry-After": "3600"})
    with pytest.raises(DeliveryError):
        client.refresh(MODEL)
    world.server.faults.clear()
    asked = len(world.server.requests)
    again = world.client()
    with pytest.raises(DeliveryError, match="asked not to be asked"):
        again.refresh(MODEL)
    assert runs(again, "latest") == "1.0.0" and len(world.server.requests) == asked
    world.time.pass_(seconds=3601)
    again.refresh(MODEL)


@pytest.mark.parametrize("days", [3, 400, 4000])
def test_a_clock_that_runs_ahead_stops_nothing_but_what_is_new(world: World, days: int) -> None:
    client = world.with_first_release()
    world.promote("2.0.0")
    world.time.pass_(days=days)
    for _ in range(2):
        with pytest.raises(DeliveryError) as caught:
            client.refresh(MODEL)
        assert caught.value.code == "expired"
        assert runs(client, "latest") == "1.0.0"
    assert client.status()["stale_since"] is not None
    world.time.pass_(days=-days)
    client.refresh(MODEL)
    assert (runs(client), client.status()["stale_since"]) == ("2.0.0", None)


def test_a_clock_that_was_set_back_brings_nothing_old_to_life(world: World) -> None:
    old = dict(world.server.files)
    client = world.with_first_release()
    world.promote("2.0.0")
    client.refresh(MODEL)
    client.mark_ok(client.get(MODEL, "local"))
    world.time.pass_(days=-3650)
    client.refresh(MODEL)
    world.server.files = old
    with pytest.raises(DeliveryError) as caught:
        client.refresh(MODEL)
    assert caught.value.code == "rollback_attack"
    assert runs(world.client()) == "2.0.0"


def test_years_without_a_server(world: World) -> None:
    client = world.with_first_release()
    client.close()
    world.server.stop()
    world.time.pass_(days=2000)
    for mode in get_args(Mode):
        assert runs(world.client(), mode) == "1.0.0"


def test_updates_come_in_the_background(world: World) -> None:
    world.repository.tune(MODEL, next_check_s=3600)
    world.show()
    client = world.with_first_release()
    world.promote("2.0.0")
    asked = len(world.server.requests)
    assert runs(client, "local_update_in_background") == "1.0.0"
    time.sleep(0.2)
    assert len(world.server.requests) == asked, "it is not time yet"
    client.close()
    world.time.pass_(hours=2)
    client = world.client()
    end = time.monotonic() + 10
    while runs(client, "local_update_in_background") != "2.0.0":
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_hint_is_heard_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "HINT_WITHIN_S", 0.0)
    client = world.with_first_release()
    world.promote("2.0.0")
    client.hint(7)
    end = time.monotonic() + 10
    while runs(client) != "2.0.0":
        assert time.monotonic() < end
        time.sleep(0.02)
    asked = len(world.server.requests)
    for _ in range(100):
        client.hint(8)
    again = world.client()
    again.hint(7)
    time.sleep(0.3)
    assert len(world.server.requests) == asked


def test_a_full_disk_stops_no_model(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    client = world.with_first_release()
    world.promote("2.0.0")
    usage = shutil.disk_usage(world.folder)

    def nearly_full(path: object) -> Any:
        return usage._replace(free=1000)

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", nearly_full)
        with pytest.raises(DeliveryError) as caught:
            client.refresh(MODEL)
    assert caught.value.code == "disk_full"
    assert runs(client) == "1.0.0"
    wait = datetime.fromisoformat(client.status()["not_before"]) - world.time.now
    assert timedelta(hours=23) < wait < timedelta(hours=25)
    client.refresh(MODEL)
    assert runs(client) == "2.0.0"


@pytest.mark.parametrize("what", ["folder", "state.db", "blobs", "releases"])
def test_a_folder_that_cannot_be_used_stops_no_model(world: World, what: str) -> None:
    folder = world.folder / "device"
    if what == "folder":
        folder.write_text("a file")
    elif what == "state.db":
        (folder / what).mkdir(parents=True)
    else:
        folder.mkdir()
        (folder / what).write_text("a file")
    client = world.client()
    for mode in get_args(Mode):
        assert runs(client, mode) == "0"
    with pytest.raises(DeliveryError):
        client.refresh(MODEL)
    client.mark_ok(client.get(MODEL, "local"))


def test_encrypted_models_run_where_the_app_has_the_key(world: World) -> None:
    key = bytes(range(32))
    file = write_model(world.folder / "secret/model.palm", 5)
    world.repository.publish(MODEL, "3.0.0", [file], Options(golden=1, key=key, key_id="one"))
    world.promote("3.0.0")
    without = world.client("without")
    without.refresh(MODEL)
    assert runs(without) == "1.0.0"
    client = world.client(keys={"one": key}, prove=golden.check)
    client.refresh(MODEL)
    assert runs(client) == "3.0.0"
    client.mark_ok(MODEL)
    client.collect()
    assert runs(client) == "3.0.0"


PROCESS = """
import json, sys
from pathlib import Path
from palmkit.delivery import golden
from palmkit.delivery.client import Client
folder, url, root, baseline = sys.argv[1:]
client = Client(folder, [url], Path(root).read_bytes(), baselines={"doubler": Path(baseline)},
                prove=lambda question: golden.Answer(None))
versions = []
for _ in range(5):
    release = client.get("doubler", "latest")
    release.path.read_bytes()
    client.mark_ok(release)
    versions.append(release.version)
print(json.dumps(versions))
"""


def test_several_processes_at_once(world: World) -> None:
    root = world.folder / "root.json"
    root.write_bytes(world.repository.root())
    given = [str(world.folder / "device"), world.server.url, str(root), str(world.baseline)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, *given],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for process in processes:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert set(json.loads(out)) == {"1.0.0"}, err
    files = [path for path in world.server.paths() if path.endswith(".palm")]
    assert len(files) == 1, "what one fetched, the others have"
