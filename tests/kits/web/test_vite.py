"""A page that Vite builds has all that it needs of the package: modules, workers and models."""

import subprocess
from pathlib import Path

import pytest

from palmkit import assets
from tests.delivery.page.browser import Browser
from tests.engine.web.package import NODE, PACKAGE, ROOT, needs_package
from tests.kits.web.conftest import Served

VITE = ROOT / "build" / "web" / "npm" / "node_modules" / "vite" / "bin" / "vite.js"

pytestmark = [
    *needs_package,
    pytest.mark.skipif(not VITE.exists(), reason="needs Vite: make build/web/npm/.made"),
]

PAGE = """<!doctype html>
<title>built</title>
<link rel="icon" href="data:," />
<script type="module" src="/main.js"></script>
"""
MAIN = """
import { FaceDetector, TryOn, inWorker } from "palmkit";

const answer = await fetch("./face.jpg");
const picture = await createImageBitmap(await answer.blob());
const [here, there] = await Promise.all([
  TryOn.create({ look: { hair: "#5b2e8c" } }),
  inWorker(FaceDetector, { threads: 2 }),
]);
window.found = [here.wear(picture).faces.length, (await there.detect(picture)).length];
"""


def test_a_page_that_vite_builds(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "palmkit").symlink_to(PACKAGE)
    (tmp_path / "index.html").write_text(PAGE)
    (tmp_path / "main.js").write_text(MAIN)
    (tmp_path / "public").mkdir()
    (tmp_path / "public" / "face.jpg").write_bytes(assets.read("samples/face.jpg"))
    command = [str(NODE), str(VITE), "build", "--logLevel", "warn"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    with Served(tmp_path / "dist") as served:
        browser.open(f"{served.url}/index.html")
        browser.wait("window.found")
        assert browser.run("window.found") == [1, 1]
        # Nothing is taken from beside what was built.
        assert not [line for line in served.asked if "/palmkit/" in line]
    assert browser.problems == []
