"""What a device believes: python-tuf decides; here is that it is asked rightly, and what we add."""

import errno
import os
import threading
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest

from palmkit.delivery import durable, trust
from palmkit.delivery.trust import Mirror, Missing, Remote
from palmkit.engine.errors import DeliveryError
from tests.delivery.fault_server import Fault, FaultServer, serving
from tests.delivery.metadata_benchmark import measure
from tests.delivery.network_devices import refused, remote_of, versions
from tests.delivery.tuf_repository import TufRepository

MANIFEST = "models/face/1.0.json"


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with serving() as server:
        yield server


@pytest.fixture
def repository(server: FaultServer) -> TufRepository:
    repository = TufRepository(server.files)
    repository.delegate("model-face", "models/face/*")
    repository.add("model-face", MANIFEST, b"manifest")
    repository.bump("targets", "model-face")
    return repository


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "tuf"


@pytest.fixture
def remote(folder: Path, repository: TufRepository, server: FaultServer) -> Remote:
    return remote_of(folder, repository, server)


def test_a_target_is_fetched_once_and_a_check_is_two_requests(
    remote: Remote, server: FaultServer
) -> None:
    assert remote.target(MANIFEST) == b"manifest"
    size, sha256 = remote.info(MANIFEST)
    assert (size, server.paths()[-1]) == (8, f"/targets/models/face/{sha256}.1.0.json")
    server.requests.clear()
    remote.refresh()
    assert remote.target(MANIFEST) == b"manifest"
    assert server.paths() == ["/metadata/2.root.json", "/metadata/timestamp.json"]


def test_a_kept_target_that_was_changed_is_fetched_again(remote: Remote, folder: Path) -> None:
    remote.target(MANIFEST)
    (kept,) = (folder / "kept").iterdir()
    kept.write_bytes(b"changed!")
    assert remote.target(MANIFEST) == b"manifest"


def test_no_more_targets_are_kept_than_are_of_use(
    remote: Remote, repository: TufRepository, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trust, "MOST_KEPT_TARGETS", 2)
    remote.refresh()
    (folder / "kept").mkdir()
    left = [folder / ".a.tmp", folder / "kept" / ".b.tmp", folder / ".new.tmp"]
    for path in left:
        path.write_bytes(b"")
    for path in left[:2]:
        os.utime(path, (1, 1))
    for number in range(4):
        repository.add("model-face", f"models/face/{number}.json", b"%d" % number)
        repository.bump("model-face")
        remote.refresh()
        remote.target(f"models/face/{number}.json")
        for path in (folder / "kept").iterdir():
            time = path.stat().st_mtime - 10
            os.utime(path, (time, time))
    kept = {path.read_bytes() for path in (folder / "kept").iterdir()}
    assert kept == {b"2", b"3"}
    assert [path.exists() for path in left] == [False, False, True]


def test_the_version_changes_when_something_is_published(
    remote: Remote, repository: TufRepository
) -> None:
    before = remote.version
    repository.roles["timestamp"].version += 1
    repository.publish("timestamp")
    remote.refresh()
    assert remote.version == before
    repository.bump("model-face")
    remote.refresh()
    assert remote.version != before


def test_what_nobody_signs_is_not_had(remote: Remote) -> None:
    for path in ("models/face/2.0.json", "models/other/1.json", "../x", ""):
        with pytest.raises(Missing, match="signed target") as caught:
            remote.target(path)
        assert caught.value.code == "download_fail"


def test_a_role_may_only_sign_for_its_model(remote: Remote, repository: TufRepository) -> None:
    repository.delegate("rollout", "rollout/*")
    repository.add("rollout", "models/face/evil.json", b"evil")
    repository.add("rollout", "rollout/face.json", b"policy")
    repository.bump("targets", "rollout")
    assert remote.target("rollout/face.json") == b"policy"
    with pytest.raises(DeliveryError, match="signed target"):
        remote.target("models/face/evil.json")
    assert remote.below("rollout") == ["rollout/face.json"]
    assert remote.below("models/face") == [MANIFEST]
    assert remote.below("models/other") == remote.below("") == []


def test_a_target_that_is_not_what_was_signed(
    remote: Remote, server: FaultServer, repository: TufRepository
) -> None:
    path = next(path for path in server.files if path.endswith("1.0.json"))
    for content in (b"ManifesT", b"manifest and more", b""):
        server.files[path] = content
        with pytest.raises(DeliveryError) as caught:
            remote.target(MANIFEST)
        assert caught.value.code == "hash_mismatch"
    repository.add("model-face", "models/face/big.json", bytes((1 << 20) + 1))
    repository.bump("model-face")
    remote.refresh()
    with pytest.raises(DeliveryError, match="at most"):
        remote.target("models/face/big.json")


def test_an_unsigned_role_and_one_by_another_key_are_refused(
    remote: Remote, repository: TufRepository, folder: Path
) -> None:
    remote.refresh()
    for keys in ([], ["root0"]):
        repository.keys["snapshot"] = keys
        repository.bump("targets")
        assert refused(remote) == "sig_fail"
    assert versions(folder)["snapshot"] == 2, "what was believed before is kept"


def test_metadata_that_is_no_metadata(remote: Remote, server: FaultServer) -> None:
    for content in (b"", b"{", b"[]", b"{}", b"\xff\xfe", b"[" * 10000, b'{"signed":1}'):
        server.files["/metadata/timestamp.json"] = content
        assert refused(remote) == "sig_fail"


@pytest.mark.parametrize("role", ["timestamp", "snapshot", "targets"])
def test_an_older_role_is_an_attack(remote: Remote, repository: TufRepository, role: str) -> None:
    repository.bump("targets")
    remote.refresh()
    repository.roles[role].version -= 2
    for name in ("targets", "snapshot", "timestamp")[
        ["targets", "snapshot", "timestamp"].index(role) :
    ]:
        if name != role:
            repository.roles[name].version += 1
        repository.publish(name)
    assert refused(remote) == "rollback_attack"


@pytest.mark.parametrize("role", ["root", "timestamp", "snapshot", "targets", "model-face"])
def test_what_is_expired_is_not_believed(
    remote: Remote, repository: TufRepository, role: str
) -> None:
    remote.target(MANIFEST)
    repository.roles[role].expires = datetime(2020, 1, 1, tzinfo=timezone.utc)
    repository.bump(*([] if role in ("timestamp", "snapshot") else [role]))
    if role == "model-face":
        remote.refresh()
        with pytest.raises(DeliveryError) as caught:
            remote.target(MANIFEST)
        assert caught.value.code == "expired"
    else:
        assert refused(remote) == "expired"


def test_a_device_years_behind_follows_the_chain_of_roots(
    repository: TufRepository, remote: Remote, folder: Path
) -> None:
    remote.refresh()
    for role in ("root", "timestamp", "snapshot", "targets", "root"):
        repository.rotate(role)
    repository.bump("targets")
    remote.refresh()
    assert versions(folder)["root"] == 6
    assert remote.target(MANIFEST) == b"manifest"


def test_a_root_that_the_old_keys_did_not_sign_is_refused(
    repository: TufRepository, remote: Remote, folder: Path
) -> None:
    remote.refresh()
    repository.roles["root"].version += 1
    repository.keys["root"] = ["stranger"]
    repository.publish("root")
    assert refused(remote) == "sig_fail"
    assert versions(folder)["root"] == 1


def test_recovery_from_a_fast_forward_by_new_keys(
    repository: TufRepository, remote: Remote, folder: Path
) -> None:
    for role in ("timestamp", "snapshot"):
        repository.roles[role].version = 99999
    repository.publish("snapshot", "timestamp")
    remote.refresh()
    repository.rotate("timestamp")
    repository.rotate("snapshot")
    for role in ("timestamp", "snapshot"):
        repository.roles[role].version = 7
    repository.publish("snapshot", "timestamp")
    remote.refresh()
    assert versions(folder)["timestamp"] == versions(folder)["snapshot"] == 7


@pytest.mark.parametrize("status", [403, 404])
def test_the_end_of_the_roots_is_a_404_or_a_403(
    remote: Remote, server: FaultServer, status: int
) -> None:
    server.faults["/metadata/2.root.json"] = Fault("status", status=status)
    remote.refresh()
    server.faults["/metadata/2.root.json"] = Fault("status", status=500)
    assert refused(remote) == "check_fail_http5xx"


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (Fault("truncated", at=20), "check_fail_connect"),
        (Fault("flipped"), "sig_fail"),
        (Fault("endless"), "hash_mismatch"),
        (Fault("status", status=500), "check_fail_http5xx"),
        (Fault("status", status=503, headers={"Retry-After": "900"}), "check_fail_http5xx"),
        (Fault("status", status=404), "check_fail_http4xx"),
        (Fault("hang"), "check_fail_timeout"),
        (Fault("drip", every_s=0.02), "check_fail_timeout"),
        (Fault("drip_headers", every_s=0.02), "check_fail_timeout"),
        (Fault("refuse"), "check_fail_connect"),
    ],
    ids=lambda value: value.kind if isinstance(value, Fault) else "",
)
def test_every_fault_has_its_code_and_leaves_what_was(
    remote: Remote,
    repository: TufRepository,
    server: FaultServer,
    folder: Path,
    fault: Fault,
    code: str,
) -> None:
    remote.refresh()
    before = versions(folder)
    repository.bump("targets")
    server.faults["/metadata/timestamp.json"] = fault
    assert refused(remote) == code
    assert versions(folder) == before
    server.faults.clear()
    remote.refresh()


def test_a_refused_check_says_when_to_come_back(remote: Remote, server: FaultServer) -> None:
    headers = {"Retry-After": "900"}
    server.faults["*"] = Fault("status", status=503, headers=headers)
    with pytest.raises(DeliveryError) as caught:
        remote.refresh()
    assert getattr(caught.value, "retry_after_s", None) == 900.0


def test_nothing_is_asked_before_it_is_needed(folder: Path, server: FaultServer) -> None:
    Remote(folder, [server.url], b"not even a root")
    assert not folder.exists() and not server.requests
    remote = Remote(folder, [server.url], b"not even a root")
    assert refused(remote) == "sig_fail"
    assert not server.requests
    with pytest.raises(ValueError, match="urls"):
        Remote(folder, [], b"")


def test_metadata_damaged_on_the_disk_is_fetched_again(
    remote: Remote, repository: TufRepository, folder: Path
) -> None:
    repository.rotate("snapshot")
    repository.bump()
    remote.target(MANIFEST)
    for path in [*folder.glob("*.json"), *folder.glob("root_history/2*")]:
        path.write_bytes(path.read_bytes()[: len(path.read_bytes()) // 2])
    remote.refresh()
    assert remote.target(MANIFEST) == b"manifest"
    assert versions(folder)["root"] == 2


def test_a_full_disk_is_named(
    remote: Remote, monkeypatch: pytest.MonkeyPatch, repository: TufRepository, folder: Path
) -> None:
    remote.refresh()
    before = versions(folder)
    repository.bump("targets")

    def full(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(durable, "write", full)
    assert refused(remote) == "disk_full"
    assert versions(folder) == before


def test_the_next_mirror_is_asked_whatever_is_wrong_with_one(
    repository: TufRepository, server: FaultServer, folder: Path
) -> None:
    with serving() as mirror:
        mirror.files.update(server.files)
        remote = remote_of(folder, repository, server, mirror)
        for kind in ("refuse", "flipped", "hang"):
            server.faults["*"] = Fault(kind)
            mirror.requests.clear()
            remote.refresh()
            assert remote.target(MANIFEST) == b"manifest" and mirror.requests
            server.requests.clear()
            remote.refresh()
            assert not server.requests, "the one that answered is asked first"
            remote = remote_of(folder, repository, server, mirror)
        mirror.faults["*"] = Fault("refuse")
        server.faults["*"] = Fault("flipped")
        assert refused(remote) == "sig_fail", "says more than a refused connection"


def test_metadata_and_targets_may_be_in_two_places(
    folder: Path, repository: TufRepository, server: FaultServer
) -> None:
    with serving() as other:
        for path in list(server.files):
            if path.startswith("/targets/"):
                other.files["/cdn" + path.removeprefix("/targets")] = server.files.pop(path)
        mirror = Mirror(f"{server.url}/metadata/", f"{other.url}/cdn/")
        assert Remote(folder, [mirror], repository.root()).target(MANIFEST) == b"manifest"


def test_processes_that_forgot_the_lock_still_believe_only_what_is_right(
    repository: TufRepository, server: FaultServer, folder: Path
) -> None:
    errors: list[str] = []

    def check() -> None:
        remote = remote_of(folder, repository, server)
        for _ in range(15):
            try:
                remote.refresh()
                assert remote.target(MANIFEST) == b"manifest"
            except DeliveryError as error:
                errors.append(f"{error.code}: {error}")

    threads = [threading.Thread(target=check) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(10):
        repository.bump("targets", "model-face")
    for thread in threads:
        thread.join()
    assert errors == []
    remote_of(folder, repository, server).refresh()
    assert versions(folder)["timestamp"] == 12


def test_a_check_of_many_models_is_two_requests_and_few_bytes() -> None:
    found = measure(targets=60, models=3, runs=2)
    assert [found[name][1] for name in ("cold", "warm", "published")] == [8, 2, 5]
    assert found["warm"][2] < 400
