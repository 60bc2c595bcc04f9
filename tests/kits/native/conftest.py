"""The library, built once; and networks for it."""

from collections.abc import Callable

import pytest

from palmkit import engine
from palmkit.kits.kit import shipped_model
from tests.kits.native import library
from tests.kits.native.library import Library
from tests.kits.native.program import SANITIZER, built, cmake


@pytest.fixture(scope="session")
def c() -> Library:
    if cmake() is None:
        pytest.skip("needs CMake and a C++ compiler")
    if SANITIZER:
        pytest.skip("Python runs without the sanitizers; the C programs are tested")
    return Library(built())


@pytest.fixture(scope="module")
def networks() -> Callable[[str], library.Network]:
    """Return shipped models as networks that C calls; Python's kits share them."""
    models: dict[str, engine.Model] = {}

    def network(name: str) -> library.Network:
        model = models.setdefault(name, engine.load(shipped_model(name)))
        shape = model.inputs["image"].shape[1:3]
        sizes = [(int(shape[1]), int(shape[0]))] if isinstance(shape[0], int) else []
        return library.network(model.run, sizes)

    return network
