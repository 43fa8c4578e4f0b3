"""Exact forecasts against 20,000 runs of the rules, written from the algorithms in θ itself.

The mean of f must agree at every k by a z-test at 1e-6 (two-sided), and so must the variance (of the oracle). Variances are
compared where the kurtosis of the runs is below 10: above, a few schedules carry the variance (an owner that hardly talks),
and no z-test holds.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copriv.exact import OwnerKinds, expected_cost
from copriv.model.fitness import Quadratic, Regularizer
from exact_variance import variance_of
from plain_runs import costs_of_runs
from recursions import recursion_of

Z = 4.892  # Φ(−4.892) = 0.5e-6


def setting(rule, N, p, T, seed):
    """A random fitness, owners and a step that converges, with noise about as large as the gradients."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(4 * p + 2, p)) * rng.uniform(0.2, 1.5, p) @ np.linalg.qr(rng.normal(size=(p, p)))[0]
    y = rng.normal(size=len(X))
    quadratic = Quadratic(X.T @ X / len(y), X.T @ y / len(y), float(y @ y / len(y)), Regularizer(0.1))
    n, ε = rng.integers(1_000, 50_000, N).astype(float), 10 ** rng.uniform(-1, 1, N)
    answers = T if rule in ("S1", "S2", "S2 last") else max(1, T // N)
    b = 2 * rng.uniform(1, 30) * answers / (n * ε)
    largest, share = np.linalg.eigvalsh(quadratic.hessian)[-1], rng.uniform(0.1, 0.7)
    step = share / largest
    if rule == "S1":
        step *= T**2
    elif rule == "A1":
        step = min(share, share * 0.1 / (N * largest * (n / n.sum()).max())) * T**2
    return quadratic, n, b, step, rng.normal(size=p)


def compare(rule, N, p, T, seed, runs):
    quadratic, n, b, step, start = setting(rule, N, p, T, seed)
    arguments = (recursion_of(rule, step, T), quadratic, OwnerKinds.of(n, b), T, start)
    mean, variance = expected_cost(*arguments), variance_of(*arguments)
    costs = costs_of_runs(rule, quadratic, n, b, step, T, start, runs, np.random.default_rng(seed + 2))
    deviation = costs.std(axis=0)
    rounding = 1e-10 * (mean + mean.max())
    assert (np.abs(costs.mean(axis=0) - mean) <= Z * deviation / np.sqrt(runs) + rounding).all()
    fourth = ((costs - costs.mean(axis=0)) ** 4).mean(axis=0)
    variance_error = np.sqrt(np.maximum(fourth - deviation**4, 0) / runs)
    tolerance = Z * variance_error + 1e-12 * (mean + mean.max()) ** 2
    assert (np.abs(deviation**2 - variance) <= tolerance)[fourth <= 10 * deviation**4].all()


rules = st.sampled_from(["S1", "S2", "S2 last", "A1", "A2"])
seeds = st.integers(0, 2**31)


@pytest.mark.slow
@settings(max_examples=45)
@given(rules, st.integers(1, 6), st.integers(1, 8), st.integers(2, 60), seeds)
def test_forecasts_agree_with_runs(rule, N, p, T, seed):
    compare(rule, N, p, T, seed, 20_000)


@pytest.mark.parametrize("rule", ["S1", "S2", "S2 last", "A1", "A2"])
def test_the_test_has_teeth(rule):
    """Noise off by a tenth, a schedule or an average off by one: the z-test sees each of them."""
    N, p, T, runs = 3, 4, 12, 8_000
    quadratic, n, b, step, start = setting(rule, N, p, T, 5)
    compare(rule, N, p, T, 5, runs)
    start = quadratic.free_minimum()  # no transient: what is left is noise
    costs = costs_of_runs(rule, quadratic, n, b, step, T, start, runs, np.random.default_rng(1))
    tolerance = Z * costs[:, -1].std() / np.sqrt(runs)
    mean = expected_cost(recursion_of(rule, step, T), quadratic, OwnerKinds.of(n, 1.1 * b), T, start)
    assert abs(mean[-1] - costs[:, -1].mean()) > tolerance


def test_the_average_is_not_of_the_newest_iterate():
    quadratic, n, b, step, start = setting("S2", 2, 3, 8, 1)
    costs = costs_of_runs("S2", quadratic, n, b, step, 8, start, 4_000, np.random.default_rng(0))
    mean, newest = (
        expected_cost(recursion_of(rule, step, 8), quadratic, OwnerKinds.of(n, b), 8, start)
        for rule in ("S2", "S2 last")
    )
    assert mean[1] == pytest.approx(mean[0])  # θ̄[2] = θ[1]
    assert abs(newest[-1] - costs[:, -1].mean()) > Z * costs[:, -1].std() / np.sqrt(4_000)
