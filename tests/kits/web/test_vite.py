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
# Of the script of a page with one kit, which is bundled and minified.
MOST_BYTES = 25_000
ONE = """
import { FaceDetector } from "palmkit";

window.detector = await FaceDetector.create();
"""


def build(folder: Path, main: str) -> None:
    """Have Vite build a page with this script."""
    (folder / "node_modules").mkdir()
    (folder / "node_modules" / "palmkit").symlink_to(PACKAGE)
    (folder / "index.html").write_text(PAGE)
    (folder / "main.js").write_text(main)
    command = [str(NODE), str(VITE), "build", "--logLevel", "warn"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_page_that_vite_builds(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "public").mkdir()
    (tmp_path / "public" / "face.jpg").write_bytes(assets.read("samples/face.jpg"))
    build(tmp_path, MAIN)
    with Served(tmp_path / "dist") as served:
        browser.open(f"{served.url}/index.html")
        browser.wait("window.found")
        assert browser.run("window.found") == [1, 1]
        # Nothing is taken from beside what was built.
        assert not [line for line in served.asked if "/palmkit/" in line]
    assert browser.problems == []


def test_a_page_of_one_kit_has_no_other(browser: Browser, tmp_path: Path) -> None:
    build(tmp_path, ONE)
    (script,) = (tmp_path / "dist" / "assets").glob("index*.js")
    text = script.read_text()
    assert "palm_kits_faces_create" in text
    for other in ("meshes", "hands", "portrait", "hair", "try_on"):
        assert f"palm_kits_{other}" not in text, other
    assert len(text) < MOST_BYTES
    with Served(tmp_path / "dist") as served:
        browser.open(f"{served.url}/index.html")
        browser.wait("window.detector")
        loaded = sorted(line.split()[1].rpartition("/")[2] for line in served.asked)
    kinds = [name.partition("-")[0] for name in loaded if name.endswith((".wasm", ".palm"))]
    assert kinds == ["face_detector", "palm_kits_faces", "palm_wasm_relaxed"]
    assert browser.problems == []
