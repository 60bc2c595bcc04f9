"""palmkit web: pages with the kits, in the browser of this machine."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from palmkit.kits.cli.command import Commands, UsageError, add_command
from palmkit.kits.cli.process import complain
from palmkit.kits.cli.serve import port

DESCRIPTION = """\
Serve pages that run the kits in the browser: without FOLDER one for each kit to try, with a camera,
a picture of yours or a drawn one; with it your own pages, which find PalmKit below /palmkit/.

Everything is computed in the browser; only this machine can reach the server. It needs the npm
package that `make web` builds in a checkout of PalmKit. Ctrl-C ends it."""
EXAMPLES = """\
  palmkit web                        http://127.0.0.1:8000/, a page for each kit
  palmkit web demos/web --port 8001  pages of one's own
"""


def add(commands: Commands) -> None:
    """Describe the command."""
    parser = add_command(
        commands,
        "web",
        run,
        help="try the kits in the browser, or serve pages that use them",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    parser.add_argument(
        "folder", metavar="FOLDER", nargs="?", type=Path, help="a folder of pages of yours"
    )
    parser.add_argument("--port", type=port, default=8000, help="port; 0: a free one (8000)")
    parser.add_argument(
        "--package", metavar="DIR", type=Path, help="the npm package (build/web/palmkit)"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="print every request")


def run(options: argparse.Namespace) -> int:
    """Serve until interrupted."""
    from palmkit.kits.web.server import HOST, Site, built_package, listening

    if options.folder is not None and not options.folder.is_dir():
        raise UsageError(f"expected a folder of pages, got {options.folder}")
    site = Site(built_package(options.package), options.folder)
    told = partial(complain, by="") if options.verbose else None
    with listening(site, options.port, told) as server:
        print(f"http://{HOST}:{server.server_port}/", flush=True)
        server.serve_forever()
    return 0
