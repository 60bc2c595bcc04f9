"""However a server holds the line, what an app waits for ends when it said so."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from palmkit.delivery import deadline
from palmkit.delivery.client import Client
from palmkit.delivery.download import fetch
from palmkit.delivery.http import Http, HttpError, Limits
from palmkit.engine.errors import DeliveryError
from tests.delivery.devices import good
from tests.delivery.fault_server import Fault, FaultServer
from tests.delivery.network_devices import CONTENT, FILE, QUICK, SHA256, Device
from tests.delivery.worlds import MODEL, World, runs

LIMIT_S = 0.8
# Of what a device does by itself meanwhile, on a machine that has other work.
SLACK_S = 4.0


@contextmanager
def answering(answer: Callable[[socket.socket], None]) -> Generator[str]:
    """The URL of a server that has a connection and a function."""
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def accept() -> None:
        while not over.is_set():
            with suppress(OSError):
                line = listener.accept()[0]
                threading.Thread(target=serve, args=(line,), daemon=True).start()

    def serve(line: socket.socket) -> None:
        with line, suppress(OSError):
            answer(line)

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        over.set()
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def drip(line: socket.socket, head: bytes, piece: bytes) -> None:
    """Send for ever, a piece now and then: no read of it takes long."""
    line.recv(1 << 16)
    line.sendall(head)
    while True:
        line.sendall(piece)
        time.sleep(0.05)


@contextmanager
def ends_in(seconds: float) -> Generator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds + SLACK_S


PATIENT = Limits(60, 60, 60, 1e-6, 60)
HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (b"", b"H"),
        (HEAD, b"X"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (HEAD + b"Content-Length: 900\r\n\r\n", b"x"),
        (CHUNKED + b"5;", b"x"),
        (CHUNKED + b"0\r\n", b"X: y\r\n"),
        (b"HTTP/1.1 302 Found\r\nLocation: /", b"x"),
    ],
    ids=["status", "header", "continue", "body", "chunk's length", "trailer", "redirect"],
)
def test_what_drips_anywhere_ends_in_time(head: bytes, piece: bytes) -> None:
    with answering(lambda line: drip(line, head, piece)) as url, ends_in(LIMIT_S):
        http = Http(PATIENT)
        with deadline.within(LIMIT_S), pytest.raises(HttpError) as caught:
            http.get_bytes(f"{url}/a", 1000)
        assert caught.value.code == "check_fail_timeout"
        http.close()


@pytest.mark.parametrize("kind", ["silent", "drips"])
def test_a_handshake_ends_in_time(kind: str) -> None:
    def shake(line: socket.socket) -> None:
        if kind == "drips":
            # The head of a record of 16 KiB, and then its bytes one by one.
            drip(line, b"\x16\x03\x03\x40\x00", b"\x02")
        time.sleep(30)

    with answering(shake) as url, ends_in(LIMIT_S):
        http = Http(PATIENT)
        with deadline.within(LIMIT_S), pytest.raises(HttpError) as caught:
            http.get_bytes(url.replace("http:", "https:") + "/a", 1000)
        assert caught.value.code == "check_fail_timeout"
        http.close()


def test_a_proxy_that_drips_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    head = b"HTTP/1.1 200 Connection established\r\n"
    with answering(lambda line: drip(line, head, b"X: y\r\n")) as url, ends_in(LIMIT_S):
        monkeypatch.setenv("HTTPS_PROXY", url)
        http = Http(PATIENT)
        with deadline.within(LIMIT_S), pytest.raises(HttpError) as caught:
            http.get_bytes("https://models.invalid/a", 1000)
        assert caught.value.code == "check_fail_timeout"
        http.close()


def test_a_name_that_is_not_found_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def hang(*_: Any) -> Any:
        over.wait(30)
        raise socket.gaierror("at last")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    http = Http(PATIENT)
    with ends_in(LIMIT_S), deadline.within(LIMIT_S), pytest.raises(HttpError) as caught:
        http.get_bytes("http://models.invalid/a", 1000)
    assert caught.value.code == "check_fail_timeout"
    over.set()


def test_addresses_where_nobody_is_share_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    def connect(address: Any, timeout: float, **_: Any) -> Any:
        waited.append(timeout)
        time.sleep(timeout)
        raise TimeoutError("timed out")

    entry = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
    names = [(*entry, (f"192.0.2.{i}", 80)) for i in range(40)]

    def look_up(*_: object) -> object:
        return names

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr("urllib3.util.connection.create_connection", connect)
    http = Http(PATIENT)
    with ends_in(LIMIT_S), deadline.within(LIMIT_S), pytest.raises(HttpError):
        http.get_bytes("http://models.invalid/a", 1000)
    assert len(waited) == 40 and sum(waited) < LIMIT_S + 0.5


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a full queue refuses")
def test_a_connection_that_nobody_takes_ends_in_time() -> None:
    """A queue of connections that is full drops what comes, so that it is sent for ever."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        with ends_in(LIMIT_S), deadline.within(LIMIT_S), pytest.raises(HttpError) as caught:
            Http(PATIENT).get_bytes(f"http://127.0.0.1:{listener.getsockname()[1]}/a", 1000)
        assert caught.value.code == "check_fail_timeout"


def test_redirects_share_the_time() -> None:
    def send_on(line: socket.socket) -> None:
        line.recv(1 << 16)
        time.sleep(LIMIT_S / 3)
        # It says that it closes the line, or the client may use it again as it goes.
        head = (
            b"HTTP/1.1 302 Found\r\nConnection: close\r\nLocation: /a\r\nContent-Length: 0\r\n\r\n"
        )
        line.sendall(head)

    with answering(send_on) as url, deadline.within(LIMIT_S), pytest.raises(HttpError) as caught:
        Http(PATIENT).get_bytes(f"{url}/a", 1000)
    assert caught.value.code == "check_fail_timeout"


def test_waits_between_attempts_are_within_the_limit() -> None:
    slept: list[float] = []
    http = Http(Limits(first_wait_s=5.0), slept.append)
    error = HttpError("check_fail_http5xx", "503", 503, retry_after_s=4.0)
    with deadline.within(10):
        assert http.wait(error, 0)
        assert deadline.left_s() <= 6.0
        slept.clear()
        assert not (http.wait(error, 0) and http.wait(error, 0))
    assert sum(slept) < 6.0


def test_mirrors_share_the_time_and_a_large_file_that_comes_takes_none() -> None:
    with deadline.within(8):
        with deadline.share(2):
            assert 3.9 < deadline.left_s() <= 4
            deadline.spend(4)
            assert deadline.left_s() == 0
        assert 3.9 < deadline.left_s() <= 4
        with deadline.share(1):
            deadline.spend(1)
            deadline.spend(-1)
        assert 3.9 < deadline.left_s() <= 4
    assert deadline.left_s() == float("inf")


ALL = "*"


@pytest.mark.parametrize("kind", ["drip", "drip_headers", "hang"])
def test_a_mirror_that_drips_does_not_hold_a_refresh(world: World, kind: str) -> None:
    world.server.faults[ALL] = Fault(kind, at=3)
    client = world.client()
    with ends_in(1.0), pytest.raises(DeliveryError) as caught:
        client.refresh(MODEL, limit_s=1.0)
    assert caught.value.code == "check_fail_timeout"
    assert runs(client) == "0"


def test_a_file_that_drips_does_not_hold_a_refresh(world: World) -> None:
    file = next(path for path in world.server.files if path.endswith("-1.0.0.palm"))
    world.server.faults[file] = Fault("drip", at=3)
    client = world.client()
    with ends_in(1.5), pytest.raises(DeliveryError):
        client.refresh(MODEL, limit_s=1.5)


@pytest.mark.parametrize("where", ["metadata", "files"])
def test_the_second_mirror_has_its_share(world: World, where: str) -> None:
    bad = FaultServer()
    bad.files = world.server.files
    names = [ALL] if where == "metadata" else [f for f in bad.files if f.endswith("1.0.0.palm")]
    bad.faults.update({name: Fault("drip", at=3) for name in names})
    root = world.repository.root()
    client = Client(
        world.folder / "two",
        [bad.url, world.server.url],
        root,
        baselines={MODEL: world.baseline},
        prove=good,
    )
    with ends_in(3.0):
        client.refresh(MODEL, limit_s=3.0)
    assert runs(client) == "1.0.0"
    bad.stop()


def test_a_large_file_takes_longer_than_the_limit(tmp_path: Path) -> None:
    server = FaultServer()
    pieces = [CONTENT[start : start + 20_000] for start in range(0, len(CONTENT), 20_000)]

    def slow(line: socket.socket) -> None:
        line.recv(1 << 16)
        line.sendall(HEAD + f"Content-Length: {len(CONTENT)}\r\n\r\n".encode())
        for piece in pieces:
            line.sendall(piece)
            time.sleep(0.05)

    with answering(slow) as url:
        device = Device(tmp_path / "store", server)
        began = time.monotonic()
        with deadline.within(0.5):
            path = fetch(device.store, "face", FILE, [url], Http(QUICK))
        assert time.monotonic() - began > 0.9 and path.name == SHA256
    server.stop()


@pytest.mark.parametrize(
    "headers",
    [
        b"Location: http://[\r\n",
        b"Location: \xff\xfe\r\n",
        b"Location: file:///etc/passwd\r\n",
        b"Location: http://a b/\r\n",
    ],
)
def test_a_redirect_to_nowhere_is_an_error_of_ours(headers: bytes) -> None:
    def answer(line: socket.socket) -> None:
        line.recv(1 << 16)
        line.sendall(b"HTTP/1.1 302 Found\r\n" + headers + b"Content-Length: 0\r\n\r\n")

    with answering(answer) as url, pytest.raises(HttpError):
        Http(QUICK).get_bytes(f"{url}/a", 100)


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: -5\r\n",
        b"Content-Length: 99999999999999999999999\r\n",
        b"Content-Length: 5, 6\r\n",
        b"Content-Length: x\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"X: y\r\n" * 200,
        b"X: " + b"y" * 70000 + b"\r\n",
        b"Content-Encoding: gzip\r\nContent-Length: 1000000000\r\n",
    ],
)
def test_headers_that_lie_are_errors_of_ours(headers: bytes) -> None:
    def answer(line: socket.socket) -> None:
        line.recv(1 << 16)
        line.sendall(HEAD + headers + b"\r\n" + b"y" * 1000)

    with answering(answer) as url, pytest.raises(HttpError):
        Http(QUICK).get_bytes(f"{url}/a", 100)


def test_a_range_with_a_number_of_many_digits_is_refused(tmp_path: Path) -> None:
    def answer(line: socket.socket) -> None:
        line.recv(1 << 16)
        place = b"Content-Range: bytes " + b"9" * 5000 + b"-9/10\r\n"
        line.sendall(b"HTTP/1.1 206 Partial\r\n" + place + b"Content-Length: 0\r\n\r\n")

    server = FaultServer()
    device = Device(tmp_path / "store", server)
    device.have(b"half")
    with answering(answer) as url, pytest.raises(DeliveryError):
        fetch(device.store, "face", FILE, [url], Http(QUICK))
    server.stop()


def test_limits_count_by_the_clock_that_does_not_jump(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock set forward by a year ends nothing, and one set back holds nothing."""
    with answering(lambda line: drip(line, HEAD, b"X")) as url, ends_in(LIMIT_S):
        monkeypatch.setattr(time, "time", lambda: 0.0)
        with deadline.within(LIMIT_S), pytest.raises(HttpError):
            Http(PATIENT).get_bytes(f"{url}/a", 1000)
