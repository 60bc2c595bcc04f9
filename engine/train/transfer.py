"""A new classifier on top of the features that a network has learned."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from palmkit.engine.errors import ModelError
from palmkit.engine.ir import Graph, Node, Type, fresh_name, value_names
from palmkit.engine.ops import infer_types
from palmkit.engine.passes.remove_dead_code import remove_dead_code


def with_classifier(graph: Graph, features: str, classes: Sequence[str]) -> tuple[Graph, list[str]]:
    """Return the part of a graph that makes some features, with a new last layer behind it.

    features: a value [n, ...] whose sizes but the first are known, such as a global mean. classes:
    at least two names, kept as metadata "labels".
    Returns a graph with the outputs "logits" and "probabilities", float32[n, classes], and the
    names of the layer's weights, which begin at zero: what `Trainer` is to train.
    Raises ModelError if the graph has no such value or its size is not known, ValueError for fewer
    than two classes or one named twice.
    """
    if len(classes) < 2 or len(set(classes)) != len(classes):
        raise ValueError(f"classes: expected two names or more, all different, got {[*classes]}")
    type = infer_types(graph).get(features)
    if type is None or not type.is_static or len(type.dims) < 2:
        known = "no such value" if type is None else str(type)
        raise ModelError(f"features {features!r}: expected a value [n, ...] of known size: {known}")
    batch, width = type.dims[0], int(np.prod(type.dims[1:]))
    taken = value_names(graph)
    weights, bias, flat = (
        fresh_name(taken, f"classifier.{name}") for name in ("weights", "bias", "features")
    )
    nodes = (
        Node("flatten", (features,), (flat,), {"axis": 1}),
        Node("gemm", (flat, weights, bias), ("logits",)),
        Node("softmax", ("logits",), ("probabilities",), {"axis": -1}),
    )
    rows = Type(type.dtype, (batch, len(classes)))
    cut = Graph(
        graph.inputs,
        {"logits": rows, "probabilities": rows},
        (*graph.nodes, *nodes),
        {
            **graph.constants,
            weights: np.zeros((width, len(classes)), type.dtype),
            bias: np.zeros(len(classes), type.dtype),
        },
        {"labels": "\n".join(classes)},
    )
    if {"logits", "probabilities"} & taken:
        raise ModelError("the graph has values called logits or probabilities already")
    return remove_dead_code(cut), [weights, bias]
