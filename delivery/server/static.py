"""The static repository as HTTP: only what devices ask for, with the cache headers of a CDN.

An ETag is derived from the content, so that a download that one replica or mirror began can be
resumed at another.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
from datetime import datetime
from pathlib import Path
from typing import ClassVar

import anyio
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

METADATA = re.compile(r"(?:timestamp|[0-9]{1,10}\.[A-Za-z0-9_-]{1,128})\.json", re.ASCII)
TARGET = re.compile(r"([0-9a-f]{64})\.[0-9A-Za-z][0-9A-Za-z._+-]{0,160}", re.ASCII)
FOLDER = re.compile(r"(?:models/[a-z][a-z0-9_]{0,63}|rollout)", re.ASCII)

FOREVER = "public, max-age=31536000, immutable"
FRESH = "public, max-age=60"
# A device asks for the next root until there is none.
NO_ROOT_YET = "public, max-age=300"


class Static:
    """Answers GET and HEAD of files below metadata/ and targets/ of a folder."""

    def __init__(self, folder: Path) -> None:
        """Serve a folder.

        folder: the public part of a repository.
        """
        self._folder = folder

    def timestamp_left_s(self, now: float) -> float | None:
        """Return how many seconds devices will believe timestamp.json; None without one."""
        try:
            content = json.loads((self._folder / "metadata" / "timestamp.json").read_bytes())
        except FileNotFoundError:
            return None
        expires = datetime.fromisoformat(content["signed"]["expires"].replace("Z", "+00:00"))
        return expires.timestamp() - now

    async def metadata(self, request: Request) -> Response:
        """Answer with a whole metadata file: they are small, and timestamp.json is replaced."""
        name: str = request.path_params["name"]
        if not METADATA.fullmatch(name):
            raise HTTPException(404)
        try:
            content = await anyio.Path(self._folder / "metadata" / name).read_bytes()
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENAMETOOLONG):
                raise
            root = name.endswith(".root.json")
            raise HTTPException(
                404, headers={"cache-control": NO_ROOT_YET} if root else None
            ) from None
        headers = {
            "cache-control": FRESH if name == "timestamp.json" else FOREVER,
            "etag": f'"{hashlib.sha256(content).hexdigest()}"',
        }
        if _has(request, headers["etag"]):
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type="application/json")

    async def target(self, request: Request) -> Response:
        """Answer with a target file or ranges of it."""
        folder, _, name = str(request.path_params["path"]).rpartition("/")
        named = TARGET.fullmatch(name)
        if not named or not FOLDER.fullmatch(folder):
            raise HTTPException(404)
        headers = {"cache-control": FOREVER, "etag": f'"{named[1]}"'}
        path = anyio.Path(self._folder / "targets" / folder / name)
        if not await path.is_file():
            raise HTTPException(404)
        if _has(request, headers["etag"]):
            return Response(status_code=304, headers=headers)
        return Download(
            path,
            headers=headers,
            stat_result=await path.stat(),
            media_type="application/octet-stream",
        )


class Download(FileResponse):
    """A file that is read no further when nobody is there to receive it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file."""
        async with anyio.create_task_group() as group:
            group.start_soon(_until_gone, receive, group.cancel_scope)
            await super().__call__(scope, receive, send)
            group.cancel_scope.cancel()


async def _until_gone(receive: Receive, sending: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    sending.cancel()


def _has(request: Request, etag: str) -> bool:
    """Return whether the client already has this content."""
    known = request.headers.get("if-none-match", "")
    return known.strip() == "*" or etag in [
        each.strip().removeprefix("W/") for each in known.split(",")
    ]


class Page(StaticFiles):
    """The web page: files beside this one, which may load nothing from elsewhere."""

    HEADERS: ClassVar = {
        "cache-control": "no-cache",
        "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; "
        "connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
    }

    def __init__(self) -> None:
        """Serve the files beside this one."""
        super().__init__(directory=Path(__file__).parent / "page", check_dir=False)

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Answer with a file of the page, index.html for the folder itself.

        Starlette's own handling of folders (html=True) redirects to the Host that a request names.
        """
        is_folder = path == "." and scope["path"].endswith("/")
        response = await super().get_response("index.html" if is_folder else path, scope)
        response.headers.update(self.HEADERS)
        return response
