"""Worlds in which public rows say whose they are: partial pooling held against dense algebra, and against owners known."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.linalg import eigh, fractional_matrix_power
from scipy.stats import multivariate_normal

import copriv
from copriv.agreement import Agreement
from copriv.cli.commands.learner import _public_rows
from copriv.errors import AgreementError, CoprivError, DataError, UsageError
from copriv.forecast.assessment import Assessment, Band
from copriv.forecast.standalone_models import WithoutJoining
from copriv.model.records import Records
from copriv.network.setup import digest_of, make_consortium
from copriv.populations.dealt import OwnerLaws, heterogeneity_of, knows_owners
from copriv.populations.owner_posterior import Evidence
from copriv.populations.public_sample import PublicSample
from copriv.populations.world import psi
from copriv.problem import Problem
from copriv.problem.verdict import Asked
from copriv.terms.heterogeneity import LEAST, unknown

P, TRUTH = 3, np.array([1.0, -1.0, 0.5])
SIZES = (2000, 1500, 1000, 800, 400)


def _terms(loss: str = "squared", sizes: tuple[int, ...] = SIZES, **owner: object) -> Agreement:
    return Agreement.of(
        {
            "agreement": {"rule": "S1", "horizon": 3, "step": 0.2},
            "model": {"loss": loss, "regularization": 1e-4, "gradient_bound": 20.0},
            "data": {"feature_bound": 0},
            "owner": [{"name": f"o{i}", "records": n, "epsilon": 5.0, **owner} for i, n in enumerate(sizes)],
        }
    )


def _rows(rng: np.random.Generator, n: int, away: np.ndarray, loss: str = "squared") -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(n, P))
    if loss == "squared":
        return X, X @ (TRUTH + away) + rng.normal(size=n)
    return X, np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-X @ (TRUTH + away))), 1.0, -1.0)


def _public(
    seed: int, away: np.ndarray, each: int, loss: str = "squared"
) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Public rows, `each` of every owner, and whose they are; away: one row of θ_i − TRUTH an owner."""
    rng = np.random.default_rng(seed)
    parts = [_rows(rng, each, one, loss) for one in away]
    labels = np.repeat([f"o{i}" for i in range(len(away))], each)
    return (np.vstack([x for x, _ in parts]), np.concatenate([y for _, y in parts])), labels


def _laws(seed: int, away: np.ndarray, each: int, loss: str = "squared") -> OwnerLaws:
    public, labels = _public(seed, away, each, loss)
    return OwnerLaws(PublicSample.of(Problem.forecasting(_terms(loss), public, strata=labels)))


@pytest.mark.parametrize(("narrow", "apart"), [(0.0, 0.0), (0.5, 0.0), (1.0, 0.0), (0.0, 0.3), (0.75, 2.0)])
def test_the_evidence_is_that_of_dense_normal_laws(narrow: float, apart: float) -> None:
    """m = −A_i d + noise of A_i, d of the prior, and d given m: by the textbook's formulas, in no common coordinates."""
    rng = np.random.default_rng(0)
    A, own = (x.T @ x / 9 for x in rng.normal(size=(2, 9, P)))
    m, noise, v, n, level = rng.normal(size=P), 0.03, 0.2, 25, rng.normal(size=P)
    λ, V = eigh(own, A)
    one = Evidence(V, λ, V.T @ m, noise, n, np.linalg.solve(V, level))
    half = fractional_matrix_power(A, -0.5)
    shape = half @ fractional_matrix_power(half @ own @ half + np.eye(P) / n, -narrow) @ half
    levels = np.array([0.01, v, 3.0])
    priors = [u * shape + apart * np.outer(level, level) for u in levels]
    dense = [multivariate_normal(np.zeros(P), own @ prior @ own + noise * own).logpdf(m) for prior in priors]
    found = one.log_likelihood(levels, narrow, apart)
    np.testing.assert_allclose(found - found[0], np.array(dense) - dense[0], rtol=1e-8)
    # And between one prior and another: how much evidence there is for a level of its own.
    none = one.log_likelihood(levels, narrow, 0.0) - found
    plain = [multivariate_normal(np.zeros(P), u * own @ shape @ own + noise * own).logpdf(m) for u in levels]
    np.testing.assert_allclose(none, np.array(plain) - dense, rtol=1e-8, atol=1e-10)
    precision = np.linalg.inv(priors[1]) + own / noise
    drawn = one.drawn(rng, np.full(60_000, v), np.full(60_000, narrow), np.full(60_000, apart))
    np.testing.assert_allclose(drawn.mean(axis=0), -np.linalg.solve(precision, m / noise), atol=0.01)
    np.testing.assert_allclose(np.cov(drawn.T), np.linalg.inv(precision), atol=0.01)


@pytest.mark.parametrize("apart", [0.1, 0.5])
@pytest.mark.parametrize("owners", [2, 20])
def test_the_pools_best_model_is_as_uncertain_as_that_of_so_many_rows(apart: float, owners: int) -> None:
    """σ²A⁻¹/n⁰ of targets' noise, whatever owners differ by: their shares of the pool are those of the public rows.

    Drawn owner by owner about a common model that is drawn too, it was twice that; and where owners were far apart, what
    they differ by counted as noise of the common model: 3.8 times as much in all.
    """
    rng, each = np.random.default_rng(owners), 1000 // owners
    away = rng.normal(size=(owners, P)) * apart
    public, labels = _public(3, away - away.mean(axis=0), each)
    laws = OwnerLaws(PublicSample.of(Problem.forecasting(_terms(sizes=(20_000,) * owners), public, strata=labels)))
    best = np.array([world.pool.optimum.theta for world in laws.drawn(60, 0)])
    fits = [np.linalg.lstsq(public[0][at], public[1][at])[0] for at in (labels == f"o{i}" for i in range(owners))]
    noise = np.mean([(public[1] - public[0] @ fit)[labels == f"o{i}"] ** 2 for i, fit in enumerate(fits)])
    expected = noise * np.linalg.inv(public[0].T @ public[0]) / (1.0 - P * owners / 1000)
    ratio = np.trace(np.linalg.solve(expected, np.cov(best.T))) / P
    assert 0.6 < ratio < 1.5, ratio


def test_owners_that_differ_in_their_level_alone_are_told_so() -> None:
    """Twelve columns and one level: spread over all directions alike, it would be a thirteenth of what it is."""
    rng, N, p, ratio, held = np.random.default_rng(12), 12, 12, [], []
    for _ in range(5):
        level = rng.normal(size=N)

        def rows(n: int, level=level) -> list[tuple[np.ndarray, np.ndarray]]:  # type: ignore[no-untyped-def]
            tables = [rng.normal(size=(n, p)) for _ in level]
            return [(x, x @ np.ones(p) + a + rng.normal(size=n)) for x, a in zip(tables, level, strict=True)]

        public = rows(15)
        X, y = np.vstack([x for x, _ in public]), np.concatenate([t for _, t in public])
        document = _terms(sizes=(500,) * N).to_dict()
        terms = Agreement.of({**document, "model": {**document["model"], "intercept": True}})
        labels = np.repeat([f"o{i}" for i in range(N)], 15)
        laws = OwnerLaws(PublicSample.of(Problem.forecasting(terms, (X, y), strata=labels)))
        d = laws._posterior[1][:, :-1, -1]
        away = level - level.mean()
        low, middle, high = np.quantile(d, [0.05, 0.5, 0.95], axis=0)
        ratio.append(float(middle @ away / (away @ away)))
        held += list((low <= away) & (away <= high))
    # Without s the middle is pulled to everybody's, to a tenth of what it is, and a quarter of owners is held.
    assert np.median(ratio) > 0.75
    assert np.mean(held) >= 0.8


def test_an_owner_without_public_rows_is_as_unlike_as_the_others_in_everybodys_curvature() -> None:
    """Columns of very different scale: what d costs everybody is the same in each of them."""
    away = np.random.default_rng(5).normal(size=(5, P))  # they surely differ, so that no draw is of alike owners
    (X, y), labels = _public(5, away - away.mean(axis=0), 100)
    X = X * [1.0, 100.0, 0.01]
    labels[labels == "o4"] = "o3"
    sample = PublicSample.of(Problem.forecasting(_terms(), (X, y), strata=labels))
    d = OwnerLaws(sample)._posterior[1][:, 4]
    cost = np.mean(np.square(d), axis=0) * np.diag(sample.metric)
    assert cost.max() < 2.0 * cost.min()


def test_how_unlike_owners_are_is_the_same_in_any_unit_and_along_any_axes() -> None:
    """d is a vector and A its metric: with another one, or none, a forecast would depend on how a table is written."""
    (X, y), labels = _public(6, np.zeros((5, P)), 12)
    Q, terms = (
        np.linalg.qr(np.random.default_rng(1).normal(size=(P, P)))[0],
        _terms().replace(model={"regularization": 0}),
    )

    def apart(how: np.ndarray) -> np.ndarray:
        laws = OwnerLaws(PublicSample.of(Problem.forecasting(terms, (X @ how, y), strata=labels)))
        d = laws._posterior[1][:, :-1]
        return np.median(np.sum((d @ laws.sample.metric) * d, axis=2) / 2 / laws.sample.optimum.value, axis=0)

    plain = apart(np.eye(P))
    np.testing.assert_allclose(apart(np.diag([100.0, 1.0, 0.1])), plain, rtol=0.5)
    # An income in cents beside a rate: the rate was taken not to vary, and u came out ten times as large.
    np.testing.assert_allclose(apart(np.diag([1e5, 1.0, 0.1])), plain, rtol=0.5)
    np.testing.assert_allclose(apart(Q), plain, rtol=0.5)


def test_owners_of_whom_hardly_a_row_is_known_are_alike_or_as_unlike_as_tables_are() -> None:
    """Two rows of each of two owners, none of the rest: what is usual decides, in units of what is left unexplained."""
    rng = np.random.default_rng(3)
    for noise in (0.2, 5.0):
        X = rng.normal(size=(200, P))
        labels = np.array(["o0", "o0", "o1", "o1"] + ["others"] * 196)
        public = (X, X @ TRUTH + noise * rng.normal(size=200))
        laws = OwnerLaws(PublicSample.of(Problem.forecasting(_terms(), public, strata=labels)))
        usual = unknown(laws.sample.unexplained).value
        u = laws._posterior[0]
        alike = (u <= LEAST).all(axis=1)
        assert 0.3 < alike.mean() < 0.8  # half, and what few rows say
        assert usual / 3.0 < np.median(u[~alike]) < 3.0 * usual
    assert usual < 0.03


def test_owners_that_are_alike_may_be_so_whatever_real_tables_are() -> None:
    """Two hundred rows of each of five alike owners cannot tell u = 0 from the half percent that tables may have."""
    laws, unlike = (
        _laws(seed, away - away.mean(axis=0), 200)
        for seed, away in ((1, np.zeros((5, P))), (2, 0.5 * np.random.default_rng(1).normal(size=(5, P))))
    )
    assert (laws._posterior[0] <= LEAST).all(axis=1).mean() > 0.5
    assert laws.heterogeneity.low < LEAST
    assert (unlike._posterior[0] > LEAST).any(axis=1).all()


def test_an_owner_of_no_public_row_has_a_population_that_no_model_fits() -> None:
    """Owners far apart in one column: everybody's rows are worth one to each of them, and one row would be all of a law."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(400, P))
    X[:, 0] = np.repeat(np.linspace(-1.6, 1.6, 4), 100) + 0.2 * X[:, 0]
    public, labels = (X, X @ TRUTH + rng.normal(size=400)), np.repeat([f"o{i}" for i in range(4)], 100)
    laws = OwnerLaws(PublicSample.of(Problem.forecasting(_terms(), public, strata=labels)))
    assert laws._alpha < 1.5
    worth = [one.weight.sum() ** 2 / np.sum(one.weight**2) for one in (w.owners[4].law for w in laws.drawn(8, 0))]
    assert np.median(worth) > 5.0  # 3 rows a parameter, under Dirichlet weights: about 10


def test_owners_of_a_kink_hold_their_own_rows_where_they_are_unlike() -> None:
    """No target is bent there: how few of everybody's rows an owner is given is all that makes its best model its own."""
    away = np.zeros((5, P))
    away[0] = [2.5, 1.5, 0.0]
    worlds, rng = _laws(1, away, 400, "hinge").drawn(8, 0), np.random.default_rng(9)
    data = [_rows(rng, 2000, one, "logistic") for one in away]
    true = Problem.of(_terms("hinge", (2000,) * 5), data, data[0])
    best = true.optimum_of(Records.of(*data[0]), true.optimum.theta)
    truth = psi(true, best)
    assert truth / 3.0 < np.median([world.apart[0] for world in worlds]) < 3.0 * truth


def test_owners_of_narrow_columns_have_slopes_of_their_own_there() -> None:
    """Each column of each owner as wide as chance has it, and its slope as far off as costs its own records the same."""
    rng, N, p, held, off = np.random.default_rng(11), 10, 6, [], []
    for _ in range(8):
        width = 10.0 ** rng.uniform(-1.3, 0.0, size=(N, p))
        model = 1.0 + 0.15 * rng.normal(size=(N, p)) / width

        def rows(n: int, width=width, model=model) -> list[tuple[np.ndarray, np.ndarray]]:  # type: ignore[no-untyped-def]
            tables = [w * rng.normal(size=(n, p)) for w in width]
            return [(x, x @ θ + rng.normal(size=n)) for x, θ in zip(tables, model, strict=True)]

        public, data = rows(80), rows(1000)
        X, y = np.vstack([x for x, _ in public]), np.concatenate([t for _, t in public])
        terms = _terms(sizes=(1000,) * N)
        labels = np.repeat([f"o{i}" for i in range(N)], 80)
        laws = OwnerLaws(PublicSample.of(Problem.forecasting(terms, (X, y), strata=labels)))
        said = WithoutJoining.of_known(laws.sample.optimum.theta, laws.drawn(20, 0)).everybody
        true = Problem.of(terms, data, (X, y))
        own = [true.optimum_of(Records.of(*table), true.optimum.theta) for table in data]
        measured = np.array([psi(true, one) for one in own])
        held += list((np.quantile(said, 0.05, axis=0) < measured) & (measured < np.quantile(said, 0.95, axis=0)))
        off += list(np.log(np.median(said, axis=0) / measured))
    # With γ at 0 alone a quarter of them is held, and the median is a seventh of what it is; with owners told apart by
    # means of features alone, which are equal here, 40 % and a third.
    assert np.mean(held) >= 0.75
    assert abs(np.median(off)) < np.log(1.8)


@pytest.mark.parametrize(("loss", "each"), [("squared", 150), ("logistic", 150), ("logistic", 50)])
def test_a_world_deals_what_was_agreed_and_each_law_has_the_best_model_that_was_drawn(loss: str, each: int) -> None:
    away, squared = np.zeros((5, P)), loss == "squared"
    away[0] = [1.5, 0.0, 0.0]
    laws = _laws(1, away, each, loss)
    assert laws.models_classes is (each == 50)
    for k, world in enumerate(laws.drawn(3, 0)):
        held_by_owner = [one.records for one in world.owners]
        for own, held in zip(world.problem(_terms(loss)).owners, held_by_owner, strict=True):
            assert own.features is held.features
        assert [records.weight.sum() for records in held_by_owner] == list(SIZES)
        assert world.pool.fitness.records.weight.sum() == sum(SIZES)
        assert np.abs(world.pool.fitness.gradient(world.pool.optimum.theta)).max() < 1e-6
        moved = np.array([one.best.theta for one in world.owners])  # type: ignore[union-attr]
        rng = np.random.default_rng([0, 8, k])
        rng.standard_exponential(5 * each)
        d = laws._posterior[1][:, :-1][rng.integers(len(laws._posterior[1]))]
        np.testing.assert_allclose(moved - moved[0], d - d[0], atol=0.02 if squared else 0.2)
        if each == 150:
            # Owner 0 is 1.5 from the others along the first axis; 150 rows place it within about 0.1 (0.3 for classes).
            assert moved[0, 0] - moved[1:, 0].mean() == pytest.approx(1.5, abs=0.45 if squared else 1.2)
        if squared:  # everybody's rows are moved to its model, and not its own ones too, or it would fit neither
            assert world.owners[0].best.value < 1.6  # type: ignore[union-attr]
            assert world.apart[0] > world.apart[1:].max()
        assert world.on_own(0, moved[:1])[0] == pytest.approx(0.0, abs=1e-6)


def test_posterior_intervals_hold_each_owners_heterogeneity() -> None:
    """Owners drawn from a normal law of unknown width: 90 % intervals of each u_i hold it in about nine of ten."""
    rng, held, ratio = np.random.default_rng(4), [], []
    for seed in range(12):
        away = 0.25 * rng.normal(size=(5, P))
        laws = _laws(seed, away, 80)
        d = laws._posterior[1][:, :-1]
        # Rows are uncorrelated and of variance 1, and noise too: on everybody's records u_i is |θ_i − θ*|² over f(θ*).
        apart = np.sum((away - away.mean(axis=0)) ** 2, axis=1)
        apart = apart / (1.0 + apart.mean())
        drawn = 0.5 * np.sum((d @ laws.sample.hessian) * d, axis=2) / laws.sample.optimum.value
        low, middle, high = np.quantile(drawn, [0.05, 0.5, 0.95], axis=0)
        held += list((low <= apart) & (apart <= high))
        ratio += list(middle / apart)
    assert 0.75 <= np.mean(held) <= 1.0
    assert 0.5 < np.exp(np.median(np.log(ratio))) < 2.0


@pytest.mark.parametrize(
    ("p", "each", "off", "constant"), [(20, 150, 1.0, 0.0), (60, 150, 0.0, 0.0), (5, 100, 0.5, -3.0)]
)
def test_a_kink_says_how_unlike_owners_are(p: int, each: int, off: float, constant: float) -> None:
    """Few rows lie near a kink, or all do: it was 7 times, 400 times and a hundred thousandth of what it is."""
    rng, N, parts, many = np.random.default_rng(7), 8 if constant else 6, [], []
    for _ in range(N):
        θ = 2.0 * (np.ones(p) + off * rng.normal(size=p)) / np.sqrt(p)
        for table, n in ((parts, each), (many, 2000)):
            x = rng.normal(size=(n, p))
            table.append((x, np.where(x @ θ + constant + rng.logistic(size=n) > 0, 1.0, -1.0)))
    terms = _terms("hinge", (2000,) * N).replace(model={"intercept": bool(constant)})
    public = (np.vstack([x for x, _ in parts]), np.concatenate([y for _, y in parts]))
    labels = np.repeat([f"o{i}" for i in range(N)], each)
    found = OwnerLaws(PublicSample.of(Problem.forecasting(terms, public, strata=labels))).heterogeneity
    true = Problem.of(terms, many, public)
    own = [true.optimum_of(Records.of(*table), true.optimum.theta) for table in many]
    truth = np.mean([psi(true, one) for one in own])
    assert truth / 10.0 < found.value < 4.0 * truth


def test_owners_that_are_alike_are_not_told_apart_by_few_rows() -> None:
    """20 rows of 3 parameters each would, taken at their word, look like u = 0.15."""
    found = [_laws(seed, np.zeros((5, P)), 20).heterogeneity for seed in range(6)]
    assert np.median([u.value for u in found]) < 0.04
    assert all(u.source == "strata" for u in found)


def test_the_owner_that_is_unlike_is_told_so_and_the_others_are_not() -> None:
    """One owner of ten is far away: even a perfect common model serves it worse than its own, and the others better."""
    away = np.zeros((10, P))
    away[3] = [0.0, 1.5, -1.0]
    rng = np.random.default_rng(7)
    public, labels = _public(7, away, 200)
    laws = OwnerLaws(PublicSample.of(Problem.forecasting(_terms(sizes=(20,) * 10), public, strata=labels)))
    worlds = laws.drawn(24, 0)
    judged = WithoutJoining.of_known(laws.sample.optimum.theta, worlds)
    best = np.array([[world.pool.optimum.theta] for world in worlds])
    nothing = np.zeros(1)
    band = Band(np.zeros(1, dtype=np.int64), nothing, nothing, nothing, nothing)
    perfect = Assessment(_terms(), "simulated", band, True, "perfect", np.zeros((24, 1)), best)
    own = [judged.on_own(perfect, i).summary() for i in range(10)]
    assert not own[3].joining_pays
    assert own[3].joining_pays_probability < 0.05
    assert sum(one.joining_pays for one in own) >= 8
    # What it costs the owner that is far: |θ* − θ_3|², its noise and rows being of variance 1; θ* has a tenth of it.
    assert own[3].together == pytest.approx(0.81 * 3.25, rel=0.5)
    data = [_rows(rng, 20, one) for one in away]
    X, y = np.vstack([x for x, _ in data]), np.concatenate([t for _, t in data])
    common = np.linalg.lstsq(X, y, rcond=None)[0]
    truth = [
        np.sum((common - TRUTH - one) ** 2) < np.sum((np.linalg.lstsq(x, t, rcond=None)[0] - TRUTH - one) ** 2)
        for one, (x, t) in zip(away, data, strict=True)
    ]
    assert np.mean([one.joining_pays == so for one, so in zip(own, truth, strict=True)]) >= 0.8
    assert np.quantile(judged.alone(3), 0.05) > 0.5
    assert np.median(judged.own[:, 3]) < 0.4  # 20 records of 3 parameters: 0.15 on its own population
    assert judged.verdict_on_all(perfect, 3, Asked.of("common", 0.0)).probability > 0.5


def test_an_owner_may_name_its_stratum_and_must_name_one_that_is_there() -> None:
    public, labels = _public(2, np.zeros((5, P)), 30)
    terms = _terms()
    kinds = [{**owner, "stratum": "o0" if i < 3 else "o1"} for i, owner in enumerate(terms.to_dict()["owner"])]
    problem = Problem.forecasting(terms.replace(owner=kinds), public, strata=labels)
    assert problem.stratum_of_owner == (0, 0, 0, 1, 1)
    assert knows_owners(PublicSample(problem))
    assert not knows_owners(PublicSample(Problem.forecasting(terms, public, strata=np.repeat(list("abcde"), 30))))
    assert not knows_owners(
        PublicSample(Problem.forecasting(terms.replace(data={"heterogeneity": 0.1}), public, strata=labels))
    )
    kinds[4]["stratum"] = "nowhere"
    with pytest.raises(AgreementError, match=r"owner\.stratum.*nowhere.*o4"):
        heterogeneity_of(PublicSample(Problem.forecasting(terms.replace(owner=kinds), public, strata=labels)))
    with pytest.raises(DataError, match="public row 3"):
        Problem.forecasting(terms, public, strata=[*labels[:3], None, *labels[4:]])


MISSING = [float("nan"), None, "", [], pd.NA]


@pytest.mark.parametrize("missing", MISSING, ids=[repr(one) for one in MISSING])
def test_a_row_that_does_not_say_whose_it_is_is_told_of_in_whatever_it_says_so(missing: object) -> None:
    """A list of text and NaN made an array has an owner that is called nan."""
    public, labels = _public(2, np.zeros((5, P)), 30)
    with pytest.raises(DataError, match=r"public row 149 has none"):
        Problem.forecasting(_terms(), public, strata=[*labels[:149].tolist(), missing])


def test_labels_may_be_numbers_and_must_be_one_a_row() -> None:
    public, labels = _public(2, np.zeros((5, P)), 30)
    numbers = [int(label[1:]) for label in labels]
    said = [{**owner, "stratum": str(i)} for i, owner in enumerate(_terms().to_dict()["owner"])]
    whole = np.array(numbers, dtype=float)  # 1.0 is who is called "1"
    for given in (numbers, np.array(numbers), whole, whole.tolist(), pd.Series(numbers), pa.array(numbers)):
        assert Problem.forecasting(_terms().replace(owner=said), public, strata=given).stratum_of_owner == tuple(
            range(5)
        )
    with pytest.raises(DataError, match="one label each"):
        Problem.forecasting(_terms(), public, strata=pd.DataFrame({"whose": numbers}))


def test_strata_beside_a_problem_are_refused_and_not_left_out() -> None:
    public, labels = _public(2, np.zeros((5, P)), 30)
    with pytest.raises(UsageError, match=r"Problem\.forecasting"):
        copriv.forecast(Problem.forecasting(_terms(), public), strata=labels)


def test_how_far_features_lie_apart_is_the_same_in_any_unit() -> None:
    """Sorted by a column that is a millionth as wide as another: it would be left out, and owners be taken for alike."""
    rng = np.random.default_rng(12)
    x = rng.normal(size=(500, P))
    x[:, 0] = np.repeat(np.linspace(-1.6, 1.6, 5), 100) + 0.3 * x[:, 0]
    y, labels = x @ TRUTH + rng.normal(size=500), np.repeat([f"o{i}" for i in range(5)], 100)

    def found(unit: float) -> float:
        public = (x * [unit, 1.0, 1.0], y)
        return OwnerLaws(PublicSample.of(Problem.forecasting(_terms(), public, strata=labels)))._alpha

    assert found(1.0) < 2.0
    assert found(1e-6) == pytest.approx(found(1.0), rel=1e-6)
    assert found(1e6) == pytest.approx(found(1.0), rel=1e-6)


def _written(folder: Path, strata: bool = True) -> Agreement:
    (X, y), labels = _public(3, np.zeros((2, P)), 40)
    columns = {f"x{j}": np.clip(X[:, j], -3, 3) for j in range(P)} | {"y": np.clip(y, -9, 9)}
    pq.write_table(pa.table(columns | ({"school": labels} if strata else {})), folder / "public.parquet")
    return Agreement.of(
        {
            "agreement": {"rule": "S1", "horizon": 3, "step": 0.2},
            "model": {"loss": "squared", "gradient_bound": 5.0},
            "data": {
                "public": str(folder / "public.parquet"),
                "features": [f"x{j}" for j in range(P)],
                "target": "y",
                "bounds": {**{f"x{j}": [-3.0, 3.0] for j in range(P)}, "y": [-9.0, 9.0]},
                "components": 0,
                "strata": "school",
            },
            "owner": [{"name": f"o{i}", "records": 500, "epsilon": 5.0} for i in range(2)],
        }
    )


def test_the_agreement_names_the_column_and_it_is_found_in_the_public_file(tmp_path: Path) -> None:
    terms = _written(tmp_path)
    problem = Problem.load_public(terms)
    assert problem.stratum_of_owner == (0, 1)
    assert Agreement.of(terms.to_dict()).fingerprint == terms.fingerprint
    assert terms.replace(data={"strata": None}).fingerprint != terms.fingerprint
    assert heterogeneity_of(PublicSample(problem)).source == "strata"
    made = make_consortium(terms, tmp_path / "run")
    assert "school" in pq.read_schema(tmp_path / "run" / "learner" / "public.parquet").names
    rows, strata, digest = _public_rows(made.agreement, None, tmp_path / "run" / "learner", made.dictionary)
    assert rows is not None
    assert digest == digest_of(tmp_path / "run" / "learner" / "public.parquet")
    assert strata == ("o0",) * 40 + ("o1",) * 40
    assert len(rows) == 80


def test_a_forecast_tells_the_owner_that_is_unlike_apart() -> None:
    away = np.zeros((3, P))
    away[0] = [0.0, 1.0, -1.0]
    public, labels = _public(7, away, 100)
    told = copriv.forecast(_terms(sizes=(400,) * 3), public, runs=4, strata=labels, preconditioner=False)
    assert told.heterogeneity.source == "strata"
    assert told.owners[0].alone > 2.0 * max(owner.alone for owner in told.owners[1:])


def test_a_public_file_without_the_column_says_so(tmp_path: Path) -> None:
    with pytest.raises(CoprivError, match=r"data\.strata.*school"):
        Problem.load_public(_written(tmp_path, strata=False))


def test_owners_apart_in_one_direction_of_many_are_given_few_of_everybodys_rows() -> None:
    """Eight owners in their own range of one feature of twelve: α is what that one says, and not the mean over all."""
    rng, p, each = np.random.default_rng(11), 12, 100
    terms = _terms(sizes=(500,) * 8)

    def laws(apart: float) -> OwnerLaws:
        x = rng.normal(size=(8 * each, p))
        x[:, 0] = np.repeat(np.linspace(-apart, apart, 8), each) + 0.3 * x[:, 0]
        y = x @ np.ones(p) + rng.normal(size=len(x))
        labels = np.repeat([f"o{i}" for i in range(8)], each)
        return OwnerLaws(PublicSample.of(Problem.forecasting(terms, (x, y), strata=labels)))

    # Nearly all of that feature's variance is between owners: 1/α is 1, less what is left within them.
    assert laws(1.6)._alpha == pytest.approx(1.1, abs=0.15)
    alike = [laws(0.0)._alpha for _ in range(3)]
    assert min(alike) > 50
    # Each keeps its own width, 0.3, and a little for what its rows do not show; everybody's is 1.
    drawn = [one.law for world in laws(1.6).drawn(3, 0) for one in world.owners]
    wide = [np.cov(law.features[:, 0], aweights=law.weight) for law in drawn]
    assert 0.07 < np.median(wide) < 0.15
