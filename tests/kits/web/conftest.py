"""Chromium with a fake camera, and the pages that `palmkit web` serves."""

import threading
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from palmkit.kits.web.server import Site, listening
from tests.delivery.page.browser import Browser, program
from tests.engine.web.package import PACKAGE
from tests.kits.web import made_camera

ELSEWHERE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"


class Served:
    """A site that is served. asked: a line for each request so far."""

    def __init__(self, pages: Path | None) -> None:
        self.asked: list[str] = []
        self._server = listening(Site(PACKAGE, pages), 0, self.asked.append)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "Served":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def chromium(*flags: str) -> Generator[Browser]:
    """Yield a browser that reaches this machine alone."""
    executable = program()
    if executable is None:
        pytest.skip("needs Chromium (Debian: chromium)")
    browser = Browser(executable, ELSEWHERE, *flags)
    try:
        yield browser
    finally:
        browser.close()


@pytest.fixture(scope="session")
def with_camera(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Yield a browser whose camera shows a drawn face and a drawn hand."""
    with ExitStack() as stack:
        flags = made_camera.write(tmp_path_factory.mktemp("camera") / "camera.y4m")
        yield stack.enter_context(chromium(*flags))


@pytest.fixture
def browser(with_camera: Browser) -> Iterator[Browser]:
    with_camera.size(1280, 900)
    with_camera.scheme("light")
    yield with_camera
    with_camera.send("Page.navigate", url="about:blank")
