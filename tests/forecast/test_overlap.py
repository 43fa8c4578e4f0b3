"""The best split of a person's budget: within every promise for certain, and no grid finds a better one."""

from itertools import combinations, product

import numpy as np
import pytest

from copriv.agreement import Agreement
from copriv.forecast.owner_forecast import best_split, split_of
from copriv.plan.plan_result import NoiseCurve


def most_spent(split: np.ndarray, epsilon: np.ndarray, κ: int) -> float:
    """Over all sets of at most κ owners, what they spend over the largest of their promises."""
    sets = [s for size in range(1, κ + 1) for s in combinations(range(len(epsilon)), size)]
    return max(float(split[list(s)].sum() / epsilon[list(s)].max()) for s in sets)


def by_grid(a: np.ndarray, epsilon: np.ndarray, κ: int, points: int = 60) -> float:
    """The least Σ a/ε′² of a grid of all splits that keep every set's promise."""
    axes = [np.linspace(e / points, e, points) for e in epsilon]
    best = np.inf
    for split in product(*axes):
        x = np.array(split)
        if most_spent(x, epsilon, κ) <= 1.0 + 1e-12:
            best = min(best, float(np.sum(a / x**2)))
    return best


@pytest.mark.parametrize("κ", [2, 3])
@pytest.mark.parametrize(
    ("epsilon", "price"),
    [((0.1, 1.0, 1.0), (1.0, 1.0, 1.0)), ((0.5, 0.5, 2.0), (1.0, 3.0, 1.0)), ((1.0, 1.0, 1.0), (1.0, 8.0, 27.0))],
)
def test_no_grid_finds_a_better_split(epsilon: tuple[float, ...], price: tuple[float, ...], κ: int) -> None:
    ε, a = np.array(epsilon), np.array(price)
    found = best_split(a, ε, np.full(3, κ))
    assert most_spent(found[0], ε, κ) <= 1.0 + 1e-12
    ours = float(np.sum(a / found[0] ** 2))
    assert found[1] == pytest.approx(ours / np.sum(a * (κ / ε) ** 2))
    grid = by_grid(a, ε, κ, points=24)
    assert ours <= grid * (1.0 + 1e-6)
    assert ours >= 0.8 * grid  # a split that broke a promise would be far better


@pytest.mark.parametrize("seed", range(6))
def test_a_record_of_few_holders_bounds_every_set_that_it_is_in(seed: int) -> None:
    """κ differs: |S| ≤ min κ. Sets of the largest promise's κ were kept to as well, which cannot be, and cost up to 44 %."""
    rng = np.random.default_rng(seed)
    a, ε, κ = rng.uniform(0.5, 2.0, 3), rng.uniform(0.2, 5.0, 3), np.array([[2, 3, 2], [3, 2, 2], [1, 3, 2]][seed % 3])
    sets = [list(s) for n in (1, 2, 3) for s in combinations(range(3), n) if n <= min(κ[list(s)])]
    tried = ε * rng.uniform(0.0, 1.0, (60_000, 3))
    kept = np.all([tried[:, s].sum(axis=1) <= ε[s].max() for s in sets], axis=0)
    least = float(np.min(np.sum(a / tried[kept] ** 2, axis=1)))
    found = best_split(a, ε, κ)
    assert max(float(found[0][s].sum() / ε[s].max()) for s in sets) <= 1.0 + 1e-12
    assert np.sum(a / found[0] ** 2) <= least * (1.0 + 1e-6)


def test_equal_owners_gain_nothing_and_a_reluctant_one_need_not_divide() -> None:
    equal = best_split(np.full(5, 1e-8), np.full(5, 2.0), np.full(5, 3))
    assert equal[0] == pytest.approx(np.full(5, 2 / 3), rel=1e-6)
    assert equal[1] == pytest.approx(1.0, abs=1e-9)
    reluctant = best_split(np.full(3, 1e-8), np.array([0.1, 1.0, 1.0]), np.full(3, 2))
    assert reluctant[0] == pytest.approx([0.1, 0.5, 0.5], rel=1e-6)
    assert reluctant[1] == pytest.approx((100 + 4 + 4) / (400 + 4 + 4), rel=1e-6)


def test_where_nobody_shares_every_owner_keeps_its_budget() -> None:
    alone = best_split(np.array([1.0, 2.0]), np.array([0.3, 3.0]), np.array([1, 1]))
    assert alone[0].tolist() == [0.3, 3.0]
    mixed = best_split(np.array([1.0, 1.0, 1.0]), np.array([1.0, 1.0, 1.0]), np.array([2, 2, 1]))
    assert mixed[0] == pytest.approx([0.5, 0.5, 1.0], rel=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_promises_are_kept_for_any_owners(seed: int) -> None:
    rng = np.random.default_rng(seed)
    N = int(rng.integers(2, 8))
    κ = int(rng.integers(2, N + 1))
    ε, a = np.exp(rng.uniform(-3, 3, N)), np.exp(rng.uniform(-4, 4, N))
    found = best_split(a, ε, np.full(N, κ))
    assert most_spent(found[0], ε, κ) <= 1.0 + 1e-9
    assert found[1] <= 1.0


def test_the_forecast_says_what_the_best_split_saves() -> None:
    owners = [{"name": n, "records": 1000, "epsilon": ε, "overlap": 2} for n, ε in (("a", 0.1), ("b", 1.0), ("c", 1.0))]
    agreement = Agreement.of(
        {"agreement": {"rule": "S1", "horizon": 5, "step": 1.0}, "model": {"loss": "squared", "gradient_bound": 1.0},
         "owner": owners}
    )  # fmt: skip
    curve = NoiseCurve.of(np.array([0.001]), np.array([1e3]))
    found = split_of(agreement, curve)
    assert found is not None
    assert found["epsilon"] == pytest.approx([0.1, 0.5, 0.5], rel=1e-6)
    ν = (400 + 4 + 4) / 3000**2  # w_i = 1/3, n_i = 1,000
    assert found["relative_fitness_as_agreed"] == pytest.approx(0.001 + 1e3 * ν)
    assert found["relative_fitness"] == pytest.approx(0.001 + 1e3 * ν * 108 / 408, rel=1e-5)
    alone = agreement.replace(owner={"overlap": 1})
    assert split_of(alone, curve) is None
