"""Owners that learn for themselves from answers which all of them share: whose noise is in whose model."""

import numpy as np
import pytest

from copriv import Agreement, Problem
from copriv.errors import UsageError
from copriv.simulation import own_learners, simulate

SIZES, EPSILONS = (4_000, 2_000, 1_000), (1.0, 2.0, 4.0)
TRUTH = np.array([1.0, -0.5])


def data(seed=0):
    rng = np.random.default_rng(seed)
    tables = []
    for n in SIZES:
        X = rng.uniform(-1, 1, size=(n, 2))
        tables.append((X, X @ TRUTH + 0.3 * rng.uniform(-1, 1, size=n)))
    return tables


def agreed(tables, bound=20.0, share=0.0, mechanism="statistics", loss="squared"):
    """Nothing is clipped at bound 20; the learner steps along the very inverse of all records' curvature."""
    X = np.concatenate([x for x, _ in tables])
    P = np.linalg.inv(2 * X.T @ X / len(X))
    return Agreement.of(
        {
            "agreement": {
                "rule": "A2", "horizon": 3, "answers": 1, "step": 1.0, "mechanism": mechanism, "moments_share": share,
                "start": [0.9, -0.4], "preconditioner": (0.5 * (P + P.T)).tolist(), "seed": 3,
            },
            "model": {"loss": loss, "theta_max": 100.0, "gradient_bound": bound},
            "data": {"feature_bound": 2.0},
            "owner": [{"name": f"o{i}", "records": SIZES[i], "epsilon": EPSILONS[i]} for i in range(len(SIZES))],
        }
    )  # fmt: skip


def test_the_cost_is_that_of_the_others_noise_and_of_nothing_else():
    tables = data()
    problem = Problem.of(agreed(tables), tables)
    X = np.concatenate([x for x, _ in tables])
    A = 2 * X.T @ X / len(X)
    w = np.array(SIZES) / sum(SIZES)
    b = 2 * 20.0 / (np.array(SIZES) * np.array(EPSILONS))  # Laplace scale: sensitivity 2Ξ/n over ε
    for j, one in enumerate(own_learners(problem, budget="shared", runs=3_000, alone=False)):
        others = np.arange(3) != j
        expected = 0.5 * np.trace(np.linalg.inv(A)) * 2 * np.sum((w * b)[others] ** 2) / problem.optimum.value
        ψ = one.relative_fitness.runs[:, -1]
        assert ψ.mean() == pytest.approx(expected, abs=5 * ψ.std() / np.sqrt(len(ψ)))
        assert one.owners[j].noise_scale == 0


def test_all_learners_use_the_same_answers_so_nobody_pays_twice():
    tables = data()
    problem = Problem.of(agreed(tables), tables)
    w, P = np.array(SIZES) / sum(SIZES), np.array(problem.agreement.agreement.preconditioner)
    common = simulate(problem, runs=6, alone=False).theta
    noise = []
    for j, one in enumerate(own_learners(problem, budget="shared", runs=6, alone=False)):
        # Learner j's model differs from the common one by owner j's noise alone: −P·w_j·v_j is gone from it.
        noise.append((one.theta - common) @ np.linalg.inv(P) / w[j])
    exact = np.linalg.lstsq(np.concatenate([x for x, _ in tables]), np.concatenate([y for _, y in tables]))[0]
    v = sum(w_j * v_j for w_j, v_j in zip(w, noise, strict=True))
    np.testing.assert_allclose(common, exact - v @ P, atol=1e-9)


def test_sharing_is_better_than_splitting_by_the_square_of_the_other_learners():
    tables = data()
    problem = Problem.of(agreed(tables), tables)
    shared = own_learners(problem, budget="shared", runs=200, alone=False)
    split = own_learners(problem, budget="split", runs=200, alone=False)
    for one, other in zip(shared, split, strict=True):
        # The same draws, N − 1 = 2 times as large: ψ is a square.
        np.testing.assert_allclose(other.relative_fitness.runs[:, -1], 4 * one.relative_fitness.runs[:, -1], rtol=1e-6)


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_the_own_part_is_neither_clipped_nor_shortened(share):
    tables = data()
    tight = agreed(tables, bound=0.05, share=share).replace(
        data={"feature_bound": 0.3}, owner=[{"name": "only", "records": SIZES[0], "epsilon": 1.0}]
    )
    (one,) = own_learners(tight, tables[:1], budget="shared", runs=2, alone=False)
    if share:
        # Its own curvature too: the exact optimum of its own records.
        np.testing.assert_allclose(one.theta, np.tile(np.linalg.lstsq(*tables[0])[0], (2, 1)), atol=1e-5)
    else:
        X, y = tables[0]
        step = 2 * X.T @ (X @ [0.9, -0.4] - y) / len(X) @ np.array(tight.agreement.preconditioner)
        np.testing.assert_allclose(one.theta, np.tile([0.9, -0.4] - step, (2, 1)), atol=1e-9)


def test_models_fitted_at_home_can_be_shared_as_well():
    tables = [(x, np.sign(y)) for x, y in data()]
    terms = agreed(tables, mechanism="objective", loss="logistic", bound=2.0).replace(model={"regularization": 0.01})
    learners = own_learners(terms, tables, budget="shared", runs=4, alone=False)
    common = simulate(terms, tables, runs=4, alone=False).relative_fitness.final["mean"]
    assert all(0 < one.relative_fitness.final["mean"] < common * 1.5 for one in learners)
    assert len({one.theta.tobytes() for one in learners}) == 3


def test_only_who_is_asked_for_learns():
    tables = data()
    (one,) = own_learners(agreed(tables), tables, budget="shared", owners=[2], runs=2, alone=False)
    assert one.owners[2].noise_scale == 0


def test_many_answers_cannot_be_shared_and_that_is_said():
    tables = data()
    many = agreed(tables).replace(agreement={"mechanism": "laplace", "step": 0.1})
    with pytest.raises(UsageError, match="statistics"):
        own_learners(many, tables, budget="shared")
