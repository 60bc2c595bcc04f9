"""Export of trained weights as the model that ships, by way of ONNX."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from torch import Tensor, nn


def export_onnx(
    network: nn.Module,
    image: Tensor,
    outputs: Sequence[str],
    out: Path,
    axes: Mapping[str, dict[int, str]] | None = None,
    beside: Mapping[str, Tensor] | None = None,
) -> None:
    """Write a network as ONNX, opset 17.

    image: an example of the input "image". beside: examples of further inputs, by name. outputs:
    their names. axes: names of the dimensions that are free, by input or output.
    """
    import torch

    more = beside or {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        # Of paddings, which our converter folds itself.
        warnings.filterwarnings("ignore", "Constant folding", UserWarning)
        torch.onnx.export(
            network.eval(),
            (image, *more.values()),
            str(out),
            opset_version=17,
            dynamo=False,
            input_names=["image", *more],
            output_names=list(outputs),
            dynamic_axes=dict(axes or {}),
        )


def export_palm(
    onnx: Path,
    out: Path,
    metadata: Mapping[str, str],
    weights: Literal["auto", "float16", "float32"] = "auto",
    shapes: Sequence[Mapping[str, Sequence[int]]] | None = None,
) -> None:
    """Convert with our own converter and save with the metadata.

    weights, shapes: as in palmkit.engine.save; "float16" rounds them; without shapes to plan for
    ([]) the file is small and its loader makes the plan.
    """
    from palmkit.engine import convert, save

    save(replace(convert(onnx), metadata=dict(metadata)), out, weights, shapes)
