"""Decision trees of foreign models as inputs of the op tree_ensemble."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.errors import ModelError
from palmkit.engine.ir import Array, Known, Type
from palmkit.engine.ops.tree_ensemble import MOST_FEATURES, tree_ensemble


@dataclass(frozen=True)
class Trees:
    """The nodes and leaves of all trees; see the op's docstring.

    features, modes, splits: [nodes]. true, false: int64[nodes], the number of a node, or ~ the
    number of a leaf. tracks: [nodes], whether a missing value goes to the true branch; None for
    nowhere. targets: [leaves]; weights: [leaves] or [leaves, votes]. roots: [trees]. members: of
    the nodes of mode MEMBER, with NaN behind each set.
    """

    features: Array
    modes: Array
    splits: Array
    true: Array
    false: Array
    targets: Array
    weights: Array
    roots: Array
    tracks: Array | None
    members: Array

    def inputs(self, n_targets: int) -> dict[str, Array | None]:
        """Return the inputs of tree_ensemble behind its first, by name and in its order.

        Raises ModelError for a number that is no index, ShapeError for what are no trees.
        """
        dtype = self.splits.dtype
        found: dict[str, Array | None] = {
            "nodes_featureids": _ids("feature", self.features),
            "nodes_modes": np.minimum(_ids("mode", self.modes), 255).astype(np.uint8),
            "nodes_splits": self.splits,
            "nodes_truenodeids": _ids("node", np.where(self.true < 0, ~self.true, self.true)),
            "nodes_falsenodeids": _ids("node", np.where(self.false < 0, ~self.false, self.false)),
            "nodes_trueleafs": (self.true < 0).astype(np.uint8),
            "nodes_falseleafs": (self.false < 0).astype(np.uint8),
            "leaf_targetids": _ids("target", self.targets),
            "leaf_weights": self.weights.astype(dtype),
            "tree_roots": _ids("root", self.roots),
            "nodes_missing_value_tracks_true": None,
            "membership_values": None,
        }
        if self.tracks is not None and self.tracks.any():
            found["nodes_missing_value_tracks_true"] = (self.tracks != 0).astype(np.uint8)
        if len(self.members):
            found["membership_values"] = self.members.astype(dtype)
        # The number of features may not be known before the model runs; the rest is.
        rows = Type(dtype.name, (1, MOST_FEATURES))
        known = [None if value is None else Known.of(value) for value in found.values()]
        tree_ensemble.infer(rows, *known, n_targets=n_targets)
        return found


def _ids(what: str, values: Array) -> NDArray[np.int32]:
    limit = np.iinfo(np.int32).max
    if len(values) and not (values.min() >= 0 and values.max() <= limit):
        raise ModelError(
            f"trees: the number of a {what} is not one: {values.min()}, {values.max()}"
        )
    return values.astype(np.int32)
