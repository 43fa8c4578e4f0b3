"""Owners that lie: the aggregation against plain loops, and the excess under each attack as the agreement promises it."""

import json

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import ks_1samp
from sklearn.datasets import load_breast_cancer, load_diabetes

from attacks import ATTACKS, LIARS, Context
from copriv.agreement import Agreement
from copriv.cli import run as copriv
from copriv.display.forecast import notes
from copriv.errors import AgreementError, UsageError
from copriv.forecast import forecast
from copriv.forecast.assessment import assess
from copriv.network.run import NoiseCheck
from copriv.plan import plan
from copriv.problem import Problem
from copriv.rules.robust import RobustAggregation, geometric_median
from copriv.simulation import simulate
from copriv.terms import Terms

OWNERS = 20


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
    together = RobustAggregation(Terms(rule="S2", horizon=9, robust=2))
    found = np.array([together.vector(one) for one in answers])
    for run in range(3):
        np.testing.assert_allclose(found[:, run], by_hand(answers[:, run], 2), rtol=1e-12, atol=1e-12)


def test_the_geometric_median_is_where_the_sum_of_distances_is_least():
    vectors = np.random.default_rng(1).normal(size=(1, 9, 3))

    def distances(point):
        return np.linalg.norm(vectors[0] - point, axis=1).sum()

    best = minimize(distances, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12})
    np.testing.assert_allclose(geometric_median(vectors)[0], best.x, atol=1e-5)


@pytest.mark.parametrize("by", ["trimmed-mean", "geometric-median"])
def test_owners_that_agree_are_followed_exactly_and_a_far_liar_is_not(by):
    together = RobustAggregation(Terms(rule="S2", horizon=9, robust=1, robust_by=by))
    for k, answer in enumerate(np.random.default_rng(2).normal(size=(5, 2))):
        told = np.tile(answer, (1, 4, 1))
        told[0, 3] = 1e90 * (-1) ** k
        np.testing.assert_allclose(together.vector(told), answer[None], rtol=1e-9)


def test_a_simulated_run_is_the_rule_on_these_vectors():
    """Squared loss, nothing clipped: S2 in plain loops, with the same noise and one owner that lies."""
    rng, f, N, p = np.random.default_rng(3), 1, 4, 2
    data = [(rng.normal(size=(50, p)), rng.normal(size=50)) for _ in range(N)]
    agreement = agreed(N, {"gradient_bound": 1e3}, {"epsilon": 1e4}, robust=f)
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
    averaged = agreement.replace(agreement={"robust": None})
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


@pytest.mark.slow
@pytest.mark.parametrize("table", [lending, diabetes, cancer])
def test_a_fifth_of_the_owners_lies(table):
    """ε = 1, dealt alike, planned terms: at most 2.5 times the honest owners' own excess, and 1.2 times where nobody lies."""
    X, y, loss = table()
    rng = np.random.default_rng(1)
    data = [(X[i], y[i]) for i in (rng.integers(len(y), size=400) for _ in range(OWNERS))]
    public = rng.integers(len(y), size=2000)
    still_open = agreed(
        model={"loss": loss, "regularization": 1e-4, "gradient_bound": "auto"}, owner={"records": 400},
        rule="auto", communication="synchronous", horizon=30, answers=None, step="auto",
    ).replace(data={"feature_bound": 1.0})  # fmt: skip
    problem = Problem.forecasting(still_open, (X[public], y[public]))
    attacked = Context(plan(problem, public_start=False, runs=16, one_answer=False).agreement, data)
    honest, (robust, averaged) = attacked.honest_alone(400), attacked.nobody_lies(400)
    assert robust <= 1.2 * averaged
    for name in ATTACKS:
        assert attacked.attacked(name, 400) <= 2.5 * honest, name
    attacked.all = attacked.all.under(attacked.all.terms.replace(agreement={"robust": 1}))
    assert attacked.attacked("scaled", 400) > 2.5 * honest  # more owners lie than is agreed


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
        check, records = NoiseCheck(agreement), rng.normal(size=(OWNERS, 10)) * scale / 20
        for _ in range(8):
            answers = records + draw(scale=scale, size=(OWNERS, 10))
            answers[1] = records[1] + draw(scale=scale / 5, size=10)
            check.take(answers)
        assert check.too_little() == [i == 1 for i in range(OWNERS)]
        seen.append(check.probabilities()[0])
    # An honest owner's probability is at least as large as a uniform number: never too many small ones.
    assert ks_1samp(seen, lambda x: np.clip(x, 0, 1), alternative="greater").pvalue > 1e-3
