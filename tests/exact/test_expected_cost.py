"""Exact forecasts against an independent writing of the rules, averaged over every schedule."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from copriv.errors import InvalidInput
from copriv.exact import OwnerKinds, expected_cost
from copriv.model.fitness import Quadratic, Regularizer
from copriv.rules.rule import WithCopies
from exact_variance import variance_of
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


def problem(owners):
    pooled = quadratic_of([record for records in owners for record in records])
    return pooled, pooled.value(pooled.free_minimum())


def kinds(owners, noise, **kwargs):
    return OwnerKinds.of([len(records) for records in owners], noise, **kwargs)


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


RULES = {"A1": oracle.enumerate_a1_mean_and_second_moment, "A2": oracle.enumerate_a2_mean_and_second_moment}


def step_of(rule, T):
    return 0.06 * T**2 if rule == "A1" else 0.4


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("sizes", "p"), [([1], 2), ([1, 2, 1], 2), ([2, 2, 2], 1), ([3, 1], 3)])
def test_mean_is_the_average_over_every_schedule(rule, sizes, p):
    rng = np.random.default_rng(len(sizes) + p)
    owners = alike(rng, sizes, p)
    pooled, least = problem(owners)
    noise, start, T = rng.uniform(0.1, 1.0, len(sizes)), rng.normal(size=p), 4
    step = step_of(rule, T)
    expected, _, _ = RULES[rule](owners, σ, step, T, start, noise)
    found = expected_cost(recursion_of(rule, step, T), pooled, kinds(owners, noise), T, start)
    np.testing.assert_allclose(found + least, expected, rtol=1e-11)


@pytest.mark.parametrize("random_order", [False, True])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("caps", [[2, 2, 2], [1, 3, 1]])
def test_mean_under_caps_is_the_average_over_the_schedules_that_caps_leave(rule, caps, random_order):
    rng = np.random.default_rng(sum(caps))
    owners = alike(rng, [1, 2, 1], 2)
    pooled, least = problem(owners)
    noise, start, T = [0.5, 0.2, 0.9], rng.normal(size=2), sum(caps)
    step = step_of(rule, T)
    expected, _, _ = RULES[rule](
        owners, σ, step, T, start, noise, schedules=capped_schedules(caps, T, random_order)
    )  # fmt: skip
    order = "random order" if random_order else "uniform"
    recursion, owner_kinds = recursion_of(rule, step, T), kinds(owners, noise, answers=caps)
    found = expected_cost(recursion, pooled, owner_kinds, T, start, order)
    np.testing.assert_allclose(found + least, expected, rtol=1e-11)
    unaware, _, _ = RULES[rule](owners, σ, step, T, start, noise)
    assert abs(unaware[-1] / expected[-1] - 1) > 1e-4  # the caps matter
    longer = expected_cost(
        recursion, pooled, owner_kinds, T + 3, start, order
    )  # three events more than there are answers
    assert len(longer) == T + 4
    np.testing.assert_array_equal(longer, np.pad(found, (0, 3), mode="edge"))


def schedules_by_rates(rates, length, caps=None):
    """Every schedule of `length` answers among owners with answers left, each answer in proportion to the rates."""
    walks = [(1.0, ())]
    for _ in range(length):
        longer = []
        for probability, walk in walks:
            left = [r * (caps is None or walk.count(i) < caps[i]) for i, r in enumerate(rates)]
            longer += [(probability * q / sum(left), (*walk, i)) for i, q in enumerate(left) if q > 0]
        walks = longer
    return walks


@pytest.mark.parametrize(("rule", "caps"), [("A1", None), ("A2", None), ("A2", [2, 2, 1])])
def test_mean_is_the_average_over_the_schedules_of_clocks_that_differ(rule, caps):
    rng = np.random.default_rng(7)
    owners, rates = alike(rng, [1, 2, 1], 2), np.array([3.0, 1.0, 0.5])
    pooled, least = problem(owners)
    noise, start, T = [0.5, 0.2, 0.9], rng.normal(size=2), 5
    step, walks = step_of(rule, T), schedules_by_rates(rates, T, caps)
    corrected = {"shares": rates / rates.sum()} if rule == "A1" else {}
    expected, _, _ = RULES[rule](owners, σ, step, T, start, noise, schedules=walks, **corrected)
    recursion = recursion_of(rule, step, T)
    found = expected_cost(recursion, pooled, kinds(owners, noise, rates=rates, answers=caps), T, start)
    np.testing.assert_allclose(found + least, expected, rtol=1e-11)
    uniform = expected_cost(recursion, pooled, kinds(owners, noise, answers=caps), T, start)
    assert abs(uniform[-1] / found[-1] - 1) > 1e-3  # the rates matter


def test_a1_whose_fast_owners_run_out_of_answers_is_refused():
    owners = OwnerKinds.of([2.0, 2.0], [0.1, 0.1], answers=3, rates=[9.0, 1.0])
    quadratic = quadratic_of(some_records(np.random.default_rng(0), 6, 2))
    with pytest.raises(InvalidInput, match="run out of answers first"):
        expected_cost(recursion_of("A1", 9.0, 6), quadratic, owners, 6, np.zeros(2))
    with pytest.raises(InvalidInput, match="rates"):
        OwnerKinds.of([2.0, 2.0], [0.1, 0.1], rates=[1.0, 0.0])


def test_the_printed_learner_step_is_another_rule():
    rng = np.random.default_rng(3)
    owners = alike(rng, [1, 2, 1], 2)
    pooled, least = problem(owners)
    noise, start, T = [0.5, 0.2, 0.9], rng.normal(size=2), 4
    step = step_of("A1", T)
    expected, _, _ = oracle.enumerate_a1_mean_and_second_moment(owners, σ, step, T, start, noise, "printed")
    printed, corrected = (
        expected_cost(WithCopies(step / T**2, c), pooled, kinds(owners, noise), T, start) for c in (2 / 3, 1 / 2)
    )
    np.testing.assert_allclose(printed + least, expected, rtol=1e-11)
    assert abs(corrected[-1] + least - expected[-1]) > 1e-4


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
    arguments = (recursion_of(rule, step, T), quadratic, owners, T, start)
    mean, found = expected_cost(*arguments), variance_of(*arguments)
    assert len(mean) == T
    np.testing.assert_allclose(mean[-1], 0.5 * m @ A @ m + np.diag(Q) @ (2 * b**2), rtol=1e-9)
    np.testing.assert_allclose(found[-1], variance, rtol=1e-9)
    if T > 2:
        gaussian = variance - np.diag(Q) ** 2 @ (12 * b**4)
        assert found[-1] > gaussian * (1 + 1e-6)  # a Gaussian formula would be too small


@pytest.mark.parametrize("rule", ["S1", "S2", "A1", "A2"])
def test_identical_owners_collapse(rule):
    rng = np.random.default_rng(1)
    quadratic = quadratic_of(some_records(rng, 9, 3))
    listed = OwnerKinds.of([5.0] * 6 + [2.0], [0.3] * 6 + [0.8])
    collapsed = OwnerKinds.of([5.0, 2.0], [0.3, 0.8], counts=[6, 1])
    recursion = recursion_of(rule, {"S1": 50.0, "S2": 0.2, "A1": 8.0, "A2": 0.2}[rule], 12)
    one, other = (expected_cost(recursion, quadratic, owners, 12, np.ones(3)) for owners in (listed, collapsed))
    np.testing.assert_allclose(one, other, rtol=1e-11)


@pytest.mark.parametrize("rule", RULES)
def test_unequal_noise_within_a_kind_enters_by_its_average(rule):
    rng = np.random.default_rng(5)
    quadratic, recursion = quadratic_of(some_records(rng, 9, 2)), recursion_of(rule, 5.0 if rule == "A1" else 0.3, 9)
    apart, average = OwnerKinds.of([4.0] * 3, [0.1, 0.5, 2.0]), OwnerKinds.of([4.0], [np.sqrt(4.26 / 3)], counts=[3])
    one, other = (expected_cost(recursion, quadratic, owners, 9, np.ones(2)) for owners in (apart, average))
    np.testing.assert_allclose(one, other, rtol=1e-11)


@pytest.mark.parametrize(
    ("owners", "rules"),
    [
        (OwnerKinds.of([1e4], [1e-3], counts=[10**6]), ["S1", "S2", "A1", "A2"]),
        (OwnerKinds.of(1000.0 * np.arange(1, 11), np.linspace(0.01, 0.1, 10), counts=[100] * 10), ["S1", "S2", "A1"]),
    ],
    ids=["a million identical", "a thousand of ten kinds"],
)
def test_many_owners_are_within_reach(owners, rules):
    """How long it takes, `python -m benchmarks.forecasts` tells: less than a second each."""
    quadratic = quadratic_of(some_records(np.random.default_rng(0), 30, 10))
    for rule in rules:
        recursion = recursion_of(rule, {"S1": 1e5, "S2": 0.01, "A1": 10.0, "A2": 0.05}[rule], 1000)
        found = expected_cost(recursion, quadratic, owners, 1000, np.zeros(10))
        assert np.isfinite(found).all()


@pytest.mark.parametrize(
    ("owners", "order"),
    [
        (OwnerKinds.of(1000.0 * np.arange(1, 11), np.ones(10), counts=[100] * 10), "uniform"),
        (OwnerKinds.of(np.arange(1.0, 30.0), np.ones(29), answers=2), "random order"),
    ],
    ids=["ten kinds of a hundred", "caps"],
)
def test_what_is_out_of_reach_is_refused(owners, order):
    quadratic = quadratic_of(some_records(np.random.default_rng(0), 30, 10))
    with pytest.raises(InvalidInput, match="simulate these terms"):
        expected_cost(recursion_of("A2", 0.3, 100), quadratic, owners, 100, np.zeros(10), order)


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
    arguments = (recursion_of("A2", 0.1, T), quadratic, owner, T, np.ones(2))
    np.testing.assert_allclose(expected_cost(*arguments), gaps, atol=1e-12)
    np.testing.assert_allclose(variance_of(*arguments), 0, atol=1e-13 * gaps[0] ** 2)


def test_what_is_refused():
    quadratic = quadratic_of(some_records(np.random.default_rng(0), 6, 2))
    free = Quadratic(quadratic.H, quadratic.c, quadratic.s, Regularizer(0.0))
    owner = OwnerKinds.of([6.0], [0.0])
    with pytest.raises(InvalidInput, match="A1 steps by rho"):
        expected_cost(recursion_of("A1", 1.0, 3), free, owner, 3, np.zeros(2))
    with pytest.raises(InvalidInput, match="start: needs 2"):
        expected_cost(recursion_of("S1", 1.0, 3), quadratic, owner, 3, np.zeros(3))
    with pytest.raises(InvalidInput, match="random order"):
        expected_cost(recursion_of("A2", 1.0, 3), quadratic, owner, 3, np.zeros(2), "random order")
    for bad in ({"counts": [0]}, {"counts": [1.5]}, {"answers": 0}, {"counts": [1, 2]}):
        with pytest.raises(InvalidInput, match="whole numbers"):
            OwnerKinds.of([6.0], [0.0], **bad)
    for records, noise in itertools.product(([0.0], [6.0, 1.0], [np.nan]), ([-1.0],)):
        with pytest.raises(InvalidInput):
            OwnerKinds.of(records, noise)


def test_one_kind_by_its_matrix_is_one_kind_step_by_step() -> None:
    """Two kinds that differ by nothing but a hair go event by event; one kind goes by the matrix of an event."""
    q, _ = problem(alike(np.random.default_rng(1), [2, 3], 3))
    one, two = (
        expected_cost(recursion_of("A1", 9.0, 200), q, OwnerKinds.of(records, [0.2] * 4), 200, [1.0, -2.0, 0.5])
        for records in ([50] * 4, [50, 50, 50 * (1 + 1e-12), 50])
    )
    np.testing.assert_allclose(one, two, rtol=1e-9)
