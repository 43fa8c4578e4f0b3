"""One-answer mechanisms planned from public rows: private data is never read, and the choice is a sensible one."""

import numpy as np
import pytest

from copriv import Agreement, Problem, Records, simulate
from copriv.errors import AgreementError
from copriv.mechanisms.objective import SMOOTHINGS
from copriv.mechanisms.one_answer import Setting
from copriv.plan.one_answer import _costs, plan_one_answer
from copriv.types import Array


def problem(loss: str, epsilon: float, delta: float = 0.0, seed: int = 0) -> Problem:
    rng = np.random.default_rng(seed)

    def table(n: int) -> tuple[Array, Array]:
        x = rng.uniform(-1, 1, size=(n, 3)) * [0.5, 0.2, 0.1]
        z = x @ [2.0, -3.0, 4.0] + 0.3 * rng.normal(size=n)
        return x, np.where(z > 0, 1.0, -1.0) if loss in ("logistic", "hinge") else z

    agreement = Agreement.of(
        {
            "agreement": {"rule": "auto", "horizon": 50},
            "model": {"loss": loss, "regularization": 1e-3},
            "data": {"feature_bound": 0.8, "public_rows": 400},
            "owner": [
                {"name": f"bank-{i}", "records": 3000, "epsilon": epsilon, "delta": delta} for i in range(3)
            ],
        }
    )  # fmt: skip
    return Problem.of(agreement, [table(3000) for _ in range(3)], table(400))


@pytest.mark.parametrize(
    ("loss", "mechanism", "delta"),
    [("squared", "statistics", 0.0), ("logistic", "objective", 0.0), ("logistic", "objective", 1e-6)],
)
def test_the_plan_beats_the_public_model_where_noise_is_small(loss: str, mechanism: str, delta: float) -> None:
    made = problem(loss, 5.0, delta)
    planned = plan_one_answer(made, mechanism)
    public = made.on_public().optimum.theta
    ψ_public = float(made.fitness.value(public)) / made.optimum.value - 1
    ψ = simulate(made.under(planned), runs=20, alone=False).relative_fitness.final["median"]
    assert ψ < ψ_public


def test_private_records_are_never_read() -> None:
    made = problem("squared", 1.0)
    poisoned = tuple(Records(r.features * np.nan, r.target * np.nan, r.weight) for r in made.unbounded)
    blind = problem("squared", 1.0)
    object.__setattr__(blind, "unbounded", poisoned)
    assert plan_one_answer(blind, "statistics") == plan_one_answer(made, "statistics")


def test_runs_do_not_depend_on_their_batch() -> None:
    made = problem("squared", 1.0)
    planned = plan_one_answer(made, "statistics", public_start=False)
    whole = simulate(made.under(planned), runs=6, alone=False)
    parts = [simulate(made.under(planned), runs=3, first_run=k, alone=False) for k in (0, 3)]
    np.testing.assert_allclose(whole.theta, parts[0].merge(parts[1:]).theta, rtol=1e-10)
    assert whole.relative_fitness.k.tolist() == [0, 1, 2, 3]
    assert {owner.answers for owner in whole.owners} == {1}


def test_a_start_a_step_a_matrix_and_a_bound_that_are_agreed_stay() -> None:
    made = problem("logistic", 2.0)
    fixed = {"start": [0.1, 0.2, 0.3], "step": 0.5, "preconditioner": np.diag([1.0, 2.0, 3.0]).tolist()}
    terms = made.terms.replace(agreement=fixed, model={"gradient_bound": 0.4})
    found = plan_one_answer(made.under(terms), "objective")
    assert found.agreement.start == (0.1, 0.2, 0.3)
    assert found.step == 0.5
    assert found.gradient_bound == 0.4
    np.testing.assert_array_equal(found.agreement.preconditioner, fixed["preconditioner"])


def test_the_hinge_is_rounded_as_suits_the_budget_but_for_where_that_is_agreed() -> None:
    made = problem("hinge", 5.0)
    assert plan_one_answer(made, "objective").model.smoothing in SMOOTHINGS
    one = {"mechanism": "objective", "answers": 1}
    kept = plan_one_answer(made.under(made.terms.replace(agreement=one, model={"smoothing": 0.7})), "objective")
    assert kept.model.smoothing == 0.7


@pytest.mark.parametrize(("loss", "mechanism"), [("squared", "statistics"), ("logistic", "objective")])
def test_the_expected_psi_is_that_of_runs(loss: str, mechanism: str) -> None:
    """The shortcuts (all owners' noise as one's, N models from one's spread) against the engine, in the same world."""
    made = problem(loss, 3.0).on_public()
    planned = plan_one_answer(made, mechanism)
    world = made.under(planned)
    terms = planned.agreement
    kept = {key: getattr(terms, key) for key in ("preconditioner", *planned.mechanism.terms)}
    expected = _costs((world,), planned, Setting(planned.gradient_bound, (planned.step,), kept), 400, 1)[0]
    runs = simulate(world, runs=300, alone=False).relative_fitness.runs[:, -1]
    assert expected == pytest.approx(runs.mean(), abs=4 * runs.std() / np.sqrt(300) + 0.02 * runs.mean())


def test_epsilon_without_limit_overflows_nowhere() -> None:
    with np.errstate(over="raise"):
        plan_one_answer(problem("logistic", 1e5), "objective")


def test_terms_that_no_quick_solver_serves_are_not_weighed_for_minutes(monkeypatch):
    """Newton's steps fail on all terms: a plan that would go the slow way for each says so at once instead."""
    from copriv.mechanisms import objective_solver

    monkeypatch.setattr(objective_solver.Prepared, "_by_newton_steps", lambda *_: None)
    slow = "a plan went the slow way"
    monkeypatch.setattr(objective_solver.Prepared, "_surely", lambda self, tilt, goal: pytest.fail(slow))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    agreement = Agreement.of(
        {
            "agreement": {"rule": "auto", "horizon": 9},
            "model": {"loss": "logistic", "regularization": 0.01},
            "data": {"heterogeneity": 0.0},
            "owner": [{"name": f"o{i}", "records": 100, "epsilon": 1.0} for i in range(3)],
        }
    )
    with pytest.raises(AgreementError, match="no setting"):
        plan_one_answer(Problem.forecasting(agreement, (X, np.sign(X[:, 0] + rng.normal(size=200)))), "objective")
