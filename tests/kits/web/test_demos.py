"""The pages of demos/web find what is to be found, and say what is wrong."""

from pathlib import Path

import pytest

from palmkit import assets
from tests.delivery.page.browser import Browser
from tests.engine.web.package import ROOT, needs_package
from tests.kits.web.conftest import Served, chromium

pytestmark = needs_package

DEMOS = ROOT / "demos" / "web"
PAGES = sorted(path.name for path in DEMOS.glob("*.html"))
MOST_LINES = 60
SAID = "document.querySelector('#said').textContent"
# The middle of what the canvas shows.
PIXELS = """(() => {
    const {canvas} = window, {width, height} = canvas;
    const {data} = canvas.getContext('2d').getImageData(0, 0, width, height);
    return [width, height, data.reduce((sum, value) => sum + value, 0) / data.length];
})()"""


@pytest.fixture
def demos() -> "Served":
    return Served(DEMOS)


def choose(browser: Browser, file: Path) -> None:
    """Give a page's input a file, as its dialog does."""
    root = browser.send("DOM.getDocument")["root"]["nodeId"]
    node = browser.send("DOM.querySelector", nodeId=root, selector="input[type=file]")["nodeId"]
    browser.send("DOM.setFileInputFiles", nodeId=node, files=[str(file)])


def test_faces_in_a_picture(browser: Browser, demos: Served, tmp_path: Path) -> None:
    (tmp_path / "no_picture.jpg").write_text("none")
    with demos:
        browser.open(f"{demos.url}/faces.html")
        choose(browser, assets.path("samples/face.jpg"))
        browser.wait(f"{SAID} === 'One face.'")
        assert browser.run(PIXELS)[:2] == [640, 480]
        choose(browser, assets.path("samples/hands.jpg"))
        browser.wait(f"{SAID} === 'No faces.'")
        choose(browser, tmp_path / "no_picture.jpg")
        browser.wait(f"{SAID}.startsWith('This file is no picture')")
    assert browser.problems == []


def test_hands_of_the_camera(browser: Browser, demos: Served) -> None:
    with demos:
        browser.open(f"{demos.url}/hands.html")
        browser.run("document.querySelector('#start').focus()")
        browser.press("Enter")
        browser.wait(f"{SAID} === 'right: open_palm'")
        assert browser.run(PIXELS)[:2] == [640, 480]
    assert browser.problems == []


def test_what_is_behind_people_is_blurred(browser: Browser, demos: Served) -> None:
    with demos:
        browser.open(f"{demos.url}/portrait.html")
        browser.click("#start")
        browser.wait(f"{SAID} === 'Live.' && canvas.width === 640")
        browser.wait(f"{PIXELS}[2] > 60")
    assert browser.problems == []


@pytest.mark.parametrize("page", ["hands.html", "portrait.html"])
def test_a_camera_that_is_refused(page: str, demos: Served) -> None:
    # Without somebody to ask, Chromium refuses.
    with demos, chromium("--use-fake-device-for-media-stream") as browser:
        browser.open(f"{demos.url}/{page}")
        browser.click("#start")
        browser.wait(f"{SAID} === 'The camera was refused: allow it for this page.'")
        assert browser.run("document.querySelector('#start').disabled") is False


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_demos_are_short_and_serve_everybody(
    page: str, scheme: str, browser: Browser, demos: Served
) -> None:
    text = (DEMOS / page).read_text()
    assert len(text.splitlines()) < MOST_LINES and f"8000/{page}" in text
    browser.scheme(scheme)
    browser.size(360, 640)
    with demos:
        browser.open(f"{demos.url}/{page}")
        assert browser.run("document.documentElement.scrollWidth") <= 360
        back = browser.run("getComputedStyle(document.documentElement).colorScheme")
        assert back == "light dark"
        assert browser.contrasts()[0][0] >= 4.5
        browser.press("Tab")
        assert browser.focused() in ("start", "file")
        names = {
            node["role"]["value"]: node["name"]["value"]
            for node in browser.nodes()
            if not node.get("ignored") and "name" in node
        }
        assert names["image"] and names["heading"] == names["RootWebArea"]
