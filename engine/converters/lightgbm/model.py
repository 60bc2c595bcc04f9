"""Reading LightGBM's text format, version 2 to 4: blocks of `name=value` lines, one a tree.

Source: LightGBM, src/io/gbdt_model_text.cpp, src/io/tree.cpp and include/LightGBM/tree.h.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.converters.trees import Trees
from palmkit.engine.errors import ModelError, UnsupportedError
from palmkit.engine.ir import Array
from palmkit.engine.ops.tree_ensemble import Mode

MAGIC = "tree\nversion="
# Booster.predict takes what lies from -ZERO to ZERO for zero.
ZERO = float(np.float32(1e-35))
# Of a node's decision_type.
_CATEGORICAL, _DEFAULT_LEFT = 1, 2
_MISSING_ZERO, _MISSING_NAN = 1, 2
_Block = Mapping[str, str]


@dataclass(frozen=True)
class Forest:
    """A LightGBM model: its trees, and what is done before and behind them.

    features, outputs: numbers of them. categorical: the features that are codes. zero_is_missing:
    the features whose zeros count as NaN. rounds: what the sums are divided by; 0 for nothing.
    objective: its name, then options such as "sigmoid:1".
    """

    trees: Trees
    features: int
    outputs: int
    categorical: NDArray[np.int64]
    zero_is_missing: NDArray[np.int64]
    rounds: int
    objective: tuple[str, ...]


def read(text: str, scale: float = 1.0) -> Forest:
    """Return the model of a text, its weights as float32 of `scale` times what stands there.

    Raises ModelError for another text, UnsupportedError for linear models in leaves.
    """
    lines = text.replace("\r\n", "\n")
    if not lines.startswith(MAGIC):
        raise ModelError("no LightGBM model: expected a text that begins with tree and version=")
    head, *blocks = _blocks(lines)
    features = _integer(head, "max_feature_idx") + 1
    outputs = _integer(head, "num_tree_per_iteration")
    if not blocks or features < 1 or outputs < 1 or len(blocks) % outputs:
        raise ModelError(f"LightGBM: {len(blocks)} trees of {features} features, {outputs} a round")
    grown = [_tree(block, number) for number, block in enumerate(blocks)]
    nothing = np.zeros(0, np.int64)
    split = [each for each in grown if len(each.values) > 1]
    kinds = np.concatenate([nothing, *(each.kinds for each in split)])
    used = np.concatenate([nothing, *(each.features for each in split)])
    if not 0 <= used.min(initial=0) <= used.max(initial=0) < features:
        raise ModelError(f"LightGBM: split_feature: expected 0 to {features - 1}")
    rounds = len(blocks) // outputs if "average_output" in head else 0
    return Forest(
        trees=_joined(grown, outputs, scale),
        features=features,
        outputs=outputs,
        categorical=_columns(used, (kinds & _CATEGORICAL) != 0, "categorical"),
        zero_is_missing=_columns(used, _missing(kinds) == _MISSING_ZERO, "zero_as_missing"),
        rounds=rounds,
        objective=(*head.get("objective", "").split(),),
    )


def _blocks(text: str) -> Iterator[_Block]:
    """Yield the head, then each tree; what stands behind the trees does not count."""
    block: dict[str, str] = {}
    for line in text.split("end of trees", 1)[0].splitlines():
        name, _, value = line.partition("=")
        if name == "Tree":
            yield block
            block = {}
        elif name:
            block[name] = value
    yield block


def _integer(block: _Block, name: str) -> int:
    try:
        return int(block[name])
    except (KeyError, ValueError):
        raise ModelError(
            f"LightGBM: {name}: expected an integer: {block.get(name, '')[:40]!r}"
        ) from None


@dataclass(frozen=True)
class _Tree:
    """One tree: arrays of its nodes and leaves; children as in Trees, kinds as decision_type."""

    features: Array
    kinds: Array
    thresholds: Array
    left: Array
    right: Array
    values: Array
    sets: list[Array]


def _tree(block: _Block, number: int) -> _Tree:
    leaves = _integer(block, "num_leaves")
    if block.get("is_linear", "0") != "0":
        raise UnsupportedError("LightGBM: linear models in leaves (linear_tree) are not supported")

    def array(name: str, count: int, dtype: str) -> Array:
        words = block.get(name, "").split()
        if len(words) != count:
            raise ModelError(f"LightGBM: tree {number}: {name}: expected {count}, got {len(words)}")
        return np.array(words, dtype)

    values = array("leaf_value", leaves, "float64")
    if leaves == 1:
        # A node whose branches are the same leaf.
        nothing = np.zeros(1, np.int64)
        return _Tree(nothing, nothing, np.zeros(1), ~nothing, ~nothing, values, [])
    nodes = leaves - 1
    kinds = array("decision_type", nodes, "int64")
    thresholds = array("threshold", nodes, "float64")
    sets: list[Array] = []
    if block.get("num_cat", "0") != "0":
        ends = array("cat_boundaries", _integer(block, "num_cat") + 1, "int64")
        words = array("cat_threshold", int(ends[-1]), "uint32")
        which = thresholds[(kinds & _CATEGORICAL) != 0].astype(np.int64)
        if len(which) and not (which.min() >= 0 and which.max() < len(ends) - 1):
            raise ModelError(f"LightGBM: tree {number}: a set of categories is not there")
        sets = [_members(words[ends[each] : ends[each + 1]]) for each in which.tolist()]
    elif (kinds & _CATEGORICAL).any():
        raise ModelError(f"LightGBM: tree {number}: no sets of categories")
    return _Tree(
        array("split_feature", nodes, "int64"),
        kinds,
        thresholds,
        array("left_child", nodes, "int64"),
        array("right_child", nodes, "int64"),
        values,
        sets,
    )


def _members(words: Array) -> Array:
    """Return the numbers of a bit set that float32 has, and NaN behind them."""
    bits = np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little")
    numbers: NDArray[np.int64] = np.flatnonzero(bits)
    near = numbers.astype(np.float32)
    return np.append(near[near.astype(np.int64) == numbers], np.float32(np.nan))


def _joined(grown: list[_Tree], outputs: int, scale: float) -> Trees:
    """Return all trees as one list of nodes and one of leaves."""
    nodes = [*accumulate((len(each.features) for each in grown), initial=0)]
    leaves = [*accumulate((len(each.values) for each in grown), initial=0)]

    def children(side: str) -> Array:
        found: list[Array] = []
        for each, node, leaf in zip(grown, nodes, leaves, strict=False):
            own: Array = getattr(each, side)
            found.append(np.where(own < 0, own - leaf, own + node))
        return np.concatenate(found)

    kinds = np.concatenate([each.kinds for each in grown])
    thresholds = np.concatenate([each.thresholds for each in grown])
    # A missing value that is not known as such counts as zero; of codes it is no member.
    tracks = np.where(_missing(kinds) == 0, thresholds >= 0, (kinds & _DEFAULT_LEFT) != 0) & (
        (kinds & _CATEGORICAL) == 0
    )
    weights = scale * np.concatenate([each.values for each in grown])
    with np.errstate(over="ignore"):
        rounded = weights.astype(np.float32)
    return Trees(
        features=np.concatenate([each.features for each in grown]),
        modes=np.where((kinds & _CATEGORICAL) != 0, Mode.MEMBER, Mode.LEQ),
        splits=_below(thresholds),
        true=children("left"),
        false=children("right"),
        targets=np.repeat(np.arange(len(grown)) % outputs, [len(each.values) for each in grown]),
        weights=rounded,
        roots=np.array(nodes[:-1]),
        tracks=tracks,
        members=np.concatenate(
            [np.zeros(0, np.float32), *(s for each in grown for s in each.sets)]
        ),
    )


def _missing(kinds: Array) -> Array:
    return (kinds >> 2) & 3


def _below(thresholds: Array) -> NDArray[np.float32]:
    """Return the splits by which float32 numbers compare as they do by thresholds in float64."""
    low, lowest = np.float32(-ZERO), np.float32(-np.inf)
    with np.errstate(all="ignore"):
        near = thresholds.astype(np.float32)
        found = np.where(near > thresholds, np.nextafter(near, lowest), near)
    found = np.where((thresholds >= -ZERO) & (thresholds < 0), np.nextafter(low, lowest), found)
    return np.where((thresholds >= 0) & (thresholds < ZERO), np.float32(ZERO), found)


def _columns(used: Array, is_so: Array, what: str) -> NDArray[np.int64]:
    """Return the features of which something holds; raise ModelError if not at all their nodes."""
    some = np.unique(used[is_so])
    mixed = np.intersect1d(some, used[~is_so])
    if len(mixed):
        raise ModelError(f"LightGBM: feature {mixed[0]} is {what} in some nodes and not in others")
    return some.astype(np.int64)
