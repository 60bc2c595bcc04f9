"""What the TUF conformance suite asks of a client's command, in the situations that are ours.

The suite itself (github.com/theupdateframework/tuf-conformance) is run with
--entrypoint tests/delivery/conformance_cli.py.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from tests.delivery.fault_server import Fault, FaultServer, serving
from tests.delivery.tuf_repository import TufRepository, signer
from tests.delivery.web.package import needs_delivery
from tests.engine.web.package import NODE, PACKAGE

COMMANDS: dict[str, list[str | Path]] = {
    "python": [sys.executable, Path(__file__).with_name("conformance_cli.py")],
    "web": [str(NODE), Path(__file__).with_name("web") / "client.mjs", PACKAGE],
}
AT = "/test_name%5Bwith%2Fquoting%5D"


@pytest.fixture(params=["python", pytest.param("web", marks=needs_delivery)])
def command(request: pytest.FixtureRequest) -> list[str | Path]:
    found: list[str | Path] = COMMANDS[request.param]
    return found


class Client:
    def __init__(self, command: list[str | Path], folder: Path, url: str) -> None:
        self.command = command
        self.metadata, self.targets, self.url = folder / "metadata", folder / "targets", url
        self.metadata.mkdir(parents=True)
        self.targets.mkdir()

    def run(self, *arguments: str | Path) -> int:
        command = [*self.command, "--metadata-dir", self.metadata, *arguments]
        return subprocess.run(command, stderr=subprocess.PIPE, timeout=60).returncode

    def init(self, root: bytes) -> int:
        file = self.metadata.parent / "initial_root.json"
        file.write_bytes(root)
        return self.run("init", file)

    def refresh(self) -> int:
        return self.run("--metadata-url", f"{self.url}/metadata/", "refresh")

    def download(self, *names: str) -> int:
        wanted: list[str | Path] = [
            argument for name in names for argument in ("--target-name", name)
        ]
        places: list[str | Path] = [
            "--target-base-url",
            f"{self.url}/targets/",
            "--target-dir",
            self.targets,
        ]
        return self.run("--metadata-url", f"{self.url}/metadata/", *wanted, *places, "download")

    def trusted(self) -> dict[str, int]:
        return {
            file.removesuffix(".json"): json.loads((self.metadata / file).read_bytes())["signed"][
                "version"
            ]
            for file in os.listdir(self.metadata)
            if file.endswith(".json")
        }

    def downloaded(self) -> list[bytes]:
        files = [path for path in self.targets.rglob("*") if path.is_file()]
        return [path.read_bytes() for path in sorted(files, key=lambda p: p.stat().st_mtime_ns)]


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with serving() as server:
        yield server


@pytest.fixture
def repository(server: FaultServer) -> TufRepository:
    return TufRepository(server.files, AT)


@pytest.fixture
def client(
    command: list[str | Path], tmp_path: Path, server: FaultServer, repository: TufRepository
) -> Client:
    client = Client(command, tmp_path, server.url + AT)
    assert client.init(repository.root()) == 0
    assert client.trusted() == {"root": 1} and not server.requests
    return client


def asked(server: FaultServer) -> list[str]:
    prefix = f"{AT}/metadata/"
    return [path.removeprefix(prefix) for path in server.paths() if path.startswith(prefix)]


def test_refresh_and_download(
    client: Client, server: FaultServer, repository: TufRepository
) -> None:
    assert client.refresh() == 0
    first = ["2.root.json", "timestamp.json", "1.snapshot.json", "1.targets.json"]
    assert asked(server) == first
    assert client.trusted() == dict.fromkeys(("root", "timestamp", "snapshot", "targets"), 1)
    for name, content in (("a.txt", b"a"), ("path/to/b.txt", b"b")):
        repository.add("targets", name, content)
    repository.bump("targets")
    assert client.download("a.txt", "path/to/b.txt") == 0
    assert client.downloaded() == [b"a", b"b"]
    repository.add("targets", "a.txt", b"new")
    repository.bump("targets")
    server.requests.clear()
    assert client.download("a.txt", "path/to/b.txt") == 0
    assert client.downloaded() == [b"b", b"new"]
    assert len([path for path in server.paths() if "/targets/" in path]) == 1
    assert client.download("nothing") == 1


def test_a_download_refreshes_first(client: Client, server: FaultServer) -> None:
    assert client.download("nothing") == 1
    assert client.trusted() == dict.fromkeys(("root", "timestamp", "snapshot", "targets"), 1)
    assert len(asked(server)) == 4


def test_an_initial_root_that_is_none_asks_nothing(
    command: list[str | Path], tmp_path: Path, server: FaultServer, repository: TufRepository
) -> None:
    document = json.loads(repository.root())
    del document["signed"]["version"]
    client = Client(command, tmp_path / "invalid", server.url + AT)
    client.init(json.dumps(document).encode())
    assert client.refresh() == 1
    document = json.loads(repository.root())
    document["signatures"][0]["sig"] = "00" * 64
    client = Client(command, tmp_path / "unsigned", server.url + AT)
    client.init(json.dumps(document).encode())
    assert client.refresh() == 1
    assert not server.requests


@pytest.mark.parametrize("role", ["?", "#", "/delegatedrole", "../delegatedrole", "a b%20"])
def test_the_name_of_a_role_is_quoted_in_urls_and_files(
    client: Client, server: FaultServer, repository: TufRepository, role: str
) -> None:
    repository.delegate(role, "*")
    for path in list(server.files):
        if path.endswith(f"/1.{role}.json"):
            del server.files[path]
    repository.bump("targets", role)
    from urllib.parse import quote

    content = server.files.pop(f"{AT}/metadata/2.{role}.json")
    server.files[f"{AT}/metadata/2.{quote(role, safe='')}.json"] = content
    assert client.download("nothing") == 1
    assert asked(server)[-1] == f"2.{quote(role, safe='')}.json"
    assert len(client.trusted()) == 5
    assert {path.parent for path in client.metadata.parent.rglob("*.json")} == {
        client.metadata,
        client.metadata / "root_history",
        client.metadata.parent,
    }


def test_an_expired_root_is_kept_and_stops_the_rest(
    client: Client, repository: TufRepository
) -> None:
    assert client.refresh() == 0
    repository.roles["root"].expires = datetime(2020, 1, 1, tzinfo=timezone.utc)
    repository.roles["root"].version = 2
    repository.publish("root")
    repository.bump("targets")
    assert client.refresh() == 1
    assert client.trusted() == {"root": 2, "timestamp": 1, "snapshot": 1, "targets": 1}
    repository.roles["root"].expires = repository.expires
    repository.roles["root"].version = 3
    repository.publish("root")
    assert client.refresh() == 0, "an expired root may be followed by a good one"


def test_an_expired_local_timestamp_does_not_stop_an_update_but_guards_it(
    client: Client, repository: TufRepository
) -> None:
    soon = datetime.now(timezone.utc).replace(microsecond=0) + timedelta(seconds=5)
    repository.roles["timestamp"].expires = soon
    repository.bump("targets")
    assert client.refresh() == 0
    while datetime.now(timezone.utc) <= soon:
        time.sleep(0.05)
    assert client.refresh() == 1
    repository.roles["timestamp"].expires = repository.expires
    repository.roles["timestamp"].version = 1
    repository.publish("timestamp")
    assert client.refresh() == 1, "older than the expired one"
    repository.roles["timestamp"].version = 3
    repository.publish("timestamp")
    assert client.refresh() == 0
    assert client.trusted()["timestamp"] == 3


@pytest.mark.parametrize("status", [403, 404])
def test_no_newer_root(client: Client, server: FaultServer, status: int) -> None:
    server.faults[f"{AT}/metadata/2.root.json"] = Fault("status", status=status)
    assert client.refresh() == 0


def test_a_threshold_counts_keys_not_signatures(client: Client, repository: TufRepository) -> None:
    root = repository.roles["root"]
    for name in ("snapshot1", "snapshot2"):
        root.add_key(signer(name).public_key, "snapshot")
    root.roles["snapshot"].threshold = 2
    root.version = 2
    repository.publish("root")
    repository.bump()
    assert client.refresh() == 1
    repository.keys["snapshot"] = ["snapshot0", "snapshot2"]
    repository.bump()
    assert client.refresh() == 0
    assert client.trusted()["snapshot"] == 3


def test_other_bytes_for_a_target_are_refused(
    client: Client, server: FaultServer, repository: TufRepository
) -> None:
    repository.add("targets", "a.txt", b"good")
    repository.bump("targets")
    path = next(path for path in server.files if path.endswith(".a.txt"))
    for content in (b"evil", b"too long", b"s", b""):
        server.files[path] = content
        assert client.download("a.txt") == 1
    assert client.downloaded() == []


def test_delegations_are_searched_in_order_depth_first(
    client: Client, server: FaultServer, repository: TufRepository
) -> None:
    repository.delegate("a", "*.doc", terminating=False)
    repository.delegate("b", "*", terminating=False)
    repository.delegate("c", "*", terminating=True)
    repository.delegate("d", "*", terminating=False)
    repository.add("b", "file", b"by b")
    repository.add("c", "file", b"by c")
    repository.add("d", "other", b"by d")
    repository.bump("targets", "a", "b", "c", "d")
    assert client.download("file") == 0
    assert client.downloaded() == [b"by b"]
    assert client.download("other") == 1, "c ends the search"
    assert asked(server)[4:5] == ["2.b.json"] and "2.c.json" in asked(server)
    assert not {"2.a.json", "2.d.json"} & set(asked(server))
