"""The runtime as WebAssembly gives what Python gives, and ends in typed errors."""

import gzip
import random
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from palmkit import engine
from palmkit.engine.ir import Graph, Node, Type
from tests.engine.format.samples import coded, mutants, network, unpacked
from tests.engine.native import golden
from tests.engine.web.package import MODULES, PACKAGE, needs_package, node

pytestmark = needs_package

MESH = next(path for path in golden.SHIPPED if path.stem == "face_mesh")
RELAXED = ("--experimental-wasm-relaxed-simd",)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    # The runtime has the kernels of shipped models: integers have others.
    made = golden.write(tmp_path_factory.mktemp("golden"))
    return [folder for folder in made if not folder.name.startswith("integers")]


@pytest.mark.parametrize(
    ("build", "threads", "flags"),
    [
        ("wasm", 1, ()),
        ("wasm_threads", 3, ()),
        ("wasm_relaxed", 1, RELAXED),
        ("wasm_relaxed_threads", 2, RELAXED),
    ],
)
def test_outputs_are_those_of_python(
    build: str, threads: int, flags: tuple[str, ...], folders: list[Path]
) -> None:
    assert {path.stem for path in golden.SHIPPED} <= {folder.name for folder in folders}
    node("golden.mjs", build, threads, *folders, flags=flags)
    for folder in folders:
        outputs = sorted(folder.glob("output.?"))
        assert outputs
        for path in outputs:
            expected = np.frombuffer(path.read_bytes(), np.float32)
            got = np.frombuffer(path.with_name(f"{path.name}.web").read_bytes(), np.float32)
            # As between instruction sets: tests/engine/test_isas.py.
            atol = 1e-5 * float(np.abs(expected).max(initial=0))
            error = f"{folder.name}: {path.name}"
            np.testing.assert_allclose(got, expected, rtol=0, atol=atol, err_msg=error)


def test_modules_are_small() -> None:
    of_runtime = [path for path in MODULES if path.name.startswith("palm_wasm")]
    assert len(of_runtime) == 4
    for path in of_runtime:
        content = path.read_bytes()
        assert len(content) <= 250_000, path.name
        assert len(gzip.compress(content, 9)) <= 100_000, path.name


def test_damaged_files_end_in_typed_errors(tmp_path: Path) -> None:
    rng = random.Random(0)
    graph = network("sigmoid")
    engine.save(graph, tmp_path / "network.palm")
    saved = (tmp_path / "network.palm").read_bytes()
    sources = (saved, unpacked(graph), unpacked(coded()))
    files: list[Path] = []
    for source in sources:
        for content in islice(mutants(source, rng), 150):
            files.append(tmp_path / f"{len(files)}.palm")
            files[-1].write_bytes(content)
    said = node("faults.mjs", "damaged", *files).splitlines()
    assert len(said) == len(files)
    kinds = {line.partition(":")[0] for line in said}
    assert kinds <= {"ok", "model", "shape", "unsupported", "backend"}
    assert {"ok", "model"} <= kinds
    assert not [line for line in said if "the runtime stopped" in line]


def test_functions_that_no_shipped_model_has_are_refused_by_name(tmp_path: Path) -> None:
    engine.save(network("leaky_relu"), tmp_path / "network.palm")
    said = node("faults.mjs", "damaged", tmp_path / "network.palm")
    assert said == "unsupported: no function leaky_relu\n"


def test_arguments_that_no_call_may_have() -> None:
    image = "float32[1, 160, 160, 3]"
    numbers = 160 * 160 * 3
    got = node("faults.mjs", "arguments", MESH).splitlines()
    folder = PACKAGE.as_uri()
    assert [line for line in got if not line.startswith("download")] == [
        f"shape: input image: expected {image}, got Undefined",
        f"shape: input image: expected {image}, got {numbers - 1} numbers",
        f"shape: input image: expected {image}, got Uint8Array",
        "shape: expected inputs image, got other as well",
        "ok",
        "argument: the model is closed",
        "model: not a model file: it is empty",
        "model: not a model file: the identifier PALM is missing",
        "argument: expected a model's bytes or its address",
        "argument: expected an address, got relative",
        "argument: threads: expected 1 to 256, got 0",
        "unsupported: no build of the module for wasm",
    ]
    assert any(line.startswith(f"download: {folder}/engine/web/nothing.palm: ") for line in got)


def test_a_run_that_fails_in_a_thread_ends(tmp_path: Path) -> None:
    graph = Graph(
        inputs={"table": Type("float32", (4096, 64)), "at": Type("int64", (4096,))},
        outputs={"rows": Type("float32", (4096, 64))},
        nodes=(Node("gather", ("table", "at"), ("rows",)),),
        constants={},
    )
    path = tmp_path / "gather.palm"
    engine.save(graph, path)
    got = node("faults.mjs", "failing", path).splitlines()
    assert len(got) == 6
    table, at = np.zeros((4096, 64), np.float32), np.full(4096, 4096)
    with pytest.raises(engine.PalmError) as native:
        engine.load(path).run({"table": table, "at": at})
    for fine, failed, after in (got[:3], got[3:]):
        assert fine == "ok"
        kind, _, message = failed.partition(": ")
        assert kind in ("model", "shape") and message == str(native.value)
        assert after == f"{kind}: it failed before: {message}"


def test_modules_that_are_none() -> None:
    for said, kind in zip(
        node("faults.mjs", "module", MESH).splitlines(),
        ("text/html", "application/wasm"),
        strict=True,
    ):
        expected = f"expected a WebAssembly module, got {kind}: CompileError: "
        assert said.startswith(f"download: https://example.org/palm.wasm: {expected}")


def test_what_an_engine_may_lack() -> None:
    assert node("faults.mjs", "simd", MESH).startswith("simd: expected WebAssembly with SIMD: ")
    said = node("faults.mjs", "isolation", MESH)
    assert said.startswith("unsupported: threads: expected a page that is cross-origin isolated")
