import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from palmkit.kits import FaceDetector
from palmkit.kits.stream import Stream


def test_frames_are_dropped_while_busy_and_the_newest_is_kept() -> None:
    started, go_on = threading.Event(), threading.Event()
    seen: list[int] = []

    def work(frame: int) -> None:
        seen.append(frame)
        started.set()
        go_on.wait(10)

    stream = Stream(work, None)
    stream.put(0)
    assert started.wait(10)
    for frame in range(1, 100):
        stream.put(frame)
    assert stream.dropped == 98
    go_on.set()
    stream.close()
    assert seen == [0, 99]


def test_put_does_not_wait_for_the_work() -> None:
    go_on = threading.Event()
    stream = Stream[int](lambda frame: (go_on.wait(10), None)[1], None)
    start = time.perf_counter()
    for frame in range(1000):
        stream.put(frame)
    assert time.perf_counter() - start < 5
    go_on.set()
    stream.close()


def test_an_error_reaches_on_error_and_the_stream_goes_on() -> None:
    errors: list[str] = []
    seen: list[int] = []
    done = threading.Event()

    def work(frame: int) -> None:
        if frame == 0:
            raise ValueError("bad frame")
        seen.append(frame)

    def on_error(error: Exception) -> None:
        errors.append(str(error))
        done.set()

    stream = Stream(work, on_error)
    stream.put(0)
    assert done.wait(10)
    stream.put(1)
    stream.close()
    assert errors == ["bad frame"] and seen == [1]


def fail(frame: int) -> None:
    raise ValueError(f"bad frame {frame}")


def test_without_on_error_the_next_put_raises_once() -> None:
    stream = Stream(fail, None)
    stream.put(0)
    while not stream._error:  # pyright: ignore[reportPrivateUsage]
        time.sleep(0.001)
    with pytest.raises(ValueError, match="bad frame 0"):
        stream.put(1)
    stream.close()


def test_without_on_error_close_raises() -> None:
    stream = Stream(fail, None)
    stream.put(0)
    with pytest.raises(ValueError, match="bad frame 0"):
        stream.close()
    stream.close()


def test_an_error_in_on_error_is_not_lost() -> None:
    def on_error(error: Exception) -> None:
        raise RuntimeError("worse") from error

    stream = Stream(fail, on_error)
    stream.put(0)
    with pytest.raises(RuntimeError, match="worse"):
        stream.close()


def test_close_ends_the_thread_and_may_come_from_the_work() -> None:
    before = threading.active_count()
    streams: list[Stream[int]] = []
    closed = threading.Event()

    def work(frame: int) -> None:
        streams[0].close()
        closed.set()

    streams.append(Stream(work, None))
    streams[0].put(0)
    assert closed.wait(10)
    streams[0].close()
    assert threading.active_count() == before


def wait_for(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_a_stream_that_is_dropped_finishes_its_frames_and_ends_its_thread() -> None:
    before = set(threading.enumerate())
    seen: list[int] = []
    go_on = threading.Event()

    def work(frame: int) -> None:
        go_on.wait(10)
        seen.append(frame)

    stream = Stream(work, None)
    stream.put(0)
    box = stream._box  # pyright: ignore
    wait_for(lambda: not box._waiting)  # type: ignore[union-attr]  # pyright: ignore
    stream.put(1)
    del stream
    gc.collect()
    assert set(threading.enumerate()) - before
    go_on.set()
    wait_for(lambda: not set(threading.enumerate()) - before)
    assert seen == [0, 1]


def test_a_kit_that_is_dropped_ends_its_thread_at_once(blobs: Any) -> None:
    gc.collect()
    before = set(threading.enumerate())
    results: list[Any] = []

    def keep(*found: Any) -> None:
        results.append(found)

    kit = FaceDetector("stream", model=blobs, on_result=keep)
    kit.submit(np.zeros((64, 64, 3), np.uint8))
    gc.disable()
    try:
        del kit
        wait_for(lambda: not set(threading.enumerate()) - before)
    finally:
        gc.enable()
    assert len(results) == 1


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit])
@pytest.mark.parametrize("has_on_error", [False, True])
def test_what_ends_programs_is_raised_by_the_next_put_and_ends_no_stream(
    kind: type[BaseException], has_on_error: bool
) -> None:
    seen: list[int] = []
    errors: list[Exception] = []

    def work(frame: int) -> None:
        seen.append(frame)
        if frame == 0:
            raise ValueError("of a frame")
        if frame == 1:
            raise kind("enough")

    stream = Stream(work, errors.append if has_on_error else None)
    stream.put(0)
    wait_for(lambda: bool(errors) or stream._error is not None)  # pyright: ignore
    if not has_on_error:
        with pytest.raises(ValueError, match="of a frame"):
            stream.put(1)
    stream.put(1)
    wait_for(lambda: stream._error is not None)  # pyright: ignore
    with pytest.raises(kind, match="enough"):
        stream.put(2)
    stream.put(3)
    stream.close()
    assert seen == [0, 1, 3] and len(errors) == has_on_error


def test_what_ends_programs_is_not_hidden_by_an_earlier_error() -> None:
    def work(frame: int) -> None:
        raise ValueError("of a frame") if frame == 0 else SystemExit("enough")

    stream = Stream(work, None)
    box = stream._box  # pyright: ignore
    assert box is not None
    stream.put(0)
    wait_for(lambda: stream._error is not None)  # pyright: ignore
    # As if both frames had been left before the first failed.
    box.put(stream, 1)
    wait_for(lambda: isinstance(stream._error, SystemExit))  # pyright: ignore
    with pytest.raises(SystemExit, match="enough"):
        stream.close()


def has_failed(stream: Stream[int]) -> bool:
    return stream._error is not None  # pyright: ignore


def test_an_error_that_nobody_saw_is_told_when_the_stream_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", told.append)
    stream = Stream(fail, None)
    stream.put(0)
    wait_for(partial(has_failed, stream))
    del stream
    gc.collect()
    wait_for(lambda: bool(told))
    (found,) = told
    assert found.exc_type is ValueError and str(found.exc_value) == "bad frame 0"
    assert found.thread.name == "palmkit stream"


def test_after_close_frames_are_left_alone() -> None:
    seen: list[int] = []
    stream = Stream(seen.append, None)
    stream.close()
    stream.put(0)
    assert seen == [] and stream.dropped == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_that_a_callback_forks_ends_behind_it() -> None:
    """In a process of its own: what else this one holds is not for a child of a callback to end."""
    script = """
import os, signal, threading
from palmkit.kits.stream import Stream

def work(frame):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        return
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    done.set()

codes, done = [], threading.Event()
stream = Stream(work, None)
stream.put(0)
assert done.wait(60)
stream.close()
assert codes == [0], codes
"""
    command = [sys.executable, "-c", script]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert (ended.returncode, ended.stderr) == (0, "")
