"""Bar charts as SVG, in colours of the page's style sheet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from palmkit.engine.drawing.svg import text_width

_ROW = 20.0
_BAR = 13.0
_GAP = 8.0
_SIZE = 12.0
# Leaves room for wide and bold fonts.
_WIDE = 1.15


@dataclass(frozen=True)
class Bar:
    """One bar.

    kind: its class in the style sheet; hint: text that is shown on hover.
    """

    label: str
    value: float
    text: str
    kind: str
    hint: str = ""


def bars(every: Sequence[Bar], title: str, width: float = 340.0, mark: float | None = None) -> str:
    """Return bars from zero, one below the other, each between its label and its text.

    title: a text for screen readers. mark: a value with a vertical line.
    """
    if not every:
        return ""
    left = _WIDE * max(text_width(bar.label, _SIZE) for bar in every) + _GAP
    right = _WIDE * max(text_width(bar.text, _SIZE) for bar in every) + _GAP
    most = max([*(bar.value for bar in every), mark or 0.0]) or 1.0
    scale = max(40.0, width - left - right) / most
    height = _ROW * len(every)
    parts = [
        f'<svg class="bars" role="img" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}"><title>{escape(title)}</title>'
    ]
    for row, bar in enumerate(every):
        y, length = row * _ROW, max(1.0, bar.value * scale)
        middle = y + _ROW / 2 + _SIZE * 0.36
        hint = f"<title>{escape(bar.hint)}</title>" if bar.hint else ""
        parts.append(
            f'<g class="{bar.kind}">{hint}'
            f'<text x="{left - _GAP:.1f}" y="{middle:.1f}" text-anchor="end">'
            f"{escape(bar.label)}</text>"
            f'<rect x="{left:.1f}" y="{y + (_ROW - _BAR) / 2:.1f}" width="{length:.1f}" '
            f'height="{_BAR}" rx="2"/>'
            f'<text class="value" x="{left + length + 5:.1f}" y="{middle:.1f}">'
            f"{escape(bar.text)}</text></g>"
        )
    if mark is not None:
        x = left + mark * scale
        parts.append(f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height:.0f}"/>')
    return "".join([*parts, "</svg>"])
