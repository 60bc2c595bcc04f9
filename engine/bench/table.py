"""Comparisons as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from palmkit.engine.bench.comparison import INT8, Comparison, Result
from palmkit.engine.bench.measurement import geometric_mean

_NONE = "-"


def flops_per_s(comparison: Comparison, result: Result) -> float | None:
    """Return an engine's speed: two operations a multiply-accumulate of the network as written."""
    if not comparison.macs:
        return None
    return 2 * comparison.macs / (result.times.min_ms * 1e-3)


def facts(comparison: Comparison, peaks: Mapping[int, float | None]) -> dict[str, Any]:
    """Return every number of a comparison, ready for JSON.

    peaks: FLOP/s by the number of threads.
    """
    peak = peaks.get(comparison.threads)
    engines: dict[str, Any] = {}
    for each in comparison.results:
        achieved = flops_per_s(comparison, each)
        engines[each.engine] = {
            "version": each.version,
            "form": each.form,
            "runs": each.times.runs,
            "min_ms": each.times.min_ms,
            "median_ms": each.times.median_ms,
            "p95_ms": each.times.p95_ms,
            "load_ms": each.load_ms,
            "load_median_ms": each.load_median_ms,
            "memory_bytes": each.memory_bytes,
            "peak_memory_bytes": each.peak_memory_bytes,
            "flops_per_s": achieved,
            "peak_share": achieved / peak if achieved and peak else None,
            "difference": each.difference,
        }
    best = comparison.best_peer
    return {
        "model": comparison.model,
        "backend": comparison.backend,
        "threads": comparison.threads,
        "precision": comparison.precision,
        "macs": comparison.macs,
        "peak_flops_per_s": peak,
        "engines": engines,
        "refusals": dict(comparison.refusals),
        "best_peer": best.engine if best else None,
        "ratio": comparison.ratio,
        "load_ratio": comparison.load_ratio,
        "memory_ratio": comparison.memory_ratio,
    }


def means(comparisons: Iterable[Comparison]) -> dict[int, dict[str, float]]:
    """Return the geometric means of the models' ratios, by the number of threads."""
    found: dict[int, dict[str, float]] = {}
    every = list(comparisons)
    for threads in sorted({each.threads for each in every}):
        some = [each for each in every if each.threads == threads]
        ratios = {
            "ratio": [each.ratio for each in some if each.ratio],
            "load_ratio": [each.load_ratio for each in some if each.load_ratio],
            "memory_ratio": [each.memory_ratio for each in some if each.memory_ratio],
        }
        found[threads] = {name: geometric_mean(each) for name, each in ratios.items() if each}
    return found


def scaling(comparisons: Iterable[Comparison]) -> dict[str, dict[int, dict[str, float]]]:
    """Return each engine's speedup over one thread, by model and number of threads."""
    found: dict[str, dict[int, dict[str, float]]] = {}
    every = list(comparisons)
    for base in every:
        if base.threads != 1:
            continue
        alone = {each.engine: each.times.min_ms for each in base.results}
        for other in every:
            if other.model == base.model and other.threads > 1:
                found.setdefault(base.model, {})[other.threads] = {
                    each.engine: alone[each.engine] / each.times.min_ms
                    for each in other.results
                    if each.engine in alone
                }
    return found


class Table:
    """The table of times with one number of threads, written line by line as results come."""

    def __init__(self, engines: Mapping[str, str], width: int) -> None:
        """Set up the columns.

        engines: titles by name, ours first; width: length of the longest model's name.
        """
        self._engines = engines
        self._width = max(width, len("fastest run, ms"))

    def head(self) -> str:
        """Return the line of titles."""
        cells = "".join(f"{title:>14}" for title in self._engines.values())
        return f"{'fastest run, ms':{self._width}}{cells}  {'ratio':>6}{'GFLOP/s':>9}{'of peak':>8}"

    def line(self, comparison: Comparison, peak: float | None) -> str:
        """Return a model's line, with our share of the peak at its end."""
        times = {each.engine: each.times.min_ms for each in comparison.results}
        cells = "".join(f"{_milliseconds(times.get(name)):>14}" for name in self._engines)
        ratio = _fixed(comparison.ratio)
        ours = comparison.ours
        achieved = flops_per_s(comparison, ours) if ours else None
        rate = f"{achieved * 1e-9:.1f}" if achieved else _NONE
        share = f"{achieved / peak:.0%}" if achieved and peak else _NONE
        return f"{comparison.model:{self._width}}{cells}  {ratio:>6}{rate:>9}{share:>8}"


def loads(comparisons: Sequence[Comparison], engines: Mapping[str, str]) -> list[str]:
    """Return the table of load times and memory."""
    rows = [["load ms / memory MB", *engines.values(), "load", "memory"]]
    for each in comparisons:
        by_name = {result.engine: result for result in each.results}
        cells = [_load(by_name.get(name)) for name in engines]
        rows.append([each.model, *cells, _fixed(each.load_ratio), _fixed(each.memory_ratio)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            f"{cell:>{width}}" if column else f"{cell:{width}}"
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def summary(
    means: Mapping[int, Mapping[str, float]],
    scaling: Mapping[str, Mapping[int, Mapping[str, float]]],
) -> list[str]:
    """Return geometric means of the ratios, and how ours scales with the threads."""
    labels = {"ratio": "time", "load_ratio": "load", "memory_ratio": "memory"}
    lines: list[str] = []
    for threads, ratios in means.items():
        said = ", ".join(f"{labels[name]} {value:.2f}" for name, value in ratios.items())
        if said:
            lines.append(f"geometric mean of the ratios, threads {threads}: {said}")
    for model, counts in scaling.items():
        for threads, engines in counts.items():
            said = ", ".join(f"{name} {value:.2f}" for name, value in engines.items())
            lines.append(f"{model}, {threads} threads over 1: {said}")
    return lines


def markdown(comparisons: Sequence[Comparison]) -> str:
    """Return two tables for a document: times by the number of threads, and load and memory."""
    counts = sorted({each.threads for each in comparisons})
    models = list(dict.fromkeys(each.model for each in comparisons))
    found = {(each.model, each.threads): each for each in comparisons}
    heads = ["network"]
    for threads in counts:
        heads += [f"PalmKit, {threads} thread{'s' if threads > 1 else ''}", "best peer", "ratio"]
    rows = [
        [model, *(cell for threads in counts for cell in _times(found.get((model, threads))))]
        for model in models
    ]
    mean = means(comparisons)
    last = ["geometric mean"]
    for threads in counts:
        last += ["", "", _fixed(mean[threads].get("ratio"))]
    times = _markdown_table([heads, *rows, last])
    heads = ["network", "PalmKit, load ms", "best peer", "ratio"]
    heads += ["PalmKit, memory MB", "best peer", "ratio"]
    first = [each for each in comparisons if each.threads == counts[0]] if counts else []
    rows = [[each.model, *_load_cells(each), *_memory_cells(each)] for each in first]
    ratios = mean[counts[0]] if counts else {}
    last = ["geometric mean", "", "", _fixed(ratios.get("load_ratio"))]
    last += ["", "", _fixed(ratios.get("memory_ratio"))]
    return f"{times}\n{_markdown_table([heads, *rows, last])}"


def _markdown_table(rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:], ""])


def _times(comparison: Comparison | None) -> list[str]:
    best = comparison.best_peer if comparison else None
    ours = comparison.ours if comparison else None
    return [
        f"{ours.times.min_ms:.3g}" if ours else _NONE,
        f"{best.times.min_ms:.3g} {best.title}" if best else _NONE,
        _fixed(comparison.ratio if comparison else None),
    ]


def _load_cells(comparison: Comparison) -> list[str]:
    best = min(comparison.peers, key=lambda each: each.load_ms, default=None)
    ours = comparison.ours
    return [
        f"{ours.load_ms:.3g}" if ours else _NONE,
        f"{best.load_ms:.3g} {best.title}" if best else _NONE,
        _fixed(comparison.load_ratio),
    ]


def _memory_cells(comparison: Comparison) -> list[str]:
    known = [(each.memory_bytes, each.title) for each in comparison.peers if each.memory_bytes]
    best = min(known, default=None)
    memory = comparison.ours.memory_bytes if comparison.ours else None
    return [
        f"{memory / 1e6:.3g}" if memory else _NONE,
        f"{best[0] / 1e6:.3g} {best[1]}" if best else _NONE,
        _fixed(comparison.memory_ratio),
    ]


def _fixed(ratio: float | None) -> str:
    return _NONE if ratio is None else f"{ratio:.2f}"


def errors(comparisons: Iterable[Comparison]) -> list[str]:
    """Return a line for each model below float32: how far each engine's outputs are off.

    For a quantized model it is the distance from our outputs.
    """
    lines: dict[str, None] = {}
    for each in comparisons:
        if each.precision == "high":
            continue
        known = [(r.title, r.difference) for r in each.results if r.difference is not None]
        said = ", ".join(f"{title} {difference:.1e}" for title, difference in known)
        what = "int8, largest difference from ours" if each.precision == INT8 else "largest error"
        lines[f"{each.model}, {what} over an output's range: {said}"] = None
    return list(lines)


def refusals(comparisons: Iterable[Comparison], engines: Mapping[str, str]) -> list[str]:
    """Return a line for each engine that cannot run a model, and why."""
    found: dict[str, None] = {}
    for each in comparisons:
        for name, reason in each.refusals.items():
            found[f"{each.model}: {engines.get(name, name)} is left out: {reason}"] = None
    return list(found)


def _milliseconds(ms: float | None) -> str:
    return _NONE if ms is None else f"{ms:.3f}"


def _load(result: Result | None) -> str:
    if result is None:
        return _NONE
    memory = "?" if result.memory_bytes is None else f"{result.memory_bytes / 1e6:.1f}"
    return f"{result.load_ms:.1f} / {memory}"
