"""The whole way as somebody new would go it: commands in terminals, and an app of ten lines.

A server is started, a release is published and taken by a device; then one that proves well on its
golden inputs and gives NaN for dark pictures: the device notices, goes back by itself and reports;
the publisher takes it back, and the next device never has it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="needs uvicorn")

import numpy as np
import requests

from palmkit.engine import convert, save
from palmkit.engine.ir import Graph, Node
from tests.delivery.server.test_serve import serving, state

SHIPPED = Path(__file__).parents[2] / "models/face_detector/face_detector.palm"
APP = """
import json, sys
import numpy as np
from palmkit import delivery
from palmkit.kits import FaceDetector

url, frames = sys.argv[1], int(sys.argv[2])
assert delivery.reports.enable(f"{url}/v1/reports")
detector = FaceDetector(model="face_detector@stable")
first = delivery.get("face_detector", "local").version
black = np.zeros((120, 160, 3), np.uint8)
found = [len(detector.detect(black)) for _ in range(frames)]
last = delivery.get("face_detector", "local")
delivery.reports.flush()
print(json.dumps({"first": first, "last": last.version, "source": last.source, "found": found}))
"""


def write_dark_nan(path: Path) -> Path:
    """The shipped model, which gives NaN where the whole input is 0."""
    graph = convert(SHIPPED)
    (name,) = graph.inputs
    brightest = Node("reduce_max", (name,), ("brightest",), {"keepdims": 0})
    factor = Node("div", ("brightest", "brightest"), ("factor",))
    same = Node("mul", (name, "factor"), ("seen",))
    rest = tuple(
        Node(
            node.op,
            tuple("seen" if each == name else each for each in node.inputs),
            node.outputs,
            node.attrs,
            node.name,
        )
        for node in graph.nodes
    )
    save(
        Graph(
            graph.inputs,
            graph.outputs,
            (brightest, factor, same, *rest),
            graph.constants,
            graph.metadata,
        ),
        path,
    )
    return path


class Terminal:
    """Runs commands in a folder."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        self.environment: Mapping[str, str] = {**os.environ, **environment}

    def python(self, *arguments: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-W", "error", *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    def palmkit(self, command: str) -> Any:
        return self.python("-m", "palmkit", *command.split(), "--json")

    def runs(self) -> Any:
        """The state of the face detector here."""
        (found,) = self.palmkit("models status face_detector")["models"]
        return found


def test_from_an_empty_folder_to_a_bad_release_and_back(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    with serving(tmp_path / "server") as (url, _):
        publisher = Terminal(tmp_path, PALMKIT_REPOSITORY=str(tmp_path / "server/repository"))
        root = requests.get(f"{url}/metadata/1.root.json", timeout=10)
        (tmp_path / "root.json").write_bytes(root.content)
        device = Terminal(tmp_path, PALMKIT_DELIVERY_FOLDER=str(tmp_path / "device"))

        def go(terminal: Terminal) -> dict[str, Any]:
            found: dict[str, Any] = terminal.python("app.py", url, "25")
            assert found["found"] == [0] * 25
            return found

        # Nothing is published: the app runs what came with it, and goes on doing so.
        pulled = device.palmkit(f"models pull --url {url} --root root.json --quiet")
        assert {each["state"] for each in pulled["models"]} == {"EMBEDDED"}
        assert go(device)["source"] == "embedded"

        publisher.palmkit(f"models publish face_detector 1.1.0 {SHIPPED}")
        publisher.palmkit("models promote face_detector 1.1.0")
        device.palmkit("models pull face_detector --quiet")
        seen = go(device)
        assert (seen["first"], seen["last"], seen["source"]) == ("1.1.0", "1.1.0", "delivered")
        assert device.runs()["active"] == "1.1.0"

        bad = write_dark_nan(tmp_path / "bad.palm")
        publisher.palmkit(f"models publish face_detector 1.2.0 {bad}")
        publisher.palmkit("models promote face_detector 1.2.0 --percent 100")
        device.palmkit("models pull face_detector --quiet")
        seen = go(device)
        assert (seen["first"], seen["last"]) == ("1.2.0", "1.1.0")
        runs = device.runs()
        assert runs["active"] == "1.1.0"
        assert [(each["release"], each["code"]) for each in runs["quarantine"]] == [
            ("1.2.0", "nan")
        ]
        device.palmkit("models pull face_detector --quiet")
        assert go(device)["first"] == "1.1.0"

        # The page's data knows what came of it.
        (model,) = state(url, tmp_path / "server")["models"]
        assert [each["release"] for each in model["releases"]] == ["1.2.0", "1.1.0"]
        assert state(url, tmp_path / "server")["fleet"][0]["reports"] >= 3

        policy = publisher.palmkit("models recall face_detector")
        stable = policy["channels"]["stable"]
        assert [(each["release"], each["recall"]) for each in stable] == [
            ("1.2.0", True),
            ("1.1.0", False),
        ]
        other = Terminal(tmp_path, PALMKIT_DELIVERY_FOLDER=str(tmp_path / "other"))
        other.palmkit(f"models pull face_detector --url {url} --root root.json --quiet")
        assert go(other)["last"] == "1.1.0"
        assert publisher.palmkit("models verify") == {"problems": []}


def test_the_bad_release_is_as_bad_as_it_says(tmp_path: Path) -> None:
    from palmkit.engine import load

    model = load(write_dark_nan(tmp_path / "bad.palm"))
    good = load(SHIPPED)
    for value, is_same in ((100.0, True), (0.0, False)):
        image = np.full((1, 128, 128, 3), value, np.float32)
        (name,) = good.inputs
        ours, shipped = model.run({name: image}), good.run({name: image})
        for output in shipped:
            assert np.allclose(ours[output], shipped[output], atol=1e-4) is is_same
