"""Whether two graphs compute the same, up to what rounding may do."""

import numpy as np

from palmkit.engine.backends.reference import Reference
from palmkit.engine.ir import Array, Graph, Type, check
from palmkit.engine.ops import infer_types

ROUNDING = 1e-6
NUDGE = 1e-9


def random_inputs(graph: Graph, seed: int) -> dict[str, Array]:
    """Return numbers for every input of a static graph."""
    random = np.random.default_rng(seed)
    return {name: random.normal(size=type.dims) for name, type in graph.inputs.items()}


def run(graph: Graph, inputs: dict[str, Array]) -> dict[str, Array]:
    """Return the outputs, by the ops' numpy meaning."""
    return Reference().compile(graph).run(inputs)


def assert_equivalent(before: Graph, after: Graph, seed: int = 0) -> None:
    """Names, types and numbers of the outputs are the same.

    Numbers: to 1e-6 of the largest, and ten times what a nudge of 1e-9 of the inputs changes.
    """
    check(after)
    assert list(after.outputs) == list(before.outputs)
    types = infer_types(after)
    inputs = random_inputs(before, seed)
    wanted = run(before, inputs)
    nudged = run(before, {name: value * (1 + NUDGE) for name, value in inputs.items()})
    got = run(after, inputs)
    for name, exact in wanted.items():
        value, other = exact.astype(np.float64), got[name].astype(np.float64)
        assert Type.of(got[name]) == Type.of(exact), name
        assert name not in types or (types[name].dtype, types[name].shape) == (
            exact.dtype.name,
            exact.shape,
        ), name
        finite = value[np.isfinite(value)]
        margin = ROUNDING * max(1.0, float(np.abs(finite).max(initial=0)))
        moved = np.nan_to_num(np.abs(nudged[name].astype(np.float64) - value), nan=0.0)
        np.testing.assert_array_equal(np.isfinite(other), np.isfinite(value), err_msg=name)
        close = np.abs(other - value) <= margin + 10 * moved
        assert (close | ~np.isfinite(value)).all(), f"{name}: {np.abs(other - value).max()}"
