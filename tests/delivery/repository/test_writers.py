"""Who writes a repository: one after another, with the keys they have, until the power goes."""

from __future__ import annotations

import json
import multiprocessing
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from palmkit.delivery import policy
from palmkit.delivery.repository import (
    Conflict,
    Missing,
    Repository,
    contents,
    keys,
    storage,
)
from palmkit.engine.errors import RepositoryError
from tests.delivery.releases import QUICK, make_repository, write_model
from tests.delivery.tuf_device import Device


def test_publisher_and_server_with_their_own_keys(tmp_path: Path) -> None:
    """CI signs a release with `models` alone; the server, without it, lets devices see it."""
    repository = make_repository(tmp_path)
    ci = repository.folder / "keys"
    server = tmp_path / "server" / "keys"
    server.mkdir(parents=True)
    (server.parent / "repository.json").write_text(
        json.dumps({"schema": 1, "public": str(repository.public)})
    )
    (server / "keys.json").write_bytes((ci / "keys.json").read_bytes())
    for name in ("rollout", "snapshot", "timestamp"):
        (ci / f"{name}.pem").rename(server / f"{name}.pem")

    file = write_model(tmp_path / "new.palm", 5.0)
    Repository.open(repository.folder).publish("doubler", "2.0.0", [file], QUICK)
    device = Device(tmp_path / "device", repository.root())
    updater = device.refresh(repository.public)
    assert updater.get_targetinfo("models/doubler/2.0.0.json") is None
    with pytest.raises(RepositoryError, match="the keys of rollout are not here"):
        Repository.open(repository.folder).promote("doubler", "2.0.0")

    online = Repository.open(server.parent)
    assert online.pending() == ["model-doubler"]
    assert online.resign() == ["snapshot", "timestamp"]
    assert online.pending() == []
    assert device.get(repository.public, "models/doubler/2.0.0.json")
    online.promote("doubler", "2.0.0")
    with pytest.raises(RepositoryError, match="the keys of model-doubler are not here"):
        online.publish("doubler", "3.0.0", [file], QUICK)


def test_what_is_half_published_is_not_seen_and_is_finished_later(tmp_path: Path) -> None:
    repository = make_repository(tmp_path)
    device = Device(tmp_path / "device", repository.root())
    names = {path.name for path in (repository.public / "metadata").iterdir()}
    before = (repository.public / "metadata/timestamp.json").read_bytes()
    file = write_model(tmp_path / "new.palm", 3.0)
    repository.publish("doubler", "1.1.0", [file], QUICK)
    # As after a power cut before the last file was written.
    (repository.public / "metadata/timestamp.json").write_bytes(before)
    new = {path.name for path in (repository.public / "metadata").iterdir()} - names
    assert new == {"2.model-doubler.json", "3.snapshot.json"}
    assert device.refresh(repository.public).get_targetinfo("models/doubler/1.1.0.json") is None
    repository.publish("doubler", "1.1.0", [file], QUICK)
    assert device.get(repository.public, "models/doubler/1.1.0.json")


class Cut(Exception):
    """The power went."""


def cut_after(patch: pytest.MonkeyPatch, last: int) -> None:
    """The power goes at the write after so many."""
    whole, written = storage.write_durably, 0

    def write(target: Path, content: Iterable[bytes], mode: int = 0o644) -> None:
        nonlocal written
        if written == last:
            raise Cut
        written += 1
        whole(target, content, mode)

    for module in (storage, keys, contents):
        patch.setattr(module, "write_durably", write)


def test_a_publish_cut_short_anywhere_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, other = write_model(tmp_path / "a.palm"), write_model(tmp_path / "b.palm", 3.0)
    made = make_repository(tmp_path)
    for last in range(40):
        folder = tmp_path / str(last)
        shutil.copytree(made.folder, folder / "repository")
        repository = Repository.open(folder / "repository")
        device = Device(folder / "device", repository.root())
        with monkeypatch.context() as patch:
            cut_after(patch, last)
            try:
                repository.publish("other", "1.0.0", [file], QUICK)
                repository.publish("doubler", "1.1.0", [other], QUICK)
                repository.promote("doubler", "1.1.0")
                finished = True
            except Cut:
                finished = False
        assert device.get(repository.public, "models/doubler/1.0.0.json")
        assert policy.parse(device.get(repository.public, "rollout/doubler.json"))
        again = Repository.open(repository.folder)
        again.publish("other", "1.0.0", [file], QUICK)
        again.publish("doubler", "1.1.0", [other], QUICK)
        again.promote("doubler", "1.1.0")
        assert again.verify() == []
        for path in ("models/other/1.0.0.json", "models/doubler/1.1.0.json", "rollout/other.json"):
            assert device.get(again.public, path)
        if finished:
            assert last > 10
            return
    pytest.fail("it never ended")


def test_making_a_repository_cut_short_anywhere_is_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for last in range(40):
        folder = tmp_path / str(last)
        with monkeypatch.context() as patch:
            cut_after(patch, last)
            try:
                Repository.create(folder)
                finished = True
            except Cut:
                finished = False
        if finished:
            assert last > 15
            return
        with pytest.raises(Missing):
            Repository.open(folder)
        repository = Repository.create(folder)
        assert repository.verify() == []
        assert sorted(path.name for path in folder.iterdir()) == [
            "keys",
            "public",
            "repository.json",
        ]
    pytest.fail("it never ended")


def test_keys_that_are_there_are_never_written_over(tmp_path: Path) -> None:
    repository = Repository.create(tmp_path)
    (tmp_path / "repository.json").unlink()
    with pytest.raises(RepositoryError, match="there is a repository already"):
        Repository.create(tmp_path)
    assert len(list((repository.folder / "keys").glob("*.pem"))) == 6


def test_who_writes_into_the_storage_is_not_believed(tmp_path: Path) -> None:
    repository = make_repository(tmp_path, "doubler", "1.0.0")
    metadata = repository.public / "metadata"
    forged = json.loads((metadata / "1.model-doubler.json").read_bytes())
    forged["signed"]["version"] = 2
    (metadata / "2.model-doubler.json").write_text(json.dumps(forged))
    with pytest.raises(RepositoryError, match="not signed by who may sign it: model-doubler"):
        repository.resign(force=True)
    (metadata / "2.model-doubler.json").unlink()
    target = next((repository.public / "targets/models/doubler").glob("*1.0.0.json"))
    target.write_bytes(target.read_bytes().replace(b"doubler", b"halver_"))
    with pytest.raises(RepositoryError, match="damaged in"):
        repository.manifest("doubler", "1.0.0")


def test_two_writers_of_one_version_conflict(tmp_path: Path) -> None:
    repository = make_repository(tmp_path)
    with pytest.raises(Conflict, match="metadata/1.root.json"):
        repository.storage.create("metadata/1.root.json", b"other")


def promote_often(folder: Path, channel: str, times: int) -> None:
    repository = Repository.open(folder)
    for percent in range(times):
        repository.promote("doubler", "1.0.0", channel, percent)


def test_processes_that_write_at_once_take_turns(tmp_path: Path) -> None:
    repository = make_repository(tmp_path)
    # Another place with keys, which writes the same files.
    other = tmp_path / "other"
    shutil.copytree(repository.folder / "keys", other / "keys")
    config = {"schema": 1, "public": str(repository.public)}
    (other / "repository.json").write_text(json.dumps(config))
    context = multiprocessing.get_context("spawn")
    writers = [
        context.Process(target=promote_often, args=(folder, channel, 5))
        for folder, channel in (
            (repository.folder, "stable"),
            (repository.folder, "beta"),
            (other, "canary"),
        )
    ]
    for writer in writers:
        writer.start()
    device = Device(tmp_path / "device", repository.root())
    while any(writer.is_alive() for writer in writers):
        policy.parse(device.get(repository.public, "rollout/doubler.json"))
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    found = repository.policy("doubler")
    assert found.epoch == 1 + 15
    for channel in ("stable", "beta", "canary"):
        assert [each.percent for each in found.channels[channel]] == [4]
    assert repository.pending() == []
