"""The pages of `palmkit web` and demos/web keep the rules of axe-core, which Lighthouse asks."""

from pathlib import Path

import pytest

from tests.delivery.page.browser import Browser
from tests.engine.web.package import ROOT, needs_package
from tests.kits.web.conftest import Served
from tests.kits.web.test_demos import DEMOS, PAGES
from tests.kits.web.test_try_it import ON_SAMPLE, enter

AXE = ROOT / "build" / "web" / "npm" / "node_modules" / "axe-core" / "axe.min.js"

pytestmark = [
    *needs_package,
    pytest.mark.skipif(not AXE.exists(), reason="needs axe-core: make build/web/npm/.made"),
]

# What breaks a rule: the name of that, and the element.
BROKEN = """axe.run(document).then(({violations, passes}) => {
    if (passes.length < 5) return ["nothing was looked at"];
    return violations.flatMap(({id, nodes}) => nodes.map(({html}) => `${id}: ${html}`));
})"""


def broken(browser: Browser) -> list[str]:
    browser.run(f"{AXE.read_text(encoding='utf-8')}; 0")
    found: list[str] = browser.run(BROKEN)
    return found


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kit", ON_SAMPLE)
def test_pages_of_kits(kit: str, scheme: str, width: int, browser: Browser) -> None:
    browser.scheme(scheme)
    browser.size(width, 800)
    with Served(None) as pages:
        enter(browser, pages, kit)
        assert broken(browser) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_demos(page: str, scheme: str, browser: Browser) -> None:
    browser.scheme(scheme)
    with Served(DEMOS) as pages:
        browser.open(f"{pages.url}/{page}")
        assert broken(browser) == []


def test_what_is_broken_is_told(browser: Browser, tmp_path: Path) -> None:
    page = "<!doctype html><title>one</title><main><h1>One</h1><p>Two</p><input></main>"
    (tmp_path / "page.html").write_text(page)
    with Served(tmp_path) as pages:
        browser.open(f"{pages.url}/page.html")
        told = broken(browser)
    assert any(each.startswith("label: ") for each in told)
    assert any(each.startswith("html-has-lang: ") for each in told)
