"""Who takes part in a rollout, and what is counted of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from palmkit.delivery.policy import Candidate
from palmkit.engine.errors import DeliveryError
from tests.delivery.devices import MODEL, Devices


@pytest.fixture
def devices(tmp_path: Path) -> Devices:
    return Devices(tmp_path)


def released(devices: Devices, factor: float) -> None:
    """A release that is offered to all."""
    devices.published.publish(f"{factor:g}.0", devices.content(factor))
    devices.published.offer(Candidate(f"{factor:g}.0", 100))


def test_what_happens_is_counted(devices: Devices, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[str] = []

    def count(
        model: str,
        release: str,
        arm: str,
        code: str,
        n: int = 1,
        *,
        previous: str = "",
        error: object,
    ) -> None:
        counted.append(f"{release} {arm} {code} {previous}".strip())

    monkeypatch.setattr("palmkit.delivery.reports.count", count)
    client = devices.client()
    released(devices, 2)
    client.refresh(MODEL)
    client.mark_ok(client.get(MODEL))
    assert counted == ["0 embedded check_ok", "2.0 candidate download_ok"]
    counted.clear()
    released(devices, 3)
    client.refresh(MODEL)
    client.report_failure(client.get(MODEL), "nan")
    assert counted == [
        "2.0 stable check_ok",
        "3.0 candidate download_ok",
        "3.0 stable nan 2.0",
        "3.0 stable quarantined 2.0",
        "3.0 stable rollback 2.0",
    ]
    counted.clear()
    devices.published.offer(Candidate("2.0", 100, recall=True))
    client.refresh(MODEL)
    devices.published.fault = DeliveryError("expired", "timestamp")
    with pytest.raises(DeliveryError):
        client.refresh(MODEL)
    assert counted == [
        "2.0 stable check_ok",
        "2.0 stable recall 0",
        "0 embedded expired",
        "0 embedded stale",
    ]


def test_a_share_of_the_devices_takes_part(devices: Devices) -> None:
    """One in four is a candidate, as many are the control arm."""
    devices.published.publish("2.0", devices.content(2))
    devices.published.offer(Candidate("2.0", 25, salt="a"))
    arms: list[str] = []
    for number in range(60):
        client = devices.client(f"device{number}")
        client.refresh(MODEL)
        release = client.get(MODEL, "local")
        assert (release.arm == "candidate") == (release.version == "2.0")
        arms.append(release.arm)
    # Beyond these a binomial share of 60 lies once in 100,000 runs.
    assert 3 <= arms.count("candidate") <= 30 and 3 <= arms.count("control") <= 30
    assert set(arms) <= {"candidate", "control", "embedded"}
