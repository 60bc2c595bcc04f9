"""The application that runs for long: a looped clip, all pages in turn, memory as it was.

A short form in `make test-app`; `make soak-app` sets SOAK_MINUTES=10.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit.engine.bench.measurement import memory_in_use
from palmkit.kits.video import VideoWriter
from tests.demos.driving import NEEDS_MODELS, OpenWindow, Said, Wait, find

pytestmark = NEEDS_MODELS
SECONDS = 60 * float(os.environ.get("SOAK_MINUTES", "0.15"))
LIVE = ("face", "portrait", "gesture", "try_on")
WARM_UP_TURNS = 2
# Of all turns after those: what the allocator keeps at hand comes and goes, at first more of it. A
# frame kept of every ten would be more within seconds.
MOST_GROWTH_BYTES = 12_000_000 if SECONDS >= 300 else 30_000_000
FRAMES = 90


def make_clip(path: Path) -> Path:
    """Three seconds of a face that wanders, with a drawn hand."""
    from palmkit.demos.app.sample import sample_frames
    from tests.kits.drawn_hands import scene

    hand = scene([(110, 130, "open_palm", "right")], 240, 220)
    with VideoWriter(path, 30) as writer:
        for number, (frame, _) in zip(range(FRAMES), sample_frames("portrait"), strict=False):
            moved = np.roll(frame, round(60 * np.sin(number / FRAMES * 2 * np.pi)), axis=1)
            moved[-240:, :220] = hand
            writer.write(np.ascontiguousarray(moved))
    return path


@pytest.mark.skipif(
    "SOAK_MINUTES" not in os.environ and os.environ.get("APP_TESTS") != "all",
    reason="make test-app or make soak-app runs it",
)
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_memory_stays_the_same(open_window: OpenWindow, wait: Wait, tmp_path: Path) -> None:
    from PySide6.QtWidgets import QPushButton

    clip = make_clip(tmp_path / "clip.mp4")
    window = open_window("--page", "face", "--source", str(clip))
    said = Said(window.context)
    feed: Any = window.pages["feed"]
    shown: dict[str, int] = dict.fromkeys(LIVE, 0)

    def count(each: Any) -> None:
        shown[each.page.name] += 1

    window.live.shown.connect(count)
    began = time.monotonic()
    stay_s = max(0.4, min(5.0, SECONDS / 60))
    memory: list[int] = []
    turns = 0

    def stay(seconds: float) -> None:
        until = time.monotonic() + seconds
        wait(lambda: time.monotonic() > until, limit_s=seconds + 120)

    while turns < WARM_UP_TURNS + 3 or time.monotonic() - began < SECONDS:
        for name in LIVE:
            window.select(name)
            before = shown[name]
            stay(stay_s)
            wait(lambda: shown[name] > before, f"a frame of {name}", limit_s=180)  # noqa: B023
        window.live.compare_button.click()
        stay(stay_s / 4)
        window.live.compare_button.click()
        window.select("feed")
        wait(lambda: len(feed.grid.order) == 60 and not feed.is_busy, "the feed", limit_s=180)
        cards = [feed.grid.card(id) for id in feed.grid.order]
        cards[turns % 6].click()
        wait(lambda: not feed.is_busy, "an order", limit_s=180)
        if turns % 4 == 3:
            find(feed, QPushButton, "feed_more").click()
            wait(lambda: not feed.is_busy, "an order", limit_s=180)
        window.select("updates")
        stay(stay_s / 4)
        window.theme.choose("dark" if turns % 2 else "light", keep=False)
        turns += 1
        gc.collect()
        if turns >= WARM_UP_TURNS:
            memory.append(memory_in_use() or 0)
    passed = time.monotonic() - began
    print(
        f"\n{passed:.0f} s, {turns} turns, frames {shown}, dropped {window.worker.dropped}, memory "
        f"{memory[0] / 1e6:.1f} MB after {WARM_UP_TURNS} turns, {memory[-1] / 1e6:.1f} MB at the "
        f"end; after each turn {[round(each / 1e6) for each in memory]}"
    )
    assert not said.of("error") and not said.of("warning"), said.all
    third = max(1, len(memory) // 3)
    assert min(memory[-third:]) - min(memory[:third]) < MOST_GROWTH_BYTES
