"""The arena over time: steps from left to right, bytes upwards, a block for each buffer."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from palmkit.engine.backends.cpu.summary import PlanSummary, StepSummary
from palmkit.engine.drawing.content import family
from palmkit.engine.drawing.svg import COLOURS, STYLE, text_width

_MARGIN = 28.0
_AXIS = 62.0
_HEIGHT = 440.0
_GAP = 96.0
_LEAST_STEP, _MOST_STEP, _WIDTH = 5.0, 26.0, 1100.0
_ARENA_STYLE = """\
.block{stroke:#fff;stroke-width:1}
.block:hover{stroke:#27313b;stroke-width:1.6}
.inside{fill:#fff;font-size:9.5px;pointer-events:none}
.tick{stroke:#e4e7eb}
.axis{fill:#7a8591;font-size:10px}
.end{text-anchor:end}
.live{fill:none;stroke:#27313b;stroke-width:1.2;stroke-opacity:.7;pointer-events:none}
.bound{stroke:#27313b;stroke-width:1.1;stroke-dasharray:5 4}
"""

# Kernels that serve many ops, each with one representative op.
_OP_OF_KERNEL = {
    "binary": "add",
    "copy": "transpose",
    "fill": "expand",
    "pool": "max_pool",
    "quantize": "quantize_linear",
    "recurrent": "lstm",
    "reduce": "reduce_mean",
    "separable_conv": "conv",
    "unary": "relu",
    "volume_conv": "conv",
}
# Convolutions are most of a network, so each algorithm has a look of its own.
_ALGORITHMS = {
    "depthwise": "#7ba6f2",
    "rows": "#1f4fae",
    "winograd_2": "#8e6fd8",
    "winograd_4": "#7a52cc",
    "winograd_6": "#5f3ab0",
}


def draw_arena(plans: Sequence[PlanSummary], title: str) -> str:
    """Return an SVG document of maps, one below the other; hovering tells a block's content."""
    parts: list[str] = []
    width = text_width(title, 18)
    y = _MARGIN + 44.0
    for plan in plans:
        drawn, plan_width = _map(plan)
        parts.append(f'<g transform="translate({_MARGIN + _AXIS} {y + 34:.0f})">{drawn}</g>')
        width = max(width, plan_width + _AXIS)
        y += 34 + _HEIGHT + _GAP
    width += 2 * _MARGIN
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{y:.0f}" '
        f'viewBox="0 0 {width:.0f} {y:.0f}">',
        f"<style>{escape(STYLE + _ARENA_STYLE)}</style>",
        '<rect width="100%" height="100%" fill="#fff"/>',
        f'<text class="heading" x="{_MARGIN}" y="{_MARGIN + 12}">{escape(title)}</text>',
    ]
    return "\n".join([*head, *parts, "</svg>", ""])


def _map(plan: PlanSummary) -> tuple[str, float]:
    """Return a map with blocks, axes and live bytes, and its width."""
    count, arena = len(plan.steps), max(plan.arena_bytes, plan.lower_bound_bytes, 1)
    step = min(_MOST_STEP, max(_LEAST_STEP, _WIDTH / max(count, 1)))
    width = step * count

    def up(size_bytes: float) -> float:
        return _HEIGHT * (1 - size_bytes / arena)

    sub = (
        f"{count} steps, {plan.flop / 1e6:,.1f} MFLOP; arena {arena_text(plan.arena_bytes)}, "
        f"lower bound {arena_text(plan.lower_bound_bytes)}{ratio_text(plan)}"
    )
    parts = [f'<text class="sub" x="{-_AXIS}" y="-16">{escape(sub)}</text>']
    for quarter in range(5):
        y, size = up(arena * quarter / 4), arena_text(arena * quarter / 4)
        parts.append(f'<path class="tick" d="M0 {y:.1f}H{width:.1f}"/>')
        parts.append(f'<text class="axis end" x="-6" y="{y + 3:.1f}">{size}</text>')
    every = max(1, round(60 / step))
    for number in range(0, count, every):
        x = number * step
        parts.append(f'<text class="axis" x="{x:.1f}" y="{_HEIGHT + 14}">{number}</text>')
    looks: dict[str, str] = {}
    for each in plan.buffers:
        writer, end = plan.steps[each.first], each.offset + each.size_bytes
        box_width, top = (each.last + 1 - each.first) * step, up(end)
        height = up(each.offset) - top
        colour, kind = _look(writer)
        looks[kind] = colour
        tip = (
            f"{writer.node}: {writer.kernel} {writer.algorithm}\n{_outputs(writer)}\n"
            f"bytes {each.offset:,} to {end:,}, steps {each.first} to {each.last}"
        )
        parts.append(
            f'<rect class="block" x="{each.first * step:.1f}" y="{top:.1f}" '
            f'width="{box_width:.1f}" height="{height:.1f}" fill="{colour}">'
            f"<title>{escape(tip)}</title></rect>"
        )
        label = next(
            (text for text in (writer.node, writer.kernel) if text_width(text) + 8 < box_width), ""
        )
        if label and height > 14:
            x, y = each.first * step + 4, top + height / 2 + 3
            parts.append(f'<text class="inside" x="{x:.1f}" y="{y:.1f}">{escape(label)}</text>')
    live = "".join(
        f"{'L' if number else 'M'}{number * step:.1f} {up(size):.1f}H{(number + 1) * step:.1f}"
        for number, size in enumerate(live_bytes(plan))
    )
    bound = up(plan.lower_bound_bytes)
    parts.append(f'<path class="live" d="{live}"/>' if live else "")
    parts.append(f'<path class="bound" d="M0 {bound:.1f}H{width:.1f}"/>')
    x = 0.0
    for kind, colour in sorted(looks.items()):
        parts.append(
            f'<rect x="{x:.1f}" y="{_HEIGHT + 42}" width="10" height="10" rx="2.5" '
            f'fill="{colour}"/><text x="{x + 15:.1f}" y="{_HEIGHT + 51}">{escape(kind)}</text>'
        )
        x += 31 + text_width(kind)
    note = "line: bytes live at each step; dashed: the most of them; below: number of the step"
    parts.append(f'<text class="axis" x="0" y="{_HEIGHT + 32}">{note}</text>')
    return "\n".join(parts), max(width, x, text_width(sub), text_width(note))


def _look(step: StepSummary) -> tuple[str, str]:
    """Return the colour of what a step writes, and its name in the legend."""
    kind = family(_OP_OF_KERNEL.get(step.kernel, step.kernel))
    if step.algorithm in _ALGORITHMS:
        return _ALGORITHMS[step.algorithm], f"convolution: {step.algorithm}"
    return COLOURS[kind], kind


def live_bytes(plan: PlanSummary) -> list[int]:
    """Return how many bytes of the arena are in use at each step."""
    changes = [0] * (len(plan.steps) + 1)
    for each in plan.buffers:
        changes[each.first] += each.size_bytes
        changes[each.last + 1] -= each.size_bytes
    live: list[int] = []
    for change in changes[:-1]:
        live.append(change + (live[-1] if live else 0))
    return live


def arena_text(size_bytes: float) -> str:
    """Return the size with three digits and a unit."""
    for unit, size in (("MB", 1e6), ("kB", 1e3)):
        if size_bytes >= size:
            return f"{size_bytes / size:.3g} {unit}"
    return f"{size_bytes:.0f} B"


def ratio_text(plan: PlanSummary) -> str:
    """Return how far the arena is from its lower bound."""
    if not plan.lower_bound_bytes:
        return ""
    return f" ({plan.arena_bytes / plan.lower_bound_bytes:.3f} times that)"


def _outputs(step: StepSummary) -> str:
    return ", ".join(f"{y.dtype}[{', '.join(map(str, y.shape))}]" for y in step.outputs)
