import logging
import time
from collections.abc import Iterator

import pytest

from palmkit.delivery.server.limited_log import LimitedLog


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    log = logging.Logger("of this test")
    handler = LimitedLog(period_s=0.8, most_lines=10, most_of_a_kind=3)
    log.addHandler(handler)
    yield log
    handler.close()


def test_so_many_of_a_kind(log: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(100):
        log.error("reports not stored: %d", number)
    log.error("something else")
    until = time.monotonic() + 5
    told: list[str] = []
    # Said without another line that would wake it.
    while "97 more lines were dropped in the last 0.8 s" not in told:
        assert time.monotonic() < until
        told += capsys.readouterr().err.splitlines()
        time.sleep(0.01)
    assert told[:4] == [*(f"reports not stored: {number}" for number in range(3)), "something else"]
    log.error("reports not stored: again")
    assert capsys.readouterr().err == "reports not stored: again\n"


def test_so_many_in_all(log: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(50):
        record = log.makeRecord("x", logging.ERROR, "file.py", number, f"kind {number}", (), None)
        log.handle(record)
    log.handlers[0].close()
    told = capsys.readouterr().err.splitlines()
    assert told == [
        *(f"kind {number}" for number in range(10)),
        "40 more lines were dropped in the last 0.8 s",
    ]


def test_a_line_has_an_end(log: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    log.error("begin %s end", "x" * 100_000)
    told = capsys.readouterr().err
    assert len(told) < 9000
    assert told.startswith("begin x") and told.endswith("x end\n")
    assert "... 91818 characters ..." in told


def test_a_log_that_cannot_be_written_stops_nobody(
    log: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        def write(self, _text: str) -> None:
            raise OSError(28, "no space left on device")

    monkeypatch.setattr("sys.stderr", Full())
    log.error("lost")
