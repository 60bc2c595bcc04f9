"""The library, built once; and pictures."""

from pathlib import Path

import matplotlib
import numpy as np
import pytest
import skimage.data

from palmkit import kits
from palmkit.kits.image import Image
from tests.kits.native.library import Library
from tests.kits.native.program import SANITIZER, built, cmake


@pytest.fixture(scope="session")
def c() -> Library:
    if cmake() is None:
        pytest.skip("needs CMake and a C++ compiler")
    if SANITIZER:
        pytest.skip("Python runs without the sanitizers; the C programs are tested")
    return Library(built())


@pytest.fixture(scope="session")
def astronaut() -> Image:
    """Return a woman before a busy background, 512 x 512."""
    return np.asarray(skimage.data.astronaut(), np.uint8)  # type: ignore[no-untyped-call]


@pytest.fixture(scope="session")
def admiral() -> Image:
    """Return a portrait, 606 x 512."""
    return kits.read_image(Path(matplotlib.get_data_path()) / "sample_data" / "grace_hopper.jpg")
