"""Fetching a file over every fault of a network: it comes whole, or the device is as it was."""

import errno
import hashlib
import os
import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from palmkit.delivery.download import fetch
from palmkit.delivery.http import HttpError
from palmkit.delivery.manifest import File
from palmkit.delivery.store import BlobStore
from tests.delivery.fault_server import Fault, FaultServer, serving
from tests.delivery.network_devices import CONTENT, FILE, PATH, SHA256, Device


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with serving() as server:
        server.files[PATH] = CONTENT
        yield server


@pytest.fixture
def mirror() -> Iterator[FaultServer]:
    with serving() as server:
        server.files[PATH] = CONTENT
        yield server


@pytest.fixture
def device(tmp_path: Path, server: FaultServer) -> Iterator[Device]:
    device = Device(tmp_path / "store", server)
    yield device
    device.http.close()


def ranges(server: FaultServer) -> list[str | None]:
    return [request.headers.get("Range") for request in server.requests]


def test_a_file_is_fetched_once(device: Device, server: FaultServer) -> None:
    assert device.fetch() == device.fetch()
    assert (len(server.requests), device.events) == (1, ["download_ok"])
    assert device.progress == sorted(device.progress) and device.progress[-1] == len(CONTENT)
    assert device.store.size_bytes() == len(CONTENT), "nothing else is left"


def test_a_truncated_body_is_resumed_where_it_ended(device: Device, server: FaultServer) -> None:
    server.faults[PATH] = Fault("truncated", times=3, at=100_000)
    device.fetch()
    assert ranges(server) == [None, "bytes=100000-", "bytes=200000-", "bytes=300000-"]
    assert all("If-Range" in request.headers for request in server.requests[1:])


def test_a_server_that_always_breaks_off_is_left_and_what_came_is_kept(
    device: Device, server: FaultServer
) -> None:
    server.faults[PATH] = Fault("truncated", at=10_000)
    assert device.fail().code == "download_fail"
    assert len(server.requests) == 3 and device.part == CONTENT[:30_000]
    server.faults.clear()
    device.fetch()
    assert ranges(server)[-1] == "bytes=30000-"
    assert device.events == ["download_resume", "download_ok"]


@pytest.mark.parametrize("kind", ["flipped", "other"])
def test_wrong_bytes_are_dropped_and_after_three_not_fetched_again(
    device: Device, server: FaultServer, kind: str
) -> None:
    server.faults[PATH] = Fault(kind)
    assert [device.fail(metadata="7").code for _ in range(5)] == ["hash_mismatch"] * 5
    assert len(server.requests) == 3 and device.part == b""
    assert device.events == ["hash_mismatch"] * 3
    server.faults.clear()
    assert device.fail(metadata="7").code == "hash_mismatch", "nothing was published since"
    assert len(server.requests) == 3
    device.fetch(metadata="8")


def test_wrong_bytes_of_one_mirror_do_no_harm(
    device: Device, server: FaultServer, mirror: FaultServer
) -> None:
    device.servers = (server, mirror)
    server.faults[PATH] = Fault("flipped")
    device.fetch()
    assert device.events == ["hash_mismatch", "download_ok"]
    assert (len(server.requests), ranges(mirror)) == (1, [None])


@pytest.mark.parametrize("kind", ["truncated", "hang", "refuse", "status"])
def test_another_mirror_goes_on_where_one_failed(
    device: Device, server: FaultServer, mirror: FaultServer, kind: str
) -> None:
    device.servers = (server, mirror)
    device.have(CONTENT[:100_000], url=server.url + PATH, etag=f'"{SHA256[:16]}"')
    server.faults[PATH] = Fault(kind)
    device.fetch()
    (request,) = mirror.requests
    assert request.headers["Range"] == "bytes=100000-"
    assert "If-Range" not in request.headers, "an ETag is that of one server"


def test_an_error_of_the_first_mirror_is_told(
    device: Device, server: FaultServer, mirror: FaultServer
) -> None:
    device.servers = (server, mirror)
    server.faults[PATH] = Fault("status", status=503, headers={"Retry-After": "3600"})
    mirror.stop()
    error = device.fail()
    assert isinstance(error, HttpError)
    assert (error.code, error.status, error.retry_after_s) == ("download_fail", 503, 3600.0)


def test_an_endless_body_is_cut_at_the_size(device: Device, server: FaultServer) -> None:
    server.faults[PATH] = Fault("endless", times=1)
    began = time.monotonic()
    device.fetch()
    assert time.monotonic() - began < 10
    server.files[PATH] = b"x" + CONTENT
    server.faults[PATH] = Fault("endless")
    device.store.collect([])
    assert device.fail().code == "hash_mismatch"


def test_a_body_that_drips_is_given_up_and_resumed_later(
    device: Device, server: FaultServer
) -> None:
    server.faults[PATH] = Fault("drip", at=50_000, every_s=0.02)
    began = time.monotonic()
    assert device.fail().code == "download_fail"
    assert time.monotonic() - began < 15
    left = len(device.part)
    assert 150_000 < left < 200_000
    server.faults.clear()
    device.fetch()
    assert ranges(server)[-1] == f"bytes={left}-"


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_server_in_trouble_is_asked_again(
    device: Device, server: FaultServer, status: int
) -> None:
    server.faults[PATH] = Fault("status", times=2, status=status, headers={"Retry-After": "0"})
    device.fetch()
    assert len(server.requests) == 3


def test_what_is_not_there_is_asked_for_once(device: Device, server: FaultServer) -> None:
    server.files.clear()
    error = device.fail()
    assert isinstance(error, HttpError) and error.status == 404
    assert len(server.requests) == 1


def test_a_server_without_ranges_starts_again(device: Device, server: FaultServer) -> None:
    server.faults[PATH] = Fault("range_ignored")
    device.have(CONTENT[:100_000], url=server.url + PATH)
    device.fetch()
    assert ranges(server) == ["bytes=100000-"]


def test_a_file_that_changed_on_the_server_starts_again(
    device: Device, server: FaultServer
) -> None:
    device.have(b"x" * 100_000, url=server.url + PATH, etag='"old"')
    device.fetch()
    (request,) = server.requests
    assert (request.headers["Range"], request.headers["If-Range"]) == ("bytes=100000-", '"old"')
    assert device.events == ["download_resume", "download_ok"]


def test_a_range_of_another_place_starts_again(device: Device, server: FaultServer) -> None:
    device.have(CONTENT[:100_000], url=server.url + PATH)
    server.faults[PATH] = Fault("wrong_range", times=1)
    device.fetch()
    assert ranges(server) == ["bytes=100000-", None]


def test_a_range_that_cannot_be_satisfied_starts_again(device: Device, server: FaultServer) -> None:
    device.have(CONTENT[:100_000], url=server.url + PATH)
    server.faults[PATH] = Fault("status", times=1, status=416)
    device.fetch()
    assert ranges(server) == ["bytes=100000-", None]
    server.faults[PATH] = Fault("status", status=416)
    device.store.collect([])
    assert device.fail().code == "download_fail"


@pytest.mark.parametrize("left", [b"x" * 100, b"x" * len(CONTENT), b"x" * (len(CONTENT) + 1)])
def test_garbage_left_by_a_power_loss_costs_one_more_transfer_and_no_strike(
    device: Device, server: FaultServer, left: bytes
) -> None:
    device.have(left, url=server.url + PATH)
    server.faults[PATH] = Fault("etagless")
    device.fetch()
    assert "hash_mismatch" not in device.events


def test_progress_may_end_it(device: Device, server: FaultServer) -> None:
    def stop(received: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(device.store, "face", FILE, [server.url], device.http, on_progress=stop)
    assert 0 < len(device.part) < len(CONTENT)
    device.fetch()
    assert ranges(server)[1] is not None


def test_a_full_disk_leaves_nothing_half(
    device: Device, server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = device.fetch()
    other = random.Random(2).randbytes(300_000)
    sha256 = hashlib.sha256(other).hexdigest()
    server.files[f"/targets/models/face/{sha256}.b.palm"] = other

    class Full:
        def __init__(self, file: Any) -> None:
            self.file, self.left = file, 100_000

        def __enter__(self) -> "Full":
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()

        def write(self, content: bytes) -> None:
            self.left -= len(content)
            if self.left < 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            self.file.write(content)

    open_part = BlobStore.open_part

    def opening(store: BlobStore, sha256: str, goes_on: bool = False) -> Full:
        return Full(open_part(store, sha256, goes_on))

    monkeypatch.setattr(BlobStore, "open_part", opening)
    assert device.fail(File("b.palm", len(other), sha256)).code == "disk_full"
    assert not device.store.part(sha256).exists()
    assert device.store.path(SHA256) == before
    monkeypatch.undo()
    device.fetch(File("b.palm", len(other), sha256))


def test_a_really_full_disk(
    server: FaultServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", str(tmp_path)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("needs the right to mount a tmpfs")
    try:
        device = Device(tmp_path / "store", server)
        before = device.fetch()
        (tmp_path / "fill").write_bytes(bytes(6 << 20))
        content = bytes(4 << 20)
        sha256 = hashlib.sha256(content).hexdigest()
        server.files[f"/targets/models/face/{sha256}.b.palm"] = content
        big = File("b.palm", len(content), sha256)
        assert device.fail(big).code == "disk_full"
        assert len(server.requests) == 1, "seen before a byte came"
        (tmp_path / "fill").write_bytes(bytes((20 << 20) - len(CONTENT) - (1 << 20)))
        usage = shutil.disk_usage(tmp_path)

        def room_then_none(path: Path) -> object:
            return usage._replace(free=1 << 40)

        monkeypatch.setattr(shutil, "disk_usage", room_then_none)
        assert device.fail(big).code == "disk_full"
        assert os.listdir(device.folder / "tmp") == []
        assert device.fetch() == before
        device.http.close()
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_no_place_to_fetch_from(device: Device) -> None:
    device.servers = ()
    assert device.fail().code == "download_fail"


def test_an_empty_file(device: Device, server: FaultServer) -> None:
    sha256 = hashlib.sha256(b"").hexdigest()
    server.files[f"/targets/models/face/{sha256}.e"] = b""
    assert device.fetch(File("e", 0, sha256)).read_bytes() == b""
    assert os.listdir(device.folder / "tmp") == []
