"""How processes end, and fork, while kits work in other threads."""

import os
import subprocess
import sys
import textwrap

import pytest

from palmkit.engine.forks import finished

# A kit whose network takes a while, with the GIL released in C++ code, and says when it began.
BEGINNING = """
import atexit, os, sys, threading, time
import cv2
import numpy as np
from palmkit import kits

began = threading.Event()
large = np.zeros((2500, 2500, 3), np.uint8)
picture = np.zeros((64, 64, 3), np.uint8)

class Slow:
    metadata = {}
    delay_s = 0.0
    def run(self, inputs):
        began.set()
        if self.delay_s:
            time.sleep(self.delay_s)
        cv2.GaussianBlur(large, (31, 31), 5)
        height, width = inputs["image"].shape[1:3]
        return {
            f"{name}_{stride}": np.zeros((1, height // stride, width // stride, count), np.float32)
            for name, count in (("score", 1), ("box", 4), ("points", 10))
            for stride in (8, 16, 32)
        }

model = Slow()

class Late:
    # Python is ending for a while: what comes back from native code then is unwound.
    def __del__(self, sleep=time.sleep):
        sleep(0.4)

late = Late()

def loop(kit):
    while True:
        kit.detect(picture)
"""


def end_of(script: str) -> tuple[int, str, str]:
    """The exit code, output and error output of a process that must not hang."""
    done = subprocess.run(
        [sys.executable, "-c", BEGINNING + textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "script",
    [
        """
        kit = kits.FaceDetector(model=model)
        threading.Thread(target=loop, args=(kit,), daemon=True).start()
        began.wait()
        """,
        """
        def show(result, frame, timestamp_ms):
            began.set()
            cv2.GaussianBlur(large, (31, 31), 5)
        kit = kits.FaceDetector("stream", on_result=show)
        kit.submit(picture)
        began.wait()
        """,
        """
        def work():
            kit = kits.FaceDetector("stream", model=model, on_result=lambda *_: None)
            while True:
                kit.submit(picture)
                time.sleep(0.001)
        threading.Thread(target=work, daemon=True).start()
        began.wait()
        """,
        """
        kit = kits.FaceDetector("stream", model=model, on_result=lambda *_: None)
        """,
    ],
    ids=["daemon thread", "callback", "stream of a daemon thread", "idle stream"],
)
def test_python_ends_quietly_whatever_is_under_way(script: str) -> None:
    assert end_of(script) == (0, "", "")


def test_who_waits_for_a_thread_at_the_end_is_not_held_for_ever() -> None:
    # Registered before the kits are imported, it is called behind what they register.
    script = """
    thread = threading.Thread(target=lambda: (over.wait(), kit.detect(picture)), daemon=True)
    thread.start()
    """
    before = BEGINNING.replace(
        "from palmkit import kits",
        "over = threading.Event()\n"
        "atexit.register(lambda: (over.set(), thread.join(), print('joined')))\n"
        "from palmkit import kits",
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{before}\nfrom palmkit.engine import forks\n"
         "forks.LONGEST_END_S = 0.3\n"
         "kit = kits.FaceDetector(model=model)"
         f"{textwrap.dedent(script)}"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "joined\n", "")


FORKING = """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)

def in_child(use):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        threading.Timer(20, os._exit, (3,)).start()
        try:
            use()
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(4)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(
    "script",
    [
        # At a frame.
        """
        model.delay_s = 0.2
        kit = kits.FaceDetector("video", model=model)
        thread = threading.Thread(target=lambda: kit.detect(picture))
        thread.start()
        began.wait()
        in_child(lambda: kit.detect(picture))
        thread.join()
        """,
        # At a frame that takes longer than a fork waits.
        """
        from palmkit.engine import forks
        forks.LONGEST_FORK_S = 0.1
        go_on = threading.Event()
        parent = os.getpid()
        model.run = lambda inputs: (
            began.set(), os.getpid() == parent and go_on.wait(), Slow.run(model, inputs))[-1]
        kit = kits.FaceDetector("video", model=model)
        thread = threading.Thread(target=lambda: kit.detect(picture))
        thread.start()
        began.wait()
        in_child(lambda: kit.detect(picture, 5))
        go_on.set()
        thread.join()
        """,
        # While a model is loaded.
        """
        from palmkit.kits import kit as shared
        load = shared.load
        def slow(*arguments, **options):
            began.set()
            time.sleep(0.3)
            return load(*arguments, **options)
        shared.load = slow
        thread = threading.Thread(target=kits.FaceDetector)
        thread.start()
        began.wait()
        in_child(lambda: kits.FaceDetector().detect(picture))
        thread.join()
        """,
        # While a re-ranker learns what its pages need, for the first time.
        """
        items = [{"id": id, "price": 1.0 * id, "brand": "acme"} for id in range(9)]
        ranker = kits.Reranker()
        thread = threading.Thread(target=lambda: ranker.session(learns=True).rerank(items))
        thread.start()
        time.sleep(0.01)
        in_child(lambda: ranker.session(learns=True).rerank(items))
        thread.join()
        """,
        # With a stream that works: the child gets its own frame, and none of the parent's.
        """
        results = []
        kit = kits.FaceDetector(
            "stream", model=model, on_result=lambda *found: results.append(found[2]))
        kit.submit(picture, 1)
        began.wait()
        kit.submit(picture, 2)
        def use():
            results.clear()
            kit.submit(picture, 3)
            kit.close()
            assert results == [3], results
        in_child(use)
        kit.close()
        assert results == [1, 2], results
        """,
        # With a stream that is closed in the child, and goes on in the parent.
        """
        results = []
        kit = kits.FaceDetector("stream", on_result=lambda *found: results.append(found[2]))
        in_child(kit.close)
        kit.submit(picture, 1)
        kit.close()
        assert results == [1], results
        """,
    ],
    ids=["frame", "long frame", "load", "re-ranker", "stream", "close"],
)
def test_a_forked_child_uses_what_other_threads_were_within(script: str) -> None:
    assert end_of(FORKING + textwrap.dedent(script)) == (0, "0\n", "")


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="needs Linux's list of threads")
def test_no_thread_of_opencv_is_there_when_a_process_forks() -> None:
    script = """
    counts = []
    def count():
        counts.append(len(os.listdir("/proc/self/task")))
    # Registered before the kits are imported, it is called behind what they register.
    os.register_at_fork(before=count)
    import cv2
    import numpy as np
    from palmkit import kits
    kits.draw
    before = len(os.listdir("/proc/self/task"))
    cv2.setNumThreads(3)
    def use():
        cv2.GaussianBlur(np.zeros((2500, 2500, 3), np.uint8), (31, 31), 5)
        assert cv2.getNumThreads() == 3
    use()
    assert len(os.listdir("/proc/self/task")) > before
    in_child(use)
    assert counts == [before], counts
    use()
    """
    beginning = "import os, sys, threading" + FORKING
    done = subprocess.run(
        [sys.executable, "-c", beginning + textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="needs Linux's list of threads")
def test_no_thread_of_a_stream_is_ending_when_a_process_forks() -> None:
    script = """
    counts = []
    def count():
        counts.append(len(os.listdir("/proc/self/task")))
    os.register_at_fork(before=count)
    from palmkit.kits.stream import Stream
    for _ in range(200):
        stream = Stream(lambda frame: None, None)
        stream.put(0)
        stream.close()
        child = os.fork()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)
    print(set(counts))
    """
    done = subprocess.run(
        [sys.executable, "-c", "import os, sys, threading" + FORKING + textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "{1}\n", "")


def test_what_is_finished_returns_and_raises_as_ever() -> None:
    @finished
    def half(number: int) -> float:
        """Of a number."""
        if number < 0:
            raise ValueError(number)
        return finished(lambda: number / 2)()

    assert half(3) == 1.5 and half.__doc__ == "Of a number."
    with pytest.raises(ValueError, match="-1"):
        half(-1)
