"""The way of a release on a device, from the offer to the model that runs, and back."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from palmkit import engine
from palmkit.delivery import golden
from palmkit.delivery.client import Client, Mode
from palmkit.delivery.device import Release
from palmkit.delivery.policy import MOST_EPOCH, Candidate
from palmkit.engine.errors import DeliveryError
from tests.delivery.devices import MODEL, Devices, golden_bytes


@pytest.fixture
def devices(tmp_path: Path) -> Devices:
    return Devices(tmp_path)


def factor(release: Release) -> float:
    """What the model of a release multiplies by: that it runs, and which one it is."""
    outputs = engine.load(release.path).run({"x": np.ones(4, np.float32)})
    return float(outputs["y"][0])


def state(client: Client) -> str:
    return str(client.status(MODEL)["models"][0]["state"])


def released(devices: Devices, *factors: float) -> list[str]:
    """Releases 2.0, 3.0 ... of these factors, the last one offered to all."""
    digests = [devices.published.publish(f"{each:g}.0", devices.content(each)) for each in factors]
    devices.published.offer(Candidate(f"{factors[-1]:g}.0", 100))
    return digests


def test_without_a_server_the_embedded_model_runs(devices: Devices) -> None:
    client = devices.client()
    devices.published.fault = DeliveryError("check_fail_dns", "no such host")
    for mode in get_args(Mode):
        release = client.get(MODEL, mode)
        assert (release.source, release.version, factor(release)) == ("embedded", "0", 1)
    assert client.get("face_detector", "local").version == "1.0"
    with pytest.raises(DeliveryError, match="no such model here: cat_detector"):
        client.get("cat_detector", "local")


def test_asking_locally_leaves_no_trace(devices: Devices) -> None:
    devices.client().get(MODEL, "local")
    assert not (devices.folder / "device").exists()


def test_a_release_is_fetched_tried_and_kept(devices: Devices) -> None:
    released(devices, 2)
    client = devices.client()
    client.get(MODEL, "local")
    client.refresh(MODEL)
    assert state(client) == "STAGED"
    release = client.get(MODEL, "local")
    assert (release.version, release.source, release.on_trial) == ("2.0", "delivered", True)
    assert factor(release) == 2 and state(client) == "TRIAL"
    client.mark_ok(release)
    assert state(client) == "ACTIVE"
    client.close()
    devices.published.fault = DeliveryError("check_fail_connect", "gone")
    again = devices.client().get(MODEL, "latest")
    assert (factor(again), again.on_trial) == (2, False)
    assert devices.published.fetched == ["doubler-2.0.palm"]


def test_a_failure_on_trial_goes_back_at_once_and_for_good(devices: Devices) -> None:
    released(devices, 2)
    client = devices.client()
    client.refresh(MODEL)
    client.mark_ok(client.get(MODEL))
    released(devices, 3)
    client.refresh(MODEL)
    release = client.get(MODEL)
    assert factor(release) == 3
    client.report_failure(release, "nan")
    assert factor(client.get(MODEL)) == 2
    client.refresh(MODEL)
    assert factor(client.get(MODEL)) == 2
    assert [each["code"] for each in client.status(MODEL)["models"][0]["quarantine"]] == ["nan"]


def test_three_doubts_make_a_failure(devices: Devices) -> None:
    released(devices, 2)
    client = devices.client()
    client.refresh(MODEL)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), client.using(MODEL, "local"):
            raise ZeroDivisionError
    assert client.get(MODEL, "local").version == "2.0"
    client.report_failure(MODEL)
    assert client.get(MODEL, "local").source == "embedded"


def test_what_fails_its_proof_is_never_tried(devices: Devices) -> None:
    released(devices, 2)
    client = devices.client(prove=lambda question: golden.Answer("golden_fail", "off by 1"))
    with pytest.raises(DeliveryError, match=r"doubler 2\.0: golden_fail: off by 1") as error:
        client.refresh(MODEL)
    assert error.value.code == "quarantined"
    assert client.get(MODEL, "local").source == "embedded"
    assert state(client) == "EMBEDDED"
    client.refresh(MODEL)
    assert devices.published.fetched == ["doubler-2.0.palm"]
    devices.published.offer(Candidate("2.0", 100), retry_epoch=1)
    again = devices.client()
    again.refresh(MODEL)
    assert again.get(MODEL, "local").version == "2.0"
    assert again.status(MODEL)["models"][0]["quarantine"] == []


def test_a_process_that_dies_on_trial_twice_ends_it(devices: Devices) -> None:
    """The lock of a process that is gone is free; here its file is removed as if by a reboot."""
    released(devices, 2)
    client = devices.client()
    client.refresh(MODEL)
    for _ in range(2):
        dying = devices.client()
        assert dying.get(MODEL, "local").version == "2.0"
        for lock in (devices.folder / "device/running").iterdir():
            lock.unlink()
    after = devices.client()
    assert after.get(MODEL, "local").source == "embedded"
    assert after.status(MODEL)["models"][0]["quarantine"][0]["code"] == "crash_trial"


def test_three_starts_that_end_well_prove_a_release(devices: Devices) -> None:
    released(devices, 2)
    devices.client().refresh(MODEL)
    for _ in range(3):
        client = devices.client()
        assert client.get(MODEL, "local").on_trial
        client.close()
    assert not devices.client().get(MODEL, "local").on_trial


def test_a_recall_takes_back_and_a_halt_does_not(devices: Devices) -> None:
    released(devices, 2, 3)
    client = devices.client()
    client.refresh(MODEL)
    client.mark_ok(client.get(MODEL))
    devices.published.offer(Candidate("3.0", 100, halt=True))
    client.refresh(MODEL)
    assert client.get(MODEL).version == "3.0"
    other = devices.client("other")
    other.refresh(MODEL)
    assert other.get(MODEL).source == "embedded"
    devices.published.offer(Candidate("3.0", 100, recall=True), Candidate("2.0", 100))
    client.refresh(MODEL)
    assert client.get(MODEL).version == "2.0"


def test_a_recall_without_another_release_goes_to_the_one_before(devices: Devices) -> None:
    released(devices, 2)
    client = devices.client()
    client.refresh(MODEL)
    client.mark_ok(client.get(MODEL))
    released(devices, 3)
    client.refresh(MODEL)
    client.mark_ok(client.get(MODEL))
    devices.published.offer(Candidate("3.0", 100, recall=True))
    client.refresh(MODEL)
    release = client.get(MODEL)
    assert (release.version, release.on_trial) == ("2.0", False)
    devices.published.offer(Candidate("3.0", 100, recall=True), floor="4.0")
    client.refresh(MODEL)
    assert client.get(MODEL).source == "embedded"


@pytest.mark.parametrize("what", ["release", "manifest", "file"])
def test_what_is_revoked_does_not_run(devices: Devices, what: str) -> None:
    digest = released(devices, 2)[0]
    client = devices.client()
    client.refresh(MODEL)
    client.mark_ok(client.get(MODEL))
    file = next(iter(devices.published.files)).split(".")[0]
    name = {"release": "2.0", "manifest": digest, "file": file}[what]
    devices.published.offer(Candidate("2.0", 100), revoked=frozenset({name}))
    client.refresh(MODEL)
    assert client.get(MODEL).source == "embedded"


def test_an_older_policy_is_refused(devices: Devices) -> None:
    released(devices, 2)
    old = devices.published.targets[f"rollout/{MODEL}.json"]
    devices.published.offer(Candidate("2.0", 100), floor="1.5")
    client = devices.client()
    client.refresh(MODEL)
    devices.published.targets[f"rollout/{MODEL}.json"] = old
    with pytest.raises(DeliveryError, match="expected epoch 2, got 1") as error:
        client.refresh(MODEL)
    assert error.value.code == "rollback_attack"


def test_another_rollout_key_ends_the_epochs_of_a_thief(devices: Devices) -> None:
    released(devices, 2)
    client = devices.client()
    client.refresh(MODEL)
    good = devices.published.policies[MODEL]
    devices.published.offer(Candidate("2.0", 0), epoch=MOST_EPOCH)
    client.refresh(MODEL)
    devices.published.offer(Candidate("2.0", 100), epoch=good.epoch + 1)
    with pytest.raises(DeliveryError, match=f"expected epoch {MOST_EPOCH}, got 2"):
        client.refresh(MODEL)
    devices.published.keys = "another key"
    client.refresh(MODEL)
    assert client.status(MODEL)["models"][0]["epoch"] == 2
    devices.published.offer(Candidate("2.0", 100), epoch=1)
    with pytest.raises(DeliveryError, match="expected epoch 2, got 1"):
        client.refresh(MODEL)


def test_a_release_below_the_embedded_one_is_not_taken(devices: Devices) -> None:
    devices.published.publish("0.9", devices.content(2), "face_detector")
    devices.published.offer(Candidate("0.9", 100), model="face_detector")
    client = devices.client()
    client.refresh("face_detector")
    assert client.get("face_detector", "local").source == "embedded"
    assert devices.published.fetched == []


def test_the_version_of_the_wheel_is_the_file_of_the_wheel(devices: Devices) -> None:
    devices.published.publish("1.1", devices.content(2), "face_detector")
    devices.published.offer(Candidate("1.1", 100), model="face_detector")
    client = devices.client()
    client.refresh("face_detector")
    client.mark_ok(client.get("face_detector"))
    devices.published.offer(Candidate("1.0", 100), model="face_detector")
    client.refresh("face_detector")
    assert client.get("face_detector").source == "embedded"
    assert devices.published.fetched == ["face_detector-1.1.palm"]


def test_pinned_releases_stay(devices: Devices) -> None:
    released(devices, 2, 3)
    client = devices.client()
    client.pin(MODEL, "2.0")
    client.refresh(MODEL)
    client.mark_ok(client.get(MODEL))
    assert client.get(MODEL).version == "2.0"
    client.pin(MODEL, "embedded")
    assert client.get(MODEL).source == "embedded"
    client.unpin(MODEL)
    client.refresh(MODEL)
    assert client.get(MODEL).version == "3.0"
    client.pin(MODEL, "7.0")
    with pytest.raises(DeliveryError):
        client.refresh(MODEL)
    assert client.get(MODEL).version == "3.0"


def test_what_was_recalled_while_it_was_pinned_ends_with_the_pin(devices: Devices) -> None:
    released(devices, 2)
    client = devices.client()
    client.pin(MODEL, "2.0")
    devices.published.offer(Candidate("2.0", 100, recall=True))
    client.refresh(MODEL)
    assert client.get(MODEL, "local").version == "2.0"
    client.unpin(MODEL)
    assert client.get(MODEL, "local").source == "embedded"


def test_what_was_recalled_while_it_was_pinned_ends_when_another_is(devices: Devices) -> None:
    released(devices, 2, 3)
    client = devices.client()
    client.pin(MODEL, "2.0")
    devices.published.offer(Candidate("2.0", 100, recall=True), Candidate("3.0", 100))
    client.refresh(MODEL)
    client.pin(MODEL, "2.0")
    assert client.get(MODEL, "local").version == "2.0"
    client.pin(MODEL, "3.0")
    assert client.get(MODEL, "local").source == "embedded"
    client.refresh(MODEL)
    assert client.get(MODEL, "local").version == "3.0"


def test_a_rollback_by_the_user_lasts(devices: Devices) -> None:
    released(devices, 2)
    client = devices.client()
    client.refresh(MODEL)
    client.mark_ok(client.get(MODEL))
    assert client.rollback(MODEL).source == "embedded"
    client.refresh(MODEL)
    assert client.get(MODEL).source == "embedded"


def test_three_failed_releases_keep_new_ones_away_for_a_week(devices: Devices) -> None:
    client = devices.client(prove=lambda question: golden.Answer("nan", "not finite"))
    for each in (2, 3, 4):
        released(devices, each)
        with pytest.raises(DeliveryError):
            client.refresh(MODEL)
    well = devices.client()
    released(devices, 5)
    well.refresh(MODEL)
    assert state(well) == "EMBEDDED"
    devices.time.pass_(days=8)
    well.refresh(MODEL)
    assert state(well) == "STAGED"


def test_a_file_that_was_changed_on_disk_does_not_run(devices: Devices) -> None:
    released(devices, 2)
    client = devices.client()
    client.refresh(MODEL)
    client.mark_ok(client.get(MODEL))
    path = client.get(MODEL).path
    path.chmod(0o644)
    path.write_bytes(b"damaged")
    assert client.get(MODEL, "local").source == "embedded"
    client.refresh(MODEL)
    assert factor(client.get(MODEL, "local")) == 2


def test_collecting_leaves_what_may_run(devices: Devices) -> None:
    client = devices.client()
    for each in (2, 3, 4):
        released(devices, each)
        client.refresh(MODEL)
        client.mark_ok(client.get(MODEL))
    client.close()
    client = devices.client()
    client.collect()
    assert factor(client.get(MODEL, "local")) == 4
    assert len(list((devices.folder / "device/releases" / MODEL).glob("*/"))) == 2
    assert client.rollback(MODEL).version == "3.0"
    assert client.collect() == 0, "what this process ran may still be open"
    client.close()
    assert client.collect() > 0
    assert factor(client.get(MODEL, "local")) == 3


def test_what_is_damaged_of_the_state_is_begun_anew(devices: Devices) -> None:
    released(devices, 2)
    client = devices.client()
    client.refresh(MODEL)
    client.mark_ok(client.get(MODEL))
    client.close()
    database = devices.folder / "device/state.db"
    database.write_bytes(b"\x00\xff" * 5000)
    again = devices.client()
    release = again.get(MODEL, "local")
    assert (release.version, release.on_trial, factor(release)) == ("2.0", False, 2)
    assert database.with_name("state.db.damaged").exists()
    assert again.status(MODEL)["models"][0]["epoch"] == 1
    database.unlink()
    assert factor(devices.client().get(MODEL, "local")) == 2


def test_damage_while_it_is_open_is_noticed(devices: Devices) -> None:
    released(devices, 2)
    client = devices.client()
    client.refresh(MODEL)
    client.mark_ok(client.get(MODEL))
    database = devices.folder / "device/state.db"
    database.write_bytes(b"\x00\xff" * (database.stat().st_size // 2))
    assert client.get(MODEL, "local").version in ("2.0", "0")
    assert devices.client().get(MODEL, "local").version == "2.0"


def test_a_quarantined_release_does_not_come_back_with_a_lost_state(devices: Devices) -> None:
    released(devices, 2)
    client = devices.client()
    client.refresh(MODEL)
    client.mark_ok(client.get(MODEL))
    client.report_failure(client.get(MODEL), "nan")
    client.close()
    (devices.folder / "device/state.db").unlink()
    assert devices.client().get(MODEL, "local").source == "embedded"


def test_a_model_that_did_not_come_with_the_app(devices: Devices) -> None:
    devices.published.publish("1.0", devices.content(2), "cat_detector", golden_bytes(2))
    devices.published.offer(Candidate("1.0", 100), model="cat_detector")
    client = devices.client(prove=golden.check)
    assert factor(client.get("cat_detector", "latest")) == 2
    client.report_failure("cat_detector", "nan")
    with pytest.raises(DeliveryError, match="no such model here: cat_detector"):
        client.get("cat_detector", "local")


def test_what_fails_in_one_process_is_not_run_by_another(devices: Devices) -> None:
    released(devices, 2)
    one, other = devices.client(), devices.client()
    one.refresh(MODEL)
    assert one.get(MODEL, "local").version == other.get(MODEL, "local").version == "2.0"
    other.report_failure(MODEL, "nan")
    assert one.get(MODEL, "local").source == "embedded"
    one.mark_ok(MODEL)
    assert one.get(MODEL, "local").source == "embedded"


def test_what_is_offered_is_known_without_fetching_it(devices: Devices) -> None:
    published = devices.published
    for name, releases in (("cat", ("1.0", "1.1")), ("dog", ("2.0",)), ("eel", ("1.0",))):
        for release in releases:
            published.publish(release, devices.content(2), name)
        published.offer(Candidate(releases[-1], 100), model=name)
    published.offer(Candidate("1.0", 0), model="eel")
    # Of another model than it says, no policy at all, and one of a channel that is not followed.
    published.targets["rollout/fox.json"] = published.targets["rollout/dog.json"]
    published.targets["rollout/gnu.json"] = b"{}"
    published.offer(model="hen", channels={"beta": (Candidate("2.0", 100),)})
    client = devices.client()
    offered = client.offered()
    assert {name: each.release for name, each in offered.items()} == {"cat": "1.1", "dog": "2.0"}
    assert offered["dog"].main == "dog-2.0.palm"
    assert not published.fetched and not client.status()["models"]
    client.refresh("dog")
    assert client.get("dog").version == "2.0"
    assert set(client.offered()) == {"cat", "dog"}
    published.fault = DeliveryError("check_fail_dns", "no such host")
    with pytest.raises(DeliveryError, match="no such host"):
        client.offered()
