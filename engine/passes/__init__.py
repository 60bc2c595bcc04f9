"""Graph passes, and the order in which they run."""

from collections.abc import Callable

import numpy as np

from palmkit.engine.ir import Graph, check
from palmkit.engine.ops import find, infer_types
from palmkit.engine.passes.cancel_transposes import cancel_transposes
from palmkit.engine.passes.fold_batch_norm import fold_batch_norm
from palmkit.engine.passes.fold_constants import fold_constants
from palmkit.engine.passes.fold_pads import fold_pads
from palmkit.engine.passes.fuse_activation import fuse_activation
from palmkit.engine.passes.fuse_bias import fuse_bias
from palmkit.engine.passes.fuse_residual import fuse_residual
from palmkit.engine.passes.merge_common import merge_common
from palmkit.engine.passes.merge_reshapes import merge_reshapes
from palmkit.engine.passes.recognise_activations import recognise_activations
from palmkit.engine.passes.recognise_global_pools import recognise_global_pools
from palmkit.engine.passes.remove_dead_code import remove_dead_code
from palmkit.engine.passes.remove_identities import remove_identities
from palmkit.engine.passes.resolve_padding import resolve_padding

Pass = Callable[[Graph], Graph]

PIPELINE: tuple[Pass, ...] = (
    remove_dead_code,  # nothing below should work on what nobody reads
    fold_constants,  # shape arithmetic ends here: what follows needs its results
    remove_identities,  # they hide what stands next to what
    merge_reshapes,  # before transposes walk: some of them are reshapes
    merge_common,  # one transpose for all readers of a value, not one each
    cancel_transposes,  # before the fusions: transposes stand between what fuses
    resolve_padding,  # before pads fold: both must be numbers
    fold_pads,  # after the transposes: pads are then in the convolution's own layout
    recognise_activations,  # before fuse_bias takes the `+ 3` of a written-out hard_sigmoid
    recognise_global_pools,  # after the transposes: the axes are then the picture's own
    fold_batch_norm,  # before fuse_bias: it leaves an addition
    fuse_bias,  # before fuse_residual: it takes the additions that are not residuals
    fuse_residual,  # before fuse_activation: the activation comes after the addition
    fuse_activation,  # last: a layer with an activation takes in nothing more
)

_MOST_ROUNDS = 100


def optimise(graph: Graph) -> Graph:
    """The same model with fewer and larger nodes; it gives the same numbers up to rounding.

    Runs the pipeline until no pass changes the graph. Input and output names and types stay. What
    needs sizes that are not known yet is left for when they are.
    Raises ModelError or ShapeError if the graph contradicts itself, UnsupportedError if it has an
    unknown op.
    """
    check(graph)
    for node in graph.nodes:
        find(node.op)
    infer_types(graph)
    for _ in range(_MOST_ROUNDS):
        before = graph.nodes
        for each in PIPELINE:
            # A weight may be infinite or no number: it goes through, as it does in the ops.
            with np.errstate(all="ignore"):
                graph = each(graph)
            check(graph)
        if graph.nodes == before:
            break
    return graph
