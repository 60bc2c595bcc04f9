"""Draw a graph: SVG, a page with it that zooms, or a .dot file for Graphviz."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from xml.sax.saxutils import escape

from palmkit.engine.drawing.content import Section, describe
from palmkit.engine.drawing.svg import COLOURS, render

__all__ = ["FORMATS", "describe", "page"]


def to_svg(sections: list[Section], subtitle: str) -> str:
    """Return an SVG document."""
    return render(sections, subtitle)


def to_html(sections: list[Section], subtitle: str) -> str:
    """Return a page with the SVG."""
    return page(render(sections, subtitle), sections[0].title)


def page(svg: str, title: str) -> str:
    """Return a self-contained page with an SVG: the wheel zooms, dragging moves."""
    return _PAGE.replace("{title}", escape(title)).replace("{svg}", svg)


def to_dot(sections: list[Section], subtitle: str) -> str:
    """Return the drawing in Graphviz' language; a body of control flow is a cluster."""
    lines = [
        "digraph {",
        f"label={_quoted(f'{sections[0].title}  {subtitle}')} labelloc=t",
        'node [shape=box style="rounded,filled" fontname=sans fontsize=10 fontcolor=white]',
        "edge [fontname=sans fontsize=9 color=gray50]",
    ]
    for place, section in enumerate(sections):
        if place:
            lines.append(f"subgraph cluster_{place} {{ label={_quoted(section.title)}")
        for number, card in enumerate(section.cards):
            text = "\n".join((card.title, card.subtitle, *card.lines, card.type))
            colour, tooltip = _quoted(COLOURS[card.family]), _quoted(card.tooltip)
            look = f"label={_quoted(text)} fillcolor={colour} tooltip={tooltip}"
            lines.append(f"n{place}_{number} [{look}]")
        lines += [
            f"n{place}_{k.source} -> n{place}_{k.target} [label={_quoted(k.label)}]"
            for k in section.links
        ]
        if place:
            lines.append("}")
    return "\n".join([*lines, "}", ""])


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


FORMATS: Mapping[str, Callable[[list[Section], str], str]] = {
    ".svg": to_svg,
    ".html": to_html,
    ".dot": to_dot,
}

_PAGE = """\
<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>body{margin:0;overflow:hidden;background:#fff}svg{transform-origin:0 0;cursor:grab}</style>
{svg}
<script>
const svg = document.querySelector("svg");
let scale = Math.min(1, innerWidth / svg.width.baseVal.value), x = 0, y = 0;
x = Math.max(0, (innerWidth - svg.width.baseVal.value * scale) / 2);
const show = () => svg.style.transform = `translate(${x}px,${y}px) scale(${scale})`;
addEventListener("wheel", event => {
  event.preventDefault();
  if (event.ctrlKey || event.metaKey) {
    const next = Math.min(8, Math.max(0.02, scale * Math.exp(-event.deltaY / 300)));
    x = event.clientX - (event.clientX - x) * next / scale;
    y = event.clientY - (event.clientY - y) * next / scale;
    scale = next;
  } else { x -= event.deltaX; y -= event.deltaY; }
  show();
}, {passive: false});
addEventListener("pointermove", event => {
  if (event.buttons & 1) { x += event.movementX; y += event.movementY; show(); }
});
show();
</script>
</html>
"""
