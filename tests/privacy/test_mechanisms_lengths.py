"""Lengths of rows and intervals of targets: which bin, what a fit pays for them, and what follows from them."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from copriv.agreement import Agreement
from copriv.errors import AgreementError
from copriv.estimators import PrivateClassifier, PrivateRegressor, SharedLedger
from copriv.estimators.declared import Measured, measuring, terms, without_data
from copriv.losses import Squared
from copriv.mechanisms.expected import OFF_CENTRE
from copriv.mechanisms.lengths import BINS, EDGES, TARGETS, Histograms, by_bins, shares
from copriv.model.records import Records


def wanted(records: int, epsilon: float, feature_bound: object = "auto"):
    return terms(
        columns=2, loss="squared", threshold=1.0, regularization=1e-5, intercept=True, feature_bound=feature_bound,
        owners=[{"name": "a", "records": records, "epsilon": epsilon, "delta": 1e-6}],
    )  # fmt: skip


@pytest.mark.parametrize("intercept", [False, True])
def test_each_row_is_in_one_bin_of_each_histogram(intercept: bool) -> None:
    lengths = [1e200, 4.0, 2.0001, 2.0, 1.0, 0.9, 4.0 * 2.0**-8, 1e-300, 0.0]
    x = np.column_stack([0.6 * np.array(lengths), 0.8 * np.array(lengths), np.ones(len(lengths))])
    x = x if intercept else x[:, :2]
    y = [3.0, -0.6, 0.5, -0.5, 0.25, 0.2, 0.0, 0.0, 1e-300]
    found = Histograms(4.0, intercept, True).of(Squared(), Records.of(x, y), np.zeros(x.shape[1])) * len(lengths)
    np.testing.assert_allclose(found[:BINS], [3, 1, 2, 0, 0, 0, 0, 0, 3], atol=1e-12)
    by_end = [sum(bool(a < one <= b) for one in y) for a, b in pairwise([-np.inf, *EDGES, np.inf])]
    np.testing.assert_allclose(found[BINS:], by_end, atol=1e-12)


@pytest.mark.parametrize("counted", [None, np.arange(15) >= 3, np.arange(15) % 2 == 0, np.ones(15, bool)])
def test_the_bin_of_a_row_depends_on_that_row_alone(counted: np.ndarray | None) -> None:
    """Neighbouring tables had two persons in other bins, in place of one: a row beside others was rounded otherwise."""
    rng = np.random.default_rng(1)
    rows = np.column_stack([rng.normal(size=(4096, 15)), np.ones(4096)])
    own = rows[:, :15] if counted is None else rows[:, :15] * counted
    rows[:, :15] *= (2.0 / np.linalg.norm(own, axis=1) * rng.choice([1 - 2.0**-53, 1.0, 1 + 2.0**-52], 4096))[:, None]
    histograms = Histograms(4.0, True, False, counted=counted)  # between its first two bins, within rounding

    def bins(x: np.ndarray) -> np.ndarray:
        return histograms.of(Squared(), Records.of(x, np.zeros(len(x))), np.zeros(16)) * len(x)

    alone = np.array([bins(row[None]) for row in rows])
    assert 0.1 < alone[:, 0].mean() < 0.9
    assert np.array_equal(bins(rows), alone.sum(axis=0))
    for k in range(5):  # one row beside others, one in a block of its own
        assert np.array_equal(bins(np.vstack([rows, rows[: k + 1]])), alone.sum(axis=0) + alone[: k + 1].sum(axis=0))


def test_owners_count_the_length_of_numbers_and_targets_in_their_declared_range() -> None:
    terms = Agreement.of({
        "agreement": {"rule": "A2", "horizon": 1, "answers": 1, "step": 1.0, "mechanism": "lengths", "reach": 1.0},
        "model": {"loss": "squared", "gradient_bound": 1.0, "intercept": True},
        "data": {
            "features": ["colour", "size"], "categories": {"colour": ["red", "green", "blue"]}, "bounds": {
                "size": [0.0, 10.0], "price": [20.0, 60.0],
            },
            "target": "price", "feature_bound": 2.0, "components": 0,
        },
        "owner": [{"name": "a", "records": 2, "epsilon": 1.0}],
    })  # fmt: skip
    x = np.array([[1.0, 0.0, 0.0, 0.2, 1.0], [0.0, 0.0, 1.0, -0.6, 1.0]])  # one of levels each, size, and the intercept
    y = np.array([40.0 + 20.0 * 0.3, 40.0 - 20.0 * 0.9])
    found = Histograms.agreed(terms, 5).of(Squared(), Records.of(x, y), np.zeros(5))
    assert found[:BINS].tolist() == [0.5, 0, 0.5, 0, 0, 0, 0, 0, 0]
    assert found[BINS:].nonzero()[0].tolist() == np.searchsorted(EDGES, [-0.9, 0.3]).tolist()


def test_shares_are_the_nearest_that_are_shares() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        noisy = rng.normal(size=5)
        found = shares(noisy)
        assert found.sum() == pytest.approx(1.0)
        assert (found >= 0).all()
        others = rng.dirichlet(np.ones(5), 2000)
        assert np.square(found - noisy).sum() <= np.square(others - noisy).sum(axis=1).min() + 1e-12


@pytest.mark.parametrize("ε", [1.0, 0.7, 3.3])
def test_two_answers_of_a_fit_cost_what_was_stated(ε: float) -> None:
    rng = np.random.default_rng(0)
    X, ledger = rng.uniform(-1, 1, (20_000, 2)), SharedLedger(epsilon=ε)
    model = PrivateRegressor(epsilon=ε, bounds=(-8, 8), target_bounds=(-8, 8), ledger=ledger).fit(X, X[:, 0])
    assert model.scale_ > 1, "the columns' unit was found"
    assert model.privacy_spent_.epsilon == ledger.spent == ε
    _, rest, _ = measuring(wanted(20_000, ε), None)
    assert 0.85 * ε < rest["owner"][0]["epsilon"] < 0.95 * ε


def test_parts_add_up_to_the_budget_exactly() -> None:
    for ε in np.random.default_rng(1).uniform(0.5, 2.0, 200):
        asked, rest, _ = measuring(wanted(10_000, float(ε)), None)
        assert Fraction(asked.owner[0].epsilon) + Fraction(rest["owner"][0]["epsilon"]) == Fraction(float(ε))
        assert asked.owner[0].delta == 0


def test_nothing_is_spent_where_little_would_be_heard() -> None:
    assert measuring(wanted(3000, 1.0), None) is not None
    for norm, expected in (
        # Of two histograms from nε = 400 on where a norm is stated, and from 100 on where only ranges are; then of one.
        (1.0, {401: (0.1, True), 399: (0.1, False), 199: (0.2, False), 99: (0.4, False)}),
        (None, {401: (0.1, True), 201: (0.2, True), 101: (0.4, True), 99: (0.4, False)}),
    ):
        for n, (share, of_rows) in expected.items():
            asked = measuring(wanted(n, 1.0), norm)[0]
            assert (asked.owner[0].epsilon, asked.agreement.reach is not None) == (pytest.approx(share), of_rows)
        assert measuring(wanted(49, 1.0), norm) is None
    # No row is longer in L2 than a caller bounds it in L1.
    assert measuring(wanted(3000, 1.0, feature_bound=1.1), None)[0].agreement.reach == pytest.approx(1.1)


def test_of_targets_alone_there_is_one_histogram_and_of_classes_there_is_none() -> None:
    x, y = np.array([[1e200], [0.0], [0.3]]), np.array([0.6, -1.0, 0.6])
    found = Histograms(None, False, True).of(Squared(), Records.of(x, y), np.zeros(1))
    whole = Histograms(4.0, False, True).of(Squared(), Records.of(x, y), np.zeros(1))
    np.testing.assert_array_equal(found, whole[BINS:])
    known = Measured.of(whole[BINS:], 0.01, intercept=False)
    both = Measured.of(whole, 0.01, intercept=False)
    assert (known.columns, known.rows) == (0, ())
    assert (known.width, known.size) == (both.width, both.size)
    asked = measuring(wanted(99, 1.0), None)[0].to_dict()
    assert "length" not in Agreement.of(asked).mechanism.bins(Agreement.of(asked))
    asked["model"]["loss"] = "logistic"
    with pytest.raises(AgreementError, match="needs the largest length of a row"):
        Agreement.of(asked)


@pytest.mark.slow
@pytest.mark.parametrize("δ", [0.0, 1e-6])
def test_targets_far_smaller_than_declared_are_no_worse_than_a_model_of_0(δ: float) -> None:
    """Before, 1,260 rows with targets of a fifteenth of the stated range left ten times what a model of 0 does."""
    rng = np.random.default_rng(0)
    X = rng.normal(0, 0.5 / np.sqrt(15), (1260, 15))
    y = np.clip(X @ rng.normal(0, 0.05, 15) + rng.normal(0, 0.06, 1260), -1, 1)
    stated = {"bounds": (-1, 1), "row_norm": 1.0, "target_bounds": (-1, 1), "fit_intercept": False}
    # A sixth of them leave more: more than half of 79 less than once in a million, as long as fewer than a quarter do.
    fits = [PrivateRegressor(epsilon=0.1, delta=δ, **stated).fit(X, y) for _ in range(79)]
    assert np.median([np.mean((y - one.predict(X)) ** 2) for one in fits]) <= 1.1 * np.mean(y**2)


def targets_at(*shares_by_value: tuple[float, float]) -> np.ndarray:
    """Shares of targets that have a few values."""
    found = np.zeros(TARGETS)
    for value, share in shares_by_value:
        found[np.searchsorted(EDGES, value)] += share
    return found


def test_units_follow_where_hardly_a_row_is_longer() -> None:
    rows = np.zeros(BINS)
    rows[[0, 3, 4]] = 0.01, 0.59, 0.4
    found = Measured.of(np.concatenate([rows, targets_at((-0.7, 0.5), (-0.4, 0.5))]), 0.005, intercept=True, spent=0.1)
    assert (found.columns, found.centre, found.width, found.spent) == (3, -0.5, 0.25, 0.1)
    np.testing.assert_allclose(found.rows, [0.6, 0.4, 0, 0, 0, 0])
    mean, variance = found.size
    assert mean == pytest.approx(2 * (0.5 * 0.5 * OFF_CENTRE) ** 2)  # each half of targets is off the middle of its bin
    # Two bins side by side: uniform within them or, what is as likely, a narrow heap about the edge between them.
    assert by_bins(found.noisy[BINS:], 0.005, True)[2][1] == pytest.approx(0.25 + 1 / 12)
    assert 0.0 < variance < 0.5 * (0.25 + 1 / 12)
    np.testing.assert_allclose(found.clipped(np.array([-1.0, -0.5, 0.3])), [-1.0, 0.0, 1.0])
    assert Measured.of(rows, 0.0, intercept=True).width == 1.0


def test_without_an_intercept_the_interval_is_about_0() -> None:
    rows = np.zeros(BINS)
    rows[0] = 1.0
    found = Measured.of(np.concatenate([rows, targets_at((-0.2, 0.5), (0.1, 0.5))]), 0.005, intercept=False)
    assert (found.centre, found.width) == (0.0, 0.25)
    assert sum(found.size) == pytest.approx(0.5 * (0.75**2 + 0.5**2 / 12) + 0.5 * (0.375**2 + 0.25**2 / 12))


def test_an_interval_that_is_too_narrow_clips_at_most_a_quarter_at_either_end() -> None:
    rng, rows = np.random.default_rng(0), np.zeros(BINS)
    rows[0] = 1.0
    for scale in (0.0, 0.02, 0.1):
        shares_ = rng.dirichlet(np.ones(TARGETS))
        found = Measured.of(np.concatenate([rows, shares_]), scale, intercept=True)
        ends = np.array([-1.0, *EDGES, 1.0])
        assert shares_[ends[1:] <= found.centre - found.width].sum() <= 0.25
        assert shares_[ends[:-1] >= found.centre + found.width].sum() <= 0.25


def noisy_readings(values: np.ndarray, scale: float, draws: int, intercept: bool = True) -> list[Measured]:
    exact = np.bincount(np.searchsorted(EDGES, values), minlength=TARGETS) / len(values)
    return [
        Measured.of(exact + noise, scale, intercept)
        for noise in np.random.default_rng(0).laplace(0, scale, (draws, TARGETS))
    ]


@pytest.mark.parametrize("intercept", [False, True])
def test_noise_in_a_far_bin_is_not_taken_for_rows(intercept: bool) -> None:
    """Read bin by bin, one answer in a hundred had an interval four times as wide, and a variance fifty times too large."""
    targets = np.random.default_rng(0).normal(0, 0.02, 5000)  # of a range that is twenty times too wide
    found = noisy_readings(targets, 0.02, 1000, intercept)
    assert np.quantile([one.width for one in found], 0.995) <= 0.125
    assert np.quantile([one.size[1] * one.width**2 for one in found], 0.995) <= 10 * 0.02**2


def test_where_all_targets_are_in_one_bin_their_mean_is_not_taken_for_its_middle() -> None:
    """It was, so that an intercept was held there: 0.25 of the variance more than a constant in a tenth of skewed fits."""
    answer = np.zeros(TARGETS)
    answer[np.searchsorted(EDGES, -0.6)] = 1.0
    found = Measured.of(answer, 0.01, intercept=True)
    assert (found.centre, found.width) == (-0.625, 0.125)
    assert found.size is not None
    assert found.size[0] == pytest.approx(OFF_CENTRE**2)


def test_targets_about_an_edge_are_not_as_spread_as_the_bins_beside_it() -> None:
    """They were read as uniform in both bins: 52 times as much, which promised a gain that was not there."""
    targets = np.random.default_rng(0).normal(-0.5, 0.02, 5000)
    found = noisy_readings(targets, 0.02, 50)
    times = [one.size[1] / one.clipped(targets).var() for one in found]
    assert np.median(times) <= 10, "a heap that is narrower than a bin may have any width below it"


@pytest.mark.parametrize("values", ["normal", "skewed", "two lumps", "many lumps"])
def test_intervals_are_those_of_the_targets_whatever_their_shape(values: str) -> None:
    rng = np.random.default_rng(0)
    targets = {
        "normal": rng.normal(0.3, 0.15, 5000), "skewed": rng.exponential(0.1, 5000) - 0.5,
        "two lumps": rng.choice([-0.4, 0.9], 5000, p=[0.7, 0.3]), "many lumps": rng.choice([-0.9, -0.3, 0.1, 0.6], 5000),
    }[values]  # fmt: skip
    found = noisy_readings(targets, 0.02, 200)
    assert np.quantile([np.mean(np.abs(one.clipped(targets)) == 1) for one in found], 0.98) <= 0.3, "few are clipped"
    times = [one.size[1] / one.clipped(targets).var() for one in found]
    assert np.quantile(times, 0.98) <= 2.0, "no gain is promised that is not there"


def test_ranges_ten_times_too_wide_lose_little() -> None:
    """Before, they lost nearly all of the model (issue 27)."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (5000, 4))
    y = X @ [0.5, -0.3, 0.2, 0.0] + rng.normal(0, 0.1, 5000)
    model = PrivateRegressor(epsilon=1.0, bounds=(-10, 10), target_bounds=(-10, 10)).fit(X, y)
    assert model.score(X, y) > 0.8
    labels = PrivateClassifier(epsilon=1.0, bounds=(-10, 10), classes=(False, True)).fit(X, y > 0)
    assert labels.score(X, y > 0) > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("δ", [0.0, 1e-6])
def test_of_few_rows_wide_ranges_leave_more_than_a_private_mean_does(δ: float) -> None:
    """500 rows at ε = 1: the median score was −3 (nine of ten below 0) where nothing was spent on lengths of so few rows."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (500, 4))
    y = X @ [0.5, -0.3, 0.2, 0.0] + rng.normal(0, 0.1, 500)
    # A tenth of them leave more: more than half of 47 less than once in a million, as long as fewer than 19 of 100 do.
    fits = (PrivateRegressor(epsilon=1.0, delta=δ, bounds=(-10, 10), target_bounds=(-10, 10)) for _ in range(47))
    assert np.median([one.fit(X, y).score(X, y) for one in fits]) > 0


def test_a_unit_is_rather_too_close_than_far_too_wide() -> None:
    """A share of 3 to 6 scales may be noise of an empty bin; it costs little to clip up to a fifth of the rows."""
    rows = np.zeros(BINS)
    rows[[0, 4]] = 0.09, 0.91
    assert [Measured.of(rows, scale, True).columns for scale in (0.01, 0.02, 0.035, 0.2 / 3)] == [0, 4, 4, 4]


def test_a_measured_fit_that_noise_drowns_says_so() -> None:
    """200 rows, 40 % of ε for lengths, and 60 columns: nothing but 0 is expected of the rest."""
    X = np.random.default_rng(0).uniform(-1, 1, (200, 60))
    model = PrivateRegressor(epsilon=0.6, bounds=(-100, 100), target_bounds=(-1, 1), fit_intercept=False)
    with pytest.warns(RuntimeWarning, match="nearly a constant. It takes an epsilon of"):
        model.fit(X, 0.01 * X[:, 0])
    assert model.expected_gap_ > 0.9
    assert model.privacy_spent_.epsilon == 0.6


def test_of_rows_that_count_for_shares_the_mean_share_is_found_and_lengths_are_those_of_what_counts() -> None:
    """Half of the rows are long and count for a tenth, the others are a quarter as long and count for a half."""
    long = np.arange(4000) % 2 == 0
    x, share = np.where(long, 1.0, 0.25)[:, None], np.where(long, 0.1, 0.5)
    answer = Histograms(1.0, False, True).of(Squared(), Records.of_shares(x, np.full(4000, 0.5), share), np.zeros(1))
    known = Measured.of(answer, 1e-3, intercept=True, weighted=True)
    assert known.counted == pytest.approx(0.3)
    assert known.rows[0] == pytest.approx(1 / 6)
    assert sum(known.rows) == pytest.approx(1.0)
    assert known.size == Measured.of(answer, 1e-3, intercept=True).size, "all targets are read"
    faint = Measured.of(answer, 0.1, intercept=True, weighted=True)
    assert faint.columns == 0, "too little of them counts to be heard"


def test_rows_of_zeros_beside_few_long_ones_tell_no_unit() -> None:
    """Columns of 0 and 1 that are rarely 1: in a unit of the zeros the others would not count."""
    rows = np.array([0.09, 0.02, *np.zeros(BINS - 3), 0.89])
    assert Measured.of(rows, 0.02, intercept=True).columns == 0


def test_a_measured_length_means_tighter_bounds_where_there_is_no_intercept() -> None:
    short = {**wanted(3000, 1.0), "model": {**wanted(3000, 1.0)["model"], "intercept": False}}
    plain = without_data(short)
    known = without_data(short, None, Measured(rows=(0.01, 0.04, 0.95)))
    assert known.agreement.gradient_bound < plain.agreement.gradient_bound
