"""The messages of TensorFlow's files, as far as they are read.

Names, numbers and types are those of tensorflow/core/framework/{graph,node_def,attr_value,tensor,
tensor_shape,types,function,op_def}.proto and tensorflow/core/protobuf/{saved_model,meta_graph,
saver,saved_object_graph,trackable_object_graph,tensor_bundle}.proto.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from palmkit.engine.converters.protobuf import message_types

_SCHEMA = """
enum DataType {
  DT_INVALID = 0; DT_FLOAT = 1; DT_DOUBLE = 2; DT_INT32 = 3; DT_UINT8 = 4; DT_INT16 = 5;
  DT_INT8 = 6; DT_STRING = 7; DT_COMPLEX64 = 8; DT_INT64 = 9; DT_BOOL = 10; DT_QINT8 = 11;
  DT_QUINT8 = 12; DT_QINT32 = 13; DT_BFLOAT16 = 14; DT_QINT16 = 15; DT_QUINT16 = 16;
  DT_UINT16 = 17; DT_COMPLEX128 = 18; DT_HALF = 19; DT_RESOURCE = 20; DT_VARIANT = 21;
  DT_UINT32 = 22; DT_UINT64 = 23; DT_FLOAT8_E5M2 = 24; DT_FLOAT8_E4M3FN = 25; DT_INT4 = 29;
  DT_UINT4 = 30; DT_FLOAT_REF = 101; DT_DOUBLE_REF = 102; DT_INT32_REF = 103; DT_UINT8_REF = 104;
  DT_INT16_REF = 105; DT_INT8_REF = 106; DT_STRING_REF = 107; DT_INT64_REF = 109;
  DT_BOOL_REF = 110; DT_HALF_REF = 119; DT_RESOURCE_REF = 120;
}
message TensorShapeProto {
  message Dim { int64 size = 1; string name = 2; }
  repeated Dim dim = 2;
  bool unknown_rank = 3;
}
message TensorProto {
  DataType dtype = 1;
  TensorShapeProto tensor_shape = 2;
  bytes tensor_content = 4;
  repeated float float_val = 5;
  repeated double double_val = 6;
  repeated int32 int_val = 7;
  repeated bytes string_val = 8;
  repeated float scomplex_val = 9;
  repeated int64 int64_val = 10;
  repeated bool bool_val = 11;
  repeated int32 half_val = 13;
  repeated uint32 uint32_val = 16;
  repeated uint64 uint64_val = 17;
  bytes float8_val = 18;
}
message NameAttrList { string name = 1; map<string, AttrValue> attr = 2; }
message AttrValue {
  message ListValue {
    repeated bytes s = 2;
    repeated int64 i = 3;
    repeated float f = 4;
    repeated bool b = 5;
    repeated DataType type = 6;
    repeated TensorShapeProto shape = 7;
    repeated TensorProto tensor = 8;
    repeated NameAttrList func = 9;
  }
  oneof value {
    bytes s = 2;
    int64 i = 3;
    float f = 4;
    bool b = 5;
    DataType type = 6;
    TensorShapeProto shape = 7;
    TensorProto tensor = 8;
    ListValue list = 1;
    NameAttrList func = 10;
    string placeholder = 9;
  }
}
message NodeDef {
  string name = 1;
  string op = 2;
  repeated string input = 3;
  map<string, AttrValue> attr = 5;
}
message OpDef {
  message ArgDef { string name = 1; DataType type = 3; string type_attr = 4; }
  string name = 1;
  repeated ArgDef input_arg = 2;
  repeated ArgDef output_arg = 3;
}
message FunctionDef {
  message ArgAttrs { map<string, AttrValue> attr = 1; }
  OpDef signature = 1;
  repeated NodeDef node_def = 3;
  map<string, string> ret = 4;
  map<uint32, ArgAttrs> arg_attr = 7;
}
message FunctionDefLibrary { repeated FunctionDef function = 1; }
message GraphDef {
  repeated NodeDef node = 1;
  FunctionDefLibrary library = 2;
}
message TensorInfo {
  message CooSparse { string values_tensor_name = 1; }
  string name = 1;
  DataType dtype = 2;
  TensorShapeProto tensor_shape = 3;
  CooSparse coo_sparse = 4;
}
message SignatureDef {
  map<string, TensorInfo> inputs = 1;
  map<string, TensorInfo> outputs = 2;
  string method_name = 3;
}
message SaverDef { string filename_tensor_name = 1; string restore_op_name = 3; }
message ObjectReference { int32 node_id = 1; string local_name = 2; }
message SavedVariable { DataType dtype = 1; string name = 6; }
message SavedObject {
  repeated ObjectReference children = 1;
  SavedVariable variable = 7;
}
message SavedObjectGraph { repeated SavedObject nodes = 1; }
message MetaGraphDef {
  message MetaInfoDef { repeated string tags = 4; string tensorflow_version = 5; }
  MetaInfoDef meta_info_def = 1;
  GraphDef graph_def = 2;
  SaverDef saver_def = 3;
  map<string, SignatureDef> signature_def = 5;
  SavedObjectGraph object_graph_def = 7;
}
message SavedModel {
  int64 saved_model_schema_version = 1;
  repeated MetaGraphDef meta_graphs = 2;
}
message TrackableObjectGraph {
  message TrackableObject {
    message SerializedTensor { string name = 1; string full_name = 2; string checkpoint_key = 3; }
    repeated SerializedTensor attributes = 2;
  }
  repeated TrackableObject nodes = 1;
}
message TensorSliceProto {
  message Extent { int64 start = 1; int64 length = 2; }
  repeated Extent extent = 1;
}
message BundleHeaderProto {
  enum Endianness { LITTLE = 0; BIG = 1; }
  int32 num_shards = 1;
  Endianness endianness = 2;
}
message BundleEntryProto {
  DataType dtype = 1;
  TensorShapeProto shape = 2;
  int32 shard_id = 3;
  int64 offset = 4;
  int64 size = 5;
  fixed32 crc32c = 6;
  repeated TensorSliceProto slices = 7;
}
"""

_REF = 100

DTYPES = {
    1: "float32",
    2: "float64",
    3: "int32",
    4: "uint8",
    5: "int16",
    6: "int8",
    9: "int64",
    10: "bool",
    14: "bfloat16",
    17: "uint16",
    19: "float16",
    22: "uint32",
    23: "uint64",
    24: "float8_e5m2",
    25: "float8_e4m3fn",
}
QUANTIZED = {"qint8": "int8", "quint8": "uint8", "qint32": "int32"}
_LACKING = {
    0: "invalid",
    7: "string",
    8: "complex64",
    11: "qint8",
    12: "quint8",
    13: "qint32",
    15: "qint16",
    16: "quint16",
    18: "complex128",
    20: "resource",
    21: "variant",
    29: "int4",
    30: "uint4",
}


@cache
def messages() -> Mapping[str, Any]:
    """Return the message classes by name.

    Raises UnsupportedError if the package protobuf is missing.
    """
    return message_types(_SCHEMA, "palmkit.tensorflow", "tensorflow")


def dtype_name(number: int) -> str:
    """Return the IR's name of a DataType; for one that the IR lacks TensorFlow's name."""
    number = number - _REF if number > _REF else number
    return DTYPES.get(number) or _LACKING.get(number, f"number {number}")
