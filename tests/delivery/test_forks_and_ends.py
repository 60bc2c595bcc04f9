"""A process that forks or ends while the client is at work: the child runs, the end is quiet."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palmkit.delivery.client import Client
from palmkit.delivery.download import fetch
from palmkit.delivery.lock import FileLock, Held
from palmkit.delivery.policy import Candidate
from tests.delivery.devices import MODEL, Devices
from tests.delivery.fault_server import Fault, serving
from tests.delivery.network_devices import CONTENT, FILE, PATH, SHA256, Device
from tests.delivery.worlds import World

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
LIMIT_S = 15
LOCK = "_lock"


def in_a_child(action: Callable[[], object]) -> int:
    """How a forked child ended that did it; one that hangs is ended, -14."""
    child = os.fork()
    if child == 0:
        import signal

        code = 1
        try:
            signal.alarm(LIMIT_S)
            action()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture
def client(tmp_path: Path) -> Client:
    devices = Devices(tmp_path)
    devices.published.publish("2.0", devices.content(2))
    devices.published.offer(Candidate("2.0", 100))
    client = devices.client()
    client.refresh(MODEL)
    client.mark_ok(client.get(MODEL, "local"))
    return client


@needs_fork
@pytest.mark.parametrize("what", ["state", "client"])
def test_a_fork_while_a_thread_holds_a_lock(client: Client, what: str) -> None:
    held, over = threading.Event(), threading.Event()

    def hold() -> None:
        # Longer than a fork waits for it.
        lock = client.device.state.transaction() if what == "state" else getattr(client, LOCK)
        with lock:
            held.set()
            over.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()

    def use() -> None:
        began = time.monotonic()
        # SQLite lets nobody use a file in the child that was locked in the parent as it forked.
        assert client.get(MODEL).version == ("0" if what == "state" else "2.0")
        client.hint(1)
        assert time.monotonic() - began < 5

    assert in_a_child(use) == 0
    over.set()
    thread.join()
    assert client.get(MODEL, "local").version == "2.0"


@needs_fork
def test_a_child_does_not_end_what_its_parent_writes(client: Client) -> None:
    """A connection that is collected in the child would take back the parent's transaction."""
    state = client.device.state
    with state.transaction():
        state.set_fact("x", 1)

        def leave() -> None:
            import gc

            gc.collect()

        assert in_a_child(leave) == 0
        state.set_fact("y", 2)
    assert (state.fact("x"), state.fact("y")) == (1, 2)


@needs_fork
def test_a_child_holds_no_lock_of_its_parent(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "lock")
    lock.acquire(0)

    def look() -> None:
        with pytest.raises(Held):
            FileLock(tmp_path / "lock").acquire(0)
        lock.release()
        with pytest.raises(Held):
            FileLock(tmp_path / "lock").acquire(0)

    assert in_a_child(look) == 0
    child = os.fork()
    if child == 0:
        time.sleep(30)
        os._exit(0)
    # As if the parent were killed: it gives nothing back, and the child lives on.
    lock.after_fork()
    FileLock(tmp_path / "lock").acquire(2)
    os.kill(child, 9)
    os.waitpid(child, 0)


@needs_fork
def test_a_child_asks_over_connections_of_its_own(world: World) -> None:
    client = world.client()
    client.refresh(MODEL)

    def use() -> None:
        client.refresh(MODEL)
        assert client.get(MODEL, "local").version == "1.0.0"

    assert in_a_child(use) == 0
    client.refresh(MODEL)


def run(code: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(folder), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).parents[2],
    )


@pytest.mark.parametrize("kind", ["drip", "hang", "drip_headers"])
def test_the_end_of_a_process_that_updates_is_quiet(world: World, kind: str) -> None:
    world.server.faults["*"] = Fault(kind, at=3)
    (world.folder / "root.json").write_bytes(world.repository.root())
    code = """
        import sys, threading, time
        from pathlib import Path
        from palmkit.delivery import Client
        folder, url = Path(sys.argv[1]), sys.argv[2]
        client = Client(folder / "device", [url], (folder / "root.json").read_bytes(),
                        baselines={"doubler": folder / "baseline.palm"})
        client.get("doubler")
        time.sleep(0.7)
        assert any(thread.name == "palmkit delivery" for thread in threading.enumerate())
        print("ends")
    """
    began = time.monotonic()
    done = run(code, world.folder, world.server.url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ends\n", "")
    assert time.monotonic() - began < 20
    status = world.client().status()
    assert status["failures"] == 0, "that the process ended is not the server's fault"


def test_the_end_of_a_process_that_reports_is_quiet(tmp_path: Path) -> None:
    with serving() as server:
        server.faults["*"] = Fault("hang")
        code = """
            import sys, time
            from palmkit.delivery import reports
            reports.enable(sys.argv[2] + "/v1/reports", folder=sys.argv[1])
            reports.count("face_detector", "1.0", "stable", "load_ok")
            reports.flush(0.5)
            print("ends")
        """
        began = time.monotonic()
        done = run(code, tmp_path / "reports", server.url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ends\n", "")
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("raised", [SystemExit, KeyboardInterrupt, BrokenPipeError, ValueError])
def test_what_on_progress_raises_comes_out(tmp_path: Path, raised: type[BaseException]) -> None:
    with serving() as server:
        server.files[PATH] = CONTENT
        device = Device(tmp_path / "store", server)

        def stop(received: int, size: int) -> None:
            if received > 100_000:
                raise raised

        with pytest.raises(raised):
            fetch(device.store, "face", FILE, [server.url], device.http, on_progress=stop)
        assert len(device.part) > 100_000, "what has come is kept"
        assert device.fetch().name == SHA256


@pytest.mark.parametrize("raised", [SystemExit, KeyboardInterrupt])
def test_what_a_proof_raises_comes_out(tmp_path: Path, raised: type[BaseException]) -> None:
    devices = Devices(tmp_path)
    devices.published.publish("2.0", devices.content(2))
    devices.published.offer(Candidate("2.0", 100))

    def stop(question: Any) -> Any:
        raise raised

    with pytest.raises(raised):
        devices.client(prove=stop).refresh(MODEL)
    with pytest.raises(raised):
        devices.client(prove=stop).get(MODEL, "latest")
    client = devices.client()
    client.refresh(MODEL)
    assert client.get(MODEL, "local").version == "2.0"


def test_what_ends_the_thread_of_updates_is_said_and_the_next_one_works(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    devices = Devices(tmp_path)
    devices.published.publish("2.0", devices.content(2))
    devices.published.offer(Candidate("2.0", 100))

    def stop(question: Any) -> Any:
        raise SystemExit("of a callback")

    client = devices.client(prove=stop)
    client.get(MODEL)
    end = time.monotonic() + 10
    while "SystemExit: of a callback" not in caplog.text:
        assert time.monotonic() < end
        time.sleep(0.02)
