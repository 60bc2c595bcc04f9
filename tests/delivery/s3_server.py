"""A small server of the part of S3 that a repository uses, over HTTP, in this process."""

from __future__ import annotations

import base64
import hashlib
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

PAGE = 5
WHEN = "2026-01-01T00:00:00.000Z"


@dataclass
class Bucket:
    """Stored objects, received requests, and the requests that are to fail."""

    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    headers: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    order: list[str] = field(default_factory=list[str])
    # How many puts are answered with 500 after they were done, so that they are sent again.
    lose_answers: int = 0
    url: str = ""


def etag(content: bytes) -> str:
    return f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'


class Handler(BaseHTTPRequestHandler):
    """GET, HEAD, PUT and DELETE of objects with conditions, and ListObjectsV2 in pages."""

    bucket: Bucket
    protocol_version = "HTTP/1.1"
    # Head and body in one packet, else each answer waits for an acknowledgement.
    wbufsize = 1 << 16

    def log_message(self, format: str, *args: object) -> None:
        pass

    def handle_expect_100(self) -> bool:
        going_on = super().handle_expect_100()
        self.wfile.flush()
        return going_on

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", headers.get("Length", str(len(body))))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def fail(self, status: int, code: str) -> None:
        body = f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
        self.answer(status, body, Content_Type="application/xml")

    @property
    def key(self) -> str:
        return unquote(urlsplit(self.path).path).split("/", 2)[2]

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        if "list-type" in query:
            self.list(query)
        elif self.key not in self.bucket.files:
            self.fail(404, "NoSuchKey")
        else:
            content = self.bucket.files[self.key]
            self.answer(200, content, ETag=etag(content))

    def do_HEAD(self) -> None:
        if self.key not in self.bucket.files:
            self.answer(404)
        else:
            content = self.bucket.files[self.key]
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("ETag", etag(content))
            self.end_headers()

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        old = self.bucket.files.get(self.key)
        digest = base64.b64encode(hashlib.sha256(content).digest()).decode()
        if self.headers["x-amz-checksum-sha256"] != digest:
            self.fail(400, "BadDigest")
        elif (
            self.headers["If-None-Match"] == "*"
            and old is not None
            or self.headers["If-Match"]
            and self.headers["If-Match"] != etag(old or b"")
        ):
            self.fail(412, "PreconditionFailed")
        else:
            self.bucket.files[self.key] = content
            self.bucket.headers[self.key] = dict(self.headers.items())
            self.bucket.order.append(self.key)
            if self.bucket.lose_answers:
                self.bucket.lose_answers -= 1
                self.fail(500, "InternalError")
            else:
                self.answer(200, ETag=etag(content))

    def do_DELETE(self) -> None:
        self.bucket.files.pop(self.key, None)
        self.answer(204)

    def list(self, query: dict[str, list[str]]) -> None:
        prefix = query.get("prefix", [""])[0]
        after = query.get("continuation-token", [""])[0]
        names = sorted(
            name for name in self.bucket.files if name.startswith(prefix) and name > after
        )
        shown = names[:PAGE]
        parts = [
            f"<Contents><Key>{escape(name)}</Key><Size>{len(self.bucket.files[name])}</Size>"
            f"<LastModified>{WHEN}</LastModified></Contents>"
            for name in shown
        ]
        more = len(names) > PAGE
        parts.append(f"<IsTruncated>{str(more).lower()}</IsTruncated>")
        if more:
            parts.append(f"<NextContinuationToken>{escape(shown[-1])}</NextContinuationToken>")
        body = f"<ListBucketResult>{''.join(parts)}</ListBucketResult>".encode()
        self.answer(200, body, Content_Type="application/xml")


@contextmanager
def serve_bucket() -> Generator[Bucket]:
    """Serve a bucket over HTTP; its `url` is what a repository takes."""
    bucket = Bucket()
    handler = type("BoundHandler", (Handler,), {"bucket": bucket})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    bucket.url = f"s3://models/v1?endpoint_url={endpoint}&region_name=us-east-1"
    try:
        yield bucket
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
