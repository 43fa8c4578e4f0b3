"""A band's ends hold in a world that nobody drew: as often as they say, whether worlds decide or noise does."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from copriv.forecast.assessment import independent, quantiles

WORLDS, RUNS, TRIALS = 32, 4, 4000


def drawn(rng, share, trials):
    """Runs in worlds, and one run in a world of its own; `share`: the part of the variance that worlds make."""
    worlds = np.sqrt(share) * rng.standard_normal((WORLDS, 1, trials))
    runs = worlds + np.sqrt(1.0 - share) * rng.standard_normal((WORLDS, RUNS, trials))
    return np.exp(runs), np.exp(rng.standard_normal(trials))


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9, 1.0])
def test_a_run_in_a_new_world_is_between_the_ends_as_often_as_they_say(share):
    # 4,000 bands, one new run each: a standard error of half a hundredth, five of which are allowed. The plain quantiles of 32
    # worlds hold 87 of 100 where worlds alone decide.
    draws, new = drawn(np.random.default_rng(11), share, TRIALS)
    low, high = quantiles(draws)
    assert np.mean((low <= new) & (new <= high)) == pytest.approx(0.90, abs=0.013)
    assert np.mean(new < low) == pytest.approx(0.05, abs=0.011)


def test_plain_quantiles_hold_too_few_where_worlds_decide():
    draws, new = drawn(np.random.default_rng(11), 1.0, TRIALS)
    low, high = np.quantile(draws.reshape(-1, TRIALS), [0.05, 0.95], axis=0)
    assert np.mean((low <= new) & (new <= high)) < 0.885


def test_draws_that_count_are_worlds_or_runs():
    rng = np.random.default_rng(3)
    worlds_decide, _ = drawn(rng, 1.0, 1)
    noise_decides, _ = drawn(rng, 0.0, 500)
    assert independent(worlds_decide)[0] == pytest.approx(WORLDS)
    assert np.median(independent(noise_decides)) > 0.85 * WORLDS * RUNS
    assert independent(np.ones((WORLDS, RUNS))) == pytest.approx(WORLDS * RUNS)  # nothing differs: any count will do
    assert independent(rng.random((WORLDS, 1))) == pytest.approx(WORLDS)


@given(seed=st.integers(0, 10**6), worlds=st.integers(2, 40), runs=st.integers(1, 6), unit=st.floats(1e-9, 1e9))
def test_ends_are_among_the_draws_in_order_and_in_their_unit(seed, worlds, runs, unit):
    draws = np.random.default_rng(seed).standard_t(2, size=(worlds, runs, 3)) ** 2
    low, high = quantiles(draws)
    little = 1e-12 * draws.max(axis=(0, 1))
    assert (draws.min(axis=(0, 1)) <= low + little).all()
    assert (low <= high + little).all()
    assert (high <= draws.max(axis=(0, 1)) + little).all()
    np.testing.assert_allclose(quantiles(unit * draws), unit * np.array([low, high]), rtol=1e-9)


def test_one_run_in_each_world_is_the_textbooks_prediction_interval():
    draws = np.random.default_rng(5).permutation(np.arange(1.0, 20.0))  # 19 draws: 5 % is the first, 95 % the last
    assert quantiles(draws[:, None]).tolist() == pytest.approx([1.0, 19.0])
