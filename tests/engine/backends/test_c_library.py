"""Models as C libraries: built by the platform's compiler, and run beside the runtime."""

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit import engine
from palmkit.engine import _native
from palmkit.engine.backends.cpu.c_library import TARGETS, Exported, export_c, files_of
from palmkit.engine.backends.cpu.ready import ready_plan
from palmkit.engine.format.plans import ReadyPlan
from palmkit.engine.ir import Array, Graph, Node, Type
from tests.engine.native.program import examples

ROOT = Path(__file__).parents[3]
PERSON_DETECT = ROOT.parent / "shared" / "foreign" / "person_detect.tflite"
HERE = [isa for isa, target in TARGETS.items() if target.simd in _native.isas()]
# Options of CMake with which headers are read once, where other tests build the sources without.
PRECOMPILED = (
    f"-DCMAKE_PROJECT_INCLUDE={Path(__file__).with_name('precompiled.cmake')}",
    "-DCMAKE_PCH_WARN_INVALID=OFF",
)
PADDED = {"pads": (1, 1, 1, 1)}
RANDOM = np.random.default_rng(0)


def weights(*dims: int) -> Array:
    return RANDOM.normal(0, 0.3, dims).astype(np.float32)


def small_net(times: int = 1) -> Graph:
    """Every way of convolving that is usual, views of channels, and some functions."""
    return Graph(
        inputs={"an image": Type("float32", (1, 3, 20 * times - 1, 22 * times))},
        outputs={
            "y": Type("float32", (1, 24, 10 * times, 11 * times)),
            "class": Type("float32", (1, 5)),
        },
        nodes=(
            Node(
                "conv", ("an image", "w0", "b0"), ("a",), {"pads": (1, 1, 1, 1), "strides": (2, 2)}
            ),
            Node("relu", ("a",), ("b",)),
            Node("conv", ("b", "w1"), ("c",), {**PADDED, "group": 12}),
            Node("conv", ("c", "w2"), ("d",)),
            Node("prelu", ("d", "slope"), ("e",)),
            Node("concat", ("b", "e"), ("y",), {"axis": 1}),
            Node("global_average_pool", ("y",), ("f",)),
            Node("flatten", ("f",), ("g",)),
            Node("gemm", ("g", "w3"), ("h",)),
            Node("softmax", ("h",), ("class",)),
        ),
        constants={
            "w0": weights(12, 3, 3, 3),
            "b0": weights(12),
            "w1": weights(12, 1, 3, 3),
            "w2": weights(12, 12, 1, 1),
            "slope": weights(12, 1, 1),
            "w3": weights(24, 5),
        },
    )


def tiny_net() -> Graph:
    return Graph(
        inputs={"int": Type("float32", (2, 7))},
        outputs={"y": Type("float32", (2, 7))},
        nodes=(Node("sigmoid", ("int",), ("y",)),),
    )


def inputs_of(graph: Graph) -> list[Array]:
    return [
        RANDOM.normal(size=type.dims).astype(type.dtype)
        if type.dtype == "float32"
        else RANDOM.integers(0, 100, type.dims).astype(type.dtype)
        for type in graph.inputs.values()
    ]


def by_runtime(graph: Graph, inputs: Sequence[Array], isa: str) -> list[Array]:
    ready = ready_plan(graph, {name: type.dims for name, type in graph.inputs.items()}, threads=1)
    assert isinstance(ready, ReadyPlan)
    outputs = [np.empty(type.dims, type.dtype) for type in ready.outputs]
    _native.Program(*ready.plan.native(), isa=isa).session(1).run(inputs, outputs)
    return outputs


def main_of(name: str, inputs: Sequence[Array], outputs: Sequence[Array], threads: str) -> str:
    """A program that reads inputs and writes outputs, of two runs in two lives of the library."""
    fields = [
        f"static double {letter}{i}[{array.nbytes // 8 + 1}];"
        for letter, arrays in (("i", inputs), ("o", outputs))
        for i, array in enumerate(arrays)
    ]
    read = [
        f"if (fread(i{i}, {each.nbytes}, 1, stdin) != 1) return 2;" for i, each in enumerate(inputs)
    ]
    write = [f"fwrite(o{i}, {a.nbytes}, 1, stdout);" for i, a in enumerate(outputs)]
    given = ", ".join(f"(void *)i{i}" for i in range(len(inputs)))
    found = ", ".join(f"(void *)o{i}" for i in range(len(outputs)))
    return f"""#include <stdio.h>
#include "{name}.h"
{chr(10).join(fields)}
int main(void) {{
  const {name}_inputs inputs = {{{given}}};
  const {name}_outputs outputs = {{{found}}};
  int life;
  {chr(10).join(read)}
  if ({name}_is_started()) return 4;
  for (life = 0; life < 2; ++life) {{
    if ({name}_start({threads}) || {name}_start({threads}) || !{name}_is_started()) return 3;
    {name}_run(&inputs, &outputs);
    {name}_run(&inputs, &outputs);
    {chr(10).join(write)}
    {name}_stop();
  }}
  {name}_stop();
  return 0;
}}
"""


def built(folder: Path, name: str = "lib*.a", *options: str) -> Path:
    """The library of an exported folder, every warning an error."""
    if not (shutil.which("cc") and shutil.which("c++")):
        pytest.skip("there is no C compiler")
    cmake = shutil.which("cmake", path=str(ROOT / ".venv" / "bin")) or shutil.which("cmake")
    if cmake is None:
        pytest.skip("there is no CMake")
    build = folder.parent / f"{folder.name}-build"
    flags = "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror"
    for command in (
        [cmake, "-S", str(folder), "-B", str(build), flags, *options],
        [cmake, "--build", str(build), "--parallel", "2"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert not done.returncode, done.stdout[-4000:] + done.stderr[-4000:]
    (found,) = build.glob(name)
    return found


def ran(
    library: Path,
    folder: Path,
    name: str,
    inputs: list[Array],
    like: list[Array],
    threads: str = "",
) -> None:
    """Fail unless the library's outputs are `like`, bit for bit."""
    source, program = library.parent / f"{name}.c", library.parent / name
    source.write_text(main_of(name, inputs, like, threads))
    command = ["cc", "-std=c11", "-pedantic", "-Wall", "-Werror", f"-I{folder}", "-c", str(source)]
    subprocess.run([*command, "-o", f"{program}.o"], check=True)
    subprocess.run(
        ["c++", f"{program}.o", str(library), "-pthread", "-o", str(program)], check=True
    )
    given = b"".join(each.tobytes() for each in inputs)
    done = subprocess.run([program], input=given, capture_output=True, check=True, timeout=60)
    assert done.stdout == b"".join(each.tobytes() for each in like) * 2


def test_two_models_run_in_c_as_in_the_runtime(tmp_path: Path) -> None:
    isas = HERE[-2:] if "avx2" in HERE else HERE[:1]
    isas = [isa for isa in isas if isa != "scalar"] or ["scalar"]
    models = {"small": small_net(), "tiny": tiny_net()}
    folder = export_c(
        [Exported(name, graph) for name, graph in models.items()], tmp_path / "c", isas
    )
    library = built(folder)
    for name, graph in models.items():
        inputs = inputs_of(graph)
        ran(library, folder, name, inputs, by_runtime(graph, inputs, TARGETS[isas[0]].simd))


def test_threads_share_runs_if_asked_for(tmp_path: Path) -> None:
    graph = small_net(times=6)  # whose loops are worth sharing
    folder = export_c([Exported("small", graph)], tmp_path / "c", HERE[-1:], threads=True)
    library, inputs = built(folder), inputs_of(graph)
    expected = by_runtime(graph, inputs, TARGETS[HERE[-1]].simd)
    for threads in ("1", "2", "5"):
        ran(library, folder, "small", inputs, expected, threads)
    for threads in ("0", "257"):
        with pytest.raises(subprocess.CalledProcessError) as failed:
            ran(library, folder, "small", inputs, expected, threads)
        assert failed.value.returncode == 3


def test_the_document_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    python, _, c = examples()
    exec(compile(python, "c.md", "exec"), {"__name__": "__main__"})
    sized = Exported("net", engine.convert("net.palm"), {"image": (1, 3, 64, 48)})
    folder = export_c([sized], tmp_path / "net_library", HERE[-1:])
    library = built(folder)
    (tmp_path / "main.c").write_text(c)
    flags = ["-std=c11", "-Wall", "-Werror", f"-I{folder}"]
    subprocess.run(["cc", *flags, "-c", "main.c", "-o", "main.o"], check=True)
    subprocess.run(["c++", "main.o", str(library), "-o", "main"], check=True)
    subprocess.run(["./main"], check=True)


@pytest.mark.skipif(not PERSON_DETECT.exists(), reason="needs the models of ../shared/foreign")
def test_a_model_of_bytes_runs_in_c_as_in_the_runtime(tmp_path: Path) -> None:
    graph = engine.convert(PERSON_DETECT)
    folder = export_c([Exported("person", graph)], tmp_path / "c", HERE[-1:])
    inputs = inputs_of(graph)
    library = built(folder, "lib*.a", *PRECOMPILED)
    ran(library, folder, "person", inputs, by_runtime(graph, inputs, TARGETS[HERE[-1]].simd))


@pytest.mark.parametrize("isa", [isa for isa, each in TARGETS.items() if each.processor == "arm64"])
def test_another_processor_gets_its_own_kernels_alone(isa: str) -> None:
    files = files_of([Exported("small", small_net())], [isa])
    assert "palm/kernels/gemm/simd.cc" in files and "palm/base/simd/neon.h" in files
    assert not [path for path in files if re.search(r"avx|/(bf16|test|bench)\.cc", path)]
    assert "PALM_ISA(neon" in files["palm/base/isas.inc"]
    assert not re.search("avx|scalar", files["palm/base/isas.inc"].partition("#if")[2])


def test_every_file_that_is_included_is_there() -> None:
    for isa in TARGETS:
        if TARGETS[isa].processor == "x86-64" and isa not in HERE:
            continue
        files = files_of([Exported("small", small_net())], [isa])
        for path, text in files.items():
            for included in re.findall(r'#include "([\w/]+\.\w+)"', text):
                known = {f"palm/{included}", included, f"{path.rpartition('/')[0]}/{included}"}
                # What a #if of another processor includes is not.
                assert known & {*files} or "base/simd" in path or included == "steps.inc", (
                    isa,
                    path,
                    included,
                )


def test_only_what_is_needed_is_taken() -> None:
    files = files_of([Exported("tiny", tiny_net())], HERE[-1:])
    kernels = {path.split("/")[2] for path in files if path.count("/") > 2 and "kernels" in path}
    assert kernels == {"unary"}


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"isas": []}, ValueError, "isas: expected some of neon_dotprod, .*, got none"),
    ({"isas": ["sse9"]}, ValueError, "got sse9"),
    ({"isas": ["neon", "avx2"]}, ValueError, "of one processor, got neon, avx2"),
    ({"names": ["Small"]}, ValueError, "name: expected small letters.*'Small'"),
    ({"names": ["a", "a"]}, ValueError, "of different names"),
    ({"names": []}, ValueError, "one or more"),
    ({"name": "x" * 70}, ValueError, "name: expected"),
]


@pytest.mark.parametrize(("change", "error", "message"), BAD)
def test_bad_arguments_write_nothing(
    tmp_path: Path, change: dict[str, Any], error: type[Exception], message: str
) -> None:
    models = [Exported(name, tiny_net()) for name in change.get("names", ["tiny"])]
    with pytest.raises(error, match=message):
        export_c(models, tmp_path / "c", change.get("isas", HERE[-1:]), change.get("name"))
    assert not [*tmp_path.iterdir()]


def test_open_sizes_and_a_folder_that_is_there_are_refused(tmp_path: Path) -> None:
    open_sizes = Graph(
        inputs={"x": Type("float32", ("n", 7))},
        outputs={"y": Type("float32", ("n", 7))},
        nodes=(Node("sigmoid", ("x",), ("y",)),),
    )
    with pytest.raises(engine.PalmError, match="not known"):
        export_c([Exported("tiny", open_sizes)], tmp_path / "c", HERE[-1:])
    sized = Exported("tiny", open_sizes, {"x": (3, 7)})
    export_c([sized], tmp_path / "c", HERE[-1:])
    with pytest.raises(FileExistsError, match="not there yet"):
        export_c([sized], tmp_path / "c", HERE[-1:])


def test_a_plan_too_large_for_its_tables_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{files_of.__module__}.tables._MOST", 8)
    with pytest.raises(engine.UnsupportedError, match="a plan with 8 tensors"):
        files_of([Exported("small", small_net())], HERE[-1:])
