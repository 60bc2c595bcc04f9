"""What kinds of releases there are, and what processes do with them."""

from __future__ import annotations

import json
import multiprocessing
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit import engine
from palmkit.delivery import golden
from palmkit.delivery.client import Client
from palmkit.delivery.repository import Options
from palmkit.engine.errors import DeliveryError
from palmkit.engine.ir import Node
from tests.delivery.fault_server import Fault
from tests.delivery.releases import write_model
from tests.delivery.worlds import MODEL, World, runs


def test_encrypted_models_run_where_the_app_has_the_key(world: World) -> None:
    key = bytes(range(32))
    file = write_model(world.folder / "secret/model.palm", 5)
    world.repository.publish(MODEL, "3.0.0", [file], Options(golden=1, key=key, key_id="one"))
    world.promote("3.0.0")
    without = world.client("without")
    without.refresh(MODEL)
    assert runs(without) == "1.0.0"
    client = world.client(keys={"one": key}, prove=golden.check)
    path = next(path for path in world.server.files if path.endswith("-3.0.0.palm"))
    world.server.faults[path] = Fault("truncated", at=100, times=3)
    with pytest.raises(DeliveryError):
        client.refresh(MODEL)
    client.collect()
    asked = len(world.server.requests)
    client.refresh(MODEL)
    resumed = [each.headers.get("Range") for each in world.server.requests[asked:]]
    assert "bytes=300-" in resumed, "what had come was kept"
    assert runs(client) == "3.0.0"
    client.mark_ok(MODEL)
    client.collect()
    assert runs(client) == "3.0.0"


def test_what_a_device_cannot_run_it_is_not_given(world: World) -> None:
    file = write_model(world.folder / "later/model.palm", 5)
    world.repository.publish(MODEL, "3.0.0", [file], Options(golden=1, sdk=">=99"))
    world.promote("2.0.0")
    world.promote("3.0.0")
    client = world.with_first_release()
    client.refresh(MODEL)
    assert runs(client) == "2.0.0", "the newest that it can run"
    assert not [path for path in world.server.paths() if "3.0.0.palm" in path]


@pytest.mark.parametrize("where", ["installed", "embedded"])
def test_what_hardly_changed_comes_as_a_delta(world: World, where: str) -> None:
    def write(name: str, changed: int) -> Path:
        weights = np.random.default_rng(0).normal(size=400_000).astype(np.float32)
        weights[:changed] += 1
        file = world.folder / name / "model.palm"
        file.parent.mkdir()
        type = engine.Type("float32", (1, len(weights)))
        nodes = (Node("mul", ("x", "w"), ("y",)),)
        engine.save(engine.Graph({"x": type}, {"y": type}, nodes, {"w": weights}), file)
        return file

    first, second = write("a", 0), write("b", 4000)
    shipped = [first] if where == "embedded" else []
    if where == "installed":
        world.repository.publish("big", "1.0.0", [first], Options(golden=None))
        world.repository.promote("big", "1.0.0")
    world.repository.publish("big", "1.1.0", [second], Options(golden=None), shipped=shipped)
    world.show()
    client = world.client(baselines={"big": first} if shipped else {})
    if not shipped:
        client.refresh("big")
        client.mark_ok(client.get("big", "local"))
    world.repository.promote("big", "1.1.0")
    world.show()
    asked = len(world.server.requests)
    client.refresh("big")
    assert client.get("big", "local").path.read_bytes() == second.read_bytes()
    came = [path for path in world.server.paths()[asked:] if "/targets/models/big/" in path]
    sizes = {path: len(world.server.files[path]) for path in came}
    assert not [path for path in came if path.endswith("1.1.0.palm")]
    assert sum(sizes.values()) < 0.2 * second.stat().st_size, sizes


CRASH = """
import os, signal, sys
from pathlib import Path
from palmkit.delivery.client import Client
folder, baseline, how = sys.argv[1:]
client = Client(folder, baselines={"doubler": Path(baseline)})
release = client.get("doubler", "local")
print(release.version, flush=True)
if how != "exit":
    os.kill(os.getpid(), getattr(signal, how))
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")
@pytest.mark.parametrize("how", ["SIGSEGV", "SIGKILL"])
def test_a_release_that_brings_the_process_down_twice_is_taken_back(world: World, how: str) -> None:
    def start(how: str) -> str:
        given = [str(world.folder / "device"), str(world.baseline), how]
        done = subprocess.run(
            [sys.executable, "-c", CRASH, *given], capture_output=True, text=True, check=False
        )
        assert (done.returncode == 0) == (how == "exit"), done.stderr
        return done.stdout.strip()

    client = world.with_first_release()
    world.promote("2.0.0")
    client.refresh(MODEL)
    client.close()
    assert [start(how) for how in (how, "exit", how, "exit")] == [
        "2.0.0",
        "2.0.0",
        "2.0.0",
        "1.0.0",
    ]
    assert world.client().status(MODEL)["models"][0]["quarantine"][0]["code"] == "crash_trial"


def _use(folder: Path, baseline: Path) -> str:
    """What a worker does: it looks once, and ends."""
    client = Client(folder, baselines={MODEL: baseline})
    return client.get(MODEL, "local").version


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_that_end_say_nothing_against_a_release(world: World, method: str) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} here")
    client = world.with_first_release()
    world.promote("2.0.0")
    client.refresh(MODEL)
    client.close()
    context: Any = multiprocessing.get_context(method)
    for _ in range(3):
        worker = context.Process(target=_use, args=(world.folder / "device", world.baseline))
        worker.start()
        worker.join()
        assert worker.exitcode == 0
    state = world.client().status(MODEL)["models"][0]
    assert (state["state"], state["quarantine"]) == ("TRIAL", [])
    assert runs(world.client()) == "2.0.0"
    assert world.client().status(MODEL)["models"][0]["state"] == "ACTIVE", "three good starts"


PROCESS = """
import json, sys
from pathlib import Path
from palmkit.delivery import golden
from palmkit.delivery.client import Client
from palmkit.delivery.client import Client
folder, url, root, baseline = sys.argv[1:]
client = Client(folder, [url], Path(root).read_bytes(), baselines={"doubler": Path(baseline)},
                prove=lambda question: golden.Answer(None))
versions = []
for _ in range(5):
    release = client.get("doubler", "latest")
    release.path.read_bytes()
    client.mark_ok(release)
    versions.append(release.version)
print(json.dumps(versions))
"""


def test_several_processes_at_once(world: World) -> None:
    root = world.folder / "root.json"
    root.write_bytes(world.repository.root())
    given = [str(world.folder / "device"), world.server.url, str(root), str(world.baseline)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, *given],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for process in processes:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert set(json.loads(out)) == {"1.0.0"}, err
    files = [path for path in world.server.paths() if path.endswith(".palm")]
    assert len(files) == 1, "what one fetched, the others have"
