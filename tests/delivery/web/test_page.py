"""Pages of one origin share releases in Cache Storage, with the network and without."""

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from palmkit.delivery.repository import Repository
from tests.delivery.page.browser import Browser, program
from tests.delivery.releases import make_repository
from tests.delivery.web.package import needs_delivery
from tests.engine.web.package import PACKAGE

pytestmark = [*needs_delivery, pytest.mark.skipif(program() is None, reason="there is no Chromium")]

OPEN = """
const { Updates } = await import("/palmkit/delivery/web/index.js");
const options = { urls: ["/repository"], root: "/root.json", shipped: {} };
const updates = await Updates.open(options);
"""


# What an app says that wants no code but its own; scripts within its pages have the nonce.
POLICY = (
    "default-src 'self'; script-src 'self' 'nonce-own' 'wasm-unsafe-eval'; worker-src 'self'; "
    "img-src 'self' data:"
)


class Site:
    """An app's origin; `is_offline`: the repository cannot be reached."""

    def __init__(self, repository: Repository, root: Path) -> None:
        self.repository, self.root, self.is_offline = repository, root, False
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, site=self))
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def file(self, path: str) -> Path:
        first, _, rest = path.lstrip("/").partition("/")
        folders = {"palmkit": PACKAGE, "repository": self.repository.public}
        return folders[first] / rest if first in folders else self.root / first


class _Handler(SimpleHTTPRequestHandler):
    def __init__(self, *arguments: Any, site: Site) -> None:
        self.site = site
        super().__init__(*arguments)

    def do_GET(self) -> None:
        if self.site.is_offline and self.path.startswith("/repository"):
            self.close_connection = True
            return
        super().do_GET()

    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", POLICY)
        super().end_headers()

    def translate_path(self, path: str) -> str:
        return str(self.site.file(path))

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    repository = make_repository(tmp_path, "doubler", "1.0.0", "2.0.0")
    repository.promote("doubler", "1.0.0")
    root = tmp_path / "root"
    root.mkdir()
    (root / "root.json").write_bytes(repository.root())
    (root / "page.html").write_text("<!doctype html><title>releases</title>")
    site = Site(repository, root)
    yield site
    site.server.shutdown()
    site.server.server_close()


@pytest.fixture
def browser() -> Iterator[Browser]:
    browser = Browser(str(program()))
    yield browser
    browser.close()


def run(browser: Browser, script: str) -> Any:
    return browser.run(f"(async () => {{ {OPEN} {script} }})()")


def visit(browser: Browser, site: Site) -> None:
    browser.send("Page.navigate", url=f"{site.url}page.html")
    browser.wait("document.title === 'releases' && document.readyState === 'complete'")


def test_releases_outlive_the_page_and_the_network(browser: Browser, site: Site) -> None:
    visit(browser, site)
    assert run(browser, "return [await updates.version('doubler')]") == [None]
    version = "await updates.refresh(['doubler']); return updates.version('doubler')"
    assert run(browser, version) == "1.0.0"
    site.is_offline = True
    visit(browser, site)
    size = "return (await updates.model('doubler')).length"
    first = site.root.parent / "1.0.0" / "model.palm"
    assert run(browser, size) == first.stat().st_size
    code = "return updates.refresh(['doubler']).catch(({ code }) => code)"
    assert run(browser, code) == "check_fail_connect"
    assert run(browser, "return updates.version('doubler')") == "1.0.0"
    # Two at once, as of two tabs, while a release comes.
    site.is_offline = False
    site.repository.promote("doubler", "2.0.0")
    both = """
    const other = await Updates.open(options);
    await Promise.all([updates.refresh(["doubler"]), other.refresh(["doubler"])]);
    return [await updates.version("doubler"), await other.version("doubler")];
    """
    assert run(browser, both) == ["2.0.0", "2.0.0"]
    assert run(browser, "await updates.failed('doubler'); return updates.version('doubler')") == (
        "1.0.0"
    )


def test_a_damaged_cache_is_no_release(browser: Browser, site: Site) -> None:
    visit(browser, site)
    run(browser, "await updates.refresh(['doubler'])")
    damaged = """
    for (const name of await caches.keys()) {
      const cache = await caches.open(name);
      for (const request of await cache.keys()) {
        await cache.put(request, new Response("damaged"));
      }
    }
    return [await updates.version("doubler")];
    """
    assert run(browser, damaged) == [None]
    version = "await updates.refresh(['doubler']); return updates.version('doubler')"
    assert run(browser, version) == "1.0.0"
