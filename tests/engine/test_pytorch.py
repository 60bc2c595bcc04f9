"""Modules against torch itself, at the example's sizes and at others."""

from typing import Any

import numpy as np
import pytest

from palmkit import engine
from palmkit.engine.errors import ModelError, UnsupportedError

torch: Any = pytest.importorskip("torch", reason="torch is in none of the test extras: its size")
pytest.importorskip("onnx")
nn: Any = torch.nn

TOLERANCE = 1e-5


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def check(module: Any, graph: engine.Graph, *calls: tuple[Any, ...]) -> None:
    """Every call gives torch's numbers on both backends, to 1e-5 of their range: rounding."""
    module.eval()
    for backend in ("reference", "cpu"):
        model = engine.Model(graph, backend)
        for call in calls:
            with torch.no_grad():
                wanted = module(*call)
            wanted = [wanted] if isinstance(wanted, torch.Tensor) else list(wanted)
            inputs = {n: v.numpy() for n, v in zip(graph.inputs, call, strict=True)}
            outputs = model.run(inputs)
            for expected, actual in zip(wanted, outputs.values(), strict=True):
                assert actual.shape == tuple(expected.shape)
                assert actual.dtype == expected.numpy().dtype
                span = float(expected.max() - expected.min())
                assert np.abs(expected.numpy() - actual).max() <= TOLERANCE * span


def image(*shape: int) -> Any:
    return torch.randn(*shape)


class Unet(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        nn.Module.__init__(self)

        def layer(inputs: int, outputs: int) -> Any:
            conv = nn.Conv2d(inputs, outputs, 3, padding=1)
            return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU())

        self.high, self.low, self.joined = layer(3, 8), layer(8, 16), layer(24, 8)
        self.head = nn.Conv2d(8, 2, 1)

    def forward(self, image: Any) -> Any:
        high = self.high(image)
        low = self.low(nn.functional.max_pool2d(high, 2))
        size = high.shape[2:]
        low = nn.functional.interpolate(low, size=size, mode="bilinear", align_corners=False)
        return self.head(self.joined(torch.cat([high, low], 1)))


class Recurrent(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        nn.Module.__init__(self)
        self.first = nn.LSTM(5, 7, batch_first=True, bidirectional=True)
        self.second = nn.GRU(14, 6, num_layers=2, batch_first=True)

    def forward(self, x: Any) -> Any:
        between, _ = self.first(x)
        y, last = self.second(between)
        return y, last


def test_a_classifier_is_left_as_it_was() -> None:
    pool = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.5), nn.Linear(8, 4)]
    module = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), nn.Hardswish(), *pool)
    module.train()
    module[1].eval()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    graph = engine.from_torch(module, image(1, 3, 16, 16), input_names=["x"], output_names=["p"])
    assert module.training and not module[1].training and module[5].training
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    assert {n: str(t) for n, t in graph.inputs.items()} == {"x": "float32[1, 3, 16, 16]"}
    assert {n: str(t) for n, t in graph.outputs.items()} == {"p": "float32[1, 4]"}
    check(module, graph, (image(1, 3, 16, 16),))


def test_a_segmenter_of_any_size() -> None:
    module = Unet()
    shapes = {"image": {0: "batch", 2: "height", 3: "width"}}
    graph = engine.from_torch(module, image(1, 3, 32, 32), dynamic_shapes=shapes)
    assert str(graph.inputs["image"]) == "float32[batch, 3, height, width]"
    (output,) = graph.outputs.values()
    assert str(output) == "float32[batch, 2, height, width]"
    check(module, graph, (image(1, 3, 32, 32),), (image(3, 3, 20, 36),), (image(2, 3, 21, 35),))


def test_recurrent_layers_of_any_length() -> None:
    module = Recurrent()
    graph = engine.from_torch(module, image(1, 6, 5), dynamic_shapes=({0: "batch", 1: "steps"},))
    check(module, graph, (image(2, 6, 5),), (image(1, 3, 5),))
    assert [type.shape[-1] for type in graph.outputs.values()] == [6, 6]


def test_a_transformer_layer_from_keywords() -> None:
    module = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    graph = engine.from_torch(
        module, {"src": image(2, 6, 16)}, dynamic_shapes={"src": {0: "batch", 1: "steps"}}
    )
    check(module, graph, (image(2, 6, 16),), (image(3, 9, 16),))


def test_padding_is_masked() -> None:
    """torch's fast attention gives zeros where the mask hides; the rest is the same."""
    module = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    mask = torch.zeros(2, 6, dtype=torch.bool)
    mask[1, 4:] = True
    example = {"src": image(2, 6, 16), "src_key_padding_mask": mask}
    graph = engine.from_torch(module, example)
    inputs = {
        name: value.numpy() for name, value in zip(graph.inputs, example.values(), strict=True)
    }
    (found,) = engine.Model(graph).run(inputs).values()
    with torch.no_grad():
        expected = module.eval()(**example)
    assert np.abs(found - expected.numpy())[~mask.numpy()].max() < 1e-5


def test_several_inputs_and_integers() -> None:
    class Two(nn.Module):  # type: ignore[misc]
        def forward(self, a: Any, index: Any) -> Any:
            return a[index], a.sum(1)

    module = Two()
    example = (image(5, 3), torch.tensor([0, 4]))
    graph = engine.from_torch(
        module, example, dynamic_shapes={"rows": {0: "n"}}, input_names=["rows", "index"]
    )
    assert {n: str(t) for n, t in graph.inputs.items()} == {
        "rows": "float32[n, 3]",
        "index": "int64[2]",
    }
    check(module, graph, example, (image(7, 3), torch.tensor([6, 1])))


def test_the_older_exporter_serves_without_onnxscript(monkeypatch: pytest.MonkeyPatch) -> None:
    from palmkit.engine import pytorch

    def missing(name: str) -> None:
        return None

    monkeypatch.setattr(pytorch, "find_spec", missing)
    module = Unet()
    shapes = {"image": {0: "batch", 2: "height", 3: "width"}}
    graph = engine.from_torch(module, image(1, 3, 32, 32), dynamic_shapes=shapes)
    assert str(graph.inputs["image"]) == "float32[batch, 3, height, width]"
    check(module, graph, (image(1, 3, 32, 32),), (image(2, 3, 20, 36),))


def test_nothing_is_written_or_said(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    engine.from_torch(nn.Linear(3, 2), image(1, 3))
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


class Branching(nn.Module):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        return x if x.sum() > 0 else -x


class Fixed(nn.Module):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        return x + torch.ones(4, 3)


REFUSED: list[Any] = [
    (check, (), {}, UnsupportedError, "expected a torch.nn.Module, got function"),
    (nn.Linear(3, 2), 7, {}, UnsupportedError, "expected a tensor, a tuple .* got int"),
    (nn.Linear(3, 2), image(1, 4), {}, ModelError, "Linear does not run on the example"),
    (nn.Linear(3, 2), (1, 2, 3), {"dynamic_shapes": {}}, ModelError, "not what forward takes"),
    (
        nn.Linear(3, 2),
        image(2, 3),
        {"dynamic_shapes": {"picture": {0: "n"}}},
        UnsupportedError,
        "no input 'picture'; the inputs: input",
    ),
    (Branching(), image(2, 3), {}, UnsupportedError, r"cannot export Branching: .*torch\.cond"),
    (
        Fixed(),
        image(4, 3),
        {"dynamic_shapes": {"x": {0: "rows"}}},
        UnsupportedError,
        "inferred a static shape of 4",
    ),
]


@pytest.mark.parametrize(("module", "example", "options", "error", "message"), REFUSED)
def test_what_cannot_be_taken_over(
    module: Any, example: Any, options: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as raised:
        engine.from_torch(module, example, **options)
    assert "\n" not in str(raised.value)


def test_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UnsupportedError, match=r'needs the package torch: .*"palmkit\[torch\]"'):
        engine.from_torch(nn.Linear(3, 2), image(1, 3))
