"""palmkit export."""

from pathlib import Path
from typing import Any

import pytest

from palmkit import engine
from palmkit.engine.ir import Graph, Node, Type

SIGMOID = Node("sigmoid", ("x",), ("y",))


def saved(path: Path, *dims: int | str) -> Path:
    types = {"x": Type("float32", dims)}
    engine.save(Graph(types, {"y": Type("float32", dims)}, (SIGMOID,)), path)
    return path


def test_a_library_is_written_once(run: Any, tmp_path: Path) -> None:
    target = tmp_path / "library"
    command = ["export", saved(tmp_path / "Tiny net.palm", 2, 7), "--c", target, "--isa", "neon"]
    result = run(*command)
    assert (result.code, result.err) == (0, "")
    assert (target / "tiny_net.h").is_file() and "tiny_net.h" in result.out
    again = run(*command)
    assert again.code == 2 and "not there yet" in again.err


def test_several_models_go_into_one_library(run: Any, tmp_path: Path) -> None:
    models = [saved(tmp_path / f"{name}.palm", 3) for name in ("a", "b")]
    result = run(
        "export", *models, "--c", tmp_path / "both", "--isa", "neon", "--name", "both", "-q"
    )
    assert (result.code, result.out, result.err) == (0, "", "")
    assert {path.name for path in (tmp_path / "both").glob("*.h")} == {"a.h", "b.h"}
    assert "project(both CXX)" in (tmp_path / "both" / "CMakeLists.txt").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--isa", "mmx"), "avx512, avx2, wasm_relaxed, wasm, scalar, got mmx"),
        (("--isa", "neon", "--name", "Net"), "name: expected small letters"),
        (("--isa", "neon"), "the sizes of x are open: give them by --input-shape"),
    ],
)
def test_what_does_not_go_is_one_line(
    run: Any, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    open_sizes = "are open" in message
    model = saved(tmp_path / "net.palm", "n" if open_sizes else 3)
    result = run("export", model, "--c", tmp_path / "c", *arguments)
    assert result.code == 2 and message in result.err and result.err.count("\n") == 1
    assert not (tmp_path / "c").exists()


def test_sizes_can_be_given(run: Any, tmp_path: Path) -> None:
    model = saved(tmp_path / "net.palm", "n", 4)
    given = ("--input-shape", "3x4", "--isa", "neon")
    result = run("export", model, "--c", tmp_path / "c", *given)
    assert (result.code, result.err) == (0, "")
    assert "3 x 4" in (tmp_path / "c" / "net.h").read_text()


def test_a_runtime_is_written_once(run: Any, tmp_path: Path) -> None:
    models = [saved(tmp_path / f"{name}.palm", 3) for name in ("a", "b")]
    command = ["build-runtime", "--models", *models, "-o", tmp_path / "runtime", "--isa", "neon"]
    result = run(*command)
    assert (result.code, result.err) == (0, "") and "cmake -S" in result.out
    assert (tmp_path / "runtime" / "palm.h").is_file()
    again = run(*command)
    assert again.code == 2 and "not there yet" in again.err


def test_what_does_not_go_into_a_runtime_is_one_line(run: Any, tmp_path: Path) -> None:
    command = ["build-runtime", "-o", tmp_path / "c", "--isa"]
    for given, code, message in (
        (("mmx", "--models", saved(tmp_path / "a.palm", 3)), 2, "got mmx"),
        (("neon", "--models", saved(tmp_path / "n.palm", "n")), 1, "has no plans"),
        (("neon", "--models", tmp_path / "none.palm"), 1, "none.palm"),
    ):
        result = run(*command, *given)
        assert result.code == code and message in result.err and result.err.count("\n") == 1
        assert not (tmp_path / "c").exists()
