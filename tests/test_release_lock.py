"""What releases are built with: bounded in pyproject.toml, locked with hashes beside it."""

import re
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
LOCK = (ROOT / ".ci" / "release-lock.txt").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
BUILD: list[str] = PROJECT["build-system"]["requires"]
RUN: list[str] = PROJECT["project"]["dependencies"]
TOOLS = ["build>=1.2", "cmake>=3.24", "ninja>=1.11"]
PYTHONS = ("3.10.14", "3.11.9", "3.12.3", "3.13.1")


def entries() -> list[str]:
    """Each locked package with its hashes, as one line."""
    text = re.sub(r"^#.*\n", "", LOCK, flags=re.MULTILINE).replace("\\\n", " ")
    return [line for line in text.splitlines() if line.strip()]


def locked(python: str) -> dict[str, str]:
    """The version of each package that a Python installs on Linux."""
    environment = {
        "python_version": python.rpartition(".")[0],
        "python_full_version": python,
        "sys_platform": "linux",
        "os_name": "posix",
        "platform_system": "Linux",
        "platform_python_implementation": "CPython",
        "implementation_name": "cpython",
        "extra": "",
    }
    found: dict[str, str] = {}
    for entry in entries():
        requirement = Requirement(entry.partition("--hash")[0].strip())
        if requirement.marker is None or requirement.marker.evaluate(environment):
            name = canonicalize_name(requirement.name)
            assert name not in found, f"{name} is locked twice for Python {python}"
            found[name] = str(requirement.specifier).removeprefix("==")
    return found


def test_every_package_is_pinned_and_has_hashes() -> None:
    assert len(entries()) > 20
    for entry in entries():
        assert re.fullmatch(
            r"[a-z0-9-]+==[^\s;]+( ; [^\\]+?)?( +--hash=sha256:[0-9a-f]{64})+ *", entry
        ), entry[:80]


def test_no_host_is_named() -> None:
    assert not re.search(r"://|index|find-links|\.org|\.com", LOCK)


@pytest.mark.parametrize("python", PYTHONS)
def test_the_lock_fits_what_is_required(python: str) -> None:
    versions = locked(python)
    for text in [*BUILD, *RUN, *TOOLS]:
        requirement = Requirement(text)
        needed = {"python_version": python.rpartition(".")[0]}
        if requirement.marker is None or requirement.marker.evaluate(needed):
            version = versions[canonicalize_name(requirement.name)]
            assert requirement.specifier.contains(version), f"{text}: locked is {version}"


def test_what_builds_has_upper_bounds() -> None:
    for text in BUILD:
        bounds = Requirement(text).specifier
        assert any(each.operator in ("<", "<=", "==", "~=") for each in bounds), text


def test_a_development_build_has_the_same_bounds() -> None:
    """The extra `dev` names what builds once more: it builds without isolation."""
    dev = PROJECT["project"]["optional-dependencies"]["dev"]
    assert set(BUILD) <= set(dev)
