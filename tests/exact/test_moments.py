"""Exact forecasts against an independent writing of the rules, averaged over every schedule."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from copriv.errors import InvalidInput
from copriv.exact import asynchronous, asynchronous_mean
from copriv.exact.asynchronous import a1, a2
from copriv.exact.asynchronous_events import CopiesEvent, Counts, MemoryEvent
from copriv.exact.moments import Directions, OwnerKinds
from copriv.exact.reduced_runs import draw_participants, simulated_costs, spread
from copriv.exact.synchronous import in_rounds, s1, s2
from copriv.model.fitness import Quadratic, Regularizer
from copriv.rules.recursion import InRounds
from copriv.rules.sync_averaged import s2_average, s2_steps
from recursions import recursion_of

σ = 0.3


def quadratic_of(records):
    x, y = np.array([x for x, _ in records]), np.array([y for _, y in records])
    return Quadratic(x.T @ x / len(y), x.T @ y / len(y), float(y @ y / len(y)), Regularizer(σ))


def some_records(rng, number, p):
    return [(rng.normal(size=p), float(rng.normal())) for _ in range(number)]


def alike(rng, sizes, p):
    """Owners whose data share H and c: the same records, each as often as the owner is large."""
    records = some_records(rng, 3, p)
    return [records * size for size in sizes]


def different(rng, sizes, p):
    return [some_records(rng, 3 * size, p) for size in sizes]


def problem(owners):
    pooled = quadratic_of([record for records in owners for record in records])
    return pooled, pooled.value(pooled.free_minimum())


def kinds(owners, noise, shared, **kwargs):
    data = None if shared else [quadratic_of(records) for records in owners]
    return OwnerKinds.of([len(records) for records in owners], noise, data=data, **kwargs)


def capped_schedules(caps, length, random_order=False):
    """Every schedule of `length` events, with its probability, by walking the tree of choices."""
    walks = [(1.0, ())]
    for _ in range(length):
        longer = []
        for probability, walk in walks:
            left = [m - walk.count(i) for i, m in enumerate(caps)]
            likely = left if random_order else [float(m > 0) for m in left]
            longer += [(probability * q / sum(likely), (*walk, i)) for i, q in enumerate(likely) if q > 0]
        walks = longer
    return walks


RULES = {"A1": (a1, oracle.enumerate_a1_mean_and_second_moment), "A2": (a2, oracle.enumerate_a2_mean_and_second_moment)}


def step_of(rule, T):
    return 0.06 * T**2 if rule == "A1" else 0.4


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("sizes", "p"), [([1], 2), ([1, 2, 1], 2), ([2, 2, 2], 1), ([3, 1], 3)])
def test_mean_is_the_average_over_every_schedule(rule, shared, sizes, p):
    rng = np.random.default_rng(len(sizes) + p)
    owners = (alike if shared else different)(rng, sizes, p)
    pooled, least = problem(owners)
    noise, start, T = rng.uniform(0.1, 1.0, len(sizes)), rng.normal(size=p), 4
    forecast, enumerate_all = RULES[rule]
    expected, _, _ = enumerate_all(owners, σ, step_of(rule, T), T, start, noise)
    found = forecast(pooled, kinds(owners, noise, shared), step_of(rule, T), T, start, rng, runs=2)
    assert found.kind == "exact"
    np.testing.assert_allclose(found.mean + least, expected, rtol=1e-11)
    assert not found.mean_error.any()


@pytest.mark.parametrize("random_order", [False, True])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("caps", [[2, 2, 2], [1, 3, 1]])
def test_mean_under_caps_is_the_average_over_the_schedules_that_caps_leave(rule, shared, caps, random_order):
    rng = np.random.default_rng(sum(caps))
    owners = (alike if shared else different)(rng, [1, 2, 1], 2)
    pooled, least = problem(owners)
    noise, start, T = [0.5, 0.2, 0.9], rng.normal(size=2), sum(caps)
    forecast, enumerate_all = RULES[rule]
    expected, _, _ = enumerate_all(
        owners, σ, step_of(rule, T), T, start, noise, schedules=capped_schedules(caps, T, random_order)
    )
    order = "random order" if random_order else "uniform"
    owner_kinds = kinds(owners, noise, shared, answers=caps)
    found = forecast(pooled, owner_kinds, step_of(rule, T), T, start, rng, order=order, runs=2)
    assert found.kind == "exact"
    np.testing.assert_allclose(found.mean + least, expected, rtol=1e-11)
    unaware, _, _ = enumerate_all(owners, σ, step_of(rule, T), T, start, noise)
    assert abs(unaware[-1] / expected[-1] - 1) > 1e-4  # the caps matter


def test_the_printed_learner_step_is_another_rule():
    rng = np.random.default_rng(3)
    owners = alike(rng, [1, 2, 1], 2)
    pooled, least = problem(owners)
    noise, start, T = [0.5, 0.2, 0.9], rng.normal(size=2), 4
    step = step_of("A1", T)
    expected, _, _ = oracle.enumerate_a1_mean_and_second_moment(owners, σ, step, T, start, noise, "printed")
    printed = a1(pooled, kinds(owners, noise, True), step, T, start, rng, learner_step=2 / 3, runs=2)
    corrected = a1(pooled, kinds(owners, noise, True), step, T, start, rng, runs=2)
    np.testing.assert_allclose(printed.mean + least, expected, rtol=1e-11)
    assert abs(corrected.mean[-1] + least - expected[-1]) > 1e-4


def answers_by_noise(quadratic, owners, step, T, start, averaged, rule):
    """θ after T − 1 rounds as base + response·w, w all coordinates of all owners' noise: by running basis vectors."""
    p, N = len(start), len(owners.records)

    def run(w):
        θ, average = np.array(start), np.array(start)
        for k in range(1, T):
            γ = step / (T**2 * k) if rule == "S1" else step / np.sqrt(k)
            average = (k - 1) / (T**-0.5 + k) * average + (T**-0.5 + 1) / (T**-0.5 + k) * θ
            θ = θ - γ * (quadratic.gradient(θ) + owners.weights @ w[k - 1])
        return average if averaged else θ

    shape = (T - 1, N, p)
    base = run(np.zeros(shape))
    columns = [run(unit.reshape(shape)) - base for unit in np.eye(int(np.prod(shape)))]
    return base, np.array(columns).T


@given(
    st.sampled_from(["S1", "S2", "S2 last"]),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(2, 6),
    st.integers(0, 99),
)
def test_synchronous_moments_are_those_of_a_quadratic_form_in_laplace_draws(rule, N, p, T, seed):
    rng = np.random.default_rng(seed)
    quadratic = quadratic_of(some_records(rng, 6, p))
    owners = OwnerKinds.of(rng.integers(1, 9, N), rng.uniform(0.1, 2.0, N))
    start = rng.normal(size=p)
    step = (T**2 if rule == "S1" else 1.0) * rng.uniform(0.1, 0.9) / np.linalg.eigvalsh(quadratic.hessian)[-1]
    base, response = answers_by_noise(quadratic, owners, step, T, start, rule == "S2", rule)
    # f − f* = ½(m + Rw)ᵀA(m + Rw): Var w = 2b², fourth cumulant 12b⁴, odd moments 0
    m, A = base - quadratic.free_minimum(), quadratic.hessian
    b = np.tile(np.repeat(owners.noise_scale, p), T - 1)
    Q, g = 0.5 * response.T @ A @ response, response.T @ A @ m
    variance = (2 * b**2) @ g**2 + 2 * (2 * b**2) @ Q**2 @ (2 * b**2) + np.diag(Q) ** 2 @ (12 * b**4)
    found = s1(quadratic, owners, step, T, start) if rule == "S1" else s2(
        quadratic, owners, step, T, start, averaged=rule == "S2"
    )  # fmt: skip
    assert found.kind == found.variance_kind == "exact"
    assert len(found.mean) == T
    np.testing.assert_allclose(found.mean[-1], 0.5 * m @ A @ m + np.diag(Q) @ (2 * b**2), rtol=1e-9)
    np.testing.assert_allclose(found.variance[-1], variance, rtol=1e-9)
    if T > 2:
        gaussian = variance - np.diag(Q) ** 2 @ (12 * b**4)
        assert found.variance[-1] > gaussian * (1 + 1e-6)  # a Gaussian formula would be too small


def test_different_data_do_not_matter_to_the_synchronous_rules():
    rng = np.random.default_rng(0)
    owners = different(rng, [1, 3], 2)
    pooled, _ = problem(owners)
    one = s1(pooled, kinds(owners, [1.0, 2.0], False), 5.0, 6, np.ones(2))
    other = s1(pooled, kinds(owners, [1.0, 2.0], True), 5.0, 6, np.ones(2))
    np.testing.assert_allclose(one.mean, other.mean)


@pytest.mark.parametrize("rule", ["S1", "S2", "A1", "A2"])
def test_identical_owners_collapse(rule):
    rng = np.random.default_rng(1)
    quadratic = quadratic_of(some_records(rng, 9, 3))
    listed = OwnerKinds.of([5.0] * 6 + [2.0], [0.3] * 6 + [0.8])
    collapsed = OwnerKinds.of([5.0, 2.0], [0.3, 0.8], counts=[6, 1])
    step = {"S1": 50.0, "S2": 0.2, "A1": 8.0, "A2": 0.2}[rule]

    def forecast(owners):
        if rule in ("S1", "S2"):
            return (s1 if rule == "S1" else s2)(quadratic, owners, step, 12, np.ones(3)).mean
        return (a1 if rule == "A1" else a2)(quadratic, owners, step, 12, np.ones(3), rng, runs=2).mean

    np.testing.assert_allclose(forecast(listed), forecast(collapsed), rtol=1e-11)


def test_unequal_noise_within_a_kind_enters_by_its_average():
    rng = np.random.default_rng(5)
    quadratic = quadratic_of(some_records(rng, 9, 2))
    apart, average = OwnerKinds.of([4.0] * 3, [0.1, 0.5, 2.0]), OwnerKinds.of([4.0], [np.sqrt(4.26 / 3)], counts=[3])
    for forecast, step in ((a1, 5.0), (a2, 0.3)):
        one = forecast(quadratic, apart, step, 9, np.ones(2), rng, runs=2)
        other = forecast(quadratic, average, step, 9, np.ones(2), rng, runs=2)
        np.testing.assert_allclose(one.mean, other.mean, rtol=1e-11)


@pytest.mark.parametrize(
    "owners",
    [
        OwnerKinds.of([1e4], [1e-3], counts=[10**6]),
        OwnerKinds.of(1000.0 * np.arange(1, 11), np.linspace(0.01, 0.1, 10), counts=[100] * 10),
    ],
    ids=["a million identical", "a thousand of ten kinds"],
)
def test_many_owners_are_within_reach(owners):
    """How long it takes, `python -m benchmarks.forecasts` tells: less than a second each."""
    rng = np.random.default_rng(0)
    quadratic = quadratic_of(some_records(rng, 30, 10))
    for forecast, step, randomness in (
        (s1, 1e5, {}), (s2, 0.01, {}), (a1, 10.0, {"rng": rng}), (a2, 0.05, {"rng": rng})
    ):  # fmt: skip
        found = forecast(quadratic, owners, step, 1000, np.zeros(10), **randomness)
        assert np.isfinite(found.mean).all()
        assert np.isfinite(found.variance).all()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("owners", "order"),
    [
        (OwnerKinds.of([3.0, 9.0], [1.0, 0.5], counts=[5, 4]), "uniform"),
        (OwnerKinds.of(np.arange(1.0, 9.0), np.linspace(0.2, 1.0, 8)), "uniform"),
        (OwnerKinds.of([3.0], [1.0], counts=[3]), "uniform"),
        (OwnerKinds.of([3.0], [1.0], counts=[6], answers=3), "random order"),
        (OwnerKinds.of([3.0, 9.0], [1.0, 0.5], counts=[2, 1], answers=[2, 4]), "uniform"),
    ],
    ids=["two kinds", "all different", "one kind", "caps", "different caps"],
)
def test_paths_of_counts_agree_with_all_counts(monkeypatch, rule, owners, order):
    rng = np.random.default_rng(8)
    quadratic, T = quadratic_of(some_records(rng, 30, 4)), 24
    arguments = (quadratic, owners, step_of(rule, T) / 2, T, np.ones(4), rng)
    exact = RULES[rule][0](*arguments, order=order, runs=0)
    directions = Directions.of(quadratic, owners, np.ones(4))
    counts = Counts.of(directions, owners, T, order, rule == "A2")
    α, paths = step_of(rule, T) / 2, 100
    event = CopiesEvent(directions, counts, α / T**2, 0.5) if rule == "A1" else MemoryEvent(directions, counts, α)
    estimates = [asynchronous_mean.by_paths(directions, counts, event, paths, rng)]
    if rule == "A2" and owners.answers is None:
        estimates.append(asynchronous_mean.memory_paths(directions, counts.owners, α, T, paths, rng))
    costs = simulated_costs(recursion_of(rule, α, T), directions, owners, T, 8 * paths, rng, order=order)
    for mean, error in estimates:
        # 8 blocks: Student's t of 7 degrees is above 14 once in a million
        assert (np.abs(mean - exact.mean) <= 14 * error + 1e-12 * exact.mean.max()).all()
        assert error[-1] < 0.6 * costs[:, -1].std() / np.sqrt(8 * paths)


def test_a_thousand_owners_of_ten_kinds_are_forecast_sharply():
    owners = OwnerKinds.of(1000.0 * np.arange(1, 11), np.linspace(0.1, 1.0, 10), counts=[100] * 10)
    rng = np.random.default_rng(9)
    quadratic, T = quadratic_of(some_records(rng, 30, 10)), 100
    found = a2(quadratic, owners, 0.3, T, np.ones(10), rng)
    directions = Directions.of(quadratic, owners, np.ones(10))
    costs = simulated_costs(recursion_of("A2", 0.3, T), directions, owners, T, 4_000, rng)
    error = costs.std(axis=0) / np.sqrt(4_000)
    assert (np.abs(found.mean - costs.mean(axis=0)) <= 4.9 * np.hypot(error, 2 * found.mean_error) + 1e-10).all()
    assert found.mean_error[-1] < 0.5 * error[-1]  # 144 paths against 4,000 runs
    one_kind = a2(quadratic, OwnerKinds.of([1.0], [0.62], counts=[1000]), 0.3, T, np.ones(10), rng, runs=0)
    assert abs(one_kind.mean[-1] - found.mean[-1]) > 14 * found.mean_error[-1]  # kinds cannot be thrown together


def test_grouping_states_its_error_and_it_covers_the_truth(monkeypatch):
    rng = np.random.default_rng(2)
    quadratic = quadratic_of(some_records(rng, 9, 2))
    owners = OwnerKinds.of(np.arange(20.0, 60.0), rng.uniform(0.1, 1.0, 40))
    exact = a1(quadratic, owners, 8.0, 20, np.ones(2), rng, runs=2)
    monkeypatch.setattr(asynchronous, "MOST_GROUPS", 8)
    grouped = a1(quadratic, owners, 8.0, 20, np.ones(2), rng, runs=2)
    assert (exact.kind, grouped.kind) == ("exact", "grouped")
    assert (np.abs(grouped.mean - exact.mean) <= grouped.mean_error + 1e-12).all()
    assert grouped.mean_error.max() < 0.01 * exact.mean.max()


@pytest.mark.parametrize("order", ["uniform", "random order"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("shared", [True, False])
def test_simulated_means_agree_with_exact_ones(monkeypatch, rule, order, shared):
    rng = np.random.default_rng(7)
    owners = (alike if shared else different)(rng, [1, 2, 1], 2)
    pooled, _ = problem(owners)
    owner_kinds = kinds(owners, [0.5, 0.2, 0.9], shared, answers=3)
    forecast, T = RULES[rule][0], 12  # three events more than there are answers
    exact = forecast(pooled, owner_kinds, step_of(rule, T), T, np.ones(2), rng, order=order, runs=2)
    monkeypatch.setattr(asynchronous, "MOST_WORK", 0)
    simulated = forecast(pooled, owner_kinds, step_of(rule, T), T, np.ones(2), rng, order=order, runs=2_000)
    assert (exact.kind, simulated.kind) == ("exact", "simulated")
    assert len(exact.mean) == len(simulated.mean) == T + 1
    # A1's first θ_L is not random: both are the same number there, to rounding.
    z = (simulated.mean - exact.mean) / (simulated.mean_error + 1e-10)
    assert np.abs(z).max() < 14  # Student's t of 7 degrees: see above
    assert exact.mean[-1] == exact.mean[-3]


def test_participants_follow_their_law():
    owners, rng = OwnerKinds.of([1.0, 1.0], [0.0, 0.0], counts=[1, 2], answers=[1, 2]), np.random.default_rng(0)
    for order in ("uniform", "random order"):
        participants = draw_participants(owners, 5, 40_000, rng, order)
        law = {walk: q for q, walk in capped_schedules([1, 2, 2], 5, order == "random order")}
        seen, times = np.unique(participants, axis=0, return_counts=True)
        assert {tuple(map(int, walk)) for walk in seen} <= set(law)
        for walk, number in zip(seen, times, strict=True):
            q = law[tuple(map(int, walk))]
            assert abs(number / 40_000 - q) < 5 * np.sqrt(q / 40_000)


@pytest.mark.parametrize(("forecast", "step"), [(a1, 5.0), (a2, 0.3)])
def test_no_runs_no_variance(forecast, step):
    rng = np.random.default_rng(0)
    quadratic, owners = quadratic_of(some_records(rng, 9, 2)), OwnerKinds.of([4.0, 5.0], [0.1, 0.5])
    without = forecast(quadratic, owners, step, 5, np.ones(2), rng, runs=0)
    with_runs = forecast(quadratic, owners, step, 5, np.ones(2), rng, runs=50)
    assert (without.variance_kind, with_runs.variance_kind) == ("none", "exact")
    assert np.isnan(without.variance).all()
    np.testing.assert_array_equal(without.mean, with_runs.mean)
    many = OwnerKinds.of(np.arange(1.0, 30.0), np.ones(29), answers=2)
    with pytest.raises(InvalidInput, match="runs"):  # beyond exact reach there must be runs
        forecast(quadratic, many, step, 5, np.ones(2), rng, order="random order", runs=0)


@settings(max_examples=20)
@given(st.integers(1, 4), st.integers(0, 99))
def test_no_noise_and_one_owner_is_gradient_descent(T, seed):
    rng = np.random.default_rng(seed)
    quadratic = quadratic_of(some_records(rng, 6, 2))
    owner = OwnerKinds.of([6.0], [0.0])
    θ = np.ones(2)
    gaps = [quadratic.value(θ) - quadratic.value(quadratic.free_minimum())]
    for k in range(1, T + 1):
        θ = θ - 0.1 / (1 + k) * quadratic.gradient(θ)
        gaps.append(quadratic.value(θ) - quadratic.value(quadratic.free_minimum()))
    found = a2(quadratic, owner, 0.1, T, np.ones(2), rng, runs=3)
    np.testing.assert_allclose(found.mean, gaps, atol=1e-12)
    np.testing.assert_allclose(found.variance, 0, atol=1e-13 * found.mean[0] ** 2)
    quantiles = spread(recursion_of("A2", 0.1, T), quadratic, owner, T, np.ones(2), rng, runs=3).quantiles
    np.testing.assert_allclose(quantiles, np.repeat(np.array(gaps)[:, None], 5, axis=1), atol=1e-12)


def test_what_is_refused():
    rng = np.random.default_rng(0)
    quadratic = quadratic_of(some_records(rng, 6, 2))
    free = Quadratic(quadratic.H, quadratic.c, quadratic.s, Regularizer(0.0))
    owner = OwnerKinds.of([6.0], [0.0])
    with pytest.raises(InvalidInput, match="A1 steps by rho"):
        a1(free, owner, 1.0, 3, np.zeros(2), rng)
    with pytest.raises(InvalidInput, match="A1 steps by rho"):
        spread(recursion_of("A1", 1.0, 3), free, owner, 3, np.zeros(2), rng)
    with pytest.raises(InvalidInput, match="start: needs 2"):
        s1(quadratic, owner, 1.0, 3, np.zeros(3))
    with pytest.raises(InvalidInput, match="random order"):
        a2(quadratic, owner, 1.0, 3, np.zeros(2), rng, order="random order")
    with pytest.raises(InvalidInput, match="not those of the fitness"):
        s1(quadratic, OwnerKinds.of([6.0], [0.0], data=[quadratic_of(some_records(rng, 3, 2))]), 1.0, 3, np.zeros(2))
    with pytest.raises(InvalidInput, match="probabilities"):
        spread(recursion_of("S1", 1.0, 3), quadratic, owner, 3, np.zeros(2), rng, probabilities=[1.5])
    for bad in ({"counts": [0]}, {"counts": [1.5]}, {"answers": 0}, {"counts": [1, 2]}):
        with pytest.raises(InvalidInput, match="whole numbers"):
            OwnerKinds.of([6.0], [0.0], **bad)
    for records, noise in itertools.product(([0.0], [6.0, 1.0], [np.nan]), ([-1.0],)):
        with pytest.raises(InvalidInput):
            OwnerKinds.of(records, noise)


def test_the_mean_alone_is_the_same_mean() -> None:
    q, _ = problem(alike(np.random.default_rng(0), [2, 3], 3))
    recursion, start = InRounds(s2_steps(0.3, 12), s2_average(12)), [1.0, -2.0, 0.5]
    both, mean = (in_rounds(q, OwnerKinds.of([20, 30], [0.3, 0.1]), recursion, start, only) for only in (False, True))
    np.testing.assert_array_equal(mean.mean, both.mean)
    assert mean.variance_kind == "none"
    assert np.isnan(mean.variance).all()
    assert np.isfinite(both.variance).all()


def test_one_kind_by_its_matrix_is_one_kind_step_by_step() -> None:
    """Two kinds that differ by nothing but a hair go event by event; one kind goes by the matrix of an event."""
    q, _ = problem(alike(np.random.default_rng(1), [2, 3], 3))
    start = [1.0, -2.0, 0.5]
    one = a1(q, OwnerKinds.of([50] * 4, [0.2] * 4), 9.0, 200, start, np.random.default_rng(0), runs=0)
    two = a1(
        q, OwnerKinds.of([50, 50, 50 * (1 + 1e-12), 50], [0.2] * 4), 9.0, 200, start, np.random.default_rng(0), runs=0
    )
    np.testing.assert_allclose(one.mean, two.mean, rtol=1e-9)
