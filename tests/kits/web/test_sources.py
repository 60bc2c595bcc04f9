"""Pictures of a page, of every kind: seen as they are, or refused with what to do."""

import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pillow

from palmkit import kits
from palmkit.kits.image import Image
from tests.delivery.page.browser import Browser
from tests.engine.web.package import PACKAGE, needs_package
from tests.kits.web.conftest import Served
from tests.kits.web.test_kits import near

pytestmark = needs_package

PAGE = Path(__file__).with_name("sources.html")
KINDS = ("img", "canvas", "OffscreenCanvas", "ImageBitmap", "ImageData", "VideoFrame", "pixels")
RIGHT, LEFT = [38, 198, 218, 255], [255, 179, 71, 255]
BLACK = [0, 0, 0, 255]


class Plain(SimpleHTTPRequestHandler):
    """Serves a folder, without the headers of a page that is isolated."""

    def end_headers(self) -> None:
        """Let other origins read what is below /open."""
        if self.path.startswith("/open"):
            self.send_header("Access-Control-Allow-Origin", "*")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def plain(folder: Path) -> Generator[str]:
    """Serve a folder at an origin of its own."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Plain, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def enter(browser: Browser, url: str) -> None:
    browser.open(f"{url}/sources.html")
    browser.wait("Boolean(window.kits)")


@pytest.fixture
def folder(astronaut: Image, tmp_path: Path) -> Path:
    (tmp_path / "sources.html").write_text(PAGE.read_text())
    (tmp_path / "open").mkdir()
    for name in ("picture.png", "open/picture.png"):
        Pillow.fromarray(astronaut).save(tmp_path / name)
    return tmp_path


@pytest.fixture
def page(browser: Browser, folder: Path) -> Iterator[Browser]:
    with Served(folder) as served:
        enter(browser, served.url)
        yield browser


def check(said: Any, expected: kits.Faces) -> None:
    """Both kits, of the page and of its worker, found the faces."""
    here, there = said
    near(here, expected.boxes)
    assert there == here


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_picture(kind: str, page: Browser, astronaut: Image) -> None:
    said = page.run(f"load('/picture.png').then(KINDS.{kind}).then(look)")
    check(said, kits.detect_faces(astronaut, quality="fast"))


def test_a_video(page: Browser) -> None:
    """A frame is seen as a canvas shows it."""
    page.run("film()")
    here, there = page.run("look(video)")
    canvas = "canvasOf(Object.assign(video, {width: video.videoWidth, height: video.videoHeight}))"
    shown = page.run(f"look({canvas})")
    assert len(here) == 1 and here == there == shown[0]


def test_a_page_that_is_not_isolated(browser: Browser, folder: Path, astronaut: Image) -> None:
    (folder / "palmkit").symlink_to(PACKAGE)
    with plain(folder) as url, plain(folder) as elsewhere:
        enter(browser, url)
        assert browser.run("crossOriginIsolated") is False
        check(
            browser.run("load('/picture.png').then(look)"),
            kits.detect_faces(astronaut, quality="fast"),
        )
        threads = browser.run("tryOn({threads: 2}).catch(({kind, message}) => [kind, message])")
        assert threads[0] == "unsupported" and "Cross-Origin-Opener-Policy" in threads[1]
        # Pictures of another origin are refused, but for those that it lets others read.
        canvas = "KINDS.canvas"
        for then in ("look", f"({canvas})).then(look"):
            said = browser.run(f"load('{elsewhere}/picture.png').then({then})")
            for each in said:
                assert each.startswith("PalmError image: the picture is of another origin: load")
        said = browser.run(f"load('{elsewhere}/open/picture.png', 'anonymous').then(look)")
        check(said, kits.detect_faces(astronaut, quality="fast"))


NO_CANVAS = "the browser has no canvas for a picture of 65536 x 10: "


@pytest.mark.parametrize(
    ("picture", "refusals"),
    [
        ("drawing(70000, 10)", ["expected at most 65536 pixels a side and 2^28 in all, got 70000"]),
        ("drawing(20000, 20000)", ["expected at most 65536 pixels a side and 2^28 in all, got 2"]),
        ("drawing(65536, 10)", [NO_CANVAS]),
        # What has no pixels by itself cannot be sent to a worker either.
        ("new OffscreenCanvas(65536, 10)", [NO_CANVAS, "the picture cannot be read: await its"]),
    ],
)
def test_pictures_that_are_too_large(
    picture: str, refusals: list[str], page: Browser, astronaut: Image
) -> None:
    here, there = page.run(f"Promise.resolve({picture}).then(look)")
    assert here.startswith(f"PalmError image: {refusals[0]}")
    assert there.startswith(f"PalmError image: {refusals[-1]}")
    assert here.endswith("make it smaller, as by createImageBitmap with resizeWidth")
    assert there.endswith("make it smaller, as by createImageBitmap with resizeWidth")
    # Afterwards the kits are as they were.
    check(page.run("load('/picture.png').then(look)"), kits.detect_faces(astronaut, quality="fast"))


def test_large_pictures_are_seen_whole(page: Browser, astronaut: Image) -> None:
    """A face in the last corner of a picture that is larger than some browsers' canvases."""
    script = """load('/picture.png').then((image) => {
        const canvas = new OffscreenCanvas(9000, 6000);
        canvas.getContext('2d').drawImage(image, 9000 - image.width * 5, 6000 - image.height * 5,
                                          image.width * 5, image.height * 5);
        return look(canvas);
    })"""
    here, there = page.run(script)
    assert len(here) == 1 and here == there
    box = kits.detect_faces(astronaut, quality="fast").boxes[0]
    height, width = astronaut.shape[:2]
    expected = (9000 + 5 * (box[0] - width), 6000 + 5 * (box[1] - height))
    np.testing.assert_allclose(here[0][:2], expected, atol=60)


def test_a_photo_that_lies_on_its_side(page: Browser, folder: Path, astronaut: Image) -> None:
    """It is seen upright, as the browser shows it."""
    photo = Pillow.fromarray(np.ascontiguousarray(np.rot90(astronaut[:, :400])))
    exif = Pillow.Exif()
    exif[0x0112] = 6  # to be turned clockwise
    photo.save(folder / "photo.jpg", exif=exif, quality=95)
    page.run("load('/photo.jpg').then((image) => { window.photo = image; })")
    assert page.run("[photo.naturalWidth, photo.naturalHeight]") == [400, 512]
    expected = kits.detect_faces(astronaut[:, :400], quality="fast").boxes
    for kind in ("img", "ImageBitmap", "canvas"):
        here, there = page.run(f"Promise.resolve(KINDS.{kind}(photo)).then(look)")
        near(here, expected, 3)
        near(there, expected, 3)


def test_faces_are_drawn(page: Browser) -> None:
    face = "{box: [10, 8, 30, 30], keypoints: [20, 20, 0, 0, 0, 0, 0, 0, 0, 0]}"
    edge, point, inside, outside = page.run(
        f"drawn('drawFaces', [{face}], [[25, 8], [20, 20], [30, 30], [60, 40]])"
    )
    # Lines of a pixel between two, and a dot of less than two.
    assert edge[2] > 100 and point[2] > 90 and inside == outside == BLACK
    mesh = "{box: [10, 8, 30, 30], mesh: new Float32Array([30.5, 30.5, 0])}"
    dot, elsewhere = page.run(f"drawn('drawFaces', [{mesh}], [[30, 30], [20, 20]])")
    assert dot[2] > 50 and elsewhere == BLACK


def test_hands_are_drawn(page: Browser) -> None:
    script = """drawn('drawHands', ['left', 'right'].map((handedness, i) => ({
        handedness,
        landmarks: new Float32Array(63).map((_, at) => (at % 3 ? 10 + 25 * i : at)),
    })), [[30, 10], [30, 35], [30, 25]])"""
    assert page.run(script) == [LEFT, RIGHT, BLACK]


def test_masks_are_drawn(page: Browser) -> None:
    mask = "{width: 64, height: 48, mask: new Float32Array(64 * 48).map((_, i) => i % 64 < 32)}"
    inside, outside = page.run(f"drawn('drawMask', {mask}, [[10, 10], [40, 10]])")
    assert outside == BLACK and inside == [19, 99, 109, 255]


def test_what_is_tried_on_is_drawn(page: Browser) -> None:
    after = "{width: 64, height: 48, data: new Uint8ClampedArray(4 * 64 * 48).fill(200)}"
    assert page.run(f"drawn('drawTriedOn', {{after: {after}}}, [[63, 47]])") == [[200] * 4]
