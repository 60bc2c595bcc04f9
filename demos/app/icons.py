"""Icons drawn from strokes in a square of 24 units, crisp at every size."""

from __future__ import annotations

from functools import lru_cache

from PySide6.QtCore import QByteArray, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

SIZES = (16, 20, 24, 32, 40, 48, 64, 96)

# SVG paths, which are stroked; those with "fill:" are filled.
STROKES: dict[str, tuple[str, ...]] = {
    "face": (
        "M4 8V6a2 2 0 0 1 2-2h2M16 4h2a2 2 0 0 1 2 2v2M20 16v2a2 2 0 0 1-2 2h-2"
        "M8 20H6a2 2 0 0 1-2-2v-2",
        "M9 10v.5M15 10v.5M8.8 14.5c1.8 1.9 4.6 1.9 6.4 0",
    ),
    "portrait": (
        "M12 12.5a4 4 0 1 0 0-8 4 4 0 0 0 0 8z",
        "M4.5 20c.6-3.6 3.6-5.2 7.5-5.2s6.9 1.6 7.5 5.2",
    ),
    "gesture": (
        "M8 12.2V6.4a1.4 1.4 0 0 1 2.8 0V11M10.8 10.5V4.9a1.4 1.4 0 0 1 2.8 0v5.6"
        "M13.6 10.8V6.4a1.4 1.4 0 0 1 2.8 0V12",
        "M16.4 9.6a1.4 1.4 0 0 1 2.8 0V14c0 4-2.6 6.4-6.2 6.4-3 "
        "0-4.4-1.3-5.8-3.8l-2.3-4.1c-.9-1.7 1.2-2.9 2.3-1.5l.8 1.2",
    ),
    "try_on": ("M9 12.5V8.4l3.4-3.9c.8-.9 2.6-.3 2.6 1v7", "M7.5 12.5h9V20h-9zM7.5 15.5h9"),
    "feed": ("M4.5 4.5h6v6h-6zM13.5 4.5h6v6h-6zM4.5 13.5h6v6h-6z", "M16.5 13.8v5.6M13.7 16.6h5.6"),
    "benchmark": (
        "M4.5 17a8 8 0 1 1 15 0",
        "M12 14.5l3.8-4.6M12 16a1.4 1.4 0 1 0 0-2.8 1.4 1.4 0 0 0 0 2.8z",
    ),
    "updates": (
        "M19.5 9A8 8 0 0 0 5.2 7.8L4 9.2M4 5v4.2h4.2",
        "M4.5 15a8 8 0 0 0 14.3 1.2l1.2-1.4M20 19v-4.2h-4.2",
    ),
    "camera": (
        "M4 7.5h9.5a1.5 1.5 0 0 1 1.5 1.5v6a1.5 1.5 0 0 1-1.5 1.5H4A1.5 1.5 0 0 1 2.5 "
        "15V9A1.5 1.5 0 0 1 4 7.5z",
        "M15 11l6-3v8l-6-3",
    ),
    "video": ("M4 5h16v14H4zM4 9.5h16M8 5l-2 4.5M13 5l-2 4.5M18 5l-2 4.5", "M10.5 12.2v4l3.4-2z"),
    "picture": (
        "M4 5h16v14H4zM4 16l4.5-4.5 4 4 3-3L20 17",
        "M15.5 9.8a1 1 0 1 0 0-2 1 1 0 0 0 0 2z",
    ),
    "sample": ("M12 3.5l2.4 5.6 6.1.5-4.6 4 1.4 5.9L12 16.3l-5.3 3.2 1.4-5.9-4.6-4 6.1-.5z",),
    "open": ("M3.5 18V6.5h5.6l2 2.3h9.4V18z",),
    "pause": ("M8.5 5.5v13M15.5 5.5v13",),
    "play": ("M8 5.2v13.6l10.5-6.8z",),
    "save": ("M12 4v10.5M7.8 10.6L12 14.8l4.2-4.2M4.5 16.5v3h15v-3",),
    "record": (
        "M12 19a7 7 0 1 0 0-14 7 7 0 0 0 0 14z",
        "fill:M12 15.6a3.6 3.6 0 1 0 0-7.2 3.6 3.6 0 0 0 0 7.2z",
    ),
    "stop": ("M12 19a7 7 0 1 0 0-14 7 7 0 0 0 0 14z", "fill:M9.3 9.3h5.4v5.4H9.3z"),
    "compare": ("M4 5h16v14H4zM12 3v18", "fill:M4 5h8v14H4z"),
    "theme": (
        "M12 19.5a7.5 7.5 0 1 0 0-15 7.5 7.5 0 0 0 0 15z",
        "fill:M12 4.5a7.5 7.5 0 0 1 0 15z",
    ),
    "close": ("M6.5 6.5l11 11M17.5 6.5l-11 11",),
    "info": ("M12 20a8 8 0 1 0 0-16 8 8 0 0 0 0 16z", "M12 11v5M12 8v.3"),
    "warning": ("M12 4.2L21 19.5H3z", "M12 10v4.6M12 17v.2"),
    "error": ("M12 20a8 8 0 1 0 0-16 8 8 0 0 0 0 16z", "M12 7.5v5.6M12 16v.2"),
    "check": ("M5 12.5l4.8 4.8L19.5 7",),
    "reset": ("M5 12a7 7 0 1 0 2.2-5.1L5 9M5 4.5V9h4.5",),
    "chevron": ("M7 10l5 5 5-5",),
    "sound": (
        "M4 9.5v5h3.5l4.5 4v-13l-4.5 4z",
        "M15.5 9a4.2 4.2 0 0 1 0 6M18 6.5a7.8 7.8 0 0 1 0 11",
    ),
    "muted": ("M4 9.5v5h3.5l4.5 4v-13l-4.5 4z", "M16 9.5l5 5M21 9.5l-5 5"),
    "mirror": ("M12 4v16M9 8l-5 8h5zM15 8l5 8h-5z",),
}


# Qt caches pictures of every icon that was shown, up to some megabytes, even of deleted ones.
@lru_cache(maxsize=128)
def icon(name: str, colour: str, chosen: str | None = None) -> QIcon:
    """Return an icon in a colour, "#rrggbb".

    chosen: its colour where it is selected or checked.

    Equal arguments give the same object, to be copied before it is changed.
    """
    made = QIcon()
    for size in SIZES:
        made.addPixmap(_pixmap(name, colour, size))
        if chosen is not None:
            bright = _pixmap(name, chosen, size)
            made.addPixmap(bright, QIcon.Mode.Selected)
            made.addPixmap(bright, QIcon.Mode.Normal, QIcon.State.On)
    return made


def _pixmap(name: str, colour: str, size: int) -> QPixmap:
    """Return an icon of `size` x `size` pixels."""
    canvas = QPixmap(QSize(size, size))
    canvas.fill(Qt.GlobalColor.transparent)
    painter = QPainter(canvas)
    paint(painter, name, colour, QRectF(0, 0, size, size))
    painter.end()
    return canvas


def paint(painter: QPainter, name: str, colour: str, place: QRectF) -> None:
    """Draw an icon in a rectangle."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    _renderer(name, QColor(colour).name()).render(painter, place)


@lru_cache(maxsize=256)
def _renderer(name: str, colour: str) -> QSvgRenderer:
    parts: list[str] = []
    for path in STROKES[name]:
        fills = path.startswith("fill:")
        style = f'fill="{colour}"' if fills else f'fill="none" stroke="{colour}"'
        parts.append(f'<path {style} d="{path.removeprefix("fill:")}"/>')
    text = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" stroke-width="1.7" '
        f'stroke-linecap="round" stroke-linejoin="round">{"".join(parts)}</svg>'
    )
    return QSvgRenderer(QByteArray(text.encode()))
