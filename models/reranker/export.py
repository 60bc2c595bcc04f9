"""Export of trained weights as a model file, by way of ONNX."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from palmkit.engine import convert, save
from palmkit.engine.compress.rounding import in_half
from palmkit.kits.ranking.kit import PLANNED_ITEMS
from palmkit.kits.ranking.scorer import Description
from palmkit.models.reranker.dataset import Scaling
from palmkit.models.reranker.network import Batch, RerankNetwork


class ExportedNetwork(nn.Module):
    """The network with the scaling of its inputs."""

    def __init__(self, network: RerankNetwork, scaling: Scaling) -> None:
        """Wrap the network in evaluation mode."""
        super().__init__()
        self.network = network.eval()
        self.register_buffer("shift", torch.from_numpy(scaling.shift))
        self.register_buffer("factor", torch.from_numpy(1 / scaling.spread))

    def forward(self, items: Tensor, *others: Tensor) -> tuple[Tensor, Tensor]:
        """Return the scores, and the inputs of the last layers, from which the kit learns.

        Inputs without any column are left out.
        """
        shift, factor = self.shift, self.factor
        assert isinstance(shift, Tensor) and isinstance(factor, Tensor)
        scaled = ((items - shift) * factor).clamp(-10, 10)
        sizes = self.network.sizes
        given = iter(others)
        nothing = torch.zeros(1, 1, 0, dtype=torch.int64)
        item_codes = next(given) if sizes.codes else nothing
        events = next(given)
        event_codes = next(given) if sizes.categories else nothing
        links, present, happened = given
        batch = Batch(scaled, item_codes, events, event_codes, links, present, happened)
        merged = self.network.merged(batch)
        return self.network.members(merged).mean(dim=1), merged


def export(
    network: RerankNetwork,
    scaling: Scaling,
    described: Description,
    out: Path,
    said: Mapping[str, str],
) -> None:
    """Write a .palm file that palmkit.kits.Reranker takes; weights in float32.

    said: further metadata of the file.
    """
    sizes = network.sizes
    count, length = 3, 1 + described.layout.length
    examples: dict[str, Tensor] = {
        "items": torch.zeros(1, count, sizes.features),
        "item_codes": torch.zeros(1, count, sizes.codes, dtype=torch.int64),
        "events": torch.zeros(1, length, sizes.traits),
        "event_codes": torch.zeros(1, length, sizes.categories, dtype=torch.int64),
        "links": torch.zeros(1, sizes.links, count, length),
        "present": torch.ones(1, count),
        "happened": torch.ones(1, length),
    }
    kept = {n: x for n, x in examples.items() if x.shape[-1]}
    axes: dict[str, dict[int, str]] = {n: {0: "pages"} for n in (*kept, "scores", "hidden")}
    for each, at in (
        ("items", 1),
        ("item_codes", 1),
        ("links", 2),
        ("present", 1),
        ("scores", 1),
        ("hidden", 1),
    ):
        if each in axes:
            axes[each][at] = "count"
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        onnx = Path(folder) / "reranker.onnx"
        torch.onnx.export(
            ExportedNetwork(network, scaling).eval(),
            tuple(kept.values()),
            str(onnx),
            opset_version=17,
            dynamo=False,
            input_names=list(kept),
            output_names=["scores", "hidden"],
            dynamic_axes=axes,
        )
        graph = convert(onnx)
    planned = {
        n: [1 if d in ("pages",) else PLANNED_ITEMS if d == "count" else int(d) for d in t.shape]
        for n, t in graph.inputs.items()
    }
    graph = replace(graph, metadata={**described.metadata(), **said})
    # Of vectors one is the scale of the items' features, which may be too large for float16.
    vectors = [name for name, value in graph.constants.items() if value.ndim < 2]
    save(in_half(graph, without=vectors), out, "smallest", [planned])
