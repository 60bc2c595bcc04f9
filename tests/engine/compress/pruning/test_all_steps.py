from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from palmkit import engine
from palmkit.engine.compress.compress import compress
from palmkit.engine.compress.rounding import WeightRounding
from palmkit.engine.compress.steps import EntropyCoding
from palmkit.engine.ir import Array, Graph


def test_all_five(
    classifier: Graph, sample: Callable[..., dict[str, Array]], tmp_path: Path
) -> None:
    """All steps make a smaller file than the last two alone, within the same loss."""
    samples = [sample(classifier, seed) for seed in range(8)]
    teacher = engine.Model(classifier)
    wanted = [teacher.run(each)["logits"] for each in samples]
    spread = float(np.var(wanted))

    def evaluate(graph: Graph) -> float:
        model = engine.Model(graph)
        off = [model.run(each)["logits"] - w for each, w in zip(samples, wanted, strict=True)]
        return 1 - float(np.square(off).mean()) / spread

    whole = compress(classifier, samples, evaluate, max_loss=0.05)
    names = ["network transform", "neuron pruning", "synapse pruning", "quantization"]
    assert [stage.name for stage in whole.stages[1:5]] == names
    assert not [stage.error for stage in whole.stages if stage.error]
    assert any(stage.kept for stage in whole.stages[2:4])
    assert whole.loss <= 0.05
    part = compress(
        classifier, samples, evaluate, max_loss=0.05, steps=[WeightRounding(), EntropyCoding()]
    )
    assert whole.size_bytes < part.size_bytes
    engine.save(whole.graph, tmp_path / "small.palm", weights="smallest", shapes=())
    again = engine.load(tmp_path / "small.palm").graph
    assert evaluate(again) >= 0.95
