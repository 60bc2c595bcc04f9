"""Checking, pruning and mirroring a repository."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from tuf.api.exceptions import RepositoryError as NotBelieved

from palmkit.delivery.repository import Repository, storage
from palmkit.delivery.repository.storage import Folder
from palmkit.engine.errors import RepositoryError
from tests.delivery.releases import QUICK, SetClock, make_repository, write_model
from tests.delivery.tuf_device import Device


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def test_nothing_is_wrong_with_a_good_one(tmp_path: Path) -> None:
    repository = make_repository(tmp_path, "doubler", "1.0.0", "1.1.0")
    repository.promote("doubler", "1.1.0")
    repository.rotate_key("models")
    repository.rotate_key("timestamp")
    assert repository.verify() == []


def cut_a_file(repository: Repository) -> None:
    path = only(repository.public, "targets/models/doubler/*.doubler-1.0.0.palm")
    path.write_bytes(path.read_bytes()[:-1])


def flip_a_bit(repository: Repository) -> None:
    path = only(repository.public, "targets/models/doubler/*.doubler-1.0.0.palm")
    content = bytearray(path.read_bytes())
    content[50] ^= 1
    path.write_bytes(content)


def lose_a_file(repository: Repository) -> None:
    only(repository.public, "targets/models/doubler/*.golden-1.0.0.npz").unlink()


def lose_metadata(repository: Repository) -> None:
    (repository.public / "metadata/1.model-doubler.json").unlink()


def spoil_the_timestamp(repository: Repository) -> None:
    path = repository.public / "metadata/timestamp.json"
    content = json.loads(path.read_bytes())
    content["signed"]["version"] += 1
    path.write_text(json.dumps(content))


def show_a_key(repository: Repository) -> None:
    (repository.folder / "keys/models.pem").chmod(0o644)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (cut_a_file, "damaged: targets/models/doubler/.*palm: expected .* bytes, got"),
        (flip_a_bit, "damaged: targets/models/doubler/.*palm: its digest is another"),
        (lose_a_file, "missing: targets/models/doubler/.*npz"),
        (lose_metadata, "missing: metadata/1.model-doubler.json"),
        (spoil_the_timestamp, "a device does not believe it: timestamp was signed by 0/1 keys"),
        (show_a_key, "readable by others: .*models.pem"),
    ],
)
def test_what_is_wrong_is_named(
    tmp_path: Path, damage: Callable[[Repository], None], problem: str
) -> None:
    repository = make_repository(tmp_path)
    damage(repository)
    found = repository.verify()
    assert any(re.match(problem, line) for line in found), found


def test_what_expires_is_named_before_it_does(tmp_path: Path) -> None:
    clock = SetClock()
    clock.time = clock.time.fromtimestamp(time.time(), clock.time.tzinfo)
    repository = Repository.create(tmp_path / "repository", clock=clock)
    clock.go_on(hours=22)
    (found,) = repository.verify()
    assert found.startswith("expires soon: timestamp, ")
    clock.go_on(days=400)
    assert [line.partition(",")[0] for line in repository.verify()] == [
        f"expired: {role}" for role in ("root", "targets", "snapshot", "timestamp", "rollout")
    ]


def grow_old(folder: Path, days: float) -> None:
    for path in folder.rglob("*"):
        facts = path.stat()
        os.utime(path, (facts.st_atime, facts.st_mtime - days * 86400))


def test_pruning_keeps_what_a_device_may_still_need(tmp_path: Path) -> None:
    repository = make_repository(tmp_path, "doubler", "1.0.0", "1.1.0")
    device = Device(tmp_path / "device", repository.root())
    for percent in range(3):
        repository.promote("doubler", "1.0.0", percent=percent)
    assert repository.gc().files == 0
    grow_old(repository.public, 8)
    repository.promote("doubler", "1.1.0")
    # Replaced a moment ago: a device may be between its timestamp and its targets.
    under_way = sorted(path.name for path in (repository.public / "metadata").iterdir())
    found = repository.gc()
    assert found.files > 0 and found.size_bytes > 0
    left = sorted(path.name for path in (repository.public / "metadata").iterdir())
    newest = repository.roles.newest("rollout")
    assert f"{newest - 1}.rollout.json" in left and f"{newest - 2}.rollout.json" not in left
    assert set(left) < set(under_way)
    assert "1.root.json" in left and "1.model-doubler.json" not in left
    assert len(list((repository.public / "targets/rollout").iterdir())) == 2
    assert repository.verify() == []
    for release in ("1.0.0", "1.1.0"):
        manifest = repository.manifest("doubler", release)
        assert device.get(repository.public, f"models/doubler/{manifest.main}")
    grow_old(repository.public, 8)
    (repository.public / "targets/models/doubler" / f"{'0' * 64}.stray.palm").write_bytes(b"new")
    assert repository.gc().files > 0
    assert len(list((repository.public / "targets/models/doubler").glob("*stray*"))) == 1


def test_a_mirror_has_what_devices_need(tmp_path: Path) -> None:
    repository = make_repository(tmp_path)
    repository.promote("doubler", "1.0.0")
    place = tmp_path / "mirror"
    copied = repository.mirror(str(place))
    assert copied == sum(path.is_file() for path in place.rglob("*"))
    device = Device(tmp_path / "device", repository.root())
    assert device.get(place, "models/doubler/1.0.0.json")
    assert repository.mirror(str(place)) == 0
    repository.promote("doubler", "1.0.0", percent=50)
    # The new policy, its role, snapshot and timestamp.
    assert repository.mirror(str(place)) == 4
    assert device.get(place, "rollout/doubler.json") == device.get(
        repository.public, "rollout/doubler.json"
    )
    old = (place / "metadata/timestamp.json").read_bytes()
    repository.promote("doubler", "1.0.0", percent=60)
    repository.mirror(str(place))
    Folder(repository.public).replace("metadata/timestamp.json", old)
    with pytest.raises(RepositoryError, match="what is there is newer"):
        repository.mirror(str(place))


def test_a_mirror_is_whole_whenever_copying_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = make_repository(tmp_path)
    place = tmp_path / "mirror"
    repository.mirror(str(place))
    first_root = repository.root()
    repository.rotate_key("models")
    repository.rotate_key("timestamp")
    repository.publish("doubler", "2.0.0", [write_model(tmp_path / "m.palm", 9.0)], QUICK)
    refused = 0
    for stop in range(40):
        shutil.rmtree(tmp_path / "stopped", ignore_errors=True)
        shutil.copytree(place, tmp_path / "stopped")
        done = mirror_until(repository, tmp_path / "stopped", stop, monkeypatch)
        device = Device(tmp_path / f"device-{stop}", first_root)
        try:
            assert device.get(tmp_path / "stopped", "models/doubler/1.0.0.json")
        except NotBelieved as error:
            # Root is there, the timestamp of its new key is to come: the device asks again later.
            assert "timestamp was signed by 0/1 keys" in str(error)
            refused += 1
        if done:
            assert stop > 5
            break
    else:
        pytest.fail("it never ended")
    assert refused == 1
    assert Device(tmp_path / "device", first_root).get(
        tmp_path / "stopped", "models/doubler/2.0.0.json"
    )


def mirror_until(
    repository: Repository, place: Path, stop: int, monkeypatch: pytest.MonkeyPatch
) -> bool:
    """Copy until `stop` files were written; whether it came to its end."""
    written = 0

    def write(target: Path, content: Iterable[bytes], mode: int = 0o644) -> None:
        nonlocal written
        if written == stop:
            raise OSError("the power went")
        written += 1
        whole(target, content, mode)

    whole = storage.write_durably
    with monkeypatch.context() as patch:
        patch.setattr(storage, "write_durably", write)
        try:
            repository.mirror(str(place))
            return True
        except OSError:
            return False
