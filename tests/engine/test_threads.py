"""What threads may not change: results, bit for bit, and that a run allocates nothing."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from palmkit.engine import _native, convert
from palmkit.engine.backends.cpu import Cpu
from palmkit.engine.backends.partition import specialise
from palmkit.engine.errors import BackendError, UnsupportedError
from palmkit.engine.ir import Array, Graph, Type
from palmkit.engine.ops import Case, Op
from palmkit.engine.steps.plan import Plan
from tests.engine.allocations import MODEL
from tests.engine.test_ops import arrays, every_case, one_node

ROOT = Path(__file__).parents[2]
COUNTER = ROOT / "build/editable/test/libpalm_allocations.so"
TEACHERS = ROOT.parent / "shared" / "teachers"
FILES = [MODEL, *sorted([*TEACHERS.rglob("*.tflite"), *TEACHERS.rglob("*.onnx")])]
THREADS = (1, 2, 3, 5)


def planned(graph: Graph) -> Plan:
    cpu = Cpu()
    if not all(map(cpu.supports, graph.nodes)):
        pytest.skip("the native backend does not run all of it")
    try:
        return cpu.compile(graph).plan
    except UnsupportedError as error:
        pytest.skip(str(error))


def outputs(plan: Plan, inputs: list[Array], threads: int, eager: bool) -> list[bytes]:
    """What a run writes into arrays full of a byte that no kernel writes everywhere."""
    program = _native.Program(*plan.native())
    found: dict[int, Array] = {}
    for each in plan.tensors:
        # The first is all of it.
        if each.place == "output" and each.slot not in found:
            found[each.slot] = np.empty(each.dims, each.dtype)
            found[each.slot].reshape(-1).view(np.uint8)[:] = 0xA5
    ordered = [found[slot] for slot in sorted(found)]
    program.session(threads, eager).run(inputs, ordered)
    return [each.tobytes() for each in ordered]


def same_for_all(graph: Graph, given: Mapping[str, Array], eager: bool) -> None:
    plan = planned(graph)
    inputs = [np.ascontiguousarray(given[name]) for name in graph.inputs]
    one = outputs(plan, inputs, 1, eager)
    for threads in THREADS[1:]:
        assert outputs(plan, inputs, threads, eager) == one, threads


@every_case
def test_op_does_not_depend_on_threads(op: Op, case: Case) -> None:
    graph = one_node(op, case)
    given = {f"x{i}": x for i, x in enumerate(arrays(case)) if x is not None}
    same_for_all(graph, given, eager=True)


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_network_does_not_depend_on_threads(path: Path, eager: bool) -> None:
    graph = convert(path)
    rng = np.random.default_rng(0)
    sides = {"height": 96, "width": 160}
    given = {
        name: rng.random([d if isinstance(d, int) else sides.get(d, 1) for d in type.shape]).astype(
            type.dtype
        )
        for name, type in graph.inputs.items()
    }
    network = specialise(graph, {name: Type.of(x) for name, x in given.items()})
    same_for_all(network, given, eager)


@pytest.mark.skipif(not COUNTER.exists(), reason="no counter: build with PALM_DEV, on Linux")
@pytest.mark.parametrize("threads", [1, 2])
def test_a_run_allocates_nothing(threads: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.engine.allocations", str(threads)],
        env={**os.environ, "LD_PRELOAD": str(COUNTER)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    *allocating, count = done.stdout.splitlines()
    assert not allocating
    assert int(count.split()[0]) > 500


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_session_of_many_threads_is_refused_after_a_fork() -> None:
    session = _native.Program([], [], [], 0).session(2)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            session.run([], [])
        except BackendError:
            status = 7
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_python_ends_while_daemon_threads_run() -> None:
    code = """
import threading, time
import numpy as np
from palmkit.engine import _native as native
size = 1 << 20
types = [("input", 0, "float32", [size]), ("output", 0, "float32", [size])]
program = native.Program(types, [("unary", [0], [1], {"op": "exp"})] * 20, [], 0)
x = np.zeros(size, np.float32)
def work():
    session, y = program.session(2), np.zeros(size, np.float32)
    started.release()
    while True:
        session.run([x], [y])
started = threading.Semaphore(0)
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
for _ in range(3):
    started.acquire()
time.sleep(0.01)
"""
    for _ in range(5):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# New sizes are planned for in one thread while another forks; the child plans for sizes of its own.
FORK = """
import os, sys, threading, time
import numpy as np
from palmkit import engine
model = engine.load(sys.argv[1])
def run(height):
    model.run({"image": np.zeros((1, height, 32, 3), np.float32)})
def plan():
    for times in range(2, 12):
        run(32 * times)
if sys.argv[2] == "warm":
    run(32)
threading.Thread(target=plan, daemon=True).start()
time.sleep(float(sys.argv[3]))
child = os.fork()
if child == 0:
    run(64)
    run(32 * 20)
    os._exit(0)
for _ in range(300):
    time.sleep(0.1)
    ended, status = os.waitpid(child, os.WNOHANG)
    if ended:
        print("ended with", status)
        break
else:
    os.kill(child, 9)
    print("hangs")
os._exit(0)
"""


@pytest.mark.parametrize("state", ["warm", "cold"])
def test_a_fork_while_another_thread_plans(state: str) -> None:
    path = ROOT / "models" / "face_detector" / "face_detector.palm"
    for after_s in (0.0, 0.02, 0.05, 0.1):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", FORK, str(path), state, str(after_s)],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert (done.stdout, done.stderr) == ("ended with 0\n", "")
