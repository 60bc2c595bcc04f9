"""A report of a compression as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from palmkit.engine.bench.charts import Bar, bars
from palmkit.engine.compress.pipeline import Stage, loss
from palmkit.engine.replacing import replacing

_MOST_CONSTANTS = 40
_MOST_OPEN = 6


def write(path: Path, title: str, facts: Mapping[str, str], stages: Sequence[Stage]) -> None:
    """Write the page, whole or not at all.

    facts: rows of the first table, escaped here.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as part:
        part.write_text(page(title, facts, stages), encoding="utf-8")


def page(title: str, facts: Mapping[str, str], stages: Sequence[Stage]) -> str:
    """Return the page's text."""
    first = stages[0]
    rows = "".join(f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in facts.items())
    parts = [f"<h1>{escape(title)}</h1><table class='facts'>{rows}</table>"]
    parts.append("<h2>After each step</h2><div class='cards'>")
    sizes = [Bar(s.name, s.size_bytes, _kilobytes(s.size_bytes), _kind(s)) for s in stages]
    parts.append(_card("file, KB", bars(sizes, "size after each step")))
    metrics = [Bar(s.name, max(s.metric, 0), f"{s.metric:.4f}", _kind(s)) for s in stages]
    parts.append(_card("metric, more is better", bars(metrics, "metric after each step")))
    timed = [
        Bar(s.name, s.run_ms, f"{s.run_ms:.2f}", _kind(s)) for s in stages if s.run_ms is not None
    ]
    parts.append(_card("one run, ms, 1 thread", bars(timed, "time after each step")))
    parts.append("</div>")
    if not all(stage.kept for stage in stages):
        parts.append("<p>Grey: a step that was not taken.</p>")
    parts.append(_table(stages))
    parts.append("<h2>Where the bytes are</h2><div class='cards'>")
    for heading, stage in (("at first", first), ("at the end", stages[-1])):
        parts.append(_card(f"bytes of constants {heading}", _constants(stage)))
    parts.append("</div>")
    parts.append(_layers(first, stages[-1]))
    parts += [_choices(stage) for stage in stages if stage.layers]
    if any(stage.notes for stage in stages):
        parts.append(f"<h2>Notes</h2>{''.join(_notes(stage) for stage in stages)}")
    return _PAGE.replace("{title}", escape(title)).replace("{body}", "\n".join(parts))


def _table(stages: Sequence[Stage]) -> str:
    first = stages[0]
    head = ["step", "bytes", "times smaller", "metric", "loss", "ms a run", "seconds spent", ""]
    rows = ["".join(f"<th>{escape(each)}</th>" for each in head)]
    for stage in stages:
        said = "" if stage.kept else f"not taken: {stage.why}"
        cells = [
            stage.name,
            f"{stage.size_bytes:,}",
            f"{first.size_bytes / stage.size_bytes:.2f}",
            f"{stage.metric:.4f}",
            f"{loss(first.metric, stage.metric):.2%}",
            "" if stage.run_ms is None else f"{stage.run_ms:.2f}",
            f"{stage.seconds:.1f}",
            said,
        ]
        rows.append("".join(f"<td>{escape(each)}</td>" for each in cells))
    return "<table>" + "".join(f"<tr>{row}</tr>" for row in rows) + "</table>"


def _layers(first: Stage, last: Stage) -> str:
    """Return rows of each constant's bytes before and after; steps may add or remove constants."""
    names = sorted(
        {*first.constants, *last.constants},
        key=lambda name: -max(first.constants.get(name, 0), last.constants.get(name, 0)),
    )
    rows = ["<th>constant</th><th>bytes at first</th><th>at the end</th><th>times smaller</th>"]
    for name in names:
        was, now = first.constants.get(name), last.constants.get(name)
        cells = [
            name,
            "" if was is None else f"{was:,}",
            "" if now is None else f"{now:,}",
            f"{was / now:.2f}" if was and now else "",
        ]
        rows.append("".join(f"<td>{escape(each)}</td>" for each in cells))
    table = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<details><summary>all {len(names)} constants</summary><table>{table}</table></details>"


def _choices(stage: Stage) -> str:
    """Return rows of the layers that were to become integers."""
    heads = ("layer", "in", "loses alone", "float, ms", "int8, ms", "layers at once", "why")
    rows = ["".join(f"<th>{each}</th>" for each in heads)]
    for layer in stage.layers:
        cells = [
            layer.name,
            "int8" if layer.integer else "float32",
            "" if layer.noise is None else f"{layer.noise:.2%}",
            "" if layer.float_ms is None else f"{layer.float_ms:.3f}",
            "" if layer.integer_ms is None else f"{layer.integer_ms:.3f}",
            str(layer.together),
            layer.why,
        ]
        rows.append("".join(f"<td>{escape(each)}</td>" for each in cells))
    table = "".join(f"<tr>{row}</tr>" for row in rows)
    count = sum(layer.integer for layer in stage.layers)
    heading = f"{count} of {len(stage.layers)} layers in int8"
    if not stage.kept:
        heading += ", not taken"
    return f"<details><summary>{heading}</summary><table>{table}</table></details>"


def _notes(stage: Stage) -> str:
    if not stage.notes:
        return ""
    items = "".join(f"<li>{escape(note)}</li>" for note in stage.notes)
    folded = "" if len(stage.notes) <= _MOST_OPEN else f" ({len(stage.notes)})"
    state = "" if folded else " open"
    return (
        f"<details{state}><summary>{escape(stage.name)}{folded}</summary><ul>{items}</ul></details>"
    )


def _constants(stage: Stage) -> str:
    largest = sorted(stage.constants.items(), key=lambda each: -each[1])
    shown = [Bar(_cut(name), n, f"{n:,}", "step", name) for name, n in largest[:_MOST_CONSTANTS]]
    rest = sum(n for _, n in largest[_MOST_CONSTANTS:])
    if rest:
        shown.append(Bar(f"{len(largest) - _MOST_CONSTANTS} more", rest, f"{rest:,}", "other"))
    return bars(shown, "bytes by constant", width=460)


def _cut(name: str) -> str:
    return name if len(name) <= 28 else f"…{name[-27:]}"


def _card(caption: str, plot: str) -> str:
    return f"<figure><figcaption>{escape(caption)}</figcaption>{plot}</figure>" if plot else ""


def _kind(stage: Stage) -> str:
    return "step" if stage.kept else "other"


def _kilobytes(size_bytes: int) -> str:
    return f"{size_bytes / 1000:,.1f}"


_PAGE = """\
<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>
body{font:15px/1.5 system-ui,sans-serif;color:#1d2733;margin:2rem auto;max-width:1100px;
padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .8rem;text-align:right;border-bottom:1px solid #e3e8ee}
th:first-child,td:first-child,td:last-child{text-align:left}
.facts td,th:last-child{text-align:left}
details{margin:.6rem 0}summary{cursor:pointer;font-weight:600}
.cards{display:flex;flex-wrap:wrap;gap:1.5rem}
figure{margin:0;padding:1rem;border:1px solid #e3e8ee;border-radius:8px}
figcaption{font-weight:600;margin-bottom:.5rem}
svg text{font-size:12px;fill:#1d2733}
.step rect{fill:#2f7bd9}.other rect{fill:#b6c2cf}
</style>
{body}
</html>
"""
