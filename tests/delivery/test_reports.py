"""Reports as an app uses them: off, on, previewed, sent, never in the way."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit.delivery import reports
from palmkit.delivery.reports import recorder, schema
from palmkit.delivery.reports.recorder import fingerprint, memory_class
from palmkit.delivery.update import Pace
from palmkit.engine import load
from palmkit.engine.errors import ModelError
from tests.delivery.report_server import ReportServer, report_server

GROUP = ("face_detector", "1.1.0", "candidate")


@pytest.fixture(autouse=True)
def off(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("PALMKIT_REPORTS", raising=False)
    monkeypatch.delenv("DO_NOT_TRACK", raising=False)
    monkeypatch.setattr(reports, "_shares", dict[str, float]())
    yield
    reports.disable()


@pytest.fixture
def server() -> Iterator[ReportServer]:
    with report_server() as state:
        yield state


def contents(folder: Path) -> list[dict[str, Any]]:
    """What would be sent of a folder."""
    reports.enable(None, folder=folder)
    return [post.report for post in reports.preview()]


def test_off_until_enabled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    threads = threading.active_count()
    reports.count(*GROUP, "load_ok")
    reports.observe(*GROUP, "infer_ms", 1.0)
    reports.sampling("face_detector", 0.5)
    assert reports.preview() == []
    assert not reports.flush()
    assert list(tmp_path.iterdir()) == []
    assert threading.active_count() == threads


def test_preview_shows_the_very_bytes_that_are_sent(
    tmp_path: Path, server: ReportServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret")
    monkeypatch.setenv("NETRC", str(netrc))
    assert reports.enable(server.url, folder=tmp_path)
    reports.count(*GROUP, "load_ok", 3, previous="1.0.0")
    reports.count("face_mesh", "1.0.0", "embedded", "check_fail_dns")
    for value in (0.0, 1.0, 1.9, 2.0, 1e9):
        reports.observe(*GROUP, "infer_ms", value)
    [post] = reports.preview()
    assert reports.preview() == [post], "a report that was shown stays as it is"
    assert reports.flush(10)
    assert server.bodies == [post.body]
    assert post.url == server.url
    sent = server.headers[0]
    assert {name: sent.pop(name) for name in post.headers} == dict(post.headers)
    assert set(sent) == {"Host", "Content-Length"}
    report = post.report
    assert [(r["code"], r["previous"], r["n"]) for r in report["rows"]] == [
        ("load_ok", "1.0.0", 3),
        ("check_fail_dns", "", 1),
    ]
    [histogram] = report["histograms"]
    assert {i: n for i, n in enumerate(histogram["counts"]) if n} == {0: 1, 10: 2, 11: 1, 31: 1}
    assert report["since_last"] == "first"
    assert schema.parse(schema.parse(gzipped(post)).dump()).dump() == gzipped(post)
    assert reports.flush(10)
    assert len(server.bodies) == 1, "nothing is sent when nothing happened"


def gzipped(post: recorder.Post) -> bytes:
    import gzip

    return gzip.decompress(post.body)


def test_a_report_names_nothing_but_what_the_schema_says(tmp_path: Path) -> None:
    secret = tmp_path / "secret-of-the-user.palm"
    secret.write_bytes(b"no model")
    reports.enable(None, folder=tmp_path / "data")
    with pytest.raises(ModelError) as failure:
        load(secret)
    reports.count(*GROUP, "load_fail", error=failure.value)
    [post] = reports.preview()
    text = gzipped(post).decode()
    assert set(post.report) == {
        *("schema", "report_id", "day", "sdk", "os", "arch", "memory_class", "accelerator"),
        *("since_last", "rows", "histograms", "dropped"),
    }
    [row] = post.report["rows"]
    assert set(row) == {"model", "release", "previous", "arm", "code", "n", "error"}
    assert re.fullmatch("[0-9a-f]{16}", row["error"])
    for private in ("secret", "user", str(Path.home()), os.uname().nodename, "palm_model"):
        assert private not in text.replace("palmkit", "")


def test_the_fingerprint_is_of_our_frames_only() -> None:
    def fail(text: str) -> BaseException:
        try:
            load(text)
        except Exception as error:
            return error
        raise AssertionError

    def deeper(text: str) -> BaseException:
        return fail(text)

    one, other = fail("/no/such/a.palm"), deeper("/no/such/other.palm")
    assert str(one) != str(other)
    assert fingerprint(one) == fingerprint(other)
    try:
        load(b"")  # type: ignore[arg-type]
    except Exception as third:
        assert fingerprint(third) != fingerprint(one)


@pytest.mark.parametrize(
    ("name", "value", "on"),
    [
        ("PALMKIT_REPORTS", "off", False),
        ("PALMKIT_REPORTS", "0", False),
        ("PALMKIT_REPORTS", " No ", False),
        ("DO_NOT_TRACK", "1", False),
        ("DO_NOT_TRACK", "0", True),
        ("PALMKIT_REPORTS", "on", True),
    ],
)
def test_the_environment_has_the_last_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, on: bool
) -> None:
    monkeypatch.setenv(name, value)
    assert reports.enable(None, folder=tmp_path) is on
    reports.count(*GROUP, "load_ok")
    assert len(reports.preview()) == on


def test_a_policy_of_before_counts(tmp_path: Path) -> None:
    reports.sampling("face_detector", 0.0)
    reports.enable(None, folder=tmp_path)
    reports.count(*GROUP, "load_ok")
    assert reports.preview() == []


def test_disable_throws_away_what_waits(tmp_path: Path, server: ReportServer) -> None:
    reports.enable(server.url, folder=tmp_path)
    reports.count(*GROUP, "load_ok")
    reports.preview()
    reports.count(*GROUP, "load_ok")
    reports.disable()
    assert contents(tmp_path) == []
    assert server.bodies == []


def test_what_is_not_sent_waits_for_the_next_process(tmp_path: Path) -> None:
    script = """
import sys
from palmkit.delivery import reports
reports.enable("http://127.0.0.1:9/", folder=sys.argv[1])
for _ in range(1000):
    reports.count("face_detector", "1.1.0", "stable", "load_ok")
    reports.observe("face_detector", "1.1.0", "stable", "infer_ms", 3.0)
"""
    children = [
        subprocess.Popen([sys.executable, "-W", "error", "-c", script, tmp_path]) for _ in range(4)
    ]
    assert [child.wait(60) for child in children] == [0] * 4
    [report] = contents(tmp_path)
    assert [row["n"] for row in report["rows"]] == [4000]
    assert sum(report["histograms"][0]["counts"]) == 4000


def test_exit_takes_two_seconds_at_most(tmp_path: Path, server: ReportServer) -> None:
    script = """
import sys, time
from palmkit.delivery import reports
reports.enable(sys.argv[2], folder=sys.argv[1], interval_s=1)
reports.count("face_detector", "1.1.0", "stable", "load_ok")
reports.flush(0.2)
print(time.time(), flush=True)
"""
    server.hang = True
    command = [sys.executable, "-c", script, str(tmp_path), server.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    took_s = time.time() - float(done.stdout)
    assert done.stderr == ""
    assert took_s < 2.0 + 1.5, "two seconds, and the time that Python itself takes to end"
    assert len(server.bodies) == 1


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_child_counts_only_its_own(tmp_path: Path) -> None:
    reports.enable(None, folder=tmp_path)
    children: list[int] = []
    for _ in range(10):
        # The reports' thread is at the file while the process forks.
        reports.count(*GROUP, "load_ok", 5)
        writer = threading.Thread(target=reports.preview)
        writer.start()
        children.append(child := os.fork())
        if not child:
            reports.count(*GROUP, "load_ok", 2)
            os._exit(0 if reports.preview() else 1)
        writer.join()
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 10
    assert sum(r["n"] for one in contents(tmp_path) for r in one["rows"]) == 70


def test_counting_within_counting_does_not_hang(tmp_path: Path) -> None:
    reports.enable(None, folder=tmp_path)

    def handler(*_: object) -> None:
        reports.count(*GROUP, "load_ok")

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.0002)
    try:
        for _ in range(20000):
            reports.count(*GROUP, "load_fail")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    [report] = contents(tmp_path)
    assert {row["code"]: row["n"] for row in report["rows"]}["load_fail"] == 20000


def test_nothing_wrong_raises_and_all_of_it_is_counted(tmp_path: Path) -> None:
    reports.enable(None, folder=tmp_path)
    wrong: Any = object()
    reports.count(wrong, "1.0.0", "stable", "load_ok")
    reports.count("face", "1.0.0", "stable", "load_ok", wrong)
    reports.count("face", "1.0.0", "stable", "load_ok", 0)
    reports.count("face", "1.0.0", "stable", "no such code")
    reports.count("face", "1.0.0", "no such arm", "load_ok")
    reports.count("Face/../etc", "1.0.0", "stable", "load_ok")
    reports.count("face", "1.0.0", "stable", "load_ok", error=wrong)
    reports.count([], {}, wrong, wrong)  # type: ignore[arg-type]
    reports.observe("face", "1.0.0", "stable", "infer_ms", float("nan"))
    reports.observe("face", "1.0.0", "stable", "infer_ms", -1)
    reports.observe("face", "1.0.0", "stable", "no such name", 1)
    reports.observe("face", "1.0.0", "stable", "infer_ms", wrong)
    reports.count(*GROUP, "load_ok")
    [report] = contents(tmp_path)
    assert [row["code"] for row in report["rows"]] == ["load_ok"]
    assert report["dropped"] == {"invalid": 12}


def test_a_folder_that_cannot_be_written_is_no_trouble(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("not a folder")
    assert reports.enable(None, folder=file)
    reports.count(*GROUP, "load_ok")
    assert reports.preview() == []
    reports.disable()


def test_a_disk_that_takes_nothing_more_is_no_trouble(tmp_path: Path) -> None:
    script = """
import resource, signal, sys
from palmkit.delivery import reports
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
assert reports.enable(None, folder=sys.argv[1])
reports.count("face_detector", "1.1.0", "stable", "load_ok", 3)
assert reports.preview() == []
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
reports.count("face_detector", "1.1.0", "stable", "load_ok", 4)
[post] = reports.preview()
assert [row["n"] for row in post.report["rows"]] == [7], "what could not be written was kept"
"""
    command = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_memory_is_bounded_whatever_is_counted(tmp_path: Path) -> None:
    reports.enable(None, folder=tmp_path)
    for number in range(recorder.MOST_KEYS + 500):
        reports.count(f"model_{number}", "1.0.0", "stable", "load_ok")
    posts = reports.preview()
    assert sum(len(post.report["rows"]) for post in posts) == recorder.MOST_KEYS
    assert [post.report["dropped"] for post in posts if post.report["dropped"]] == [{"space": 500}]
    assert all(len(gzipped(post)) <= schema.MOST_BYTES for post in posts)


def test_bad_arguments_are_said_at_once(tmp_path: Path) -> None:
    for url in ("file:///etc/passwd", "models.example.com", "http://"):
        with pytest.raises(ValueError, match="url: expected"):
            reports.enable(url, folder=tmp_path)
    with pytest.raises(ValueError, match="interval_s"):
        reports.enable(None, folder=tmp_path, interval_s=0)


class Model:
    """A model as kits see one."""

    metadata: dict[str, str] = {"threshold": "0.5"}

    def run(self, inputs: Any) -> Any:
        if "fail" in inputs:
            raise ModelError("no")
        return inputs


def test_watched_models_are_timed(tmp_path: Path) -> None:
    model = Model()
    assert reports.watch(model, *GROUP) is model, "nothing stands between while reports are off"
    reports.enable(None, folder=tmp_path)
    watched = reports.watch(model, *GROUP)
    assert watched.run({"a": 1}) == {"a": 1}
    assert watched.metadata is model.metadata
    with pytest.raises(ModelError):
        watched.run({"fail": 1})
    [report] = contents(tmp_path)
    assert [h["name"] for h in report["histograms"]] == ["infer_ms"]
    assert sum(report["histograms"][0]["counts"]) == 1


def test_kits_count_what_they_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from palmkit.kits import FaceDetector

    monkeypatch.setattr("palmkit.kits.delivered._counted", set[object]())

    picture = np.zeros((64, 64, 3), np.uint8)
    with FaceDetector() as unwatched:
        reports.enable(None, folder=tmp_path)
        unwatched.detect(picture)
        assert reports.preview() == [], "a kit that was open before is left alone"
    with FaceDetector(size=320, quality="fast") as kit:
        kit.detect(picture)
        kit.detect(picture)
    [report] = contents(tmp_path)
    assert [(r["model"], r["arm"], r["code"]) for r in report["rows"]] == [
        ("face_detector", "embedded", "load_ok")
    ]
    assert {h["name"]: sum(h["counts"]) for h in report["histograms"]} == {
        "infer_ms": 2,
        "load_ms": 1,
    }


def test_the_pace_of_a_download() -> None:
    pace = Pace()
    pace.see(1000, 5.0)
    assert pace.kbps is None
    pace.see(2000, 6.0)
    pace.see(251_000, 7.0)
    assert pace.kbps == 1000
    pace.see(500, 8.0)
    assert pace.kbps is None, "it began anew"


def test_memory_classes_are_those_of_the_schema() -> None:
    sizes = {500: "<1", 1000: "1-2", 1900: "2-4", 3800: "4-8", 7100: "4-8", 7700: "8-16"}
    sizes |= {15900: "16-32", 29000: "16-32", 31900: "32+"}
    assert {mb: memory_class(mb) for mb in sizes} == sizes
    assert set(sizes.values()) < set(schema.MEMORY_CLASSES)
