"""A repository as its publisher uses it, seen by the TUF client that devices use."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from securesystemslib.signer import SIGNER_FOR_URI_SCHEME, CryptoSigner, Key

from palmkit.delivery import manifest, policy
from palmkit.delivery.policy import Condition
from palmkit.delivery.repository import (
    Missing,
    Options,
    Repository,
    roles,
)
from palmkit.delivery.repository.golden_inputs import shortened
from palmkit.engine import load
from palmkit.engine.errors import RepositoryError
from tests.delivery.releases import QUICK, SetClock, make_repository, write_model
from tests.delivery.tuf_device import Device


def test_a_device_gets_what_was_published(tmp_path: Path) -> None:
    file = write_model(tmp_path / "model.palm")
    repository = Repository.create(tmp_path / "repository")
    options = Options(golden=2, sdk=">=0.1,<2", metrics={"map": 0.5}, notes="first")
    made = repository.publish("doubler", "1.0.0", [file], options)
    device = Device(tmp_path / "device", repository.root())
    seen = manifest.parse(device.get(repository.public, "models/doubler/1.0.0.json"))
    assert seen == made
    assert [each.name for each in seen.files] == ["doubler-1.0.0.palm", "golden-1.0.0.npz"]
    assert (seen.needs.palm_format, seen.needs.sdk) == (1, ">=0.1,<2")
    content = device.get(repository.public, f"models/doubler/{seen.main}")
    assert content == file.read_bytes()


def test_golden_outputs_are_those_of_the_model(tmp_path: Path) -> None:
    repository = make_repository(tmp_path)
    seen = repository.manifest("doubler", "1.0.0")
    assert seen.golden is not None
    device = Device(tmp_path / "device", repository.root())
    golden = tmp_path / "golden.npz"
    golden.write_bytes(device.get(repository.public, f"models/doubler/{seen.golden.file}"))
    model = load(tmp_path / "1.0.0" / "model.palm")
    with np.load(golden) as arrays:
        assert sorted(arrays) == ["in/drawn_0/x", "out/drawn_0/y"]
        outputs = model.run({"x": arrays["in/drawn_0/x"]})
        np.testing.assert_allclose(outputs["y"], arrays["out/drawn_0/y"], rtol=seen.golden.rtol / 8)


@pytest.mark.parametrize("rtol", [1.0, 0.1, 0.01, 1e-4, 1e-6, 0.0])
def test_outputs_are_shortened_by_far_less_than_their_tolerance(rtol: float) -> None:
    top = float(np.finfo(np.float32).max)
    draws = np.random.default_rng(0).normal(1, 0.1, 10000)
    values = np.append(draws, [0, -1, top, -top, 1e-38]).astype(np.float32)
    short = shortened(values, rtol)
    assert short.dtype == np.float32
    np.testing.assert_allclose(short, values, rtol=rtol / 16, atol=0)
    # What is dropped is dropped: the bits that stay are few.
    assert (np.unique(short).size < np.unique(values).size / 2) is (rtol >= 0.01)
    whole = np.arange(5)
    assert shortened(whole, rtol) is whole


def test_golden_inputs_may_be_given(tmp_path: Path) -> None:
    file = write_model(tmp_path / "model.palm")
    repository = Repository.create(tmp_path / "repository")
    ones = np.ones((1, 16), np.float32)
    arrays: dict[str, Any] = {"ones/x": ones, "zeros/x": 0 * ones}
    np.savez(tmp_path / "inputs.npz", **arrays)
    given = Options(golden=tmp_path / "inputs.npz")
    made = repository.publish("doubler", "1.0.0", [file], given)
    assert made.golden is not None
    stored = next((repository.public / "targets/models/doubler").glob("*.golden-1.0.0.npz"))
    with np.load(stored) as written:
        assert sorted(written) == ["in/ones/x", "in/zeros/x", "out/ones/y", "out/zeros/y"]
        assert not written["out/zeros/y"].any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"golden": {"a": {"x": np.full((1, 16), np.nan, np.float32)}}}, "is not finite"),
        ({"golden": {"a": {"z": np.zeros(3, np.float32)}}}, "does not run"),
        ({"golden": 0}, "golden inputs: expected 1 to 1000 to draw, got 0"),
        ({"sdk": "new ones"}, "expected versions like"),
        ({"main": "other.palm"}, "expected one file called other.palm"),
        ({"key": bytes(32)}, "needs a key_id"),
        ({"metrics": {"map": float("inf")}}, "cannot be described"),
    ],
)
def test_a_release_that_devices_would_refuse_is_not_signed(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    file = write_model(tmp_path / "model.palm")
    repository = Repository.create(tmp_path / "repository")
    with pytest.raises(RepositoryError, match=message):
        repository.publish("doubler", "1.0.0", [file], replace(QUICK, **changes))
    assert repository.models() == ()


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.palm").write_bytes(b"no model")
    repository = Repository.create(tmp_path / "repository")
    with pytest.raises(RepositoryError, match="no such file"):
        repository.publish("doubler", "1.0.0", [tmp_path / "none.palm"], QUICK)
    with pytest.raises(RepositoryError, match="does not run|not a model file"):
        repository.publish("doubler", "1.0.0", [tmp_path / "model.palm"], QUICK)
    with pytest.raises(RepositoryError, match="a version like 1.2.0, got 'latest'"):
        repository.publish("doubler", "latest", [tmp_path / "model.palm"], QUICK)
    with pytest.raises(RepositoryError, match="a name like face_detector, got '../x'"):
        repository.publish("../x", "1.0.0", [tmp_path / "model.palm"], QUICK)


def test_publishing_again_is_no_error_but_other_bytes_are(tmp_path: Path) -> None:
    repository = make_repository(tmp_path)
    file = tmp_path / "1.0.0" / "model.palm"
    first = repository.manifest("doubler", "1.0.0")
    assert repository.publish("doubler", "1.0.0", [file], QUICK) == first
    other = write_model(tmp_path / "other.palm", 3.0)
    with pytest.raises(RepositoryError, match="a release never changes"):
        repository.publish("doubler", "1.0.0", [other], QUICK)


def test_releases_are_listed_by_version(tmp_path: Path) -> None:
    repository = make_repository(tmp_path, "doubler", "1.10.0", "1.9.0", "1.10.0rc1")
    assert repository.models() == ("doubler",)
    assert repository.releases("doubler") == ("1.9.0", "1.10.0rc1", "1.10.0")
    with pytest.raises(Missing, match="no such model: halver"):
        repository.releases("halver")
    with pytest.raises(Missing, match="no release 2.0 of doubler; there are: 1.9.0"):
        repository.manifest("doubler", "2.0")


def releases_on(found: policy.Policy, channel: str = "stable") -> list[tuple[str, float, str]]:
    return [
        (each.release, each.percent, "recall" if each.recall else "halt" if each.halt else "")
        for each in found.channels[channel]
    ]


def test_what_runs_where_is_seen_by_devices(tmp_path: Path) -> None:
    repository = make_repository(tmp_path, "doubler", "1.0.0", "1.1.0")
    device = Device(tmp_path / "device", repository.root())

    def seen() -> policy.Policy:
        return policy.parse(device.get(repository.public, "rollout/doubler.json"))

    assert (seen().epoch, releases_on(seen())) == (1, [])
    repository.promote("doubler", "1.0.0")
    assert releases_on(seen()) == [("1.0.0", 100, "")]
    assert repository.promote("doubler", "1.1.0", percent=5) == seen()
    salt = seen().channels["stable"][0].salt
    linux = Condition("os", "in", ["linux"])
    repository.promote("doubler", "1.1.0", percent=20, when=[linux])
    assert releases_on(seen()) == [("1.1.0", 20, ""), ("1.0.0", 100, "")]
    assert seen().channels["stable"][0].salt == salt
    repository.halt("doubler", "1.1.0")
    assert releases_on(seen()) == [("1.1.0", 20, "halt"), ("1.0.0", 100, "")]
    repository.promote("doubler", "1.1.0", percent=50)
    assert seen().channels["stable"][0].when == (linux,)
    repository.recall("doubler", "1.1.0", "stable")
    assert releases_on(seen()) == [("1.1.0", 50, "recall"), ("1.0.0", 100, "")]
    repository.promote("doubler", "1.1.0")
    repository.rollback("doubler")
    assert releases_on(seen()) == [("1.1.0", 100, "recall"), ("1.0.0", 100, "")]
    assert seen() == repository.policy("doubler")
    assert seen().epoch == 9


def test_rolling_back_needs_something_to_go_back_to(tmp_path: Path) -> None:
    repository = make_repository(tmp_path, "doubler", "1.0.0", "1.1.0", "1.2.0")
    with pytest.raises(Missing, match="on stable: nothing to roll back: no release is offered"):
        repository.rollback("doubler")
    for release in ("1.0.0", "1.1.0", "1.2.0"):
        repository.promote("doubler", release, percent=10)
    found = repository.rollback("doubler", release="1.0.0")
    assert releases_on(found) == [
        ("1.2.0", 10, "recall"),
        ("1.1.0", 10, "recall"),
        ("1.0.0", 100, ""),
    ]
    for to in (None, "3.0.0", "1.0.0"):
        with pytest.raises(Missing, match="nothing behind 1.0.0 to go back to; recall 1.0.0, and"):
            repository.rollback("doubler", release=to)
    repository.promote("doubler", "1.2.0")
    with pytest.raises(Missing, match="no 3.0.0 behind 1.2.0 to go back to, only 1.0.0"):
        repository.rollback("doubler", release="3.0.0")
    repository.recall("doubler", "1.2.0")
    # What the message says can be done.
    assert repository.recall("doubler", "1.0.0").channels["stable"][2].recall
    with pytest.raises(Missing, match="nothing to roll back: no release is offered there"):
        repository.rollback("doubler")
    with pytest.raises(Missing, match="not on the channel beta"):
        repository.halt("doubler", "1.0.0", "beta")
    with pytest.raises(Missing, match="not on any channel"):
        repository.recall("doubler", "3.0.0")


def test_a_revoked_release_cannot_be_promoted(tmp_path: Path) -> None:
    repository = make_repository(tmp_path, "doubler", "1.0.0", "1.1.0")
    repository.promote("doubler", "1.1.0")
    found = repository.revoke("doubler", "1.1.0")
    assert releases_on(found) == [("1.1.0", 100, "recall")]
    bad = repository.manifest("doubler", "1.1.0")
    good = repository.manifest("doubler", "1.0.0")
    assert bad.file(bad.main).sha256 in found.revoked
    assert good.file(good.main).sha256 not in found.revoked
    with pytest.raises(RepositoryError, match="revoked, or below the floor: doubler 1.1.0"):
        repository.promote("doubler", "1.1.0")
    repository.set_floor("doubler", "1.0.1")
    with pytest.raises(RepositoryError, match="revoked, or below the floor: doubler 1.0.0"):
        repository.promote("doubler", "1.0.0")
    repository.set_floor("doubler", None)
    repository.promote("doubler", "1.0.0")
    with pytest.raises(Missing, match="no release 9"):
        repository.promote("doubler", "9")
    with pytest.raises(RepositoryError, match="percent: expected 0 to 100, got 101"):
        repository.promote("doubler", "1.0.0", percent=101)


def test_signing_again_before_it_is_too_late(tmp_path: Path) -> None:
    clock = SetClock()
    repository = Repository.create(tmp_path / "repository", clock=clock)
    assert repository.resign() == []
    clock.go_on(hours=13)
    assert repository.resign() == ["timestamp"]
    clock.go_on(hours=13)
    assert repository.resign() == ["rollout", "snapshot", "timestamp"]
    assert repository.expires()["timestamp"] == "2026-01-03T02:00:00Z"
    clock.go_on(days=4)
    assert repository.resign(force=True) == ["rollout", "snapshot", "timestamp"]
    signed = json.loads((repository.public / "metadata/timestamp.json").read_bytes())["signed"]
    assert signed["x-palmkit-signed"] == "2026-01-06T02:00:00Z"
    clock.go_on(days=180)
    assert repository.resign() == ["root", "targets", "rollout", "snapshot", "timestamp"]
    (repository.folder / "keys/root.pem").unlink()
    clock.go_on(days=200)
    assert repository.resign() == ["targets", "rollout", "snapshot", "timestamp"]


def test_keys_are_readable_by_their_owner_only_and_may_be_encrypted(tmp_path: Path) -> None:
    file = write_model(tmp_path / "model.palm")
    repository = Repository.create(tmp_path / "repository", passphrase="a long sentence")
    files = sorted((repository.folder / "keys").glob("*.pem"))
    assert [key.stem for key in files] == sorted(
        ["root", "targets", "models", "rollout", "snapshot", "timestamp"]
    )
    for key in files:
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        assert b"ENCRYPTED" in key.read_bytes()
    asked: list[str] = []

    def secrets(name: str) -> str:
        asked.append(name)
        return "a long sentence"

    again = Repository.open(repository.folder, secrets)
    again.publish("doubler", "1.0.0", [file], QUICK)
    assert "models.pem" in asked and "root.pem" not in asked
    wrong = Repository.open(repository.folder, lambda name: "another")
    with pytest.raises(RepositoryError, match="the key cannot be opened: encrypted:"):
        wrong.resign(force=True)
    unset = Repository.open(repository.folder)
    with pytest.raises(RepositoryError, match=r"passphrase, in \$PALMKIT_PASSPHRASE: rollout.pem"):
        unset.resign(force=True)


def test_metadata_larger_than_devices_take_are_not_signed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = make_repository(tmp_path)
    size = (repository.public / "metadata/1.model-doubler.json").stat().st_size

    def most_bytes(role: str) -> int:
        return size + 100

    monkeypatch.setattr(roles, "most_bytes", most_bytes)
    file = write_model(tmp_path / "new.palm", 5.0)
    with pytest.raises(RepositoryError, match=r"model-doubler: expected at most \d+ bytes, which"):
        repository.publish("doubler", "2.0.0", [file], QUICK)
    monkeypatch.undo()
    assert repository.releases("doubler") == ("1.0.0",)
    assert repository.verify() == []


class Elsewhere(CryptoSigner):
    """A key of a service, found by its URI; its private part is no file here."""

    SCHEME = "testkms"
    services: ClassVar[dict[str, CryptoSigner]] = {}

    @classmethod
    def from_priv_key_uri(
        cls, priv_key_uri: str, public_key: Key, secrets_handler: object = None
    ) -> CryptoSigner:
        signer = cls.services[priv_key_uri]
        assert signer.public_key.keyid == public_key.keyid
        return signer


def test_keys_may_be_in_a_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SIGNER_FOR_URI_SCHEME, Elsewhere.SCHEME, Elsewhere)
    repository = make_repository(tmp_path)
    for name, signer in (
        ("models", CryptoSigner.generate_ecdsa()),
        ("timestamp", CryptoSigner.generate_rsa(size=2048)),
    ):
        uri = f"testkms:keys/{name}"
        Elsewhere.services[uri] = signer
        repository.ring.add(signer.public_key, uri)
        repository.rotate_key(name, signer.public_key)
        (repository.folder / "keys" / f"{name}.pem").unlink()
    again = Repository.open(repository.folder)
    again.publish("doubler", "2.0.0", [write_model(tmp_path / "new.palm", 5.0)], QUICK)
    device = Device(tmp_path / "device", again.root())
    assert device.get(again.public, "models/doubler/2.0.0.json")
    Elsewhere.services.clear()
    with pytest.raises(RepositoryError, match="the key cannot be opened: testkms:keys/models"):
        Repository.open(repository.folder).publish(
            "doubler", "3.0.0", [write_model(tmp_path / "newer.palm", 6.0)], QUICK
        )


def test_a_folder_that_is_no_repository_or_is_one_already(tmp_path: Path) -> None:
    with pytest.raises(Missing, match="no repository, make one with palmkit models create"):
        Repository.open(tmp_path)
    repository = Repository.create(tmp_path / "repository")
    with pytest.raises(RepositoryError, match="there is a repository already"):
        Repository.create(repository.folder)
