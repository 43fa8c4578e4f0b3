"""Var f(θ_k), by the oracle: against every schedule, each a quadratic form in Laplace draws; and runs against the oracle."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copriv import Agreement, simulate
from copriv.exact import OwnerKinds, expected_cost
from copriv.model.fitness import Quadratic, Regularizer
from copriv.problem import Problem
from copriv.rules import named
from exact_variance import variance_of
from plain_runs import costs_of_runs
from recursions import recursion_of

RULES = ["A1", "A2"]


def problem(rng, p):
    X, y = rng.normal(size=(3 * p + 2, p)), rng.normal(size=3 * p + 2)
    return Quadratic(X.T @ X / len(y), X.T @ y / len(y), float(y @ y / len(y)), Regularizer(0.3))


def step_of(rule, T):
    return 0.06 * T**2 if rule == "A1" else 0.3


def models(rule, quadratic, n, step, T, start, walk, w):
    """θ after each event of a schedule, with noise w (events, p), straight from the algorithm."""
    N, ω, σ = len(n), n / n.sum(), quadratic.regularizer.strength
    θ, out = start, [start]
    copies, memory = [start] * N, {}
    for k, i in enumerate(walk):
        if rule == "A1":
            middle = (θ + copies[i]) / 2
            answer = 2 * (quadratic.H @ middle - quadratic.c) + w[k]
            copies[i] = middle - N * step / (T**2 * σ) * (σ * middle / (2 * N) + ω[i] * answer)
            θ = middle - 0.5 * step / (T**2 * σ) * σ * middle
        else:
            memory[i] = 2 * (quadratic.H @ θ - quadratic.c) + w[k]
            G = sum(n[j] * a for j, a in memory.items()) / sum(n[j] for j in memory)
            θ = θ - step / (1 + (k + 1) / N) * (σ * θ + G)
        out.append(θ)
    return np.array(out)


def by_schedules(rule, quadratic, n, b, step, T, start, schedules):
    """Var f at every k; the same with Gaussian noise; and with directions that meet only in the mean."""
    p, A = len(start), quadratic.hessian
    a, U = np.linalg.eigh(A)
    first, second, gaussian = np.zeros((3, T + 1))
    squares, fourths = np.zeros((T + 1, p)), np.zeros((T + 1, p))
    for chance, walk in schedules:
        base = models(rule, quadratic, n, step, T, start, walk, np.zeros((T, p)))
        moved = [models(rule, quadratic, n, step, T, start, walk, unit.reshape(T, p)) - base for unit in np.eye(T * p)]
        V, κ = np.repeat(2 * b[list(walk)] ** 2, p), np.repeat(12 * b[list(walk)] ** 4, p)
        for k in range(T + 1):
            m, R = base[k] - quadratic.free_minimum(), np.array([r[k] for r in moved]).T
            Q, g = 0.5 * R.T @ A @ R, R.T @ A @ m
            mean = 0.5 * m @ A @ m + np.diag(Q) @ V
            normal = V @ g**2 + 2 * V @ Q**2 @ V
            first[k] += chance * mean
            gaussian[k] += chance * (normal + mean**2)
            second[k] += chance * (normal + np.diag(Q) ** 2 @ κ + mean**2)
            z, r = U.T @ m, U.T @ R
            squares[k] += chance * (z**2 + r**2 @ V)
            fourths[k] += chance * (z**4 + 6 * z**2 * (r**2 @ V) + 3 * (r**2 @ V) ** 2 + r**4 @ κ)
    marginal = 0.25 * (fourths - squares**2) @ a**2
    return second - first**2, gaussian - first**2, marginal, first


def schedules_of(caps, N, T, random_order):
    """Every schedule with its probability, by walking the tree of choices."""
    walks = [(1.0, ())]
    for _ in range(T):
        longer = []
        for probability, walk in walks:
            left = [m - walk.count(i) for i, m in enumerate(caps)] if caps else [1] * N
            likely = left if random_order else [float(m > 0) for m in left]
            longer += [(probability * q / sum(likely), (*walk, i)) for i, q in enumerate(likely) if q > 0]
        walks = longer
    return walks


def check(rule, n, b, p, T, seed, caps=None, random_order=False):
    rng = np.random.default_rng(seed)
    quadratic, start, step = problem(rng, p), rng.normal(size=p), step_of(rule, T)
    exact, gaussian, marginal, mean = by_schedules(
        rule, quadratic, n, b, step, T, start, schedules_of(caps, len(n), T, random_order)
    )
    arguments = (recursion_of(rule, step, T), quadratic, OwnerKinds.of(n, b, answers=caps), T, start)
    order = "random order" if random_order else "uniform"
    np.testing.assert_allclose(expected_cost(*arguments, order), mean, rtol=1e-10)
    np.testing.assert_allclose(variance_of(*arguments, order), exact, rtol=1e-9, atol=1e-12 * (mean**2).max())
    return exact[-1], gaussian[-1], marginal[-1]


@settings(max_examples=40)
@given(st.sampled_from(["A1", "A2"]), st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(0, 10**6))
def test_variance_is_that_of_every_schedule(rule, N, p, T, seed):
    rng = np.random.default_rng(seed)
    n, b = rng.integers(1, 3, N).astype(float), rng.choice([0.2, 0.5, 1.0], N)  # some alike, some not
    check(rule, n, b, p, T, seed)


@settings(max_examples=20)
@given(
    st.sampled_from(["A1", "A2"]),
    st.sampled_from([[2, 2], [1, 3], [1, 1, 1], [1, 2, 1]]),
    st.booleans(),
    st.integers(0, 10**6),
)
def test_variance_under_caps(rule, caps, random_order, seed):
    rng = np.random.default_rng(seed)
    n, b = rng.integers(1, 3, len(caps)).astype(float), rng.choice([0.2, 0.5], len(caps))
    check(rule, n, b, 2, sum(caps), seed, caps, random_order)


@pytest.mark.parametrize("rule", RULES)
def test_neither_gaussian_noise_nor_independent_directions_would_do(rule):
    exact, gaussian, marginal = check(rule, np.array([1.0, 2.0]), np.array([1.0, 0.4]), 3, 4, 0)
    assert exact > gaussian * (1 + 1e-3)
    assert abs(exact / marginal - 1) > 1e-2


@pytest.mark.parametrize("caps", [None, 2])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("counts", [[7], [6, 2], [5, 1]])
def test_identical_owners_collapse(rule, counts, caps):
    """Against the same owners with sizes that differ in the tenth place, which are not collapsed."""
    if rule == "A2" and sum(counts) > 6 and caps is None:
        counts = [6] if len(counts) == 1 else [5, 1]
    if caps:
        counts = [5] if len(counts) == 1 else [4, 1]
    rng = np.random.default_rng(4)
    quadratic, T = problem(rng, 2), 9 if caps is None else 8
    n, b = np.array([3.0, 7.0])[: len(counts)], np.array([1.0, 0.3])[: len(counts)]
    order = "uniform" if caps is None else "random order"

    def variance(owners):
        return variance_of(recursion_of(rule, step_of(rule, T), T), quadratic, owners, T, np.ones(2), order)

    together = variance(OwnerKinds.of(n, b, counts=counts, answers=caps))
    sizes = np.repeat(n, counts) * (1 + 1e-10 * np.arange(sum(counts)))
    apart = variance(OwnerKinds.of(sizes, np.repeat(b, counts), answers=caps))
    np.testing.assert_allclose(together, apart, rtol=1e-8, atol=1e-13 * together.max())


@pytest.mark.parametrize("rule", RULES)
def test_many_identical_owners_are_few_labels(rule):
    """Beyond the labels of one class: against runs, where owners return (12 owners, 40 events)."""
    rng = np.random.default_rng(1)
    quadratic, T, runs = problem(rng, 3), 40, 40_000
    owners = OwnerKinds.of([2.0], [0.7], counts=[12])
    step, start = step_of(rule, T) / 4, np.ones(3)
    recursion = recursion_of(rule, step, T)
    exact, mean = (of(recursion, quadratic, owners, T, start) for of in (variance_of, expected_cost))
    costs = costs_of_runs(rule, quadratic, np.full(12, 2.0), np.full(12, 0.7), step, T, start, runs, rng)
    assert (np.abs(exact - costs.var(axis=0)) <= 4.9 * error_of_variance(costs) + 1e-12 * mean.max() ** 2).all()


def test_unequal_noise_within_a_weight_does_not_enter_by_its_average():
    rng = np.random.default_rng(5)
    quadratic = problem(rng, 2)
    apart, average = OwnerKinds.of([4.0] * 2, [0.1, 2.0]), OwnerKinds.of([4.0], [np.sqrt(4.01 / 2)], counts=[2])
    for rule in RULES:
        recursion = recursion_of(rule, step_of(rule, 6), 6)
        one, other = (expected_cost(recursion, quadratic, o, 6, np.ones(2)) for o in (apart, average))
        np.testing.assert_allclose(one, other, rtol=1e-11)
        one, other = (variance_of(recursion, quadratic, o, 6, np.ones(2)) for o in (apart, average))
        assert one[-1] > other[-1] * 1.05
        check(rule, np.array([4.0, 4.0]), np.array([0.1, 2.0]), 2, 4, 5)


def error_of_variance(costs):
    """The standard error of the variance of runs."""
    fourth = ((costs - costs.mean(axis=0)) ** 4).mean(axis=0)
    return np.sqrt(np.maximum(fourth - costs.var(axis=0) ** 2, 0) / len(costs))


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "step"), [("S1", 3.0), ("S2", 0.3), ("A1", 1.0), ("A2", 0.2)])
def test_simulated_runs_spread_as_far_as_the_oracle_says(rule, step):
    """The noise and the schedules of `simulate`; noise half as large again would be seen."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(20, 2))
    y = X @ [1.0, -1.0] + 0.1 * rng.normal(size=20)
    T, runs = 6, 20_000
    owners = [{"name": f"o{i}", "records": 20, "epsilon": 120.0 * (1 + 0.5 * i)} for i in range(3)]
    agreement = Agreement.of(
        {
            "agreement": {"rule": rule, "horizon": T, "step": step},
            "model": {"loss": "squared", "regularization": 0.5, "gradient_bound": 300.0, "theta_max": 1e6},
            "data": {"feature_bound": 0.0},
            "owner": owners,
        }
    )
    problem = Problem.of(agreement, [(X, y)] * 3, (X, y))
    found = simulate(problem, runs=runs, record_at=None, alone=False, workers=1)
    assert found.clipped == 0
    costs = found.relative_fitness.runs * problem.optimum.value
    quadratic, recursion = problem.fitness.quadratic, named(rule).recursion(agreement)

    def exact(times):
        kinds = OwnerKinds.of(agreement.records, times * agreement.noise_scales())
        return variance_of(recursion, quadratic, kinds, T, problem.start)

    off = 4.9 * error_of_variance(costs) + 1e-12 * costs.max() ** 2
    assert (np.abs(exact(1.0) - costs.var(axis=0)) <= off).all()
    assert abs(exact(1.5)[-1] - costs.var(axis=0)[-1]) > off[-1]
