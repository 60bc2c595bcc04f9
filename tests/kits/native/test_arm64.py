"""The library built by zig for arm64 with musl, run by qemu, gives what it gives here.

ZIG is zig's path where it is not in the PATH: python -m pip install ziglang==0.17.1
"""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.engine.native import program as engine
from tests.kits.native.program import SANITIZER, SOURCES, cmake, compiled, run

TARGET = "aarch64-linux-musl"
ZIG = os.environ.get("ZIG") or shutil.which("zig")
QEMU = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
HERE = Path(__file__).parent

pytestmark = [
    pytest.mark.skipif(ZIG is None, reason="needs zig: its path in ZIG"),
    pytest.mark.skipif(QEMU is None, reason="needs qemu-aarch64-static"),
    pytest.mark.skipif(cmake() is None or engine.compiler() is None, reason="needs compilers"),
    pytest.mark.skipif(bool(SANITIZER), reason="zig's are not those of the sanitizers here"),
]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of libpalm_kits.a for arm64."""
    folder = tmp_path_factory.mktemp("arm64")
    toolchain = engine.ROOT / "engine" / "native" / "zig.cmake"
    command = [str(cmake()), "-S", str(SOURCES), "-B", str(folder), "-DBUILD_SHARED_LIBS=OFF"]
    command += [f"-DCMAKE_TOOLCHAIN_FILE={toolchain}", f"-DPALM_ZIG={ZIG}", "-DPALM_DEV=ON"]
    command += [f"-DPALM_TARGET={TARGET}", "-DCMAKE_SYSTEM_NAME=Linux"]
    run([*command, "-DCMAKE_SYSTEM_PROCESSOR=aarch64"])
    run([str(cmake()), "--build", str(folder), "-j2"])
    return folder


def built(source: str, library: Path) -> list[str]:
    """Return the command that runs a program of this folder on arm64."""
    program = str(library / Path(source).stem)
    command = [str(ZIG), "cc", "-target", TARGET, "-static", "-std=c99", f"-I{SOURCES}"]
    run([*command, str(HERE / source), str(library / "libpalm_kits.a"), "-lc++", "-o", program])
    return [str(QEMU), program]


def test_results_are_the_same(library: Path, tmp_path: Path) -> None:
    here = compiled([HERE / "portable_test.c"], tmp_path, with_engine=False)
    expected, found = (
        run(command).splitlines() for command in ([str(here)], built("portable_test.c", library))
    )
    assert len(found) == len(expected) > 20
    for line, wanted in zip(found, expected, strict=True):
        (name, *numbers), (wanted_name, *wanted_numbers) = line.split(), wanted.split()
        assert name == wanted_name
        # The last bits of sines, logarithms and exponentials are the C library's.
        np.testing.assert_allclose(
            np.array(numbers, np.float64),
            np.array(wanted_numbers, np.float64),
            rtol=0,
            atol=1 if name == "crop" else 1e-4,
            err_msg=name,
        )


def test_arguments_that_no_call_may_have(library: Path) -> None:
    run([*built("arguments_test.c", library), "10"])
