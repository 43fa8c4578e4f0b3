"""The oracle itself, checked by hand-computed cases, finite differences and a second brute force.

The oracle is loaded by path, so that this file runs however the test folder is imported.
"""

import importlib.util
import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

_spec = importlib.util.spec_from_file_location("copriv_test_oracle", Path(__file__).with_name("oracle.py"))
assert _spec is not None
assert _spec.loader is not None
oracle: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(oracle)

LOSSES = ["squared", "logistic", "hinge", ("huber", 0.7)]


def some_owners(sizes: list[int], p: int, seed: int) -> list[list[tuple[np.ndarray, float]]]:
    rng = np.random.default_rng(seed)
    return [[(rng.normal(size=p), float(rng.choice([-1, 1]))) for _ in range(n)] for n in sizes]


def squared_optimum(owners: list[list[tuple[np.ndarray, float]]], sigma: float) -> np.ndarray:
    X = np.array([x for records in owners for x, _ in records])
    y = np.array([y for records in owners for _, y in records])
    return np.linalg.solve(2 * X.T @ X / len(y) + sigma * np.eye(X.shape[1]), 2 * X.T @ y / len(y))


@pytest.mark.parametrize("loss", LOSSES)
def test_gradients_are_finite_differences(loss: Any) -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        theta, x, y = rng.normal(size=3), rng.normal(size=3), float(rng.choice([-1, 1]))
        gradient = oracle.loss_gradient(loss, theta, x, y)
        for j, e in enumerate(np.eye(3) * 1e-6):
            rise = oracle.loss_value(loss, theta + e, x, y) - oracle.loss_value(loss, theta - e, x, y)
            assert gradient[j] == pytest.approx(rise / 2e-6, abs=1e-6)


def test_losses_by_hand() -> None:
    x, theta = np.array([1.0, 2.0]), np.array([3.0, -1.0])  # z = 1
    assert oracle.loss_value("squared", theta, x, 4.0) == 9
    assert oracle.loss_gradient("squared", theta, x, 4.0).tolist() == [-6, -12]
    assert oracle.loss_value("logistic", theta, x, -1.0) == pytest.approx(math.log(1 + math.e))
    assert oracle.loss_gradient("logistic", 0 * theta, x, -1.0).tolist() == [0.5, 1]
    assert oracle.loss_value("hinge", theta, x, -1.0) == 2
    assert oracle.loss_gradient("hinge", theta, x, -1.0).tolist() == [1, 2]
    assert oracle.loss_gradient("hinge", theta, x, 1.0).tolist() == [0, 0]  # at the kink yz = 1
    assert oracle.loss_value(("huber", 2.0), theta, x, 4.0) == 8  # 2·2·3 − 4
    assert oracle.loss_gradient(("huber", 2.0), theta, x, 4.0).tolist() == [-4, -8]
    assert oracle.loss_value(("huber", 3.0), theta, x, 4.0) == 9
    with pytest.raises(ValueError, match="unknown loss"):
        oracle.loss_value("huber", theta, x, 4.0)


def test_logistic_does_not_overflow() -> None:
    x = np.array([1.0])
    for z, value, slope in [(1e4, 0.0, 0.0), (-1e4, 1e4, -1.0)]:
        assert oracle.loss_value("logistic", np.array([z]), x, 1.0) == value
        assert oracle.loss_gradient("logistic", np.array([z]), x, 1.0).tolist() == [slope]


def test_clipping_and_answers_by_hand() -> None:
    assert oracle.clip_l1(np.array([3.0, -1.0]), 2.0).tolist() == [1.5, -0.5]
    assert oracle.clip_l1(np.array([3.0, -1.0]), 4.0).tolist() == [3, -1]
    assert oracle.clip_l1(np.array([3.0, -1.0]), None).tolist() == [3, -1]
    assert oracle.clip_l1(np.zeros(2), 1.0).tolist() == [0, 0]
    records = [(np.array([1.0]), 1.0), (np.array([1.0]), -3.0)]  # gradients at 0: −2 and 6
    zero = np.zeros(1)
    assert oracle.private_answer("squared", records, zero, None, np.array([0.25])).tolist() == [2.25]
    assert oracle.private_answer("squared", records, zero, 4.0, zero).tolist() == [1]
    assert oracle.private_answer("squared", records, zero, None, zero, weights=[1.0, 3.0]).tolist() == [4]
    assert oracle.noise_scale(5.0, 8, 1000, 0.5, kappa=2) == pytest.approx(0.32)
    assert oracle.group_answer([1, 3], [np.array([4.0]), np.array([8.0])], 4).tolist() == [7]
    with pytest.raises(ValueError, match="not 5"):
        oracle.group_answer([1, 3], [zero, zero], 5)


def test_fitness_by_hand() -> None:
    owners = [[(np.array([1.0]), 0.0)], [(np.array([2.0]), 1.0), (np.array([0.0]), 3.0)]]
    # (2² + 3² + 3²)/3 + (0.5/2)·2²
    assert oracle.fitness("squared", owners, np.array([2.0]), 0.5) == pytest.approx(22 / 3 + 1)


# One coordinate, two owners of 1 and 3 equal records: Q_1(θ) = 2θ − 2, Q_2(θ) = 2θ, and n_i/n = 1/4, 3/4.
TWO = [[(np.array([1.0]), 1.0)], [(np.array([1.0]), 0.0)] * 3]


def test_s1_by_hand() -> None:
    noise = [[np.array([1.0]), np.array([2.0])], [np.array([0.0]), np.array([4.0])]]
    models = oracle.run_s1("squared", TWO, None, 1.0, 9.0, 3, np.array([2.0]), noise)
    # k = 1: step 9/9 = 1,   direction 2 + (2 + 1)/4 + 3(4 + 2)/4 = 7.25
    # k = 2: step 9/18 = ½,  direction −5.25 + (−12.5)/4 + 3(−10.5 + 4)/4 = −13.25
    assert [float(m[0]) for m in models] == pytest.approx([2, -5.25, 1.375])


def test_s2_by_hand() -> None:
    noise = np.zeros((3, 2, 1))
    models, averages = oracle.run_s2("squared", TWO, None, 1.0, 0.5, 4, 0.4, np.array([0.3]), noise)
    # direction 3θ − ½; θ ← Π[θ − (½/√k)(3θ − ½)]
    by_hand = [0.3, 0.1, 0.1 + 0.1 / math.sqrt(2), 0.0]
    by_hand[3] = by_hand[2] - 0.5 / math.sqrt(3) * (3 * by_hand[2] - 0.5)
    assert [float(m[0]) for m in models] == pytest.approx(by_hand)
    # 1/√T = ½: θ̄[2] = θ[1];  θ̄[3] = 1/2.5 θ̄[2] + 1.5/2.5 θ[2];  θ̄[4] = 2/3.5 θ̄[3] + 1.5/3.5 θ[3]
    mean = 0.4 * 0.3 + 0.6 * 0.1
    assert [float(a[0]) for a in averages] == pytest.approx([0.3, 0.3, mean, 2 / 3.5 * mean + 1.5 / 3.5 * by_hand[2]])
    far, _ = oracle.run_s2("squared", TWO, None, 1.0, 5.0, 3, 0.4, np.array([0.3]), noise)
    assert [float(m[0]) for m in far] == pytest.approx([0.3, -0.4, 0.4])  # Π_Θ on both sides


def test_a1_by_hand() -> None:
    noise = [np.array([1.0]), np.array([0.0]), np.array([-1.0])]
    run = [None, 0.5, 4.5, 3, None, np.zeros(1), noise, [0, 1, 0]]
    # ρ/T² = 0.5, Nρ/(T²σ) = 2, learner shrinks by 1 − ½·0.5 = 0.75; ∇g/(2N) = θ̄/8
    # k=1 owner 0: θ̄ = 0,       Q̄ = −2 + 1: θ_0 = −2(−1/4) = 0.5,  θ_L = 0
    # k=2 owner 1: θ̄ = 0,       Q̄ = 0:      θ_1 = 0,               θ_L = 0
    # k=3 owner 0: θ̄ = 0.25,                                       θ_L = 0.1875
    models = oracle.run_a1("squared", TWO, *run)
    assert [float(m[0]) for m in models] == pytest.approx([0, 0, 0, 0.1875])
    # Remark 4: owner 0 has 2/3 of the communications, so its gradient counts 1/(2·2/3) = 3/4 as much
    shared = oracle.run_a1("squared", TWO, *run, shares=[2 / 3, 1 / 3])
    assert [float(m[0]) for m in shared] == pytest.approx([0, 0, 0, 0.75 * 0.1875])


def test_a1_copies_are_projected_and_begin_at_the_start() -> None:
    noise = [np.array([-10.0]), np.array([0.0])]
    models = oracle.run_a1("squared", TWO, None, 0.5, 2.0, 2, 0.3, np.array([0.2]), noise, [0, 0])
    # ρ/T² = ½: θ̄ = 0.2, θ_L = 0.75·0.2 = 0.15, θ_0 = 0.3 (clipped); then θ_L = 0.75(0.15 + 0.3)/2
    assert [float(m[0]) for m in models] == pytest.approx([0.2, 0.15, 0.16875])


def test_a2_by_hand() -> None:
    noise = [np.array([1.0]), np.array([0.0]), np.array([-1.0])]
    models = oracle.run_a2("squared", TWO, None, 1.0, 0.6, 3, None, np.array([1.0]), noise, [1, 0, 1])
    # k=1: α = 0.6/1.5 = 0.4; a_1 = 2 + 1 = 3, heard owner 1 only: θ = 1 − 0.4(1 + 3) = −0.6
    # k=2: α = 0.6/2 = 0.3; a_0 = −3.2: G = −3.2/4 + 9/4 = 1.45: θ = −0.6 − 0.3(−0.6 + 1.45) = −0.855
    # k=3: α = 0.6/2.5 = 0.24; a_1 = −2.71: G = −0.8 − 2.0325 = −2.8325: θ = −0.855 + 0.24·3.6875 = 0.03
    assert [float(m[0]) for m in models] == pytest.approx([1, -0.6, -0.855, 0.03])


@pytest.mark.parametrize("loss", LOSSES)
def test_learner_steps_agree_at_two_owners_only(loss: Any) -> None:
    rng = np.random.default_rng(3)
    for sizes, same in [([2, 5], True), ([2, 5, 3], False)]:
        owners = some_owners(sizes, 2, seed=4)
        noise, schedule = rng.normal(size=(12, 2)), rng.integers(len(sizes), size=12)
        run = [loss, owners, 1.0, 0.3, 20.0, 12, 5.0, np.ones(2), noise, schedule]
        printed, corrected = (oracle.run_a1(*run, learner_step=s)[-1] for s in ("printed", "corrected"))
        assert np.allclose(printed, corrected, rtol=0, atol=1e-12) == same


def test_equal_shares_correct_nothing_and_a_group_is_one_owner() -> None:
    rng = np.random.default_rng(5)
    owners = some_owners([2, 3, 4], 2, seed=6)
    noise, schedule = rng.normal(size=(6, 2)), [0, 2, 1, 1, 0, 2]
    run = ["squared", owners, 1.5, 0.4, 15.0, 6, 3.0, np.ones(2), noise, schedule]
    assert np.allclose(oracle.run_a1(*run), oracle.run_a1(*run, shares=[1 / 3] * 3), rtol=0, atol=1e-12)
    theta = np.array([0.3, -0.8])
    answers = [oracle.private_answer("squared", owners[i], theta, 1.5, noise[i]) for i in (0, 2)]
    merged = oracle.private_answer("squared", owners[0] + owners[2], theta, 1.5, noise[0] / 3 + noise[2] * 2 / 3)
    assert np.allclose(oracle.group_answer([2, 4], answers, 6), merged, rtol=0, atol=1e-12)


def test_noise_free_runs_reach_the_optimum() -> None:
    owners, σ = some_owners([4, 6, 5], 2, seed=7), 0.5
    best = squared_optimum(owners, σ)
    schedule = [k % 3 for k in range(900)]
    a2 = oracle.run_a2("squared", owners, None, σ, 1.0, 900, 10.0, np.ones(2), np.zeros((900, 2)), schedule)
    assert np.allclose(a2[-1], best, rtol=0, atol=1e-6)
    last, averages = oracle.run_s2("squared", owners, None, σ, 0.3, 900, 10.0, np.ones(2), np.zeros((899, 3, 2)))
    assert np.allclose(last[-1], best, rtol=0, atol=1e-6)
    assert np.allclose(averages[-1], best, rtol=0, atol=0.02)
    s1 = oracle.run_s1("squared", owners, None, σ, 0.3 * 40**2, 40, np.ones(2), np.zeros((39, 3, 2)))
    f = [oracle.fitness("squared", owners, theta, σ) for theta in (s1[0], s1[-1], best)]
    assert f[2] < f[1] < f[0]


@pytest.mark.parametrize("rule", ["A1", "A1 printed", "A1 shares", "A2"])
@pytest.mark.parametrize("N", [2, 3])
def test_exact_moments_are_those_of_every_run(rule: str, N: int) -> None:
    # f is quadratic and every update linear, so noise of ±√2 b has the same moments as Laplace of scale b;
    # then the exact mean is a finite sum over schedules and signs of plain runs.
    T, p, σ, step = 3, 2 if N == 2 else 1, 0.4, 6.0 if rule.startswith("A1") else 0.9
    owners, start = some_owners([1, 3, 2][:N], p, seed=8), np.linspace(0.5, -1, p)
    scales = [0.7, 0.2, 1.1][:N]
    options: dict[str, Any] = {}
    if rule == "A1 printed":
        options["learner_step"] = "printed"
    if rule == "A1 shares":
        options["shares"] = [0.5, 0.5 / (N - 1), 0.5 / (N - 1)][:N]
    moments = oracle.enumerate_a2_mean_and_second_moment if rule == "A2" else oracle.enumerate_a1_mean_and_second_moment
    expected, first, second = moments(owners, σ, step, T, start, scales, **options)
    run = oracle.run_a2 if rule == "A2" else oracle.run_a1
    by_runs, mean, square = np.zeros(T + 1), np.zeros((T + 1, p)), np.zeros((T + 1, p, p))
    runs = 0
    for schedule in itertools.product(range(N), repeat=T):
        for signs in itertools.product([-1.0, 1.0], repeat=T * p):
            scale = np.array([[scales[i]] for i in schedule])
            noise = math.sqrt(2) * scale * np.reshape(signs, (T, p))
            models = run("squared", owners, None, σ, step, T, None, start, noise, schedule, **options)
            by_runs += [oracle.fitness("squared", owners, theta, σ) for theta in models]
            mean += models
            square += [np.outer(theta, theta) for theta in models]
            runs += 1
    assert np.allclose(expected, by_runs / runs, rtol=1e-11, atol=0)
    assert np.allclose(first, mean / runs, rtol=0, atol=1e-11)
    assert np.allclose(second, square / runs, rtol=1e-11, atol=1e-11)
    assert abs(expected[-1] - expected[0]) > 1e-3  # the case moves, so agreement means something


def test_moments_take_chosen_schedules() -> None:
    owners, start = some_owners([2, 3], 2, seed=9), np.ones(2)
    for name in ("a1", "a2"):
        moments = getattr(oracle, f"enumerate_{name}_mean_and_second_moment")
        chosen = [(0.25, (0, 1, 1)), (0.75, (1, 0, 0))]
        expected, first, _ = moments(owners, 0.3, 2.0, 3, start, [0.0, 0.0], schedules=chosen)
        runs = [
            getattr(oracle, f"run_{name}")(
                "squared", owners, None, 0.3, 2.0, 3, None, start, np.zeros((3, 2)), schedule
            )
            for _, schedule in chosen
        ]
        f = [[oracle.fitness("squared", owners, theta, 0.3) for theta in models] for models in runs]
        assert np.allclose(expected, 0.25 * np.array(f[0]) + 0.75 * np.array(f[1]), rtol=1e-12, atol=0)
        assert np.allclose(first, 0.25 * np.array(runs[0]) + 0.75 * np.array(runs[1]), rtol=0, atol=1e-12)
