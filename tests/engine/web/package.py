"""The npm package as `make web` builds it, and Node to run it."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "build" / "web" / "palmkit"
NODE = shutil.which("node")
MODULES = sorted(PACKAGE.rglob("*.wasm"))

needs_package = [
    pytest.mark.skipif(NODE is None, reason="there is no Node"),
    pytest.mark.skipif(not MODULES, reason="the package is not built: make web"),
]


def node(program: str, *arguments: object, flags: tuple[str, ...] = ()) -> str:
    """Return what a program of this folder prints; it fails with what the program said."""
    file = Path(__file__).parent / program
    command = [str(NODE), *flags, str(file), str(PACKAGE), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert not done.returncode, done.stderr
    return done.stdout
