"""Kits in workers of their own: the same results, and an error when the worker is gone."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit.kits.image import Image
from tests.delivery.page.browser import Browser
from tests.engine.web.package import NODE, PACKAGE, ROOT, needs_package, node
from tests.kits.web.conftest import Served

pytestmark = needs_package

LOST = "backend: the worker of FaceDetector is gone (it ended): open the kit again"


@pytest.fixture(scope="module")
def found(group: Image, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("in_worker")
    opaque = np.full((*group.shape[:2], 1), 255, np.uint8)
    (folder / "group.rgba").write_bytes(np.concatenate([group, opaque], axis=2).tobytes())
    said: dict[str, Any] = json.loads(node("../../kits/web/in_worker.mjs", folder))
    return said


def test_results_are_those_of_the_kit(found: dict[str, Any], group: Image) -> None:
    assert len(found["here"]) == 2
    assert found["worker"] == found["again"] == found["here"]
    assert found["same"] == group.size // 3 * 4
    assert found["hair"]["subject"] == "hair" and found["hair"]["covered"] > 0.01
    assert found["order"] == [0, 1, 2]


def test_errors_are_those_of_the_kit(found: dict[str, Any]) -> None:
    picture, time, folder, relative, kit, threads, size = found["errors"]
    assert picture == "image: expected 400 bytes of 10 x 10 pixels, got 10"
    assert time == "argument: timestampMs: expected milliseconds, got NaN"
    assert folder.startswith("download: file:///no/such/folder/face_detector.palm: ")
    assert relative == "argument: models: expected a folder's address, got relative"
    assert kit == "argument: expected a kit of this package, got Nothing"
    assert threads == "argument: threads: expected 1 to 256, got 0"
    assert size.startswith("argument: FaceDetector: a worker cannot be sent this: DataCloneError")


def test_a_worker_that_ends_rejects_its_calls(found: dict[str, Any]) -> None:
    assert len(found["lost"]) == 2
    for said in (*found["lost"], found["after"]):
        assert said.startswith(LOST)


def test_a_kit_that_is_closed_rejects_its_calls(found: dict[str, Any]) -> None:
    assert found["closed"] == ["interrupted: the kit is closed"] * 2
    assert found["aborted"] == "interrupted: by hand"


def test_releases_reach_the_worker(found: dict[str, Any]) -> None:
    assert found["updated"] == {
        "failed": [["face_detector", -100]],
        "left": 1,
        "faces": found["here"],
    }
    assert found["broken"] == "download: gone"


@pytest.mark.parametrize(("module", "resolution"), [("esnext", "bundler"), ("node16", "node16")])
def test_types_are_those_of_the_kit(module: str, resolution: str, tmp_path: Path) -> None:
    """A project that has nothing but the package sees all of its types."""
    compiler = ROOT / "build" / "web" / "npm" / "node_modules" / "typescript" / "lib" / "tsc.js"
    if not compiler.is_file():
        pytest.skip("there is no TypeScript: make web")
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "palmkit").symlink_to(PACKAGE)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    shutil.copy(Path(__file__).with_name("types.ts"), tmp_path)
    options = {
        **{"strict": True, "noEmit": True, "target": "es2022", "module": module},
        **{"moduleResolution": resolution, "lib": ["es2022", "dom", "dom.iterable"], "types": []},
    }
    config = tmp_path / "tsconfig.json"
    config.write_text(json.dumps({"compilerOptions": options, "files": ["types.ts"]}))
    command = [str(NODE), str(compiler), "-p", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert not done.returncode, done.stdout


PAGE = """<!doctype html><title>in worker</title><link rel="icon" href="data:,">
<script type="module">
import { FaceDetector, inWorker } from "/palmkit/kits/web/index.js";
window.made = [];
window.Worker = class extends Worker {
  constructor(...values) { super(...values); made.push(this); }
};
window.open_kit = async (options) => { window.kit = await inWorker(FaceDetector, options); };
window.picture = new ImageData(640, 480);
window.said = (call) => call.then(
  (faces) => `${faces.length}`, (error) => `${error.name} ${error.kind}: ${error.message}`);
</script>"""


@pytest.fixture
def page(tmp_path: Path, browser: Browser) -> Any:
    (tmp_path / "index.html").write_text(PAGE)
    with Served(tmp_path) as served:
        browser.open(f"{served.url}/")
        browser.wait("Boolean(window.said)")
        yield browser


@pytest.mark.parametrize("threads", [1, 2])
def test_in_a_page_the_end_of_a_worker_is_noticed(page: Browser, threads: int) -> None:
    page.run(f"open_kit({{threads: {threads}}})")
    assert page.run("said(kit.detect(picture))") == "0"
    # The page goes on while the worker computes.
    beats = """(async () => {
        let beats = 0;
        const timer = setInterval(() => ++beats, 1);
        await kit.detect(new ImageData(3000, 2000));
        clearInterval(timer);
        return beats;
    })()"""
    assert page.run(beats) > 1
    lost = """(async () => {
        const calls = [said(kit.detect(picture)), said(kit.detect(picture))];
        await new Promise(requestAnimationFrame);
        made[0].terminate();
        return Promise.all(calls);
    })()"""
    said = page.run(lost)
    assert said[1].startswith(f"PalmError {LOST}")
    assert page.run("said(kit.detect(picture))") == said[1]
    page.run("open_kit()")
    assert page.run("said(kit.detect(picture))") == "0"
    assert page.problems == []


def test_the_end_of_a_thread_ends_its_kit(page: Browser) -> None:
    # The worker's threads hold locks, whose names begin with its own.
    stolen = """(async () => {
        await open_kit({threads: 3});
        const {held} = await navigator.locks.query();
        const names = held.map(({name}) => name).sort();
        const thread = names.filter((name) => name.startsWith(names[0]) && name !== names[0])[0];
        navigator.locks.request(thread, {steal: true}, () => undefined);
        await new Promise((done) => setTimeout(done, 100));
        return [names.length, await said(kit.detect(picture))];
    })()"""
    count, said = page.run(stolen)
    assert count >= 3 and said.startswith(f"PalmError {LOST}")


def test_pictures_of_a_page(page: Browser) -> None:
    page.run("open_kit()")
    empty = page.run("said(kit.detect(new Image()))")
    assert empty.startswith("PalmError image: the picture is empty, or not loaded yet")
    video = page.run("said(kit.detect(document.createElement('video')))")
    assert video == empty
    canvas = "Object.assign(document.createElement('canvas'), {width: 64, height: 64})"
    for picture in (canvas, f"{canvas}.getContext('2d').getImageData(0, 0, 64, 64)"):
        assert page.run(f"said(kit.detect({picture}))") == "0"
    bitmap = f"createImageBitmap({canvas}).then(async (one) => [await kit.detect(one), one.width])"
    assert page.run(bitmap) == [[], 64]
