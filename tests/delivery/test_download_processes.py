"""Several processes that fetch at once, and one that is killed in the middle."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.delivery.fault_server import Fault, FaultServer, serving
from tests.delivery.network_devices import CONTENT, FILE, PATH, SHA256, Device


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with serving() as server:
        server.files[PATH] = CONTENT
        yield server


@pytest.fixture
def device(tmp_path: Path, server: FaultServer) -> Device:
    return Device(tmp_path / "store", server)


FETCH = """
import sys
from pathlib import Path
from palmkit.delivery.download import fetch
from palmkit.delivery.http import Http
from palmkit.delivery.manifest import File
from palmkit.delivery.store import BlobStore
folder, url, name, size, sha256 = sys.argv[1:]
print("ready", flush=True)
input()
path = fetch(BlobStore(Path(folder)), "face", File(name, int(size), sha256), [url], Http())
print(path, flush=True)
"""


def start_process(device: Device, server: FaultServer) -> "subprocess.Popen[str]":
    file = [FILE.name, str(FILE.size), FILE.sha256]
    process = subprocess.Popen(
        [sys.executable, "-c", FETCH, str(device.folder), server.url, *file],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def go(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def test_two_processes_fetch_it_once(device: Device, server: FaultServer) -> None:
    server.faults[PATH] = Fault("drip", times=1, at=399_990, every_s=0.03)
    processes = [start_process(device, server) for _ in range(2)]
    for process in processes:
        go(process)
    outputs = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert outputs[0] == outputs[1] == f"{device.store.path(SHA256)}\n"
    assert len(server.requests) == 1


def test_kill_9_in_the_middle_then_resume(device: Device, server: FaultServer) -> None:
    server.faults[PATH] = Fault("drip", times=1, at=200_000, every_s=0.02)
    process = start_process(device, server)
    go(process)
    while len(device.part) < 150_000:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert device.store.path(SHA256) is None
    device.fetch(wait_s=5)
    resumed = server.requests[-1].headers.get("Range")
    assert resumed is not None and 150_000 <= int(resumed[6:-1]) < 201_000
    assert device.store.size_bytes() == len(CONTENT)


def test_threads_wait_for_each_other(device: Device, server: FaultServer) -> None:
    paths: list[Path] = []
    threads = [threading.Thread(target=lambda: paths.append(device.fetch())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(paths)) == 1 and len(paths) == 4 and len(server.requests) == 1
