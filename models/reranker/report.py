"""The report of a training: one HTML file with tables and plots."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from palmkit.engine.replacing import replacing
from palmkit.models.reranker.train import Progress

COLOURS = ("#1f77b4", "#9aa5b1")
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse}td,th{padding:.2rem .8rem;text-align:right}"
    "td:first-child,th:first-child{text-align:left}tr:nth-child(even){background:#f3f5f7}"
    "img{max-width:100%}"
)


def write_report(
    out: Path,
    title: str,
    facts: Mapping[str, Any],
    measures: Mapping[str, Mapping[str, float]],
    by_events: Mapping[str, Sequence[tuple[str, float]]],
    progress: Progress | None,
) -> None:
    """Write it whole or not at all.

    measures: of each method on the test pages. by_events: of each method (label, MRR) by how many
    events came before a page. progress: of the network, if one was trained. Plots need matplotlib
    (extra `rerank`); without it they are left out.
    """
    plots = _plots(measures, by_events, progress)
    columns = list(next(iter(measures.values())))
    head = "".join(f"<th>{html.escape(each)}</th>" for each in ("", *columns))
    body = "".join(
        f"<tr><td>{html.escape(name)}</td>"
        + "".join(f"<td>{values[each]:.4f}</td>" for each in columns)
        + "</tr>"
        for name, values in measures.items()
    )
    told = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{html.escape(str(value))}</td></tr>"
        for name, value in facts.items()
    )
    images = "".join(
        f"<h2>{html.escape(name)}</h2><img src='data:image/png;base64,{image}' alt=''>"
        for name, image in plots.items()
    )
    text = (
        f"<!doctype html><meta charset=utf-8><title>{html.escape(title)}</title>"
        f"<style>{_STYLE}</style><h1>{html.escape(title)}</h1><table>{told}</table>"
        f"<h2>Test pages</h2><table><tr>{head}</tr>{body}</table>{images}"
    )
    with replacing(out) as part:
        part.write_text(text, encoding="utf-8")


def _plots(
    measures: Mapping[str, Mapping[str, float]],
    by_events: Mapping[str, Sequence[tuple[str, float]]],
    progress: Progress | None,
) -> dict[str, str]:
    """Return PNGs in base64, by title."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return {}
    found: dict[str, str] = {}

    def keep(name: str, figure: Any) -> None:
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=110)
        found[name] = base64.b64encode(buffer.getvalue()).decode()

    names = list(measures)[::-1]
    figure = Figure(figsize=(8, 0.5 * len(names) + 1), layout="constrained")
    axes = figure.subplots()
    axes.barh(names, [measures[name]["mrr"] for name in names], color=COLOURS[0])
    axes.set_xlabel("MRR")
    keep("Where the chosen item stands", figure)
    if progress is not None:
        figure = Figure(figsize=(8, 3), layout="constrained")
        left, right = figure.subplots(1, 2)
        epochs = range(1, 1 + len(progress.losses))
        left.plot(epochs, progress.losses, "o-", color=COLOURS[0])
        left.set(xlabel="epoch", ylabel="loss, training pages")
        right.plot(epochs, [each["mrr"] for each in progress.held_out], "o-", color=COLOURS[0])
        right.set(xlabel="epoch", ylabel="MRR, held-out pages")
        keep("Training", figure)
    figure = Figure(figsize=(8, 3), layout="constrained")
    axes = figure.subplots()
    for name, points in by_events.items():
        axes.plot([label for label, _ in points], [value for _, value in points], "o-", label=name)
    axes.set(xlabel="events before the page", ylabel="MRR")
    axes.legend(fontsize="small")
    keep("By what is known of the user", figure)
    return found
