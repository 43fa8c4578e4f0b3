"""Heterogeneity: a number, where it comes from, and worlds that have it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import copriv
from copriv.errors import AgreementError, DataError, InvalidInput
from copriv.plan import plan
from copriv.plan.minimax_regret import cautious
from copriv.populations import dealt
from copriv.populations.dealt import heterogeneity_of, heterogeneous_worlds
from copriv.populations.public_sample import PublicSample
from copriv.problem import Problem
from copriv.terms.heterogeneity import UNKNOWN, Heterogeneity, from_answers, from_strata

OWNERS, P = 6, 3


def _agreement(loss: str = "squared", owners: int = OWNERS, **data: object) -> copriv.Agreement:
    return copriv.Agreement.of(
        {
            "agreement": {"rule": "S1", "horizon": 3, "step": 0.2},
            "model": {"loss": loss, "regularization": 1e-4, "gradient_bound": 20.0},
            "data": {"feature_bound": 0, **data},
            "owner": [{"name": f"o{i}", "records": 1000 * (1 + i % 3), "epsilon": 5.0} for i in range(owners)],
        }
    )


def _unlike_owners(away: float, seed: int = 0, rows: int = 4000) -> list[tuple[np.ndarray, np.ndarray]]:
    """Owners whose best models are `away` from one another, over rows of one law."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(OWNERS):
        X = rng.normal(size=(rows, P))
        made.append((X, X @ (np.array([1.0, -1.0, 0.5]) + away * rng.normal(size=P)) + rng.normal(size=rows)))
    return made


def _truth(parts: list[tuple[np.ndarray, np.ndarray]]) -> float:
    """Σ w_i ψ(θ_i) by least squares: the definition, with nothing of ours in it."""
    X, y = np.vstack([x for x, _ in parts]), np.concatenate([t for _, t in parts])
    best = np.linalg.lstsq(X, y, rcond=None)[0]
    lost = [np.mean((X @ np.linalg.lstsq(x, t, rcond=None)[0] - y) ** 2) for x, t in parts]
    return float(np.mean(lost) / np.mean((X @ best - y) ** 2) - 1.0)


@pytest.mark.parametrize("away", [0.05, 0.2, 0.6])
def test_strata_of_public_rows_tell_it(away: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dealt, "MOST_OWNERS", 1)  # the estimate for many owners
    held, estimates, truths = [], [], []
    for seed in range(10):
        parts = _unlike_owners(away, seed)
        public = (np.vstack([x[:400] for x, _ in parts]), np.concatenate([y[:400] for _, y in parts]))
        labels = np.repeat([f"o{i}" for i in range(OWNERS)], 400)
        found = heterogeneity_of(PublicSample(Problem.forecasting(_agreement(), public, strata=labels)))
        truths.append(_truth(parts))
        estimates.append(found.value)
        held.append(found.low <= truths[-1] <= found.high)
        assert found.source == "strata"
    assert np.mean(held) >= 0.7
    assert np.mean(estimates) == pytest.approx(np.mean(truths), rel=0.35)


@pytest.mark.parametrize("called", ["region {}", "o0 and region {}"])
def test_strata_that_are_not_the_owners_say_nothing_of_them(called: str) -> None:
    """Regions may be alike where the owners are not, and the other way round."""
    parts = _unlike_owners(0.6)
    public = (np.vstack([x[:50] for x, _ in parts]), np.concatenate([y[:50] for _, y in parts]))
    labels = np.repeat([called.format(i) for i in range(OWNERS)], 50)
    if called.startswith("o0"):
        labels = np.where(labels == called.format(0), "o0", labels)  # one owner alone is nothing to compare
    problem = Problem.forecasting(_agreement(), public, strata=labels)
    assert heterogeneity_of(PublicSample(problem)) == heterogeneity_of(PublicSample(replace(problem, strata=None)))
    assert heterogeneity_of(PublicSample(problem)).source == "not stated"


def test_strata_that_are_alike_tell_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without taking sampling noise off, 60 rows a stratum of 3 parameters would look like u = 0.05."""
    monkeypatch.setattr(dealt, "MOST_OWNERS", 1)
    estimates, labels = [], np.repeat([f"o{i}" for i in range(OWNERS)], 60)
    for seed in range(20):
        parts = _unlike_owners(0.0, seed, rows=60)
        public = (np.vstack([x for x, _ in parts]), np.concatenate([y for _, y in parts]))
        estimates.append(heterogeneity_of(PublicSample(Problem.forecasting(_agreement(), public, strata=labels))))
    assert np.mean([u.value for u in estimates]) < 0.01
    assert np.mean([u.low == 0.0 for u in estimates]) > 0.7


@pytest.mark.parametrize("away", [0.1, 0.4])
@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_answers_tell_it(away: float, noise: float) -> None:
    parts, rng = _unlike_owners(away), np.random.default_rng(9)
    X, y = np.vstack([x for x, _ in parts]), np.concatenate([t for _, t in parts])
    theta = np.linalg.lstsq(X, y, rcond=None)[0]
    answers = np.array([2.0 * x.T @ (x @ theta - t) / len(t) for x, t in parts])
    answers += noise * rng.laplace(size=answers.shape)
    found = from_answers(
        answers, np.full(OWNERS, 1 / OWNERS), np.full(OWNERS, 2 * noise**2), 2.0 * X.T @ X / len(y),
        float(np.mean((X @ theta - y) ** 2)),
    )  # fmt: skip
    assert found.source == "answers"
    assert found.value == pytest.approx(_truth(parts), rel=0.35)


def test_the_noise_of_answers_is_taken_off() -> None:
    """Alike owners whose answers are mostly noise: unbiased, where the raw spread would say 0.9 and more."""
    rng, weights = np.random.default_rng(3), np.array([0.5, 0.2, 0.1, 0.1, 0.1])
    scale = np.array([0.1, 0.2, 0.4, 0.4, 0.4])
    found = [
        from_answers(scale[:, None] * rng.normal(size=(5, 3)), weights, scale**2, 2.0 * np.eye(3), 0.05)
        for _ in range(400)
    ]
    # Values are cut off at 0, so their mean is above it; the middle of the range is not cut.
    assert np.median([u.value for u in found]) < 0.1
    assert np.mean([u.low == 0.0 for u in found]) > 0.8


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("asked", [0.003, 0.02, 0.2])
def test_worlds_have_the_heterogeneity_that_is_asked_for(loss: str, asked: float) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(1500, P))
    y = X @ [1.0, -1.0, 0.5] + rng.normal(size=1500)
    agreement = _agreement(loss)
    sample = PublicSample.of(
        Problem.forecasting(agreement, (X, np.where(y > 0, 1.0, -1.0) if loss != "squared" else y))
    )
    for world in heterogeneous_worlds(sample, agreement, [asked] * 3):
        problem = world.problem(agreement)
        best, n = problem.optimum, agreement.records / agreement.records.sum()
        alone = [float(problem.fitness.value(problem.fitness_of(o).minimum().theta)) for o in problem.owners]
        assert world.heterogeneity == pytest.approx(asked, rel=0.05)
        assert float(n @ alone) / best.value - 1.0 == pytest.approx(asked, rel=0.6)


@settings(max_examples=15, deadline=None)
@given(st.integers(2, 20), st.floats(0.001, 2.0), st.integers(0, 1000))
def test_a_deal_gives_out_every_row_once_and_to_each_its_part(owners: int, asked: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_t(3, size=(300, P))
    agreement = _agreement(owners=owners)
    sample = PublicSample.of(Problem.forecasting(agreement, (X, X @ np.ones(P) + rng.normal(size=300))))
    (world,) = heterogeneous_worlds(sample, agreement, [asked], seed)
    weights = np.array([part.weight for part in world.parts])
    assert weights.sum(axis=0) == pytest.approx(world.pool.unbounded[0].weight)
    held = weights.sum(axis=1)
    of_kind = np.bincount(np.arange(owners) % len(held), weights=agreement.records)
    assert held / held.sum() == pytest.approx(of_kind / of_kind.sum(), rel=0.02)


def test_many_owners_share_a_few_kinds() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(500, P))
    agreement = _agreement(owners=100)
    sample = PublicSample.of(Problem.forecasting(agreement, (X, X @ np.ones(P) + rng.normal(size=500))))
    (world,) = heterogeneous_worlds(sample, agreement, [0.05])
    assert len({id(owner) for owner in world.problem(agreement).owners}) == 8


def test_a_range_is_log_normal_between_its_ends() -> None:
    u = Heterogeneity(0.02, 0.002, 0.2, "stated")
    assert [u.quantile(q) for q in (0.05, 0.5, 0.95)] == pytest.approx([0.002, 0.02, 0.2])
    assert Heterogeneity.stated((0.01, 0.04)).value == pytest.approx(0.02)
    assert Heterogeneity.stated(0).alike
    assert not UNKNOWN.alike
    assert UNKNOWN.quantile(0.05) == 0.0


@pytest.mark.parametrize("given", [-0.1, [0.2, 0.1], [0.1], "alike", float("nan")])
def test_what_is_no_range_is_refused(given: object) -> None:
    with pytest.raises(AgreementError, match="heterogeneity"):
        _agreement(heterogeneity=given)


def test_other_terms_that_do_not_fit() -> None:
    X = np.ones((4, P))
    with pytest.raises(InvalidInput, match="two"):
        Heterogeneity.stated((1.0, 2.0, 3.0))
    with pytest.raises(InvalidInput, match="low"):
        Heterogeneity(0.1, 0.2, 0.3, "stated")
    with pytest.raises(DataError, match="strata"):
        Problem.forecasting(_agreement(), (X, np.ones(4)), strata=["a", "b"])
    with pytest.raises(InvalidInput, match="two strata"):
        from_strata(np.ones((3, P)), np.ones(3) / 3, np.array([0, 1, 2]), np.eye(P), 1.0)


@pytest.mark.slow
def test_a_plan_for_owners_that_differ_does_not_average_their_models() -> None:
    """Much budget, owners far from one another: an average of fitted models is biased, gradients at one point are not."""
    parts = _unlike_owners(0.7, rows=3000)
    public = (np.vstack([x[:150] for x, _ in parts]), np.concatenate([y[:150] for _, y in parts]))
    owners = [{"name": f"o{i}", "records": 3000, "epsilon": 5.0} for i in range(OWNERS)]
    terms = {"rule": "auto", "horizon": 50}
    open_terms = copriv.Agreement.of(
        {"agreement": terms, "model": {"loss": "squared", "regularization": 1e-4}, "owner": owners}
    )
    alike = plan(Problem.forecasting(open_terms.replace(data={"heterogeneity": 0.0}), public), keep=False, runs=10)
    found = cautious(PublicSample(Problem.forecasting(open_terms, public)), alike, UNKNOWN)
    assert alike.caution is None
    assert found.caution.regret[found.caution.chosen].max() == found.caution.regret.max(axis=1).min()
    assert found.caution.holds_to >= 0.02
    measured = {
        one.describe(): copriv.simulate(one.agreement, data=parts, public=public, runs=10, alone=False)
        .relative_fitness.final["median"]
        for one in found.caution.choices
    }  # fmt: skip
    assert measured[found.choice.describe()] < 4.0 * min(measured.values())
    averaged = [ψ for words, ψ in measured.items() if "fitted models" in words]
    assert averaged
    assert measured[found.choice.describe()] < 0.5 * min(averaged)
