"""A server whose static part lies in a bucket: it signs there, and serves none of it."""

from pathlib import Path

import pytest

pytest.importorskip("boto3", reason="needs boto3")

from palmkit.delivery.repository import Repository
from palmkit.delivery.server.rollouts import Gates
from palmkit.delivery.server.start import Place, prepare, public_of
from tests.delivery.releases import QUICK, write_model
from tests.delivery.s3_server import serve_bucket
from tests.delivery.server.fleet_reports import make_report
from tests.delivery.server.running import Running


def test_a_repository_in_a_bucket_is_signed_and_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    place = Place(tmp_path / "server")
    with serve_bucket() as bucket:
        made = Repository.create(place.repository, public=bucket.url)
        made.publish("doubler", "1.0.0", [write_model(tmp_path / "model.palm")], QUICK)
        server, engine, repository = prepare(place, Gates())
        assert repository is not None and public_of(repository) is None
        token = {"authorization": f"Bearer {place.token.read_text().strip()}"}
        with Running(server) as client:
            content = {"model": "doubler", "channel": "stable", "release": "1.0.0", "percent": 5}
            done = client.post("/v1/admin/promote", json=content, headers=token)
            assert done.status_code == 200, done.text
            report = make_report(("1.0.0", "candidate", {"load_ok": 1}))
            assert client.post("/v1/reports", data=report.dump()).status_code == 202
            state = client.get("/v1/admin/state", headers=token).json()
            assert state["models"][0]["rollouts"][0]["candidate"]["loads"] == 1
            assert client.get("/metadata/timestamp.json").status_code == 404
            assert client.get("/healthz").status_code == 200
        engine.dispose()
        assert place.root.read_bytes() == made.root()
        assert made.policy("doubler").channels["stable"][0].percent == 5
        assert any("rollout/" in name for name in bucket.files)
