"""A repository in a bucket, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("boto3", reason="needs boto3")

from palmkit.delivery.repository import Conflict, Repository
from palmkit.delivery.repository.contents import open_storage
from palmkit.engine.errors import RepositoryError
from tests.delivery.releases import QUICK, make_repository, write_model
from tests.delivery.s3_server import Bucket, serve_bucket
from tests.delivery.tuf_device import Device


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with serve_bucket() as bucket:
        yield bucket


def copied(bucket: Bucket, folder: Path) -> Path:
    """What is in the bucket, as files."""
    for name, content in bucket.files.items():
        path = folder / name.removeprefix("v1/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def test_a_repository_in_a_bucket(tmp_path: Path, bucket: Bucket) -> None:
    repository = Repository.create(tmp_path / "repository", public=bucket.url)
    for release, factor in (("1.0.0", 2.0), ("1.1.0", 3.0)):
        file = write_model(tmp_path / f"{release}.palm", factor)
        repository.publish("doubler", release, [file], QUICK)
        repository.promote("doubler", release, percent=50)
    assert not (tmp_path / "repository" / "public").exists()
    again = Repository.open(tmp_path / "repository")
    assert again.releases("doubler") == ("1.0.0", "1.1.0")
    again.rollback("doubler")
    again.rotate_key("timestamp")
    assert again.verify() == []
    with pytest.raises(RepositoryError, match="not on this machine: s3://models/v1/"):
        _ = again.public
    device = Device(tmp_path / "device", again.root())
    public = copied(bucket, tmp_path / "copy")
    main = again.manifest("doubler", "1.1.0").main
    assert device.get(public, f"models/doubler/{main}") == file.read_bytes()
    assert device.get(public, "rollout/doubler.json") == again.policy("doubler").dump()


def test_devices_and_caches_are_told_what_changes(tmp_path: Path, bucket: Bucket) -> None:
    repository = Repository.create(tmp_path / "repository", public=bucket.url)
    repository.publish("doubler", "1.0.0", [write_model(tmp_path / "m.palm")], QUICK)
    for name, headers in bucket.headers.items():
        fresh = name == "v1/metadata/timestamp.json"
        assert headers["Cache-Control"] == (
            "public, max-age=60" if fresh else "public, max-age=31536000, immutable"
        )
        is_json = name.endswith(".json")
        assert headers["Content-Type"] == ("application/json" if is_json else "binary/octet-stream")


def test_what_is_named_is_written_before_what_names_it(tmp_path: Path, bucket: Bucket) -> None:
    repository = Repository.create(tmp_path / "repository", public=bucket.url)
    repository.publish("doubler", "1.0.0", [write_model(tmp_path / "m.palm")], QUICK)
    del bucket.order[:]
    repository.publish("doubler", "1.1.0", [write_model(tmp_path / "m.palm", 5.0)], QUICK)
    kinds = [name.split("/")[1] for name in bucket.order]
    assert kinds == ["targets"] * 3 + ["metadata"] * 3
    assert [name.rpartition("/")[2] for name in bucket.order[3:]] == [
        "2.model-doubler.json",
        "3.snapshot.json",
        "timestamp.json",
    ]


def test_who_comes_second_is_told(tmp_path: Path, bucket: Bucket) -> None:
    Repository.create(tmp_path / "repository", public=bucket.url)
    first, second = open_storage(bucket.url, tmp_path), open_storage(bucket.url, tmp_path)
    with pytest.raises(Conflict, match="at the same time: metadata/1.root.json"):
        first.create("metadata/1.root.json", b"another")
    assert first.read("metadata/timestamp.json") == second.read("metadata/timestamp.json")
    first.replace("metadata/timestamp.json", b"of the first")
    with pytest.raises(Conflict, match=r"at the same time: metadata/timestamp.json"):
        second.replace("metadata/timestamp.json", b"of the second")
    assert second.read("metadata/timestamp.json") == b"of the first"
    second.replace("metadata/timestamp.json", b"of the second")
    with pytest.raises(RepositoryError, match="there is a repository already: s3://models/v1/"):
        Repository.create(tmp_path / "other", public=bucket.url)


def test_an_answer_that_is_lost_is_no_conflict(tmp_path: Path, bucket: Bucket) -> None:
    repository = Repository.create(tmp_path / "repository", public=bucket.url)
    bucket.lose_answers = 3
    repository.publish("doubler", "1.0.0", [write_model(tmp_path / "m.palm")], QUICK)
    bucket.lose_answers = 1
    repository.resign(force=True)
    assert repository.verify() == []


def test_a_folder_is_mirrored_into_a_bucket(tmp_path: Path, bucket: Bucket) -> None:
    repository = make_repository(tmp_path)
    assert repository.mirror(bucket.url) == len(bucket.files) > 5
    assert repository.mirror(bucket.url) == 0
    device = Device(tmp_path / "device", repository.root())
    assert device.get(copied(bucket, tmp_path / "copy"), "models/doubler/1.0.0.json")
    repository.gc(0)


def test_what_cannot_be_reached_is_said(tmp_path: Path, bucket: Bucket) -> None:
    with pytest.raises(RepositoryError, match="expected s3://bucket/prefix"):
        open_storage("s3://models?acl=public", tmp_path)
    away = open_storage("s3://models/v1?endpoint_url=http://127.0.0.1:9&region_name=x", tmp_path)
    away._client.meta.config.retries = {"max_attempts": 0}  # type: ignore[attr-defined]
    with pytest.raises(RepositoryError, match=r"s3://models/v1/metadata/.*127.0.0.1:9"):
        list(away.entries("metadata/"))
