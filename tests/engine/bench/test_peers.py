"""The real engines, where they are installed."""

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit import engine
from palmkit.engine.backends.gpu import Gpu
from palmkit.engine.bench import table
from palmkit.engine.bench.comparison import Schedule, compare
from palmkit.engine.bench.engines import OURS, PEERS, Job, find
from palmkit.engine.bench.peak import peak_flops
from palmkit.engine.bench.subject import subject
from palmkit.engine.ir import Graph, Node, Type

native = pytest.importorskip("palmkit.engine._native", reason="the native runtime is not built")

QUICK = Schedule(seconds=0.02, turns=2, loads=1)
TEACHERS = Path(__file__).parents[3].parent / "shared" / "teachers"


@pytest.fixture(autouse=True)
def tests_are_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))


def network(channels_last: bool = False) -> Graph:
    """Image to scores: conv, relu, mean."""
    random = np.random.default_rng(3)
    constants: dict[str, Any] = {
        "w": random.normal(size=(4, 3, 3, 3)).astype(np.float32),
        "b": random.normal(size=4).astype(np.float32),
    }
    nodes = [
        Node("conv", ("image", "w", "b"), ("a",), {"strides": (2, 2), "pads": (1, 1, 1, 1)}),
        Node("relu", ("a",), ("c",)),
        Node("global_average_pool", ("c",), ("d",)),
        Node("flatten", ("d",), ("scores",)),
    ]
    shape: tuple[int, ...] = (1, 3, 16, 24)
    if channels_last:
        shape = (1, 16, 24, 3)
        nodes.insert(0, Node("transpose", ("image",), ("nchw",), {"perm": (0, 3, 1, 2)}))
        nodes[1] = Node("conv", ("nchw", "w", "b"), ("a",), nodes[1].attrs)
    inputs = {"image": Type("float32", shape)}
    return Graph(inputs, {"scores": Type("float32", (1, 4))}, tuple(nodes), constants)


def need(name: str) -> None:
    if missing := find(name).missing():
        pytest.skip(f'{missing} is not installed: pip install "palmkit[bench]"')


@pytest.mark.parametrize("name", [name for name in PEERS if "onnx" in find(name).forms])
@pytest.mark.parametrize("precision", ["high", "low"])
def test_peer_runs_what_is_written_as_onnx(name: str, precision: str, tmp_path: Path) -> None:
    need(name)
    pytest.importorskip("onnx")
    graph = network()
    with subject(tmp_path / "net.palm", graph) as each:
        assert set(each.files) == {"palm", "onnx"} and each.macs == 4 * 8 * 12 * 27
        found = compare(each, [OURS, name], 1, precision, QUICK, cache=tmp_path)
    assert not found.refusals
    assert len(table.errors([found])) == (precision == "low")
    ours, peer = found.results
    assert ours.difference is not None and ours.difference < (1e-6 if precision == "high" else 0.1)
    assert (ours.form, peer.form) == ("palm", "onnx") and peer.version
    assert peer.difference is not None
    assert peer.difference < (1e-4 if precision == "high" else 0.1)
    assert found.ratio is not None and found.ratio > 0
    assert not list(Path(tmp_path).glob(".*")), "nothing half made is left in the cache"


@pytest.mark.parametrize("name", [name for name in PEERS if "cpu" in find(name).places])
def test_peer_runs_tflite(name: str, tmp_path: Path) -> None:
    need(name)
    pytest.importorskip("tflite")
    model = TEACHERS / "custom_gesture_classifier.tflite"
    if not model.is_file():
        pytest.skip(f"no such file: {model}")
    with subject(model, engine.convert(model)) as each:
        found = compare(each, [OURS, name], 1, "high", QUICK, cache=tmp_path)
    assert not found.refusals and found.ratio is not None


def test_litert_reads_its_own_format_only(tmp_path: Path) -> None:
    need("litert")
    pytest.importorskip("onnx")
    with subject(tmp_path / "net.palm", network()) as each:
        found = compare(each, [OURS, "litert"], schedule=QUICK, cache=tmp_path)
    assert found.refusals == {"litert": "reads .tflite only"}


def test_on_a_gpu_peers_are_those_that_run_there(tmp_path: Path) -> None:
    if reason := Gpu("software").missing():
        pytest.skip(reason)
    pytest.importorskip("onnx")
    with subject(tmp_path / "net.palm", network()) as each:
        names, backend = [OURS, "ort", "pytorch"], "gpu:software"
        found = compare(each, names, schedule=QUICK, cache=tmp_path, backend=backend)
    assert [each.engine for each in found.results] == [OURS] and found.backend == backend
    assert found.refusals["ort"] == "it is compared on a CPU only"
    if not find("pytorch").missing():
        assert found.refusals["pytorch"].startswith("reads .pt2 only; there is no net.pt2")
    with subject(tmp_path / "net.palm", network()) as each:
        on_cpu = compare(each, [OURS, "pytorch"], schedule=QUICK, cache=tmp_path)
    assert on_cpu.refusals["pytorch"] == "it is compared on a GPU only"


def test_ncnn_runs_on_a_gpu(tmp_path: Path) -> None:
    need("ncnn")
    if reason := Gpu("software").missing():
        pytest.skip(reason)
    pytest.importorskip("onnx")
    with subject(tmp_path / "net.palm", network()) as each:
        backend = "gpu:software"
        found = compare(each, [OURS, "ncnn"], schedule=QUICK, cache=tmp_path, backend=backend)
    assert not found.refusals and found.peers[0].engine == "ncnn"


def test_pytorch_says_that_it_finds_no_gpu(tmp_path: Path) -> None:
    need("pytorch")
    torch: Any = import_module("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU of CUDA's")
    job = Job(tmp_path / "net.pt2", "pt2", {}, ("y",), 1, "high", tmp_path, "gpu")
    pytorch = find("pytorch")
    pytorch.import_library()
    with pytest.raises(engine.PalmError, match="finds no GPU"):
        pytorch.open(job)


def test_a_converter_s_refusal_is_told(tmp_path: Path) -> None:
    need("ncnn")
    file = tmp_path / "bad.onnx"
    file.write_bytes(b"not a model")
    x = {"x": np.zeros((1, 4), np.float32)}
    job = Job(file, "onnx", x, ("y",), 1, "high", tmp_path / "cache")
    with pytest.raises(engine.PalmError, match="pnnx ended with"):
        find("ncnn").prepare(job)
    assert not list((tmp_path / "cache").iterdir())


def test_mnn_cannot_report_conversions(monkeypatch: pytest.MonkeyPatch) -> None:
    from palmkit.engine.bench.engines import mnn

    monkeypatch.setitem(sys.modules, "MNN.tools", None)
    monkeypatch.delitem(sys.modules, "MNN.tools")
    mnn.forbid_reports()
    with pytest.raises(ImportError):
        __import__("MNN.tools.mnnconvert")


def test_peak() -> None:
    one = peak_flops(1, 0.02)
    assert one is not None and 1e8 < one < 1e13
    two = peak_flops(2, 0.02)
    assert two is not None and 0.9 * one < two < 2.5 * one
