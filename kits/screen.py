"""Checks whether a window can be opened here: if not, Qt and OpenCV would end the process."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

# Libraries that Qt's wheels expect on Linux.
LIBRARIES = (
    "libegl1 libgl1 libfontconfig1 libdbus-1-3 libglib2.0-0 libxkbcommon-x11-0 libxcb-cursor0 "
    "libxcb-icccm4 libxcb-keysyms1 libxcb-shape0"
)
INSTALL = f"on Debian and Ubuntu: apt-get install {LIBRARIES}"
_VARIABLES = {"xcb": "DISPLAY", "wayland": "WAYLAND_DISPLAY"}
# For each platform: its library, and the functions to connect, test for an error and disconnect.
_SERVERS = {
    "xcb": ("libxcb.so.1", "xcb_connect", "xcb_connection_has_error", "xcb_disconnect"),
    "wayland": ("libwayland-client.so.0", "wl_display_connect", "", "wl_display_disconnect"),
}


def has_screen() -> bool:
    """Return whether there may be a screen at all."""
    if not sys.platform.startswith("linux"):
        return True
    return any(os.environ.get(name) for name in ("QT_QPA_PLATFORM", *_VARIABLES.values()))


def problem(by_qt: bool = True) -> str:
    """Return why no window can be opened, in a line; "" if one can.

    by_qt: whether Qt's own libraries are looked at as well as the screen.
    """
    if not sys.platform.startswith("linux"):
        return ""
    told = os.environ.get("QT_QPA_PLATFORM", "") if by_qt else ""
    platforms = [each.partition(":")[0] for each in told.split(";") if each]
    platforms = platforms or [
        name for name, variable in _VARIABLES.items() if os.environ.get(variable)
    ]
    # Qt uses the first one that works.
    problems = [_problem_of(name) if by_qt else _unanswered(name) for name in platforms]
    return "" if "" in problems else problems[0] if problems else "no screen is here"


def _problem_of(platform: str) -> str:
    from PySide6.QtCore import QLibraryInfo

    plugins = Path(QLibraryInfo.path(QLibraryInfo.LibraryPath.PluginsPath)) / "platforms"
    found = sorted(plugins.glob(f"libq{platform}*.so"))
    if not found:
        return f"QT_QPA_PLATFORM: Qt has no platform {platform!r} here"
    for plugin in found:
        try:
            ctypes.CDLL(str(plugin))
        except OSError as error:
            return f"{error}; {INSTALL}"
    return _unanswered(platform)


def _unanswered(platform: str) -> str:
    """Return that the platform's server takes no connection; "" if it does, or there is none."""
    try:
        if platform not in _SERVERS or _answers(platform):
            return ""
    except OSError as error:
        return str(error)
    variable = _VARIABLES[platform]
    return f"no screen answers: {variable}={os.environ.get(variable, '')}"


def _answers(platform: str) -> bool:
    """Return whether the server of a platform accepts a connection."""
    library, connect, is_failed, disconnect = _SERVERS[platform]
    server = ctypes.CDLL(library)
    opening = server[connect]
    opening.restype = ctypes.c_void_p
    found = ctypes.c_void_p(opening(None, None))
    if not found.value:
        return False
    answers = not (is_failed and server[is_failed](found))
    server[disconnect](found)
    return answers
