"""Ships the models in fewer bytes: weights rounded as far as the task's metric allows.

`python -m palmkit.models.smaller DATA WORK OUT` writes OUT/NAME.palm for each shipped model and
prints its metrics. Weights are rounded by `palmkit.engine.compress.rounding` on training pictures;
how far is decided on the validation part, where no metric may lose more than 1 % of its float
value, or --most-lost; the table is of the dev part. Computation stays in float32. DATA and WORK as
for `palmkit.models.quantization`. Run `palmkit.models.ready` afterwards.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from palmkit.engine.compress.in_turn import rounded_in_turn
from palmkit.engine.compress.layers import Layer, find_layers, moments
from palmkit.engine.compress.rounding import Feedback, feedbacks, in_half, layer_steps, rounded
from palmkit.engine.ir import Graph
from palmkit.models.quantization import MODELS, TASKS, Task

# The widths of the steps, from few bytes to many.
WIDTHS = (2.0, 1.85, 1.7, 1.4, 1.2, 1.0, 0.85, 0.7, 0.6, 0.5, 0.42, 0.35, 0.25, 0.18)
MOST_LOST = 0.01
# Samples: all, for what the layers see, for how much each matters, and for rounding in turn.
SAMPLES, SEEN, PROBED, TURNED = 900, 400, 240, 500
EVERYTHING = 10**9


def quiet(share: float, what: str) -> None:
    """Report no progress."""


def share_lost(was: Mapping[str, float], now: Mapping[str, float]) -> float:
    """Return the largest relative loss of any number; for names with "error" less is better."""
    return max(
        (now[name] - value if "error" in name else value - now[name]) / max(abs(value), 1e-9)
        for name, value in was.items()
    )


def steps_of(
    graph: Graph, layers: Sequence[Layer], task: Task
) -> tuple[dict[str, float], dict[str, list[Feedback]]]:
    """Return each layer's step at width 1, and the `feedbacks` of what the layers see."""
    feedback = feedbacks(moments(graph, layers, task.samples[:SEEN]))
    steps = layer_steps(graph, layers, task.samples[:PROBED], feedback, quiet, task.matters)
    return steps, feedback


def make_smaller(
    source: Path,
    out: Path,
    task: Task,
    most_lost: float = MOST_LOST,
    widths: Sequence[float] = WIDTHS,
    in_turn: bool = False,
) -> float:
    """Write the smallest file that loses no more than is allowed; return its width.

    in_turn: whether layers compensate the rounding of others, which takes minutes a width.
    Raises ValueError if even the finest steps lose more.
    """
    from palmkit.engine import load, save

    graph = load(source).graph
    layers = find_layers(graph)
    steps, feedback = steps_of(graph, layers, task)
    was = task.measure(source)
    for width in widths:
        wide = {name: step * width for name, step in steps.items()}
        if in_turn:
            small = rounded_in_turn(graph, layers, wide, task.samples[:TURNED], quiet)
        else:
            small = rounded(graph, layers, wide, feedback)
        small = in_half(small, without=steps)
        # A new name each time, as kits cache models by their paths.
        tried = out / f"{source.stem}-{width:g}.palm"
        save(small, tried, weights="smallest", shapes=())
        lost = share_lost(was, task.measure(tried))
        print(f"{source.stem}: width {width:g}, {tried.stat().st_size} bytes, {lost:.2%} lost")
        if lost <= most_lost:
            tried.replace(out / source.name)
            return width
        tried.unlink()
    raise ValueError(f"{source.stem}: every width loses more than {most_lost:.1%}")


def row(name: str, path: Path, task: Task) -> str:
    """Return a line of a Markdown table."""
    found = ", ".join(f"{key} {value:.4f}" for key, value in task.measure(path).items())
    return f"| {name} | {path.stat().st_size / 1000:.0f} | {found} |"


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="shipped models in fewer bytes")
    parser.add_argument("data", type=Path, help="folder of the indexes")
    parser.add_argument("work", type=Path, help="folder of the recipes' labels")
    parser.add_argument("out", type=Path, help="folder that takes the files")
    parser.add_argument("--models", nargs="*", choices=tuple(TASKS), default=tuple(TASKS))
    parser.add_argument("--originals", type=Path, help="folder of NAME.palm, as export.py writes")
    parser.add_argument("--most-lost", type=float, default=MOST_LOST, help="share of a metric")
    parser.add_argument("--widths", type=float, nargs="+", default=WIDTHS, help="of the steps")
    parser.add_argument("--in-turn", action="store_true", help="less lost, in minutes a width")
    options = parser.parse_args(None if arguments is None else list(arguments))
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.models:
        source = (options.originals or MODELS / name) / f"{name}.palm"
        make = TASKS[name]
        task = make(name, options.data, options.work, EVERYTHING, SAMPLES, "validation")
        how = options.most_lost, options.widths, options.in_turn
        make_smaller(source, options.out, task, *how)
        task = make(name, options.data, options.work, EVERYTHING, 1, "dev")
        print(row(f"{name}, as it was", source, task))
        print(row(name, options.out / source.name, task), flush=True)


if __name__ == "__main__":
    main()
