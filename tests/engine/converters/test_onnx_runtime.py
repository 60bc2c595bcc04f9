"""What ONNX Runtime makes of models, quantized and optimised, against ONNX Runtime itself."""

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit.engine.converters.onnx import convert
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Array
from palmkit.engine.model import Model

onnx: Any = pytest.importorskip("onnx")
runtime: Any = pytest.importorskip("onnxruntime")

BACKENDS = ("reference", "cpu")
MICROSOFT = "com.microsoft"


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    runtime.set_default_logger_severity(4)
    yield
    runtime.set_default_logger_severity(2)


@contextmanager
def peer_may_lack() -> Generator[None]:
    """Skips what an old ONNX Runtime (1.23, the last for Python 3.10) cannot run itself."""
    known = runtime.capi.onnxruntime_pybind11_state
    try:
        yield
    except (known.NotImplemented, known.Fail) as error:
        if tuple(map(int, runtime.__version__.split(".")[:2])) >= (1, 24):
            raise
        pytest.skip(str(error))


def run_peer(path: Path, inputs: Mapping[str, Array]) -> dict[str, Array]:
    with peer_may_lack():
        session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        return dict(zip(names, session.run(None, dict(inputs)), strict=True))


def random(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def classifier(path: Path) -> None:
    """A little of everything that quantizers touch: x[1, 3, 16, 16] to y[1, 10]."""
    text = """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[1,3,16,16] x) => (float[1,10] y) {
            a = Conv <pads=[1,1,1,1], strides=[2,2]> (x, w1, b1)
            b = Clip (a, low, high)
            c = Conv <pads=[1,1,1,1], group=8> (b, w2)
            d = Add (b, c)
            e = Sigmoid (d)
            f = Mul (d, e)
            p = MaxPool <kernel_shape=[2,2], strides=[2,2]> (f)
            q = AveragePool <kernel_shape=[2,2], strides=[2,2]> (f)
            r = Concat <axis=1> (p, q)
            s = LeakyRelu <alpha=0.1> (r)
            t = GlobalAveragePool (s)
            u = Flatten (t)
            y = Gemm <transB=1> (u, w3, b3)
        }
    """
    model = onnx.parser.parse_model(text)
    weights = {
        "w1": random(8, 3, 3, 3, seed=1) / 3,
        "b1": random(8, seed=2) / 5,
        "w2": random(8, 1, 3, 3, seed=3) / 2,
        "w3": random(10, 16, seed=4),
        "b3": random(10, seed=5),
        "low": np.array(0, np.float32),
        "high": np.array(6, np.float32),
    }
    for name, value in weights.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    onnx.save(model, str(path))


@pytest.fixture
def quantized(tmp_path: Path) -> Any:
    """Quantizes the classifier by ONNX Runtime's own tools, returns the file's path.

    Weights have seven bits: of eight, ONNX Runtime's sums of two products saturate on a CPU
    without VNNI.
    """
    quantization: Any = pytest.importorskip("onnxruntime.quantization")
    plain, path = tmp_path / "plain.onnx", tmp_path / "quantized.onnx"
    classifier(plain)

    def quantize(form: str, per_channel: bool = False, optimised: bool = False) -> Path:
        if form == "dynamic":
            quantization.quantize_dynamic(plain, path, reduce_range=True)
        else:
            pictures = iter([{"x": random(1, 3, 16, 16, seed=i)} for i in range(4)])

            def get_next(_: Any) -> Any:
                return next(pictures, None)

            readers = (quantization.CalibrationDataReader,)
            reader = type("Pictures", readers, {"get_next": get_next})
            quantization.quantize_static(
                plain,
                path,
                reader(),
                quant_format=quantization.QuantFormat[form],
                per_channel=per_channel,
                reduce_range=True,
                activation_type=quantization.QuantType.QUInt8,
                weight_type=quantization.QuantType.QInt8,
            )
        return optimise(path) if optimised else path

    return quantize


def optimise(path: Path) -> Path:
    """The model as ONNX Runtime rewrites it, with operators of its own."""
    options = runtime.SessionOptions()
    level = runtime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.graph_optimization_level = level
    written = path.with_name("optimised.onnx")
    options.optimized_model_filepath = str(written)
    with peer_may_lack():
        runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return written


def own_operators(path: Path) -> set[str]:
    return {node.op_type for node in onnx.load(str(path)).graph.node if node.domain == MICROSOFT}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("optimised", [False, True])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
def test_static_quantization(
    quantized: Any, form: str, per_channel: bool, optimised: bool, backend: str
) -> None:
    """Within two steps of the output's levels: a tie in a layer may be rounded otherwise."""
    path = quantized(form, per_channel, optimised)
    x = random(1, 3, 16, 16, seed=99)
    got, wanted = (
        Model(convert(path), backend).run({"x": x})["y"],
        run_peer(path, {"x": x})["y"],
    )
    step = float(np.diff(np.unique(np.concatenate([got, wanted]).round(5))).min())
    assert step > 1e-3
    assert np.abs(got - wanted).max() <= 2.01 * step


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("optimised", [False, True])
def test_dynamic_quantization_is_exact(quantized: Any, optimised: bool, backend: str) -> None:
    path = quantized("dynamic", optimised=optimised)
    x = random(1, 3, 16, 16, seed=99)
    got = Model(convert(path), backend).run({"x": x})["y"]
    np.testing.assert_allclose(got, run_peer(path, {"x": x})["y"], rtol=1e-4, atol=1e-5)


def test_optimised_models_have_operators_of_their_own(quantized: Any) -> None:
    """The tests above are of what they say they are of."""
    assert own_operators(quantized("QOperator", optimised=True)) >= {
        "QLinearAdd",
        "QLinearMul",
        "QLinearSigmoid",
        "QLinearLeakyRelu",
        "QLinearConcat",
        "QLinearAveragePool",
        "QLinearGlobalAveragePool",
        "QGemm",
    }
    assert "DynamicQuantizeMatMul" in own_operators(quantized("dynamic", optimised=True))


def model_of_node(
    operator: str,
    inputs: Mapping[str, Array | None],
    constants: Mapping[str, Array | None],
    outputs: int = 1,
    **attrs: Any,
) -> Any:
    """A model of one node; None is an input left out."""
    helper = onnx.helper
    given = {**inputs, **constants}
    names = ["" if value is None else name for name, value in given.items()]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(operator, names, results, domain=MICROSOFT, **attrs)
    if operator == "SimplifiedLayerNormalization":
        node.domain = ""
    graph = helper.make_graph(
        [node],
        "g",
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
            )
            for name, value in inputs.items()
            if value is not None
        ],
        [helper.make_empty_tensor_value_info(name) for name in results],
        [
            onnx.numpy_helper.from_array(value, name)
            for name, value in constants.items()
            if value is not None
        ],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


X, ROW = random(2, 5, 16), random(16, seed=1)
PICTURE, KERNELS = random(1, 3, 8, 8), random(4, 3, 3, 3, seed=1)
IDS = np.array([[1, 4, 0], [3, 3, 2]], np.int32)
MASK = np.array([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]], np.int32)
LEVELS = np.random.default_rng(0).integers(0, 256, (6, 4, 8)).astype(np.uint8)
# Seven bits, as above.
SIGNED = (LEVELS % 128).astype(np.int8) - np.int8(64)

NODES: list[tuple[str, dict[str, Array | None], dict[str, Array | None], dict[str, Any]]] = [
    ("FusedConv", {"x": PICTURE}, {"w": KERNELS, "b": random(4)}, {"activation": "Relu"}),
    (
        "FusedConv",
        {"x": PICTURE},
        {"w": KERNELS, "b": random(4), "z": random(1, 4, 6, 6)},
        {"activation": "Relu"},
    ),
    (
        "FusedConv",
        {"x": PICTURE},
        {"w": KERNELS},
        {"activation": "LeakyRelu", "activation_params": [0.2]},
    ),
    (
        "FusedConv",
        {"x": PICTURE},
        {"w": KERNELS},
        {"activation": "Clip", "activation_params": [-1.0, 2.0]},
    ),
    (
        "FusedConv",
        {"x": PICTURE},
        {"w": KERNELS},
        {"activation": "HardSigmoid", "activation_params": [0.3, 0.4]},
    ),
    ("FusedGemm", {"a": random(2, 3)}, {"b": random(3, 4), "c": random(4)}, {"activation": "Relu"}),
    (
        "FusedGemm",
        {"a": random(2, 3)},
        {"b": random(4, 3)},
        {"activation": "LeakyRelu", "activation_alpha": 0.3, "transB": 1},
    ),
    ("FusedMatMul", {"a": X, "b": random(2, 7, 16)}, {}, {"transB": 1, "alpha": 0.5}),
    ("FusedMatMul", {"a": random(2, 16, 5), "b": random(2, 16, 7)}, {}, {"transA": 1}),
    ("FusedMatMul", {"a": random(5, 2, 16), "b": random(2, 16, 7)}, {}, {"transBatchA": 1}),
    (
        "FusedMatMul",
        {"a": random(3, 2, 4, 8), "b": random(5, 2, 4, 8)},
        {},
        {"transBatchA": 1, "transBatchB": 1, "transB": 1},
    ),
    ("Gelu", {"x": X}, {}, {}),
    ("BiasGelu", {"x": X}, {"b": ROW}, {}),
    ("FastGelu", {"x": X}, {"b": ROW}, {}),
    ("FastGelu", {"x": X}, {}, {}),
    ("QuickGelu", {"x": X}, {}, {"alpha": 1.5}),
    ("SkipLayerNormalization", {"x": X, "s": X * 2}, {"g": ROW, "b": ROW}, {"epsilon": 1e-3}),
    (
        "SkipLayerNormalization",
        {"x": X, "s": X[::-1].copy()},
        {"g": ROW, "b": None, "bias": ROW},
        {},
    ),
    ("SkipSimplifiedLayerNormalization", {"x": X, "s": X * 2}, {"g": ROW, "bias": ROW}, {}),
    ("SimplifiedLayerNormalization", {"x": X}, {"g": ROW}, {"axis": -1, "epsilon": 1e-3}),
    (
        "EmbedLayerNormalization",
        {"i": IDS, "s": IDS % 2},
        {
            "w": random(9, 16),
            "p": random(3, 16),
            "k": random(2, 16),
            "g": ROW,
            "b": ROW,
        },
        {"outputs": 2},
    ),
    (
        "EmbedLayerNormalization",
        {"i": IDS, "s": None},
        {
            "w": random(9, 16),
            "p": random(3, 16),
            "k": None,
            "g": ROW,
            "b": ROW,
            "m": IDS % 2,
        },
        {"outputs": 2},
    ),
    ("Attention", {"x": X}, {"w": random(16, 48) / 4, "b": random(48)}, {"num_heads": 4}),
    (
        "Attention",
        {"x": X},
        {"w": random(16, 48) / 4, "b": random(48)},
        {"num_heads": 4, "unidirectional": 1},
    ),
    (
        "Attention",
        {"x": X},
        {"w": random(16, 48) / 4, "b": random(48), "m": MASK},
        {"num_heads": 2},
    ),
    (
        "MultiHeadAttention",
        {"q": X, "k": random(2, 7, 16, seed=1), "v": random(2, 7, 16, seed=2)},
        {},
        {"num_heads": 4},
    ),
    (
        "MultiHeadAttention",
        {"q": X, "k": random(2, 7, 16, seed=1), "v": random(2, 7, 16, seed=2)},
        {"b": random(48)},
        {"num_heads": 2, "scale": 0.3},
    ),
    (
        "QAttention",
        {"x": LEVELS.reshape(-1)[: 2 * 5 * 16].reshape(2, 5, 16)},
        {
            "w": np.resize(SIGNED, (16, 24)),
            "b": random(24),
            "xs": np.array(0.02, np.float32),
            "ws": np.array(0.01, np.float32),
            "m": None,
            "xz": np.array(120, np.uint8),
            "wz": np.array(0, np.int8),
        },
        {"num_heads": 2},
    ),
    (
        "MatMulNBits",
        {"x": random(3, 50)},
        {"w": LEVELS, "s": random(24)},
        {"K": 50, "N": 6, "bits": 4, "block_size": 16},
    ),
    (
        "MatMulNBits",
        {"x": random(3, 64)},
        {"w": LEVELS, "s": random(24), "z": LEVELS[:, 0, :2].reshape(-1).copy()},
        {"K": 64, "N": 6, "bits": 4, "block_size": 16},
    ),
    (
        "DynamicQuantizeLSTM",
        {"x": random(5, 1, 8)},
        {
            "w": SIGNED.reshape(-1)[: 8 * 12].reshape(1, 8, 12),
            "r": SIGNED.reshape(-1)[: 3 * 12].reshape(1, 3, 12),
            "b": random(1, 24),
            "lengths": None,
            "h": None,
            "c": None,
            "p": None,
            "ws": np.array([0.01], np.float32),
            "wz": np.array([3], np.int8),
            "rs": np.array([0.02], np.float32),
            "rz": np.array([-3], np.int8),
        },
        {"hidden_size": 3, "outputs": 3},
    ),
    (
        "MatMulIntegerToFloat",
        {"a": LEVELS[0], "b": LEVELS[1, :, :].T.copy()},
        {
            "as": np.array(0.1, np.float32),
            "bs": np.array([0.1, 0.2, 0.3, 0.4], np.float32),
            "az": np.array(7, np.uint8),
            "bz": np.array([1, 2, 3, 4], np.uint8),
            "bias": random(4),
        },
        {},
    ),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("parts", NODES, ids=lambda parts: f"{parts[0]} {[*parts[3]]}")
def test_own_operator(
    tmp_path: Path,
    parts: tuple[str, dict[str, Array | None], dict[str, Array | None], dict[str, Any]],
    backend: str,
) -> None:
    operator, inputs, constants, attrs = parts
    path = tmp_path / "node.onnx"
    onnx.save(model_of_node(operator, inputs, constants, **attrs), str(path))
    feed = {name: value for name, value in inputs.items() if value is not None}
    wanted = run_peer(path, feed)
    got = Model(convert(path), backend).run(feed)
    for name, peer in wanted.items():
        assert (got[name].dtype, got[name].shape) == (peer.dtype, peer.shape)
        np.testing.assert_allclose(got[name], peer, rtol=1e-4, atol=1e-5, err_msg=name)


def test_what_has_no_rule_is_said(tmp_path: Path) -> None:
    path = tmp_path / "node.onnx"
    node = model_of_node("FusedConv", {"x": PICTURE}, {"w": KERNELS}, activation="Mystery")
    onnx.save(node, str(path))
    with pytest.raises(UnsupportedError, match="activation Mystery is not supported"):
        convert(path)
    onnx.save(model_of_node("Magic", {"x": PICTURE}, {}), str(path))
    with pytest.raises(UnsupportedError, match=r"com\.microsoft\.Magic \(1: y0\)"):
        convert(path)
