"""What MediaPipe's tasks want to be told by a TFLite file: how pictures become inputs.

The tables are those of TensorFlow's metadata_schema.fbs, of which this is the least.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import flatbuffers
import numpy as np

schema: Any = import_module("ai_edge_litert.schema_py_generated")
NAME = b"TFLITE_METADATA"
# Of inputs from pictures, by the network's name: mean and deviation of a byte.
SCALES = {
    "face_detection_short_range": (127.5, 127.5),
    "face_detection_full_range": (127.5, 127.5),
    "selfie_segmentation": (0.0, 255.0),
    "selfie_segmentation_landscape": (0.0, 255.0),
}
_IMAGE_PROPERTIES, _NORMALIZATION_OPTIONS, _RGB = 2, 1, 1


def with_metadata(content: bytes, network: str) -> bytes:
    """Return a TFLite file with them, or as it is where they are not known or there already."""
    model: Any = schema.ModelT.InitFromPackedBuf(content, 0)
    known = [each.name for each in model.metadata or ()]
    if network not in SCALES or NAME in known:
        return content
    outputs = len(model.subgraphs[0].outputs)
    buffer: Any = schema.BufferT()
    buffer.data = np.frombuffer(_metadata(*SCALES[network], outputs), np.uint8)
    entry: Any = schema.MetadataT()
    entry.name, entry.buffer = NAME, len(model.buffers)
    model.buffers.append(buffer)
    model.metadata = [*(model.metadata or ()), entry]
    builder: Any = flatbuffers.Builder(len(content))
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _metadata(mean: float, deviation: float, outputs: int) -> bytes:
    builder: Any = flatbuffers.Builder(256)

    def table(fields: dict[int, int], types: dict[int, int] | None = None) -> int:
        """Return a table of offsets, and of bytes, by their places."""
        builder.StartObject(8)
        for place, offset in fields.items():
            builder.PrependUOffsetTRelativeSlot(place, offset, 0)
        for place, value in (types or {}).items():
            builder.PrependUint8Slot(place, value, 0)
        return int(builder.EndObject())

    def vector(offsets: list[int]) -> int:
        builder.StartVector(4, len(offsets), 4)
        for each in reversed(offsets):
            builder.PrependUOffsetTRelative(each)
        return int(builder.EndVector())

    def numbers(value: float) -> int:
        return int(builder.CreateNumpyVector(np.array([value], np.float32)))

    options = table({0: numbers(mean), 1: numbers(deviation)})
    unit = table({1: options}, {0: _NORMALIZATION_OPTIONS})
    content = table({1: table({}, {0: _RGB})}, {0: _IMAGE_PROPERTIES})
    picture = table({0: builder.CreateString("image"), 3: content, 4: vector([unit])})
    found = [table({0: builder.CreateString(f"output {i}")}) for i in range(outputs)]
    graph = table({2: vector([picture]), 3: vector(found)})
    builder.Finish(table({3: vector([graph])}), b"M001")
    return bytes(builder.Output())
