"""LightGBM's text format (Booster.save_model) to IR; LightGBM itself is not needed.

model.py reads the text. A float32 number takes the same way down each tree as in LightGBM, where
thresholds are float64; the weights of leaves are rounded to float32.
"""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path

import numpy as np

from palmkit.engine.converters.damage import damage_as_model_error
from palmkit.engine.converters.lightgbm.model import MAGIC, ZERO, Forest, read
from palmkit.engine.errors import ModelError, UnsupportedError
from palmkit.engine.ir import Array, Attr, Graph, Node, Type, check
from palmkit.engine.ops import infer_types

__all__ = ["convert", "read", "recognises"]

# How an objective turns sums into what Booster.predict returns.
_PLAIN = (
    *("regression", "regression_l1", "huber", "fair", "quantile", "mape"),
    *("lambdarank", "rank_xendcg", "custom", ""),
)
_POWERS = ("poisson", "gamma", "tweedie")
_CHANCES = ("binary", "multiclassova", "cross_entropy")


def recognises(start: bytes) -> bool:
    """Return whether a file that begins so is a LightGBM model."""
    return start.replace(b"\r\n", b"\n").startswith(MAGIC.encode())


def convert(source: str | PathLike[str] | bytes) -> Graph:
    """Read the text that Booster.save_model wrote, or its bytes, as a graph.

    Its input "features" is float32[rows, features], its output "predictions" is
    float32[rows, outputs]: what Booster.predict returns. Raises ModelError for another text,
    UnsupportedError for trees with linear models in their leaves or an objective whose outputs are
    not known here.
    """
    what = "LightGBM model in memory" if isinstance(source, bytes) else fspath(source)
    with damage_as_model_error("LightGBM", what):
        try:
            data = source if isinstance(source, bytes) else Path(source).read_bytes()
        except OSError as error:
            raise ModelError(f"cannot read model {what}: {error.strerror or error}") from None
        graph = _graph(read(data.decode("utf-8", "replace")))
        check(graph)
        infer_types(graph)
        return graph


class _Writer:
    """Nodes one behind the other, each of the last value and constants."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.constants: dict[str, Array] = {}
        self.last = "features"

    def constant(self, value: Array) -> str:
        name = f"constant{len(self.constants)}"
        self.constants[name] = value
        return name

    def number(self, value: float) -> str:
        return self.constant(np.array(value, np.float32))

    def emit(self, op: str, *inputs: str, **attrs: Attr) -> str:
        self.last = f"{op}{len(self.nodes)}"
        self.nodes.append(Node(op, inputs, (self.last,), attrs))
        return self.last


def _graph(forest: Forest) -> Graph:
    to = _Writer()
    _prepare(forest, to)
    inputs = [
        "" if value is None else to.constant(value)
        for value in forest.trees.inputs(forest.outputs).values()
    ]
    to.emit("tree_ensemble", to.last, *inputs, n_targets=forest.outputs)
    if forest.rounds:
        to.emit("div", to.last, to.number(forest.rounds))
    _finish(forest, to)
    to.nodes.append(Node("identity", (to.last,), ("predictions",)))
    return Graph(
        {"features": Type("float32", ("rows", forest.features))},
        {"predictions": Type("float32", ("rows", forest.outputs))},
        tuple(to.nodes),
        to.constants,
        {"producer": "LightGBM", "objective": " ".join(forest.objective)},
    )


def _prepare(forest: Forest, to: _Writer) -> None:
    """Write what LightGBM does to some features before it compares them."""
    columns = np.arange(forest.features)
    if len(forest.zero_is_missing):
        tiny = to.emit("less_or_equal", to.emit("abs", "features"), to.number(ZERO))
        zero = to.emit("and", tiny, to.constant(np.isin(columns, forest.zero_is_missing)))
        to.emit("where", zero, to.number(np.nan), "features")
    if len(forest.categorical):
        # Codes are whole numbers there: what is behind the point does not count.
        x = to.last
        whole = to.emit("mul", to.emit("floor", to.emit("abs", x)), to.emit("sign", x))
        to.emit("where", to.constant(np.isin(columns, forest.categorical)), whole, x)


def _finish(forest: Forest, to: _Writer) -> None:
    """Write what the objective makes of the sums."""
    name, *options = forest.objective or ("",)
    if name == "regression" and "sqrt" in options:
        to.emit("mul", to.last, to.emit("abs", to.last))
    elif name in _POWERS:
        to.emit("exp", to.last)
    elif name == "multiclass":
        to.emit("softmax", to.last, axis=1)
    elif name in _CHANCES:
        steep = next((float(each[8:]) for each in options if each.startswith("sigmoid:")), 1.0)
        if steep != 1:
            to.emit("mul", to.last, to.number(steep))
        to.emit("sigmoid", to.last)
    elif name not in _PLAIN:
        raise UnsupportedError(f"LightGBM's objective {name[:40]!r} is not supported")
