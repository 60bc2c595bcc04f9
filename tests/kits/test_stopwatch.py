import itertools
import statistics
import sys
import time

import numpy as np
import pytest

from palmkit.kits.stopwatch import Stopwatch, Times


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


@pytest.mark.parametrize("count", [1, 2, 7, 1000])
def test_the_median_of_frames_is_right_to_a_tenth_of_a_millisecond(count: int) -> None:
    took_ms = np.random.default_rng(count).gamma(4, 5, count).tolist()
    times = Times()
    for each_ms in took_ms:
        times.add(each_ms)
    assert len(times) == count
    assert times.median_ms() == pytest.approx(statistics.median(took_ms), abs=0.05)


def test_hours_of_frames_need_hardly_more_memory_than_minutes() -> None:
    times, random = Times(), np.random.default_rng(0)
    sizes: list[int] = []
    for _ in range(10):
        for each_ms in random.gamma(4, 5, 10_000).tolist():
            times.add(each_ms)
        sizes.append(sys.getsizeof(times._tenths))  # pyright: ignore[reportPrivateUsage]
    assert len(times) == 100_000
    assert sizes[-1] <= 2 * sizes[0] < 100_000
