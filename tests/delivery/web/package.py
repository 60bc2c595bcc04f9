"""The part of the npm package that brings releases, as `make web` builds it."""

import pytest

from tests.engine.web.package import NODE, PACKAGE

needs_delivery = [
    pytest.mark.skipif(NODE is None, reason="there is no Node"),
    pytest.mark.skipif(
        not (PACKAGE / "delivery" / "web" / "index.js").exists(),
        reason="the package is not built: make web",
    ),
]
