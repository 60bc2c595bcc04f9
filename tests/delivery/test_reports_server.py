"""Reports all the way: counted on a device, sent, and shown by the server."""

from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason='needs the extra "server"')
pytest.importorskip("starlette", reason='needs the extra "server"')

from palmkit.delivery import reports
from palmkit.delivery.repository import Repository
from palmkit.delivery.server.app import Server, Settings
from palmkit.delivery.server.database import connect, migrate
from tests.delivery.releases import make_repository
from tests.delivery.server.running import TOKEN, Running

DEVICES = 25


def test_what_devices_count_is_what_the_server_shows(tmp_path: Path) -> None:
    repository: Repository = make_repository(tmp_path, "doubler", "1.0.0")
    engine = connect(f"sqlite:///{tmp_path / 'server.db'}")
    migrate(engine)
    with Running(Server(engine, Settings(TOKEN), repository)) as server:
        for device in range(DEVICES):
            reports.enable(f"{server.url}/v1/reports", folder=tmp_path / str(device))
            reports.count("doubler", "1.0.0", "stable", "load_ok", 2)
            if device < 3:
                reports.count("doubler", "1.0.0", "stable", "load_fail", error=OSError("secret"))
            reports.observe("doubler", "1.0.0", "stable", "infer_ms", 1.5)
            assert reports.flush(20)
            reports.count("doubler", "1.0.0", "stable", "check_ok")
            assert reports.flush(20)
        reports.disable()
        state = server.state()
    engine.dispose()
    assert [(one["devices"], one["reports"]) for one in state["fleet"]] == [(25, 50)]
    [group] = state["models"][0]["groups"]
    assert (group["devices"], group["loads"], group["failures"]) == (25, 53, 3)
    assert group["codes"] == {"load_ok": 50, "load_fail": 3, "check_ok": 25}
    assert group["histograms"]["infer_ms"] == [0] * 10 + [25] + [0] * 21
    assert "secret" not in str(state)
