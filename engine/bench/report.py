"""Comparisons as a self-contained page: plots, tables, and how they were measured."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from xml.sax.saxutils import escape

from palmkit.engine.bench.charts import Bar, bars
from palmkit.engine.bench.comparison import INT8, Comparison, Result, Schedule
from palmkit.engine.bench.engines import OURS
from palmkit.engine.bench.measurement import processor
from palmkit.engine.bench.table import flops_per_s, markdown, means, refusals, scaling
from palmkit.engine.replacing import replacing

_Value = Callable[[Result], "float | None"]


@dataclass(frozen=True)
class Method:
    """How a comparison was measured, as sentences for its page.

    runs: how the runs were timed. load: what a load time is of.
    """

    runs: str
    load: str = "ms, in a fresh process that has the library"

    @staticmethod
    def of(schedule: Schedule) -> Method:
        """Return that of engines in processes of their own."""
        return Method(
            f"{schedule.seconds:g} s of runs for each engine in {schedule.turns} turns, "
            "one engine after the other, the others stopped; every run writes the inputs and reads "
            f"the outputs; {schedule.loads} fresh processes for load and memory"
        )


def write(
    path: Path,
    comparisons: Sequence[Comparison],
    engines: Mapping[str, str],
    peaks: Mapping[int, float | None],
    method: Method,
    precision: str,
) -> None:
    """Write the page, or for a name that ends with .md its tables; whole or not at all.

    engines: titles by name; peaks: FLOP/s of this machine by the number of threads.
    Raises OSError if it cannot be written.
    """
    if path.suffix.lower() == ".md":
        text = markdown(comparisons)
    else:
        text = page(comparisons, engines, peaks, method, precision)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")


def page(
    comparisons: Sequence[Comparison],
    engines: Mapping[str, str],
    peaks: Mapping[int, float | None],
    method: Method,
    precision: str,
) -> str:
    """Return the page's text."""
    parts = [_machine(comparisons, engines, peaks, method, precision), _means(comparisons)]
    for threads in sorted({each.threads for each in comparisons}):
        some = [each for each in comparisons if each.threads == threads]
        name = f"{threads} thread" + ("s" if threads > 1 else "")
        parts += [f"<h2>{name}</h2>", _ratios(some), _cards(some, "fastest run, ms", _time)]
        parts.append(_table(some, peaks.get(threads)))
    first = min((each.threads for each in comparisons), default=1)
    some = [each for each in comparisons if each.threads == first]
    parts.append("<h2>Load to first results</h2>")
    parts.append(_cards(some, method.load, _load))
    if memory := _cards(some, "MB, by loading and first runs", _memory):
        parts += ["<h2>Memory added</h2>", memory]
    parts += [_scaling(comparisons, engines), _refusals(comparisons, engines)]
    return _PAGE.replace("{style}", _STYLE).replace("{body}", "\n".join(filter(None, parts)))


def _machine(
    comparisons: Sequence[Comparison],
    engines: Mapping[str, str],
    peaks: Mapping[int, float | None],
    method: Method,
    precision: str,
) -> str:
    versions = {result.engine: result.version for each in comparisons for result in each.results}
    names = [f"{engines[name]} {version}".strip() for name, version in versions.items()]
    known = [f"{peak * 1e-9:.0f} on {threads}" for threads, peak in peaks.items() if peak]
    facts = {
        "machine": f"{processor()}; {platform.system()} {platform.release()}",
        "peak": f"{', '.join(known)} threads, GFLOP/s in float32, measured" if known else "",
        "engines": ", ".join(names),
        "precision": _precision(comparisons, precision),
        "measured": method.runs,
        "when": f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC",
    }
    rows = [f"<dt>{k}</dt><dd>{escape(v)}</dd>" for k, v in facts.items() if v]
    return f"<dl>{''.join(rows)}</dl>"


def _precision(comparisons: Sequence[Comparison], precision: str) -> str:
    asked = "float32 in every engine" if precision == "high" else "the least that each engine has"
    quantized = [each.model for each in comparisons if each.precision == INT8]
    if not quantized:
        return asked
    return f"{asked}; int8 as the file says: {', '.join(dict.fromkeys(quantized))}"


def _means(comparisons: Sequence[Comparison]) -> str:
    labels = {"ratio": "faster", "load_ratio": "faster loaded", "memory_ratio": "less memory"}
    tiles = [
        f"<div class='tile'><b>{value:.2f}×</b><span>{labels[name]}</span>"
        f"<small>{threads} thread{'s' if threads > 1 else ''}, best peer of each model, "
        "geometric mean</small></div>"
        for threads, ratios in means(comparisons).items()
        for name, value in ratios.items()
    ]
    return f"<div class='tiles'>{''.join(tiles)}</div>" if tiles else ""


def _ratios(comparisons: Sequence[Comparison]) -> str:
    """Return a plot of best peer over ours, for all models."""
    found = [
        Bar(each.model, each.ratio, f"{each.ratio:.2f}  {each.best_peer.title}", "ratio")
        for each in comparisons
        if each.ratio and each.best_peer
    ]
    if not found:
        return ""
    title = "best peer's time over PalmKit's; the line is 1"
    return f"<figure>{bars(found, title, 760, 1.0)}<figcaption>{title}</figcaption></figure>"


def _cards(comparisons: Iterable[Comparison], caption: str, value: _Value) -> str:
    """Return a small plot for each model, the best engine first."""
    cards: list[str] = []
    for each in comparisons:
        values = [(value(result), result) for result in each.results]
        known = sorted(((v, r) for v, r in values if v is not None), key=lambda pair: pair[0])
        if not known:
            continue
        plot = bars(
            [Bar(r.title, v, _short(v), _kind(r), _hint(each, r)) for v, r in known],
            f"{each.model}: {caption}",
        )
        cards.append(f"<figure><figcaption>{escape(each.model)}</figcaption>{plot}</figure>")
    return f"<p>{caption}</p><div class='cards'>{''.join(cards)}</div>" if cards else ""


def _table(comparisons: Sequence[Comparison], peak: float | None) -> str:
    heads = [
        *("model", "engine", "min ms", "median", "p95", "runs", "GFLOP/s", "of peak"),
        *("load ms", "memory MB", "difference", "read from"),
    ]
    rows: list[str] = []
    for each in comparisons:
        for place, result in enumerate(sorted(each.results, key=lambda r: r.times.min_ms)):
            achieved, times = flops_per_s(each, result), result.times
            cells = [
                escape(each.model) if not place else "",
                escape(result.title),
                *(f"{ms:.3f}" for ms in (times.min_ms, times.median_ms, times.p95_ms)),
                str(times.runs),
                f"{achieved * 1e-9:.1f}" if achieved else "",
                f"{achieved / peak:.0%}" if achieved and peak else "",
                f"{result.load_ms:.1f}",
                "" if result.memory_bytes is None else f"{result.memory_bytes / 1e6:.1f}",
                "" if result.difference is None else f"{result.difference:.1g}",
                f".{result.form}",
            ]
            line = "".join(f"<td>{cell}</td>" for cell in cells)
            rows.append(f"<tr class='{_kind(result)}{'' if place else ' first'}'>{line}</tr>")
    head = "".join(f"<th>{each}</th>" for each in heads)
    body = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return f"<details><summary>all numbers</summary><div class='wide'>{body}</div></details>"


def _scaling(comparisons: Sequence[Comparison], engines: Mapping[str, str]) -> str:
    cards = [
        f"<figure><figcaption>{escape(model)}</figcaption>"
        + bars(
            [
                Bar(engines[name], value, f"{value:.2f}", "ours" if name == OURS else "peer")
                for name, value in sorted(values.items(), key=lambda item: -item[1])
            ],
            f"{model}: {threads} threads over 1",
            mark=float(threads),
        )
        + "</figure>"
        for model, counts in scaling(comparisons).items()
        for threads, values in counts.items()
    ]
    if not cards:
        return ""
    intro = "<p>how many times faster than on one thread; the line is the number of threads</p>"
    return f"<h2>Scaling</h2>{intro}<div class='cards'>{''.join(cards)}</div>"


def _refusals(comparisons: Sequence[Comparison], engines: Mapping[str, str]) -> str:
    lines = "".join(f"<li>{escape(line)}</li>" for line in refusals(comparisons, engines))
    return f"<h2>Left out</h2><ul>{lines}</ul>" if lines else ""


def _time(result: Result) -> float | None:
    return result.times.min_ms


def _load(result: Result) -> float | None:
    return result.load_ms


def _memory(result: Result) -> float | None:
    return None if result.memory_bytes is None else result.memory_bytes / 1e6


def _kind(result: Result) -> str:
    return "ours" if result.engine == OURS else "peer"


def _hint(comparison: Comparison, result: Result) -> str:
    times = result.times
    return (
        f"{result.title} {result.version}: {times.min_ms:.3f} ms, median {times.median_ms:.3f}, "
        f"p95 {times.p95_ms:.3f} of {times.runs} runs; threads {comparison.threads}"
    )


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


_STYLE = """\
:root{color-scheme:light dark;--page:#fff;--text:#27313b;--soft:#68747f;--line:#dde2e7;
--card:#f6f8fa;--ours:#2f6fdf;--peer:#a9b4bf;--mark:#d9542b}
@media(prefers-color-scheme:dark){:root{--page:#14181d;--text:#e3e8ed;--soft:#97a3af;
--line:#2c343c;--card:#1b2127;--ours:#5b93f5;--peer:#56626e;--mark:#f07a52}}
body{max-width:1120px;margin:2rem auto;padding:0 1rem;background:var(--page);color:var(--text);
font:14px/1.5 Inter,"Segoe UI",Roboto,Helvetica,Arial,sans-serif}
h1{font-size:22px;margin:0 0 1rem}h2{font-size:17px;margin:2.4rem 0 .6rem}
p,small,figcaption,dt{color:var(--soft)}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem}dd{margin:0}
.tiles,.cards{display:flex;flex-wrap:wrap;gap:.8rem}
.tile{background:var(--card);border-radius:8px;padding:.7rem 1rem;max-width:11rem}
.tile b{font-size:22px;color:var(--ours)}.tile span{margin-left:.4rem}.tile small{display:block}
figure{margin:0;background:var(--card);border-radius:8px;padding:.7rem .9rem;overflow-x:auto}
.cards figcaption{color:var(--text);font-weight:600;margin-bottom:.3rem}
h2+figure{margin-bottom:.8rem}
.bars text{font-size:12px;fill:var(--text)}.bars .value{fill:var(--soft)}
.bars rect{fill:var(--peer)}.bars .ours rect,.bars .ratio rect{fill:var(--ours)}
.bars .ours text{font-weight:600}
.mark{stroke:var(--mark);stroke-width:1.5;stroke-dasharray:4 3}
details{margin-top:.8rem}summary{cursor:pointer;color:var(--soft)}.wide{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.15rem .6rem;text-align:right;white-space:nowrap}
th:nth-child(-n+2),td:nth-child(-n+2){text-align:left}
th{color:var(--soft);font-weight:500}.first td{border-top:1px solid var(--line)}
tr.ours td:not(:first-child){color:var(--ours);font-weight:600}
"""
_PAGE = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>PalmKit beside other engines</title>
<style>
{style}</style></head>
<body>
<h1>PalmKit beside other engines</h1>
{body}
</body></html>
"""
