"""Giving a model other input shapes: fixed ones, or names for dims that only a run knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import prod

from palmkit.engine.errors import PalmError, ShapeError
from palmkit.engine.ir import Dim, Graph, Type
from palmkit.engine.ops import infer_types

# Sizes tried for a named dim, to see which dims of the outputs depend on it. Nets
# that halve the picture again and again take multiples of their stride only.
_BATCHES = (1, 2, 3)
_SIDES = (32, 64, 96, 128, 160, 224, 256, 320, 384, 512, 640)


def with_input_shapes(graph: Graph, shapes: Mapping[str, Sequence[Dim]]) -> Graph:
    """Return the graph with these shapes for these inputs; the outputs' shapes follow.

    shapes: for each dim a number, or a name that stands for one size wherever it is written. A dim
    that the model fixed may be changed, too, if all nodes take it. Inputs left out keep their
    shape, except for names that the given ones had as well.
    Raises ShapeError for an unknown input, for a shape of another rank, and for a shape that the
    model cannot have, naming the first node that does not take it.
    """
    inputs = dict(graph.inputs)
    settled: dict[Dim, Dim] = {}
    for name, shape in shapes.items():
        if name not in inputs:
            raise ShapeError(f"no input {name!r}; the model's inputs: {', '.join(inputs)}")
        declared = inputs[name]
        wanted = Type(declared.dtype, tuple(shape))
        if declared.has_rank and len(declared.shape) != len(wanted.shape):
            raise ShapeError(f"input {name}: expected {declared}, got the shape of {wanted}")
        if any(isinstance(dim, int) and dim < 0 for dim in wanted.shape):
            raise ShapeError(f"input {name}: expected dims of 0 or more, got {wanted}")
        inputs[name] = wanted
        if declared.has_rank:
            settled.update(zip(declared.shape, wanted.shape, strict=True))
    for name, type in graph.inputs.items():
        if name not in shapes and type.has_rank:
            dims = (settled.get(dim, dim) if isinstance(dim, str) else dim for dim in type.shape)
            inputs[name] = Type(type.dtype, tuple(dims))
    changed = replace(graph, inputs=inputs)
    types = _symbolic(changed, graph.inputs) if shapes else symbolic_types(changed)
    outputs = {name: types.get(name, declared) for name, declared in graph.outputs.items()}
    return replace(changed, outputs=outputs)


def symbolic_types(graph: Graph) -> dict[str, Type]:
    """Return the type of every value that can be known, also where sizes are open.

    A dim that changes with an open one is named after it, such as height/2. This is found by trying
    sizes, so height/2 may be rounded for sizes that were not tried.
    """
    try:
        return _symbolic(graph, graph.inputs)
    except PalmError:
        return {name: Type(t.dtype, t.shape) for name, t in infer_types(graph).items()}


def _symbolic(graph: Graph, declared: Mapping[str, Type]) -> dict[str, Type]:
    """Do what symbolic_types does; `declared` are the inputs' former types.

    Raises ShapeError if no sizes fit.
    """
    types = {name: Type(t.dtype, t.shape) for name, t in infer_types(graph).items()}
    names = _open_names(graph.inputs)
    if not names:
        return types
    samples = _samples(graph, declared, names)
    for name in dict.fromkeys(name for node in graph.nodes for name in node.outputs if name):
        if name not in types or not types[name].is_static:
            merged = _merged(name, samples)
            if merged is not None:
                types[name] = merged
    return types


def _open_names(inputs: Mapping[str, Type]) -> list[str]:
    dims = (dim for t in inputs.values() if t.has_rank for dim in t.shape)
    return list(dict.fromkeys(dim for dim in dims if isinstance(dim, str)))


_Sample = tuple[dict[str, int], dict[str, Type]]


def _samples(
    graph: Graph, declared: Mapping[str, Type], open_names: Sequence[str]
) -> list[_Sample]:
    """Try sizes of the named dims, and return them with the types of all values.

    The first sample gives all names a size of their own, each later one changes one name.
    Raises ShapeError with the first refusal if no sizes fit.
    """
    inputs = graph.inputs
    candidates = {name: _candidates(name, declared, inputs) for name in open_names}
    samples: list[_Sample] = []
    refusal: PalmError | None = None

    def tried(sizes: dict[str, int]) -> bool:
        nonlocal refusal
        bound = {
            name: Type(t.dtype, tuple(sizes[d] if isinstance(d, str) else d for d in t.shape))
            for name, t in inputs.items()
            if t.has_rank
        }
        try:
            samples.append((sizes, infer_types(replace(graph, inputs={**inputs, **bound}))))
        except PalmError as error:
            refusal = refusal or error
            return False
        return True

    most = max(map(len, candidates.values()))
    for step in range(most):
        base = {name: sizes[step % len(sizes)] for name, sizes in candidates.items()}
        if tried(base):
            break
    if not samples:
        raise ShapeError(f"no sizes of {', '.join(open_names)} were found to fit: {refusal}")
    base = samples[0][0]
    for name in open_names:
        others = [size for size in candidates[name] if size != base[name]]
        if not any(tried({**base, name: size}) for size in others):
            raise ShapeError(f"dim {name}: only {base[name]} was found to fit: {refusal}")
    return samples


def _candidates(
    name: str, declared: Mapping[str, Type], inputs: Mapping[str, Type]
) -> tuple[int, ...]:
    """Return sizes to try for a named dim: what the model fixed there before, then common ones."""
    places = [
        (key, axis) for key, t in inputs.items() for axis, d in enumerate(t.shape) if d == name
    ]
    fixed = [
        size
        for key, axis in places
        if declared[key].has_rank and isinstance(size := declared[key].shape[axis], int)
    ]
    common = _BATCHES if all(axis == 0 for _, axis in places) else (*_SIDES, 2, 3, 5)
    return tuple(dict.fromkeys([*fixed, *(2 * size for size in fixed), *common]))


def _merged(name: str, samples: Sequence[_Sample]) -> Type | None:
    """Return the value's type over all samples; a dim that differs is named after its cause."""
    types = [(sizes, values[name]) for sizes, values in samples if name in values]
    if len(types) < len(samples) or len({len(t.shape) for _, t in types}) != 1:
        return None
    first = types[0][1]
    dims: list[Dim] = []
    for axis, dim in enumerate(first.shape):
        seen = [(sizes, t.shape[axis]) for sizes, t in types]
        same = all(each == dim for _, each in seen)
        dims.append(dim if same else _called(seen) or f"{name}_{axis}")
    return Type(first.dtype, tuple(dims))


def _called(seen: Sequence[tuple[Mapping[str, int], Dim]]) -> str:
    """Return sizes as an expression of open dims: height, height/2, 2*height, height*width/64.

    Returns "" if no such expression fits.
    """
    names = list(seen[0][0])
    for keys in [*((name,) for name in names), *combinations(names, 2)]:
        pairs = [(prod(sizes[key] for key in keys), size) for sizes, size in seen]
        own, size = pairs[0]
        if not isinstance(size, int) or not size or not own:
            continue
        text = "*".join(keys)
        if own % size == 0 and all(o == s * (own // size) for o, s in pairs):
            return text if own == size else f"{text}/{own // size}"
        if size % own == 0 and all(s == o * (size // own) for o, s in pairs):
            return f"{size // own}*{text}"
    return ""
