"""`make bench-web` measures what is there and says why the rest is not."""

from pathlib import Path

import pytest

from palmkit import engine
from palmkit.engine.bench.engines import OURS
from palmkit.engine.bench.subject import subject
from tests.delivery.page.browser import program
from tests.engine.native import golden
from tests.engine.web.bench.contenders import PEERS
from tests.engine.web.bench.measuring import Schedule, measured
from tests.engine.web.bench.pages import opened
from tests.engine.web.package import needs_package

pytestmark = [*needs_package, pytest.mark.skipif(program() is None, reason="there is no Chromium")]
FINDER = next(path for path in golden.SHIPPED if path.stem == "person_finder")


@pytest.mark.parametrize("threads", [1, 2])
def test_ours_is_measured_where_no_peer_is_installed(threads: int, tmp_path: Path) -> None:
    (tmp_path / "node_modules").mkdir()
    with opened(tmp_path) as pages, subject(FINDER, engine.convert(FINDER)) as each:
        found = measured(pages, each, threads, Schedule(turns=1, firsts=1), is_shipped=True)
    (ours,) = found.comparison.results
    assert ours.engine == OURS and found.comparison.threads == threads
    assert ours.difference is not None and ours.difference < 1e-4
    assert 0 < ours.times.min_ms <= ours.times.median_ms
    assert found.simd128 is not None and found.share and found.simd128_share
    # A page's first result takes longer than a run.
    assert ours.load_ms > ours.times.min_ms
    assert set(found.comparison.refusals) == {peer.name for peer in PEERS}


def test_a_network_that_the_runtime_lacks_is_refused(tmp_path: Path) -> None:
    (tmp_path / "node_modules").mkdir()
    with opened(tmp_path) as pages, subject(FINDER, engine.convert(FINDER)) as each:
        found = measured(pages, each, 1, Schedule(turns=1, firsts=1), is_shipped=False)
    assert found.comparison.ours is None
    assert "status 404" in found.comparison.refusals[OURS]
