"""Decision trees of ONNX-ML: TreeEnsemble, and the two operators that it took the place of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.converters.onnx.node import Foreign
from palmkit.engine.converters.onnx.rules import rule
from palmkit.engine.converters.trees import Trees
from palmkit.engine.errors import ModelError
from palmkit.engine.ir import Array, Attr
from palmkit.engine.ops.tree_ensemble import Aggregate, Mode

_Ids = NDArray[np.int64]
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
# Numbers of votes are this many times the leaves' targets at most: the op has them in a table.
_MOST_SPARSE = 64


@rule("ai.onnx.ml.TreeEnsemble")
def _tree_ensemble(node: Foreign) -> None:
    """Take attributes as inputs, and the transform as an op of its own."""
    splits, weights = _need_tensor(node, "nodes_splits"), _need_tensor(node, "leaf_weights")
    members = node.tensor("membership_values")

    def children(side: str) -> Array:
        ids, is_leaf = node.integers(f"nodes_{side}nodeids"), node.integers(f"nodes_{side}leafs")
        if len(ids) != len(is_leaf) or (ids < 0).any():
            raise ModelError(f"{node.label}: nodes_{side}nodeids: negative, or without its flags")
        return np.where(is_leaf != 0, ~ids, ids)

    tracks = node.integers("nodes_missing_value_tracks_true")
    trees = Trees(
        features=node.integers("nodes_featureids"),
        modes=_need_tensor(node, "nodes_modes"),
        splits=splits,
        true=children("true"),
        false=children("false"),
        targets=node.integers("leaf_targetids"),
        weights=weights,
        roots=node.integers("tree_roots"),
        tracks=tracks if len(tracks) else None,
        members=np.zeros(0, splits.dtype) if members is None else members,
    )
    transform = node.integer("post_transform", 0)
    if not 0 <= transform < len(_TRANSFORMS):
        raise ModelError(f"{node.label}: post_transform: {transform}")
    y = _write(node, node.input(0), trees, node.integer("aggregate_function", int(Aggregate.SUM)))
    _finish(node, y, _TRANSFORMS[transform], node.outputs[0])


@rule("ai.onnx.ml.TreeEnsembleRegressor")
def _tree_ensemble_regressor(node: Foreign) -> None:
    """Find the nodes by their ids, and add the base values behind the trees."""
    name = node.string("aggregate_function") or "SUM"
    if name not in Aggregate.__members__:
        raise ModelError(f"{node.label}: aggregate_function: {name[:40]!r}")
    aggregate = Aggregate[name]
    targets = node.integer("n_targets", 1)
    trees = _old_trees(node, "target", targets, aggregate)
    y = _write(node, node.input(0), trees, int(aggregate), targets)
    y = _with_base(node, _as_float32(node, y, trees), targets)
    _finish(node, y, node.string("post_transform") or "NONE", node.outputs[0])


@rule("ai.onnx.ml.TreeEnsembleClassifier")
def _tree_ensemble_classifier(node: Foreign) -> None:
    """Write the scores of the classes, and the label of the best one.

    Of two classes the first may have all votes; they then speak of the second, as in ONNX Runtime:
    if none is negative and no transform follows as chances s, the first having 1 - s, else the
    first has the negative sum.
    """
    labels = node.integers("classlabels_int64s")
    if not len(labels):
        raise node.unsupported("a class with text for a label")
    transform = node.string("post_transform") or "NONE"
    is_alone = len(labels) == 2 and not node.integers("class_ids").any()
    count = 1 if is_alone else len(labels)
    trees = _old_trees(node, "class", count, Aggregate.SUM)
    y = _write(node, node.input(0), trees, int(Aggregate.SUM), count)
    y = _with_base(node, _as_float32(node, y, trees), count)
    best = node.value("best")
    scores = node.outputs[1] if len(node.outputs) > 1 and node.outputs[1] else node.value("scores")
    if is_alone:
        are_chances = bool((trees.weights >= 0).all())
        least = node.constant(np.array(0.5 if are_chances else 0, np.float32))
        is_second = node.emit_value("greater", [y, least])
        flat = node.emit_value("squeeze", [is_second, node.constant(np.array([1]))])
        node.emit("cast", [flat], {"to": "int64"}, [best])
        if are_chances and transform != "LOGISTIC":
            other = node.emit_value("sub", [node.constant(np.array(1, np.float32)), y])
        else:
            other = node.emit_value("neg", [y])
        y = node.emit_value("concat", [other, y], {"axis": 1})
        transform = transform if transform == "LOGISTIC" else "NONE"
    else:
        node.emit("arg_max", [y], {"axis": 1, "keepdims": 0}, [best])
    _finish(node, y, transform, scores)
    node.emit("gather", [node.constant(labels), best], {"axis": 0}, node.outputs[:1])


def _need_tensor(node: Foreign, name: str) -> Array:
    value = node.tensor(name)
    if value is None:
        raise ModelError(f"{node.label}: attribute {name} is missing")
    return value


def _write(node: Foreign, x: str, trees: Trees, aggregate: int, targets: int | None = None) -> str:
    """Write the op, and return its output."""
    count = node.integer("n_targets", 1) if targets is None else targets
    inputs = [
        "" if value is None else node.constant(value, f"{node.outputs[0]}.{name}")
        for name, value in trees.inputs(count).items()
    ]
    attrs: dict[str, Attr] = {"aggregate_function": aggregate, "n_targets": count}
    return node.emit_value("tree_ensemble", [x, *inputs], attrs)


def _as_float32(node: Foreign, y: str, trees: Trees) -> str:
    """Return the output as the older operators have it, whatever the splits are."""
    if trees.splits.dtype == np.float32:
        return y
    return node.emit_value("cast", [y], {"to": "float32"})


def _with_base(node: Foreign, y: str, targets: int) -> str:
    given = node.tensor("base_values_as_tensor")
    base = np.array(node.numbers("base_values"), np.float32) if given is None else given
    if not len(base):
        return y
    if len(base) not in (1, targets) and not (targets == 1 and len(base) == 2):
        raise ModelError(f"{node.label}: base_values: expected {targets}, got {len(base)}")
    if len(base) == 1 and targets > 1:
        raise node.unsupported("one base value for several targets")
    # Of two classes of which one has all votes, the second's counts.
    return node.emit_value("add", [y, node.constant(base[-targets:].astype(np.float32))])


def _finish(node: Foreign, y: str, transform: str, output: str) -> None:
    """Write what the scores become."""
    if transform == "NONE":
        node.emit("identity", [y], outputs=[output])
    elif transform == "LOGISTIC":
        node.emit("sigmoid", [y], outputs=[output])
    elif transform == "SOFTMAX":
        node.emit("softmax", [y], {"axis": -1}, [output])
    else:
        raise node.unsupported(f"post_transform {transform[:40]}")


def _old_trees(node: Foreign, votes: str, targets: int, aggregate: Aggregate) -> Trees:
    """Return the trees of the older operators, whose leaves are nodes, and votes a list."""
    of_tree, of_node = node.integers("nodes_treeids"), node.integers("nodes_nodeids")
    features = node.integers("nodes_featureids")
    true, false = node.integers("nodes_truenodeids"), node.integers("nodes_falsenodeids")
    kinds = np.array([_MODES.get(each, -1) for each in node.texts("nodes_modes")], np.int64)
    given = node.tensor("nodes_values_as_tensor")
    splits = np.array(node.numbers("nodes_values"), np.float32) if given is None else given
    tracks = node.integers("nodes_missing_value_tracks_true")
    count = len(of_tree)
    lists = (of_node, features, true, false, kinds, splits, *([tracks] if len(tracks) else []))
    if not count or any(each.shape != (count,) for each in lists):
        raise ModelError(f"{node.label}: attributes nodes_*: expected lists of one length")
    if (kinds < 0).any():
        raise ModelError(f"{node.label}: nodes_modes: there is another")
    place = _Places(node, of_tree, of_node)
    is_leaf = kinds == _LEAF
    # Nodes and leaves are counted by themselves.
    number = np.where(is_leaf, ~(np.cumsum(is_leaf) - 1), np.cumsum(~is_leaf) - 1)
    inner = ~is_leaf
    below_true = place.of(of_tree[inner], true[inner], "nodes_truenodeids")
    below_false = place.of(of_tree[inner], false[inner], "nodes_falsenodeids")
    has_parent = np.zeros(count, bool)
    has_parent[below_true] = has_parent[below_false] = True
    # The first node of a tree is its root.
    roots = np.sort(np.unique(of_tree, return_index=True)[1])
    if has_parent[roots].any():
        raise ModelError(f"{node.label}: the first node of a tree has a parent")
    found = Trees(
        features=features[inner],
        modes=kinds[inner],
        splits=splits[inner],
        true=number[below_true],
        false=number[below_false],
        targets=np.zeros(0, np.int64),
        weights=np.zeros(0, splits.dtype),
        roots=number[roots],
        tracks=tracks[inner] if len(tracks) else None,
        members=np.zeros(0, splits.dtype),
    )
    leaves = _Leaves(node, votes, place, number, int(is_leaf.sum()), targets)
    return leaves.put(_with_inner_roots(found), aggregate)


_LEAF = len(Mode)
_MODES = {**{f"BRANCH_{mode.name}": int(mode) for mode in Mode}, "LEAF": _LEAF}


def _with_inner_roots(trees: Trees) -> Trees:
    """Return the trees with a node above each leaf that is a tree, whose branches are the leaf."""
    alone = np.flatnonzero(trees.roots < 0)
    if not len(alone):
        return trees
    nothing = np.zeros(len(alone), np.int64)
    first = len(trees.features)
    roots = trees.roots.copy()
    leaves = roots[alone]
    roots[alone] = first + np.arange(len(alone))
    return replace(
        trees,
        features=np.concatenate([trees.features, nothing]),
        modes=np.concatenate([trees.modes, nothing]),
        splits=np.concatenate([trees.splits, nothing.astype(trees.splits.dtype)]),
        true=np.concatenate([trees.true, leaves]),
        false=np.concatenate([trees.false, leaves]),
        roots=roots,
        tracks=None if trees.tracks is None else np.concatenate([trees.tracks, nothing]),
    )


class _Places:
    """Where the node of a tree and an id stands."""

    def __init__(self, node: Foreign, trees: _Ids, ids: _Ids) -> None:
        """Raise ModelError for a node that is there twice."""
        self._node = node
        pairs = zip(trees.tolist(), ids.tolist(), strict=True)
        self._places = {pair: place for place, pair in enumerate(pairs)}
        if len(self._places) < len(trees):
            raise ModelError(f"{node.label}: nodes_nodeids: one is there twice")

    def of(self, trees: _Ids, ids: _Ids, what: str) -> _Ids:
        """Return the places; raise ModelError naming the list for an id that is not there."""
        try:
            pairs = zip(trees.tolist(), ids.tolist(), strict=True)
            return np.array([self._places[pair] for pair in pairs], np.int64)
        except (KeyError, ValueError):
            raise ModelError(f"{self._node.label}: {what}: a node is not there") from None


class _Leaves:
    """The votes of the leaves, in the order of the leaves."""

    def __init__(
        self, node: Foreign, votes: str, place: _Places, number: _Ids, count: int, targets: int
    ) -> None:
        self._node, self._count, self._targets = node, count, targets
        name = f"{votes}_nodeids"
        places = place.of(node.integers(f"{votes}_treeids"), node.integers(name), name)
        self._ids = node.integers(f"{votes}_ids")
        given = node.tensor(f"{votes}_weights_as_tensor")
        self._weights = (
            np.array(node.numbers(f"{votes}_weights"), np.float32) if given is None else given
        )
        if len(self._ids) != len(places) or self._weights.shape != places.shape:
            raise ModelError(f"{node.label}: {votes}_*: expected lists of one length")
        if not len(places) or not (self._ids.min() >= 0 and self._ids.max() < targets):
            raise ModelError(f"{node.label}: {votes}_ids: expected 0 to {targets - 1}")
        # A vote of a node that is no leaf is never asked for.
        is_asked = number[places] < 0
        self._ids, self._weights = self._ids[is_asked], self._weights[is_asked]
        self._leaf = ~number[places][is_asked]

    def put(self, trees: Trees, aggregate: Aggregate) -> Trees:
        """Return the trees with their leaves."""
        ids, leaf, weights = self._ids, self._leaf, self._weights
        each = np.bincount(leaf, minlength=self._count)
        if aggregate in (Aggregate.MIN, Aggregate.MAX) and (each != 1).any():
            raise self._node.unsupported(f"{aggregate.name} of leaves without one vote each")
        low = np.full(self._count, self._targets)
        np.minimum.at(low, leaf, ids)
        high = np.zeros(self._count, np.int64)
        np.maximum.at(high, leaf, ids)
        width = int(max(1, (high - low + 1).max(initial=1)))
        if width * self._count > _MOST_SPARSE * (len(ids) + self._count):
            raise self._node.unsupported("leaves that vote for few of many targets")
        low = np.minimum(low, self._targets - width)
        table = np.zeros((self._count, width), weights.dtype)
        np.add.at(table, (leaf, ids - low[leaf]), weights)
        return replace(trees, targets=low, weights=table[:, 0] if width == 1 else table)
