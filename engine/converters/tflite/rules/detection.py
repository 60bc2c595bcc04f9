"""The last operators of detectors: they choose the best boxes that do not overlap."""

from __future__ import annotations

from palmkit.engine.converters.tflite.builder import Builder, rule
from palmkit.engine.converters.tflite.custom_options import flexbuffer_map
from palmkit.engine.converters.tflite.file import Operator
from palmkit.engine.errors import ModelError
from palmkit.engine.ir import Attr


@rule("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5")
def _non_max_suppression(b: Builder, o: Operator) -> None:
    """Choose boxes; V4 returns no scores, and has only hard suppression."""
    inputs = [b.value(index) for index in o.inputs]
    if o.op.endswith("V4"):
        inputs.append(b.scalar(0))
    indices, scores, count = b.emit_many("non_max_suppression_v5", 3, *inputs)
    results = (indices, count) if o.op.endswith("V4") else (indices, scores, count)
    if len(o.outputs) != len(results):
        raise ModelError(f"node {b.current}: {o.op}: expected {len(results)} outputs")
    for place, value in enumerate(results):
        b.finish(o, b.emit("identity", value), output=place)


_OPTIONS: dict[str, tuple[type, float]] = {
    "max_detections": (int, 0),
    "max_classes_per_detection": (int, 1),
    "detections_per_class": (int, 100),
    "use_regular_nms": (int, 0),
    "nms_score_threshold": (float, 0.0),
    "nms_iou_threshold": (float, 0.0),
    "num_classes": (int, 0),
    "y_scale": (float, 1.0),
    "x_scale": (float, 1.0),
    "h_scale": (float, 1.0),
    "w_scale": (float, 1.0),
}


@rule("TFLite_Detection_PostProcess")
def _detection_post_process(b: Builder, o: Operator) -> None:
    options = flexbuffer_map(b, o)
    attrs: dict[str, Attr] = {
        name: kind(options.number(name, default)) for name, (kind, default) in _OPTIONS.items()
    }
    values = b.emit_many(
        "tflite_detection_post_process", 4, *(b.value(index) for index in o.inputs), **attrs
    )
    for place, value in enumerate(values[: len(o.outputs)]):
        b.finish(o, b.emit("identity", value), output=place)
