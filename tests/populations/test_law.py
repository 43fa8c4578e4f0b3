"""Worlds: what the law, the pool and the deal must keep, each against a count or a formula of its own."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_expit

from copriv import Agreement, Problem
from copriv.data.extreme_values import Tail
from copriv.errors import InvalidInput
from copriv.model.records import Records
from copriv.populations.law import INTENSITIES, Law
from copriv.populations.public_sample import PublicSample
from copriv.populations.targets import Classes, Regression, Sites
from copriv.populations.world import draw_without_replacement


def problem_of(X, y, records=(300, 200), loss="squared", c=0.0, **model):
    owners = [{"name": f"o{i}", "records": n, "epsilon": 1.0} for i, n in enumerate(records)]
    agreement = Agreement.of(
        {
            "agreement": {"rule": "auto", "horizon": 9},
            "model": {"loss": loss, "regularization": c, **model},
            "owner": owners,
        }
    )
    return Problem.forecasting(agreement, (X, y))


def table(seed, n, p, noise=1.0, labels=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    z = X @ np.ones(p)
    if labels:
        return X, np.where(rng.random(n) < 1 / (1 + np.exp(-z)), 1.0, -1.0)
    return X, z + noise * rng.normal(size=n)


@pytest.mark.parametrize(("n", "p"), [(200, 3), (30, 12)])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_pool_has_the_owners_records_and_a_deal_shares_them_out(n, p, loss):
    law = Law(problem_of(*table(1, n, p, labels=loss == "logistic"), loss=loss, c=1e-3))
    assert law.plenty is (n == 200)
    world = PublicSample(law.problem).drawn(1)[0]
    assert world.pool.owners[0].units == 500
    dealt = world.dealt().problem(law.problem.terms)
    assert [owner.units for owner in dealt.owners] == [300, 200]
    theta = np.ones(p)
    assert float(dealt.fitness.value(theta)) == pytest.approx(float(world.pool.fitness.value(theta)), rel=1e-12)


@pytest.mark.slow
def test_few_rows_do_not_promise_a_perfect_model():
    """Thirty rows for 25 parameters: their own best fitness is a sixth of the truth; the worlds' is about the truth."""
    best, own = [], []
    for seed in range(6):
        X, y = table(seed, 30, 25, noise=2.0)
        problem = problem_of(X, y, records=(5000,))
        own.append(problem.optimum.value)
        best += [world.optimum.value for world in PublicSample(problem).worlds(8)]
    assert np.mean(own) < 0.35 * 4.0
    assert 0.4 * 4.0 < np.median(best) < 4 * 4.0


def test_the_public_model_of_few_rows_is_better_than_one_that_fits_them_all():
    ours, theirs = [], []
    for seed in range(8):
        X, y = table(seed, 30, 25, noise=3.0)
        pool = problem_of(*table(1000 + seed, 4000, 25, noise=3.0)).fitness
        problem = problem_of(X, y)
        ours.append(float(pool.value(PublicSample(problem).optimum.theta)))
        theirs.append(float(pool.value(problem.optimum.theta)))
    assert np.mean(ours) < 0.5 * np.mean(theirs)


def correlated(seed, n, p):
    """Columns of which a third are what the others are made of, nearly: the least eigenvalue is a thousandth of the mean."""
    mix = np.random.default_rng(seed).normal(size=(p // 3, p))
    rng = np.random.default_rng([seed, n])
    return rng.normal(size=(n, p // 3)) @ mix + 0.1 * rng.normal(size=(n, p))


def test_how_far_correlations_are_shrunk_is_what_rows_left_out_make_likely():
    """Against the definition, row by row, with fewer rows than columns and with more."""
    for n, p in ((12, 6), (9, 12)):
        x = correlated(3, n, p)
        z = (x - x.mean(axis=0)) / x.std(axis=0)

        def unlikely(α, z=z, n=n, p=p):
            total = 0.0
            for i in range(n):
                rest = np.delete(z, i, axis=0)
                away = z[i] - rest.mean(axis=0)
                covariance = (1 - α) * np.cov(rest.T, bias=True) + α * np.eye(p)
                total += np.linalg.slogdet(covariance)[1] + away @ np.linalg.solve(covariance, away)
            return total

        best = min(INTENSITIES, key=unlikely)
        law = Law(problem_of(x, x @ np.ones(p)))
        assert law.features.intensity == pytest.approx(best, rel=1e-9)


def test_few_rows_of_correlated_columns_stay_as_correlated():
    """In every direction of the truth, records of a world spread as the truth does: by a half to twice, mean over worlds.

    An intensity of least squared error makes the narrowest directions eight times as wide.
    """
    x, truth = correlated(5, 90, 18), correlated(5, 40_000, 18)
    law = Law(problem_of(x, x @ np.ones(18), records=(3000,)))
    assert not law.plenty
    a, U = np.linalg.eigh(np.cov(truth.T))
    seen = np.mean(
        [((r.features @ U).T @ ((r.features @ U) * r.weight[:, None])).diagonal() / r.weight.sum()
         for r in (law.draw((0, i)).pool.unbounded[0] for i in range(20))], axis=0
    )  # fmt: skip
    assert (seen / a > 0.5).all()
    assert (seen / a < 2.0).all()


def test_few_rows_make_a_table_of_many_different_ones():
    """Equal rows with different targets would be noise that no model fits."""
    x = correlated(7, 60, 30)
    rows = Law(problem_of(x, x @ np.ones(30), records=(300,))).draw((0, 1)).pool.unbounded[0]
    assert len(np.unique(rows.features, axis=0)) > 0.75 * len(rows)


def test_copies_are_one_observation():
    X, y = table(3, 60, 2)
    again = np.random.default_rng(0).integers(0, 60, size=180)
    assert Law(problem_of(X[again], y[again])).observations == len(np.unique(again))
    assert Law(problem_of(X, y)).observations == 60
    levels = np.random.default_rng(0).integers(0, 2, size=(200, 2)).astype(float)
    few = Law(problem_of(levels, np.sign(levels[:, 0] - 0.5), loss="logistic"))
    assert few.observations == 200  # rows of few levels agree by chance


@pytest.mark.parametrize("loss", ["squared", "hinge"])
def test_a_pool_of_copies_has_as_few_different_rows(loss):
    """90 records of about 30 originals, as many as public rows stand for. They were 90 different ones."""
    X, y = table(3, 200, 2, labels=loss == "hinge")
    again = np.random.default_rng(0).integers(0, 200, size=600)
    law = Law(problem_of(X[again], y[again], loss=loss, records=(90,)))
    assert law.plenty
    for k in range(20):
        rows = law.draw((0, k)).pool.unbounded[0]
        assert len(np.unique(np.column_stack([rows.features, rows.target]), axis=0)) == len(rows) <= 90 * 0.35
        assert rows.total == 90


def test_worlds_are_as_far_apart_as_samples_are():
    """The spread of the worlds' optima is that of optima over fresh samples of the law (Var θ̂ = σ²/n₀ + σ²/n)."""
    X, y = table(5, 400, 2)
    worlds = PublicSample(problem_of(X, y, records=(800,))).worlds(200)
    spread = np.var([world.optimum.theta for world in worlds], axis=0)
    np.testing.assert_allclose(spread, 1 / 400 + 1 / 800, rtol=0.45)


def test_worlds_of_classes_are_as_far_apart_as_samples_are():
    """The same for classes that are drawn anew: H⁻¹/n₀ of the posterior, and 1/n more of the pool."""
    X, y = table(5, 180, 2, labels=True)
    sample = PublicSample(problem_of(X, y, loss="logistic", records=(4000,)))
    spread = np.var([world.optimum.theta for world in sample.worlds(120)], axis=0)
    np.testing.assert_allclose(spread, np.diag(np.linalg.inv(sample.hessian)) * (1 / 180 + 1 / 4000), rtol=0.5)


@given(seed=st.integers(0, 1000), shape=st.sampled_from([0.0, 0.3]))
@settings(max_examples=20, deadline=None)
def test_a_tail_reaches_beyond_what_was_seen(seed, shape):
    rng = np.random.default_rng(seed)
    draws = rng.exponential(size=500) if shape == 0 else (rng.random(500) ** -shape - 1) / shape
    tail = Tail.of(draws)
    level = tail.level(1e-4)
    true = -np.log(1e-4) if shape == 0 else (1e-4**-shape - 1) / shape
    assert true / 5 < level < 8 * true
    assert tail.longer().level(1e-4) >= level


def test_records_that_any_model_fits_are_refused_with_the_remedy():
    X, y = table(0, 900, 45)
    with pytest.raises(InvalidInput, match=r"model\.regularization above 0"):
        PublicSample(problem_of(X, y, records=(20,))).worlds(3)
    assert len(PublicSample(problem_of(X, y, records=(20,), c=1e-2)).worlds(3)) == 3


def test_some_of_very_many_keep_the_law_of_some_of_many():
    """Beyond what the exact law counts, means and spreads are those of the hypergeometric law, and nobody is drawn twice."""
    counts, number = np.array([4, 1, 3, 2]) * 10**9, 3 * 10**9
    drawn = np.array([draw_without_replacement(np.random.default_rng(seed), counts, number) for seed in range(400)])
    total, share = counts.sum(), counts / counts.sum()
    assert (drawn.sum(axis=1) == number).all()
    assert ((drawn >= 0) & (drawn <= counts)).all()
    spread = np.sqrt(number * share * (1 - share) * (total - number) / (total - 1))
    assert (np.abs(drawn.mean(axis=0) - number * share) < 5 * spread / 20).all()
    assert np.allclose(drawn.std(axis=0), spread, rtol=0.2)


def test_some_of_very_many_can_be_all_of_a_row():
    counts = np.array([10**9, 5, 0])
    drawn = draw_without_replacement(np.random.default_rng(1), counts, 10**9 + 3)
    assert drawn.sum() == 10**9 + 3
    assert (drawn <= counts).all()


def levels(seed, n, rare=0.0):
    """One of three levels a row, the last of them in a share `rare`, and two numbers."""
    rng = np.random.default_rng(seed)
    first = np.eye(3)[rng.choice(3, size=n, p=[0.6, 0.4 - rare, rare])]
    x = np.hstack([first, rng.normal(size=(n, 2))])
    return x, x @ [1.0, -1.0, 3.0, 1.0, 0.5] + rng.normal(size=n)


@pytest.mark.parametrize("loss", ["squared", "hinge"])
def test_a_level_that_no_public_row_has_is_in_worlds_as_often_as_the_rule_of_succession_says(loss):
    x, y = levels(1, 80)
    problem = problem_of(x, np.sign(y) if loss == "hinge" else y, loss=loss, records=(4000,))
    law = Law(problem)
    assert law.plenty
    assert law.features.unseen.tolist() == [2]
    tables = [law.draw((0, i)).pool.unbounded[0] for i in range(100)]
    shares = np.array([r.weight @ r.features[:, 2] / r.weight.sum() for r in tables])
    assert shares.mean() == pytest.approx(1 / 81, abs=5 / 81 / np.sqrt(100))
    assert all((r.features[:, :3].sum(axis=1) == 1.0).all() for r in tables)
    told = [r.target[r.features[:, 2] > 0].mean() for r in tables if r.features[:, 2].any()]
    assert np.std(told) > 0.2  # what such records are like is not known


def test_a_plan_does_not_take_the_curvature_along_an_unseen_level_for_nothing():
    """It was 1e-7 of the largest, and noise in a model 26,000 times as loud there as elsewhere."""
    x, y = levels(1, 80)
    for loss in ("squared", "hinge"):
        sample = PublicSample.of(problem_of(x, np.sign(y) if loss == "hinge" else y, loss=loss))
        a = np.linalg.eigvalsh(sample.hessian)
        assert a[-1] / a[0] < 1000


def test_a_column_of_zeros_among_numbers_is_constant():
    x = np.random.default_rng(0).normal(size=(80, 3))
    x[:, 0] = 0.0
    law = Law(problem_of(x, x @ np.ones(3)))
    assert not law.unseen
    assert not law.draw((0, 1)).pool.unbounded[0].features[:, 0].any()


def test_a_row_that_stands_alone_does_not_know_its_own_noise():
    """A level that one row has: its value moves from world to world, by about the noise of a single row."""
    x, y = levels(2, 120, rare=0.0)
    x[0, :3] = [0.0, 0.0, 1.0]
    problem = problem_of(x, y, records=(20_000,))
    found = np.array([w.optimum.theta[2] for w in PublicSample(problem).worlds(40)])
    assert np.std(found) > 0.5


def test_the_best_fitness_of_a_world_is_as_large_as_that_of_the_pool():
    """Ten rows a parameter: the rows' own is a tenth too low, and that of a world on the same ones was again."""
    best = []
    for seed in range(20):
        problem = problem_of(*table(seed, 120, 12), records=(50_000,))
        best += [world.optimum.value for world in PublicSample(problem).worlds(4)]
    assert np.mean(best) == pytest.approx(1.0, abs=0.07)


def halves_apart(problem):
    """How much the mean of two halves' best models costs on all records: it lies between kinks, which rows make."""
    raw = problem.unbounded[0]
    rng = np.random.default_rng(0)
    first = draw_without_replacement(rng, raw.weight.astype(np.int64), int(raw.total) // 2)
    models = []
    for half in (first, raw.weight.astype(np.int64) - first):
        some = half > 0
        part = Records(raw.features[some], raw.target[some], half[some].astype(float))
        models.append(problem.fitness_of(part).minimum(problem.optimum.theta, 1e-7).theta)
    return problem.fitness.value(np.mean(models, axis=0)) / problem.optimum.value - 1.0


def test_kinks_of_a_world_lie_as_close_as_the_pools():
    """At a hundred rows that were there eighty times each, the mean of halves was ten times as far from the best."""
    X, y = table(4, 8100, 4, labels=True)
    real = Problem.of(problem_of(X, y, loss="hinge", records=(8000,)).terms, [(X[100:], y[100:])], (X[:100], y[:100]))
    sample = PublicSample(problem_of(X[:100], y[:100], loss="hinge", records=(8000,)))
    worlds = np.median([halves_apart(world) for world in sample.worlds(8)])
    assert worlds < 6.0 * max(halves_apart(real), 1e-5), (worlds, halves_apart(real))


@pytest.mark.parametrize("loss", [pytest.param("hinge", marks=pytest.mark.slow), "logistic"])
def test_classes_of_a_world_are_as_hard_to_tell_apart_as_the_pools(loss):
    """Of twenty rows a parameter; what rows' own classes say was a quarter too low."""
    told, truth = [], []
    for seed in range(6):
        x, y = table(seed, 120, 6, labels=True)
        truth.append(problem_of(*table(100 + seed, 1500, 6, labels=True), loss=loss).optimum.value)
        worlds = PublicSample(problem_of(x, y, loss=loss, records=(3_000,))).worlds(3)
        told += [world.optimum.value for world in worlds]
    assert np.mean(told) == pytest.approx(np.mean(truth), rel=0.1)


def test_a_model_without_a_constant_is_not_taken_for_noise():
    """Counts, with a target that is affine in them: what a constant left out costs is taken from the columns, not shrunk."""
    mean = np.exp(np.linspace(-1.0, 2.5, 12))

    def counts(seed, n):
        rng = np.random.default_rng(seed)
        x = rng.poisson(mean, size=(n, 12)).astype(float)
        return x, ((x - mean) / np.sqrt(mean)) @ np.cos(2.0 * np.arange(12)) - 6.0 + 0.1 * rng.normal(size=n)

    pool, worse = problem_of(*counts(1, 20_000), c=1e-3), []
    for seed in range(2, 8):
        problem = problem_of(*counts(seed, 36), c=1e-3)
        assert not Law(problem).plenty
        worse.append(float(pool.fitness.value(PublicSample(problem).optimum.theta)) / pool.optimum.value - 1.0)
    assert np.mean(worse) < 0.2  # it was 0.6


@pytest.mark.parametrize("rounded", [0.0, 1e-9, 1e-3])
@pytest.mark.parametrize("c", [0.0, 1e-5])
def test_a_column_that_is_the_sum_of_others_makes_no_targets_that_nobody_has(c, rounded):
    """A longer row is no such sum: with coefficients of a million, targets of a world were 26,000 times the largest."""
    rng = np.random.default_rng(3)
    parts = rng.exponential(size=(400, 2))
    total = parts.sum(axis=1) - 2.0 + rounded * rng.normal(size=400)
    X = np.column_stack([parts, total, np.ones(400)]) / 10.0
    y = X @ [1.0, 2.0, 0.0, 1.0] + 0.1 * rng.standard_t(3, size=400)
    law = Law(problem_of(X, y, c=c))
    for seed in range(5):
        assert np.abs(law.draw((seed,)).pool.owners[0].target).max() < 4.0 * np.abs(y).max()


def test_columns_of_two_values_and_constants_are_not_longer_than_they_were_seen():
    """A level stays a level in whatever unit it is agreed, and a constant the constant that it is."""
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.standard_t(3, size=300), (rng.random(300) < 0.1) * 3.3 - 0.4, np.full(300, 7.0)])
    law = Law(problem_of(X, X @ np.array([1.0, 0.5, 0.1]) + rng.normal(size=300)))
    worlds = [law.draw((i,)).pool.unbounded[0].features for i in range(5)]
    assert np.abs(np.vstack(worlds)[:, 0]).max() > np.abs(X[:, 0]).max()
    for drawn in worlds:
        assert set(np.unique(drawn[:, 1])) <= set(np.unique(X[:, 1]))
        assert set(np.unique(drawn[:, 2])) == {7.0}


@pytest.mark.slow
def test_few_rows_know_the_size_of_skewed_noise_worst():
    """Bands of worlds' best fitness hold that of the law in two of three tables of 60 rows; by χ² in a quarter of them."""
    rng, held = np.random.default_rng(8), []
    for _ in range(30):
        X = rng.normal(size=(60, 12))
        noise = rng.lognormal(0.0, 1.0, size=60)
        law = Law(problem_of(X, X @ np.ones(12) + noise, records=(4000,), intercept=True))
        assert not law.plenty
        found = [law.draw((i,)).pool for i in range(24)]
        best = np.array([pool.fitness.minimum(np.zeros(13)).value for pool in found])
        truth = np.exp(2.0) - np.exp(1.0)  # the variance of that noise; f is the mean square
        low, high = np.quantile(best, [0.05, 0.95])
        held.append(low <= truth <= high)
    assert np.mean(held) >= 0.6


def test_few_events_among_many_rows_keep_what_features_are():
    """Five events in 600 rows say little of classes, and as much of features as 600 rows do: no row is moved to another.

    Where heavy columns were moved, the public model of card payments without an intercept was at ψ = 3, and is at 0.15.
    """
    rng = np.random.default_rng(9)
    X = rng.standard_t(3, size=(600, 8))
    y = np.where(np.arange(600) % 120 == 7, 1.0, -1.0)
    sample = PublicSample(problem_of(X, y, records=(5000,), loss="logistic", c=1e-3))
    law = sample.law
    assert law.plenty
    assert law.few_events
    assert law.events == 20
    smoothed = sample.smooth.unbounded[0]
    assert {tuple(row) for row in smoothed.features} == {tuple(row) for row in X}
    assert smoothed.total == pytest.approx(600)
    assert 2 < smoothed.weight[smoothed.target > 0].sum() < 10
    drawn = law.draw((0,)).pool.unbounded[0]
    inside = np.abs(X).sum(axis=1) < np.quantile(np.abs(X).sum(axis=1), 0.8)
    ordinary = {tuple(row) for row in X[inside]}
    assert (
        sum(weight for row, weight in zip(drawn.features, drawn.weight, strict=True) if tuple(row) in ordinary) > 3500
    )
    many = np.where(rng.random(600) < 0.5, 1.0, -1.0)
    assert not Law(problem_of(X, many, loss="logistic", c=1e-3)).few_events


def test_the_posterior_of_classes_is_that_of_quadrature():
    """One column, twelve rows that are apart: margins may be endless, and Laplace's approximation stands at a tenth of them."""
    x = np.linspace(-1.0, 1.0, 12)
    y = np.sign(x)
    model = Classes(Records(x[:, None], y, np.ones(12)))
    z = x / x.std()
    theta, c = np.sinh(np.linspace(-3.0, 6.5, 1500))[:, None], np.linspace(-25.0, 25.0, 301)
    told = sum(log_expit(b * (theta * a + c)) for a, b in zip(z, y, strict=True)) - 0.02 * c**2
    prior = sum(np.exp(-0.5 * theta**2 / w) / np.sqrt(w) for w in Classes.WIDTHS)
    density = (np.exp(told) * prior).sum(axis=1) * np.cosh(np.linspace(-3.0, 6.5, 1500))
    below = np.cumsum(density) / density.sum()
    rng, ends = np.random.default_rng(0), np.array([[0.0], [x.std()]])
    draws = np.array([np.diff(model.logits(rng, ends))[0] for _ in range(4000)])
    for level in (0.1, 0.5, 0.9):
        at = float(np.interp(level, below, theta[:, 0]))
        assert np.mean(draws < at) == pytest.approx(level, abs=0.08)


def test_moments_of_sites_are_those_of_quadrature():
    """The normal law that a chain begins at, of few rows: mean and spread of θ under one width."""
    x, prior = np.linspace(-1.0, 1.0, 12) / np.linspace(-1.0, 1.0, 12).std(), np.array([1 / 100.0])
    mean, precision, evidence = Sites(np.abs(x)[:, None]).matched(prior)
    theta = np.linspace(-40.0, 60.0, 20001)
    told = log_expit(np.abs(x)[:, None] * theta).sum(axis=0) - 0.5 * theta**2 / 100 - 0.5 * np.log(200 * np.pi)
    density = np.exp(told)
    whole, first = density.sum() * 0.005, (density * theta).sum() / density.sum()
    second = (density * np.square(theta - first)).sum() / density.sum()
    assert evidence == pytest.approx(np.log(whole), abs=0.3)
    assert mean[0] == pytest.approx(first, rel=0.1)
    assert 1.0 / precision[0, 0] == pytest.approx(second, rel=0.25)


def test_means_of_many_columns_that_are_off_by_chance_are_not_means():
    """Thirty columns about 0, fifty rows: worlds' means are off by a little in all, and were by 2·30/50, so that a model
    without a constant found one in them. Of columns whose means are far off 0, worlds keep what is seen."""
    rng = np.random.default_rng(11)
    x = rng.normal(size=(50, 30))
    for away, least, most in ((0.0, 0.0, 0.45), (4.0, 0.6, 2.4)):
        law = Law(problem_of(x + away, x[:, 0], records=(9000,)))
        tables = [law.draw((i,)).pool.unbounded[0] for i in range(12)]
        off = [np.square(t.weight @ t.features / t.weight.sum() - away).sum() for t in tables]
        assert least < np.mean(off) < most


def test_a_fit_to_rows_that_stand_for_many_records_takes_no_more_noise_for_signal_than_to_them():
    """1,500 rows for 40,000 records: a fit of 61 numbers took 61/1500 of the noise, and takes 61/40,000, as all of them."""
    rng = np.random.default_rng(12)
    x = rng.normal(size=(1500, 60))
    model = Regression(Records(x[:200], rng.normal(size=200), np.ones(200)))
    whole, share, left = np.column_stack([x, np.ones(1500)]), [], []
    for seed in range(30):
        few, many = (
            model.told(np.random.default_rng(seed), x, np.ones(len(x)), records=records).target
            for records in (1500, 40_000)
        )
        noise = few - many
        at = whole @ np.linalg.lstsq(whole, noise, rcond=None)[0]
        assert np.square(at).sum() > 0.9 * np.square(noise).sum()  # it is noise that a model can follow that goes
        share.append(np.square(at).mean())
        left.append(np.square(many - whole @ np.linalg.lstsq(whole, many, rcond=None)[0]).mean())
    taken = (1 - np.sqrt(1500 / 40_000)) ** 2 * 61 / 1500
    assert np.mean(share) == pytest.approx(taken * np.mean(left), rel=0.2)


def test_rows_of_a_world_of_many_records_are_of_both_classes():
    """A row that stands for 27 records is of each class as often as chance has it, and not of one 27 times."""
    x, y = table(12, 100, 30, labels=True)
    law = Law(problem_of(x, y, loss="logistic", records=(40_000,)))
    rows = law.draw((2,)).pool.unbounded[0]
    assert rows.units == 40_000
    _, which = np.unique(rows.features, axis=0, return_inverse=True)
    assert which.max() + 1 == 1500
    assert len(rows) > 1.2 * 1500
    assert set(np.unique(np.bincount(which.ravel(), weights=rows.weight))) == {26.0, 27.0}


def test_one_row_of_several_columns_has_worlds():
    """Its columns have no spread to be told means in: that was nothing by nothing."""
    for loss in ("squared", "logistic"):
        X, y = table(2, 1, 3, labels=loss == "logistic")
        pool = Law(problem_of(X, y, loss=loss, c=1e-3)).draw((0, 1)).pool.unbounded[0]
        assert np.isfinite(pool.features).all()
        assert pool.weight.sum() == 500


def test_one_row_of_numbers_is_no_forecast_of_a_perfect_model():
    """It was: 0 % above the best, in 90 % of runs."""
    with pytest.raises(InvalidInput, match="one public row"):
        PublicSample(problem_of(*table(2, 1, 2), c=1e-3, intercept=True)).drawn(2)


@pytest.mark.parametrize("labels", [False, True])
def test_a_constant_column_is_constant_whatever_number_it_is(labels):
    """The mean of many 0.1 is another number than 0.1, and that of many 0.5 is not."""
    X, y = table(4, 9, 3, labels=labels)
    seen = []
    for constant in (0.5, 0.1):
        X[:, 1] = constant
        law = Law(problem_of(X, y, loss="hinge" if labels else "squared", c=1e-3))
        pool = law.draw((0, 1)).pool.unbounded[0]
        assert (pool.features[:, 1] == constant).all()
        seen.append((law.features.intensity, np.delete(pool.features, 1, axis=1)))
    assert seen[0][0] == seen[1][0]
    np.testing.assert_allclose(seen[0][1], seen[1][1], rtol=1e-9)


def test_rows_beside_a_constant_column_are_moved_apart_without_a_warning():
    X, y = table(4, 80, 3, labels=True)
    X[:, 1] = 0.1
    features = Law(problem_of(X, y, loss="hinge")).features
    with np.errstate(all="raise", under="ignore"):
        moved = features.perturbed(np.random.default_rng(0), X)
    assert (moved[:, 1] == 0.1).all()
    assert (moved[:, 0] != X[:, 0]).any()


@pytest.mark.parametrize("n", [200, 20])
def test_worlds_of_small_targets_are_those_of_large_ones_in_their_unit(n):
    """Targets of 1e-7 were said to be fitted exactly; those that are constant are, in any unit."""
    X, y = table(5, n, 3)
    large, small = (PublicSample(problem_of(X, unit * y)).drawn(2) for unit in (1.0, 1e-7))
    for one, other in zip(large, small, strict=True):
        assert other.pool.optimum.value == pytest.approx(1e-14 * one.pool.optimum.value, rel=1e-6)
    with pytest.raises(InvalidInput, match="fitted exactly"):
        PublicSample(problem_of(X, np.full(n, 1e-7), intercept=True)).drawn(2)


def test_a_class_of_three_in_a_thousand_is_learnt() -> None:
    """From a start at 0 the first step has log odds of thousands, and nothing is a number after it."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (10_000, 3))
    y = np.where(rng.random(len(x)) < 0.003 * np.exp(0.5 * x[:, 0]), 1.0, -1.0)
    assert Classes(Records.of(x, y)).chance(x).mean() == pytest.approx((y > 0).mean(), rel=0.1)
