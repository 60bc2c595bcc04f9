"""Tensor lists and tensor arrays: a list is one tensor, its elements along axis 0.

Elements with unknown dims begin as zeros with 1 there; the first element that is set stretches
them.
"""

from __future__ import annotations

from palmkit.engine.converters.tensorflow.rules.control_flow import zeros_list
from palmkit.engine.converters.tensorflow.site import Site, rule
from palmkit.engine.converters.tensorflow.stand_ins import EmptyList, Missing, Value
from palmkit.engine.converters.tensorflow.tensors import symbolic_dims


@rule("TensorListFromTensor")
def _from_tensor(n: Site) -> None:
    n.finish(n.raw(0))


@rule("TensorListReserve")
def _reserve(n: Site) -> None:
    empty = EmptyList(n.value(1), n.dtype("element_dtype"))
    shape = n.known(0)
    if shape is None or shape.ndim != 1:
        n.finish(empty)
    else:
        n.finish(zeros_list(n, empty, [max(1, int(dim)) if dim else 0 for dim in shape]))


@rule("TensorArrayV3")
def _tensor_array(n: Site) -> None:
    empty = EmptyList(n.value(0), n.dtype("dtype"))
    flow: Value = empty
    if n.has("element_shape") and not n.attrs["element_shape"].shape.unknown_rank:
        dims = symbolic_dims(n.attrs["element_shape"].shape, n.name)
        flow = zeros_list(n, empty, [dim if isinstance(dim, int) else 1 for dim in dims])
    n.finish(Missing("the handle of a tensor array"), flow)


@rule("TensorListGetItem")
def _get_item(n: Site) -> None:
    n.finish(_item(n, n.value(0), n.value(1)))


@rule("TensorArrayReadV3")
def _read(n: Site) -> None:
    n.finish(_item(n, n.value(2), n.value(1)))


def _item(n: Site, values: str, index: str) -> str:
    return n.emit("gather", values, n.emit("reshape", n.as_int64(index), n.int64()), axis=0)


@rule("TensorListSetItem")
def _set_item(n: Site) -> None:
    n.finish(_with_item(n, n.raw(0), n.value(1), n.value(2)))


@rule("TensorArrayWriteV3")
def _write(n: Site) -> None:
    n.finish(_with_item(n, n.raw(3), n.value(1), n.value(2)))


def _with_item(n: Site, values: Value, index: str, item: str) -> str:
    places = n.emit("reshape", n.as_int64(index), n.int64(1, 1))
    return _with_items(n, values, places, n.emit("unsqueeze", item, n.int64(0)))


def _with_items(n: Site, values: Value, places: str, items: str) -> str:
    """Return the list with these elements set, all of one shape."""
    rank = n.rank_of(items) - 1
    if isinstance(values, EmptyList):
        values = zeros_list(n, values, (1,) * rank)
    if not isinstance(values, str):
        raise n.unsupported("a list that is not there, or of complex numbers,")
    pending = n.building.pending.get(values)
    if pending is not None:
        pending.append(rank)
    shape = n.emit("slice", n.emit("shape", items), n.int64(1), n.int64(rank + 1), n.int64(0))
    whole = n.emit("expand", values, n.emit("concat", n.int64(1), shape, axis=0))
    result = n.emit("scatter_nd", whole, places, items)
    if pending is not None:
        n.building.pending[result] = pending
    return result


@rule("TensorArrayScatterV3")
def _scatter(n: Site) -> None:
    places = n.emit("unsqueeze", n.as_int64(n.value(1)), n.int64(-1))
    n.finish(_with_items(n, n.raw(3), places, n.value(2)))


@rule("TensorListStack")
def _stack(n: Site) -> None:
    n.finish(n.raw(0))


@rule("TensorArrayGatherV3")
def _gather(n: Site) -> None:
    n.finish(n.emit("gather", n.value(2), n.as_int64(n.value(1)), axis=0))


@rule("TensorListGather")
def _list_gather(n: Site) -> None:
    n.finish(n.emit("gather", n.value(0), n.as_int64(n.value(1)), axis=0))


@rule("TensorListLength", "TensorArraySizeV3")
def _length(n: Site) -> None:
    values = n.raw(0 if n.op == "TensorListLength" else 1)
    if isinstance(values, EmptyList):
        n.finish(values.length)
        return
    shape = n.emit("shape", n.value(0 if n.op == "TensorListLength" else 1))
    length = n.emit("gather", shape, n.constant(0, "int64"), axis=0)
    n.finish(n.emit("cast", length, to="int32"))


@rule("TensorListConcat", "TensorListConcatV2")
def _concat(n: Site) -> None:
    """Concatenate the elements, which all have one shape."""
    x = n.value(0)
    rest = n.emit("slice", n.emit("shape", x), n.int64(2), n.int64(n.rank(0)), n.int64(0))
    shape = n.emit("concat", n.int64(-1), rest, axis=0)
    n.finish(n.emit("reshape", x, shape, allowzero=1))
