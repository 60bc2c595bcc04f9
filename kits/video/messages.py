"""What is told of videos that do not end in an error: on the logger `palmkit.kits`."""

from __future__ import annotations

import logging

_log = logging.getLogger("palmkit.kits")
_told: set[str] = set()


def say(message: str) -> None:
    """Log a warning; without a handler of the app, Python shows it on standard error."""
    from palmkit.kits.cli.process import one_line

    _log.warning("%s", one_line(message))


def say_once(message: str) -> None:
    """Log a warning, the first time in this process."""
    if message not in _told:
        _told.add(message)
        say(message)


def note_once(message: str) -> None:
    """Log for information, the first time in this process."""
    if message not in _told:
        _told.add(message)
        _log.info("%s", message)
