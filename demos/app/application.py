"""The application around the window."""

from __future__ import annotations

import argparse
import signal
import sys

from PySide6.QtCore import QSettings, QTimer
from PySide6.QtWidgets import QApplication

from palmkit.demos.app.theme import Theme
from palmkit.demos.app.window import Window


def make(options: argparse.Namespace, settings: QSettings | None = None) -> tuple[Theme, Window]:
    """Return the window of a running QApplication, ready to be shown.

    settings: None: the user's own.
    """
    application = QApplication.instance()
    assert isinstance(application, QApplication)
    kept = QSettings("PalmKit", "demo") if settings is None else settings
    theme = Theme(application, kept)
    if options.theme is not None:
        theme.choose(options.theme, keep=False)
    return theme, Window(options, kept, theme)


def run(options: argparse.Namespace) -> int:
    """Show the window until it is closed, and return the exit status."""
    application = QApplication(sys.argv[:1])
    application.setApplicationName("palmkit-demo")
    application.setApplicationDisplayName("PalmKit")
    _theme, window = make(options)
    window.finished.connect(window.close)

    # Python handles Ctrl+C only between two of its own instructions.
    def interrupt(number: int, frame: object) -> None:
        window.close()

    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, interrupt)
    heartbeat = QTimer()
    heartbeat.start(200)
    heartbeat.timeout.connect(lambda: None)
    window.show()
    window.start()
    return application.exec()
