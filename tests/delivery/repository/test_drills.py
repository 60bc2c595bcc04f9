"""The drills of delivery/DRILLS.md, performed: each step by whoever would do it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from securesystemslib.signer import Signer
from tuf.api.exceptions import LengthOrHashMismatchError
from tuf.api.exceptions import RepositoryError as NotBelieved
from tuf.api.metadata import Metadata, MetaFile, TargetFile

from palmkit.delivery.policy import MOST_EPOCH
from palmkit.delivery.repository import Repository, rotation
from palmkit.delivery.repository.contents import stored_name
from palmkit.delivery.repository.keys import key_signer, public_key, write_key
from palmkit.delivery.repository.storage import sha256_of
from palmkit.engine.errors import DeliveryError, RepositoryError
from tests.delivery.releases import QUICK, make_repository, write_model
from tests.delivery.tuf_device import Device
from tests.delivery.worlds import MODEL, World, runs

KEYS = ("root", "targets", "models", "rollout", "snapshot", "timestamp")
ONLINE = ("rollout", "snapshot", "timestamp")


def keyids(repository: Repository, name: str) -> list[str]:
    return [key.keyid for key in repository.roles.keys_of(name)]


def take_away(repository: Repository, *names: str) -> Path:
    """Key files leave this machine, for a safe or for a thief; returns where they are."""
    place = repository.folder / "elsewhere"
    place.mkdir(exist_ok=True)
    for name in names:
        (repository.folder / "keys" / f"{name}.pem").rename(place / f"{name}.pem")
    return place


class Thief:
    """Has copies of some keys, and a mirror on which it puts what it likes."""

    def __init__(self, repository: Repository, folder: Path, *names: str) -> None:
        self.public = folder / "mirror"
        shutil.copytree(repository.public, self.public)
        self.signers: dict[str, Signer] = {
            name: key_signer(repository.folder / "keys" / f"{name}.pem", None) for name in names
        }

    def read(self, role: str) -> Metadata[Any]:
        files = (self.public / "metadata").glob(f"*.{role}.json")
        newest = max(files, key=lambda path: int(path.name.partition(".")[0]), default=None)
        path = newest or self.public / "metadata" / f"{role}.json"
        return Metadata[Any].from_bytes(path.read_bytes())

    def write(self, role: str, metadata: Metadata[Any], key: str, step: int = 1) -> None:
        metadata.signed.version += step
        metadata.sign(self.signers[key])
        name = "timestamp" if role == "timestamp" else f"{metadata.signed.version}.{role}"
        (self.public / "metadata" / f"{name}.json").write_bytes(metadata.to_bytes())

    def show(self, step: int = 1) -> None:
        """Sign a snapshot and a timestamp over what lies on the mirror."""
        snapshot = self.read("snapshot")
        for name in snapshot.signed.meta:
            role = name.removesuffix(".json")
            snapshot.signed.meta[name] = MetaFile(self.read(role).signed.version)
        self.write("snapshot", snapshot, "snapshot", step)
        timestamp = self.read("timestamp")
        timestamp.signed.snapshot_meta = MetaFile(snapshot.signed.version)
        self.write("timestamp", timestamp, "timestamp", step)

    def put(self, path: str, content: bytes) -> TargetFile:
        target = TargetFile(len(content), {"sha256": sha256_of(content)}, path)
        folder, _, name = path.rpartition("/")
        place = self.public / "targets" / folder
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{sha256_of(content)}.{name}").write_bytes(content)
        return target


@pytest.mark.parametrize("name", KEYS)
def test_rotating_a_key_is_not_noticed_by_devices(tmp_path: Path, name: str) -> None:
    repository = make_repository(tmp_path)
    old_device = Device(tmp_path / "device", repository.root())
    old_device.refresh(repository.public)
    (before,) = keyids(repository, name)
    new = repository.rotate_key(name)
    assert keyids(repository, name) == [new] != [before]
    assert before not in repository.ring and new in repository.ring
    file = write_model(tmp_path / "more.palm", 5.0)
    # The old key file is gone for good, and everything goes on.
    (repository.folder / "keys" / f"{name}.pem").unlink()
    again = Repository.open(repository.folder)
    again.publish("doubler", "2.0.0", [file], QUICK)
    again.publish("tripler", "1.0.0", [file], QUICK)
    again.promote("doubler", "2.0.0")
    again.resign(force=True)
    for device in (
        old_device,
        Device(tmp_path / "new", (repository.public / "metadata/1.root.json").read_bytes()),
    ):
        assert device.get(repository.public, "models/doubler/2.0.0.json")
        assert device.get(repository.public, "models/tripler/1.0.0.json")
        assert device.get(repository.public, "rollout/doubler.json")


@pytest.mark.parametrize("name", ["targets", "models", "rollout", "snapshot", "timestamp"])
def test_a_lost_key_is_replaced_without_it(tmp_path: Path, name: str) -> None:
    repository = make_repository(tmp_path)
    device = Device(tmp_path / "device", repository.root())
    device.refresh(repository.public)
    take_away(repository, name)
    repository = Repository.open(repository.folder)
    repository.rotate_key(name)
    repository.resign(force=True)
    file = write_model(tmp_path / "more.palm", 5.0)
    repository.publish("doubler", "2.0.0", [file], QUICK)
    repository.promote("doubler", "2.0.0")
    assert device.get(repository.public, "models/doubler/2.0.0.json")
    assert device.get(repository.public, "rollout/doubler.json")


class Cut(Exception):
    """The power went."""


@pytest.mark.parametrize("name", KEYS)
def test_a_rotation_cut_short_anywhere_is_seen_as_before_or_after(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for last in range(20):
        folder = tmp_path / str(last)
        repository = make_repository(folder)
        device = Device(folder / "device", repository.root())
        storage, written = repository.storage, 0

        def counted(kind: str, storage: Any = storage, last: int = last) -> Any:
            write = getattr(storage, kind)

            def write_until(name: str, content: bytes) -> None:
                nonlocal written
                if written == last:
                    raise Cut
                written += 1
                write(name, content)

            return write_until

        with monkeypatch.context() as patch:
            for kind in ("create", "replace"):
                patch.setattr(storage, kind, counted(kind))
            try:
                repository.rotate_key(name)
                finished = True
            except Cut:
                finished = False
        assert device.get(repository.public, "models/doubler/1.0.0.json")
        again = Repository.open(repository.folder)
        again.rotate_key(name)
        again.promote("doubler", "1.0.0")
        again.publish("other", "1.0.0", [folder / "1.0.0" / "model.palm"], QUICK)
        assert device.get(repository.public, "models/other/1.0.0.json")
        if finished:
            break
    else:
        pytest.fail("it never ended")
    # Of root itself one file is written, of the others more.
    assert last >= (1 if name == "root" else 3)


def test_root_in_several_hands(tmp_path: Path) -> None:
    """From one root key to two of three, then a holder leaves; nobody ever has two keys."""
    repository = make_repository(tmp_path)
    device = Device(tmp_path / "device", repository.root())
    holders = {name: tmp_path / name / "root.pem" for name in ("ada", "ben", "cleo", "dan")}
    keys = {name: write_key(path, f"secret of {name}") for name, path in holders.items()}

    def sign(content: bytes, name: str) -> bytes:
        return rotation.add_signature(content, key_signer(holders[name], f"secret of {name}"))

    (first,) = keyids(repository, "root")
    content = rotation.next_root(
        repository,
        add={"root": [public_key(holders[n].with_suffix(".pub").read_bytes()) for n in keys][:3]},
        remove={"root": [first]},
        thresholds={"root": 2},
    )
    assert len(rotation.missing_signatures(repository, content)) == 2
    with pytest.raises(RepositoryError, match="not signed enough: the root there is wants 1 more"):
        rotation.install(repository, content)
    content = sign(sign(content, "ada"), "cleo")
    content = rotation.add_signature(content, key_signer(repository.folder / "keys/root.pem", None))
    assert rotation.missing_signatures(repository, content) == []
    changes = rotation.install(repository, content)
    assert "root: threshold 1 -> 2" in changes
    assert len([line for line in changes if line.startswith("root: + key")]) == 3
    take_away(repository, "root")
    assert device.get(repository.public, "models/doubler/1.0.0.json")
    with pytest.raises(RepositoryError, match="not enough keys of root here.*ceremony"):
        repository.rotate_key("root")

    # Ben leaves, Dan comes; Ben's signature alone with a stranger's is not enough.
    content = rotation.next_root(
        repository, add={"root": [keys["dan"]]}, remove={"root": [keys["ben"].keyid]}
    )
    with pytest.raises(RepositoryError, match="not signed enough"):
        rotation.install(repository, sign(sign(content, "ben"), "dan"))
    stale = sign(sign(content, "ada"), "cleo")
    rotation.install(repository, stale)
    assert sorted(keyids(repository, "root")) == sorted(
        keys[name].keyid for name in ("ada", "cleo", "dan")
    )
    with pytest.raises(RepositoryError, match="it is version 3, the repository's next one is 4"):
        rotation.install(repository, stale)
    for each in (device, Device(tmp_path / "new", repository.root())):
        assert each.get(repository.public, "models/doubler/1.0.0.json")

    # A changed file is not what was signed.
    content = sign(sign(rotation.next_root(repository), "ada"), "cleo")
    changed = json.loads(content)
    changed["signed"]["roles"]["root"]["threshold"] = 1
    with pytest.raises(RepositoryError, match="not signed enough"):
        rotation.install(repository, json.dumps(changed).encode())
    with pytest.raises(RepositoryError, match="expected a threshold from 1 to its 3 keys, got 4"):
        rotation.next_root(repository, thresholds={"root": 4})


def test_an_online_key_is_replaced_by_a_ceremony(tmp_path: Path) -> None:
    """The root's holder is elsewhere, so the timestamp's key is replaced through a file."""
    repository = make_repository(tmp_path)
    device = Device(tmp_path / "device", repository.root())
    safe = take_away(repository, "root")
    (old,) = keyids(repository, "timestamp")
    new = repository.ring.generate("timestamp", None)
    content = rotation.next_root(repository, add={"timestamp": [new]}, remove={"timestamp": [old]})
    content = rotation.add_signature(content, key_signer(safe / "root.pem", None))
    rotation.install(repository, content)
    assert keyids(repository, "timestamp") == [new.keyid]
    assert device.get(repository.public, "models/doubler/1.0.0.json")
    foreign = write_key(tmp_path / "foreign.pem", None)
    content = rotation.next_root(
        repository, add={"snapshot": [foreign]}, remove={"snapshot": keyids(repository, "snapshot")}
    )
    content = rotation.add_signature(content, key_signer(safe / "root.pem", None))
    with pytest.raises(RepositoryError, match="not enough of the new keys of snapshot here"):
        rotation.install(repository, content)


def test_stolen_online_keys_neither_add_nor_replace_a_model(tmp_path: Path) -> None:
    repository = make_repository(tmp_path)
    repository.promote("doubler", "1.0.0")
    device = Device(tmp_path / "device", repository.root())
    model = repository.manifest("doubler", "1.0.0").main
    good = device.get(repository.public, f"models/doubler/{model}")
    thief = Thief(repository, tmp_path, *ONLINE)
    evil = b"evil model"

    # It signs a model with the rollout key, in the rollout's own metadata ...
    rollout = thief.read("rollout")
    for path in ("models/doubler/9.9.9.json", f"models/doubler/{model}"):
        rollout.signed.targets[path] = thief.put(path, evil)
    rollout.signed.targets["rollout/doubler.json"] = thief.put("rollout/doubler.json", b"{}")
    thief.write("rollout", rollout, "rollout")
    thief.show()
    updater = device.refresh(thief.public)
    assert updater.get_targetinfo("models/doubler/9.9.9.json") is None
    assert device.get(thief.public, f"models/doubler/{model}") == good
    # ... which is believed for what is rolled out, and for nothing else.
    assert device.get(thief.public, "rollout/doubler.json") == b"{}"

    # ... in the model's metadata: there, the key counts for nothing.
    models = thief.read("model-doubler")
    models.signed.targets["models/doubler/9.9.9.json"] = thief.put(
        "models/doubler/9.9.9.json", evil
    )
    thief.write("model-doubler", models, "rollout")
    thief.show()
    with pytest.raises(NotBelieved, match="model-doubler was signed by 0/1 keys"):
        device.get(thief.public, path)

    # ... or it changes the bytes behind the name.
    other = Thief(repository, tmp_path / "other")
    stored = next((other.public / "targets/models/doubler").glob(f"*.{model}"))
    stored.write_bytes(bytes(len(good)))
    fresh = Device(tmp_path / "fresh", repository.root())
    with pytest.raises(LengthOrHashMismatchError):
        fresh.get(other.public, f"models/doubler/{model}")


def test_after_a_stolen_online_key_devices_believe_the_new_one_only(tmp_path: Path) -> None:
    repository = make_repository(tmp_path)
    device = Device(tmp_path / "device", repository.root())
    device.refresh(repository.public)
    thief = Thief(repository, tmp_path, *ONLINE)
    for name in ONLINE:
        repository.rotate_key(name)
    repository.promote("doubler", "1.0.0")
    good = device.get(repository.public, "rollout/doubler.json")
    # The mirror has to carry the new root, else it is only an old state of things.
    for path in (repository.public / "metadata").glob("*.root.json"):
        shutil.copy(path, thief.public / "metadata")
    rollout = thief.read("rollout")
    rollout.signed.targets["rollout/doubler.json"] = thief.put("rollout/doubler.json", b"evil")
    thief.write("rollout", rollout, "rollout", 50)
    thief.show(50)
    with pytest.raises(NotBelieved, match="timestamp was signed by 0/1 keys"):
        device.refresh(thief.public)
    assert device.get(repository.public, "rollout/doubler.json") == good


def test_a_stolen_models_key_is_replaced_and_its_release_revoked(tmp_path: Path) -> None:
    repository = make_repository(tmp_path)
    repository.promote("doubler", "1.0.0")
    device = Device(tmp_path / "device", repository.root())
    thief = Thief(repository, tmp_path, "models", *ONLINE)
    file = write_model(tmp_path / "evil.palm", 666.0)
    repository.publish("doubler", "6.6.6", [file], QUICK)
    assert device.get(repository.public, "models/doubler/6.6.6.json")

    found = repository.revoke("doubler", "6.6.6")
    assert "6.6.6" in found.revoked
    repository.rotate_key("models")
    for path in (repository.public / "metadata").glob("*"):
        shutil.copy(path, thief.public / "metadata")
    models = thief.read("model-doubler")
    models.signed.targets["models/doubler/7.7.7.json"] = thief.put("models/doubler/7.7.7.json", b"")
    thief.write("model-doubler", models, "models")
    thief.show()
    with pytest.raises(NotBelieved, match="model-doubler was signed by 0/1 keys"):
        device.get(thief.public, "models/doubler/7.7.7.json")


@pytest.mark.parametrize("steps", ["timestamp", "snapshot"])
def test_recovery_from_versions_run_far_ahead(tmp_path: Path, steps: str) -> None:
    """Stolen keys signed versions so high that devices would refuse all later ones."""
    repository = make_repository(tmp_path)
    device = Device(tmp_path / "device", repository.root())
    thief = Thief(repository, tmp_path, *ONLINE)
    if steps == "timestamp":
        timestamp = thief.read("timestamp")
        thief.write("timestamp", timestamp, "timestamp", 1_000_000)
    else:
        thief.show(1_000_000)
    device.refresh(thief.public)
    repository.promote("doubler", "1.0.0")
    with pytest.raises(NotBelieved, match="must be >="):
        device.refresh(repository.public)

    for name in ONLINE:
        repository.rotate_key(name)
    assert device.get(repository.public, "rollout/doubler.json")
    timestamp = Metadata[Any].from_bytes(
        (repository.public / "metadata/timestamp.json").read_bytes()
    )
    assert timestamp.signed.version < 1000


def test_recovery_from_a_model_role_run_far_ahead(tmp_path: Path) -> None:
    repository = make_repository(tmp_path)
    device = Device(tmp_path / "device", repository.root())
    thief = Thief(repository, tmp_path, "models", *ONLINE)
    thief.write("model-doubler", thief.read("model-doubler"), "models", 1_000_000)
    thief.show()
    assert device.get(thief.public, "models/doubler/1.0.0.json")
    repository.resign(force=True)
    repository.resign(force=True)
    with pytest.raises(NotBelieved, match="Expected model-doubler.json version 1, got 1000001"):
        device.refresh(repository.public)
    for name in ("models", *ONLINE):
        repository.rotate_key(name)
    assert device.get(repository.public, "models/doubler/1.0.0.json")


def test_an_epoch_run_far_ahead_is_over_with_another_rollout_key(world: World) -> None:
    """A thief of the rollout key signs the last epoch there is; the device is ours, over HTTP."""
    client = world.with_first_release()
    repository = world.repository
    last = replace(repository.policy(MODEL), epoch=MOST_EPOCH).dump()
    target = TargetFile(len(last), {"sha256": sha256_of(last)}, f"rollout/{MODEL}.json")
    repository.storage.add(stored_name(target), last)
    with repository.changing():
        with repository.roles.edit_targets("rollout") as rollout:
            rollout.targets[target.path] = target
        repository.show()
    world.show()
    client.refresh(MODEL)
    assert client.status(MODEL)["models"][0]["epoch"] == MOST_EPOCH

    assert repository.promote(MODEL, "2.0.0").epoch == 1
    world.show()
    with pytest.raises(DeliveryError, match="expected epoch") as refused:
        client.refresh(MODEL)
    assert refused.value.code == "rollback_attack"
    repository.rotate_key("rollout")
    world.show()
    client.refresh(MODEL)
    assert client.status(MODEL)["models"][0]["epoch"] == 1
    assert runs(client) == "2.0.0"
