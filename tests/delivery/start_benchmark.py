"""How long a kit with a delivered model takes to its first result, without a network.

python -m tests.delivery.start_benchmark: a new process each time, the best and the middle of them,
the server one that takes connections and never answers.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from palmkit.delivery.app import FOLDER, note
from palmkit.delivery.policy import Candidate
from palmkit.kits.kit import shipped_model
from tests.delivery.devices import Devices

RUNS = 7
START = """
import json, sys, time
started = time.perf_counter()
import numpy as np
from palmkit.kits import FaceDetector
kit = FaceDetector(model=sys.argv[1] or None, quality="fast")
imported = time.perf_counter()
kit.detect(np.zeros((480, 640, 3), np.uint8))
print(json.dumps([time.perf_counter() - started, kit.releases]))
"""


def times_s(folder: Path, model: str, runs: int) -> list[float]:
    """Return the times from the program's start to the first result, of `runs` processes."""
    found: list[float] = []
    for _ in range(runs):
        done = subprocess.run(
            [sys.executable, "-c", START, model],
            env={**os.environ, FOLDER: str(folder)},
            capture_output=True,
            text=True,
            check=True,
        )
        took_s, releases = json.loads(done.stdout)
        assert not model or set(releases.values()) == {"1.1"}, releases
        found.append(took_s)
    return found


def prepared(folder: Path, url: str) -> Path:
    """Make a device with release 1.1 of the face detector, whose server is at a URL."""
    devices = Devices(folder)
    content = shipped_model("face_detector").read_bytes()
    devices.published.publish("1.1", content, "face_detector")
    devices.published.offer(Candidate("1.1", 100), model="face_detector")
    client = devices.client()
    client.refresh("face_detector")
    client.mark_ok(client.get("face_detector", "local"))
    # Long since: it is time to ask the server.
    with client.device.state.transaction():
        policy = client.device.state.policy("face_detector")
        assert policy is not None
        client.device.state.save_policy("face_detector", policy[0], policy[1], 0)
    client.close()
    note(folder / "device", [url], b"{}")
    return folder / "device"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        device = prepared(Path(folder), f"http://127.0.0.1:{silent.getsockname()[1]}")
        for model, name in (("", "shipped"), ("face_detector@stable", "delivered")):
            found = times_s(device, model, RUNS)
            print(f"{name:10} best {min(found):.3f} s  middle {statistics.median(found):.3f} s")


if __name__ == "__main__":
    main()
