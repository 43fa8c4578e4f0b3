"""Var f(θ_k) of A1 and A2 against every schedule, each a quadratic form in Laplace draws, written in θ itself."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copriv.exact import asynchronous_variance
from copriv.exact.asynchronous import a1, a2
from copriv.exact.moments import Directions, OwnerKinds
from copriv.exact.reduced_runs import simulated_costs
from copriv.model.fitness import Quadratic, Regularizer
from recursions import recursion_of

FORECAST = {"A1": a1, "A2": a2}


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
    order = "random order" if random_order else "uniform"
    found = FORECAST[rule](quadratic, OwnerKinds.of(n, b, answers=caps), step, T, start, rng, order=order)
    assert (found.kind, found.variance_kind) == ("exact", "exact")
    assert not found.variance_error.any()
    np.testing.assert_allclose(found.mean, mean, rtol=1e-10)
    np.testing.assert_allclose(found.variance, exact, rtol=1e-9, atol=1e-12 * (mean**2).max())
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


@pytest.mark.parametrize("rule", FORECAST)
def test_neither_gaussian_noise_nor_independent_directions_would_do(rule):
    exact, gaussian, marginal = check(rule, np.array([1.0, 2.0]), np.array([1.0, 0.4]), 3, 4, 0)
    assert exact > gaussian * (1 + 1e-3)
    assert abs(exact / marginal - 1) > 1e-2


@pytest.mark.parametrize("caps", [None, 2])
@pytest.mark.parametrize("rule", FORECAST)
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
        found = FORECAST[rule](quadratic, owners, step_of(rule, T), T, np.ones(2), rng, order=order)
        assert found.variance_kind == "exact"
        return found.variance

    together = variance(OwnerKinds.of(n, b, counts=counts, answers=caps))
    sizes = np.repeat(n, counts) * (1 + 1e-10 * np.arange(sum(counts)))
    apart = variance(OwnerKinds.of(sizes, np.repeat(b, counts), answers=caps))
    np.testing.assert_allclose(together, apart, rtol=1e-8, atol=1e-13 * together.max())


@pytest.mark.parametrize("rule", FORECAST)
def test_many_identical_owners_are_few_labels(rule):
    """Beyond the labels of one class: against runs, where owners return (12 owners, 40 events)."""
    rng = np.random.default_rng(1)
    quadratic, T, runs = problem(rng, 3), 40, 40_000
    owners = OwnerKinds.of([2.0], [0.7], counts=[12])
    arguments = (quadratic, owners, step_of(rule, T) / 4, T, np.ones(3), rng)
    exact = FORECAST[rule](*arguments)
    costs = simulated_costs(
        recursion_of(rule, step_of(rule, T) / 4, T), Directions.of(quadratic, owners, np.ones(3)), owners, T, runs, rng
    )
    fourth = ((costs - costs.mean(axis=0)) ** 4).mean(axis=0)
    error = np.sqrt(np.maximum(fourth - costs.var(axis=0) ** 2, 0) / runs)
    assert exact.variance_kind == "exact"
    assert (np.abs(exact.variance - costs.var(axis=0)) <= 4.9 * error + 1e-12 * exact.mean.max() ** 2).all()


def test_unequal_noise_within_a_weight_does_not_enter_by_its_average():
    rng = np.random.default_rng(5)
    quadratic = problem(rng, 2)
    apart, average = OwnerKinds.of([4.0] * 2, [0.1, 2.0]), OwnerKinds.of([4.0], [np.sqrt(4.01 / 2)], counts=[2])
    for rule, forecast in FORECAST.items():
        one, other = (forecast(quadratic, o, step_of(rule, 6), 6, np.ones(2), rng) for o in (apart, average))
        np.testing.assert_allclose(one.mean, other.mean, rtol=1e-11)
        assert one.variance[-1] > other.variance[-1] * 1.05
        check(rule, np.array([4.0, 4.0]), np.array([0.1, 2.0]), 2, 4, 5)


def test_what_is_out_of_reach_is_simulated_and_says_so(monkeypatch):
    rng = np.random.default_rng(6)
    quadratic, other = problem(rng, 2), problem(rng, 2)
    pooled = Quadratic(
        0.5 * (quadratic.H + other.H), 0.5 * (quadratic.c + other.c), 0.5 * (quadratic.s + other.s), Regularizer(0.3)
    )
    different = OwnerKinds.of([4.0, 4.0], [0.1, 0.2], data=[quadratic, other])
    found = a2(pooled, different, 0.2, 5, np.ones(2), rng)
    assert (found.kind, found.variance_kind) == ("exact", "simulated")
    assert found.variance_error[1:].all()
    monkeypatch.setattr(asynchronous_variance, "MOST_HELD", 100.0)
    found = a2(quadratic, OwnerKinds.of([4.0, 5.0], [0.1, 0.2]), 0.2, 5, np.ones(2), rng)
    assert (found.kind, found.variance_kind) == ("exact", "simulated")
