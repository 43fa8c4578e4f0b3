"""Owners that lie: the aggregation against plain loops, and the excess under each attack as the agreement promises it."""

import json
from itertools import combinations
from math import comb
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.optimize import minimize
from scipy.stats import gamma, ks_1samp
from sklearn.datasets import load_breast_cancer, load_diabetes

from attacks import ATTACKS, HIDDEN, LIARS, Context
from copriv.agreement import Agreement
from copriv.cli import run as copriv
from copriv.display.forecast import notes
from copriv.errors import AgreementError, UsageError
from copriv.forecast import forecast
from copriv.forecast.assessment import assess
from copriv.network.run import NoiseCheck
from copriv.plan import plan
from copriv.privacy.noise import Law
from copriv.problem import Problem
from copriv.rules.robust import (
    CHANCE,
    DOUBT,
    RobustAggregation,
    caf,
    filtered_mean,
    geometric_median,
    mixed,
    trimmed_mean,
)
from copriv.simulation import simulate
from copriv.terms import Terms

OWNERS = 20
TABLES = ("airfoil", "autompg", "bike", "concrete", "parkinsons", "protein")
PUBLISHED = Path(__file__).parents[3] / "shared" / "data" / "published"


def agreed(owners=OWNERS, model=None, owner=None, **terms):
    terms = {"rule": "S2", "horizon": 6, "answers": 5, "step": 0.4, "iterate": "last", "robust": LIARS, **terms}
    return Agreement.of(
        {
            "agreement": {key: value for key, value in terms.items() if value is not None},
            "model": {"loss": "squared", "regularization": 0.01, "gradient_bound": 2.0, **(model or {})},
            "data": {"feature_bound": 0.0, "heterogeneity": 0.0},
            "owner": [{"name": f"o{i}", "records": 50, "epsilon": 1.0, **(owner or {})} for i in range(owners)],
        }
    )


def by_hand(answers, f):
    """Mixed neighbours and the trimmed mean of running means, in plain loops: answers[k][i] → G_1, G_2, …"""
    found, before = [], 0.0
    for k in range(1, len(answers) + 1):
        means = [sum(answers[j][i] for j in range(k)) / k for i in range(len(answers[0]))]
        mixed = []
        for one in means:
            near = sorted(means, key=lambda other: float(np.sum((one - other) ** 2)))[: len(means) - f]
            mixed.append(sum(near) / len(near))
        trimmed = [np.mean(sorted(c)[f : len(c) - f]) for c in zip(*mixed, strict=True)]
        found.append(k * np.array(trimmed) - before)
        before = k * np.array(trimmed)
    return found


def test_the_vectors_are_those_of_plain_loops():
    answers = np.random.default_rng(0).laplace(size=(4, 3, 9, 2))  # rounds, runs, owners, p
    together = RobustAggregation(
        Terms(rule="S2", horizon=9, robust=2, robust_by="trimmed-mean"), Law.LAPLACE, np.ones(9)
    )
    found = np.array([together.vector(one) for one in answers])
    for run in range(3):
        np.testing.assert_allclose(found[:, run], by_hand(answers[:, run], 2), rtol=1e-12, atol=1e-12)


def filtered_by_hand(x, f, variance, excess):
    """The filter in plain loops, over all sets of owners: x[i] → the mean."""

    def level(p, e, q):
        return gamma.ppf(q, p / (2 + e), scale=2 + e)

    N, p = x.shape
    apart = [(np.sum((x[i] - x[j]) ** 2) / (variance[i] + variance[j])) for i in range(N) for j in range(N)]
    near = np.reshape(apart, (N, N)) < level(p, excess / 2, CHANCE / comb(N, 2))
    weight = [min(1, np.median(variance) / variance[i]) / near[i].sum() for i in range(N)]
    differ = np.median([np.sum((x[i] - np.median(x, axis=0)) ** 2) / variance[i] for i in range(N)])
    noise = [weight[i] ** 2 * variance[i] * near[i].sum() * max(1, differ / level(p, excess, 0.5)) for i in range(N)]
    mean = np.average(x, axis=0, weights=weight)
    while True:
        there, best, out = [i for i in range(N) if weight[i] > 0], 0.0, ()
        for y in (x, (x @ mean / np.linalg.norm(mean))[:, None]):
            for s in range(1, f - (N - len(there)) + 1):
                for some in combinations(there, s):
                    rest = [i for i in there if i not in some]
                    means, variances = [], []
                    for part in (list(some), rest):
                        w = [weight[i] for i in part]
                        means.append(np.average(y[part], axis=0, weights=w))
                        variances.append(sum(noise[i] for i in part) / sum(w) ** 2)
                    allowed = sum(variances) * level(y.shape[1], excess / s, 1 - CHANCE / comb(N, s))
                    far = np.sum((means[0] - means[1]) ** 2) / allowed
                    best, out = max((best, out), (far, some))
        for i in out:
            weight[i] *= np.clip((1 - best) / (1 - DOUBT), 0, 1)
        if best < 1:
            return np.average(x, axis=0, weights=weight)


def test_the_filter_is_that_of_plain_loops():
    """Over owners with unlike noise, of whom two are at one wrong place, far or near, or copy a third."""
    rng, variance = np.random.default_rng(0), np.array([1.0, 1.0, 4.0, 0.5, 1.0, 1.0, 2.0])
    x = rng.normal(size=(30, 7, 3)) * np.sqrt(variance)[:, None] + 2.0
    x[:10, :2] += [[4.0, -5.0, 3.0]]
    x[10:20, :2] = x[10:20, 4:5] - rng.uniform(0.0, 9.0, size=(10, 1, 1))
    found = filtered_mean(x, 2, variance, 0.5)
    np.testing.assert_allclose(found, [filtered_by_hand(one, 2, variance, 0.5) for one in x], rtol=1e-9, atol=1e-12)
    assert (
        np.linalg.norm(found - 2.0, axis=1)[:10].mean() < np.linalg.norm(x.mean(axis=1) - 2.0, axis=1)[:10].mean() / 2
    )


def caf_by_hand(x, f):
    """CafCor's filter with the covariance itself: x[i] → the mean."""
    weight, least, best = np.ones(len(x)), np.inf, None
    while True:
        mean = np.average(x, axis=0, weights=weight)
        value, direction = np.linalg.eigh(np.atleast_2d(np.cov(x.T, aweights=weight, ddof=0)))
        if value[-1] < least:
            least, best = value[-1], mean
        τ = np.square((x - mean) @ direction[:, -1])
        weight = weight * (1 - τ / τ[weight > 0].max())
        weight = np.maximum(weight, 0.0)
        if weight.sum() <= len(x) - 2 * f:
            return best


@pytest.mark.parametrize("p", [1, 3, 12])
def test_caf_is_that_of_plain_loops(p):
    """Fewer numbers than owners and more; two owners are at one wrong place, near or far."""
    x = np.random.default_rng(0).normal(size=(30, 9, p))
    x[:, :2] += np.geomspace(0.3, 300, 30)[:, None, None]
    np.testing.assert_allclose(caf(x, 2), [caf_by_hand(one, 2) for one in x], rtol=1e-9, atol=1e-12)


def test_no_owner_gains_by_the_number_of_records_that_it_states():
    """A liar that states more records has less noise to hide in; one that states fewer counts less."""
    rng, lie = np.random.default_rng(1), 3.0
    x = rng.normal(size=(400, 10, 5))
    moved = []
    for said in (0.01, 1.0, 100.0):  # the noise's variance that the first owner states
        variance, y = np.r_[said, np.ones(9)], x.copy()
        y[:, 0] += lie * np.sqrt(max(said, 1.0))
        moved.append(np.linalg.norm(filtered_mean(y, 2, variance) - x[:, 1:].mean(axis=1), axis=1).mean())
    assert max(moved[0], moved[2]) < 1.1 * moved[1] < 0.5


def test_nobody_can_do_much_better_than_the_filter():
    """A lower bound on the excess, and what the filter has: normal noise, p = 10, 4 of 20 have a mean of their own.

    The liars' mean has a normal law. Nobody's mean square error is below that of the posterior mean over all sets of four.
    """
    rng, N, f, p, τ = np.random.default_rng(2), 20, 4, 10, 0.9
    sets = np.array([np.isin(np.arange(N), some) for some in combinations(range(N), f)], dtype=float)
    x = rng.normal(size=(120, N, p))
    x[:, -f:] += τ * rng.normal(size=(120, 1, p))
    honest, both = p / (N - f), 1 / f + 1 / (N - f)
    best = []
    for one in x:
        liars, others = sets @ one / f, (1 - sets) @ one / (N - f)
        likelihood = np.sum((liars - others) ** 2, axis=1) / 2 * (1 / both - 1 / (both + τ**2))
        posterior = np.exp(likelihood - likelihood.max())
        precision = 1 / (1 / f + τ**2)
        best.append(posterior @ ((N - f) * others + precision * liars) / posterior.sum() / (N - f + precision))
    least, ours = (
        np.mean(np.sum(np.square(guess), axis=1)) / honest for guess in (best, filtered_mean(x, f, np.ones(N)))
    )
    assert 1.05 < least < ours < 1.5


def test_robust_means_are_those_of_byzfl():
    """The means without the noise's law against the library of their authors, where it is installed."""
    byzfl = pytest.importorskip("byzfl")
    vectors, f = np.random.default_rng(3).normal(size=(9, 4)), 2
    np.testing.assert_allclose(mixed(vectors[None], f)[0], byzfl.NNM(f)(vectors), rtol=1e-12)
    np.testing.assert_allclose(trimmed_mean(vectors[None], f)[0], byzfl.TrMean(f)(vectors), rtol=1e-12)
    np.testing.assert_allclose(
        geometric_median(vectors[None])[0], byzfl.GeometricMedian(nu=1e-9, T=50)(vectors), rtol=1e-6
    )


def test_the_geometric_median_is_where_the_sum_of_distances_is_least():
    vectors = np.random.default_rng(1).normal(size=(1, 9, 3))

    def distances(point):
        return np.linalg.norm(vectors[0] - point, axis=1).sum()

    best = minimize(distances, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12})
    np.testing.assert_allclose(geometric_median(vectors)[0], best.x, atol=1e-5)


@pytest.mark.parametrize("by", ["filter", "trimmed-mean", "geometric-median", "caf"])
def test_owners_that_agree_are_followed_exactly_and_a_far_liar_is_not(by):
    together = RobustAggregation(Terms(rule="S2", horizon=9, robust=1, robust_by=by), Law.NORMAL, np.full(4, 1e-9))
    for k, answer in enumerate(np.random.default_rng(2).normal(size=(5, 2))):
        told = np.tile(answer, (1, 4, 1))
        told[0, 3] = 1e90 * (-1) ** k
        np.testing.assert_allclose(together.vector(told), answer[None], rtol=1e-9)


def test_a_simulated_run_is_the_rule_on_these_vectors():
    """Squared loss, nothing clipped: S2 in plain loops, with the same noise and one owner that lies."""
    rng, f, N, p = np.random.default_rng(3), 1, 4, 2
    data = [(rng.normal(size=(50, p)), rng.normal(size=50)) for _ in range(N)]
    agreement = agreed(N, {"gradient_bound": 1e3}, {"epsilon": 1e4}, robust=f, robust_by="trimmed-mean")
    noise = rng.laplace(size=(5, 1, N, p))

    def lies(k, theta, answers):
        answers[:, 0] = 7.0 + k
        return answers

    found = simulate(agreement, data, runs=1, noise=lambda k: noise[k], lies=lies, alone=False, own_records=False)
    θ, history = np.zeros(p), []
    for k in range(5):
        per_owner = zip(data, agreement.noise_scales(), noise[k, 0], strict=True)
        answers = [2 * X.T @ (X @ θ - y) / 50 + s * z for (X, y), s, z in per_owner]
        history.append([np.full(p, 7.0 + k), *answers[1:]])
        θ = θ - 0.4 / np.sqrt(k + 1) * (0.01 * θ + by_hand(history, f)[-1])
    np.testing.assert_allclose(found.theta[0], θ, rtol=1e-9)
    averaged = agreement.replace(agreement={"robust": None, "robust_by": None})
    assert [owner.noise_scale for owner in found.owners] == averaged.noise_scales().tolist()


def reduced(X):
    """Ten whitened components of L1 norm at most 1, scaled by the 99 % quantile."""
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    X = X @ np.linalg.svd(X, full_matrices=False)[2][:10].T
    X /= X.std(axis=0)
    length = np.abs(X).sum(axis=1)
    return X / np.maximum(np.quantile(length, 0.99), length)[:, None]


def lending():
    terms = {"rule": "S2", "horizon": 3, "step": 1.0}
    model, data = {"loss": "squared", "gradient_bound": 1.0}, {"dataset": "lending", "components": 10}
    owner = [{"name": "all", "records": 7000, "epsilon": 1.0}]
    (records,) = Problem.load(Agreement.of({"agreement": terms, "model": model, "data": data, "owner": owner})).owners
    return records.features / np.abs(records.features).sum(axis=1).max(), records.target, "squared"


def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return reduced(X), (y - y.mean()) / y.std() + 1.0, "squared"


def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return reduced(X), 2.0 * y - 1.0, "logistic"


def on_the_page(attack):
    """The largest factor that docs/explanation/lying-owners.md gives for an attack."""
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "lying-owners.md").read_text(encoding="utf-8")
    (row,) = [line for line in page.splitlines() if line.startswith(f"| {attack} |")]
    return float(row.split("|")[3])


def dealt(X, y, loss, unlike=0.0):
    """20 owners of 400 of these rows each, under terms that are planned from 2,000 others, at ε = 1.

    unlike: s, where each owner has rows with probabilities in proportion to exp(s·⟨d, row⟩), rows standardised with their
    targets, in a direction d of its own; 0: alike.
    """
    rng = np.random.default_rng(1)
    if unlike:
        rows = np.column_stack([X, y])
        rows = (rows - rows.mean(axis=0)) / np.maximum(rows.std(axis=0), 1e-12)
        drawn = []
        for _ in range(OWNERS):
            d = rng.normal(size=rows.shape[1])
            weight = np.exp(unlike * rows @ (d / np.linalg.norm(d)))
            drawn.append(rng.choice(len(y), size=400, p=weight / weight.sum()))
    else:
        drawn = [rng.integers(len(y), size=400) for _ in range(OWNERS)]
    public = rng.integers(len(y), size=2000)
    still_open = agreed(
        model={"loss": loss, "regularization": 1e-4, "gradient_bound": "auto"}, owner={"records": 400},
        rule="auto", communication="synchronous", horizon=30, answers=None, step="auto",
    ).replace(data={"feature_bound": 1.0})  # fmt: skip
    problem = Problem.forecasting(still_open, (X[public], y[public]))
    planned = plan(problem, public_start=False, runs=16, one_answer=False).agreement
    return Context(planned, [(X[i], y[i]) for i in drawn])


def published(table):
    numbers = [column.to_numpy() for column in pq.read_table(PUBLISHED / f"{table}.parquet").columns]
    X, y = np.column_stack(numbers[:-1]).astype(float), np.asarray(numbers[-1], dtype=float)
    return reduced(X), 2.0 * (y - y.min()) / np.ptp(y) - 1.0, "squared"


@pytest.mark.slow
@pytest.mark.parametrize("table", [lending, diabetes, cancer])
def test_a_fifth_of_the_owners_lies(table):
    """ε = 1, dealt alike, planned terms: at most 1.5 times the honest owners' own excess, and 1.2 times where nobody lies.

    Liars who know every honest answer, and the least noise with which theirs are no copies, reach more: at most 2.5 times.
    """
    attacked = dealt(*table())
    honest, (robust, averaged) = attacked.honest_alone(400), attacked.nobody_lies(400)
    assert robust <= 1.2 * averaged
    for name in ATTACKS:
        times, said = (
            attacked.attacked(name, 400) / honest,
            on_the_page("lies in noise" if name in HIDDEN else name.split(",")[0]),
        )
        assert times <= min(2.5 if name in HIDDEN else 1.5, said + 0.2), name
    attacked.all = attacked.all.under(attacked.all.terms.replace(agreement={"robust": 1}))
    assert attacked.attacked("scaled", 400) > 2.5 * honest  # more owners lie than is agreed


@pytest.mark.slow
@pytest.mark.parametrize("table", [lending, diabetes, cancer, *TABLES])
def test_caf_bears_every_attack(table):
    """At most 2.5 times the honest owners' own excess for each attack (docs/explanation/lying-owners.md; `pytest -s`)."""
    if isinstance(table, str) and not PUBLISHED.exists():
        pytest.skip("the published tables are not here")
    attacked = dealt(*(published(table) if isinstance(table, str) else table()))
    attacked.agreement = attacked.agreement.replace(agreement={"robust_by": "caf"})
    attacked.all = attacked.all.under(attacked.all.terms.replace(agreement={"robust_by": "caf"}))
    honest, (robust, averaged) = attacked.honest_alone(400), attacked.nobody_lies(400)
    times = {name: attacked.attacked(name, 400) / honest for name in ATTACKS}
    print(table, f"nobody lies {robust / averaged:.2f}", {name: round(each, 2) for name, each in times.items()})
    assert robust <= 1.5 * averaged
    assert max(times.values()) <= 2.5


@pytest.mark.slow
@pytest.mark.skipif(not PUBLISHED.exists(), reason="the published tables are not here")
@pytest.mark.parametrize("table", TABLES)
def test_on_tables_that_the_filter_was_not_made_on(table):
    """None of its constants was chosen on these; 1.5 does not hold on each of them, 2.5 does (`pytest -s` prints all)."""
    attacked = dealt(*published(table))
    honest, (robust, averaged) = attacked.honest_alone(400), attacked.nobody_lies(400)
    times = {name: attacked.attacked(name, 400) / honest for name in ATTACKS}
    print(table, f"nobody lies {robust / averaged:.2f}", {name: round(each, 2) for name, each in times.items()})
    assert robust <= 1.2 * averaged
    assert max(times.values()) <= 2.5


@pytest.mark.slow
@pytest.mark.skipif(not PUBLISHED.exists(), reason="the published tables are not here")
@pytest.mark.parametrize("unlike", [0.5, 1.5])
@pytest.mark.parametrize("table", [lending, diabetes, cancer, *TABLES])
def test_where_owners_differ_the_worst_attack_on_the_filter_is_less_than_on_the_trimmed_mean(table, unlike):
    """On each table where they differ a little; where they differ much, neither bears lies (`pytest -s` prints all)."""
    attacked, found = dealt(*(published(table) if isinstance(table, str) else table()), unlike), {}
    honest = attacked.honest_alone(100)
    for by in ("filter", "trimmed-mean", "caf"):
        agreed = {"robust_by": None if by == "filter" else by}
        attacked.agreement = attacked.agreement.replace(agreement=agreed)
        attacked.all = attacked.all.under(attacked.all.terms.replace(agreement=agreed))
        robust, averaged = attacked.nobody_lies(100)
        found[by] = max((attacked.attacked(name, 100) / honest, name) for name in ATTACKS)
        print(getattr(table, "__name__", table), unlike, by, found[by], f"nobody lies {robust / averaged:.2f}")
    assert found["filter"][0] <= (1.0 if unlike < 1 else 1.6) * found["trimmed-mean"][0]


def test_what_cannot_be_robust_is_refused():
    for wrong, why in (
        ({"rule": "A2"}, "all owners answer each round"),
        ({"robust": 10}, "fewer than half"),
        ({"robust": None, "robust_by": "trimmed-mean"}, "needs robust"),
        ({"owner": {"weight": 1.0}}, "counts once"),
        ({"aggregation": "sum"}, "in a sum"),
        ({"pilot": 0.2}, "of a pilot"),
        ({"mechanism": "statistics", "moments_share": 0.2, "horizon": 2}, "with gradients"),
    ):
        with pytest.raises(AgreementError, match=why):
            agreed(**wrong)
    assert not {"robust", "robust_by"} & agreed(robust=None).to_dict()["agreement"].keys()
    with pytest.raises(UsageError, match="lies"):
        simulate(agreed(2, robust=None), [(np.ones((50, 1)), np.ones(50))] * 2, lies=lambda k, theta, answers: answers)


def some_rows(n=400):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, 2)) / 2
    return X, X @ [1.0, -0.5] + 0.3 * rng.normal(size=n) + 1.0


def test_a_forecast_says_what_robustness_costs():
    terms = agreed(10, robust=2).replace(data={"heterogeneity": 0.02})
    found = forecast(terms, some_rows(), runs=8)
    said = found.to_dict()["robustness"]
    assert said["relative_fitness"] == found.agreed.relative_fitness.mean[-1]
    averaged = Problem.forecasting(terms.replace(agreement={"robust": None}), some_rows())
    assert said["averaged"] == assess(averaged, "", 8, 0, found.worlds).relative_fitness.mean[-1]
    assert said["times"] == said["relative_fitness"] / said["averaged"]
    assert (said["liars"], said["floor"]) == (2, pytest.approx(0.02 * 2 / (2 * 8**2)))
    assert found.agreed.kind == "simulated"
    assert found.recommended.agreement.agreement.robust == 2
    (sentence,) = [note for note in notes(found) if note.startswith("Robust against 2 owners")]
    assert f"costs {said['times']:.2g} times" in sentence
    assert "no less than 0.031 %" in sentence


def test_from_the_command_line(tmp_path, capsys):
    terms = agreed(10, {"gradient_bound": 1.0}, {"records": 300}, robust=2, step=2.0)
    terms = terms.replace(data={"dataset": "lending", "components": 4, "feature_bound": "auto"})
    file = tmp_path / "ten.toml"
    file.write_text(terms.to_toml())
    assert copriv(["simulate", str(file), "--runs", "3", "--no-own-records", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 3


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_owners_without_their_noise_are_found_and_others_are_not(mechanism):
    δ = 1e-6 if mechanism == "gaussian" else 0.0
    agreement = agreed(OWNERS, owner={"delta": δ}, mechanism=mechanism)
    scale, seen, rng = agreement.noise_scales()[0], [], np.random.default_rng(5)
    draw = rng.laplace if mechanism == "laplace" else rng.normal
    for _ in range(100):
        check, records = (
            NoiseCheck(agreement.mechanism.law(agreement), agreement.noise_scales()),
            rng.normal(size=(OWNERS, 10)) * scale / 20,
        )
        for _ in range(8):
            answers = records + draw(scale=scale, size=(OWNERS, 10))
            answers[1] = records[1] + draw(scale=scale / 5, size=10)
            check.take(answers)
        assert check.too_little() == [i == 1 for i in range(OWNERS)]
        seen.append(check.probabilities()[0])
    # An honest owner's probability is at least as large as a uniform number: never too many small ones.
    assert ks_1samp(seen, lambda x: np.clip(x, 0, 1), alternative="greater").pvalue > 1e-3
