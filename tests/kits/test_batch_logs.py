"""What Ray logs while it runs a batch; Ray itself is not needed."""

import logging
import os
import sys

import pytest

from palmkit.kits import batch


def test_only_errors_of_ray_come_to_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_USAGE_STATS_ENABLED", raising=False)
    log = logging.getLogger("ray.made_up")
    log.propagate = False
    handler = logging.StreamHandler(sys.stderr)
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    other = logging.getLogger("raying")
    other.addHandler(logging.StreamHandler(sys.stderr))
    try:
        with batch._quiet():  # pyright: ignore[reportPrivateUsage]
            log.warning("news")
            log.error("trouble")
            other.warning("from somebody else")
            assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
        assert capsys.readouterr().err == "trouble\nfrom somebody else\n"
        log.info("again")
        assert capsys.readouterr().err == "again\n"
        assert "RAY_USAGE_STATS_ENABLED" not in os.environ
    finally:
        log.handlers.clear()
        other.handlers.clear()
