"""A page in Chromium and Firefox finds faces, in workers with threads too, and wears a look."""

import json
import os
import shutil
import signal
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pillow

from palmkit import kits
from palmkit.kits.image import Image
from palmkit.kits.tryon.look import Look
from tests.delivery.page.browser import program
from tests.engine.web.package import PACKAGE, needs_package
from tests.kits.web.test_kits import column, near

pytestmark = needs_package
HERE = Path(__file__).parent


class Handler(SimpleHTTPRequestHandler):
    """Serves the package and the page, and takes what the page found."""

    def __init__(self, *arguments: Any, own: dict[str, Path], found: "Queue[str]") -> None:
        self.own, self.found = own, found
        super().__init__(*arguments, directory=str(PACKAGE))

    def translate_path(self, path: str) -> str:
        return str(self.own.get(path) or super().translate_path(path))

    def do_POST(self) -> None:
        self.found.put(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.send_response(204)
        self.end_headers()

    def end_headers(self) -> None:
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


def chromium(url: str, profile: Path) -> list[str] | None:
    """Return the command that opens a page, from which nobody else can be reached."""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    flags += ["--no-first-run", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
    command = program()
    return None if command is None else [command, *flags, f"--user-data-dir={profile}", url]


def firefox(url: str, profile: Path) -> list[str] | None:
    command = shutil.which("firefox-esr") or shutil.which("firefox")
    profile.mkdir()
    # A proxy that is not there, for all but this machine.
    proxy = {"type": 1, "http": "127.0.0.1", "http_port": 9, "ssl": "127.0.0.1", "ssl_port": 9}
    settings = {f"network.proxy.{name}": value for name, value in proxy.items()}
    lines = [f"user_pref({json.dumps(k)}, {json.dumps(v)});" for k, v in settings.items()]
    (profile / "user.js").write_text("\n".join(lines))
    flags = ["--headless", "--no-remote", "--profile", str(profile)]
    return None if command is None else [command, *flags, url]


@pytest.fixture(params=[chromium, firefox])
def said(request: pytest.FixtureRequest, astronaut: Image, tmp_path: Path) -> Any:
    Pillow.fromarray(astronaut).save(tmp_path / "picture.png")
    own = {
        "/page.html": HERE / "page.html",
        "/worker.js": HERE / "worker.js",
        "/picture.png": tmp_path / "picture.png",
    }
    found: Queue[str] = Queue()
    handler = partial(Handler, own=own, found=found)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        page = f"http://127.0.0.1:{server.server_address[1]}/page.html"
        command = request.param(page, tmp_path / "profile")
        if command is None:
            pytest.skip(f"there is no {request.param.__name__}")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        quiet = subprocess.DEVNULL
        browser = subprocess.Popen(command, stdout=quiet, stderr=quiet, start_new_session=True)
        try:
            return json.loads(found.get(timeout=120))
        finally:
            os.killpg(browser.pid, signal.SIGKILL)
            browser.wait()
            server.shutdown()


def test_a_page_finds_faces(said: Any, astronaut: Image) -> None:
    assert "error" not in said, said["error"]
    assert said["isolated"] is True
    expected = kits.detect_faces(astronaut, quality="fast")
    for source in ("image", "bitmap", "canvas", "data", "worker"):
        assert isinstance(said[source], list), said[source]
        near(column(said[source], "box"), expected.boxes)
    assert said["empty"] == said["large"] == "PalmError: image"
    assert said["waiting"] == "PalmError: unsupported"
    # The sums of red, green and blue of what is worn are those of Python's pixels.
    look = Look.of(lipstick="#a9142a", hair="#1e6b70")
    worn = kits.try_on(astronaut, look, quality="fast").after.astype(np.int64)
    near(said["worn"], worn.sum(axis=(0, 1)), 200)
    assert said["worn"] == said["workerWorn"]
    assert np.abs(worn.sum(axis=(0, 1)) - astronaut.astype(np.int64).sum(axis=(0, 1))).min() > 2000
