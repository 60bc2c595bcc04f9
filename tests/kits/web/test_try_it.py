"""The pages of `palmkit web`: every kit on a sample, a picture and a camera, on this device alone.

`make soak` sets SOAK_FRAMES: so many frames of the camera are looked at.
"""

import os
import time
from contextlib import nullcontext
from pathlib import Path

import pytest

from palmkit import assets
from tests.delivery.page.browser import WAIT_S, Browser
from tests.engine.web.package import needs_package
from tests.kits.web.conftest import Served, chromium
from tests.kits.web.test_demos import choose

pytestmark = needs_package

FOUND = "document.querySelector('#found').textContent"
PROBLEM = "document.querySelector('#problem:not([hidden])')?.textContent"
PRESSED = "document.querySelector('#camera').getAttribute('aria-pressed')"
# Counts what is drawn: each result clears the canvas by its size.
COUNT = """
    window.drawn = 0;
    const {drawImage} = CanvasRenderingContext2D.prototype;
    CanvasRenderingContext2D.prototype.drawImage = function (...values) {
        ++window.drawn;
        return drawImage.apply(this, values);
    };"""
FRAMES = int(os.environ.get("SOAK_FRAMES", "60"))
WARM_UP = 60
# What is kept at hand; a frame is 1.2 MB, as bitmap and as pixels: a leak would be more.
MOST_GROWTH_BYTES = 20_000_000

ON_SAMPLE = {
    "faces": "1 face.",
    "mesh": "1 mesh.",
    "hands": "2 hands: ",
    "portrait": "People cover 3",
    "hair": "Hair covers ",
    "tryon": "1 face wears it.",
}
ON_CAMERA = {
    "faces": "1 face.",
    "mesh": "1 mesh.",
    "hands": "1 hand: right open palm.",
    "portrait": "People cover ",
    "hair": "Hair covers ",
    "tryon": "1 face wears it.",
}


@pytest.fixture
def pages() -> Served:
    return Served(None)


def enter(browser: Browser, served: Served, kit: str) -> None:
    browser.open(f"{served.url}/?kit={kit}")
    browser.wait(f"{FOUND}.startsWith({ON_SAMPLE[kit]!r})")


@pytest.mark.parametrize("kit", ON_SAMPLE)
def test_a_kit_on_everything_and_nothing_is_asked_for_later(
    kit: str, browser: Browser, pages: Served, tmp_path: Path
) -> None:
    (tmp_path / "none.jpg").write_text("none")
    with pages:
        enter(browser, pages, kit)
        # The kit for the camera comes in a worker of its own.
        browser.wait("navigator.locks.query().then(({held}) => held.length >= 2)")
        models = [line for line in pages.asked if ".palm" in line]
        assert models
        browser.run("window.ready = import('/kits.js')")
        asked = len(pages.asked)
        browser.run(COUNT)
        browser.click("#camera")
        browser.wait(f"{PRESSED} === 'true' && window.drawn >= 5")
        browser.wait(f"{FOUND}.startsWith({ON_CAMERA[kit]!r})")
        choose(browser, tmp_path / "none.jpg")
        browser.wait(f"({PROBLEM} ?? '').startsWith('This file is no picture')")
        assert browser.run(PRESSED) == "false"
        choose(browser, assets.path(f"samples/{'hands' if kit == 'hands' else 'face'}.jpg"))
        browser.wait(f"!({PROBLEM}) && {FOUND}.startsWith({ON_SAMPLE[kit]!r})")
        late = [line for line in pages.asked[asked:] if ".palm" not in line and ".wasm" not in line]
        assert late == []
    # The server is gone, and everything goes on.
    browser.click("#camera")
    browser.wait(f"{PRESSED} === 'true' && {FOUND}.startsWith({ON_CAMERA[kit]!r})")
    browser.click("#sample")
    browser.wait(f"{PRESSED} === 'false' && {FOUND}.startsWith({ON_SAMPLE[kit]!r})")
    assert browser.problems == []


def test_nobody_else_can_be_asked(browser: Browser, pages: Served) -> None:
    with pages:
        enter(browser, pages, "faces")
        asked = "fetch('https://example.org/').then(() => 'sent', (error) => error.message)"
        assert browser.run(asked) == "Failed to fetch"
        assert any("Content Security Policy" in each for each in browser.problems)
        assert {url.split("/")[2] for url in browser.requests if url.startswith("http")} <= {
            pages.url.removeprefix("http://"),
            "example.org",
        }


def test_a_camera_that_is_refused(pages: Served) -> None:
    with pages, chromium("--use-fake-device-for-media-stream") as browser:
        enter(browser, pages, "faces")
        browser.click("#camera")
        browser.wait(f"({PROBLEM} ?? '').startsWith('The camera was refused. Allow it')")
        assert browser.run(PRESSED) == "false"
        browser.click("#sample")
        browser.wait(f"!({PROBLEM}) && {FOUND} === '1 face.'")


def test_no_camera(pages: Served) -> None:
    flags = ("--use-fake-device-for-media-stream=device-count=0", "--use-fake-ui-for-media-stream")
    with pages, chromium(*flags) as browser:
        enter(browser, pages, "faces")
        browser.click("#camera")
        browser.wait(f"({PROBLEM} ?? '').startsWith('There is no camera. Take a picture')")
        assert browser.run(PRESSED) == "false"


def test_a_page_that_is_left_and_comes_back(browser: Browser, pages: Served) -> None:
    with pages:
        enter(browser, pages, "faces")
        browser.click("#camera")
        browser.wait(f"{PRESSED} === 'true'")
        hands, faces = f"{pages.url}/?kit=hands", f"{pages.url}/?kit=faces"
        for url, kit in ((hands, "hands"), (faces, "faces")):
            history = browser.send("Page.getNavigationHistory")
            if url == hands:
                browser.send("Page.navigate", url=url)
            else:
                before = history["entries"][history["currentIndex"] - 1]
                browser.send("Page.navigateToHistoryEntry", entryId=before["id"])
            is_there = f"location.href === {url!r} && document.readyState === 'complete'"
            arrive(browser, f"{is_there} && {FOUND}.startsWith({ON_SAMPLE[kit]!r})")
        assert browser.run("navigator.locks.query().then(({held}) => held.length)") <= 2
    assert browser.problems == []


def test_two_tabs_at_once(browser: Browser, pages: Served) -> None:
    other = browser.new_tab()
    with pages:
        enter(browser, pages, "hands")
        with browser.in_tab(other):
            enter(browser, pages, "tryon")
    # Both on the camera, and without the network; frames are drawn in the one that is in front.
    for tab, kit in ((nullcontext(), "hands"), (browser.in_tab(other), "tryon")):
        with tab:
            browser.send("Page.bringToFront")
            browser.run(COUNT)
            browser.click("#camera")
            browser.wait(f"{PRESSED} === 'true' && {FOUND}.startsWith({ON_CAMERA[kit]!r})")
            browser.wait("window.drawn >= 3")
    browser.send("Page.bringToFront")
    seen = browser.run("window.drawn")
    browser.wait(f"window.drawn >= {seen + 5} && {FOUND} === {ON_CAMERA['hands']!r}")
    with browser.in_tab(other):
        browser.send("Page.close")
    browser.wait(f"window.drawn >= {seen + 10} && {FOUND} === {ON_CAMERA['hands']!r}")
    assert browser.problems == []


def arrive(browser: Browser, script: str) -> None:
    """Wait as Browser.wait does, while one page follows another."""
    ends = time.monotonic() + WAIT_S
    while True:
        try:
            browser.wait(script)
            return
        except AssertionError as error:
            # The page was gone before it could answer.
            if "navigated" not in str(error) and "destroyed" not in str(error):
                raise
            assert time.monotonic() < ends


def test_colours_are_worn_at_once(browser: Browser, pages: Served) -> None:
    mean = """(() => {
        const canvas = document.querySelector('#canvas');
        const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        return [0, 1, 2].map((c) => data.reduce((sum, x, i) => sum + (i % 4 === c) * x, 0));
    })()"""
    with pages:
        enter(browser, pages, "tryon")
        before = browser.run(mean)
        browser.run(COUNT)
        browser.run(
            """{
            const hair = document.querySelector('#hair');
            hair.value = '#1e6b70';
            hair.dispatchEvent(new Event('input'));
        }"""
        )
        browser.wait(f"window.drawn >= 1 && {FOUND} === {ON_SAMPLE['tryon']!r}")
        after = browser.run(mean)
    # From violet to teal.
    assert after[0] < before[0] and after[1] > before[1]


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_memory_stays_the_same(browser: Browser, pages: Served) -> None:
    with pages:
        enter(browser, pages, "portrait")
        browser.run(COUNT)
        look_at(browser, WARM_UP)
        before = browser.memory()
        look_at(browser, FRAMES)
        assert browser.memory() - before < MOST_GROWTH_BYTES


def look_at(browser: Browser, frames: int) -> None:
    """Have so many frames of the camera looked at, and stop; each within the usual time."""
    seen = browser.run("window.drawn")
    until = seen + frames
    browser.click("#camera")
    while seen < until:
        seen = browser.wait(f"window.drawn > {seen} && window.drawn")
    browser.click("#sample")
    browser.wait(f"{FOUND}.startsWith({ON_SAMPLE['portrait']!r})")


@pytest.mark.parametrize("kit", ON_SAMPLE)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pages_serve_everybody(kit: str, scheme: str, browser: Browser, pages: Served) -> None:
    browser.scheme(scheme)
    browser.size(360, 640)
    with pages:
        enter(browser, pages, kit)
        assert browser.run("document.documentElement.scrollWidth") <= 360
        assert browser.contrasts()[0][0] >= 4.5
        back = browser.run("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, back[4:-1].split(", "))) > 380) == (scheme == "light")
        roles: dict[str, list[str]] = {}
        for node in browser.nodes():
            if not node.get("ignored"):
                role = node.get("role", {}).get("value", "")
                roles.setdefault(role, []).append(node.get("name", {}).get("value", ""))
        for role in ("banner", "navigation", "main", "contentinfo", "heading", "status"):
            assert len(roles[role]) == 1, role
        assert roles["button"] == ["Drawn sample", "Camera", "Your picture: No file chosen"] or (
            roles["button"][:2] == ["Drawn sample", "Camera"] and all(roles["button"])
        )
        assert roles["image"] == [browser.run(FOUND)]
        assert browser.run("document.title").startswith(roles["heading"][0])
        colours = ["lipstick", "hair"] * (kit == "tryon")
        expected = ["A"] * (1 + len(ON_SAMPLE)) + ["sample", "camera", "file", *colours]
        focused: list[str] = []
        for _ in expected:
            browser.press("Tab")
            focused.append(browser.focused())
        assert focused == expected
        browser.run("document.querySelector('#camera').focus()")
        browser.press(" ")
        browser.wait(f"{PRESSED} === 'true'")
        assert browser.contrasts()[0][0] >= 4.5
        browser.press("Enter")
        browser.wait(f"{PRESSED} === 'false'")
