"""A test of many cases tells of each that fails or is skipped."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = """
import pytest
from tests.case_groups import in_groups

CASES = [(kind, number) for kind in ("sum", "root", "odd") for number in range(4)]
FAILS = {("sum", 2): AssertionError, ("sum", 3): ValueError}

@pytest.mark.parametrize("sign", [1, -1])
@in_groups("kind, number", CASES, lambda case: case[0], lambda case: f"case of {case[1]}")
def test_cases(kind, number, sign, tmp_path):
    assert tmp_path.is_dir()
    if kind == "odd" or number == 1:
        pytest.skip(f"no {kind}")
    if sign > 0 and (kind, number) in FAILS:
        raise FAILS[kind, number]
    if (kind, number, sign) == ("root", 3, -1):
        pytest.fail("negative")
"""


def test_cases_that_fail_or_are_skipped_are_told_one_by_one(tmp_path: Path) -> None:
    file = tmp_path / "test_cases.py"
    file.write_text(TESTS)
    command = ["-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, *command, "-q", "-p", "no:cacheprovider", str(file)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    failed = re.findall(r"^SUBFAILED\[(.*)\] .*::test_cases\[(.*)\]", done.stdout, re.MULTILINE)
    assert {*failed} == {
        ("case of 2", "sum-1"),
        ("case of 3", "sum-1"),
        ("case of 3", "root--1"),
    }, done.stdout
    # The cases, and the tests that they are of; the tests of no more than cases that pass; cases.
    assert "5 failed, 2 passed, 12 skipped" in done.stdout and done.returncode == 1
