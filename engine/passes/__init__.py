"""Graph passes, and the order in which they run."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from palmkit.engine.ir import Graph, check
from palmkit.engine.ops import find, infer_types
from palmkit.engine.passes.cancel_transposes import cancel_transposes
from palmkit.engine.passes.fold_batch_norm import fold_batch_norm
from palmkit.engine.passes.fold_constants import fold_constants, fold_levels
from palmkit.engine.passes.fold_pads import fold_pads
from palmkit.engine.passes.fold_scales import fold_scales
from palmkit.engine.passes.fuse_activation import fuse_activation
from palmkit.engine.passes.fuse_bias import fuse_bias
from palmkit.engine.passes.fuse_multiply_add import fuse_multiply_add
from palmkit.engine.passes.fuse_residual import fuse_residual
from palmkit.engine.passes.inline_branches import inline_branches
from palmkit.engine.passes.integer_elements import integer_elements, integer_sums
from palmkit.engine.passes.integer_layers import integer_layers
from palmkit.engine.passes.integer_residuals import integer_residuals, integer_slopes
from palmkit.engine.passes.merge_common import merge_common
from palmkit.engine.passes.merge_heads import merge_heads
from palmkit.engine.passes.merge_parts import merge_parts
from palmkit.engine.passes.merge_pointwise import merge_pointwise
from palmkit.engine.passes.merge_reshapes import merge_reshapes
from palmkit.engine.passes.merge_slices import merge_slices
from palmkit.engine.passes.move_before_resize import move_before_resize
from palmkit.engine.passes.move_levels import make_unsigned, move_levels
from palmkit.engine.passes.recognise_activations import recognise_activations
from palmkit.engine.passes.recognise_global_pools import recognise_global_pools
from palmkit.engine.passes.recognise_interleaves import recognise_interleaves
from palmkit.engine.passes.recognise_layouts import recognise_layouts
from palmkit.engine.passes.recognise_normalizations import recognise_normalizations
from palmkit.engine.passes.remove_dead_code import remove_dead_code
from palmkit.engine.passes.remove_identities import remove_identities
from palmkit.engine.passes.resolve_padding import resolve_padding
from palmkit.engine.passes.shuffle_last import shuffle_last
from palmkit.engine.passes.simplify import simplify
from palmkit.engine.passes.split_means import split_means
from palmkit.engine.passes.write_out_attention import write_out_attention
from palmkit.engine.passes.write_out_einsum import write_out_einsum

Pass = Callable[[Graph], Graph]

PIPELINE: tuple[Pass, ...] = (
    remove_dead_code,  # no pass below should work on unread values
    fold_constants,  # shape arithmetic becomes constants, which later passes need
    inline_branches,  # once conditions are constants: later passes see a graph without branches
    write_out_attention,  # before the passes that merge and cancel its transposes and reshapes
    write_out_einsum,  # likewise
    remove_identities,  # identities hide which nodes are neighbours
    recognise_activations,  # before the constants of an activation merge or fold
    simplify,  # redundant arithmetic hides neighbours, too
    merge_reshapes,  # before cancel_transposes: some transposes are reshapes
    merge_common,  # one transpose for all readers of a value, not one each
    merge_slices,  # before cancel_transposes, which would move transposes through each slice
    recognise_layouts,  # before cancel_transposes: the patterns contain transposes
    recognise_interleaves,  # before shuffle_last: an interleave needs no other order in memory
    shuffle_last,  # before cancel_transposes, which cancels the transposes it writes
    cancel_transposes,  # before the fusions: transposes stand between what fuses
    resolve_padding,  # before pads fold: both must be numbers
    fold_pads,  # after the transposes: pads are then in the convolution's own layout
    recognise_normalizations,  # before their scales and biases fold into layers
    recognise_global_pools,  # after the transposes: the axes are then the picture's own
    split_means,  # after recognise_global_pools: it looks for global pools
    move_before_resize,  # before the fusions: they take plain convolutions only
    fold_scales,  # after the pads: less folds into a layer that pads
    fold_batch_norm,  # before fuse_bias: it leaves an addition
    fuse_bias,  # before fuse_residual: it takes the additions that are not residuals
    merge_pointwise,  # after fuse_bias: no addition stands between two convolutions
    merge_heads,  # before the fusions: they make equal convolutions different
    merge_parts,  # right after merge_heads: it works on the splits that merge_heads writes
    fuse_residual,  # before fuse_activation: the activation comes after the addition
    fuse_multiply_add,  # after fuse_residual: an addition in a convolution costs nothing
    fuse_activation,  # last: a layer with an activation takes in nothing more
)

# They run once PIPELINE changes nothing; after a change by one of them PIPELINE runs again.
LATER: tuple[Pass, ...] = (
    make_unsigned,  # the integer ops know uint8 alone
    move_levels,  # nodes that only move elements stand between quantized values and a layer
    integer_layers,  # once their activations, pads and transposes are settled
    integer_sums,  # after the layers, which take in the clamps behind them
    integer_residuals,  # once both sides of a sum are there
    integer_slopes,  # behind the sums: a layer with a slope takes in nothing more
    integer_elements,  # nodes that no layer has taken in
    fold_levels,  # weights that the integer layers left belong to float layers
)

_MOST_ROUNDS = 100


def optimise(graph: Graph) -> Graph:
    """Return the same model with fewer and larger nodes, equal up to rounding.

    Runs the pipeline until no pass changes the graph. The names and types of inputs and outputs
    stay. Rewrites that need sizes which are not known yet wait until they are.
    Raises ModelError or ShapeError if the graph contradicts itself, UnsupportedError if it has an
    unknown op.
    """
    for _, changed in steps(graph):
        graph = changed
    return graph


def steps(graph: Graph, pipeline: Sequence[Pass] = ()) -> Iterator[tuple[Pass, Graph]]:
    """Yield what `optimise` does: each pass that changes the graph, with the resulting graph.

    pipeline: passes to run instead of PIPELINE and LATER.
    """
    later = () if pipeline else LATER
    pipeline = pipeline or PIPELINE
    check(graph)
    for node in graph.nodes:
        find(node.op)
    infer_types(graph)
    settled, place, waiting = 0, 0, 0
    for _ in range(_MOST_ROUNDS * len(pipeline)):
        if settled < len(pipeline):
            each, place = pipeline[place], (place + 1) % len(pipeline)
        elif waiting < len(later):
            each, waiting = later[waiting], waiting + 1
        else:
            break
        # A weight may be infinite or NaN, which folding passes on as the ops do.
        with np.errstate(all="ignore"):
            changed = each(graph)
        if changed is graph:
            settled += 1
            continue
        if settled >= len(pipeline):
            place = 0
        settled, waiting = 0, 0
        check(changed)
        graph = changed
        yield each, graph
