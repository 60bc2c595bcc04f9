"""The short form of fleet.py; its numbers for 100,000 devices are in delivery/SERVER.md."""

from tests.delivery.server.fleet import simulate


def test_a_release_that_crashes_is_stopped_before_most_of_its_share_runs_it() -> None:
    outcome = simulate(8000, broken=1.0, percent=5.0, hours=44.0, look_min=10)
    assert outcome.stopped is not None and outcome.stopped.action == "recall"
    assert outcome.stopped_after_h is not None and outcome.stopped_after_h < 8
    # Far fewer than the 5 %: after the stop only devices that had it ready for their next start.
    assert 25 <= outcome.exposed_at_stop <= outcome.exposed < 0.05 * 8000 / 2
    assert outcome.crashed == outcome.exposed
    assert outcome.still_on_it == 0 and outcome.left_after_h is not None


def test_the_same_seed_gives_the_same_outcome() -> None:
    first, again, other = (
        simulate(2000, broken=1.0, percent=20.0, hours=8.0, look_min=20, seed=seed)
        for seed in (1, 1, 2)
    )
    assert first == again != other and first.stopped is not None


def test_a_good_release_goes_on() -> None:
    outcome = simulate(4000, broken=0.0, percent=5.0, hours=20.0, look_min=20)
    assert outcome.stopped is None
    assert 0.02 * 4000 < outcome.exposed == outcome.still_on_it <= 0.065 * 4000
