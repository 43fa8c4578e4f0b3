"""Schedules: the law of who talks, caps, horizons, absence, modes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from copriv.errors import InvalidInput
from copriv.schedules import (
    Broadcast,
    DropOut,
    PoissonClocks,
    RandomOrder,
    Replay,
    Request,
    Rounds,
    Uniform,
    run_events,
)

EQUAL = (1.0, 1.0, 1.0, 1.0)
SCHEDULES = {
    "uniform": Uniform(),
    "poisson": PoissonClocks(EQUAL),
    "broadcast": Broadcast(0.1, EQUAL),
    "request": Request(0.05, EQUAL),
}


@pytest.mark.parametrize("name", SCHEDULES)
@given(seed=st.integers(0, 10**6), answers=st.integers(1, 9), horizon=st.integers(1, 60))
def test_caps_horizon_and_order(name, seed, answers, horizon):
    events = run_events(SCHEDULES[name], np.random.default_rng(seed), 4, horizon, answers)
    assert len(events) == min(horizon, 4 * answers)
    assert np.bincount(events.owner, minlength=4).max() <= answers
    assert (np.diff(events.time) > 0).all()


@pytest.mark.parametrize("name", SCHEDULES)
def test_choices_are_uniform_and_independent(name):
    owner = SCHEDULES[name].draw(np.random.default_rng(1), 4, 40_000).owner
    assert stats.chisquare(np.bincount(owner)).pvalue > 1e-4
    pairs = np.bincount(4 * owner[:-1] + owner[1:], minlength=16)
    assert stats.chisquare(pairs).pvalue > 1e-4


def test_poisson_clocks():
    rates = (1.0, 2.0, 5.0)
    events = PoissonClocks(rates).draw(np.random.default_rng(2), 3, 40_000)
    assert stats.kstest(np.diff(events.time), "expon", args=(0, 1 / 8)).pvalue > 1e-4
    assert stats.chisquare(np.bincount(events.owner), np.array(rates) / 8 * 40_000).pvalue > 1e-4


def test_capped_choice_is_uniform_over_the_owners_with_answers_left():
    """Against a plain loop that draws among those left: the same law of the last three events."""
    rng = np.random.default_rng(3)
    seen, plain = np.zeros(27), np.zeros(27)
    for _ in range(6000):
        owner = run_events(Uniform(), rng, 3, 5, 2).owner
        seen[owner[-3:] @ (9, 3, 1)] += 1
        left, drawn = [2, 2, 2], []
        for _ in range(5):
            drawn.append(int(rng.choice([i for i in range(3) if left[i]])))
            left[drawn[-1]] -= 1
        plain[np.array(drawn[-3:]) @ (9, 3, 1)] += 1
    both = seen + plain > 0
    assert stats.chi2_contingency(np.stack([seen, plain])[:, both]).pvalue > 1e-4


def test_random_order_asks_everybody_equally_often():
    owner = run_events(RandomOrder(3), np.random.default_rng(0), 5, 1000, 3).owner
    assert np.bincount(owner).tolist() == [3] * 5


def test_rounds_ask_everybody_before_anybody_again():
    owner = run_events(Rounds(), np.random.default_rng(0), 5, 1000, 4).owner.reshape(4, 5)
    assert (np.sort(owner, axis=1) == np.arange(5)).all()
    assert len({tuple(row) for row in owner}) > 1


def test_broadcast_advances_at_most_once_an_interval():
    events = Broadcast(0.5, EQUAL).draw(np.random.default_rng(4), 4, 5000)
    assert len(np.unique(np.floor(events.time / 0.5))) == 5000


def test_request_serves_one_at_a_time():
    events = Request(0.7, EQUAL).draw(np.random.default_rng(4), 4, 5000)
    assert (np.diff(events.time) >= 0.7).all()
    assert stats.kstest(np.diff(events.time) - 0.7, "expon", args=(0, 1 / 4)).pvalue > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("schedule", [Broadcast, Request])
def test_times_of_owners_with_answers_left(schedule):
    """Against a plain loop: an owner that has given all its answers neither replies nor requests."""
    rates, m, each, rng = (4.0, 1.0, 0.5), 2, 0.6, np.random.default_rng(8)
    seen = [run_events(schedule(each, rates, m), np.random.default_rng(s), 3, 6, m).time for s in range(4000)]
    plain = []
    for _ in range(4000):
        left, now, times = [m, m, m], 0.0, []
        for _ in range(6):
            waits = [rng.exponential(1 / r) if n else np.inf for r, n in zip(rates, left, strict=True)]
            first = int(np.argmin(waits))
            left[first] -= 1
            if schedule is Broadcast:
                times.append(now + waits[first])
                now = (np.floor(times[-1] / each) + 1) * each
            else:
                now = now + waits[first] + each
                times.append(now)
        plain.append(times)
    for k in range(6):
        assert stats.ks_2samp(np.array(seen)[:, k], np.array(plain)[:, k]).pvalue > 1e-4
    forever = [run_events(schedule(each, rates), np.random.default_rng(s), 3, 6, m).time[-1] for s in range(4000)]
    assert stats.ks_2samp(forever, np.array(plain)[:, -1]).pvalue < 1e-9  # owners without answers left would take time


def test_mean_time_of_an_answer():
    """As docs/explanation/rules.md says, of all owners' rates R."""
    broadcast, request = (s(0.4, (2.0, 1.0)).draw(np.random.default_rng(9), 2, 10**5) for s in (Broadcast, Request))
    assert broadcast.time[-1] / 10**5 == pytest.approx(0.4 / (1 - np.exp(-1.2)), rel=0.02)
    assert request.time[-1] / 10**5 == pytest.approx(0.4 + 1 / 3, rel=0.02)


def test_dropped_out_owners_are_silent_and_come_back():
    away = DropOut(Uniform(), {1: [(2.0, 10.0)]})
    events = run_events(away, np.random.default_rng(0), 3, 90, 90)
    mine = events.time[events.owner == 1]
    assert not ((mine >= 2) & (mine < 10)).any()
    assert (mine < 2).any()
    assert (mine >= 10).any()
    assert len(events) == 90


def test_owner_that_never_returns_ends_the_run_with_what_the_others_gave():
    events = run_events(DropOut(Uniform(), {0: [(0.0, np.inf)]}), np.random.default_rng(0), 3, 100, 5)
    assert np.bincount(events.owner, minlength=3).tolist() == [0, 5, 5]


def test_replay_is_the_trace_again():
    events = run_events(Replay([(0.1, 2), (0.4, 0), (0.4, 2)]), np.random.default_rng(0), 3, 100, 100)
    assert events.owner.tolist() == [2, 0, 2]
    assert events.time.tolist() == [0.1, 0.4, 0.4]
    with pytest.raises(InvalidInput, match="trace"):
        Replay([(0.0, 3)]).draw(np.random.default_rng(0), 3, 1)


def test_rates_must_be_as_many_as_owners():
    with pytest.raises(InvalidInput, match=r"owner\.rate"):
        PoissonClocks((1.0,)).draw(np.random.default_rng(0), 2, 5)
