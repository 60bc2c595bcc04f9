"""What a fork and the end of Python wait for, and what children make anew."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from palmkit.engine.cached import cached
from palmkit.engine.forks import finished, gate, importing, renewed_in_children

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]
MODEL = Path(__file__).parents[2] / "models/face_detector/face_detector.palm"
# A child that hangs is ended, and so is the process that waits for it.
BEGINNING = """
import os, signal, sys, threading, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)

def in_child(use):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        code = 1
        try:
            use()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""


def ended(script: str, *arguments: object) -> tuple[int, str, str]:
    """The exit code, output and error output of a process that must not hang."""
    done = subprocess.run(
        [sys.executable, "-c", BEGINNING + textwrap.dedent(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stdout, done.stderr


def code_of_child(use: object) -> int:
    """How a child ended that was forked by this thread and called it."""
    import signal

    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(20)
            assert callable(use)
            use()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("name", ["FaceDetector", "Reranker", "draw"])
def test_a_fork_waits_for_names_that_another_thread_imports(name: str) -> None:
    script = """
    from palmkit import kits
    name = sys.argv[1]
    import importlib
    began, load = threading.Event(), kits.import_module
    def slow(home):
        # As if the module were a large one: its lock is held meanwhile.
        with importlib._bootstrap._ModuleLockManager(home):
            began.set()
            time.sleep(0.3)
            return load(home)
    kits.import_module = slow
    thread = threading.Thread(target=lambda: getattr(kits, name))
    thread.start()
    began.wait()
    print(in_child(lambda: load("palmkit.kits.face.kit") and getattr(kits, name)))
    thread.join()
    """
    assert ended(script, name) == (0, "0\n", "")


def test_an_import_passes_the_gate_that_a_fork_has_closed() -> None:
    passed = threading.Event()

    def bring() -> None:
        with importing:
            passed.set()

    gate.close(0.0)
    try:
        thread = threading.Thread(target=bring)
        thread.start()
        assert passed.wait(20)
        thread.join()
    finally:
        gate.open()


def test_a_call_waits_before_the_gate_until_it_opens() -> None:
    done = threading.Event()
    thread = threading.Thread(target=finished(done.set))
    gate.close(20.0)
    try:
        thread.start()
        assert not done.wait(0.2)
        # Who closed it passes.
        assert finished(lambda: 3)() == 3
    finally:
        gate.open()
    thread.join()
    assert done.is_set() and not gate.within


def test_a_call_within_another_passes() -> None:
    within, done = threading.Event(), threading.Event()
    closed = threading.Event()

    @finished
    def outer() -> None:
        within.set()
        closed.wait(20)
        finished(done.set)()

    thread = threading.Thread(target=outer)
    thread.start()
    within.wait(20)
    gate.close(0.0)
    try:
        closed.set()
        assert done.wait(20)
    finally:
        gate.open()
    thread.join()


def test_no_lock_is_held_while_a_property_is_computed() -> None:
    began, go_on = threading.Event(), threading.Event()

    class Thing:
        def __init__(self, waits: bool) -> None:
            self.waits = waits

        @cached
        def number(self) -> float:
            if self.waits:
                began.set()
                go_on.wait(20)
            return 0.5

    thread = threading.Thread(target=lambda: Thing(waits=True).number)
    thread.start()
    began.wait(20)
    # functools.cached_property of Python 3.11 and before hangs here.
    assert code_of_child(lambda: Thing(waits=False).number) == 0
    go_on.set()
    thread.join()
    thing = Thing(waits=False)
    assert thing.number is thing.number
    assert isinstance(Thing.number, cached)


def test_owners_are_renewed_in_the_order_of_their_registration() -> None:
    class Owner:
        pass

    order: list[int] = []
    owners = [Owner() for _ in range(5)]
    for number in range(5):
        renewed_in_children(owners[number], lambda _, number=number: order.append(number))  # type: ignore[misc]
    assert order == [0, 1, 2, 3, 4]
    # What is dropped is not renewed.
    del owners[2]

    def look() -> None:
        assert order[5:] == [0, 1, 3, 4]

    assert code_of_child(look) == 0


def test_threads_that_fork_at_a_time_lock_nothing() -> None:
    script = """
    from palmkit.engine.forks import finished
    def forks():
        for _ in range(20):
            assert in_child(finished(lambda: None)) == 0
            finished(lambda: None)()
    threads = [threading.Thread(target=forks) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    from palmkit.engine.forks import gate
    print(gate.within, gate.is_closed)
    """
    assert ended(script) == (0, "[] False\n", "")


def test_a_handler_may_fork_while_the_gate_closes() -> None:
    script = """
    from palmkit.engine.forks import finished, gate
    began = threading.Event()
    thread = threading.Thread(target=finished(lambda: (began.set(), time.sleep(0.5))))
    thread.start()
    began.wait()
    # The handler's child goes on in the middle of the outer fork.
    parent = os.getpid()
    inner = []
    def handle(*_):
        inner.append(os.fork())
    signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    child = os.fork()
    if os.getpid() != parent:
        if child:
            os.waitpid(child, 0)
        os._exit(0)
    codes = [os.waitpid(each, 0)[1] for each in (child, *inner)]
    thread.join()
    print(codes, gate.within, gate.is_closed)
    """
    assert ended(script) == (0, "[0, 0] [] False\n", "")


def test_what_is_for_the_end_is_done_behind_the_last_call() -> None:
    script = """
    from palmkit.engine.forks import done_at_the_end, finished
    class Owner: pass
    owner = Owner()
    done_at_the_end(owner, lambda _: print("end"))
    began = threading.Event()
    work = finished(lambda: (began.set(), time.sleep(0.3), print("call")))
    threading.Thread(target=work, daemon=True).start()
    began.wait()
    """
    assert ended(script) == (0, "call\nend\n", "")


@pytest.mark.parametrize("what", ["save", "convert", "load"])
def test_a_fork_waits_for_models_that_another_thread_has_in_hand(what: str, tmp_path: Path) -> None:
    script = """
    from palmkit import engine
    from palmkit.engine import files
    path, out, what = sys.argv[1:]
    graph = engine.convert(path)
    use = {
        "save": lambda: engine.save(graph, out),
        "convert": lambda: engine.convert(path),
        "load": lambda: engine.load(path),
    }[what]
    began, lock = threading.Event(), threading.Lock()
    def held(function):
        def call(*arguments):
            # As the locks of what is imported there.
            with lock:
                began.set()
                time.sleep(0.3)
                return function(*arguments)
        return call
    files.Path = held(files.Path)
    thread = threading.Thread(target=use)
    thread.start()
    began.wait()
    print(in_child(use))
    thread.join()
    """
    assert ended(script, MODEL, tmp_path / "net.palm", what) == (0, "0\n", "")
