"""Bounds on the slopes of numbers: what they leave of curvature and mean, and that they are taken where they pay."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import norm
from sklearn.linear_model import LinearRegression

from copriv.estimators import PrivateRegressor, SpendingWarning
from copriv.estimators.declared import Settled, terms, without_data
from copriv.mechanisms.expected import CURVED, MISSED, SLOPES_OF_NUMBERS, Declared
from copriv.mechanisms.lengths import EDGES, TARGETS, UNEXPLAINED, Measured, at_bounds


def settled(records: int = 200, measured: Measured | None = None, weighted: bool = False):
    owner = {"name": "a", "records": records, "epsilon": 1.0, "delta": 0.0}
    wanted = terms(
        columns=3, loss="squared", threshold=1.0, regularization=1e-5, intercept=True, feature_bound="auto", owners=[owner]
    )  # fmt: skip
    return without_data(wanted, measured=measured, weighted=weighted).agreement


def test_what_a_bound_leaves_of_curvature_is_the_share_of_normal_residuals_within_it() -> None:
    assert SLOPES_OF_NUMBERS[0] == CURVED[0] == 1.0
    assert MISSED[0] == 0.0
    for bound, curved in zip(SLOPES_OF_NUMBERS[1:], CURVED[1:], strict=True):
        assert 2.0 * norm.cdf(bound / 0.3) - 1.0 == pytest.approx(curved, abs=0.02)


@given(
    st.lists(st.floats(0.0, 1.0), min_size=TARGETS, max_size=TARGETS).filter(lambda some: sum(some) > 0.1),
    st.sampled_from([(0.0, 1.0), (-0.75, 0.25), (0.0, 0.25), (0.46875, 0.53125)]),
)
@settings(max_examples=25, deadline=None)
def test_how_far_off_the_mean_bounds_lead_is_where_the_huber_loss_is_least(
    some: list[float], interval: tuple[float, float]
) -> None:
    """Of targets as in each bin evenly, and with most of an outer bin at its end; by another minimizer."""
    centre, width = interval
    ends, share = np.array([-1.0, *EDGES, 1.0]), np.array(some) / sum(some)
    places = [ends[:-1, None] + (ends[1:] - ends[:-1])[:, None] * (np.arange(8) + 0.5) / 8 for _ in range(3)]
    inside = np.flatnonzero(share)
    for place, at, turned in ((places[1], inside[0], 1), (places[2], inside[-1], -1)):
        half = 0.5 * (ends[at + 1] - ends[at]) / 8
        outer, inner = (ends[at], ends[at + 1])[::turned]
        place[at] = [outer + turned * half] * 7 + [inner - turned * half]
    found = [square for square, _ in at_bounds(share, centre, width, 0.0)]
    whole = (places[0].ravel() - centre) / width
    cut = float(np.repeat(share / 8, 8) @ (np.clip(whole, -1.0, 1.0) - whole))
    for bound, square in zip(SLOPES_OF_NUMBERS, found, strict=True):
        squares = []
        for k, place in enumerate(places):
            weight = np.repeat(share / 8, 8)
            if k:
                at = inside[0 if k == 1 else -1]
                weight[8 * at : 8 * at + 8] = share[at] * np.array([0.7 / 7] * 7 + [0.3])
            clipped = np.clip((place.ravel() - centre) / width, -1.0, 1.0)
            y = UNEXPLAINED * (clipped - weight @ clipped)

            def cost(at: float, y=y, weight=weight, bound=bound) -> float:
                off = np.abs(y - at)
                return float(weight @ np.where(off < bound, 0.5 * off**2, bound * (off - 0.5 * bound)))

            least = minimize_scalar(cost, bounds=(-1.0, 1.0), method="bounded", options={"xatol": 1e-10})
            squares.append((least.x + cut) ** 2)
        assert square == pytest.approx(np.mean(squares), rel=1e-3 * (width < 1.0), abs=1e-4)


def test_what_noise_may_show_of_a_mean_is_not_held_against_a_bound() -> None:
    even, skewed = np.full(TARGETS, 1.0 / TARGETS), np.eye(TARGETS)[0]
    assert max(square for square, _ in at_bounds(even, 0.0, 1.0, 0.05)) < 1e-3
    assert at_bounds(skewed, -0.875, 0.125, 0.01)[2][0] > 3e-3


def test_a_model_of_clipped_targets_is_held_to_the_mean_of_all() -> None:
    """Whatever bounds its slopes, as far as the shares beyond are more than noise."""
    tail = np.zeros(TARGETS)
    tail[[0, -1]] = 0.8, 0.2
    off = np.sqrt([square for square, _ in at_bounds(tail, -0.875, 0.125, 1e-3)])
    assert off[0] == pytest.approx(0.2 * (0.875 - (-0.75)) / 0.125, rel=0.05)
    assert min(off) > 0.9 * off[0]
    assert at_bounds(tail, -0.875, 0.125, 0.2)[0][0] == 0.0
    measured = Measured(size=(0.1, 0.3), centre=-0.875, width=0.125, at_bounds=at_bounds(tail, -0.875, 0.125, 1e-3))
    for delta in (0.0, 1e-6):  # with which noisy moments are a candidate
        owner = {"name": "a", "records": 20_000, "epsilon": 1.0, "delta": delta}
        wanted = terms(
            columns=3, loss="squared", threshold=1.0, regularization=1e-5, intercept=True, feature_bound="auto", owners=[owner]
        )  # fmt: skip
        assert without_data(wanted, measured=measured).scale == 0.0
        assert without_data(wanted, measured=replace(measured, at_bounds=())).scale > 0.0


def test_an_interval_at_an_end_of_the_range_is_not_taken_for_all_there_is() -> None:
    """Of 0 and rarely 1 noise hid the ones: their mean was cut off, a tenth to a fifth of the gap, by models as well."""

    def kept(centre: float, noise: float) -> bool:
        """Whether targets stay clipped."""
        owner = {"name": "a", "records": 1000, "epsilon": 0.9, "delta": 0.0}
        wanted = terms(
            columns=3, loss="squared", threshold=1.0, regularization=1e-5, intercept=True, feature_bound="auto", owners=[owner]
        )  # fmt: skip
        found = np.zeros(TARGETS)
        found[np.searchsorted(EDGES, centre)] = 1.0
        bounds = at_bounds(found, centre, 0.06, noise, True)
        measured = Measured(size=(0.1, 0.03), centre=centre, width=0.06, at_bounds=bounds, noise=noise, spent=0.1)
        assert measured.at_an_end == (abs(centre) == 0.94)
        return without_data(wanted, measured=measured).measured.width == 0.06

    for end in (-0.94, 0.94):
        assert not kept(end, noise=0.03)
        assert kept(end, noise=0.002), "so few rows beyond would be heard"
    assert kept(0.5, noise=0.03), "ranges are likely too wide where the interval is inside them"


def test_targets_at_both_ends_leave_no_curvature_to_a_bound() -> None:
    """Nearly all residuals of two values are beyond it, whatever their mean is."""
    ends = np.zeros(TARGETS)
    ends[[0, -1]] = 0.5
    within = [share for _, share in at_bounds(ends, 0.0, 1.0, 0.01)]
    assert within[0] == 1.0
    assert max(within[2:]) < 0.1
    two = Measured(size=(0.1, 0.9), at_bounds=at_bounds(ends, 0.0, 1.0, 0.01))
    agreement = settled(measured=two)
    assert agreement.gradient_bound > 0.69 * 2.0 * (agreement.data.feature_bound + 1.0)


def test_no_model_draws_a_mean_at_the_end_of_the_range_to_the_middle() -> None:
    """One column, of which nothing is measured: a model that was tied to the middle left eighty gaps, a mean four."""
    owner = {"name": "a", "records": 490, "epsilon": 0.1, "delta": 0.0}
    wanted = terms(
        columns=1, loss="squared", threshold=1.0, regularization=1e-5, intercept=True, feature_bound="auto", owners=[owner]
    )  # fmt: skip
    assert without_data(wanted).scale == 0.0


def test_slopes_are_bounded_where_targets_allow_it() -> None:
    """Of skewed targets as many are below a bound that their mean is far above: only the largest bounds are left."""
    even = Measured(size=(0.1, 0.3), at_bounds=at_bounds(np.full(TARGETS, 1.0 / TARGETS), 0.0, 1.0, 1e-3))
    skewed = replace(
        even, at_bounds=at_bounds(np.array([0.93, 0.06, 0.01, *np.zeros(TARGETS - 3)]), -0.875, 0.125, 1e-3)
    )
    least, most = (settled(measured=one).gradient_bound for one in (even, skewed))
    assert least < 0.6 * most
    assert settled().gradient_bound < 0.5 * most


def test_a_mean_of_shares_is_a_mean() -> None:
    """A model of one column of ones, whose slopes no bound is to cut: the median of skewed targets is no mean."""
    agreement = settled(20, weighted=True)
    assert len(agreement.data.features) == 1
    assert agreement.gradient_bound == pytest.approx(2.0, rel=1e-6)


@pytest.mark.slow
def test_bounded_slopes_leave_a_third_of_what_noise_left(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    X = rng.uniform(-1.0, 1.0, size=(2000, 10))
    y = np.clip(X @ (0.15 * rng.normal(size=10)) + 0.1 * rng.normal(size=2000), -1.0, 1.0)
    least = float(np.mean((y - LinearRegression().fit(X, y).predict(X)) ** 2))

    def left() -> float:
        model = PrivateRegressor(epsilon=1.0, delta=0.0, bounds=(-1.0, 1.0), target_bounds=(-1.0, 1.0))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return float(np.median([np.mean((y - model.fit(X, y).predict(X)) ** 2) for _ in range(31)])) - least

    bounded = left()
    monkeypatch.setattr(Declared, "slopes", lambda _: [(1.0, 1.0, 0.0, 0.0)])
    assert bounded < 0.6 * left()


def test_a_fit_that_is_interrupted_is_undone_but_for_what_it_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.linspace(-1.0, 1.0, 300)[:, None]
    model = PrivateRegressor(epsilon=1.0, bounds=(-1.0, 1.0), target_bounds=(-1.0, 1.0)).fit(X, X[:, 0])
    before = dict(vars(model))

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Settled, "model", interrupted)
    with pytest.warns(SpendingWarning), pytest.raises(KeyboardInterrupt):
        model.fit(X, -X[:, 0])
    assert vars(model) == before
    assert model.shared_ledger.spent == pytest.approx(2.0)
