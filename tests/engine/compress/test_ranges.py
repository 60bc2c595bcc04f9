from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palmkit.engine.compress.admm import projected_scales
from palmkit.engine.compress.histogram import Histogram
from palmkit.engine.compress.observe import Observation
from palmkit.engine.compress.ranges import METHODS, moving_average, percentile
from palmkit.engine.compress.weights import greatest, levels_of
from palmkit.engine.ir import Array


def observed(*parts: Array) -> Observation:
    seen = Observation()
    for part in parts:
        seen.add(part.astype(np.float32))
    return seen


def squared_error(values: Array, low: float, high: float) -> float:
    scale = (high - low) / 255
    zero = round(-low / scale)
    levels = np.clip(np.rint(values / scale) + zero, 0, 255)
    return float((((levels - zero) * scale - values) ** 2).mean())


@given(st.permutations([0.3, 7.0, -90.0, 2e-3, 1500.0]))
def test_counts_do_not_hang_on_the_order(scales: list[float]) -> None:
    random = np.random.default_rng(0)
    base = random.normal(0, 1, 300)
    parts = {scale: (base * scale).astype(np.float32) for scale in scales}
    mixed, sorted_ = Histogram(), Histogram()
    for scale in scales:
        mixed.add(parts[scale])
    for scale in sorted(scales):
        sorted_.add(parts[scale])
    assert mixed.limit == sorted_.limit
    assert np.array_equal(mixed.counts, sorted_.counts)
    assert mixed.total == 1500


@pytest.mark.parametrize("method", METHODS)
def test_ranges_lie_within_what_was_seen(method: str) -> None:
    random = np.random.default_rng(3)
    for values in (random.normal(0, 1, 5000), random.exponential(1, 5000), np.zeros(20)):
        seen = observed(*np.split(values, 4))
        low, high = METHODS[method](seen)
        assert min(seen.low, 0) <= low <= high <= max(seen.high, 0)


@pytest.mark.parametrize("method", ["percentile", "kl"])
def test_one_far_number_does_not_stretch_the_range(method: str) -> None:
    values = np.append(np.random.default_rng(1).normal(0, 1, 40000), 400.0)
    low, high = METHODS[method](observed(values))
    assert high < 100
    assert low < -2


def test_admm_has_the_least_squared_error() -> None:
    values = np.random.default_rng(2).standard_t(4, 30000)
    seen = observed(values)
    errors = {name: squared_error(values, *method(seen)) for name, method in METHODS.items()}
    assert errors["admm"] == min(errors.values())
    ends = np.linspace(1, max(-seen.low, seen.high), 400)
    best = min(squared_error(values, max(-end, seen.low), min(end, seen.high)) for end in ends)
    assert errors["admm"] < 1.01 * best


def test_percentile_of_even_numbers() -> None:
    seen = observed(np.linspace(0, 10, 100001)[1:])
    low, high = percentile(seen, 90)
    assert low == pytest.approx(0.5, abs=0.01)
    assert high == pytest.approx(9.5, abs=0.01)


def test_moving_average_by_hand() -> None:
    seen = observed(np.array([-1.0, 1.0]), np.array([-2.0, 3.0]), np.array([0.0, 5.0]))
    low, high = moving_average(seen, 0.5)
    assert (low, high) == (-0.75, 3.5)


def test_projected_scales_beat_the_greatest_weight() -> None:
    rows = np.random.default_rng(4).laplace(0, 0.1, (6, 200))
    rows[5] = 0
    for most in (127, 7):
        errors = [
            ((levels_of(rows, scale, most) * scale[:, None] - rows) ** 2).sum(1)
            for scale in (projected_scales(rows, most), greatest(rows, most))
        ]
        assert (errors[0] <= errors[1] * (1 + 1e-9)).all()
        assert errors[0][:5].sum() < errors[1][:5].sum()
