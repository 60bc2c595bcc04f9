"""The one thread of a client: what it does when, and when it is there at all."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from palmkit.delivery import client as client_module
from palmkit.delivery.background import Background, Key
from palmkit.delivery.policy import Candidate
from tests.delivery.devices import MODEL, Devices
from tests.delivery.test_forks_and_ends import in_a_child

A, B = ("a", "stable"), ("b", "stable")
FAR_S = 3600.0


class Work:
    """Notes what is done, and waits until it is let go."""

    def __init__(self) -> None:
        self.done: list[list[Key]] = []
        self.came, self.go_on, self.ending = threading.Event(), threading.Event(), threading.Event()
        self.go_on.set()
        self.background = Background(self, self.ending)

    def __call__(self, keys: list[Key]) -> None:
        self.done.append(keys)
        self.came.set()
        self.go_on.wait(10)

    def wait(self) -> None:
        assert self.came.wait(10)
        self.came.clear()


class Looks:
    """A watcher that counts how often it looked, and by which threads."""

    def __init__(self) -> None:
        self.count = 0
        self.threads: set[str] = set()
        self.fails = False

    def poll(self) -> None:
        self.count += 1
        self.threads.add(threading.current_thread().name)
        if self.fails:
            raise ValueError("nothing to be seen")


def until(done: Callable[[], bool], limit_s: float = 10.0) -> None:
    end = time.monotonic() + limit_s
    while not done():
        assert time.monotonic() < end
        time.sleep(0.005)


def threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "palmkit delivery"]


@pytest.fixture(autouse=True)
def no_thread_of_another_test() -> None:
    until(lambda: threads() == [])


def test_what_is_asked_for_is_done_once_and_then_there_is_no_thread() -> None:
    work = Work()
    work.background.ask([])
    assert threads() == []
    work.background.ask([B, A])
    work.wait()
    work.background.stop(time.monotonic() + 10)
    assert work.done == [[A, B]] and threads() == []


def test_what_is_asked_for_meanwhile_is_done_after_it_by_the_same_thread() -> None:
    work = Work()
    work.go_on.clear()
    work.background.ask([A])
    work.wait()
    for _ in range(3):
        work.background.ask([B])
        work.background.ask([A])
    assert len(threads()) == 1
    work.go_on.set()
    work.wait()
    work.background.stop(time.monotonic() + 10)
    assert work.done[0] == [A]
    assert sorted(key for keys in work.done[1:] for key in keys) == [A, B]


def test_what_is_due_now_does_not_wait_for_what_is_due_later() -> None:
    work = Work()
    work.background.ask([A, B], FAR_S)
    work.background.ask([A])
    work.wait()
    assert work.done == [[A]] and len(threads()) == 1
    work.background.ask([B], FAR_S)
    work.ending.set()
    work.background.stop(time.monotonic() + 10)
    assert work.done == [[A]] and threads() == []


def test_later_does_not_put_off_what_was_asked_for_before() -> None:
    work = Work()
    work.background.ask([A], 0.1)
    work.background.ask([A], FAR_S)
    work.wait()
    work.background.stop(time.monotonic() + 10)
    assert work.done == [[A]]


def test_a_watcher_looks_every_so_often_until_it_is_gone() -> None:
    work, other = Work(), Looks()
    watchers = [Looks()]
    work.background.watch(watchers[0], 0.01)
    assert len(threads()) == 1
    until(lambda: watchers[0].count >= 3)
    assert len(threads()) == 1 and watchers[0].threads == {"palmkit delivery"} and not work.done
    # By the same thread, and at once behind what it does.
    work.background.watch(other, FAR_S)
    work.background.ask([A])
    work.wait()
    until(lambda: other.count == 1)
    assert len(threads()) == 1
    work.background.unwatch(other)
    watchers.clear()
    until(lambda: threads() == [])
    assert other.count == 1


def test_a_watcher_that_is_dropped_ends_the_thread_at_once() -> None:
    work, watchers = Work(), [Looks()]
    work.background.watch(watchers[0], FAR_S)
    assert len(threads()) == 1
    watchers.clear()
    until(lambda: threads() == [], 2)


def test_a_client_that_is_closed_has_no_thread(tmp_path: Path) -> None:
    client, looks = Devices(tmp_path).client(), Looks()
    client.watch(looks, FAR_S)
    assert len(threads()) == 1
    client.close()
    until(lambda: threads() == [], 2)
    assert looks.count == 0


def test_an_unwatched_one_ends_the_thread_at_once() -> None:
    work, looks = Work(), Looks()
    work.background.watch(looks, FAR_S)
    assert len(threads()) == 1
    work.background.unwatch(Looks())
    work.background.unwatch(looks)
    until(lambda: threads() == [], 2)
    assert looks.count == 0
    work.background.tell()
    assert threads() == []


def test_watchers_are_told_and_none_that_fails_looks_without_end() -> None:
    work, looks = Work(), Looks()
    looks.fails = True
    poll = looks.poll

    def poll_and_tell() -> None:
        work.background.tell()
        poll()

    looks.poll = poll_and_tell  # type: ignore[method-assign]
    work.background.watch(looks, FAR_S)
    for count in range(1, 4):
        work.background.tell()
        until(lambda: looks.count == count)  # noqa: B023
    time.sleep(0.05)
    assert looks.count == 3 and len(threads()) == 1
    work.ending.set()
    work.background.stop(time.monotonic() + 10)
    assert threads() == []


def test_watchers_look_while_work_takes_long() -> None:
    looks = Looks()
    seen: list[int] = []

    def work(keys: list[Key]) -> None:
        end = time.monotonic() + 10
        while looks.count < 4 and time.monotonic() < end:
            background.look()
        seen.append(looks.count)

    background = Background(work, threading.Event())
    background.watch(looks, 0.01)
    background.ask([A])
    until(lambda: bool(seen))
    assert seen == [4] and looks.threads == {"palmkit delivery"}
    background.unwatch(looks)
    until(lambda: threads() == [])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a fork")
def test_a_forked_child_has_no_thread_until_something_changes_there() -> None:
    work, looks = Work(), Looks()
    work.background.watch(looks, FAR_S)

    def child() -> None:
        assert threads() == []
        work.background.tell()
        until(lambda: looks.count == 1)
        assert len(threads()) == 1

    assert in_a_child(child) == 0
    assert looks.count == 0 and len(threads()) == 1
    work.background.unwatch(looks)


def test_a_client_that_waits_for_a_hint_and_updates_has_one_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices = Devices(tmp_path)
    client = devices.client()
    client.refresh()
    client.get(MODEL, "local")
    before = set(threading.enumerate())
    monkeypatch.setattr(client_module, "HINT_WITHIN_S", FAR_S)
    client.hint(1)
    assert len(threads()) == 1
    devices.published.publish("2.0", devices.content(2))
    devices.published.offer(Candidate("2.0", 100))
    end = time.monotonic() + 20
    while client.get(MODEL).version != "2.0":
        assert set(threading.enumerate()) - before <= set(threads()) and len(threads()) <= 1
        assert time.monotonic() < end
        time.sleep(0.01)
    # What the hint was to ask was asked.
    client.stop(time.monotonic() + 10)
    assert threads() == []
