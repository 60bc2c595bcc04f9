"""What a device believes: python-tuf decides; here is that it is asked rightly, and what we add."""

import errno
import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from palmkit.delivery import durable
from palmkit.delivery.clock import Clock
from palmkit.delivery.http import Http
from palmkit.delivery.trust import SIGNED_AT, Mirror, Remote
from palmkit.engine.errors import DeliveryError
from tests.delivery.fault_server import Fault, FaultServer, serving
from tests.delivery.test_http import QUICK
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


class Time:
    def __init__(self) -> None:
        self.days = 0.0

    def __call__(self) -> datetime:
        return datetime.now(timezone.utc) + timedelta(days=self.days)


def remote_of(
    folder: Path,
    repository: TufRepository,
    *servers: FaultServer,
    wall: Time | None = None,
    not_before: datetime | None = None,
) -> Remote:
    folder.mkdir(exist_ok=True)
    clock = Clock(folder / "clock", not_before, wall or Time())
    return Remote(folder, [server.url for server in servers], repository.root(), Http(QUICK), clock)


@pytest.fixture
def remote(folder: Path, repository: TufRepository, server: FaultServer) -> Remote:
    return remote_of(folder, repository, server)


def refused(remote: Remote) -> str:
    with pytest.raises(DeliveryError) as caught:
        remote.refresh()
    return caught.value.code


def versions(folder: Path) -> dict[str, int]:
    return {
        path.stem: json.loads(path.read_bytes())["signed"]["version"]
        for path in folder.glob("*.json")
    }


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
        with pytest.raises(DeliveryError, match="signed target") as caught:
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


def test_a_clock_that_is_ahead_makes_stale_and_harms_nothing(
    folder: Path, repository: TufRepository, server: FaultServer
) -> None:
    time = Time()
    remote = remote_of(folder, repository, server, wall=time)
    remote.refresh()
    time.days = 400
    assert refused(remote) == "expired"
    time.days = 0
    remote.refresh()


def test_a_clock_that_was_set_back_does_not_revive_what_is_expired(
    folder: Path, repository: TufRepository, server: FaultServer
) -> None:
    time = Time()
    remote = remote_of(folder, repository, server, wall=time)
    signed = datetime.now(timezone.utc).replace(microsecond=0)
    timestamp = repository.roles["timestamp"]
    timestamp.unrecognized_fields[SIGNED_AT] = signed.isoformat().replace("+00:00", "Z")
    repository.bump()
    remote.refresh()
    time.days = -3650
    remote = remote_of(folder, repository, server, wall=time)
    remote.refresh()
    for role in ("timestamp", "snapshot"):
        repository.roles[role].expires = signed - timedelta(days=100)
    repository.bump()
    assert refused(remote) == "expired"
    assert refused(remote_of(folder, repository, server, wall=time)) == "expired"


def test_the_build_date_bounds_a_clock_that_was_never_set(
    folder: Path, repository: TufRepository, server: FaultServer
) -> None:
    time = Time()
    time.days = -20000
    for role in ("timestamp", "snapshot"):
        repository.roles[role].expires = datetime.now(timezone.utc) - timedelta(days=2)
    repository.bump()
    now = datetime.now(timezone.utc)
    assert refused(remote_of(folder, repository, server, wall=time, not_before=now)) == "expired"
    remote_of(folder, repository, server, wall=time).refresh()


def test_a_stolen_key_cannot_freeze_a_device_beyond_its_replacement(
    folder: Path, repository: TufRepository, server: FaultServer, remote: Remote
) -> None:
    timestamp = repository.roles["timestamp"]
    expires = timestamp.expires
    timestamp.unrecognized_fields[SIGNED_AT] = "2090-01-01T00:00:00Z"
    timestamp.expires = datetime(2091, 1, 1, tzinfo=timezone.utc)
    repository.bump()
    remote.refresh()
    assert refused(remote) == "expired"
    del timestamp.unrecognized_fields[SIGNED_AT]
    timestamp.expires = expires
    repository.rotate("timestamp")
    repository.bump()
    remote.refresh()


def test_a_time_that_is_no_time_is_not_learned(
    remote: Remote, repository: TufRepository, folder: Path
) -> None:
    for value in ("soon", 7, None, "2026-99-99", "9" * 5000):
        repository.roles["timestamp"].unrecognized_fields[SIGNED_AT] = value
        repository.bump()
        remote.refresh()
    assert not (folder / "clock").exists()


def test_the_clock_keeps_its_mark_and_survives_its_loss(tmp_path: Path) -> None:
    file, time = tmp_path / "clock", Time()
    day = timedelta(days=1)
    clock = Clock(file, wall=time)
    clock.learn(time() + 2 * day)
    assert clock.is_behind and clock.now() == clock.mark
    clock.learn(time())
    assert Clock(file, wall=time).mark == clock.mark > time() + day
    time.days = 1.5
    assert not clock.is_behind and clock.now() > clock.mark - day
    for text in (b"", b"never", b"\xff", b"2026-01-01T00:00:00"):
        file.write_bytes(text)
        assert not Clock(file, wall=time).is_behind
