"""Fields that our schema lacks: which of them could change what a layer means.

Protobuf skips fields that it does not know. For data, losses and training that is right; a field
inside of the parameters of a layer that is converted may change the layer, so it is reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

# Fields inside of the parameters above that say how to train or which code to use.
HARMLESS_NAMES = frozenset(
    [
        "engine",
        "weight_filler",
        "bias_filler",
        "filler",
        "scale_filler",
        "shift_filler",
        "slope_filler",
        "data_filler",
        "force_nd_im2col",
        "cudnn_convolution_algo_seeker",
        "cudnn_math_override",
        "stable_prod_grad",
        "momentum",
        "moving_average_fraction",
        "decay",
        "save_output_param",
        "visualize",
        "visualize_threshold",
        "save_file",
        "debug_info",
    ]
)
HARMLESS_NUMBERS: Mapping[str, frozenset[int]] = {
    name: frozenset(numbers)
    for name, numbers in {
        "BatchNormParameter": (5, 6, 15),
        "BiasParameter": (3,),
        "ConvolutionParameter": (7, 8, 15, 17, 19),
        "DetectionOutputParameter": (5, 10, 11, 12),
        "EltwiseParameter": (3,),
        "EmbedParameter": (4, 5),
        "FillerParameter": (3, 4, 5, 6, 7, 8),
        "InnerProductParameter": (3, 4),
        "LRNParameter": (6,),
        "NormalizeParameter": (2,),
        "PReLUParameter": (1,),
        "PoolingParameter": (11,),
        "ReLUParameter": (2,),
        "RecurrentParameter": (2, 3, 4),
        "ScaleParameter": (3, 5),
        "SoftmaxParameter": (1,),
    }.items()
}
# Parameters of data and loss layers; a layer of another type does not look at them.
HARMLESS_PARAMETERS = frozenset(
    [
        "transform_param",
        "loss_param",
        "accuracy_param",
        "data_param",
        "image_data_param",
        "hdf5_data_param",
        "window_data_param",
        "sigmoid_param",
        "tanh_param",
        "annotated_data_param",
        "multibox_loss_param",
        "detection_evaluate_param",
        "infogain_loss_param",
        "spatial_dropout_param",
        "hinge_loss_param",
        "contrastive_loss_param",
        "hdf5_output_param",
    ]
)
# Layers of forks: each fork gives their parameters another field number.
_FORK_TYPES = (
    "BN",
    "Interp",
    "PSROIPooling",
    "ROIPooling",
    "Reorg",
    "ShuffleChannel",
    "Upsample",
)
_CLOSING = {"{": "}", "<": ">"}
_LAST_SHARED_NUMBER = 148
_SSD_NUMBERS = range(200, 208)


def unknown_in_text(text: str, net_type: Any) -> dict[str, list[list[str]]]:
    """Return for each `layer` and `layers` of the net the unknown fields that matter, by path.

    text: a net in protobuf's text format that has been parsed without an error.
    """
    text_format: Any = import_module("google.protobuf.text_format")
    found: dict[str, list[list[str]]] = {"layer": [], "layers": []}
    tokenizer = text_format.Tokenizer(text.split("\n"))
    while not tokenizer.AtEnd():
        name = tokenizer.token
        tokenizer.NextToken()
        field = net_type.DESCRIPTOR.fields_by_name.get(name)
        if name in found:
            found[name].append([])
            _walk_value(tokenizer, field.message_type, "", found[name][-1])
        else:
            _walk_value(tokenizer, None, "", [])
    return found


def _walk_value(tokenizer: Any, kind: Any, path: str, found: list[str]) -> None:
    """Skip a field's value, noting the unknown fields in messages of a known kind."""
    tokenizer.TryConsume(":")
    if tokenizer.TryConsume("["):
        while not tokenizer.TryConsume("]"):
            _walk_value(tokenizer, kind, path, found)
            tokenizer.TryConsume(",")
    elif tokenizer.token in _CLOSING:
        closing = _CLOSING[tokenizer.token]
        tokenizer.NextToken()
        while not tokenizer.TryConsume(closing):
            _walk_field(tokenizer, kind, path, found)
    else:
        tokenizer.TryConsume("-")
        is_string = tokenizer.token[:1] in ("'", '"')
        tokenizer.NextToken()
        while is_string and tokenizer.token[:1] in ("'", '"'):
            tokenizer.NextToken()
    if not tokenizer.TryConsume(";"):
        tokenizer.TryConsume(",")


def _walk_field(tokenizer: Any, kind: Any, path: str, found: list[str]) -> None:
    name = tokenizer.token
    tokenizer.NextToken()
    if name == "[":
        while not tokenizer.TryConsume("]"):
            tokenizer.NextToken()
    field = None if kind is None else kind.fields_by_name.get(name)
    if kind is not None and field is None and _matters(name, path):
        found.append(f"{path}{name}")
    _walk_value(tokenizer, None if field is None else field.message_type, f"{path}{name}.", found)


def _matters(name: str, path: str) -> bool:
    if not path:
        return name.endswith("_param") and name not in HARMLESS_PARAMETERS
    return path.partition(".")[0].endswith("_param") and name not in HARMLESS_NAMES


def unknown_in_binary(layer: Any) -> list[str]:
    """Return the unknown fields that matter of a layer read from bytes: numbers, by path."""
    unknown: Any = import_module("google.protobuf.unknown_fields").UnknownFieldSet
    found = [
        f"field {each.field_number}"
        for each in unknown(layer)
        if each.field_number > _LAST_SHARED_NUMBER and each.field_number not in _SSD_NUMBERS
    ]
    if layer.type in _FORK_TYPES:
        found.append("its parameters, which only the .prototxt names")
    for field, value in layer.ListFields():
        if field.name.endswith("_param"):
            harmless = HARMLESS_NUMBERS.get(field.message_type.name, frozenset())
            found += [
                f"{field.name} field {each.field_number}"
                for each in unknown(value)
                if each.field_number not in harmless
            ]
    return found
