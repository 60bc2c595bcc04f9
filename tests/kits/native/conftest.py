"""The library, built once; and pictures."""

import pytest

from tests.kits.native.library import Library
from tests.kits.native.program import SANITIZER, built, cmake


@pytest.fixture(scope="session")
def c() -> Library:
    if cmake() is None:
        pytest.skip("needs CMake and a C++ compiler")
    if SANITIZER:
        pytest.skip("Python runs without the sanitizers; the C programs are tested")
    return Library(built())
