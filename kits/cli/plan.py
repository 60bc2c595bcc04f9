"""palmkit info --plan: the steps of backend cpu, and their places in memory."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from palmkit.kits.cli.command import UsageError, write_whole

if TYPE_CHECKING:
    from palmkit.engine.backends.cpu.summary import Place, PlanSummary, StepSummary
    from palmkit.engine.ir import Graph

PICTURES = (".svg", ".html")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that only --plan uses."""
    group = parser.add_argument_group("with --plan")
    group.add_argument(
        "-o", "--output", metavar="PLAN.html", help="a picture of the memory: .html or .svg"
    )
    group.add_argument("--threads", type=int, default=1, metavar="N", help="planned for (1)")
    group.add_argument(
        "--precision", choices=("high", "normal", "low"), default="high", help="as in load (high)"
    )
    group.add_argument(
        "--tune", action="store_true", help="with the algorithms timed on this machine"
    )


def check_options(options: argparse.Namespace) -> None:
    """Raise UsageError for options of --plan without it, or a picture of unknown kind."""
    if not options.plan and (options.output or options.tune):
        raise UsageError("-o and --tune: expected with --plan")
    if options.output and Path(options.output).suffix.lower() not in PICTURES:
        raise UsageError(
            f"-o: expected a name that ends with {', '.join(PICTURES)}, got {options.output!r}"
        )


def show(options: argparse.Namespace, graph: Graph) -> None:
    """Print or draw the plan of a graph without open sizes."""
    from palmkit.engine.backends.cpu.summary import plan_summaries
    from palmkit.engine.backends.options import Options

    try:
        asked = Options(options.threads, options.precision, options.tune)
    except ValueError as error:
        raise UsageError(str(error)) from None
    plans = plan_summaries(graph, asked)
    if options.output:
        _draw(options, plans)
    if options.json:
        print(json.dumps({"file": options.model, "plans": [_facts(plan) for plan in plans]}))
        return
    for number, plan in enumerate(plans):
        if len(plans) > 1:
            print(f"{'' if not number else chr(10)}part {number + 1} of {len(plans)}")
        _print(plan)
    if not plans:
        print("no plan: nothing of it runs natively before sizes are known")
    if options.output:
        print(f"\n{options.output}")


def _draw(options: argparse.Namespace, plans: list[PlanSummary]) -> None:
    from palmkit.engine.drawing import page
    from palmkit.engine.drawing.arena import draw_arena

    title = Path(options.model).name
    svg = draw_arena(plans, title)
    target = Path(options.output)
    write_whole(target, page(svg, title) if target.suffix.lower() == ".html" else svg)


def _facts(plan: PlanSummary) -> dict[str, object]:
    bound = plan.lower_bound_bytes
    return {
        "arena_bytes": plan.arena_bytes,
        "lower_bound_bytes": bound,
        "arena_ratio": plan.arena_bytes / bound if bound else 1.0,
        "flop": plan.flop,
        "steps": [asdict(step) for step in plan.steps],
        "buffers": [asdict(each) for each in plan.buffers],
    }


def _print(plan: PlanSummary) -> None:
    from palmkit.engine.drawing.arena import arena_text, ratio_text

    bound = arena_text(plan.lower_bound_bytes)
    print(f"{len(plan.steps)} steps, {plan.flop / 1e6:,.1f} MFLOP")
    print(f"arena {arena_text(plan.arena_bytes)}, lower bound {bound}{ratio_text(plan)}\n")
    heads = ("", "node", "kernel", "algorithm", "shapes", "MFLOP", "expect us", "arena", "bytes")
    rows: list[tuple[str, ...]] = [heads]
    rows += [_row(number, step) for number, step in enumerate(plan.steps)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    to_the_right = {0, 5, 6, 7, 8}
    for row in rows:
        cells = [
            f"{cell:>{width}}" if i in to_the_right else f"{cell:{width}}"
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())


def _row(number: int, step: StepSummary) -> tuple[str, ...]:
    from palmkit.engine.backends.cpu.summary import ONLY_ONE

    by = f" ({step.chosen_by})" if step.algorithm and step.chosen_by != ONLY_ONE else ""
    reads = next((x for x in step.inputs if x is not None and x.place != "constant"), None)
    shapes = " -> ".join([_shape(reads)] * (reads is not None) + [_shape(step.outputs[0])])
    return (
        str(number),
        _short(step.node),
        f"{step.kernel}, branch {step.branch}" if step.branch else step.kernel,
        step.algorithm + by,
        shapes,
        f"{step.flop / 1e6:.2f}" if step.flop else "",
        f"{step.expected_s * 1e6:.1f}" if step.expected_s is not None else "",
        _where(step),
        f"{sum(y.size_bytes for y in step.outputs):,}",
    )


def _shape(place: Place | None) -> str:
    return "x".join(map(str, place.shape)) or "1" if place else ""


def _where(step: StepSummary) -> str:
    """Return the output's byte offset, with = where it overwrites an input; or its name."""
    y = step.outputs[0]
    if y.place != "arena":
        return f"{y.place} {y.at}"
    return f"{'=' if step.in_place is not None else ''}{y.at:,}"


def _short(name: str) -> str:
    """Return the end of a long name: paths differ there."""
    return name if len(name) <= 36 else f"..{name[-34:]}"
