import threading
import time

import pytest

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
