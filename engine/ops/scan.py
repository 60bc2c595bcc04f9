"""The op scan."""

from collections.abc import Sequence

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Graph, Type
from palmkit.engine.ops import Results, Undetermined, op
from palmkit.engine.ops.bodies import infer_body, run_body
from palmkit.engine.ops.loop import stack
from palmkit.engine.ops.rules import positive_axis
from palmkit.engine.ops.traits import Family, Traits


def _infer(
    *inputs: Type,
    body: Graph,
    num_scan_inputs: int,
    captures: int,
    scan_input_axes: tuple[int, ...],
    scan_input_directions: tuple[int, ...],
    scan_output_axes: tuple[int, ...],
    scan_output_directions: tuple[int, ...],
) -> tuple[Type, ...]:
    states, scanned, captured = _parts(inputs, num_scan_inputs, captures)
    axes = _axes(scanned, scan_input_axes)
    length = _length([x.dims[axis] for x, axis in zip(scanned, axes, strict=True)])
    slices = [
        Type(x.dtype, (*x.shape[:axis], *x.shape[axis + 1 :]))
        for x, axis in zip(scanned, axes, strict=True)
    ]
    types = infer_body(body, [*states, *slices, *captured])
    known = [type for type in types if type is not None]
    if len(known) != len(types):
        raise Undetermined("scan: the types of the results are known at run time only")
    if any(now != before for now, before in zip(known, states, strict=False)):
        raise Undetermined("scan: the states change their types")
    rows = known[len(states) :]
    stacked: list[Type] = []
    for row, axis in zip(rows, scan_output_axes or (0,) * len(rows), strict=True):
        place = positive_axis("scan", axis, row, 1)
        stacked.append(Type(row.dtype, (*row.shape[:place], length, *row.shape[place:])))
    return (*states, *stacked)


def _parts(
    inputs: Sequence[Type], scans: int, captures: int
) -> tuple[list[Type], list[Type], list[Type]]:
    states = len(inputs) - scans - captures
    if states < 0 or scans < 1:
        raise ShapeError(f"scan: {len(inputs)} inputs are too few for {scans} to scan")
    plain = [Type(x.dtype, x.shape) for x in inputs]
    return plain[:states], plain[states : states + scans], plain[states + scans :]


def _axes(scanned: Sequence[Type], axes: Sequence[int]) -> list[int]:
    chosen = axes or (0,) * len(scanned)
    return [positive_axis("scan", axis, x) for axis, x in zip(chosen, scanned, strict=True)]


def _length(lengths: Sequence[int]) -> int:
    if len(set(lengths)) != 1:
        raise ShapeError(f"scan: expected inputs of one length, got {list(lengths)}")
    return lengths[0]


@op(_infer, traits=Traits(family=Family.CONTROL))
def scan(
    *inputs: Array,
    body: Graph,
    num_scan_inputs: int,
    captures: int,
    scan_input_axes: tuple[int, ...] = (),
    scan_input_directions: tuple[int, ...] = (),
    scan_output_axes: tuple[int, ...] = (),
    scan_output_directions: tuple[int, ...] = (),
) -> Results:
    """Run the body for each slice of the scanned inputs, in step.

    inputs: the states at the start, `num_scan_inputs` inputs to scan, then `captures` values that
    every turn reads.
    body: a graph from (*states, *slices, *captured) to (*states, *rows).
    Directions: 1 goes backward.
    Returns the states after the last turn, then the rows of all turns stacked.
    """
    types = [Type.of(x) for x in inputs]
    count = len(_parts(types, num_scan_inputs, captures)[0])
    states = list(inputs[:count])
    scanned, captured = inputs[count : count + num_scan_inputs], inputs[count + num_scan_inputs :]
    axes = _axes([Type.of(x) for x in scanned], scan_input_axes)
    length = _length([x.shape[axis] for x, axis in zip(scanned, axes, strict=True)])
    forward = [np.moveaxis(x, axis, 0) for x, axis in zip(scanned, axes, strict=True)]
    backward = scan_input_directions or (0,) * len(scanned)
    turns = [x[::-1] if back else x for x, back in zip(forward, backward, strict=True)]
    declared = [*body.outputs.values()][count:]
    rows: list[list[Array]] = [[] for _ in declared]
    for turn in range(length):
        results = run_body(body, [*states, *(x[turn] for x in turns), *captured])
        states = results[:count]
        for row, result in zip(rows, results[count:], strict=True):
            row.append(result)
    turned = [
        row[::-1] if back else row
        for row, back in zip(rows, scan_output_directions or (0,) * len(rows), strict=True)
    ]
    places = scan_output_axes or (0,) * len(rows)
    return (*states, *map(stack, turned, declared, places))
