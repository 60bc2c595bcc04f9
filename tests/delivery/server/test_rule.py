import numpy as np
import pytest

from palmkit.delivery.server.rule import Sample, is_burst, judge, wilson


@pytest.mark.parametrize(
    "failures, n, expected",
    # Newcombe 1998, "Two-sided confidence intervals for the single proportion", table I, method 3.
    [(81, 263, (0.2553, 0.3662)), (15, 148, (0.0624, 0.1605)), (0, 20, (0.0, 0.1611))],
)
def test_interval(failures: int, n: int, expected: tuple[float, float]) -> None:
    assert wilson(failures, n) == pytest.approx(expected, abs=5e-5)


def test_interval_of_all_and_of_nothing() -> None:
    assert wilson(0, 0) == (0.0, 1.0)
    low, high = wilson(10, 10)
    assert 0.7 < low < 0.73 and high == 1.0


def test_a_crash_and_its_rollback_are_one_failure() -> None:
    assert Sample.of({"load_ok": 90, "crash_trial": 10, "rollback": 10}) == Sample(100, 10, 10)
    assert Sample.of({"load_ok": 100, "nan": 3, "rollback": 5}) == Sample(100, 5, 5)
    assert Sample.of({"load_fail": 2, "golden_fail": 3}) == Sample(5, 5, 0)
    # Forged or odd counts give no rate above one.
    assert Sample.of({"load_ok": 10, "nan": 500, "rollback": 90}) == Sample(10, 10, 10)
    assert Sample.of({}) == Sample()


@pytest.mark.parametrize(
    "candidate, control, verdict",
    [
        (Sample(), Sample(), "wait"),
        (Sample(49, 49, 0), Sample(1000, 0, 0), "wait"),
        (Sample(100, 100, 0), Sample(100, 0, 0), "recall"),
        (Sample(2000, 40, 0), Sample(2000, 4, 0), "halt"),
        (Sample(2000, 5, 0), Sample(2000, 4, 0), "good"),
        # As bad as what it is compared with: not the release's fault.
        (Sample(2000, 400, 0), Sample(2000, 400, 0), "good"),
        # Nobody to compare with: only rollbacks count.
        (Sample(500, 20, 0), Sample(), "good"),
        (Sample(500, 20, 6), Sample(), "halt"),
        (Sample(499, 20, 6), Sample(), "good"),
    ],
)
def test_verdicts(candidate: Sample, control: Sample, verdict: str) -> None:
    found, reason = judge(candidate, control)
    assert found == verdict
    assert reason


def looks(candidate_rate: float, control_rate: float, runs: int) -> list[int | None]:
    """When a rollout is stopped, in loads of each arm, looked at every 50 up to 20,000."""
    random = np.random.default_rng(7)
    shape = (runs, 400)
    candidates = random.binomial(50, candidate_rate, shape).cumsum(axis=1)
    controls = random.binomial(50, control_rate, shape).cumsum(axis=1)
    stops: list[int | None] = []
    for candidate, control in zip(candidates, controls, strict=True):
        stop = None
        for look, (bad, usual) in enumerate(zip(candidate, control, strict=True), 1):
            n = 50 * look
            if judge(Sample(n, int(bad), 0), Sample(n, int(usual), 0))[0] in ("halt", "recall"):
                stop = n
                break
        stops.append(stop)
    return stops


def test_a_good_release_is_hardly_ever_stopped() -> None:
    for rate in (0.002, 0.01):
        stops = looks(rate, rate, 100)
        assert sum(stop is not None for stop in stops) <= 2


def test_a_bad_release_is_stopped_soon() -> None:
    for rate, usual, most in ((0.02, 0.002, 900), (0.1, 0.002, 200), (1.0, 0.01, 100)):
        stops = looks(rate, usual, 100)
        assert None not in stops
        assert np.median(np.array(stops, float)) <= most


def test_a_burst_of_bad_signatures() -> None:
    usual = {"check_ok": 100_000, "sig_fail": 50}
    assert is_burst({"check_ok": 9000, "sig_fail": 1000}, usual)
    assert not is_burst({"check_ok": 90_000, "sig_fail": 500}, usual)
    # Too few to tell, however large the share.
    assert not is_burst({"sig_fail": 99}, usual)
    # Without a past, 1 % is a burst.
    assert is_burst({"check_ok": 9800, "sig_fail": 200}, {})
