"""A device and a real repository over HTTP: the server well or hostile, the clock right or not."""

from __future__ import annotations

import shutil
import time
from datetime import datetime, timedelta
from typing import Any, get_args

import pytest

from palmkit.delivery import client as client_module
from palmkit.delivery import golden
from palmkit.delivery.client import Mode
from palmkit.delivery.http import Http, Limits
from palmkit.engine.errors import DeliveryError
from tests.delivery.fault_server import Fault
from tests.delivery.worlds import MODEL, World, runs

ALL = "*"
QUICK = Limits(
    connect_timeout_s=0.2,
    read_timeout_s=0.2,
    headers_timeout_s=0.3,
    window_s=0.3,
    attempts=1,
    first_wait_s=0.01,
    longest_wait_s=0.02,
)


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
    client.refresh(MODEL)
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
