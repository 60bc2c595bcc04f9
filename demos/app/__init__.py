"""The demo application: a window with a page for each kit. `palmkit-demo`, or `make demo-app`."""

from __future__ import annotations

import os
import sys

# Everything else is imported within `main`, where Ctrl-C ends it silently.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

PAGES = ("face", "portrait", "gesture", "try_on", "feed", "benchmark", "updates")
NEEDED = 'palmkit-demo needs the extra [demos]: pip install "palmkit[demos]"'


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    import argparse

    from palmkit.kits.live import frame_count

    made = argparse.ArgumentParser(
        prog="palmkit-demo", description="Everything PalmKit does, in one window."
    )
    made.add_argument(
        "--source",
        help="sample, drawing, the number of a camera, or a file (first camera or sample)",
    )
    made.add_argument("--page", choices=PAGES, help="the page to begin with (the last one)")
    made.add_argument("--theme", choices=("system", "dark", "light"), help="(the last one)")
    made.add_argument("--repository", metavar="URL", help="of models, such as a palmkit serve")
    made.add_argument("--root", metavar="FILE", help="the repository's root.json")
    made.add_argument("--frames", type=frame_count, metavar="N", help="end after N frames")
    made.add_argument("--headless", action="store_true", help="without a screen")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the application, and return the exit status.

    arguments: None: those of this process, which then does nothing else.
    """
    given = sys.argv[1:] if arguments is None else arguments
    try:
        from palmkit.kits.cli.process import ended
    except BaseException as error:
        # Before Python 3.12, enum, which signal imports, turns it into another error.
        if isinstance(error.__cause__ or error, KeyboardInterrupt):
            return 130
        raise
    return ended(lambda: _run(given), arguments is None)


def _run(arguments: Sequence[str]) -> int:
    from palmkit.kits.cli.process import complain
    from palmkit.kits.screen import INSTALL, has_screen, problem

    options = parser().parse_args(arguments)
    if options.headless:
        os.environ["QT_QPA_PLATFORM"] = "offscreen"
    elif not has_screen():
        complain("palmkit-demo needs a screen (or --headless --frames N)", by="")
        return 1
    try:
        from palmkit.demos.app.application import run
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("PySide6", "shiboken6"):
            raise
        is_missing = isinstance(error, ModuleNotFoundError)
        text = NEEDED if is_missing else f"Qt cannot be loaded: {error}; {INSTALL}"
        complain(text, by="")
        return 1
    if not options.headless and (why := problem()):
        complain(f"palmkit-demo cannot open a window: {why}", by="")
        return 1
    return run(options)
