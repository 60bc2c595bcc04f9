"""The drawing as SVG: cards in the colours of their families, curves between them."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from palmkit.engine.drawing.content import ALL_FAMILIES, BORDER, Card, Link, Section
from palmkit.engine.drawing.layout import Box, Line, arrange

COLOURS = dict(
    zip(
        ALL_FAMILIES,
        (
            "#2f6fdf",  # convolution, matrices
            "#c2417c",  # recurrent
            "#d9542b",  # activation
            "#7a52cc",  # normalisation
            "#0f8b8d",  # pooling, sampling
            "#6b7785",  # shape, movement
            "#8a6d3b",  # quantization
            "#1f2933",  # control
            "#3a8f43",  # reduction
            "#b07d12",  # arithmetic
            "#34495e",  # input, output
        ),
        strict=True,
    )
)
STYLE = """\
text{font-family:Inter,"Segoe UI",Roboto,Helvetica,Arial,sans-serif;font-size:11px;fill:#27313b}
.title{font-size:12px;font-weight:600;fill:#fff}
.name{fill:#7a8591;font-size:10px}
.type{fill:#52606d;font-size:10px}
.edge{fill:none;stroke:#9aa5b1;stroke-width:1.3}
.shape{fill:#616e7c;font-size:9.5px}
.halo{fill:#fff;fill-opacity:.85}
.box{fill:#fff;stroke:#cbd2d9}
.numpy .box{stroke:#e67700;stroke-width:1.6;stroke-dasharray:5 3}
.badge{fill:#fff;font-size:9.5px;font-weight:600;text-anchor:end}
.heading{font-size:17px;font-weight:600}
.part{font-size:13px;font-weight:600}
.sub{fill:#7a8591}
.node:hover .box{stroke:#27313b;stroke-width:1.6}
.edge:hover{stroke:#27313b;stroke-width:2.4}
"""

_MARGIN = 28.0
_TITLE = 22.0
_LINE = 15.0
_LEAST_WIDTH = 116.0
_LABEL = 14.0


def text_width(text: str, size: float = 11.0) -> float:
    """Return about how wide a sans-serif text is, slightly overestimated as fonts differ."""
    narrow, wide = sum(text.count(c) for c in "iljtfr.,:;|!'()[] "), sum(map(text.count, "mwMW@"))
    return size * (0.36 * narrow + 0.95 * wide + 0.62 * (len(text) - narrow - wide))


def render(sections: Sequence[Section], subtitle: str) -> str:
    """Return an SVG document of sections, one below the other, under the title of the first.

    A card's tooltip is shown on hover.
    """
    every = [card for section in sections for card in section.cards]
    families = [family for family in ALL_FAMILIES if any(c.family == family for c in every)]
    legend, legend_width = _legend(families, any(card.kernel == "numpy" for card in every))
    title = sections[0].title
    widest = max(legend_width, text_width(title, 18), text_width(subtitle))
    y = _MARGIN + 56.0 + 18.0
    parts: list[str] = []
    for number, section in enumerate(sections):
        if number:
            y += 3 * _MARGIN
            parts.append(
                f'<text class="part" x="{_MARGIN}" y="{y:.0f}">{escape(section.title)}</text>'
            )
            y += _MARGIN
        drawn, width, height = _section(section)
        parts.append(f'<g transform="translate({_MARGIN} {y:.1f})">{drawn}</g>')
        widest = max(widest, width, text_width(section.title, 14))
        y += height
    full, y = widest + 2 * _MARGIN, y + _MARGIN
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{full:.0f}" height="{y:.0f}" '
        f'viewBox="0 0 {full:.0f} {y:.0f}">',
        f"<style>{escape(STYLE)}</style>",
        '<rect width="100%" height="100%" fill="#fff"/>',
        f'<text class="heading" x="{_MARGIN}" y="{_MARGIN + 12}">{escape(title)}</text>',
        f'<text class="sub" x="{_MARGIN}" y="{_MARGIN + 30}">{escape(subtitle)}</text>',
        f'<g transform="translate({_MARGIN} {_MARGIN + 42})">{legend}</g>',
    ]
    return "\n".join([*head, *parts, "</svg>", ""])


def _section(section: Section) -> tuple[str, float, float]:
    """Return the cards and lines of one graph, with their width and height."""
    cards, links = section.cards, section.links
    boxes = [_box(card, links, number) for number, card in enumerate(cards)]
    lines = [Line(link.source, link.target, link.value) for link in links]
    width, height = arrange(boxes, lines)
    parts = [_curve(line, link) for line, link in zip(lines, links, strict=True)]
    parts += [_drawn(card, box) for card, box in zip(cards, boxes, strict=True)]
    first: dict[str, int] = {}
    for number, link in enumerate(links):
        first.setdefault(link.value, number)
    parts += [_label(lines[number], links[number]) for number in first.values()]
    return "\n".join(parts), width, height


def _box(card: Card, links: Sequence[Link], number: int) -> Box:
    badge = text_width(card.kernel, 9.5) + 16 if card.kernel == "numpy" else 0.0
    texts = [card.subtitle, *card.lines, card.type]
    labels = [text_width(link.label, 9.5) for link in links if link.source == number]
    width = max(
        _LEAST_WIDTH,
        text_width(card.title, 12.5) + 24 + badge,
        *(text_width(text) + 20 for text in texts),
        *(min(2 * label - 12, 160) for label in labels),
    )
    height = _TITLE + _LINE * len(_lines(card)) + 8
    # Shape arithmetic is placed at its reader.
    is_shape = card.type.startswith("int64")
    return Box(width, height, is_input=card.title == "input", sinks=is_shape)


def _lines(card: Card) -> list[tuple[str, str]]:
    """Return the texts below the title, with their classes."""
    lines = [("name", card.subtitle), *(("line", line) for line in card.lines)]
    return [*lines, ("type", card.type)]


def _drawn(card: Card, box: Box) -> str:
    colour = COLOURS[card.family]
    left, top, radius = box.x - box.width / 2, box.y - box.height / 2, 6.0
    if card.family == BORDER:
        radius = 11.0
    head = (
        f"M0 {_TITLE}V{radius}A{radius} {radius} 0 0 1 {radius} 0H{box.width - radius:.1f}"
        f"A{radius} {radius} 0 0 1 {box.width:.1f} {radius}V{_TITLE}Z"
    )
    texts = [
        f'<text class="{kind}" x="10" y="{_TITLE + _LINE * (row + 1):.1f}">{escape(text)}</text>'
        for row, (kind, text) in enumerate(_lines(card))
    ]
    if card.kernel == "numpy":
        texts.append(f'<text class="badge" x="{box.width - 9:.1f}" y="15">numpy</text>')
    return (
        f'<g class="node {card.kernel}" transform="translate({left:.1f} {top:.1f})">'
        f"<title>{escape(card.tooltip)}</title>"
        f'<rect class="box" width="{box.width:.1f}" height="{box.height:.1f}" rx="{radius}"/>'
        f'<path d="{head}" fill="{colour}"/>'
        f'<text class="title" x="10" y="15.5">{escape(card.title)}</text>'
        f"{''.join(texts)}</g>"
    )


def _curve(line: Line, link: Link) -> str:
    """Return a curve that starts and ends vertically and is straight through the rows between."""
    (x, y), *rest = line.points
    path = [f"M{x:.1f} {y:.1f}"]
    if rest[0][1] - y >= 2 * _LABEL:
        y += _LABEL
        path.append(f"V{y:.1f}")
    for next_x, next_y in rest:
        if abs(next_x - x) < 0.5:
            path.append(f"L{next_x:.1f} {next_y:.1f}")
        else:
            middle = (y + next_y) / 2
            path.append(
                f"C{x:.1f} {middle:.1f} {next_x:.1f} {middle:.1f} {next_x:.1f} {next_y:.1f}"
            )
        x, y = next_x, next_y
    arrow = f"M{x - 3.5:.1f} {y - 6:.1f}L{x:.1f} {y:.1f}L{x + 3.5:.1f} {y - 6:.1f}"
    title = f"<title>{escape(link.tooltip)}</title>"
    return f'<path class="edge" d="{"".join(path)}{arrow}">{title}</path>'


def _label(line: Line, link: Link) -> str:
    """Return the shape's label beside the line's start."""
    x, y = line.points[0]
    width = text_width(link.label, 9.5)
    return (
        f'<rect class="halo" x="{x + 4:.1f}" y="{y + 3:.1f}" width="{width + 2:.1f}" height="12"/>'
        f'<text class="shape" x="{x + 5:.1f}" y="{y + 12:.1f}">{escape(link.label)}</text>'
    )


def _legend(families: Sequence[str], has_numpy: bool) -> tuple[str, float]:
    parts: list[str] = []
    x = 0.0
    for family in families:
        parts.append(
            f'<rect x="{x:.1f}" width="10" height="10" rx="2.5" fill="{COLOURS[family]}"/>'
            f'<text x="{x + 15:.1f}" y="9">{escape(family)}</text>'
        )
        x += 15 + text_width(family) + 16
    if has_numpy:
        parts.append(
            f'<g class="numpy"><rect class="box" x="{x:.1f}" width="14" height="10" rx="2.5"/></g>'
            f'<text x="{x + 19:.1f}" y="9">in numpy; all others native</text>'
        )
        x += 19 + text_width("in numpy; all others native") + 16
    return "".join(parts), x
