"""A page in Chromium finds faces, alone and in a worker with threads, and asks nobody else."""

import json
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from PIL import Image as Pillow

from palmkit import kits
from palmkit.kits.image import Image
from tests.delivery.page.browser import program
from tests.engine.web.package import PACKAGE, needs_package
from tests.kits.web.test_kits import column, near

pytestmark = [*needs_package, pytest.mark.skipif(program() is None, reason="there is no Chromium")]
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


@pytest.fixture
def said(astronaut: Image, tmp_path: Path) -> Any:
    Pillow.fromarray(astronaut).save(tmp_path / "picture.png")
    own = {
        "/page.html": HERE / "page.html",
        "/worker.js": HERE / "worker.js",
        "/picture.png": tmp_path / "picture.png",
    }
    found: Queue[str] = Queue()
    handler = partial(Handler, own=own, found=found)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = f"http://127.0.0.1:{server.server_address[1]}/page.html"
        # Nothing else can be reached: a request to it would fail.
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        flags += ["--no-first-run", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
        browser = subprocess.Popen(
            [str(program()), *flags, f"--user-data-dir={tmp_path / 'profile'}", page],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            return json.loads(found.get(timeout=120))
        finally:
            browser.kill()
            browser.wait()
            server.shutdown()


def test_a_page_finds_faces(said: Any, astronaut: Image) -> None:
    assert "error" not in said, said["error"]
    assert said["isolated"] is True
    expected = kits.detect_faces(astronaut)
    for source in ("image", "bitmap", "canvas", "worker"):
        assert isinstance(said[source], list), said[source]
        near(column(said[source], "box"), expected.boxes)
    assert said["empty"] == "PalmError: image"
    assert said["waiting"] == "PalmError: unsupported"
