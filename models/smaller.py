"""Ship the models in fewer bytes: weights rounded as far as the task's metric allows.

`python -m palmkit.models.smaller DATA WORK OUT` writes OUT/NAME.palm for each shipped model and
prints what it is worth. Layers are rounded by `palmkit.engine.compress.rounding` on training
pictures; how far is decided on the validation part, where no metric may lose more than 1 % of its
float value, or --most-lost; the table is of the dev part. Computation stays in float32. DATA and
WORK as `palmkit.models.quantization` has them. `palmkit.models.ready` comes behind it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path

from palmkit.engine.compress.layers import find_layers, moments
from palmkit.engine.compress.rounding import layer_steps, rounded
from palmkit.models.quantization import MODELS, TASKS, Task

# How wide the steps are, from few bytes to many.
WIDTHS = (1.4, 1.0, 0.7, 0.5, 0.35, 0.25, 0.18)
MOST_LOST = 0.01
# Samples: for what the layers see, and for how much each matters.
SEEN, PROBED = 400, 12
EVERYTHING = 10**9


def share_lost(was: Mapping[str, float], now: Mapping[str, float]) -> float:
    """The most that any number got worse, in shares of itself; names with error: less is better."""
    return max(
        (now[name] - value if "error" in name else value - now[name]) / max(abs(value), 1e-9)
        for name, value in was.items()
    )


def make_smaller(source: Path, out: Path, task: Task, most_lost: float = MOST_LOST) -> float:
    """Write the smallest file that loses no more than is allowed; returns its width.

    Raises ValueError if even the finest steps lose more.
    """
    from palmkit.engine import load, save

    graph = load(source).graph
    layers = find_layers(graph)
    seen = moments(graph, layers, task.samples)
    steps = layer_steps(graph, layers, task.samples[:PROBED], seen, lambda share, what: None)
    was = task.measure(source)
    for width in WIDTHS:
        small = rounded(graph, layers, {name: step * width for name, step in steps.items()}, seen)
        # A name of its own: kits keep models by their paths.
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
    """A line of a Markdown table."""
    found = ", ".join(f"{key} {value:.4f}" for key, value in task.measure(path).items())
    return f"| {name} | {path.stat().st_size / 1000:.0f} | {found} |"


def main(arguments: Iterable[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="shipped models in fewer bytes")
    parser.add_argument("data", type=Path, help="folder of the indexes")
    parser.add_argument("work", type=Path, help="folder of the recipes' labels")
    parser.add_argument("out", type=Path, help="folder that takes the files")
    parser.add_argument("--models", nargs="*", choices=tuple(TASKS), default=tuple(TASKS))
    parser.add_argument("--originals", type=Path, help="folder of NAME.palm, as export.py writes")
    parser.add_argument("--most-lost", type=float, default=MOST_LOST, help="share of a metric")
    options = parser.parse_args(None if arguments is None else list(arguments))
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.models:
        source = (options.originals or MODELS / name) / f"{name}.palm"
        make = TASKS[name]
        task = make(name, options.data, options.work, EVERYTHING, SEEN, "validation")
        make_smaller(source, options.out, task, options.most_lost)
        task = make(name, options.data, options.work, EVERYTHING, 1, "dev")
        print(row(f"{name}, as it was", source, task))
        print(row(name, options.out / source.name, task), flush=True)


if __name__ == "__main__":
    main()
