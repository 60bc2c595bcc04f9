"""palmkit compress."""

import errno
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit import engine, kits
from palmkit.engine.compress.placement import is_layer
from palmkit.engine.compress.speed import Costs, Part
from palmkit.engine.ir import Array, Graph, Node, Type
from palmkit.kits.compression import JOBS, KitAgreement
from palmkit.kits.kit import shipped_model

pytest.importorskip("palmkit.engine._native", reason="the native runtime is not built")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """image float32[1, 3, 12, 12] to scores[1, 2]: is it more red than blue."""
    rng = np.random.default_rng(0)
    constants: dict[str, Array] = {
        "w": rng.normal(size=(16, 3, 3, 3)).astype(np.float32),
        "v": rng.normal(size=(2, 16)).astype(np.float32) / 16,
    }
    nodes = (
        Node("conv", ("image", "w"), ("a",), {}, "first"),
        Node("relu", ("a",), ("b",)),
        Node("global_average_pool", ("b",), ("c",)),
        Node("flatten", ("c",), ("d",)),
        Node("gemm", ("d", "v"), ("scores",), {"transB": 1}, "last"),
    )
    graph = Graph(
        {"image": Type("float32", (1, 3, 12, 12))},
        {"scores": Type("float32", (1, 2))},
        nodes,
        constants,
        {"licence": "MIT"},
    )
    path = tmp_path_factory.mktemp("model") / "net.palm"
    engine.save(graph, path)
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    folder = tmp_path / "photos"
    for name in ("a", "b"):
        (folder / name).mkdir(parents=True)
        for number in range(3):
            pixels = rng.integers(0, 256, (20, 30, 3), np.uint8)
            kits.write_image(folder / name / f"{number}.png", pixels)
    return folder


def outputs(path: Path, **options: Any) -> Array:
    x = np.random.default_rng(5).random((1, 3, 12, 12)).astype(np.float32)
    return engine.load(path, **options).run({"image": x})["scores"]


@pytest.mark.parametrize("quick", [["--fp16"], ["--bits", "4"]])
def test_quick_cases_need_no_data(run: Any, model: Path, tmp_path: Path, quick: list[str]) -> None:
    out = tmp_path / "small.palm"
    done = run("compress", model, "-o", out, *quick)
    assert done.code == 0 and "times smaller" in done.out
    assert out.stat().st_size < model.stat().st_size
    assert np.abs(outputs(out) - outputs(model)).max() < 0.2 * np.abs(outputs(model)).max()
    assert engine.load(out).metadata == {"licence": "MIT"}


def test_whole_run_keeps_to_the_loss(run: Any, model: Path, data: Path, tmp_path: Path) -> None:
    out, page = tmp_path / "small.palm", tmp_path / "report.html"
    found = run(
        *("compress", model, "-o", out, "--data", data / "a", "--max-loss", "5%", "--json"),
        *("--report", page),
    )
    assert found.code == 0
    said = json.loads(found.out)
    assert 0 <= said["loss"] <= 0.05
    assert said["size_bytes"] == out.stat().st_size < model.stat().st_size
    assert [stage["name"] for stage in said["stages"]][0] == "float model"
    assert "entropy coding" in page.read_text()
    assert f"{model.stat().st_size:,} bytes" in page.read_text()
    assert "first" in page.read_text() or "scores" in page.read_text()


@pytest.mark.parametrize(
    ("report", "told"),
    [
        ("net/report.html", "not a directory: net/report.html"),
        ("folder", "is a directory: folder"),
        ("small.palm", "--report: would overwrite a model: small.palm"),
    ],
)
def test_a_report_that_cannot_be_written_is_told_before_the_work(
    run: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: str, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net").write_bytes(b"a file")
    Path("folder").mkdir()
    done = run("compress", model, "-o", "small.palm", "--fp16", "--report", report)
    assert done.code in (1, 2) and told in done.err
    assert not Path("small.palm").exists()


def test_a_report_that_fails_after_all_is_told_with_what_is_written(
    run: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path, *_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr("palmkit.engine.compress.report.write", fail)
    monkeypatch.chdir(tmp_path)
    done = run("compress", model, "-o", "small.palm", "--fp16", "--report", "r.html")
    assert done.code == 1 and "small.palm: " in done.out and Path("small.palm").exists()
    assert done.err == (
        "palmkit: small.palm is written, its report is not: no space left on device: r.html\n"
    )


def test_folders_that_are_classes_give_an_accuracy(
    run: Any, model: Path, data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "small.palm"
    done = run("compress", model, "-o", out, "--data", data, "--max-loss", "0.5", "--json")
    metric = json.loads(done.out)["stages"][0]["metric"]
    assert metric in [pytest.approx(right / 3) for right in range(1, 4)]


def test_int8_runs_on_bytes(run: Any, model: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "int8.palm"
    done = run("compress", model, "-o", out, "--data", data / "a", "--int8")
    assert done.code == 0, done.err
    assert any(
        "quantized" in node.op or "quantize" in node.op for node in engine.convert(out).nodes
    )


@pytest.mark.parametrize("limit", ["50%", "0.0001%"])
def test_speed_says_which_layers_stay_float(
    run: Any, model: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    def costs(quantizer: Any) -> Costs:
        """Return costs by which only the last layer is slower in integers, without conversions."""
        first, *others, last = (n.outputs for n in quantizer.graph.nodes if is_layer(n.op))
        parts = [Part(each, 2e-3, 1e-3) for each in (first, *others)]
        parts += [Part(last, 2e-3, 3e-3)]
        return Costs(parts, lambda count: 0.0, {})

    monkeypatch.setattr("palmkit.engine.compress.steps.measured", costs)

    def faster(*given: Any) -> bool:
        return True

    monkeypatch.setattr("palmkit.engine.compress.steps.is_faster", faster)
    monkeypatch.setattr("palmkit.engine.compress.compress.CLEARLY", 0.0)
    out, page = tmp_path / "fast.palm", tmp_path / "report.html"
    options = ["--data", data / "a", "--target", "speed", "--max-loss", limit, "--report", page]
    done = run("compress", model, "-o", out, *options)
    assert done.code == 0, done.err
    assert "ms a run before" in done.out and f"{float(limit[:-1]):.2f}% allowed" in done.out
    ops = [node.op for node in engine.convert(out).nodes]
    if limit == "50%":
        assert "1 of 2 layers in int8" in done.out and "1 of 2 layers in int8" in page.read_text()
        assert "2.000     3.000  no faster in int8" in done.out
        assert "quantize_linear" in ops or "quantized_conv" in ops
    else:
        assert "layers in int8" not in done.out and "error limit: expected at most" in done.out
        assert not any("quantize" in op for op in ops)


def test_names_and_key(run: Any, model: Path, tmp_path: Path) -> None:
    key, out = tmp_path / "key", tmp_path / "shut.palm"
    key.write_bytes(bytes(range(32)))
    done = run("compress", model, "-o", out, "--fp16", "--strip-names", "--key-file", key)
    assert done.code == 0
    graph = engine.convert(out, key=key.read_bytes())
    assert "w" not in graph.constants and list(graph.inputs) == ["image"]
    assert outputs(out, key=key.read_bytes()).shape == (1, 2)
    assert run("info", out).code == 1
    key.write_bytes(b"short")
    assert run("compress", model, "-o", out, "--fp16", "--key-file", key).code == 2


def test_resume_takes_what_is_done(run: Any, model: Path, data: Path, tmp_path: Path) -> None:
    options = ["--data", data / "a", "--max-loss", "5%", "--resume", tmp_path / "work", "-q"]
    outs = [tmp_path / "first.palm", tmp_path / "second.palm"]
    for out in outs:
        assert run("compress", model, "-o", out, *options).code == 0
    assert outs[0].read_bytes() == outs[1].read_bytes()
    assert (tmp_path / "work" / "stages.json").is_file()


def test_a_budget_that_cannot_be_kept_writes_nothing(
    run: Any, model: Path, data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "small.palm"
    found = run("compress", model, "-o", out, "--data", data / "a", "--max-size", "0.1KB")
    assert found.code == 1 and "the best reached is" in found.err and not out.exists()
    found = run("compress", model, "-o", out, "--fp16", "--max-size", "100B")
    assert found.code == 1 and "the best reached is" in found.err and not out.exists()
    found = run("compress", model, "-o", out, "--data", data, "--bits", "1", "--max-loss", "0%")
    assert found.code in (0, 1)
    assert out.exists() == (found.code == 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "needs --data"),
        (["--int8"], "--int8 needs --data"),
        (["--fp16", "--int8"], "not allowed with"),
        (["--bits", "9"], "--bits: expected 1 to 8"),
        (["--fp16", "--max-loss", "1%"], "with --data"),
        (["--fp16", "--target", "speed"], "--target"),
        (["--max-loss", "lots"], "expected a share"),
        (["--max-size", "big"], "expected a size"),
        (["--kit", "fridge"], "--kit: expected one of face, "),
        (["--pictures", "0", "--fp16"], "--pictures"),
    ],
)
def test_arguments_that_do_not_go_together(
    run: Any, model: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    found = run("compress", model, "-o", tmp_path / "out.palm", *arguments)
    assert found.code == 2 and message in found.err
    assert not (tmp_path / "out.palm").exists()


def test_bad_output_names(run: Any, model: Path) -> None:
    assert run("compress", model, "-o", "small.onnx", "--fp16").code == 2
    assert run("compress", model, "-o", model, "--fp16").code == 2


@pytest.mark.parametrize("kind", ["missing", "empty", "text", "one colour"])
def test_data_that_is_of_no_use(run: Any, model: Path, tmp_path: Path, kind: str) -> None:
    folder, out = tmp_path / "data", tmp_path / "out.palm"
    if kind != "missing":
        folder.mkdir()
    if kind == "text":
        (folder / "a.jpg").write_text("no picture")
    if kind == "one colour":
        kits.write_image(folder / "a.png", np.zeros((20, 20, 3), np.uint8))
    found = run("compress", model, "-o", out, "--data", folder)
    assert found.code == 1 and found.err.count("\n") == 1
    assert not out.exists()


@pytest.mark.parametrize("quick", [["--fp16"], ["--bits", "4"], ["--int8"], []])
def test_weights_that_are_not_finite_are_named(
    run: Any, model: Path, data: Path, tmp_path: Path, quick: list[str]
) -> None:
    graph = engine.convert(model)
    name = max(graph.constants, key=lambda each: graph.constants[each].size)
    broken = graph.constants[name].copy()
    broken.flat[3] = np.nan
    path, out = tmp_path / "nan.palm", tmp_path / "out.palm"
    engine.save(replace(graph, constants={**graph.constants, name: broken}), path)
    found = run("compress", path, "-o", out, "--data", data / "a", *quick)
    assert found.code == 1 and found.err.count("\n") == 1 and not out.exists()
    assert f"weights {name}: expected finite numbers, got 1 others" in found.err


def test_a_model_of_another_kit_is_refused(run: Any, model: Path, data: Path) -> None:
    found = run("compress", model, "-o", "out.palm", "--kit", "mesh", "--data", data / "a")
    assert found.code == 1 and found.err.count("\n") == 1
    assert "--kit mesh: the model is not the face mesh" in found.err


def test_help_teaches(run: Any) -> None:
    found = run("compress", "--help")
    for word in ("network transform", "--max-loss", "entropy coding", "examples:"):
        assert word in found.out


def test_kit_measures_its_own_results() -> None:
    data = pytest.importorskip("skimage.data", reason="no picture of a face")
    graph = engine.convert(shipped_model("face_detector"))
    astronaut = np.asarray(data.astronaut())
    metric = KitAgreement(JOBS["face"], graph, [astronaut])
    assert metric(graph) == 1
    assert metric.samples and set(metric.samples[0]) == set(graph.inputs)
    name = max(graph.constants, key=lambda each: graph.constants[each].size)
    broken = {**graph.constants, name: np.zeros_like(graph.constants[name])}
    assert metric(replace(graph, constants=broken)) < 1
    of_two_sizes = KitAgreement(JOBS["face"], graph, [astronaut, astronaut[:, :300]]).samples
    assert len({each["image"].shape for each in of_two_sizes}) == 1
    assert sorted(each["image"][:, :, -1].any() for each in of_two_sizes) == [False, True]
    with pytest.raises(engine.PalmError, match="finds nothing"):
        KitAgreement(JOBS["face"], graph, [np.zeros((64, 64, 3), np.uint8)])


def a_hand(**changes: Any) -> kits.Hands:
    """One hand; changes: what is different of it."""
    random = np.random.default_rng(0)
    parts: dict[str, Any] = {
        "boxes": np.array([[10, 20, 100, 50]], np.float32),
        "scores": np.array([0.9], np.float32),
        "landmarks": random.uniform(0, 100, (1, 21, 3)).astype(np.float32),
        "handedness": ("left",),
        "gestures": ("fist",),
        "gesture_scores": np.array([0.8], np.float32),
    }
    return kits.Hands(200, 100, **{**parts, **changes})


def test_all_that_a_hand_is_counts() -> None:
    """What nobody measured would be compressed away."""
    agree, was = JOBS["gesture"].agree, a_hand()
    assert agree(was, was) == 1 and agree(was, None) == 0
    deeper = was.landmarks + np.array([0, 0, 7.1], np.float32)
    assert agree(was, a_hand(landmarks=deeper)) == pytest.approx(0.9, abs=1e-3)
    assert agree(was, a_hand(handedness=("right",))) == 0
    assert agree(was, a_hand(gestures=("ok",))) == 0
    assert agree(was, a_hand(scores=np.array([0.7], np.float32))) == pytest.approx(0.8)
    assert agree(was, a_hand(gesture_scores=np.array([0.7], np.float32))) == pytest.approx(0.9)
    assert agree(was, a_hand(boxes=was.boxes + np.float32(90))) == 0
