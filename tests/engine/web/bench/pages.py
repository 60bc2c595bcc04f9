"""Pages in Chromium that open engines and time them."""

from __future__ import annotations

import base64
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import quote

import numpy as np

from palmkit.engine.bench.comparison import Subject
from palmkit.engine.ir import Array
from palmkit.kits.web.server import Site, listening
from tests.delivery.page.browser import Browser, program
from tests.engine.web.bench.contenders import Contender, input_urls
from tests.engine.web.bench.metadata import with_metadata
from tests.engine.web.package import PACKAGE

HERE = Path(__file__).parent
# Scripts of `page`, each of which a page of its own runs: page.html with its name.
SCRIPTS = ("bench", "first")
FIRST_S = 60.0


class Failed(Exception):
    """An engine that could not open a network or run it, and why."""


class Pages:
    """A browser and what it is served."""

    def __init__(self, browser: Browser, url: str, folder: Path) -> None:
        """Use a browser. folder: what is served below /run/."""
        self._browser, self._url, self._folder = browser, url, folder

    def put(self, subject: Subject) -> str:
        """Have a network's files and inputs served; return their folder's address."""
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        for form, file in subject.files.items():
            content = file.read_bytes()
            if form == "tflite":
                content = with_metadata(content, Path(subject.name).stem)
            (folder / f"model.{form}").write_bytes(content)
        address = f"/run/{folder.name}"
        for url, array in zip(input_urls(subject, address), subject.inputs.values(), strict=True):
            (folder / url.rpartition("/")[2]).write_bytes(array.tobytes())
        return address

    def renew(self) -> None:
        """Open an empty page for the turns, without what was opened before."""
        self._browser.open(f"{self._url}/bench.html")
        self._browser.wait("globalThis.bench !== undefined")

    def open(self, contender: Contender, job: dict[str, Any]) -> list[tuple[str, Array]] | None:
        """Open an engine in the page; return what it finds, None if it does not show it.

        Raises Failed.
        """
        names = json.dumps([contender.name, contender.module, job])
        found = self._run(f"bench.open(...{names})")
        if found is None:
            return None
        return [
            (
                each["name"],
                np.frombuffer(base64.b64decode(each["data"]), each["dtype"]).reshape(each["dims"]),
            )
            for each in found
        ]

    def times(self, contender: Contender, ms: float) -> list[float]:
        """Return the seconds of each run of an engine that is open. Raises Failed."""
        found = self._run(f"bench.time({json.dumps(contender.name)}, {ms})")
        return [each * 1e-3 for each in found]

    def _run(self, script: str) -> Any:
        try:
            return self._browser.run(script)
        except (AssertionError, TimeoutError) as error:
            raise Failed(_said(error)) from error

    def first(self, contender: Contender, job: dict[str, Any]) -> float:
        """Return the milliseconds from opening a page to its first results; Raises Failed.

        The page has a profile of its own: nothing of it was downloaded or compiled before.
        """
        send = self._browser.send_to
        context = send(None, "Target.createBrowserContext")["browserContextId"]
        try:
            target = send(None, "Target.createTarget", url="about:blank", browserContextId=context)[
                "targetId"
            ]
            session = send(None, "Target.attachToTarget", targetId=target, flatten=True)[
                "sessionId"
            ]
            about = quote(json.dumps({"module": contender.module, "job": job}))
            send(session, "Page.navigate", url=f"{self._url}/first.html#{about}")
            ends = time.monotonic() + FIRST_S
            while time.monotonic() < ends:
                # Seldom, as it takes time from the page.
                time.sleep(0.05)
                found = send(
                    session, "Runtime.evaluate", expression="globalThis.first", returnByValue=True
                )["result"].get("value")
                if found:
                    break
            else:
                raise Failed(f"no result of a page in {FIRST_S:g} s")
        finally:
            send(None, "Target.disposeBrowserContext", browserContextId=context)
        if "error" in found:
            raise Failed(found["error"])
        return float(found["ms"])


def _said(error: Exception) -> str:
    details: Any = error.args[0] if error.args else ""
    if isinstance(details, str):
        said = details
    else:
        thrown = details.get("exception", {})
        said = str(thrown.get("description") or thrown.get("value") or details.get("text", ""))
    return said.splitlines()[0] if said else type(error).__name__


@contextmanager
def opened(peers: Path) -> Generator[Pages]:
    """Yield pages.

    peers: a folder with node_modules, and in `build` our modules for networks that are not shipped;
    files are put there meanwhile.
    """
    executable = program()
    if executable is None:
        raise SystemExit("make bench-web: needs Chromium (Debian: chromium)")
    with tempfile.TemporaryDirectory(dir=peers, prefix="pages-") as name:
        site = Path(name)
        shutil.copytree(HERE / "page", site, dirs_exist_ok=True)
        page = Template((HERE / "page.html").read_text())
        for script in SCRIPTS:
            (site / f"{script}.html").write_text(page.substitute(script=script))
        shutil.copytree(peers / "node_modules", site / "node_modules", copy_function=os.link)
        (site / "run").mkdir()
        (site / "modules").mkdir()
        for each in (peers / "build").glob("*.wasm"):
            shutil.copy(each, site / "modules")
        server = listening(Site(PACKAGE, site), 0)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = Browser(executable, "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")
        try:
            url = f"http://127.0.0.1:{server.server_port}"
            yield Pages(browser, url, site / "run")
        finally:
            browser.close()
            server.shutdown()
            server.server_close()
