"""A server of pages that use PalmKit, for this machine alone.

Below /palmkit/ is the npm package as `make web` builds it. All other addresses are files of one
folder: of pages of one's own, or of those in `try_it`, one for each kit. Every answer has the
headers of a page that is cross-origin isolated, so that threads may share memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from palmkit import assets
from palmkit.engine.errors import PalmError

HOST = "127.0.0.1"
NAMES = ("127.0.0.1", "localhost")
# What browsers insist on; the system's own table may lack some, or have others.
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".jpg": "image/jpeg",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".palm": "application/octet-stream",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".wasm": "application/wasm",
}
ISOLATED = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}
# Of our own pages, which ask nobody else.
CLOSED = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; "
    "worker-src 'self'; connect-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "media-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}
IDLE_S = 60
INDEX = "kits/web/index.js"
TRY_IT = Path(__file__).parent / "try_it"


class Site(NamedTuple):
    """What is served.

    package: the folder of the npm package. pages: a folder of pages, None for those to try kits
    with.
    """

    package: Path
    pages: Path | None = None

    def find(self, path: str) -> Path | None:
        """Return the file at an address without its query, None if there is none."""
        first, _, rest = path.removeprefix("/").partition("/")
        if first == "palmkit":
            return within(self.package, rest)
        if self.pages is not None:
            return within(self.pages, path)
        if first == "samples":
            return within(assets.path("samples/hands.jpg").parent, rest)
        return within(TRY_IT, path)


def within(folder: Path, path: str) -> Path | None:
    """Return the file of a folder at a path, or its index.html if that is a folder.

    path: with slashes, as in an address. None: there is none, or it is elsewhere, also by a link.
    """
    names = [each for each in path.split("/") if each]
    if any(each.startswith(".") or "\\" in each or "\0" in each for each in names):
        return None
    try:
        root = folder.resolve()
        found = root.joinpath(*names).resolve()
        if found.is_dir() and (path.endswith("/") or not names):
            found = (found / "index.html").resolve()
        return found if found.is_file() and found.is_relative_to(root) else None
    except (OSError, ValueError):
        # Of a name that no file can have.
        return None


class Handler(SimpleHTTPRequestHandler):
    """Answers GET and HEAD of a site's files."""

    protocol_version = "HTTP/1.1"
    server_version = "PalmKit"
    sys_version = ""
    timeout = IDLE_S
    # A file follows its headers at once; else it waited 40 ms for the browser to have them.
    disable_nagle_algorithm = True
    extensions_map = TYPES | {"": "application/octet-stream"}

    def __init__(self, *given: object, site: Site, told: Callable[[str], None] | None) -> None:
        """Answer a connection.

        told: is called with a line for each request.
        """
        self._site, self._told = site, told
        super().__init__(*given)  # type: ignore[arg-type]

    def translate_path(self, path: str) -> str:
        """Return the file of a request; it need not be there."""
        found = self._site.find(unquote(urlsplit(path).path))
        return os.devnull + os.sep if found is None else str(found)

    def parse_request(self) -> bool:
        """Refuse requests that name another host: a page elsewhere may let its name lead here."""
        if not super().parse_request():
            return False
        host = self.headers.get("Host", HOST).rpartition(":")[0] or self.headers["Host"]
        if host not in NAMES:
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST, f"expected one of {', '.join(NAMES)}")
            return False
        return True

    def end_headers(self) -> None:
        """End them with those of every answer."""
        for name, value in (ISOLATED | (CLOSED if self._site.pages is None else {})).items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *values: object) -> None:
        """Tell of a request."""
        if self._told:
            self._told(format % values)


def built_package(folder: Path | None = None) -> Path:
    """Return the folder of the npm package.

    folder: where it is said to be; None: where `make web` puts it, in a checkout of PalmKit.
    Raises PalmError if it is not there.
    """
    checkout = Path(__file__).resolve().parents[2]
    found = checkout / "build" / "web" / "palmkit" if folder is None else folder
    if not (found / INDEX).is_file():
        raise PalmError(
            f"expected the package for browsers in {found}, and it is not there: "
            "`make web` in a checkout of PalmKit builds it, --package says where it is"
        )
    return found


def listening(
    site: Site, port: int, told: Callable[[str], None] | None = None
) -> ThreadingHTTPServer:
    """Return a server of a site on this machine, to be run with `serve_forever`.

    port: 0 for one that is free. told: is called with a line for each request.
    Raises PalmError if the port is taken.
    """
    try:
        return ThreadingHTTPServer((HOST, port), partial(Handler, site=site, told=told))
    except OSError as error:
        why = str(error.strerror).lower()
        raise PalmError(f"cannot listen on {HOST} port {port}: {why}") from None
