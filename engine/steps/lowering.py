"""Lowering of a graph to steps: where every value lies in memory, and in which order.

Ops speak NCHW; memory does not have to. A lowered value is a view and an order: `order[i]` is
the axis of the value that the i-th dim in memory holds. Images lie channels-last. A transpose
changes only the order; a copy is made only where a kernel needs another one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from palmkit.engine.cached import cached
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import (
    DTYPES,
    NARROW_DTYPES,
    Array,
    Graph,
    Known,
    Node,
    Type,
    consumers,
    dtype_name,
)
from palmkit.engine.ops import infer_types
from palmkit.engine.steps.refusal import RefusedError, first_output
from palmkit.engine.steps.rewriting import Lowered, Purpose
from palmkit.engine.steps.step import (
    Buffer,
    Kernels,
    Step,
    StepAttr,
    View,
    strides_of,
    view_bytes,
)

Order = tuple[int, ...]
Rule = Callable[["Lowering", Node], None]

# What the runtime knows; every kernel that only moves elements takes any of them.
RUNTIME_DTYPES = tuple(dtype for dtype in DTYPES if dtype not in NARROW_DTYPES)
# Of one value: no tables are made for what no machine runs.
_MOST_BYTES = 1 << 35


class Rules(dict[str, Rule]):
    """How a backend lowers each op that it has a rule for, by the op's name."""

    def __init__(self) -> None:
        """Begin without rules."""
        super().__init__()
        self._narrow: set[str] = set()
        self._moving: set[str] = set()

    def rule(self, *ops: str, narrow: bool = False, moves: bool = False) -> Callable[[Rule], Rule]:
        """Register the decorated function as the lowering of these ops.

        narrow: its kernels take a narrow dtype, bfloat16 or float16, as well, and are the faster
        for it. moves: they take it, but only what comes after them gains by it.
        """

        def register(function: Rule) -> Rule:
            self.update(dict.fromkeys(ops, function))
            if narrow:
                self._narrow.update(ops)
            if moves:
                self._moving.update(ops)
            return function

        return register

    def gains_by_narrow(self, op: str) -> bool:
        """Whether its kernels are faster with values of a narrow dtype."""
        return op in self._narrow

    def moves(self, op: str) -> bool:
        """Whether it only moves values, of a narrow dtype as well."""
        return op in self._moving


@dataclass(frozen=True)
class Located:
    """A value in memory: the view's dims are the value's shape taken in `order`."""

    view: View
    order: Order


def plain(rank: int) -> Order:
    """The order of a C-contiguous array."""
    return tuple(range(rank))


def channels_last(rank: int) -> Order:
    """Batch, then space, then channels."""
    return (0, *range(2, rank), 1) if rank > 2 else plain(rank)


def collapse(shape: Sequence[int], *strides: Sequence[int]) -> tuple[list[int], list[list[int]]]:
    """Drop dims of size 1 and merge neighbours that every operand walks as one."""
    dims: list[int] = []
    kept: list[list[int]] = [[] for _ in strides]
    for i, dim in enumerate(shape):
        if dim == 1:
            continue
        if dims and all(k[-1] == s[i] * dim for k, s in zip(kept, strides, strict=True)):
            dims[-1] *= dim
            for k, s in zip(kept, strides, strict=True):
                k[-1] = s[i]
        else:
            dims.append(dim)
            for k, s in zip(kept, strides, strict=True):
                k.append(s[i])
    if not dims:
        return [1], [[0] for _ in strides]
    return dims, kept


def _computed(type: Type) -> Type:
    """What a value is in memory: half precision is computed in single precision."""
    if type.dtype != "float16":
        return type
    if isinstance(type, Known):
        return Known.of(type.value.astype(np.float32))
    return Type("float32", type.shape)


class Lowering:
    """Steps of a static graph, built node by node by the rules."""

    def __init__(
        self,
        backend: str,
        graph: Graph,
        rules: Rules,
        kernels: Kernels,
        narrow: str = "",
        exact: bool = True,
    ) -> None:
        """Lower `graph` to `kernels` by the `rules` of a backend.

        backend: its name, for messages.
        narrow: the dtype to multiply in, "bfloat16" or "float16", and to keep in what is between
        two nodes that can do with it; "" for float32.
        exact: no way of computing in float32 that is off by much more than the plain one.
        Raises RefusedError, which names every node that has no rule, whose type only a run gives,
        or which needs a kernel that the backend does not have: rules ask for `copy`, `cast` and
        `fill` without knowing it, where values do not lie as they are wanted.
        """
        self.graph = graph
        self._backend = backend
        self._rules = rules
        self._kernels = kernels
        self.narrow = narrow
        self.exact = exact
        inferred = infer_types(graph)
        self.declared = {name: type for name, type in inferred.items() if type.is_static}
        self.types = {name: _computed(type) for name, type in self.declared.items()}
        self.steps: list[Step] = []
        self.constants: list[Array] = []
        self.borders: list[View] = []
        self._values: dict[str, Located] = {}
        self._copies: dict[tuple[str, Order], Located] = {}
        self._casts: dict[tuple[str, Order, str], View] = {}
        self._node = ""
        self._reasons: dict[str, str] = {}
        self._untyped: set[str] = set()
        self._uncast: dict[str, UnsupportedError] = {}
        for index, (name, type) in enumerate(graph.inputs.items()):
            view = View(Buffer("input", type.size_bytes, index), type.dtype, type.dims)
            self.borders.append(view)
            if self.dtype(name) != type.dtype:
                try:
                    view = self.cast(view, self.dtype(name))
                except UnsupportedError as error:
                    self._uncast[name] = error
            self._values[name] = Located(view, plain(len(type.dims)))
        self._lower_nodes()
        self._refuse()
        self._write_outputs()
        self._refuse()

    def result(self, purpose: Purpose) -> Lowered:
        """What the graph was lowered to, for passes to rewrite."""
        return Lowered(self.steps, self.constants, self.borders, self._kernels, purpose)

    def _lower_nodes(self) -> None:
        for node in self.graph.nodes:
            self._node = node.label
            names = [name for name in (*node.inputs, *node.outputs) if name]
            try:
                lower = self._rules.get(node.op)
                if lower is None:
                    raise UnsupportedError(f"no kernel for {node.op}")
                if any(name and name not in self.types for name in node.inputs):
                    self._untyped.add(first_output(node))
                    raise UnsupportedError("the types of its inputs are known at run time only")
                if any(name and name not in self.types for name in node.outputs):
                    raise UnsupportedError("its type hangs on what only a run gives")
                for name in node.inputs:
                    if name in self._uncast:
                        raise self._uncast[name]
                self.need_dtype(*names, dtypes=RUNTIME_DTYPES)
                if any(self.types[name].size_bytes > _MOST_BYTES for name in names):
                    raise UnsupportedError(f"a value of over {_MOST_BYTES} bytes")
                lower(self, node)
                self._write_empty(node)
            except (UnsupportedError, MemoryError) as error:
                self._refuse_later(node, error)
                for name in node.outputs:
                    if name in self.types:
                        self.put(name)

    def _refuse_later(self, node: Node, error: Exception) -> None:
        self._reasons[first_output(node)] = f"{node.label} ({node.op}): {error}"

    def _refuse(self) -> None:
        """Raise RefusedError if there is a reason to."""
        # One that nothing reads keeps no node from running here, by parts.
        unknown = any(t.dtype not in RUNTIME_DTYPES for t in self.graph.inputs.values())
        if self._reasons or self._uncast or unknown:
            raise RefusedError(
                f"backend {self._backend} cannot run {len(self._reasons)} of "
                f'{len(self.graph.nodes)} nodes, backend="reference" runs them: '
                f"{'; '.join(self._reasons.values())}",
                self._reasons,
                self._untyped,
            )

    def _write_empty(self, node: Node) -> None:
        """Have a step for outputs of no elements, too: rules may leave them alone."""
        for name in node.outputs:
            if name and not self.types[name].elements:
                view = self.located(name).view
                if all(v.buffer is not view.buffer for step in self.steps for v in step.writes):
                    y = self.put(name, self.located(name).order)
                    self.step("fill", {}, {"y": y}, {"value": 0})

    def _write_outputs(self) -> None:
        """Let the last writers write to the outputs themselves; copy where that cannot be.

        A backend without a kernel for that refuses the node that the output comes from.
        """
        writers = {name: node for node in self.graph.nodes for name in node.outputs}
        for index, name in enumerate(self.graph.outputs):
            try:
                self._write_output(index, name)
            except UnsupportedError as error:
                if name not in writers:
                    raise RefusedError(f"backend {self._backend}: output {name}: {error}") from None
                self._refuse_later(writers[name], error)

    def _write_output(self, index: int, name: str) -> None:
        type = self.declared[name]
        self._node = name
        view = self.get(name, plain(len(type.dims)))
        if view.dtype != type.dtype:
            view = self.cast(view, type.dtype)
        if view.buffer.place == "arena":
            view.buffer.place, view.buffer.index = "output", index
            self.borders.append(view)
        else:
            output = View(Buffer("output", type.size_bytes, index), type.dtype, type.dims)
            self.borders.append(output)
            self.copy(view, output, type.dims, strides_of(type.dims), strides_of(type.dims))

    @cached
    def readers(self) -> dict[str, list[Node]]:
        """The nodes that read each value."""
        return consumers(self.graph)

    def type(self, name: str) -> Type:
        """The value's type as it is computed; `declared` has the graph's own."""
        return self.types[name]

    def dtype(self, name: str) -> str:
        """The dtype in which the value is computed."""
        return self.types[name].dtype

    def dims(self, name: str) -> tuple[int, ...]:
        """The value's shape, in its own axes."""
        return self.types[name].dims

    def constant_of(self, name: str, what: str) -> Array:
        """The value of a constant input; UnsupportedError if it is computed at run time."""
        type = self.types[name]
        if not isinstance(type, Known):
            raise UnsupportedError(f"{what} is not constant")
        return type.value

    def is_constant(self, name: str) -> bool:
        """The value is known before the model runs."""
        return isinstance(self.types[name], Known)

    def need_dtype(self, *names: str, dtypes: Sequence[str] = ("float32",)) -> None:
        """UnsupportedError unless each value has one of the dtypes."""
        for name in names:
            if name and self.types[name].dtype not in dtypes:
                raise UnsupportedError(f"{self.types[name].dtype} is not supported")

    def constant(self, array: Array) -> View:
        """Put an array beside the plan."""
        array = np.ascontiguousarray(array).reshape(array.shape)
        self.constants.append(array)
        buffer = Buffer("constant", array.nbytes, len(self.constants) - 1)
        return View(buffer, dtype_name(array.dtype), array.shape)

    def located(self, name: str) -> Located:
        """The value where it lies."""
        if name not in self._values:
            value = self.constant_of(name, name)
            self._values[name] = Located(self.constant(value), plain(value.ndim))
        return self._values[name]

    def order(self, name: str) -> Order:
        """The order in which the value lies; constants lie as anyone likes."""
        return plain(len(self.dims(name))) if self.is_constant(name) else self.located(name).order

    def get(self, name: str, order: Order, stored: bool = False, dtype: str = "") -> View:
        """The value with its dims in `order`: as it is, seen otherwise, or copied.

        stored: also in the narrow dtype, if it lies there so. dtype: in which else, if not in its
        own.
        """
        view = self._get(name, order)
        dtype = dtype or self.dtype(name)
        if (
            stored
            or view.dtype == dtype
            or not self.narrow
            or self.narrow not in (view.dtype, dtype)
        ):
            return view
        if (name, order, dtype) not in self._casts:
            self._casts[name, order, dtype] = self.cast(view, dtype)
        return self._casts[name, order, dtype]

    def _get(self, name: str, order: Order) -> View:
        dims = tuple(self.dims(name)[axis] for axis in order)
        if (name, order) in self._copies:
            return self._copies[name, order].view
        if self.is_constant(name):
            value = self.constant_of(name, name)
            located = Located(self.constant(value.transpose(order)), order)
        else:
            located = self.located(name)
            long = [axis for axis in located.order if self.dims(name)[axis] > 1]
            if long == [axis for axis in order if self.dims(name)[axis] > 1]:
                view = View(located.view.buffer, located.view.dtype, dims)
                return view
            view = self.scratch(located.view.dtype, dims)
            strides = dict(zip(located.order, strides_of(located.view.dims), strict=True))
            self.copy(located.view, view, dims, [strides[axis] for axis in order], strides_of(dims))
            located = Located(view, order)
        self._copies[name, order] = located
        return located.view

    def cast(self, view: View, dtype: str) -> View:
        """The same numbers in another dtype, in new memory."""
        result = self.scratch(dtype, view.dims)
        self.step("cast", {"x": view}, {"y": result})
        return result

    def scratch(self, dtype: str, dims: Sequence[int]) -> View:
        """New memory in the arena."""
        return View(Buffer("arena", view_bytes(dtype, dims)), dtype, tuple(dims))

    def put(self, name: str, order: Order | None = None, dtype: str = "") -> View:
        """New memory for the value a node writes, its dims in `order`.

        dtype: in which it is kept, if not in the value's own.
        """
        type = self.types[name]
        order = plain(len(type.dims)) if order is None else order
        view = self.scratch(dtype or type.dtype, [type.dims[axis] for axis in order])
        self._values[name] = Located(view, order)
        return view

    def kept_dtype(self, name: str) -> str:
        """The dtype in which a kernel that can do with the narrow one leaves a value."""
        return self.narrow if name in self._kept else self.dtype(name)

    @cached
    def _kept(self) -> set[str]:
        """What is kept in the narrow dtype: a node that gains by it reads it, at once or moved."""
        kept: set[str] = set()
        for node in reversed(self.graph.nodes if self.narrow else ()):
            moves = self._rules.moves(node.op) and not kept.isdisjoint(node.outputs)
            if moves or self._rules.gains_by_narrow(node.op):
                floats = (name for name in node.inputs if name in self.types)
                kept.update(name for name in floats if self.dtype(name) == "float32")
        return kept

    def alias(self, name: str, source: View, order: Order) -> None:
        """The value is memory that is there already, its dims in `order`."""
        dims = tuple(self.dims(name)[axis] for axis in order)
        self._values[name] = Located(View(source.buffer, source.dtype, dims), order)

    def step(
        self,
        kernel: str,
        inputs: Mapping[str, View | None],
        outputs: Mapping[str, View],
        attrs: Mapping[str, StepAttr] | None = None,
        in_place: str | None = None,
    ) -> None:
        """Add a step for the node at hand, its operands by the kernel's names for them.

        Raises UnsupportedError if the backend has no such kernel.
        """
        if kernel not in self._kernels:
            raise UnsupportedError(f"backend {self._backend} has no kernel {kernel}")
        self.steps.append(self._kernels.step(kernel, self._node, inputs, outputs, attrs, in_place))

    def copy(
        self,
        source: View,
        target: View,
        shape: Sequence[int],
        source_strides: Sequence[int],
        target_strides: Sequence[int],
        source_offset: int = 0,
        target_offset: int = 0,
    ) -> None:
        """Add a copy of `shape` elements; strides and offsets in elements."""
        dims, (x_strides, y_strides) = collapse(shape, source_strides, target_strides)
        x_begin, y_begin = source.offset + source_offset, target.offset + target_offset
        self.step(
            "copy",
            {"x": View.of(source.buffer, source.dtype, dims, x_strides, x_begin)},
            {"y": View.of(target.buffer, target.dtype, dims, y_strides, y_begin)},
        )


def axis_attrs(dims: Sequence[int], position: int) -> dict[str, StepAttr]:
    """How a kernel that works along one dim in memory sees an array."""
    return {
        "outer": prod(dims[:position]),
        "axis": dims[position],
        "inner": prod(dims[position + 1 :]),
    }


def reduced_order(order: Order, axes: Collection[int], keepdims: bool) -> Order:
    """The order of what is left of a value once these axes are reduced."""
    if keepdims:
        return order
    left = sorted(axis for axis in order if axis not in axes)
    return tuple(left.index(axis) for axis in order if axis not in axes)


def broadcast_strides(
    located_dims: Sequence[int], order: Order, shape: Sequence[int], out_order: Order
) -> list[int]:
    """Strides with which an operand is walked along an output whose dims lie in `out_order`.

    located_dims: the operand's dims in memory, in `order`; shape: the output's, in its own axes.
    """
    extra = len(shape) - len(order)
    by_axis = dict(
        zip(order, zip(strides_of(located_dims), located_dims, strict=True), strict=True)
    )
    strides: list[int] = []
    for axis in out_order:
        stride, dim = by_axis.get(axis - extra, (0, 1))
        strides.append(stride if dim > 1 else 0)
    return strides
