"""ONNX's attributes, tensors and types as the IR has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from palmkit.engine.errors import ModelError, UnsupportedError
from palmkit.engine.ir import ANY_RANK, DTYPES, UNKNOWN, Array, Attr, Dim, Type

if TYPE_CHECKING:
    from onnx import AttributeProto, TensorProto, ValueInfoProto


def read_attr(proto: AttributeProto, label: str) -> Attr:
    """Return the value of an attribute."""
    from onnx import AttributeProto, helper

    plain = (
        AttributeProto.INT,
        AttributeProto.FLOAT,
        AttributeProto.STRING,
        AttributeProto.INTS,
        AttributeProto.FLOATS,
        AttributeProto.STRINGS,
    )
    if proto.type not in plain:
        raise UnsupportedError(f"{label}: attribute {proto.name} is not a number or a string")
    value: Any = helper.get_attribute_value(proto)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, int | float):
        return value
    return tuple(each.decode() if isinstance(each, bytes) else each for each in value)


def read_array(tensor: TensorProto) -> Array:
    """Return the tensor as a read-only array."""
    from onnx import numpy_helper

    read_dtype(tensor.data_type, f"tensor {tensor.name}")
    if tensor.data_location == tensor.EXTERNAL:
        raise ModelError(f"weights lie in another file, give the model's path: {tensor.name}")
    array = numpy_helper.to_array(tensor)
    if array.shape != tuple(tensor.dims):
        raise ModelError(f"tensor {tensor.name}: {list(tensor.dims)} is no shape")
    array.flags.writeable = False
    return array


def read_dtype(number: int, what: str) -> str:
    """Return our name of an ONNX element type.

    Raises ModelError for a number that is no type, UnsupportedError for a type without a name here.
    """
    from onnx import TensorProto, helper

    if number not in TensorProto.DataType.values() or number == TensorProto.UNDEFINED:
        raise ModelError(f"{what}: unknown element type: {number}")
    dtype = helper.tensor_dtype_to_np_dtype(number).name
    if dtype not in DTYPES or number == TensorProto.STRING:
        name = TensorProto.DataType.Name(number).lower()
        raise UnsupportedError(f"{what}: element type {name} is not supported")
    return dtype


def dtype_number(name: str, what: str) -> int:
    """Return ONNX's number of an element type by its ONNX name."""
    from onnx import TensorProto

    if name not in dict(TensorProto.DataType.items()):
        raise ModelError(f"{what}: unknown element type: {name}")
    return int(TensorProto.DataType.Value(name))


def read_type(value: ValueInfoProto, what: str) -> Type:
    """Return the declared type; a dim without a size or a name gets a name.

    Without a shape the rank is not known; without an element type nothing is.
    """
    tensor = value.type.tensor_type
    if value.type.WhichOneof("value") not in (None, "tensor_type"):
        raise UnsupportedError(f"{what}: expected a tensor, got {value.type.WhichOneof('value')}")
    dtype = read_dtype(tensor.elem_type, what) if tensor.elem_type else UNKNOWN.dtype
    if not tensor.HasField("shape"):
        return Type(dtype, ANY_RANK)
    dims: list[Dim] = []
    for axis, dim in enumerate(tensor.shape.dim):
        if dim.HasField("dim_value") and dim.dim_value >= 0:
            dims.append(dim.dim_value)
        else:
            # Two dims called "?" may differ in size.
            dims.append(dim.dim_param.strip("?") or f"{value.name}.{axis}")
    return Type(dtype, tuple(dims))
