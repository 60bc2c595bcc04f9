"""A library that is missing, or no library of this palmkit, is told in one line."""

import os
import platform
import shutil
import subprocess
import sys
from ctypes.util import find_library
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

import palmkit.engine
from palmkit.engine.machine import check_processor

_native = pytest.importorskip("palmkit.engine._native", reason="the native runtime is not built")

SOURCE = """
#include <stdint.h>
uint32_t palm_engine_version(void) { return 999; }
"""


def said(library: Path | str) -> str:
    """The last line that importing the runtime with this library says."""
    environment = {**os.environ, "PALMKIT_LIBRARY": str(library)}
    command = [sys.executable, "-c", "import palmkit.engine._native"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    return done.stderr.splitlines()[-1]


def test_no_library(tmp_path: Path) -> None:
    assert said(tmp_path / "libpalm.so").startswith(
        f"ImportError: {tmp_path}/libpalm.so: no library"
    )


def test_another_library() -> None:
    name = find_library("m")
    if name is None:
        pytest.skip("no other library")
    assert "no library of this palmkit for this machine" in said(name)


@pytest.mark.parametrize(
    ("head", "what"),
    [
        (b"\x7fELF\2\1\1" + bytes(9) + b"\3\0\xb7\0", "Linux on arm64"),
        (b"\xcf\xfa\xed\xfe\x0c\0\0\1", "Darwin on arm64"),
        (b"\xcf\xfa\xed\xfe\x07\0\0\1", "Darwin on x86_64"),
        (b"MZ" + bytes(58) + b"\x40\0\0\0PE\0\0\x64\x86", "Windows on x86_64"),
        (b"MZ" + bytes(58) + b"\x40\0\0\0PE\0\0\x64\xaa", "Windows on arm64"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_library_for_another_machine(tmp_path: Path, head: bytes, what: str) -> None:
    library = tmp_path / "libpalm.so"
    library.write_bytes(head.ljust(5000, b"\0"))
    if what == f"{platform.system()} on {platform.machine().replace('aarch64', 'arm64')}":
        pytest.skip("it is for this machine")
    told = said(library)
    assert told.startswith(f"ImportError: {library}: a library for {what}, this is ")
    assert told.endswith("install palmkit anew on this machine")


def test_a_wheel_of_another_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "palm.dll"
    other.write_bytes(b"MZ" + bytes(58) + b"\x40\0\0\0PE\0\0\x64\x86")
    monkeypatch.setattr(palmkit.engine, "__path__", [str(tmp_path)])
    monkeypatch.delenv("PALMKIT_LIBRARY", raising=False)
    spec = spec_from_file_location("palmkit.engine._native_elsewhere", _native.__file__)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    if sys.platform == "win32":
        pytest.skip("it is for this system")
    with pytest.raises(ImportError, match=r"palm.dll: a library for Windows on x86_64, this is "):
        spec.loader.exec_module(module)
    other.unlink()
    with pytest.raises(ImportError, match="the native runtime is not built"):
        spec.loader.exec_module(module)


@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux says of processors")
@pytest.mark.parametrize(
    ("text", "is_refused"),
    [
        ("processor\t: 0\nflags\t\t: fpu sse2 ssse3\nbugs\t\t:\n", True),
        ("processor\t: 0\nflags\t\t: fpu sse2 ssse3 sse4_2\nbugs\t\t:\n", False),
        ("processor\t: 0\nFeatures\t: fp asimd\n", False),
        ("processor\t: 0\nflags\t\t: fpu sse2 and so on", False),
        ("", False),
    ],
)
def test_a_processor_that_numpy_does_not_run_on(
    tmp_path: Path, text: str, is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(text)
    monkeypatch.delitem(sys.modules, "numpy")
    if not is_refused:
        return check_processor(str(cpuinfo))
    with pytest.raises(ImportError, match="a processor with SSE4.2"):
        check_processor(str(cpuinfo))


def test_a_command_says_so_in_one_line(tmp_path: Path) -> None:
    code = (
        "import sys, palmkit.kits.cli as cli\n"
        "sys.modules['palmkit.engine.errors'] = None\n"
        "sys.exit(cli.main(['doctor']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith("palmkit: import of")
    assert done.stderr.count("\n") == 1


def test_a_library_of_another_version(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    (tmp_path / "other.c").write_text(SOURCE)
    library = tmp_path / "libpalm.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, tmp_path / "other.c"], check=True)
    assert said(library).endswith(f"expected interface {_native._VERSION}, got 999")
