"""A process ends in the middle of a change to the disk, or the disk is full: no harm is done.

CRASH_POINTS=all ends it at every one (make crash-sweep); else at some, evenly spread.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from palmkit.delivery import golden
from palmkit.delivery.client import Client
from tests.delivery.devices import model_file
from tests.delivery.releases import make_repository

MODEL = "doubler"
SOME = 10
POINTS = os.environ.get("CRASH_POINTS", "some")

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or shutil.which("cc") is None,
    reason="needs Linux and a C compiler, cc",
)


class Quiet(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("shim") / "deadly.so"
    source = Path(__file__).with_name("deadly.c")
    command = ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", str(source)]
    subprocess.run([*command, "-o", str(library), "-ldl"], check=True)
    return library


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A device with release 1.0.0 active, and a server that offers 2.0.0."""
    folder = tmp_path_factory.mktemp("crashes")
    repository = make_repository(folder, MODEL, "1.0.0", "2.0.0")
    repository.promote(MODEL, "1.0.0")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(repository.public)))
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    baseline = model_file(folder / "baseline.palm", 1)
    (folder / "root.json").write_bytes(repository.root())
    client = Client(
        folder / "template",
        [url],
        repository.root(),
        baselines={MODEL: baseline},
        prove=lambda question: golden.Answer(None),
    )
    client.refresh(MODEL)
    client.mark_ok(client.get(MODEL, "local"))
    client.close()
    repository.promote(MODEL, "2.0.0")
    yield {
        "url": url,
        "root": str(folder / "root.json"),
        "template": str(folder / "template"),
        "baseline": str(baseline),
    }
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("is_full", [False, True], ids=["killed", "full"])
@pytest.mark.parametrize("scenario", ["update", "fail"])
def test_an_end_at_any_change_to_the_disk(
    job: dict[str, Any], shim: Path, scenario: str, is_full: bool
) -> None:
    def sweep(numbers: list[int]) -> list[dict[str, int]]:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.delivery.crash_sweep",
                json.dumps(given | {"numbers": numbers}),
            ],
            env={**os.environ, "LD_PRELOAD": str(shim)},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        errors.append(done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    given = job | {"scenario": scenario, "is_full": is_full}
    errors: list[str] = []
    total = sweep([1])[0]["total"]
    assert total > 100, "the changes are counted"
    some = [1 + round(i * (total - 1) / (SOME - 1)) for i in range(SOME)]
    ends = sweep([] if POINTS == "all" else some)[1:]
    print(f"{scenario}: {len(ends)} of {total} changes")
    assert {end["ended"] for end in ends} == {0 if is_full else -9}, errors[-1][-3000:]
    wrong = [end["number"] for end in ends if end["after"] != 0]
    assert not wrong, f"after an end at change {wrong[0]} of {total}: {errors[-1][-3000:]}"
