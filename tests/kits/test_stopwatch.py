import itertools
import time

import pytest

from palmkit.kits.stopwatch import Stopwatch


def test_stages_add_up_and_the_rest_is_one_more(monkeypatch: pytest.MonkeyPatch) -> None:
    # Each look at the clock is a millisecond later.
    ticks = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: next(ticks) * 1e-3)
    watch = Stopwatch()
    for name in ("find", "draw", "find"):
        with watch.stage(name):
            pass
    with pytest.raises(KeyError), watch.stage("lost"):
        raise KeyError
    watch.rest("other")
    assert watch.stages_ms == pytest.approx({"find": 2, "draw": 1, "lost": 1, "other": 5})
    assert list(watch.stages_ms) == ["find", "draw", "lost", "other"]
