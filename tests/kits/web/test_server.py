"""The server of `palmkit web`: what it serves, to whom, and what it says otherwise."""

import http.client
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from palmkit.engine.errors import PalmError
from palmkit.kits.web.server import TRY_IT, Site, built_package, listening


@contextmanager
def running(site: Site, told: list[str] | None = None) -> Generator[int]:
    """Serve in a thread, and yield the port."""
    with listening(site, 0, None if told is None else told.append) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()


def ask(
    port: int, path: str, method: str = "GET", host: str | None = None
) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.putrequest(method, path, skip_host=True)
        connection.putheader("Host", host or f"127.0.0.1:{port}")
        connection.endheaders()
        answer = connection.getresponse()
        return answer, answer.read()
    finally:
        connection.close()


@pytest.fixture
def package(tmp_path: Path) -> Path:
    made = tmp_path / "outside" / "package"
    files = {"kits/web/index.js": "//", "kits/web/a.wasm": "\0asm", "models/a.palm": "PALM"}
    for name, content in files.items():
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(content)
    (made.parent / "secret.txt").write_text("secret")
    return made


@pytest.fixture
def port(package: Path) -> Iterator[int]:
    with running(Site(package)) as port:
        yield port


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html; charset=utf-8"),
        ("/?kit=hands", "text/html; charset=utf-8"),
        ("/try_it.js", "text/javascript; charset=utf-8"),
        ("/try_it.css", "text/css; charset=utf-8"),
        ("/samples/face.jpg", "image/jpeg"),
        ("/palmkit/kits/web/index.js", "text/javascript; charset=utf-8"),
        ("/palmkit/kits/web/a.wasm", "application/wasm"),
        ("/palmkit/models/a.palm", "application/octet-stream"),
    ],
)
def test_files_have_their_types_and_pages_are_isolated(port: int, path: str, kind: str) -> None:
    for method in ("GET", "HEAD"):
        answer, content = ask(port, path, method)
        assert answer.status == 200 and bool(content) == (method == "GET")
        assert answer.headers["Content-Type"] == kind
        assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert answer.headers["Cross-Origin-Embedder-Policy"] == "require-corp"
        assert "connect-src 'self'" in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    "path",
    [
        "/nothing.html",
        "/palmkit",
        "/palmkit/",
        "/palmkit/kits",
        "/palmkit/../secret.txt",
        "/palmkit/%2e%2e/secret.txt",
        "/palmkit/..%2fsecret.txt",
        "/palmkit/..%5csecret.txt",
        "//secret.txt",
        "/palmkit//../secret.txt",
        "/palmkit/a%00.js",
        "/palmkit/link.txt",
        "/palmkit/" + "a" * 5000,
        "/samples/../__init__.py",
        "/%ff%fe",
    ],
)
def test_nothing_else_is_served(port: int, package: Path, path: str) -> None:
    (package / "link.txt").symlink_to(package.parent / "secret.txt")
    answer, content = ask(port, path)
    assert answer.status == 404
    assert b"secret\n" not in content and content != b"secret"
    assert answer.headers["Cross-Origin-Embedder-Policy"] == "require-corp"


def test_other_methods_and_other_hosts_are_refused(port: int) -> None:
    assert ask(port, "/", "POST")[0].status == 501
    assert ask(port, "/", host="localhost")[0].status == 200
    for host in ("evil.example", f"evil.example:{port}", f"127.0.0.1.evil.example:{port}"):
        answer, content = ask(port, "/", host=host)
        assert answer.status == 421 and b"<main" not in content


def test_pages_of_ones_own(package: Path, tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "mine.html").write_text("mine")
    told: list[str] = []
    with running(Site(package, tmp_path / "pages"), told) as port:
        answer, content = ask(port, "/mine.html")
        assert content == b"mine" and "Content-Security-Policy" not in answer.headers
        assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert ask(port, "/palmkit/kits/web/a.wasm")[0].status == 200
        assert ask(port, "/")[0].status == 404
        assert ask(port, "/try_it.js")[0].status == 404
    assert told[0] == '"GET /mine.html HTTP/1.1" 200 -'


def test_every_file_of_the_pages_has_a_type(package: Path) -> None:
    for path in TRY_IT.iterdir():
        assert Site(package).find(f"/{path.name}") == path.resolve()


def test_a_package_that_is_not_built_says_how(tmp_path: Path) -> None:
    with pytest.raises(PalmError, match="and it is not there: `make web`"):
        built_package(tmp_path)


def test_a_port_that_is_taken(package: Path, port: int) -> None:
    with pytest.raises(PalmError, match=f"cannot listen on 127.0.0.1 port {port}: address"):
        listening(Site(package), port)


def palmkit_web(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "palmkit", "web", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_the_command_says_in_one_line_what_is_wrong(tmp_path: Path, package: Path) -> None:
    done = palmkit_web("--package", tmp_path)
    assert done.returncode == 1 and "make web" in done.stderr and done.stderr.count("\n") == 1
    done = palmkit_web(tmp_path / "none", "--package", package)
    assert done.returncode == 2 and "expected a folder of pages, got" in done.stderr
    done = palmkit_web("--port", "70000")
    assert done.returncode == 2 and "expected a port" in done.stderr


def test_the_command_serves_and_says_where(package: Path) -> None:
    command = [sys.executable, "-m", "palmkit", "web", "--port", "0", "--verbose"]
    with subprocess.Popen(
        [*command, "--package", str(package)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout and process.stderr
        try:
            url = process.stdout.readline().strip()
            port = int(url.removeprefix("http://127.0.0.1:").removesuffix("/"))
            assert ask(port, "/palmkit/models/a.palm")[1] == b"PALM"
            assert process.stderr.readline() == '"GET /palmkit/models/a.palm HTTP/1.1" 200 -\n'
        finally:
            process.terminate()
