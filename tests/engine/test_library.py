"""A library that is missing, or no library of this palmkit, is told in one line."""

import os
import shutil
import subprocess
import sys
from ctypes.util import find_library
from pathlib import Path

import pytest

pytest.importorskip("palmkit.engine._native", reason="the native runtime is not built")

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


def test_a_library_of_another_version(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    (tmp_path / "other.c").write_text(SOURCE)
    library = tmp_path / "libpalm.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, tmp_path / "other.c"], check=True)
    assert said(library).endswith("expected interface 1, got 999")
