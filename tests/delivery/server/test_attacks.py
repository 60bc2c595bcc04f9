"""Strangers who hold on to connections, send junk, or read no answers, on real sockets."""

import contextlib
import os
import resource
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
import requests
from sqlalchemy import Engine

from palmkit.delivery.server.app import Server, Settings
from palmkit.delivery.server.connection import READ_BYTES, Connection
from palmkit.delivery.server.connections import listen
from palmkit.delivery.server.limits import Limits, most_connections, origin
from palmkit.delivery.server.static import Download
from palmkit.engine.errors import RepositoryError
from tests.delivery.server.fleet_reports import GZIP, make_report, packed
from tests.delivery.server.running import TOKEN, Running
from tests.delivery.server.test_serve import serving

LIMITS = Limits(
    connections=20,
    per_address=10,
    idle_s=0.5,
    head_s=0.8,
    body_s=3.0,
    stall_s=0.5,
    least_rate=20_000,
)
ROOMY = Limits(connections=1000, per_address=10, idle_s=0.5, head_s=0.8, body_s=1.0, stall_s=1.0)
NAME = f"{'0' * 64}.doubler-1.0.0.palm"
CONTENT = os.urandom(1 << 20) * 12

HEAD = b"POST /v1/reports HTTP/1.1\r\nHost: x\r\n"
# What is sent at first, and then again and again.
HELD: dict[str, tuple[bytes, bytes]] = {
    "silence": (b"", b""),
    "a head that never ends": (HEAD, b"A: b\r\n"),
    "a body that drips": (HEAD + b"Content-Length: 60000\r\n\r\n", b"x"),
    "a body in chunks that drips": (
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n",
        b"1\r\nx\r\n",
    ),
    "a body for those who want none": (
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n",
        b"x",
    ),
}


@pytest.fixture
def public(tmp_path: Path) -> Path:
    file = tmp_path / "public" / "targets" / "models" / "doubler" / NAME
    file.parent.mkdir(parents=True)
    file.write_bytes(CONTENT)
    return tmp_path / "public"


@pytest.fixture
def url(tmp_path: Path) -> str:
    # Nothing here depends on the kind of database.
    return f"sqlite:///{tmp_path / 'server.db'}"


def open_socket(port: int, source: str = "127.0.0.1", buffer: int | None = None) -> socket.socket:
    found = socket.socket()
    if buffer is not None:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    found.settimeout(10)
    found.bind((source, 0))
    found.connect(("127.0.0.1", port))
    return found


def is_closed(connection: socket.socket) -> bool:
    """Whether the other side has closed it; what came before is read."""
    connection.setblocking(False)
    try:
        while connection.recv(1 << 20):
            pass
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def drip(connections: list[socket.socket], content: bytes) -> None:
    for connection in connections:
        with contextlib.suppress(OSError):
            connection.send(content)


def test_who_holds_on_is_let_go_and_others_get_through(database: Engine) -> None:
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(Running(Server(database, Settings(TOKEN)), LIMITS))
        held = {
            name: [stack.enter_context(open_socket(client.port)) for _ in range(30)]
            for name in HELD
        }
        for name, (first, _) in HELD.items():
            drip(held[name], first)
        until = time.monotonic() + 10
        while not all(is_closed(each) for connections in held.values() for each in connections):
            assert time.monotonic() < until
            # Each time by a new connection, for which there must be room.
            assert requests.get(f"{client.url}/healthz", timeout=5).status_code == 200
            for name, (_, again) in HELD.items():
                drip(held[name], again)
            time.sleep(0.1)
        assert len(client.connections) <= LIMITS.connections


def test_time_runs_out_even_where_there_is_room(database: Engine) -> None:
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(Running(Server(database, Settings(TOKEN)), ROOMY))
        held = {name: stack.enter_context(open_socket(client.port)) for name in HELD}
        for name, (first, _) in HELD.items():
            drip([held[name]], first)
        until = time.monotonic() + 10
        while waiting := [name for name, each in held.items() if not is_closed(each)]:
            assert time.monotonic() < until, waiting
            for name in waiting:
                drip([held[name]], HELD[name][1])
            time.sleep(0.02)


def test_who_reads_no_answer_is_let_go(database: Engine, public: Path) -> None:
    server = Server(database, Settings(TOKEN), public=public)
    asked = f"GET /targets/models/doubler/{NAME} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(Running(server, LIMITS))
        held = [stack.enter_context(open_socket(client.port, buffer=4096)) for _ in range(15)]
        drip(held, asked)
        until = time.monotonic() + 10
        while 'closed_total{limit="reading"} 15.0' not in client.get("/metrics").text:
            assert time.monotonic() < until
            time.sleep(0.1)
        # One who reads slowly, but surely, gets it all: about 100 KB in each half second.
        slow = stack.enter_context(open_socket(client.port, buffer=1 << 16))
        slow.sendall(asked.replace(b"\r\n\r\n", b"\r\nRange: bytes=0-4999999\r\n\r\n"))
        size = 0
        while size < 5_000_000:
            part = slow.recv(1 << 16)
            assert part, "closed"
            size += len(part)
            time.sleep(0.01)


def test_an_address_has_only_so_many(database: Engine) -> None:
    limits = Limits(connections=100, per_address=5, proxies=frozenset({"127.0.0.3"}))
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(Running(Server(database, Settings(TOKEN)), limits))
        other = stack.enter_context(open_socket(client.port, "127.0.0.4"))
        greedy = [stack.enter_context(open_socket(client.port, "127.0.0.2")) for _ in range(30)]
        proxy = [stack.enter_context(open_socket(client.port, "127.0.0.3")) for _ in range(30)]
        until = time.monotonic() + 5
        while sum(map(is_closed, greedy)) < 25:
            assert time.monotonic() < until
            time.sleep(0.02)
        assert not any(map(is_closed, [other, *greedy[-5:], *proxy]))


JUNK: dict[str, bytes] = {
    "binary": bytes(range(256)) * 4,
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    "huge headers": b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 100_000,
    "many headers": b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 10_000,
    "junk behind a request": b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n\x00\xff\r\n\r\n",
    "junk behind a body": HEAD + b"Content-Length: 3\r\n\r\nabcdef\0\r\n",
    "junk in a body": HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcdefghi\r\n",
    "junk in a body that was refused": HEAD.replace(b"/v1/reports", b"/metrics")
    + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n",
    "a chunk without end": HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 30 + b"\r\n",
    "two lengths": HEAD + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "a length and chunks": HEAD
    + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n",
    "a negative length": HEAD + b"Content-Length: -5\r\n\r\n",
    "an upgrade": b"GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
    "a proxy's request": b"CONNECT evil:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    "another host": b"GET http://evil/healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "odd paths": b"".join(
        b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n"
        for path in (b"/%ff%fe", b"//evil", b"*", b"/admin/%00", b"/targets/" + b"a/" * 3000)
    ),
    "a thousand requests at once": b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n" * 1000,
    "many ranges": f"GET /targets/models/doubler/{NAME} HTTP/1.1\r\nHost: x\r\nRange: bytes="
    f"{','.join(f'{each}-' for each in range(2000))}\r\n\r\n".encode(),
}


def test_junk_costs_nothing(
    database: Engine, public: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(database, Settings(TOKEN), public=public)
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(Running(server, LIMITS))
        for name, content in JUNK.items():
            # It may be closed in the middle of it.
            with open_socket(client.port) as connection, contextlib.suppress(OSError):
                connection.sendall(content)
                connection.shutdown(socket.SHUT_WR)
                answer = connection.recv(1000)
                assert answer == b"" or answer.startswith(b"HTTP/1.1 "), name
                assert b" 500 " not in answer, name
        assert client.get("/healthz").status_code == 200
        body = packed(make_report(("1.0.0", "stable", {"load_ok": 1})))
        assert client.post("/v1/reports", data=body, headers=GZIP).status_code == 202
    assert [each.getMessage() for each in caplog.records if each.exc_info] == []


def test_a_body_in_tiny_chunks_is_read_little_by_little(
    database: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte of it is an event of the parser: others wait while one read of it is parsed."""
    sizes: list[int] = []
    original = Connection.data_received

    def note(self: Connection, data: bytes) -> None:
        sizes.append(len(data))
        original(self, data)

    monkeypatch.setattr(Connection, "data_received", note)
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(Running(Server(database, Settings(TOKEN)), LIMITS))
        connection = stack.enter_context(open_socket(client.port))
        with contextlib.suppress(OSError):
            connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
            connection.sendall(b"1\r\nx\r\n" * 100_000)
        assert client.get("/healthz").status_code == 200
    assert sum(sizes) > READ_BYTES == max(sizes)


@pytest.mark.parametrize("held", ["a body that drips", "an answer that nobody reads"])
def test_who_holds_on_does_not_hold_up_the_end(
    database: Engine, public: Path, caplog: pytest.LogCaptureFixture, held: str
) -> None:
    limits = replace(ROOMY, body_s=60.0, stall_s=60.0, ending_s=0.3)
    server = Server(database, Settings(TOKEN), public=public)
    asked = f"GET /targets/models/doubler/{NAME} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    with contextlib.ExitStack() as stack, Running(server, limits) as client:
        connection = stack.enter_context(open_socket(client.port, buffer=4096))
        connection.sendall(HELD[held][0] if held in HELD else asked)
        until = time.monotonic() + 10
        while len(client.connections) < 1:
            assert time.monotonic() < until
            time.sleep(0.02)
        time.sleep(0.1)
    assert caplog.records == []


def test_a_download_that_nobody_takes_is_read_no_further(tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.write_bytes(CONTENT)
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        if not sent:
            await anyio.sleep(0.001)
            return {"type": "http.request", "body": b"", "more_body": False}
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)
        await anyio.sleep(0)

    scope: dict[str, Any] = {"type": "http", "method": "GET", "headers": [], "extensions": {}}
    answer = Download(file, stat_result=file.stat())
    anyio.run(answer, scope, receive, send)
    assert 0 < len(sent) < len(CONTENT) // Download.chunk_size


def test_more_connections_than_files(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        url, process = stack.enter_context(serving(tmp_path / "server", most_files=1024))
        port = int(url.rpartition(":")[2])
        for _ in range(1100):
            stack.enter_context(open_socket(port, "127.0.0.1"))
        began = cpu_s(process.pid)
        for _ in range(8):
            assert requests.get(f"{url}/healthz", timeout=5).status_code == 200
            time.sleep(0.1)
        assert cpu_s(process.pid) - began < 2, "it turns round and round"
        log = next(tmp_path.glob("*.log"))
        assert log.stat().st_size < 20_000


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs Linux")
def test_files_that_run_out_all_the_same(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        url, process = stack.enter_context(serving(tmp_path / "server"))
        port = int(url.rpartition(":")[2])
        # What is done at the start, and may need files, is done.
        until = time.monotonic() + 10
        while (
            "metadata_expires_timestamp_seconds{"
            not in requests.get(f"{url}/metrics", timeout=5).text
        ):
            assert time.monotonic() < until
        time.sleep(0.3)
        in_use = len(os.listdir(f"/proc/{process.pid}/fd"))
        before = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (in_use + 20, before[1]))
        for _ in range(100):
            stack.enter_context(open_socket(port))
        assert requests.get(f"{url}/healthz", timeout=10).status_code == 200
        log = next(tmp_path.glob("*.log"))
        assert "no connections are taken" in log.read_text()
        assert log.stat().st_size < 20_000


def cpu_s(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.fixture
def few_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("few_files")
def test_limits_fit_the_files() -> None:
    assert most_connections() == 448
    assert Limits.of() == Limits(448, 56)
    assert Limits.of(100, 7, ["10.0.0.1", "::1", "2001:db8::5"]) == Limits(
        100, 7, frozenset({"10.0.0.1", "::1", "2001:db8::/64"})
    )
    for connections, per_address, proxies, said in (
        (
            449,
            None,
            None,
            "expected 1 to 448, for which .*[(]ulimit -n[)], got 449",
        ),
        (0, None, None, "expected 1 to 448"),
        (None, 0, None, "per address: expected 1 or more, got 0"),
        (None, None, ["proxy.example.com"], "expected an IP address, got 'proxy.example.com'"),
    ):
        with pytest.raises(RepositoryError, match=said):
            Limits.of(connections, per_address, proxies)


@pytest.mark.parametrize(
    "address, found",
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::1"),
        ("", ""),
    ],
)
def test_one_subscriber_is_one_origin(address: str, found: str) -> None:
    assert origin(address) == found


def test_a_port_is_had_once(database: Engine) -> None:
    with Running(Server(database, Settings(TOKEN))) as client:
        with pytest.raises(RepositoryError, match=f"port {client.port}: address already in use"):
            listen("127.0.0.1", client.port, client.connections)
        for host in ("no.such.host.invalid", "x" * 70, "192.0.2.1"):
            with pytest.raises(RepositoryError, match=f"cannot listen on {host}"):
                listen(host, 0, client.connections)
