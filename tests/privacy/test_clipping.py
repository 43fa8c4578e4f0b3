"""The clipped mean gradient: its formal guarantee on neighbours, its edge cases, and a loop as the oracle."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import oracle
from copriv.errors import InvalidInput
from copriv.losses import Custom, CustomLinear, Hinge, Huber, Logistic, Squared
from copriv.model.records import BLOCK, Records
from copriv.privacy.clipping import clip_rows, clipped_mean_gradient, exact_sum, mean_sensitivity
from copriv.types import Array, Loss

finite = st.floats(-1e300, 1e300, allow_subnormal=True)
anything = st.floats(allow_nan=True, allow_infinity=True)
bounds = st.floats(1e-6, 1e6)


def _wild(theta: Array, x: Array, y: Array) -> Array:
    """Gradients of any size, infinite ones and NaN among them: a row's own features say which."""
    with np.errstate(all="ignore"):
        rows = np.square(x) * np.exp(np.abs(x) % 1000) * (y - theta.sum())[:, None]
        return np.where(x > 1e200, np.nan, rows)


LOSSES: list[Loss] = [
    Squared(),
    Logistic(),
    Hinge(),
    Huber(0.7),
    CustomLinear("fourth power", lambda z, y: (z - y) ** 4, lambda z, y: 4 * (z - y) ** 3),
    CustomLinear("not a number", lambda z, y: z, lambda z, y: np.where(z > y, np.nan, np.inf)),
    Custom("wild", lambda theta, x, y: np.zeros(len(y)), _wild),
]


@given(gradients=arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=anything), bound=bounds)
def test_clipped_rows_are_within_the_bound_and_point_the_same_way(gradients: Array, bound: float) -> None:
    with np.errstate(all="ignore"):
        clipped = clip_rows(gradients, bound)
        norms = np.abs(gradients).sum(axis=1)
    assert np.isfinite(clipped).all()
    # math.fsum: the norm of the result without rounding of its own.
    assert all(math.fsum(np.abs(row)) <= bound * (1 + 1e-14) for row in clipped)
    for row, norm, result in zip(gradients, norms, clipped, strict=True):
        if not np.isfinite(row).all():
            assert (result == 0).all()
        elif norm <= bound:
            assert result.tobytes() == row.tobytes()
        elif norm < 1e290:
            np.testing.assert_allclose(result / bound, row / norm, rtol=1e-12, atol=1e-290)


@given(gradient=arrays(np.float64, st.integers(1, 6), elements=st.floats(-1e3, 1e3)), bound=bounds)
def test_one_row_against_the_loop(gradient: Array, bound: float) -> None:
    np.testing.assert_allclose(
        clip_rows(gradient[None], bound)[0], oracle.clip_l1(gradient, bound), rtol=1e-13, atol=1e-300
    )


def test_edges_of_the_table() -> None:
    rows = np.array(
        [[1.0, -2.0], [2.0, -2.0], [0.0, 0.0], [np.nan, 1.0], [np.inf, 1.0], [1e308, 1e308], [1.5e308, 0.0]]
    )
    with np.errstate(over="ignore"):
        assert clip_rows(rows, 3.0).tolist() == [[1, -2], [1.5, -1.5], [0, 0], [0, 0], [0, 0], [0, 0], [0, 0]]
        unclipped = clip_rows(rows, math.inf)
    assert unclipped.tolist() == [[1, -2], [2, -2], [0, 0], [0, 0], [0, 0], [1e308, 1e308], [1.5e308, 0]]


def test_a_factor_with_few_digits_does_not_let_a_row_through() -> None:
    """1e-12/1e308 is a float of a few bits: rounded up, it makes a row longer than the bound by more than any slack."""
    worst = max(math.fsum(np.abs(clip_rows(np.array([[size]]), 1e-12)[0])) for size in np.linspace(1e307, 1.7e308, 500))
    assert worst <= 1e-12 * (1 + 1e-14)


def _person(p: int, rows: st.SearchStrategy[int]) -> st.SearchStrategy[tuple[Array, Array]]:
    return rows.flatmap(
        lambda k: st.tuples(
            arrays(np.float64, (k, p), elements=finite), arrays(np.float64, k, elements=st.sampled_from([-1.0, 1.0]))
        )
    )


def _records(people: list[tuple[Array, Array]]) -> Records:
    ids = np.repeat(np.arange(len(people)), [len(y) for _, y in people])
    return Records.of_persons(np.concatenate([x for x, _ in people]), np.concatenate([y for _, y in people]), ids)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("most_rows", [1, 4])
@given(data=st.data())
def test_neighbours_move_the_mean_by_at_most_the_sensitivity(loss: Loss, most_rows: int, data: st.DataObject) -> None:
    """Replace one unit, a record or a person with up to four rows, by any other: 2Ξ/n in L1, whatever the numbers."""
    p, rows = data.draw(st.integers(1, 4)), st.integers(1, most_rows)
    people = data.draw(st.lists(_person(p, rows), min_size=1, max_size=5))
    at, other = data.draw(st.integers(0, len(people) - 1)), data.draw(_person(p, rows))
    theta, bound = data.draw(arrays(np.float64, p, elements=st.floats(-1e5, 1e5))), data.draw(bounds)
    neighbour = [*people[:at], other, *people[at + 1 :]]
    with np.errstate(all="ignore"):
        means = [clipped_mean_gradient(loss, _records(who), theta, bound) for who in (people, neighbour)]
    moved = math.fsum(np.abs(means[0] - means[1]))
    assert moved <= 2 * bound / len(people) * (1 + 1e-9)
    assert moved <= mean_sensitivity(bound, len(people)) * (1 + 1e-9)


@pytest.mark.parametrize("p", [1, 2, 3, 5, 10, 17])
def test_a_person_with_more_rows_does_not_move_the_others_across_a_kink(p: int) -> None:
    """Many equal rows and a θ that puts them on the hinge's kink, within a last bit of it.

    A product of matrix and vector rounds a row by its place in the block. Then one row more in front moves every other
    row's prediction by a bit, and some of them from one side of the kink to the other: 1.5 times 2Ξ/n was seen.
    """
    rng, n, bound = np.random.default_rng(p), 30, 1.0
    for _ in range(150):
        row = rng.normal(size=p)
        row /= np.abs(row).sum()
        theta = rng.normal(size=p)
        theta /= row @ theta
        others = [(row[None], np.ones(1))] * (n - 1)
        means = [
            clipped_mean_gradient(Hinge(), _records([(np.tile(row, (k, 1)), np.ones(k)), *others]), theta, bound)
            for k in (1, 2, 3, 4)
        ]
        assert max(np.abs(a - b).sum() for a in means for b in means) <= mean_sensitivity(bound, n)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_the_guarantee_is_reached(loss: Loss) -> None:
    """Records at both ends of the bound move the mean by 2Ξ/n: the bound above is not slack that hides a mistake."""
    x, theta = np.full((4, 3), 5.0), np.zeros(3)
    if loss.name == "not a number":
        pytest.skip("contributes nothing at all")
    down, up = (clipped_mean_gradient(loss, Records.of(x, [1, 1, 1, y]), theta, 0.1) for y in (1, -1))
    assert np.abs(down - up).sum() == pytest.approx(2 * 0.1 / 4, rel=1e-12)


@pytest.mark.parametrize("name", ["squared", "logistic", "hinge", "huber"])
@given(seed=st.integers(0, 10**6), bound=st.floats(0.01, 10))
def test_weighted_means_against_the_loop(name: str, seed: int, bound: float) -> None:
    rng = np.random.default_rng(seed)
    records = Records.of(
        rng.normal(size=(12, 3)) * rng.choice([0.0, 1.0, 1e3], size=(12, 1)),
        rng.choice([-1.0, 1.0], size=12),
        rng.uniform(0.1, 3, size=12),
    )
    theta = rng.normal(size=3)
    loss = {"squared": Squared(), "logistic": Logistic(), "hinge": Hinge(), "huber": Huber(0.7)}[name]
    rows = list(zip(records.features, records.target, strict=True))
    kind = ("huber", 0.7) if name == "huber" else name
    expected = oracle.private_answer(kind, rows, theta, bound, np.zeros(3), records.weight)
    np.testing.assert_allclose(clipped_mean_gradient(loss, records, theta, bound), expected, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("rows", [BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 3])
def test_blocks_are_joined_without_a_seam(rows: int) -> None:
    rng = np.random.default_rng(rows)
    records, theta = Records.of(rng.normal(size=(rows, 3)), rng.normal(size=rows)), rng.normal(size=3)
    by_rows = Custom("squared", lambda θ, x, y: (x @ θ - y) ** 2, lambda θ, x, y: 2 * (x @ θ - y)[:, None] * x)
    whole = clip_rows(by_rows.gradients(theta, records.features, records.target), 0.5).sum(axis=0) / rows
    for loss in (Squared(), by_rows):
        np.testing.assert_allclose(clipped_mean_gradient(loss, records, theta, 0.5), whole, rtol=1e-11)


def test_the_linear_path_equals_clipping_whole_rows() -> None:
    rng = np.random.default_rng(3)
    records, theta = Records.of(rng.normal(size=(200, 5)), rng.choice([-1.0, 1.0], size=200)), rng.normal(size=5)
    for loss in LOSSES[:5]:
        by_rows = Custom(loss.name, loss.values, loss.gradients)
        np.testing.assert_allclose(
            clipped_mean_gradient(loss, records, theta, 0.9),
            clipped_mean_gradient(by_rows, records, theta, 0.9),
            rtol=1e-11,
        )


def test_without_a_bound_it_is_the_mean_gradient() -> None:
    rng = np.random.default_rng(4)
    records, theta = Records.of(rng.normal(size=(50, 3)), rng.normal(size=50)), rng.normal(size=3)
    expected = 2 * (records.features @ theta - records.target) @ records.features / 50
    np.testing.assert_allclose(clipped_mean_gradient(Squared(), records, theta, math.inf), expected, rtol=1e-12)


class Foreign:
    """A loss from outside the package, which no checker of shapes has seen."""

    name, smooth = "foreign", True

    def __init__(self, rows: object) -> None:
        self._rows = rows

    def values(self, theta: Array, features: Array, target: Array) -> Array:
        return target

    def gradients(self, theta: Array, features: Array, target: Array) -> object:
        return self._rows

    def gradient_bound(self, feature_bound: float, target_bound: float, theta_max: float) -> float:
        return math.inf

    def check_target(self, target: Array) -> None: ...


class ForeignLinear(Foreign):
    curvature = math.inf

    def value(self, prediction: Array, target: Array) -> Array:
        return prediction

    def slope(self, prediction: Array, target: Array) -> object:
        return self._rows

    def slope_bound(self, prediction_bound: float, target_bound: float) -> float:
        return math.inf


@pytest.mark.parametrize("shape", [(8, 1), (1, 4), (8,), (4, 8), ()])
def test_gradients_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    """One column broadcast over p coordinates would be p times as long in L1 as what was clipped."""
    records = Records.of(np.ones((8, 4)), np.ones(8))
    with pytest.raises(InvalidInput, match="one for each record"):
        clipped_mean_gradient(Foreign(np.ones(shape)), records, np.zeros(4), 1.0)


@pytest.mark.parametrize("shape", [(8, 1), (1, 8), (7,), ()])
def test_slopes_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    records = Records.of(np.ones((8, 4)), np.ones(8))
    with pytest.raises(InvalidInput, match="one for each record"):
        clipped_mean_gradient(ForeignLinear(np.ones(shape)), records, np.zeros(4), 1.0)


def test_gradients_of_32_bits_are_clipped_in_64() -> None:
    rows = np.random.default_rng(6).normal(size=(300, 7)).astype(np.float32)
    records = Records.of(np.ones((300, 7)), np.ones(300))
    expected = clip_rows(rows.astype(np.float64), 0.1).mean(axis=0)
    np.testing.assert_allclose(clipped_mean_gradient(Foreign(rows), records, np.zeros(7), 0.1), expected, rtol=1e-12)


@given(bound=bounds, n=st.integers(1, 10**7))
def test_sensitivity_is_the_formula_and_a_little_more(bound: float, n: int) -> None:
    assert 2 * bound / n < mean_sensitivity(bound, n) < 2 * bound / n * (1 + 1e-12 * n)


def test_rounding_of_a_long_sum_is_within_what_the_sensitivity_adds() -> None:
    """200,000 records at the bound: replacing one changes rounding too, and the slack must be more than that."""
    n, bound, rng = 200_000, 1 / 3, np.random.default_rng(8)
    x, y = rng.normal(size=(n, 2)), np.ones(n)
    clipped = np.abs(x).sum(axis=1) * 2 > bound
    x, y = x[clipped], y[clipped]
    n = len(y)
    for at in (0, n // 2, n - 1):
        other = y.copy()
        other[at] = -1.0
        a, b = (clipped_mean_gradient(Squared(), Records.of(x, t), np.zeros(2), bound) for t in (y, other))
        moved = np.abs(a - b).sum()
        assert moved <= mean_sensitivity(bound, n)
        assert abs(moved - 2 * bound / n) < mean_sensitivity(bound, n) - 2 * bound / n


def test_what_is_kept_of_a_bound_cannot_be_written_to() -> None:
    rows = Records.of(np.full((3, 2), 5.0), np.zeros(3))
    before = clipped_mean_gradient(Squared(), rows, np.ones(2), 1.0)
    (kept,) = rows.clipping_limits.values()
    for array in (kept, rows.lengths):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = np.inf
    assert np.abs(clipped_mean_gradient(Squared(), rows, np.ones(2), 1.0)).sum() <= 1.0 + 1e-12
    assert np.abs(before).sum() <= 1.0 + 1e-12


def test_two_blocks_are_added_up_with_one_rounding_as_more_are() -> None:
    rng = np.random.default_rng(8)
    one, other = (rng.normal(size=(40, 5)) * 10.0 ** rng.integers(-200, 200, size=(40, 5)) for _ in range(2))
    one[0], other[0] = [1.0, -0.0, 0.0, 5e-324, 1.0], [-1.0, -0.0, -0.0, 5e-324, 2.0**-60]
    expected = np.array([math.fsum(pair) for pair in zip(one.flat, other.flat, strict=True)]).reshape(one.shape)
    found = exact_sum([one, other])
    assert found.tobytes() == expected.tobytes()
    with pytest.raises(OverflowError):
        exact_sum([np.array([1.7e308]), np.array([1.7e308])])
