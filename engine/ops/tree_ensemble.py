"""The op tree_ensemble."""

from collections.abc import Mapping
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.errors import ShapeError, UnsupportedError
from palmkit.engine.ir import Array, Attr, Known, Type
from palmkit.engine.ops import Case, op
from palmkit.engine.ops.dtypes import NUMBERS
from palmkit.engine.ops.rules import need_dtype, need_rank

_FLOATS = ("float32", "float16", "float64")
# Kernels keep a feature in so many bits, and nodes and leaves in one table.
MOST_FEATURES = 1 << 20
MOST_NODES = 1 << 29


class Mode(IntEnum):
    """The comparison of a node, of the feature on the left and the split on the right."""

    LEQ = 0
    LT = 1
    GTE = 2
    GT = 3
    EQ = 4
    NEQ = 5
    MEMBER = 6


class Aggregate(IntEnum):
    """How the votes of the trees become one number."""

    AVERAGE = 0
    SUM = 1
    MIN = 2
    MAX = 3


def _infer(
    x: Type,
    nodes_featureids: Type,
    nodes_modes: Type,
    nodes_splits: Type,
    nodes_truenodeids: Type,
    nodes_falsenodeids: Type,
    nodes_trueleafs: Type,
    nodes_falseleafs: Type,
    leaf_targetids: Type,
    leaf_weights: Type,
    tree_roots: Type,
    nodes_missing_value_tracks_true: Type | None = None,
    membership_values: Type | None = None,
    *,
    aggregate_function: int,
    n_targets: int,
) -> Type:
    need_rank("tree_ensemble", x, 2)
    need_dtype("tree_ensemble", x, among=NUMBERS)
    dtype = need_dtype("tree_ensemble: nodes_splits", nodes_splits, among=_FLOATS)
    if aggregate_function not in tuple(Aggregate) or n_targets < 1:
        raise ValueError("expected aggregate_function 0 to 3 and n_targets above 0")
    features = _ids("nodes_featureids", nodes_featureids)
    nodes, leaves = len(features), leaf_targetids.elements
    if not 0 < nodes <= MOST_NODES or not 0 < leaves <= MOST_NODES:
        raise ShapeError(f"tree_ensemble: expected nodes and leaves, got {nodes} and {leaves}")
    if x.dims[-1] > MOST_FEATURES:
        raise ShapeError(f"tree_ensemble: expected at most {MOST_FEATURES} features, got {x}")
    _need_below("nodes_featureids", features, x.dims[-1])
    modes = _of("nodes_modes", nodes_modes, "uint8", nodes)
    _need_below("nodes_modes", modes, len(Mode))
    _of("nodes_splits", nodes_splits, dtype, nodes)
    reached = [_ids("tree_roots", tree_roots)]
    if not len(reached[0]):
        raise ShapeError("tree_ensemble: expected tree_roots, got none")
    _need_below("tree_roots", reached[0], nodes)
    for side, ids, flags in (
        ("true", nodes_truenodeids, nodes_trueleafs),
        ("false", nodes_falsenodeids, nodes_falseleafs),
    ):
        children = _of(f"nodes_{side}nodeids", ids, "int32", nodes)
        is_leaf = _of(f"nodes_{side}leafs", flags, "uint8", nodes) != 0
        _need_below(f"nodes_{side}nodeids", children[is_leaf], leaves)
        _need_below(f"nodes_{side}nodeids", children[~is_leaf], nodes)
        reached.append(children[~is_leaf])
    # So there is neither a circle that a tree could enter nor a part that two trees share.
    if np.bincount(np.concatenate(reached), minlength=1).max() > 1:
        raise ShapeError("tree_ensemble: a node has two parents, or a root has one")
    weights = _value("leaf_weights", leaf_weights)
    votes = weights.shape[1] if weights.ndim == 2 else 1
    if leaf_weights.dtype != dtype or weights.shape not in ((leaves,), (leaves, votes)):
        raise ShapeError(
            f"tree_ensemble: leaf_weights: expected {dtype}[{leaves}], got {Type.of(weights)}"
        )
    if not 0 < votes <= n_targets or np.isnan(weights).any():
        raise ShapeError(f"tree_ensemble: leaf_weights: {votes} numbers a leaf, or no numbers")
    _need_below("leaf_targetids", _ids("leaf_targetids", leaf_targetids), n_targets - votes + 1)
    if nodes_missing_value_tracks_true is not None:
        name = "nodes_missing_value_tracks_true"
        _of(name, nodes_missing_value_tracks_true, "uint8", nodes)
    sets, members = int((modes == Mode.MEMBER).sum()), np.zeros(0)
    if membership_values is not None:
        members = _of("membership_values", membership_values, dtype, None)
    if int(np.isnan(members).sum()) != sets or (len(members) and not np.isnan(members[-1])):
        raise ShapeError(
            f"tree_ensemble: membership_values: expected {sets} sets, each with NaN behind it"
        )
    return Type(dtype, (*x.dims[:-1], n_targets))


def _value(name: str, type: Type) -> Array:
    if not isinstance(type, Known):
        raise UnsupportedError(f"tree_ensemble: {name}: expected a constant, got {type}")
    return type.value


def _of(name: str, type: Type, dtype: str, count: int | None) -> Array:
    """Return the value of a constant of one axis; raise ShapeError for another dtype or length."""
    value = _value(name, type)
    if value.ndim != 1 or type.dtype != dtype or count not in (None, len(value)):
        wanted = "n" if count is None else count
        raise ShapeError(f"tree_ensemble: {name}: expected {dtype}[{wanted}], got {Type.of(value)}")
    return value


def _ids(name: str, type: Type) -> Array:
    return _of(name, type, "int32", None)


def _need_below(name: str, ids: Array, count: int) -> None:
    wrong = (ids < 0) | (ids >= count)
    if wrong.any():
        raise ShapeError(
            f"tree_ensemble: {name}: expected 0 to {count - 1}, got {ids[wrong.argmax()]}"
        )


def _forest(
    seed: int,
    features: int,
    targets: int = 1,
    votes: int = 1,
    trees: int = 5,
    dtype: str = "float32",
) -> dict[str, Array]:
    """Return the inputs behind x of random trees, of every mode."""
    random = np.random.default_rng(seed)
    children: list[list[int]] = []
    roots: list[int] = []
    leaves = 0
    for _ in range(trees):
        roots.append(len(children))
        # [node, side] of what is not grown yet.
        open_ends: list[tuple[int, int]] = []
        for _ in range(int(random.integers(1, 12))):
            if open_ends:
                node, side = open_ends.pop(int(random.integers(len(open_ends))))
                children[node][side] = len(children)
            open_ends += [(len(children), 0), (len(children), 1)]
            children.append([-1, -1])
        for node, side in open_ends:
            leaves += 1
            children[node][side] = -leaves
    ends = np.array(children, np.int32)
    nodes = len(ends)
    modes = random.integers(0, len(Mode), nodes).astype(np.uint8)
    sets = [
        [*random.integers(-1, 3, int(random.integers(0, 5))), np.nan]
        for _ in range(int((modes == Mode.MEMBER).sum()))
    ]
    shape = (leaves,) if votes == 1 else (leaves, votes)
    return {
        "nodes_featureids": random.integers(0, features, nodes).astype(np.int32),
        "nodes_modes": modes,
        "nodes_splits": (random.integers(-4, 5, nodes) / 2).astype(dtype),
        "nodes_truenodeids": np.where(ends[:, 1] < 0, -1 - ends[:, 1], ends[:, 1]).astype(np.int32),
        "nodes_falsenodeids": np.where(ends[:, 0] < 0, -1 - ends[:, 0], ends[:, 0]).astype(
            np.int32
        ),
        "nodes_trueleafs": (ends[:, 1] < 0).astype(np.uint8),
        "nodes_falseleafs": (ends[:, 0] < 0).astype(np.uint8),
        "leaf_targetids": random.integers(0, targets - votes + 1, leaves).astype(np.int32),
        "leaf_weights": random.standard_normal(shape).astype(dtype),
        "tree_roots": np.array(roots, np.int32),
        "nodes_missing_value_tracks_true": random.integers(0, 2, nodes).astype(np.uint8),
        "membership_values": np.array([each for one in sets for each in one], dtype),
    }


def _rows(shape: tuple[int, ...], dtype: str = "float32") -> Array:
    """Return numbers that often equal a split or a member, and some that are missing."""
    random = np.random.default_rng(len(shape))
    x = random.integers(-4, 5, shape) / 2
    return np.where(random.random(shape) < 0.1, np.nan, x).astype(dtype)


def _case(x: Array, forest: Mapping[str, Array], **attrs: Attr) -> Case:
    return Case((x, *forest.values()), attrs)


_STUMP: dict[str, Array] = {
    "nodes_featureids": np.array([1], np.int32),
    "nodes_modes": np.array([Mode.LEQ], np.uint8),
    "nodes_splits": np.array([0.25], np.float32),
    "nodes_truenodeids": np.array([0], np.int32),
    "nodes_falsenodeids": np.array([1], np.int32),
    "nodes_trueleafs": np.array([1], np.uint8),
    "nodes_falseleafs": np.array([1], np.uint8),
    "leaf_targetids": np.array([0, 0], np.int32),
    "leaf_weights": np.array([-1, 2], np.float32),
    "tree_roots": np.array([0], np.int32),
}


@op(
    _infer,
    Case((Type("float32", (5, 3)), *_STUMP.values())),
    Case((Type("float32", (2, 3, 3)), *_STUMP.values())),
    _case(_rows((70, 6)), _forest(1, 6, trees=40)),
    _case(_rows((9, 6)), _forest(2, 6, 4), n_targets=4),
    _case(_rows((9, 6)), _forest(2, 6, 4), n_targets=4, aggregate_function=int(Aggregate.AVERAGE)),
    _case(_rows((9, 6)), _forest(3, 6, 4), n_targets=4, aggregate_function=int(Aggregate.MIN)),
    _case(_rows((3, 5, 6)), _forest(4, 6, 9), n_targets=9, aggregate_function=int(Aggregate.MAX)),
    _case(_rows((9, 6)), _forest(5, 6, 3, votes=3), n_targets=3),
    _case(_rows((9, 6)), _forest(6, 6, 5, votes=2), n_targets=5),
    _case(_rows((9, 6), "float64"), _forest(7, 6, dtype="float64")),
    _case(_rows((9, 6), "float16"), _forest(8, 6, dtype="float16")),
    _case(_rows((9, 6), "float64"), _forest(9, 6)),
    Case((Type("int64", (5, 3)), *_STUMP.values())),
    Case((Type("float32", (0, 3)), *_STUMP.values())),
)
def tree_ensemble(
    x: Array,
    nodes_featureids: Array,
    nodes_modes: Array,
    nodes_splits: Array,
    nodes_truenodeids: Array,
    nodes_falsenodeids: Array,
    nodes_trueleafs: Array,
    nodes_falseleafs: Array,
    leaf_targetids: Array,
    leaf_weights: Array,
    tree_roots: Array,
    nodes_missing_value_tracks_true: Array | None = None,
    membership_values: Array | None = None,
    *,
    aggregate_function: int = int(Aggregate.SUM),
    n_targets: int = 1,
) -> Array:
    """What decision trees say of each row of features, of ONNX-ML's TreeEnsemble.

    x: [..., features], integers counting as numbers of the splits' type; the result is
    [..., n_targets], of that type. All other inputs are constants: ONNX's
    attributes of the same names. A node goes to its true branch where feature `mode` split holds,
    or, with missing_value_tracks_true, where the feature is NaN; modes are numbers of Mode, of
    MEMBER the split does not count. The branch is a node, or a leaf where the flag beside it is
    not 0. A node has one parent, a root none.
    leaf_weights: [leaves], or [leaves, votes]: what a leaf says of the targets from its
    leaf_targetids on. membership_values: the members of each node of mode MEMBER, in the order of
    the nodes, with NaN behind each set.
    aggregate_function: a number of Aggregate. Sums and averages are of float64, tree by tree, and
    rounded once; the least and the greatest of no vote is 0.
    """
    dtype = nodes_splits.dtype
    rows = (x.astype(dtype) if x.dtype.kind in "iu" else x).reshape(-1, x.shape[-1])
    tracks = nodes_missing_value_tracks_true
    members = np.zeros(0, dtype) if membership_values is None else membership_values
    sets = np.split(members, np.flatnonzero(np.isnan(members)) + 1)
    which = np.cumsum(nodes_modes == Mode.MEMBER) - 1
    yes = np.where(nodes_trueleafs != 0, ~nodes_truenodeids, nodes_truenodeids)
    no = np.where(nodes_falseleafs != 0, ~nodes_falsenodeids, nodes_falsenodeids)
    weights = leaf_weights.reshape(len(leaf_weights), -1)
    is_sum = aggregate_function in (Aggregate.SUM, Aggregate.AVERAGE)
    found = np.full((len(rows), n_targets), 0.0 if is_sum else np.nan)
    # NaN stands for no vote yet, which these overlook.
    combine = {Aggregate.MIN: np.fmin, Aggregate.MAX: np.fmax}.get(
        Aggregate(aggregate_function), np.add
    )
    for root in tree_roots.tolist():
        at = np.full(len(rows), root, np.int32)
        going = np.arange(len(rows))
        while len(going):
            node = at[going]
            value, split, mode = (
                rows[going, nodes_featureids[node]],
                nodes_splits[node],
                nodes_modes[node],
            )
            is_true = np.zeros(len(going), bool)
            for each, holds in (
                (Mode.LEQ, value <= split),
                (Mode.LT, value < split),
                (Mode.GTE, value >= split),
                (Mode.GT, value > split),
                (Mode.EQ, value == split),
                (Mode.NEQ, value != split),
            ):
                is_true |= (mode == each) & holds
            for each in np.unique(node[mode == Mode.MEMBER]).tolist():
                own = node == each
                is_true[own] = np.isin(value[own], sets[which[each]][:-1])
            if tracks is not None:
                is_true |= np.isnan(value) & (tracks[node] != 0)
            at[going] = np.where(is_true, yes[node], no[node])
            going = going[at[going] >= 0]
        every: NDArray[np.intp] = np.arange(len(rows))
        for vote in range(weights.shape[1]):
            target = leaf_targetids[~at] + vote
            found[every, target] = combine(found[every, target], weights[~at, vote])
    if aggregate_function == Aggregate.AVERAGE:
        found /= len(tree_roots)
    if not is_sum:
        found[np.isnan(found)] = 0
    return found.astype(dtype).reshape(*x.shape[:-1], n_targets)
