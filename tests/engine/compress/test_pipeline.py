"""Steps that share a loss, are taken back where they lose too much, and are taken up again."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit import engine
from palmkit.engine.compress import report
from palmkit.engine.compress.agreement import Agreement
from palmkit.engine.compress.cluster import clustered
from palmkit.engine.compress.compress import compress, split, stored_sizes, without_data
from palmkit.engine.compress.layers import find_layers, moments
from palmkit.engine.compress.names import strip_names
from palmkit.engine.compress.pipeline import Pipeline, State, Step
from palmkit.engine.compress.rounding import WeightRounding, feedbacks, rounded
from palmkit.engine.compress.steps import Clustering, EntropyCoding, Float16
from palmkit.engine.errors import CompressionError, PalmError
from palmkit.engine.ir import Array, Graph, Node, Type
from tests.engine.format.samples import everything

Samples = list[dict[str, Array]]


def network(seed: int = 0) -> Graph:
    """Convolutions of each kind, a transposed one, and a matrix."""
    rng = np.random.default_rng(seed)

    def weights(*shape: int) -> Array:
        values: Array = rng.normal(size=shape) / np.sqrt(np.prod(shape[1:]))
        return values.astype(np.float32)

    return Graph(
        inputs={"image": Type("float32", (1, 3, 16, 16))},
        outputs={"y": Type("float32", (1, 10))},
        nodes=(
            Node("conv", ("image", "w0", "b0"), ("a",), {"pads": (1, 1, 1, 1)}, "first"),
            Node("relu", ("a",), ("b",)),
            Node("conv", ("b", "w1"), ("c",), {"group": 16, "pads": (1, 1, 1, 1)}, "depthwise"),
            Node("conv", ("c", "w2"), ("d",), {}, "pointwise"),
            Node("relu", ("d",), ("e",)),
            Node("conv_transpose", ("e", "w3"), ("f",), {"strides": (2, 2)}, "larger"),
            Node("global_average_pool", ("f",), ("g",)),
            Node("flatten", ("g",), ("h",)),
            Node("gemm", ("h", "w4", "b4"), ("y",), {"transB": 1}, "last"),
        ),
        constants={
            "w0": weights(16, 3, 3, 3),
            "b0": weights(16),
            "w1": weights(16, 1, 3, 3),
            "w2": weights(32, 16, 1, 1),
            "w3": weights(32, 24, 2, 2),
            "w4": weights(10, 24),
            "b4": weights(10),
        },
        metadata={"licence": "Apache-2.0"},
    )


def samples(count: int = 6) -> Samples:
    rng = np.random.default_rng(1)
    return [{"image": rng.normal(size=(1, 3, 16, 16)).astype(np.float32)} for _ in range(count)]


@dataclass
class Scaled:
    """A step that makes the last bias `factor` times as large, in whole numbers."""

    factor: float
    name: str = "scaled"
    share: float = 1.0
    calls: int = 0

    def apply(self, state: State) -> State:
        self.calls += 1
        constants = dict(state.graph.constants)
        constants["w2"] = np.rint(constants["w2"] * 8) / np.float32(8)
        constants["b4"] = constants["b4"] * np.float32(self.factor)
        return replace(state, graph=replace(state.graph, constants=constants))


@dataclass
class Broken:
    name: str = "broken"
    share: float = 1.0

    def apply(self, state: State) -> State:
        raise CompressionError("nothing to do here")


def bias_metric(graph: Graph) -> float:
    """1 for the source's bias, less for a larger one."""
    before, now = network().constants["b4"], graph.constants["b4"]
    return float(2 - np.abs(now).sum() / np.abs(before).sum())


def state(graph: Graph) -> State:
    return State(graph, graph, samples(), bias_metric, baseline=1.0, metric=1.0)


def test_steps_that_lose_too_much_are_taken_back() -> None:
    steps: list[Step] = [Scaled(1.004), Scaled(1.5), Broken(), Scaled(1.004)]
    graph = network()
    after, stages = Pipeline(steps, stored_sizes).run(state(graph), max_loss=0.02)
    assert [stage.kept for stage in stages] == [True, True, False, False, True]
    assert stages[3].error == stages[3].why == "nothing to do here"
    assert stages[2].why == f"metric {stages[2].got:.4f}, at least 0.9900 is allowed here"
    assert not stages[1].why and not stages[4].why
    assert stages[2].metric == stages[1].metric == pytest.approx(0.996, abs=1e-6)
    assert stages[2].got == pytest.approx(2 - 1.004 * 1.5, abs=1e-5)
    assert after.metric == pytest.approx(2 - 1.004**2, abs=1e-5)
    assert stages[1].size_bytes < stages[0].size_bytes
    assert set(stages[0].constants) == set(graph.constants)


def test_loss_that_a_step_leaves_is_for_those_behind_it() -> None:
    # 2 % in two shares: the first may lose 1 %, the second what is left.
    for first, second, kept in ((1.015, 1.0, False), (1.0, 1.015, True)):
        steps = [Scaled(first), Scaled(second)]
        stages = Pipeline(steps, stored_sizes).run(state(network()), max_loss=0.02)[1]
        assert stages[1 if first > 1 else 2].kept is kept


def test_a_model_becomes_small_and_stays_what_it_is(tmp_path: Path) -> None:
    graph, found = network(), samples(10)
    told: list[tuple[str, float]] = []
    result = compress(
        graph, found, max_loss=0.05, progress=lambda name, share, text: told.append((name, share))
    )
    assert 0 <= result.loss <= 0.05
    assert Agreement(graph, split(found)[1])(result.graph) == pytest.approx(result.metric)
    assert result.size_bytes < 0.5 * result.stages[0].size_bytes
    engine.save(result.graph, tmp_path / "small.palm", "smallest")
    got = engine.load(tmp_path / "small.palm").run(found[0])["y"]
    expected = engine.Model(result.graph).run(found[0])["y"]
    assert got.tobytes() == expected.tobytes()
    assert {name for name, _ in told} == {stage.name for stage in result.stages[1:]}
    assert all(0 <= share <= 1 for _, share in told)


def test_a_compression_that_was_stopped_goes_on(tmp_path: Path) -> None:
    graph, found = network(), samples()
    first, second = Scaled(1.001), Broken()

    class Stopped:
        name, share = "last", 1.0

        def __init__(self, stops: bool) -> None:
            self.stops = stops

        def __repr__(self) -> str:
            return "Stopped()"

        def apply(self, state: State) -> State:
            if self.stops:
                raise KeyboardInterrupt
            return Float16().apply(state)

    def go(steps: list[Any]) -> Any:
        return compress(
            graph, found, bias_metric, max_loss=0.1, steps=steps, folder=tmp_path / "work"
        )

    with pytest.raises(KeyboardInterrupt):
        go([first, second, Stopped(True)])
    assert first.calls == 1
    again = Scaled(1.001)
    again.calls = first.calls - 1
    result = go([replace(again, calls=0), second, Stopped(False)])
    assert [stage.name for stage in result.stages] == ["float model", "scaled", "broken", "last"]
    whole = compress(graph, found, bias_metric, max_loss=0.1, steps=[again, second, Stopped(False)])
    for name, value in whole.graph.constants.items():
        assert result.graph.constants[name].tobytes() == value.tobytes()


def test_another_compression_begins_anew(tmp_path: Path) -> None:
    found = samples()
    compress(network(), found, bias_metric, steps=[Float16()], folder=tmp_path)
    step = Scaled(1.001)
    compress(network(), found, bias_metric, steps=[step], folder=tmp_path)
    assert step.calls == 1
    (tmp_path / "stages.json").write_text("{")
    step = Scaled(1.001)
    compress(network(), found, bias_metric, steps=[step], folder=tmp_path)
    assert step.calls == 1


def test_a_budget_that_cannot_be_kept_says_the_best() -> None:
    with pytest.raises(CompressionError, match=r"budget of 100 bytes .* the best reached is [0-9]"):
        compress(network(), samples(), max_bytes=100)
    result = compress(network(), samples(), max_bytes=100_000, steps=[Float16()])
    assert result.size_bytes < 100_000


def test_what_must_be_had_and_cannot_fails() -> None:
    with pytest.raises(CompressionError, match="codebooks at a loss of 0.00%|cannot be had"):
        compress(network(), samples(), max_loss=0.0, steps=[Clustering(bits=1, required=True)])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "at least one"),
        ([{"image": np.zeros((1, 3, 16, 16), np.float32)}] * 3, "colour"),
        ([{"image": np.zeros((1, 3, 8, 8), np.float32)}], "image"),
        ([{"picture": np.zeros((1, 3, 16, 16), np.float32)}], "image"),
    ],
)
def test_samples_that_cannot_calibrate_are_refused(given: Samples, message: str) -> None:
    with pytest.raises(PalmError, match=message):
        compress(network(), given)


def test_weights_that_are_not_finite_are_refused() -> None:
    graph = network()
    bad = graph.constants["w2"].copy()
    bad[0, 0] = np.nan
    graph = replace(graph, constants={**graph.constants, "w2": bad})
    with pytest.raises(PalmError, match="finite"):
        without_data(graph, [Clustering()])
    with pytest.raises(PalmError, match="finite|above 0"):
        compress(graph, samples())


def test_codebooks_hold_the_means_of_what_is_theirs() -> None:
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(40, 50)).astype(np.float32)
    weights[rng.random(weights.shape) < 0.3] = 0
    found = clustered(weights, 16)
    values = np.unique(found)
    assert len(values) <= 16
    assert (found[weights == 0] == 0).all()
    for value in values[values != 0]:
        assert weights[found == value].mean() == pytest.approx(value, rel=1e-3)
    assert np.mean((found - weights) ** 2) < 0.02 * weights.var()
    assert clustered(found, 16).tobytes() == found.tobytes()
    assert not clustered(np.zeros((4, 4), np.float32), 4).any()


def test_rounding_makes_up_for_its_own_errors() -> None:
    """Outputs are nearer than with each weight rounded to its nearest level."""
    rng = np.random.default_rng(0)
    mixed = rng.normal(size=(12, 12))
    found = [
        {"image": np.tensordot(rng.normal(size=(1, 16, 16, 12)), mixed, 1).transpose(0, 3, 1, 2)}
        for _ in range(4)
    ]
    found = [{"image": each["image"].astype(np.float32)} for each in found]
    weight = (rng.normal(size=(24, 12, 1, 1)) / 4).astype(np.float32)
    graph = Graph(
        {"image": Type("float32", (1, 12, 16, 16))},
        {"y": Type("float32", (1, 24, 16, 16))},
        (Node("conv", ("image", "w"), ("y",)),),
        {"w": weight},
    )
    layers = find_layers(graph)
    seen = moments(graph, layers, found)
    blind = {"w": np.eye(12)[None]}
    agreement = Agreement(graph, found)
    errors = [
        1 - agreement(rounded(graph, layers, {"w": 0.4}, feedbacks(each))) for each in (seen, blind)
    ]
    assert errors[0] < 0.75 * errors[1]


def test_every_kind_of_layer_is_rounded_in_its_own_order() -> None:
    graph = network()
    layers = find_layers(graph)
    assert [layer.weight for layer in layers] == ["w0", "w1", "w2", "w3", "w4"]
    seen = moments(graph, layers, samples())
    for layer in layers:
        weight = graph.constants[layer.weight]
        groups = layer.as_groups(weight)
        assert layer.from_groups(groups, weight.shape).tolist() == weight.tolist()
        assert seen[layer.weight].shape == (groups.shape[0], groups.shape[2], groups.shape[2])
    fine = rounded(graph, layers, {layer.weight: 0.05 for layer in layers}, feedbacks(seen))
    for layer in layers:
        weight = graph.constants[layer.weight]
        error = fine.constants[layer.weight] - weight
        assert 0 < np.abs(error).max() < 0.25 * np.abs(weight).std()


def test_search_ends_within_the_loss() -> None:
    graph = network()
    found = samples()
    agreement = Agreement(graph, found)
    for floor in (0.99, 0.9):
        begin = State(graph, graph, found, agreement, 1.0, 1.0, floor=floor)
        after = WeightRounding().apply(begin)
        assert agreement(after.graph) >= floor


def test_quick_steps_need_no_data() -> None:
    graph = network()
    halves: list[Step] = [Float16()]
    quarter: list[Step] = [Clustering(bits=2), EntropyCoding()]
    for steps, times in ((halves, 0.95), (quarter, 0.5)):
        result = without_data(graph, steps)
        assert result.size_bytes < times * len(engine_bytes(graph))


def engine_bytes(graph: Graph) -> bytes:
    from palmkit.engine.format import writer

    return writer.dumps(graph)


def test_stripped_names_compute_the_same() -> None:
    graph = network()
    plain = strip_names(graph)
    text = str(plain)
    assert "w0" not in text and "first" not in text and not any(n.name for n in plain.nodes)
    assert list(plain.inputs) == ["image"] and list(plain.outputs) == ["y"]
    x = samples(1)[0]
    assert engine.Model(plain).run(x)["y"].tobytes() == engine.Model(graph).run(x)["y"].tobytes()
    assert plain.metadata == graph.metadata
    odd = strip_names(everything())
    assert "длинное имя, 长" not in odd.constants
    assert len(odd.constants) == len(everything().constants)


def test_report_says_it_all_and_escapes_names() -> None:
    graph = network()
    renamed = replace(
        graph,
        nodes=tuple(
            replace(n, inputs=tuple("<w0>" if i == "w0" else i for i in n.inputs))
            for n in graph.nodes
        ),
        constants={("<w0>" if k == "w0" else k): v for k, v in graph.constants.items()},
    )
    result = compress(renamed, samples(), max_loss=0.1)
    page = report.page("small & fast", {"model": "<net>"}, result.stages)
    assert "<w0>" not in page and "&lt;w0&gt;" in page and "small &amp; fast" in page
    for stage in result.stages:
        assert stage.name in page and f"{stage.size_bytes:,}" in page
    lost = replace(result.stages[1], kept=False, got=1.0, why="nothing gained", notes=("many",) * 9)
    page = report.page("small", {}, [result.stages[0], lost])
    assert "not taken: nothing gained" in page
    assert "<details><summary>network transform (9)</summary>" in page
