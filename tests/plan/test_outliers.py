"""Are plans insured against records that public rows cannot show, and only where that is cheap?"""

import numpy as np
import pytest

import copriv
from copriv.model.records import Records
from copriv.plan import outliers, plan
from copriv.plan.outliers import FEWEST, LENGTHS, PREMIUM, PROBABILITY, RARER, cost_of_outliers, outliers_of
from copriv.populations.public_sample import PublicSample
from copriv.problem import Problem

SLOPES = np.array([1.0, -0.5])


def table(rows, seed, kind=np.random.Generator.normal):
    rng = np.random.default_rng(seed)
    x = kind(rng, size=(rows, 2))
    return x, x @ SLOPES + 0.3 * rng.normal(size=rows)


def agreed(records=30_000, epsilon=20.0):
    return copriv.Agreement.of(
        {
            "agreement": {"rule": "auto", "horizon": 100},
            "model": {"loss": "squared", "regularization": 0.0},
            "data": {"heterogeneity": 0.0, "feature_bound": 0.0},
            "owner": [{"name": name, "records": records, "epsilon": epsilon} for name in ("one", "two", "three")],
        }
    )


def sample_of(terms, public):
    return PublicSample(Problem.forecasting(terms, public))


def among(public, found, kind, share):
    """The public rows and one kind of outlier, as records of weights that add up to a million."""
    x, y = public
    weight = np.append(np.full(len(x), (1.0 - share) / len(x)), share) * 1e6
    return Records(np.vstack([x, found.x[kind]]), np.append(y, found.y[kind]), weight)


def test_the_best_model_misses_an_outlier_by_the_root_mean_square_residual():
    """By numpy alone, fitted to all records."""
    x, y = public = table(500, 1)
    found = outliers_of(sample_of(agreed(), public))
    assert found.share == pytest.approx(1 / (RARER * FEWEST)), "500 public rows count as a thousand"
    assert found.likely.sum() == pytest.approx(PROBABILITY)
    longest = np.abs(x).sum(axis=1).max()
    assert set(np.round(np.abs(found.x).max(axis=1) / longest, 6)) == set(LENGTHS)
    missed = np.sqrt(np.mean(np.square(y - x @ np.linalg.lstsq(x, y, rcond=None)[0])))
    sides = []
    for kind in range(len(found.x)):
        records = among(public, found, kind, found.share)
        root = np.sqrt(records.weight)
        best = np.linalg.lstsq(root[:, None] * records.features, root * records.target, rcond=None)[0]
        # A record of the share w is added here and takes the place of others there: an error of the relative order w.
        assert found._balanced(np.inf, 1)[kind] == pytest.approx(best, rel=1e-2)
        sides.append((records.target[-1] - records.features[-1] @ best) / missed)
    assert np.abs(sides) == pytest.approx(np.ones(len(sides)), rel=1e-2)
    assert abs(sum(sides)) < 0.1


@pytest.mark.parametrize(
    ("rule", "terms"),
    [
        ("S2", {"communication": "synchronous", "horizon": 7, "answers": 6}),
        ("A2", {"schedule": "rounds", "window": 3, "horizon": 18, "answers": 6}),
    ],
)
def test_the_cost_of_outliers_is_that_of_a_simulation_without_noise(rule, terms):
    """Owners that hold the public rows and one kind of outlier, by the engine, at bounds that clip and at one that does not."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-1.0, 1.0, size=(500, 2))
    public = x, x @ SLOPES + 0.3 * rng.uniform(-1.0, 1.0, size=500)
    for bound, step in ((6.0, 0.3), (40.0, 0.3), (12.0, 1.0)):
        document = agreed().to_dict()
        document["agreement"] |= {"rule": rule, "step": step / terms.get("window", 1), **terms}
        document["model"]["gradient_bound"] = bound
        agreement = copriv.Agreement.of(document)
        sample = sample_of(agreement, public)
        found, plain, costs = outliers_of(sample), None, []
        for share in (0.0, found.share):
            kinds = range(len(found.x)) if share else [0]
            records = [among(public, found, kind, share) for kind in kinds]
            if not share:
                records = [Records(*public, np.full(500, 2e3))]
            costs.append([ψ_without_noise(agreement, one) for one in records])
        (plain,), with_outliers = costs
        expected = float(found.likely @ np.maximum(np.array(with_outliers) - plain, 0.0))
        assert cost_of_outliers(sample, agreement) == pytest.approx(expected, rel=0.03)


def ψ_without_noise(agreement, records):
    owners = agreement.replace(owner={"records": 1_000_000})
    problem, members = Problem.of(owners, [records] * 3), 3 if agreement.synchronous else 1
    quiet = copriv.simulate(problem, runs=1, noise=lambda k: np.zeros((1, members, 2)), alone=False)
    return float(quiet.relative_fitness.final["mean"])


def test_no_outliers_where_none_is_likely_or_none_can_be():
    assert outliers_of(sample_of(agreed(records=400), table(500, 1))) is None

    def signs(rng, size):
        return np.sign(rng.normal(size=size))

    assert outliers_of(sample_of(agreed(), table(500, 1, signs))) is None


@pytest.mark.slow
def test_where_noise_is_small_a_plan_counts_outliers_and_where_it_is_not_it_does_not(monkeypatch):
    public, owners = table(500, 1), [table(30_000, 2 + i) for i in range(3)]
    longest = np.abs(public[0]).sum(axis=1).max()
    for x, y in owners:  # one record in 10,000 is five times as long as any public row
        x[:3], y[:3] = [5.0 * longest, 0.0], 5.0 * longest + 0.5

    def planned(epsilon, probability):
        monkeypatch.setattr(outliers, "PROBABILITY", probability)
        return plan(Problem.forecasting(agreed(epsilon=epsilon), public), one_answer=False, runs=6).choice

    def measured(choice):
        return copriv.simulate(
            choice.agreement, data=owners, public=public, runs=10, alone=False
        ).relative_fitness.final["median"]

    insured, not_ = planned(20.0, 0.2), planned(20.0, 0.0)
    assert insured.agreement.gradient_bound > 1.9 * not_.agreement.gradient_bound
    assert measured(insured) < 0.2 * measured(not_)
    alone = sample_of(agreed(), public).alone(30_000, 90_000)
    assert insured.relative_fitness < not_.relative_fitness + PREMIUM * alone, "in worlds without outliers"
    for dear in (0.02, 1.0):  # of so small a budget a wider bound would cost more than outliers
        assert planned(dear, 0.2).agreement == planned(dear, 0.0).agreement
