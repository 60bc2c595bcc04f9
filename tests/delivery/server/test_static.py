import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from palmkit.delivery.server.app import Server, Settings
from palmkit.delivery.server.database import connect, migrate
from tests.delivery.releases import make_repository
from tests.delivery.server.running import TOKEN, Running

CONTENT = bytes(range(256)) * 1000
NAME = f"{hashlib.sha256(CONTENT).hexdigest()}.doubler-1.0.0.palm"
TARGET = f"/targets/models/doubler/{NAME}"


def serve(folder: Path, public: Path) -> Running:
    folder.mkdir()
    engine = connect(f"sqlite:///{folder / 'server.db'}")
    migrate(engine)
    return Running(Server(engine, Settings(TOKEN), public=public))


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Path:
    repository = make_repository(tmp_path_factory.mktemp("static"))
    file = repository.public / "targets" / "models" / "doubler" / NAME
    file.write_bytes(CONTENT)
    (repository.public / "secret.txt").write_text("secret")
    (file.parent / ".part").write_text("not yet whole")
    return repository.public


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, public: Path) -> Iterator[Running]:
    with serve(tmp_path_factory.mktemp("one") / "server", public) as client:
        yield client


def test_only_the_timestamp_is_asked_for_again(client: Running) -> None:
    timestamp = client.get("/metadata/timestamp.json")
    assert timestamp.status_code == 200
    assert timestamp.headers["cache-control"] == "public, max-age=60"
    for path in ("/metadata/1.root.json", TARGET):
        assert "immutable" in client.get(path).headers["cache-control"]
    # Devices ask for the next root each time, and there mostly is none.
    missing = client.get("/metadata/99.root.json")
    assert (missing.status_code, missing.headers["cache-control"]) == (404, "public, max-age=300")
    assert "cache-control" not in client.get("/metadata/99.snapshot.json").headers


@pytest.mark.parametrize("path", ["/metadata/timestamp.json", TARGET])
def test_an_unchanged_file_is_not_sent_again(client: Running, path: str) -> None:
    first = client.get(path)
    etag = first.headers["etag"]
    for known in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        again = client.get(path, headers={"if-none-match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
    assert client.get(path, headers={"if-none-match": '"other"'}).content == first.content
    head = client.request("HEAD", path)
    assert head.content == b"" and int(head.headers["content-length"]) == len(first.content)


def test_a_download_goes_on_at_another_replica(client: Running, tmp_path: Path) -> None:
    begun = client.get(TARGET, headers={"range": "bytes=0-99999"})
    assert begun.status_code == 206 and begun.content == CONTENT[:100000]
    assert begun.headers["content-range"] == f"bytes 0-99999/{len(CONTENT)}"
    copy = tmp_path / "copy" / TARGET.removeprefix("/")
    copy.parent.mkdir(parents=True)
    copy.write_bytes(CONTENT)
    with serve(tmp_path / "other", tmp_path / "copy") as other:
        asked = {"range": "bytes=100000-", "if-range": begun.headers["etag"]}
        rest = other.get(TARGET, headers=asked)
    assert rest.status_code == 206 and begun.content + rest.content == CONTENT


def test_ranges_that_cannot_be(client: Running) -> None:
    beyond = client.get(TARGET, headers={"range": f"bytes={len(CONTENT)}-"})
    assert beyond.status_code == 416
    assert beyond.headers["content-range"] == f"bytes */{len(CONTENT)}"
    changed = client.get(TARGET, headers={"range": "bytes=5-", "if-range": '"another"'})
    assert changed.status_code == 200 and changed.content == CONTENT
    assert client.get(TARGET, headers={"range": "bytes=-5"}).content == CONTENT[-5:]


@pytest.mark.parametrize(
    "path",
    [
        "/secret.txt",
        "/metadata/../secret.txt",
        "/metadata/%2e%2e/secret.txt",
        "/metadata/..%2fsecret.txt",
        "/metadata/%2e%2e%2f%2e%2e%2fkeys%2fkeys.json",
        "/targets/models/doubler/.part",
        "/targets/models/doubler/..%2f..%2f..%2fsecret.txt",
        f"/targets/models/../models/doubler/{NAME}",
        f"/targets/models/doubler/{NAME}%00",
        f"/targets//{NAME}",
        "/metadata/" + "1" * 300 + ".root.json",
        "/metadata/",
        "/targets/models/doubler",
    ],
)
def test_nothing_else_is_served(client: Running, path: str) -> None:
    status, content = client.raw("GET", path)
    assert status == 404
    assert b"secret" not in content and b"whole" not in content


def test_files_are_only_read(client: Running) -> None:
    for method in ("POST", "PUT", "DELETE"):
        assert client.request(method, TARGET).status_code == 405
