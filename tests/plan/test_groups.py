"""Groups that answer as one (A, Remark 2): who is in which, what they cost exactly, and the size that a plan chooses."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copriv.agreement import Agreement
from copriv.agreement.participants import Participants
from copriv.errors import AgreementError
from copriv.forecast.assessment import _exact_mean
from copriv.plan import candidates, plan, planner
from copriv.plan.aggregated_runs import runs_in
from copriv.populations.dealt import heterogeneous_worlds
from copriv.populations.public_sample import PublicSample
from copriv.problem import Problem
from copriv.simulation import simulate


def agreed(owners, *, rule="A2", horizon=12, data=None, regularization=0.05, **terms):  # type: ignore[no-untyped-def]
    return Agreement.of(
        {
            "agreement": {"rule": rule, "horizon": horizon, **terms},
            "model": {"loss": "squared", "regularization": regularization, "gradient_bound": 1e3, "theta_max": 1e6},
            "data": {"feature_bound": 0.0, "heterogeneity": 0.0, **(data or {})},
            "owner": [{"name": f"o{i}", **owner} for i, owner in enumerate(owners)],
        }
    )


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from([None, None, "x", "y"]), min_size=1, max_size=30), st.integers(1, 40))
def test_everybody_is_in_one_group_and_groups_are_even(named: list[str | None], size: int) -> None:
    owners = [{"records": 5, "epsilon": 1.0, **({} if name is None else {"group": name})} for name in named]
    agreement = agreed(owners, step=1.0, group_size=size)
    participants = Participants.of(agreement)
    assert sorted(i for group in participants.members for i in group) == list(range(len(named)))
    assert len(participants.members) == agreement.n_participants
    sizes = [len(group) for group in participants.members if named[group[0]] is None]
    assert not sizes or (max(sizes) <= size and max(sizes) - min(sizes) <= 1)
    assert all(len({named[i] for i in group}) == 1 for group in participants.members)
    assert participants.weights.sum() == pytest.approx(1.0)


def test_an_agreement_without_groups_is_the_same_document_as_before() -> None:
    assert "group_size" not in agreed([{"records": 5, "epsilon": 1.0}], step=1.0).to_dict()["agreement"]


def test_a_size_that_is_still_open_cannot_be_run() -> None:
    with pytest.raises(AgreementError, match="group_size"):
        Participants.of(agreed([{"records": 5, "epsilon": 1.0}] * 3, step=1.0, group_size="auto"))


RECORDS = (40, 80, 60, 100, 50, 70)
STEP = 0.12


def a2_in_plain_numbers(problem: Problem, groups: list[list[int]], runs: int) -> float:
    """Mean ψ at the end of A2 with these groups, drawn run by run; Laplace noise of each owner, written out."""
    rng, n = np.random.default_rng(3), np.array(RECORDS, dtype=float)
    f, σ, T = problem.fitness, problem.terms.model.regularization, problem.terms.agreement.horizon
    X, y = f.records.features, f.records.target
    b = 2 * 1e3 * T / (n * np.array([owner.epsilon for owner in problem.terms.owner]))
    slope, offset = 2 * X.T @ X / len(y), 2 * X.T @ y / len(y)
    share = np.array([n[g].sum() for g in groups]) / n.sum()
    θ, heard = np.zeros((runs, 2)), np.zeros((runs, len(groups)), dtype=bool)
    memory = np.zeros((runs, len(groups), 2))
    every = np.arange(runs)
    for k in range(1, T + 1):
        participant = rng.integers(len(groups), size=runs)
        noise = np.zeros((runs, 2))
        for j, group in enumerate(groups):
            drawn = sum(n[i] / n[group].sum() * rng.laplace(scale=b[i], size=(runs, 2)) for i in group)
            noise[participant == j] = drawn[participant == j]
        memory[every, participant], heard[every, participant] = θ @ slope - offset + noise, True
        weight = heard * share
        G = (weight[:, :, None] * memory).sum(axis=1) / weight.sum(axis=1)[:, None]
        θ = θ - STEP / (1 + k / len(groups)) * (σ * θ + G)
    return float(np.mean(f.value(θ))) / problem.optimum.value - 1.0


def test_the_exact_mean_of_groups_is_what_plain_loops_do() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2))
    y = X @ [1.0, -2.0] + 0.5 * rng.normal(size=100)
    owners = [{"records": n, "epsilon": 3e4} for n in RECORDS]
    agreement = agreed(owners, step=STEP, group_size=2, horizon=9)
    problem = Problem.forecasting(agreement, (X, y))
    exact = _exact_mean(problem)
    assert exact is not None
    groups = [[0, 1], [2, 3], [4, 5]]
    assert exact[-1] == pytest.approx(a2_in_plain_numbers(problem, groups, 60_000), rel=0.03)
    alone = _exact_mean(problem.under(agreement.replace(agreement={"group_size": None})))
    assert alone is not None
    assert abs(alone[-1] / exact[-1] - 1) > 0.1, "the test would not see groups that are left out"


def test_an_equal_agreement_is_run_as_the_first_one_was() -> None:
    """What is known of an agreement is kept by its value: a second one that equals it is another object."""
    one, other = (agreed([{"records": 40, "epsilon": 1.0}] * 3, step=STEP, group_size=2) for _ in range(2))
    sample = PublicSample(Problem.forecasting(one, public_rows()))
    world = heterogeneous_worlds(sample, one, [0.05])[0]
    ends = [runs_in([world.problem], terms, 2, 0).relative_fitness for terms in (one, other)]
    np.testing.assert_array_equal(*ends)


@pytest.fixture
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "ANSWERS", (1, 2, 4, 8))
    monkeypatch.setattr(candidates, "GRADIENT_BOUNDS", 6)
    monkeypatch.setattr(planner, "FINALISTS", 3)
    monkeypatch.setattr(planner, "FINALIST_WORLDS", 2)


def public_rows():  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(5)
    X = rng.normal(size=(600, 3))
    return X, X @ [1.0, -1.0, 0.5] + 0.7 * rng.normal(size=600)


def planned(owners: int, size: int | str, horizon: int):  # type: ignore[no-untyped-def]
    terms = agreed([{"records": 400, "epsilon": 2.0}] * owners, horizon=horizon, step="auto", group_size=size)
    problem = Problem.forecasting(terms.replace(model={"gradient_bound": "auto"}), public_rows())
    return plan(problem, public_start=False, preconditioner=False, runs=16)


@pytest.mark.usefixtures("_few")
def test_a_plan_makes_groups_with_which_the_run_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four owners and three queries: by itself no owner can answer; two groups once each, or all together thrice at most."""
    monkeypatch.setattr(candidates, "ANSWERS", (1, 2))
    found = planned(4, "auto", 3)
    terms = found.agreement
    size, N = terms.agreement.group_size, terms.n_participants
    assert isinstance(size, int)
    assert size > 1
    assert -(-4 // size) == N
    assert terms.answers * N == terms.agreement.horizon <= 3
    assert f"groups of {size}" in found.choice.describe()
    assert all(one.agreement.agreement.horizon <= 3 for one in found.measured)
    problem = Problem.forecasting(terms, public_rows())  # what is planned runs
    assert simulate(problem, runs=4, alone=False, workers=1).relative_fitness.final["mean"] > 0


@pytest.mark.slow
@pytest.mark.usefixtures("_few")
@pytest.mark.parametrize("horizon", [4, 16])
def test_the_size_that_a_plan_chooses_is_about_the_best_of_each_by_itself(horizon: int) -> None:
    best = planned(16, "auto", horizon).choice.relative_fitness
    each = [one for size in (1, 2, 4, 8, 16) for one in planned(16, size, horizon).measured]
    in_time = [one.relative_fitness for one in each if one.agreement.agreement.horizon <= horizon]
    assert best <= 1.3 * min(in_time)
