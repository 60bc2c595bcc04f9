import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests
from sqlalchemy import Engine

from palmkit.delivery.repository import Repository
from palmkit.delivery.server.app import Server, Settings
from palmkit.delivery.server.database import writing
from palmkit.delivery.server.rollouts import Gates
from palmkit.delivery.server.tables import rollouts
from tests.delivery.releases import make_repository
from tests.delivery.server.fleet_reports import make_report, packed, today
from tests.delivery.server.running import AUTHORIZED, TOKEN, Running


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return make_repository(tmp_path, "doubler", "1.0.0", "1.1.0")


@pytest.fixture
def client(database: Engine, repository: Repository) -> Iterator[Running]:
    settings = Settings(TOKEN, Gates(wait_s=3600, reports=3))
    with Running(Server(database, settings, repository, repository.public)) as client:
        yield client


def act(client: Running, action: str, **content: Any) -> requests.Response:
    body = {"model": "doubler", "channel": "stable"} | content
    return client.post(f"/v1/admin/{action}", json=body, headers=AUTHORIZED)


def test_nothing_without_the_token(client: Running) -> None:
    for headers in (
        {},
        {"authorization": "Bearer "},
        {"authorization": f"Bearer {TOKEN}x"},
        {"authorization": TOKEN},
        {"authorization": f"Basic {TOKEN}"},
        {"cookie": f"token={TOKEN}"},
    ):
        for method, path in (("GET", "state"), ("POST", "halt"), ("POST", "other")):
            answer = client.request(method, f"/v1/admin/{path}", headers=headers)
            assert answer.status_code == 401, headers
            assert answer.headers["www-authenticate"] == "Bearer"
            assert answer.json() == {"error": "expected the admin token"}


def test_from_promote_to_rollback(client: Running, repository: Repository) -> None:
    assert act(client, "promote", release="1.0.0", percent=100).status_code == 200
    promoted = act(client, "promote", release="1.1.0", percent=5)
    policy = repository.policy("doubler")
    assert promoted.json() == {"epoch": policy.epoch}
    assert [(c.release, c.percent) for c in policy.channels["stable"]] == [
        ("1.1.0", 5),
        ("1.0.0", 100),
    ]
    assert act(client, "halt", release="1.1.0", reason="odd masks").status_code == 200
    assert repository.policy("doubler").channels["stable"][0].halt
    assert act(client, "recall", release="1.1.0").status_code == 200
    assert repository.policy("doubler").channels["stable"][0].recall
    assert act(client, "promote", release="1.1.0", percent=5).status_code == 200
    assert act(client, "rollback").status_code == 200
    assert repository.policy("doubler").channels["stable"][0].recall
    (model,) = client.state()["models"]
    assert [(e["by"], e["action"], e["release"], e["reason"]) for e in model["events"]] == [
        ("person", "rollback", "", ""),
        ("person", "promote", "1.1.0", ""),
        ("person", "recall", "1.1.0", ""),
        ("person", "halt", "1.1.0", "odd masks"),
        ("person", "promote", "1.1.0", ""),
        ("person", "promote", "1.0.0", ""),
    ]


def test_the_first_release_is_taken_back_by_a_recall(
    client: Running, repository: Repository
) -> None:
    assert act(client, "promote", release="1.0.0", percent=100, force=True).status_code == 200
    (model,) = client.state()["models"]
    assert model["usable"] == {"stable": ["1.0.0"], "beta": [], "canary": []}
    refused = act(client, "rollback")
    assert refused.status_code == 404
    assert "recall 1.0.0, and devices go back to what they had before" in refused.json()["error"]
    assert act(client, "recall", release="1.0.0").status_code == 200
    (candidate,) = repository.policy("doubler").channels["stable"]
    assert candidate.recall and candidate.percent == 100
    assert client.state()["models"][0]["usable"]["stable"] == []


def test_two_people_at_once(client: Running, repository: Repository) -> None:
    seen = repository.policy("doubler").epoch
    assert act(client, "promote", release="1.0.0", percent=1, epoch=seen).status_code == 200
    late = act(client, "promote", release="1.1.0", percent=1, epoch=seen)
    assert late.status_code == 409
    assert late.json()["epoch"] == seen + 1
    assert [c.release for c in repository.policy("doubler").channels["stable"]] == ["1.0.0"]


def test_many_changes_at_once_wait_for_each_other(client: Running, repository: Repository) -> None:
    assert act(client, "promote", release="1.0.0", percent=100).status_code == 200
    begun = repository.policy("doubler").epoch

    def halt(_: int) -> requests.Response:
        return act(client, "halt", release="1.0.0")

    with ThreadPoolExecutor(24) as threads:
        answers = list(threads.map(halt, range(24)))
    assert {answer.status_code for answer in answers} == {200}
    assert {answer.json()["epoch"] for answer in answers} == set(range(begun + 1, begun + 25))


def test_steps_of_a_rollout(client: Running, database: Engine, repository: Repository) -> None:
    assert act(client, "promote", release="1.0.0", percent=100).status_code == 200
    far = act(client, "promote", release="1.1.0", percent=50)
    assert (far.status_code, far.json()["error"]) == (409, "expected at most 5 % to begin with")
    assert act(client, "promote", release="1.1.0", percent=1).status_code == 200
    early = act(client, "promote", release="1.1.0", percent=5)
    assert early.status_code == 409
    assert early.json()["gate"] | {"opens": ""} == {
        "open": False,
        "opens": "",
        "reports": 0,
        "needs_reports": 3,
    }
    for _ in range(3):
        report = make_report(("1.1.0", "candidate", {"load_ok": 1}))
        assert client.post("/v1/reports", data=report.dump()).status_code == 202
    with writing(database) as connection:
        connection.execute(rollouts.update().values(step_began=time.time() - 3601))
    assert client.state()["models"][0]["rollouts"][0]["gate"]["open"]
    skip = act(client, "promote", release="1.1.0", percent=50)
    assert (skip.status_code, skip.json()["error"]) == (
        409,
        "expected at most 5 % as the next step",
    )
    assert act(client, "promote", release="1.1.0", percent=5).status_code == 200
    assert act(client, "promote", release="1.1.0", percent=100).status_code == 409
    assert act(client, "promote", release="1.1.0", percent=100, force=True).status_code == 200
    assert repository.policy("doubler").channels["stable"][0].percent == 100
    # Fewer is always allowed, and so is anything on the other channels.
    assert act(client, "promote", release="1.1.0", percent=20).status_code == 200
    beta = act(client, "promote", release="1.1.0", channel="beta", percent=100)
    assert beta.status_code == 200


IMPOSSIBLE: list[tuple[str, dict[str, Any], int]] = [
    ("promote", {"release": "9.9.9", "percent": 1}, 404),
    ("promote", {"model": "absent", "release": "1.0.0", "percent": 1}, 404),
    ("halt", {"release": "1.0.0"}, 404),
    ("rollback", {}, 404),
    ("delete", {"release": "1.0.0"}, 404),
    ("promote", {"release": "1.0.0"}, 400),
    ("promote", {"release": "1.0.0", "percent": 101}, 400),
    ("promote", {"release": "1.0.0", "percent": True}, 400),
    ("promote", {"release": "../../keys", "percent": 1}, 400),
    ("promote", {"release": "1.0.0", "percent": 1, "force": "yes"}, 400),
    ("halt", {"model": "../doubler", "release": "1.0.0"}, 400),
    ("halt", {"release": "1.0.0", "reason": "x" * 501}, 400),
    ("halt", {"release": 5}, 400),
]


def test_what_cannot_be_done_changes_nothing(client: Running, repository: Repository) -> None:
    before = repository.policy("doubler")
    for action, content, status in IMPOSSIBLE:
        answer = act(client, action, **content)
        assert answer.status_code == status, (action, content)
        assert isinstance(answer.json()["error"], str)
    assert repository.policy("doubler") == before


def test_bodies_that_are_no_request(client: Running) -> None:
    for body, status in ((b"", 400), (b"[]", 400), (b"[" * 10_000, 400), (b" " * 20_000, 413)):
        answer = client.post("/v1/admin/halt", data=body, headers=AUTHORIZED)
        assert answer.status_code == status and isinstance(answer.json()["error"], str)
    for days in ("0", "-1", "x", "401", "9" * 5000):
        answer = client.get(f"/v1/admin/state?days={days}", headers=AUTHORIZED)
        assert answer.status_code == 400


def test_the_state_says_what_was_reported(client: Running) -> None:
    act(client, "promote", release="1.0.0", percent=100)
    act(client, "promote", release="1.1.0", percent=5)
    groups = [("1.1.0", "candidate", {"load_ok": 2}), ("1.0.0", "stable", {"load_ok": 1})]
    for number in range(25):
        # The last five run 1.0.0 and are too few to be shown.
        report = make_report(groups[number >= 20], since_last="0" if number == 0 else "1")
        client.post("/v1/reports", data=packed(report), headers={"content-encoding": "gzip"})
    failing = make_report(("1.1.0", "candidate", {"load_fail": 3}))
    client.post("/v1/reports", data=failing.dump())
    state = client.state()
    json.dumps(state, allow_nan=False)
    assert state["fleet"] == [{"day": today(), "devices": 25, "reports": 26}]
    assert [(p["os"], p["reports"]) for p in state["platforms"]] == [("linux", 26)]
    assert state["repository"]["timestamp_expires"] > state["now"]
    (model,) = state["models"]
    assert [each["release"] for each in model["releases"]] == ["1.1.0", "1.0.0"]
    assert model["releases"][0]["size"] > 0 and not model["releases"][0]["revoked"]
    shown, hidden = model["groups"]
    assert hidden == {"release": "1.0.0", "arm": "stable", "hidden": True} or shown == {
        "release": "1.0.0",
        "arm": "stable",
        "hidden": True,
    }
    candidate = next(each for each in model["groups"] if not each["hidden"])
    assert (candidate["release"], candidate["arm"]) == ("1.1.0", "candidate")
    assert (candidate["devices"], candidate["loads"], candidate["failures"]) == (20, 43, 3)
    assert candidate["low"] < candidate["rate"] == 3 / 43 < candidate["high"]
    assert candidate["codes"] == {"load_ok": 40, "load_fail": 3}
    rollout = model["rollouts"][0]
    assert (rollout["release"], rollout["verdict"], rollout["next_percent"]) == (
        "1.1.0",
        "wait",
        20,
    )
    assert rollout["candidate"]["loads"] == 43
    assert {tuple(d) for d in ([e["day"], e["hidden"]] for e in model["daily"])} == {
        (today(), True),
        (today(), False),
    }


def test_small_groups_are_nowhere(client: Running) -> None:
    for _ in range(19):
        body = make_report(("1.0.0", "stable", {"load_ok": 1})).dump()
        assert client.post("/v1/reports", data=body).status_code == 202
    state = client.state()
    assert state["fleet"] == [{"day": today(), "devices": None, "reports": 19}]
    assert {kind["os"] for kind in state["platforms"]} == {"other"}
    (model,) = state["models"]
    assert model["groups"] == [{"release": "1.0.0", "arm": "stable", "hidden": True}]
    assert all(each["hidden"] and "loads" not in each for each in model["daily"])


def test_a_replica_without_repository_shows_and_changes_nothing(database: Engine) -> None:
    with Running(Server(database, Settings(TOKEN))) as client:
        assert client.state()["models"] == []
        answer = act(client, "halt", release="1.0.0")
        assert answer.status_code == 503
        assert client.get("/metadata/timestamp.json").status_code == 404
        assert client.get("/healthz").status_code == 200


def test_metrics_show_rollouts(database: Engine, repository: Repository) -> None:
    repository.promote("doubler", "1.0.0", percent=5)
    with Running(Server(database, Settings(TOKEN, watch_s=0.1), repository)) as client:
        until = time.monotonic() + 10
        line = 'palmkit_rollout_percent{channel="stable",model="doubler",release="1.0.0"} 5.0'
        while line not in client.get("/metrics").text:
            assert time.monotonic() < until
            time.sleep(0.05)
        text = client.get("/metrics").text
        assert 'palmkit_metadata_expires_timestamp_seconds{role="timestamp"}' in text
        assert "palmkit_job_failures_total{" not in text


def test_nobody_is_sent_to_the_host_that_a_request_names(client: Running) -> None:
    lies = {"host": "evil.example", "x-forwarded-host": "evil.example", "x-forwarded-proto": "ftp"}
    front = client.get("/admin", headers=lies, allow_redirects=False)
    assert (front.status_code, front.headers["location"]) == (307, "admin/")
    assert client.get("/admin").url == f"{client.url}/admin/"
    for path in (
        "/healthz/",
        "/metrics/",
        "//evil.example/",
        "/v1/admin/state/",
        "/metadata/timestamp.json/",
    ):
        answer = client.get(path, headers=lies, allow_redirects=False)
        assert answer.status_code in (401, 404), path
        assert "evil" not in str(answer.headers) + answer.text


@pytest.mark.parametrize(
    "path", ["/admin/.", "/admin/x/..", "/admin/%2e", "/admin/./.", "/admin/.."]
)
def test_other_names_of_the_pages_folder_are_nothing(client: Running, path: str) -> None:
    """Sent as they are: what a browser or a library would make of them is not."""
    with socket.create_connection(("127.0.0.1", client.port), timeout=10) as connection:
        lie = b"Host: evil.example\r\nConnection: close\r\n\r\n"
        connection.sendall(f"GET {path} HTTP/1.1\r\n".encode() + lie)
        answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    assert answer.startswith(b"HTTP/1.1 404 ") and b"evil" not in answer


def test_the_page_may_load_nothing_from_elsewhere(client: Running) -> None:
    front = client.get("/", allow_redirects=False)
    assert front.headers["location"] == "admin/"
