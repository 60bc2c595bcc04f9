"""`palmkit serve` as people start it: a process of its own, on an empty folder."""

import os
import re
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from socket import socket
from typing import Any

import pytest
import requests

from palmkit.delivery.repository import Repository
from palmkit.delivery.server.start import Place, prepare
from palmkit.kits.cli import main
from tests.delivery.releases import QUICK, write_model
from tests.delivery.server.fleet_reports import GZIP, make_report, packed


def free_port() -> int:
    with socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


def heed_ctrl_c() -> None:
    """In a child, also where what started the tests ignores it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def serving(
    folder: Path,
    *options: str,
    environment: Mapping[str, str] | None = None,
    port: int | None = None,
    most_files: int | None = None,
) -> Generator[tuple[str, subprocess.Popen[str]]]:
    """The URL of a server that runs while in the block, and its process."""
    port = free_port() if port is None else port
    command = [sys.executable, "-W", "error", "-m", "palmkit", "serve", str(folder)]
    if most_files is not None:
        command = ["sh", "-c", f'ulimit -n {most_files}; exec "$@"', "sh", *command]
    log = (folder.parent / f"{port}.log").open("w+")
    process = subprocess.Popen(
        [*command, "--port", str(port), *options],
        stdout=log,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **(environment or {})},
        preexec_fn=heed_ctrl_c if hasattr(os, "fork") else None,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        until = time.monotonic() + 30
        while True:
            try:
                requests.get(f"{url}/healthz", timeout=5)
                break
            except requests.ConnectionError:
                assert process.poll() is None and time.monotonic() < until, log_of(log)
                time.sleep(0.05)
        yield url, process
    finally:
        process.terminate()
        process.wait(20)
        assert "Traceback" not in log_of(log)
        log.close()


def log_of(log: Any) -> str:
    log.flush()
    return Path(log.name).read_text()


def state(url: str, folder: Path) -> Any:
    token = (folder / "admin-token").read_text().strip()
    return requests.get(
        f"{url}/v1/admin/state", headers={"authorization": f"Bearer {token}"}, timeout=10
    ).json()


def send(url: str, count: int) -> None:
    for _ in range(count):
        body = packed(make_report(("1.0.0", "stable", {"load_ok": 1})))
        answer = requests.post(f"{url}/v1/reports", data=body, headers=GZIP, timeout=10)
        assert answer.status_code == 202


def test_one_command_makes_all_that_is_missing(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "server"
    folder.parent.mkdir()
    with serving(folder) as (url, process):
        assert requests.get(f"{url}/healthz", timeout=10).json()["status"] == "ok"
        for name in ("metadata/1.root.json", "metadata/timestamp.json"):
            assert requests.get(f"{url}/{name}", timeout=10).status_code == 200
        assert state(url, folder)["models"] == []
        # Published from another terminal while it runs.
        repository = Repository.open(folder / "repository")
        repository.publish("doubler", "1.0.0", [write_model(tmp_path / "model.palm")], QUICK)
        repository.promote("doubler", "1.0.0")
        assert state(url, folder)["models"][0]["model"] == "doubler"
        send(url, 3)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
    told = next(tmp_path.glob("new/*.log")).read_text()
    assert f"page      {url}/admin/" in told and "palmkit models publish" in told
    token = (folder / "admin-token").read_text().strip()
    assert token not in told
    for secret in (folder / "admin-token", *(folder / "repository" / "keys").glob("*.pem")):
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600, secret
    root = (folder / "root.json").read_bytes()
    assert "in the clear" in told
    with serving(folder) as (url, _):
        # The same keys, token and counts after a restart.
        assert requests.get(f"{url}/metadata/1.root.json", timeout=10).content == root
        assert (folder / "admin-token").read_text().strip() == token
        assert state(url, folder)["fleet"][0]["reports"] == 3


def test_what_was_answered_outlives_a_kill(tmp_path: Path) -> None:
    folder = tmp_path / "server"
    with serving(folder) as (url, process):
        send(url, 25)
        process.kill()
        process.wait(20)
    with serving(folder) as (url, _):
        assert state(url, folder)["fleet"][0]["reports"] == 25


def test_replicas_that_start_at_once_share_all(tmp_path: Path, url: str) -> None:
    folder = tmp_path / "server"
    options = ("--database", url)
    with (
        serving(folder, *options) as (first, _),
        serving(folder, *options) as (second, _),
        serving(folder, *options, "--reports-only") as (third, _),
    ):
        for each in (first, second, third):
            send(each, 2)
            assert requests.get(f"{each}/healthz", timeout=10).json()["problems"] == []
        roots = [
            requests.get(f"{each}/metadata/1.root.json", timeout=10) for each in (first, second)
        ]
        assert roots[0].content == roots[1].content and roots[0].status_code == 200
        assert requests.get(f"{third}/metadata/1.root.json", timeout=10).status_code == 404
        for each in (first, second, third):
            assert state(each, folder)["fleet"][0]["reports"] == 6


def test_keys_are_encrypted_by_a_passphrase(tmp_path: Path) -> None:
    folder = tmp_path / "server"
    secret = {"PALMKIT_PASSPHRASE": "correct horse battery", "SENTRY_DSN": "https://k@localhost/1"}
    with serving(folder, environment=secret) as (url, _):
        assert requests.get(f"{url}/healthz", timeout=10).status_code == 200
    told = next(tmp_path.glob("*.log")).read_text()
    assert "in the clear" not in told
    # Errors that were to be reported, and are not, are not kept silent about.
    assert ("errors go nowhere" in told) == (find_spec("sentry_sdk") is None)
    for key in (folder / "repository" / "keys").glob("*.pem"):
        assert re.search(rb"BEGIN ENCRYPTED PRIVATE KEY", key.read_bytes())


@pytest.mark.parametrize(
    "options, said",
    [
        (("--database", "mysql://host/name"), "expected sqlite or postgresql, got 'mysql'"),
        (("--database", "nonsense"), "database: expected an SQLAlchemy URL"),
        (("--database", "postgresql://u:secret@host:port/x"), "expected an SQLAlchemy URL"),
        (("--database", "postgresql+foo://u:secret@host/x"), "got 'postgresql+foo'"),
        (
            ("--database", "postgresql://u:secret@127.0.0.1:1/x?bad=1"),
            'invalid connection option "bad"',
        ),
        (("--database", "sqlite://"), "database: expected a file"),
        (("--database", "postgresql://nobody@127.0.0.1:1/none"), "database: no connection"),
        (("--gate-hours", "-1"), "expected hours"),
        (("--gate-hours", "six"), "expected hours, got 'six'"),
        (("--gate-reports", "-1"), "expected 0 or more"),
        (("--keep-days", "0"), "expected days, 1 or more"),
        (("--port", "99999"), "expected a port"),
        (("--port", "http"), "expected a port, got 'http'"),
        (("--host", "no.such.host.invalid"), "cannot listen on no.such.host.invalid"),
        (("--connections", "0"), "connections: expected 1 to"),
        (("--proxy", "nginx"), "proxy: expected an IP address, got 'nginx'"),
    ],
)
def test_what_cannot_be_served_is_said_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], said: str
) -> None:
    try:
        code = main(["serve", str(tmp_path / "server"), *options])
    except SystemExit as ended:
        assert ended.code == 2
    else:
        assert code == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert said in told.err.splitlines()[-1]
    assert "secret" not in told.err


def spoil_database(content: bytes | None) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        for file in folder.glob("server.db*"):
            file.unlink()
        if content is None:
            (folder / "server.db").mkdir()
        else:
            (folder / "server.db").write_bytes(content)

    return spoil


def shorten_database(folder: Path) -> None:
    for file in folder.glob("server.db-*"):
        file.unlink()
    os.truncate(folder / "server.db", 5000)


def run_in_database(statement: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        with closing(sqlite3.connect(folder / "server.db")) as connection:
            connection.execute(statement)
            connection.commit()

    return spoil


def write(name: str, content: bytes) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        for file in folder.glob(name):
            file.write_bytes(content)

    return spoil


def make_folder_of(name: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).mkdir()

    return spoil


SPOILT: list[tuple[Callable[[Path], None], str]] = [
    (spoil_database(os.urandom(5000)), "server.db: file is not a database"),
    (spoil_database(None), "server.db: unable to open database file"),
    (shorten_database, "server.db: database disk image is malformed"),
    (
        run_in_database("UPDATE alembic_version SET version_num = '0999'"),
        "server.db: not of this version or an older one",
    ),
    (run_in_database("DROP TABLE alembic_version"), "server.db: table reports already exists"),
    (write("admin-token", b"short"), "token: expected 16 characters or more"),
    (write("admin-token", bytes(range(200, 232))), "token: expected ASCII characters"),
    (make_folder_of("admin-token"), "is a directory"),
    (write("repository/repository.json", b"junk"), "damaged: "),
    (write("repository/keys/keys.json", b"junk"), "not JSON: "),
    (write("repository/keys/timestamp*.pem", b"junk"), "the key cannot be opened: "),
    (write("repository/public/metadata/1.root.json", b"junk"), "damaged metadata: root: "),
]


def test_a_spoilt_folder_is_said_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = prepare(Place(tmp_path / "good"))[1]
    engine.dispose()
    for number, (spoil, said) in enumerate(SPOILT):
        folder = tmp_path / str(number)
        shutil.copytree(tmp_path / "good", folder)
        spoil(folder)
        assert main(["serve", str(folder), "--port", "0"]) == 1, said
        [line] = capsys.readouterr().err.splitlines()
        assert line.startswith("palmkit: ") and said in line


def test_a_port_that_is_taken_is_said_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert main(["serve", str(tmp_path / "server"), "--port", port]) == 1
    told = capsys.readouterr()
    assert told.err == f"palmkit: cannot listen on 127.0.0.1 port {port}: address already in use\n"
    assert told.out == "", "nobody is told to go there"
