"""The commands about model files: convert, info, check, show, ops, bench."""

import json
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from palmkit import engine, kits
from palmkit.engine.ir import Array, Graph, Node, Type
from tests.kits.conftest import on_a_terminal, picture

onnx: Any = pytest.importorskip("onnx")

ROOT = Path(__file__).parents[2]
TEACHERS = ROOT.parent / "shared" / "teachers"


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An .onnx file: image 1x3x16x16 through conv, relu and a mean to scores 1x4."""
    helper, random = onnx.helper, np.random.default_rng(3)
    weights = random.normal(size=(4, 3, 3, 3)).astype(np.float32)
    bias = random.normal(size=4).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["image", "w", "b"], ["a"], name="stem", strides=[2, 2]),
        helper.make_node("Relu", ["a"], ["c"], name="bend"),
        helper.make_node("GlobalAveragePool", ["c"], ["d"], name="mean"),
        helper.make_node("Flatten", ["d"], ["scores"], name="flat"),
    ]
    float32 = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("image", float32, [1, 3, 16, 16])],
        [helper.make_tensor_value_info("scores", float32, [1, 4])],
        [onnx.numpy_helper.from_array(each, n) for n, each in (("w", weights), ("b", bias))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path_factory.mktemp("network") / "net.onnx"
    onnx.save(model, str(path))
    return path


@pytest.fixture
def two_inputs(tmp_path: Path) -> Path:
    """A .palm file: y = a + b, of any length."""
    type = Type("float32", ("n",))
    graph = Graph({"a": type, "b": type}, {"y": type}, (Node("add", ("a", "b"), ("y",)),))
    engine.save(graph, tmp_path / "two.palm")
    return tmp_path / "two.palm"


@pytest.fixture
def palm(run: Any, network: Path, tmp_path: Path) -> Path:
    path = tmp_path / "net.palm"
    assert run("convert", network, "-o", path).code == 0
    return path


def test_convert(run: Any, network: Path, tmp_path: Path) -> None:
    path = tmp_path / "new" / "out.palm"
    result = run("convert", network, "-o", path, "--metadata", "licence=MIT")
    assert (result.code, result.err) == (0, "")
    assert result.out == f"{path}: 4 nodes, {path.stat().st_size:,} bytes\n"
    assert engine.convert(path).metadata["licence"] == "MIT"
    result = run("convert", network, "-o", path, "--quiet")
    assert (result.code, result.out, result.err) == (0, "", "")


def test_convert_to_onnx(run: Any, palm: Path, tmp_path: Path) -> None:
    path = tmp_path / "back.onnx"
    assert run("convert", palm, "-o", path).code == 0
    assert onnx.load(str(path)).graph.node[0].op_type == "Conv"
    assert run("check", palm, "--source", path).code == 0
    result = run("convert", palm, "-o", path, "--fp16")
    assert result.code == 2 and "--fp16: for .palm only" in result.err


def test_convert_to_float16(run: Any, network: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.palm"
    assert run("convert", network, "-o", path, "--fp16").code == 0
    stored = json.loads(run("info", path, "--json").out)["weights_bytes"]
    assert stored == {"float32 as float16": 4 * 27 * 2, "float32": 16}
    exact, rounded = (engine.convert(each).constants["w"] for each in (network, path))
    assert np.array_equal(exact.astype(np.float16).astype(np.float32), rounded)


@pytest.mark.parametrize(
    ("shape", "inputs", "outputs"),
    [
        ("2x3x32x24", "float32[2, 3, 32, 24]", "float32[2, 4]"),
        ("image=batchx3x?x?", "float32[batch, 3, image_2, image_3]", "float32[batch, 4]"),
        ("1,3,max_height,8", "float32[1, 3, max_height, 8]", "float32[1, 4]"),
    ],
)
def test_input_shapes(
    run: Any, network: Path, tmp_path: Path, shape: str, inputs: str, outputs: str
) -> None:
    path = tmp_path / "out.palm"
    assert run("convert", network, "-o", path, "--input-shape", shape).code == 0
    graph = engine.convert(path)
    assert str(graph.inputs["image"]) == inputs and str(graph.outputs["scores"]) == outputs


def test_several_input_shapes(run: Any, two_inputs: Path) -> None:
    shapes = ["--input-shape", "a=5", "--input-shape", "b=5"]
    assert json.loads(run("info", two_inputs, *shapes[:2], "--json").out)["inputs"]["b"] == (
        "float32[5]"
    )
    facts = json.loads(run("info", two_inputs, *shapes, "--json").out)
    assert facts["inputs"] == {"a": "float32[5]", "b": "float32[5]"}
    assert facts["outputs"] == {"y": "float32[5]"}


@pytest.mark.parametrize(
    ("shapes", "code", "message"),
    [
        (["7"], 2, "which input; the model's inputs: a, b"),
        (["c=7"], 2, "no input 'c'; the model's inputs: a, b"),
        (["a=7", "a=8"], 2, "given twice for the input a"),
        (["a=7x7"], 1, "input a: expected float32[n], got the shape of float32[7, 7]"),
        (["a=7", "b=8"], 1, "node y: add: "),
    ],
)
def test_input_shapes_that_do_not_fit(
    run: Any, two_inputs: Path, shapes: list[str], code: int, message: str
) -> None:
    result = run("info", two_inputs, *(f"--input-shape={shape}" for shape in shapes))
    assert (result.code, result.out) == (code, "")
    assert message in result.err


def test_nothing_is_written_where_conversion_fails(run: Any, network: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.palm"
    path.write_text("what was there before")
    result = run("convert", network, "-o", path, "--input-shape", "1x4x16x16")
    assert (result.code, result.out) == (1, "")
    assert len(result.err.splitlines()) == 1 and "node stem" in result.err
    assert [each.name for each in tmp_path.iterdir()] == ["out.palm"]
    assert path.read_text() == "what was there before"


@pytest.mark.parametrize("command", ["info", "bench", "convert", "show", "check"])
def test_models_that_cannot_be_read(run: Any, tmp_path: Path, palm: Path, command: str) -> None:
    extra: dict[str, list[Any]] = {
        "convert": ["-o", tmp_path / "out.palm"],
        "show": ["-o", tmp_path / "out.svg"],
        "check": ["--source", palm],
    }
    for name, content in [("none.palm", None), ("empty.onnx", b""), ("text.tflite", b"hello all")]:
        if content is not None:
            (tmp_path / name).write_bytes(content)
        result = run(command, tmp_path / name, *extra.get(command, []))
        assert (result.code, result.out) == (1, "")
        assert len(result.err.splitlines()) == 1 and name in result.err
    assert not list(tmp_path.glob("*out*"))


def test_info(run: Any, network: Path) -> None:
    facts = json.loads(run("info", network, "--json").out)
    assert facts["inputs"] == {"image": "float32[1, 3, 16, 16]"}
    assert facts["outputs"] == {"scores": "float32[1, 4]"}
    assert facts["ops"] == {"conv": 1, "relu": 1, "global_average_pool": 1, "flatten": 1}
    assert facts["size_bytes"] == network.stat().st_size
    assert (facts["nodes"], facts["parameters"]) == (4, 4 * 27 + 4)
    # 7 x 7 places, 4 channels, kernels of 3 x 3 x 3.
    assert facts["macs"] == 7 * 7 * 4 * 27 and facts["uncounted_nodes"] == 0
    assert facts["weights_bytes"] == {"float32": 4 * (4 * 27 + 4)}
    assert facts["activation_bytes"] >= 7 * 7 * 4 * 4
    text = run("info", network).out
    for expected in ("float32[1, 3, 16, 16]", "5.292 k  (5,292)", "4 nodes", "448 bytes float32"):
        assert expected in text
    larger = json.loads(run("info", network, "--json", "--input-shape", "2x3x31x16").out)
    assert larger["macs"] == 2 * 15 * 7 * 4 * 27


def test_info_plan(run: Any, network: Path, tmp_path: Path) -> None:
    text = run("info", network, "--plan").out
    assert "MFLOP" in text and "lower bound" in text
    (line,) = (each for each in text.splitlines() if " conv " in each)
    facts = json.loads(run("info", network, "--plan", "--json").out)
    (plan,) = facts["plans"]
    assert plan["flop"] == 2 * 7 * 7 * 4 * 27
    assert plan["arena_ratio"] == plan["arena_bytes"] / plan["lower_bound_bytes"]
    stem = next(step for step in plan["steps"] if step["kernel"] == "conv")
    algorithm = stem["algorithm"]
    # Which of them is the faster one depends on the CPU.
    assert algorithm in ("rows", "gemm")
    assert (stem["node"], stem["chosen_by"]) == ("stem", "cost model")
    for expected in ("stem", f"{algorithm} (cost model)", "1x16x16x3 -> 1x7x7x4", "0.01", "784"):
        assert expected in line
    assert stem["outputs"][0]["shape"] == [1, 7, 7, 4]
    for ending in ("svg", "html"):
        path = tmp_path / f"plan.{ending}"
        assert str(path) in run("info", network, "--plan", "-o", path).out
        assert f"<title>stem: conv {algorithm}" in path.read_text()
    # An open batch is planned for one.
    assert run("info", network, "--plan", "--input-shape", "nx3x16x16").out == text


def test_info_plan_refuses(run: Any, network: Path, red_model: Path, tmp_path: Path) -> None:
    for arguments, expected in (
        ((network, "-o", tmp_path / "p.svg"), "expected with --plan"),
        ((network, "--plan", "-o", tmp_path / "p.png"), "expected a name that ends with .svg"),
        ((network, "--plan", "--threads", "0"), "threads: expected at least 1, got 0"),
        ((network, "--graph", "--json"), "expected one of them"),
        ((red_model, "--plan"), "a plan needs a size for every dim"),
    ):
        result = run("info", *arguments)
        assert result.code != 0 and expected in result.err
    assert not list(tmp_path.glob("p.*"))


def test_info_of_open_sizes(run: Any, red_model: Path) -> None:
    facts = json.loads(run("info", red_model, "--json").out)
    assert facts["inputs"] == {"image": "float32[1, height, width, 3]"}
    assert facts["macs"] is None and facts["activation_bytes"] is None
    assert facts["metadata"]["threshold"] == "0.9"
    assert "unknown: sizes are open, see --input-shape" in run("info", red_model).out
    assert "input image: float32" in run("info", red_model, "--graph").out


def test_info_of_an_open_batch(run: Any, network: Path) -> None:
    shape = ["--input-shape", "nx3x16x16"]
    facts = json.loads(run("info", network, *shape, "--json").out)
    assert facts["macs"] == 7 * 7 * 4 * 27 and facts["batch"] == 1
    assert facts["outputs"] == {"scores": "float32[n, 4]"}
    assert ", for a batch of 1" in run("info", network, *shape).out


def test_check_agrees(run: Any, network: Path, palm: Path) -> None:
    pytest.importorskip("onnxruntime")
    result = run("check", palm, "--source", network)
    assert (result.code, result.err) == (0, "")
    first, second, third = result.out.splitlines()
    assert first == "agrees with ONNX Runtime, 3 runs, tolerance 0.0001 of each output's range"
    assert second.startswith("  scores  ") and float(second.split()[1]) < 1e-5
    assert third.startswith("  added by the conversion ")
    facts = run("check", palm, "--source", network, "--runs", 1, "--json").lines[0]
    assert facts["agrees"] and facts["fault"] is None and facts["runs"] == 1
    assert list(facts["stages"]) == ["plain", "file", "optimised", "cpu"]


def test_check_finds_a_wrong_weight(run: Any, network: Path, palm: Path) -> None:
    pytest.importorskip("onnxruntime")
    graph = engine.convert(palm)
    wrong = graph.constants["w"].copy()
    wrong[0, 0] += 1
    broken: dict[str, Array] = {**graph.constants, "w": wrong}
    engine.save(graph.with_nodes(graph.nodes, broken), palm)
    result = run("check", palm, "--source", network)
    assert result.code == 1
    text = result.out
    assert "DIFFERS from ONNX Runtime" in text and "<- too much" in text
    assert "at fault: the file: it holds something else than its source" in text
    assert "first wrong node: conv stem, wrong though its inputs are right" in text
    line = next(line for line in text.splitlines() if "constant w: float32[4, 3, 3, 3]" in line)
    assert ", error " in line
    facts = run("check", palm, "--source", network, "--json").lines[0]
    assert not facts["agrees"]
    assert (facts["fault"]["stage"], facts["fault"]["op"]) == ("file", "conv")
    assert run("check", palm, "--source", network, "--tolerance", 10).code == 0


def test_check_against_a_palm_file_and_sizes(run: Any, two_inputs: Path, red_model: Path) -> None:
    """An open batch is 1 unless it is given; other sizes have to be."""
    result = run("check", two_inputs, "--source", two_inputs)
    assert result.code == 0 and result.out.startswith("agrees with reference, 3 runs")
    assert run("check", two_inputs, "--source", two_inputs, "--input-shape", "a=5").code == 0
    result = run("check", red_model, "--source", red_model)
    assert result.code == 1 and len(result.err.splitlines()) == 1
    assert "choose them: --input-shape image=1xHEIGHTxWIDTHx3" in result.err
    result = run("check", red_model, "--source", red_model, "--input-shape", "1x64x32x3")
    assert result.code == 0


def test_check_refuses_a_model_of_another_source(run: Any, palm: Path, two_inputs: Path) -> None:
    result = run("check", palm, "--source", two_inputs)
    assert (result.code, result.out) == (1, "")
    assert "not converted from this source: inputs are image, the source's: a, b" in result.err


def test_check_with_given_inputs(run: Any, network: Path, palm: Path, tmp_path: Path) -> None:
    kits.write_image(tmp_path / "red.png", picture(40, 64, (0, 0, 0, 40)))
    result = run("check", palm, "--source", network, "--input", f"image={tmp_path / 'red.png'}")
    assert result.code == 0 and ", 1 run, " in result.out
    np.save(tmp_path / "image.npy", np.ones((1, 3, 16, 16), np.float32))
    result = run("check", palm, "--source", network, "--input", f"image={tmp_path / 'image.npy'}")
    assert result.code == 0 and ", 1 run, " in result.out
    for name, value, message in (
        ("image", np.ones((1, 3, 16, 16)), "expected float32[1, 3, 16, 16], got float64"),
        ("image", np.ones((1, 3, 16, 8), np.float32), "got float32[1, 3, 16, 8]"),
    ):
        np.save(tmp_path / "image.npy", value)
        result = run("check", palm, "--source", network, f"--input={name}={tmp_path}/image.npy")
        assert (result.code, result.out) == (1, "") and message in result.err
    (tmp_path / "text.npy").write_text("no array")
    result = run("check", palm, "--source", network, f"--input=image={tmp_path}/text.npy")
    assert result.code == 1 and "not an .npy array" in result.err
    result = run("check", palm, "--source", network, f"--input=picture={tmp_path}/red.png")
    assert result.code == 2 and "no such input (image): picture" in result.err
    result = run("check", palm, "--source", network, f"--input=image={tmp_path}/none.npy")
    assert result.code == 1 and len(result.err.splitlines()) == 1 and "none.npy" in result.err


def test_check_with_numbers_and_sizes_of_files(
    run: Any, two_inputs: Path, palm: Path, network: Path, tmp_path: Path
) -> None:
    np.save(tmp_path / "a.npy", np.arange(7, dtype=np.float32))
    given = [f"--input=a={tmp_path}/a.npy", "--input", "b=2.5"]
    result = run("check", two_inputs, "--source", two_inputs, *given)
    assert result.code == 0 and ", 1 run, " in result.out
    result = run("check", two_inputs, "--source", two_inputs, given[0])
    assert result.code == 0 and ", 3 runs, " in result.out
    result = run("check", palm, "--source", network, "--input-shape", "2x3x20x24")
    assert result.code == 0, result.out


@pytest.mark.skipif(not TEACHERS.is_dir(), reason="needs ../shared/teachers")
def test_check_with_litert(run: Any, tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    pytest.importorskip("tflite")
    source, path = TEACHERS / "face_detection_short_range.tflite", tmp_path / "face.palm"
    assert run("convert", source, "-o", path).code == 0
    photo = ROOT / "kits" / "face" / "example.png"
    options = ["--input", f"input={photo}", "--range", -1, 1, "--json"]
    facts = run("check", path, "--source", source, *options).lines[0]
    assert facts["agrees"] and facts["source"] == "LiteRT" and facts["runs"] == 1
    graph = engine.convert(path)
    name = next(node.inputs[1] for node in graph.nodes if node.op == "conv")
    wrong = {**graph.constants, name: graph.constants[name] * np.float32(1.01)}
    engine.save(graph.with_nodes(graph.nodes, wrong), path)
    facts = run("check", path, "--source", source, *options).lines[0]
    assert not facts["agrees"] and facts["fault"]["stage"] == "file"
    differing = [each["name"] for each in facts["fault"]["operands"] if each["error"]]
    assert differing == [name]


@pytest.mark.parametrize("suffix", [".svg", ".html", ".dot"])
def test_show(run: Any, network: Path, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"net{suffix}"
    result = run("show", network, "-o", path)
    assert (result.code, result.out, result.err) == (0, f"{path}: 4 nodes\n", "")
    text = path.read_text(encoding="utf-8")
    for expected in ("stem", "bend", "global_average_pool", "float32[1, 4, 7, 7]", "4×3×3×3"):
        assert expected in text
    if suffix == ".svg":
        ElementTree.fromstring(text)


def test_show_optimised(run: Any, network: Path, tmp_path: Path) -> None:
    path = tmp_path / "net.svg"
    result = run("show", network, "-o", path, "--optimised", "--input-shape", "1x3x32x32")
    assert result.code == 0
    assert result.out == f"{path}: 3 nodes after optimisation, 3 of them native\n"
    text = path.read_text(encoding="utf-8")
    assert "fused_conv" in text and "float32[1, 4, 15, 15]" in text
    assert run("show", network, "-o", tmp_path / "new" / "net.svg").code == 0
    (tmp_path / "file").write_text("no folder")
    result = run("show", network, "-o", tmp_path / "file" / "net.svg")
    assert result.code == 1 and len(result.err.splitlines()) == 1


def test_ops(run: Any) -> None:
    facts = json.loads(run("ops", "global_average", "--format", "json").out)
    (operator,) = facts["operators"]
    assert operator["op"] == "global_average_pool" and operator["cpu"] == "native"
    assert operator["onnx"] == ["GlobalAveragePool"]
    result = run("ops", "nothing_like_it")
    assert (result.code, result.out) == (1, "")
    assert result.err == "palmkit: no operator has this in its name: nothing_like_it\n"


def test_bench(run: Any, red_model: Path) -> None:
    options = ["--runs", 3, "--input-shape", "1x64x96x3"]
    times = run("bench", red_model, *options, "--json").lines[0]
    assert times["inputs"] == {"image": "float32[1, 64, 96, 3]"}
    assert 0 < times["min_ms"] <= times["median_ms"] <= times["p95_ms"] and times["ops_ms"]
    assert times["flops_per_s"] > 0 and times["macs"] > 0
    assert "ms at best" in run("bench", red_model, "--runs", 2).out
    result = run("bench", red_model, "--threads", 0)
    assert result.code == 2 and "threads: expected at least 1, got 0" in result.err
    assert run("bench", red_model, "--backend", "abacus").code == 1
    assert times["devices"] == ["cpu"]
    assert ", on reference\n" in run("bench", red_model, "--runs", 1, "--backend", "reference").out


def test_bench_by_node(run: Any, network: Path, red_model: Path) -> None:
    times = run("bench", network, "--runs", 2, "--ops", "--json").lines[0]
    by_name = {node["node"]: node for node in times["nodes"]}
    assert by_name["stem"]["op"] == "fused_conv"
    assert by_name["stem"]["kernels"].split("+")[-1] == "conv"
    assert by_name["stem"]["macs"] == 4 * 7 * 7 * 27 == times["macs"]
    assert sum(node["share"] for node in times["nodes"]) == pytest.approx(1)
    result = run("bench", network, red_model, "--runs", 2, "--ops", "--threads", "1,2")
    assert result.code == 0 and result.out.count("ms at best") == 4
    lines = result.out.splitlines()
    assert lines[3].split() == ["node", "op", "kernel", "ms", "share", "GFLOP/s"]
    assert lines[4].split()[:2] == ["stem", "fused_conv"]


def test_bench_beside_others(run: Any, network: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    report = tmp_path / "new" / "report.html"
    quick = ["--seconds", 0.02, "--turns", 2, "--loads", 1]
    against = ["--against", "ort,litert", "--threads", "1,2"]
    result = run("bench", network, *against, *quick, "-o", report)
    assert (result.code, result.err) == (0, "")
    for expected in (
        *("PalmKit", "ONNX Runtime", "LiteRT is left out: reads .tflite only", "2 threads over 1"),
        *("geometric mean of the ratios, threads 2", "load ms / memory MB", str(report)),
    ):
        assert expected in result.out
    assert "net.onnx" in report.read_text(encoding="utf-8")
    one, summary = run("bench", network, "--against", "ort", *quick, "--json").lines
    assert set(one["engines"]) == {"palmkit", "ort"} and one["best_peer"] == "ort"
    assert summary["means"]["1"]["ratio"] == pytest.approx(one["ratio"])
    everything = run("bench", network, "--against", "all", *quick, "--json").lines[0]
    assert "pytorch" not in {*everything["engines"], *everything["refusals"]}
    alone = run("bench", network, *quick, "-o", report, "--json")
    assert alone.code == 0 and alone.lines[0]["ratio"] is None


def test_bench_shows_progress_on_a_terminal(red_model: Path) -> None:
    out, shown = on_a_terminal("bench", red_model, "--runs", 3)
    assert "ms at best" in out and "3/3" in shown


def test_a_missing_extra_is_named(
    run: Any, network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    result = run("convert", network, "-o", tmp_path / "out.palm")
    assert (result.code, result.out) == (1, "")
    assert 'pip install "palmkit[onnx]"' in result.err and not list(tmp_path.iterdir())


def test_progress_is_for_terminals(run: Any, network: Path, palm: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    assert run("check", palm, "--source", network).err == ""
    out, shown = on_a_terminal("check", palm, "--source", network)
    assert out.startswith("agrees with ONNX Runtime") and "step" in shown
    out, shown = on_a_terminal("convert", network, "-o", tmp_path / "out.palm")
    assert out.endswith(" bytes\n") and "read:" in shown and "write:" in shown
    assert on_a_terminal("convert", network, "-o", tmp_path / "out.palm", "--quiet") == ("", "")
