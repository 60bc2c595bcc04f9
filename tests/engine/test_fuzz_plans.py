"""A short run of the fuzzer of plans, without sanitizers; `make fuzz-plans` is the long one."""

import subprocess
import sys
from pathlib import Path

from palmkit.engine import _native
from tests.engine.fuzz_plans import ROOT


def test_damaged_steps_run_or_are_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.engine.fuzz_plans", "--library"]
    command += [
        str(_native.LIBRARY),
        "--keep",
        str(tmp_path),
        "--count=3000",
        "--seconds=200",
        "--variants=0",
    ]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout
    assert "3000 tried" in done.stdout
