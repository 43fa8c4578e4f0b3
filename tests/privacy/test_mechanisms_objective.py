"""Objective perturbation: its density ratio by brute force, the bounds behind it, the solver, what wrong ones spend."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

import copriv.mechanisms.objective_noise as module
import copriv.mechanisms.objective_solver as solver_module
from copriv.agreement import Agreement
from copriv.errors import AgreementError, InvalidInput, NotCertified, QueryRefused
from copriv.losses import Hinge, Huber, Logistic, SmoothedHinge, Squared
from copriv.mechanisms.objective_noise import ObjectiveAnswer, Perturbation, objective_deviation
from copriv.mechanisms.objective_solver import Prepared, Surface
from copriv.model.records import BLOCK, Records
from copriv.owner import Owner
from copriv.privacy.clipping import ROUNDING
from copriv.protocol import Query
from copriv.simulation import simulate
from copriv.types import Array

SURFACES: tuple[Surface, ...] = (Logistic(), SmoothedHinge(0.5), Huber(0.4), Squared())


def agreed(surface: Surface = SURFACES[0], p: int = 2, **changes: object) -> Perturbation:
    made = Perturbation(surface, 0.8, 1, 1.0, False, np.linspace(-0.1, 0.2, p), 0.05, anchor=0.1)
    return replace(made, **changes)


def dataset(n: int, p: int, rng: np.random.Generator, labels: bool) -> Records:
    x, y = rng.normal(size=(n, p)), rng.normal(size=n)
    return Records.of(x, np.where(y > 0, 1.0, -1.0) if labels else y)


def neighbours(n: int, p: int, seed: int, labels: bool) -> tuple[Records, Records]:
    """Two sets that differ in their last record: at a corner of the ball or beyond, or anywhere."""
    rng = np.random.default_rng(seed)
    one = dataset(n, p, rng, labels)
    x, y = one.features.copy(), one.target.copy()
    e = np.eye(p)[rng.integers(p)]
    x[-1] = rng.choice([-1.0, 1.0]) * e * rng.choice([1.0, 50.0]) if rng.random() < 0.7 else rng.normal(size=p)
    y[-1] = -y[-1] if labels else 10.0 * rng.normal()
    return one, Records.of(x, y)


def log_density(made: Perturbation, records: Records, theta: Array, ε: float, δ: float = 0.0) -> float:
    """Of θ̂ at θ, by the change of variables b = −∇(F without b), with derivatives by differences: a second writing."""
    n, p = records.units, len(theta)
    solver = made.tied(n, ε).prepared(records)
    b = -solver.gradient(theta, np.zeros(p))
    h = 1e-6
    jacobian = np.array(
        [(solver.gradient(theta + h * e, b) - solver.gradient(theta - h * e, b)) / (2 * h) for e in np.eye(p)]
    )
    scale = made.noise_scale(n, ε, δ)
    tail = np.abs(b).sum() / scale if δ == 0 else b @ b / (2 * scale**2)
    return float(np.log(abs(np.linalg.det(jacobian))) - tail)


def worst_ratio(made: Perturbation, ε: float, trials: int = 60, n: int = 4, p: int = 2) -> float:
    """Over neighbours and points, the largest log-ratio of densities."""
    labels, worst = isinstance(made.surface, Logistic | SmoothedHinge), 0.0
    for seed in range(trials):
        one, other = neighbours(n, p, seed, labels)
        rng = np.random.default_rng(seed)
        for theta in (rng.normal(size=p), 20 * rng.normal(size=p), np.zeros(p)):
            worst = max(worst, abs(log_density(made, one, theta, ε) - log_density(made, other, theta, ε)))
    return worst


@pytest.mark.parametrize("regularization", [0.0, 0.05])
def test_a_huge_epsilon_overflows_nowhere_and_is_kept(regularization: float) -> None:
    made = agreed(anchor=None, regularization=regularization)
    with np.errstate(all="raise", under="ignore"):
        for ε in (10.0, 1e3, 1e6):
            assert made.firmness(100, ε) >= 0
            assert 0 < made.curvature_cost(100, ε) < ε
            assert made.noise_scale(100, ε) == pytest.approx(2 * made.bound / (100 * made.noise_budget(100, ε)))


@pytest.mark.parametrize("surface", SURFACES, ids=lambda s: s.name)
def test_the_density_ratio_never_passes_epsilon(surface: Surface) -> None:
    """With ε₁ + ε₂ the whole of what the draw of b spends; the search comes near it."""
    made = agreed(surface, anchor=2.0 if surface.curvature > 1 else 0.3)
    ε = 3.0
    worst = worst_ratio(made, ε)
    assert worst <= (1 - module.REMAINDER) * ε + 1e-6
    assert worst >= 0.5 * ε


def _half_noise(patch: pytest.MonkeyPatch) -> None:
    right = Perturbation.noise_scale
    patch.setattr(Perturbation, "noise_scale", lambda self, n, ε, δ=0.0: 0.5 * right(self, n, ε, δ))


def _added_not_replaced(patch: pytest.MonkeyPatch) -> None:
    right = Perturbation.noise_scale
    patch.setattr(Perturbation, "noise_scale", lambda self, n, ε, δ=0.0: right(self, n, ε, δ) / 2)


def _no_clipping(patch: pytest.MonkeyPatch) -> None:
    right = solver_module.Tilted.prepared
    patch.setattr(
        solver_module.Tilted, "prepared", lambda self, r: replace(right(self, r), limit=np.full(len(r), np.inf))
    )


def _no_feature_bound(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(solver_module, "counted_for", lambda lengths, bound: np.ones_like(lengths))


@pytest.mark.parametrize("wrong", [_half_noise, _added_not_replaced, _no_clipping, _no_feature_bound])
def test_a_wrong_version_passes_it(
    wrong: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong(monkeypatch)
    ε = 3.0
    # Where the unbounded features matter most is the Jacobian, so that case has little noise budget in the first place.
    if wrong is _no_feature_bound:
        made = agreed(Squared(), anchor=2.0, bound=1e3)
    elif wrong is _no_clipping:
        made = agreed(Squared(), anchor=2.0)
    else:
        made = agreed(anchor=0.3)
    assert worst_ratio(made, ε) > 1.05 * ε


def test_the_jacobian_must_be_paid_for() -> None:
    """ε₂ left out: with a weak anchor and few records the volume term alone passes the whole ε."""
    weak = agreed(Squared(), bound=0.01, anchor=1e-4, regularization=0.0)
    one = Records.of(np.array([[1e-3, 0.0], [0.0, 1e-3]]), np.zeros(2))
    other = Records.of(np.array([[1e-3, 0.0], [0.0, 1.0]]), np.zeros(2))
    theta = weak.start * 0
    ratio = []
    for r in (one, other):
        solver = weak.tied(2, 1.0).prepared(r)
        ratio.append(np.linalg.slogdet(solver.hessian(theta))[1])
    s = 2.0 * 1.0 / (2 * 1e-4)
    assert abs(ratio[1] - ratio[0]) == pytest.approx(np.log1p(s), rel=0.01)  # the bound is reached
    assert weak.curvature_cost(2, 1.0) == pytest.approx(np.log1p(s))
    with pytest.raises(AgreementError, match="anchor"):
        weak.noise_scale(2, 1.0)


@given(seed=st.integers(0, 200), which=st.integers(0, 3), metric=st.booleans(), intercept=st.booleans())
def test_a_replaced_record_moves_the_log_determinant_by_the_curvature_cost_at_most(
    seed: int, which: int, metric: bool, intercept: bool
) -> None:
    rng, p, n, ε = np.random.default_rng(seed), 3, 5, 2.0
    B = rng.normal(size=(p, p))
    made = agreed(SURFACES[which], p, metric=B @ B.T + 0.1 * np.eye(p) if metric else None, intercept=intercept)
    if seed % 2:
        made = replace(made, reach=0.3)
    one, other = neighbours(n, p, seed, which < 2)
    theta = rng.normal(size=p)
    dets = [np.linalg.slogdet(made.tied(n, ε).prepared(r).hessian(theta))[1] for r in (one, other)]
    assert abs(dets[0] - dets[1]) <= made.curvature_cost(n, ε) * (1 + 1e-9)
    moved = [made.tied(n, ε).prepared(r).gradient(theta, np.zeros(p)) for r in (one, other)]
    assert np.abs(moved[0] - moved[1]).sum() <= 2 * made.bound / n * (1 + 1e-9)


def test_persons_with_many_rows_pay_for_the_trace() -> None:
    """Many rows of one person are not a rank-one change: log(1 + s) would be too little, s is enough."""
    one = Records.of_persons(np.vstack([np.zeros((2, 2)), np.eye(2)]), np.zeros(4), [0, 1, 2, 2])
    other = Records.of_persons(np.zeros((4, 2)), np.zeros(4), [0, 1, 2, 2])
    made = agreed(Squared(), bound=1e6, many_rows=True, anchor=0.5, regularization=0.0)
    dets = [np.linalg.slogdet(made.tied(3, 9.0).prepared(r).hessian(np.zeros(2)))[1] for r in (one, other)]
    assert np.log1p(made.curvature_cost(3, 9.0)) < abs(dets[0] - dets[1]) <= made.curvature_cost(3, 9.0)
    with pytest.raises(AgreementError, match="one row a unit"):
        made.noise_scale(3, 9.0, 1e-6)


@pytest.mark.parametrize("surface", SURFACES, ids=lambda s: s.name)
def test_bend_is_the_derivative_of_the_slope_and_below_the_curvature(surface: Surface) -> None:
    z = np.linspace(-3, 3, 1001) + 1e-4
    y = np.ones_like(z)
    differences = (surface.slope(z + 1e-6, y) - surface.slope(z - 1e-6, y)) / 2e-6
    assert np.abs(surface.bend(z, y) - differences).max() < 1e-4
    assert (surface.bend(z, y) <= surface.curvature + 1e-12).all()


def test_the_smoothed_hinge_is_a_rounded_hinge() -> None:
    z = np.linspace(-2, 4, 2001)
    y, smooth, hinge = np.ones_like(z), SmoothedHinge(0.3), Hinge()
    gap = smooth.value(z, y) - hinge.value(z, y)
    assert gap.min() >= -1e-12
    assert gap.max() <= 0.3 / 4 + 1e-12
    differences = np.gradient(smooth.value(z, y), z)
    np.testing.assert_allclose(smooth.slope(z, y)[1:-1], differences[1:-1], atol=0.01)


@pytest.mark.parametrize("surface", SURFACES, ids=lambda s: s.name)
def test_the_solver_finds_the_minimum(surface: Surface) -> None:
    rng, p, n = np.random.default_rng(3), 4, 300
    made = agreed(surface, p, bound=0.4, metric=np.diag([1.0, 2.0, 0.5, 3.0]))
    solver = made.tied(n, 1.0).prepared(dataset(n, p, rng, isinstance(surface, Logistic | SmoothedHinge)))
    for size in (0.0, 0.1, 10.0):
        tilt = size * rng.laplace(size=p)
        theta = solver.minimum(tilt)
        assert np.linalg.norm(solver.gradient(theta, tilt)) <= 0.5 * made.residual
        found = minimize(lambda t, b=tilt: float(np.sum(solver.gradient(t, b) ** 2)), theta + 0.01, tol=1e-14)
        np.testing.assert_allclose(theta, found.x, atol=1e-4 * (1 + np.abs(theta).max()))


@pytest.mark.parametrize("n", [300, 2 * BLOCK + 1])
@pytest.mark.parametrize("surface", SURFACES, ids=lambda s: s.name)
def test_minima_of_many_tilts_are_those_of_each(surface: Surface, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of tilts so large that the Hessian of the middle does not serve, and of none; of rows in several blocks, too."""
    rng, p = np.random.default_rng(5), 4
    made = agreed(surface, p, bound=0.4)
    solver = made.tied(n, 1.0).prepared(dataset(n, p, rng, isinstance(surface, Logistic | SmoothedHinge)))
    tilts = np.array([0.0, 1e-3, 0.1, 10.0])[:, None] * rng.laplace(size=(4, p))
    found = solver.minima(tilts, solver.minimum(np.zeros(p)))
    monkeypatch.setattr(solver_module, "CELLS", 2 * n - 1)
    most, gradient = [], Prepared.gradient
    monkeypatch.setattr(Prepared, "gradient", lambda one, *at: most.append(at[0].shape) or gradient(one, *at))
    few_at_once = solver.minima(tilts, solver.minimum(np.zeros(p)))
    monkeypatch.undo()
    assert max(shape[0] for shape in most if len(shape) == 2) == 1
    np.testing.assert_allclose(few_at_once, found, rtol=1e-7, atol=1e-9)
    assert (np.linalg.norm(solver.gradient(found, tilts), axis=1) <= 0.5 * made.residual).all()
    for theta, tilt in zip(found, tilts, strict=True):
        np.testing.assert_allclose(
            solver.gradient(theta[None], tilt[None])[0], solver.gradient(theta, tilt), atol=1e-14
        )
        np.testing.assert_allclose(theta, solver.minimum(tilt), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("reach", [None, 1.5])
@pytest.mark.parametrize("surface", SURFACES, ids=lambda s: s.name)
def test_a_plan_that_sizes_rows_once_finds_the_same_minima(surface: Surface, reach: float | None) -> None:
    """By Hessians of single precision, where these point the way; an owner's are of double precision."""
    rng, p, n = np.random.default_rng(6), 4, 300
    made = agreed(surface, p, bound=0.4, metric=np.diag([1.0, 2.0, 0.5, 3.0]), reach=reach)
    records = dataset(n, p, rng, isinstance(surface, Logistic | SmoothedHinge))
    owners, plans = (made.tied(n, 1.0).prepared(records, *sized) for sized in ((), (made.sized(records),)))
    for one, other in ((owners.damp, plans.damp), (owners.limit, plans.limit), (owners.features, plans.features)):
        np.testing.assert_array_equal(one, other)
    assert owners.rough is None
    assert plans.rough.dtype == np.float32
    assert owners.hessian(made.start).dtype == plans.hessian(made.start).dtype == np.float64
    np.testing.assert_allclose(plans.hessian(made.start), owners.hessian(made.start), rtol=1e-5, atol=1e-6)
    assert not np.array_equal(plans.hessian(made.start), owners.hessian(made.start))
    tilts = np.array([0.0, 1e-3, 0.1, 10.0])[:, None] * rng.laplace(size=(4, p))
    found = plans.minima(tilts, plans.minimum(np.zeros(p)))
    assert (np.linalg.norm(owners.gradient(found, tilts), axis=1) <= 0.5 * made.residual).all()


@pytest.mark.parametrize("unit", [1e-16, 1e16])
def test_single_precision_is_for_rows_within_its_range(unit: float) -> None:
    made, records = agreed(anchor=1e20), Records.of(unit * np.eye(2), np.ones(2))
    assert made.tied(2, 1.0).prepared(records, made.sized(records)).rough is None


def test_single_precision_is_for_hessians_that_it_does_not_blur() -> None:
    records = dataset(300, 2, np.random.default_rng(7), True)
    weak = agreed(anchor=1e-9, regularization=1e-9)
    assert weak.tied(300, 1.0).prepared(records, weak.sized(records)).rough is None


@pytest.mark.parametrize("surface", SURFACES, ids=lambda s: s.name)
def test_a_hessian_at_hand_changes_how_a_minimum_is_found_and_not_which(surface: Surface, monkeypatch) -> None:
    """Near ones are used again; one of another place (a multiple of what it is) is left, and the end is the same."""
    rng, p, made_anew = np.random.default_rng(12), 5, []
    made = agreed(surface, p)
    solver = made.tied(200, 1.0).prepared(dataset(200, p, rng, isinstance(surface, Logistic | SmoothedHinge)))
    plain, hessian = solver.minimum(np.full(p, 0.02)), Prepared.hessian
    near, far = solver.factored(plain + 1e-3), (1e-3 * solver.factored(plain)[0], np.arange(p))
    monkeypatch.setattr(Prepared, "hessian", lambda self, θ: made_anew.append(1) or hessian(self, θ))
    for factors, anew in ((near, False), (far, True)):
        made_anew.clear()
        theta = solver.minimum(np.full(p, 0.02), plain + 1e-4, factors=factors)
        assert np.linalg.norm(solver.gradient(theta, np.full(p, 0.02))) <= 0.5 * made.residual
        np.testing.assert_allclose(theta, plain, atol=1e-9)
        assert bool(made_anew) is anew


def test_a_solver_that_stops_short_releases_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Perturbation, "residual", -1.0)
    solver = agreed().tied(50, 1.0).prepared(dataset(50, 2, np.random.default_rng(4), True))
    with pytest.raises(NotCertified, match="nothing was released"):
        solver.minimum(np.full(2, 0.1))


def test_the_remainder_hides_the_tolerance() -> None:
    made, n, ε = agreed(), 1000, 1.0
    off = np.sqrt(2) * made.residual / made.strength(n, ε)
    assert 2 * off / (module.REMAINDER * ε) <= made.remainder_scale(n, ε)
    answer = ObjectiveAnswer(made, Fraction(ε), 0.0, n)
    assert answer._rest.scale >= made.remainder_scale(n, ε) * (1 - 1e-9)
    assert answer.scale == pytest.approx(made.noise_scale(n, ε), rel=1e-6)


@pytest.mark.parametrize("δ", [1e-6, 0.01])
@pytest.mark.parametrize("anchor", [0.3, 20.0])
def test_normal_draws_keep_epsilon_but_for_delta(δ: float, anchor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The divergence of both densities over the line, slopes at opposite limits: half of δ where the anchor is firm."""
    made = replace(agreed(Squared(), p=1, start=np.zeros(1), anchor=anchor), order=2)
    ε, n = 2.0, 5
    x = np.append(np.zeros((n - 1, 1)), [[1.0]], axis=0)
    one, other = (Records.of(x, np.full(n, y)) for y in (100.0, -100.0))

    def divergence() -> float:
        farthest = 8.0 * made.noise_scale(n, ε, δ) / anchor
        grid = np.linspace(-farthest, farthest, 601)[:, None]
        here, there = (np.array([log_density(made, records, θ, ε, δ) for θ in grid]) for records in (one, other))
        weight = np.exp(here - here.max())
        spent = (1 - module.REMAINDER) * ε
        return float((weight * -np.expm1(np.minimum(spent - here + there, 0.0))).sum() / weight.sum())

    assert divergence() <= δ
    if anchor > 1:
        assert divergence() > 0.4 * δ
        right = module.objective_deviation
        monkeypatch.setattr(module, "objective_deviation", lambda *of: 0.8 * right(*of))
        assert divergence() > δ


def profile(ε: float, *shifts: float) -> float:
    """E(1 − e^(ε − max(m|Z| + m²/2)))₊ over independent standard normal Z, one for each shift m, by quadrature."""
    from scipy.integrate import quad
    from scipy.stats import norm

    found = 0.0
    for m in shifts:
        rest = [k for k in shifts if k != m]  # which are less

        def part(z: float, m: float = m, rest: list[float] = rest) -> float:
            loss = m * z + m * m / 2
            less = np.prod([1 - 2 * norm.sf(max(loss / k - k / 2, 0.0)) for k in rest])
            return float(-np.expm1(ε - loss) * 2 * norm.pdf(z) * less)

        nearest = max(ε / m - m / 2, 0.0)
        ends = nearest + np.array([0.0, 1.0, 3.0, 12.0])
        found += sum(quad(part, *pair, epsabs=0, epsrel=1e-10, limit=200)[0] for pair in pairwise(ends))
    return found


@pytest.mark.parametrize("δ", [0.05, 1e-3, 1e-6, 1e-12])
@pytest.mark.parametrize("ε", [1e-12, 1e-6, 1e-3, 0.1, 1.0, 10.0, 30.0])
def test_the_deviation_inverts_the_profile(ε: float, δ: float) -> None:
    """By quadrature; where it is less than δ, the deviation is the one at which the proof ends."""
    m = 0.3 / objective_deviation(0.3, ε, δ)
    assert profile(ε, m) <= δ
    if ε / m - m / 2 > module.NEAREST * (1 + 1e-6):
        assert profile(ε, m * (1 + 1e-4)) > δ
    else:
        assert ε / m - m / 2 == pytest.approx(module.NEAREST)
        assert ε < 3 * δ


@given(
    ε=st.floats(0.01, 20), exponent=st.floats(-10, -1.4), turn=st.floats(0.01, 1.56),
    slopes=st.tuples(st.floats(-1, 1), st.floats(-1, 1)), b=st.tuples(st.floats(-6, 6), st.floats(-6, 6)),
)  # fmt: skip
def test_no_slopes_of_two_rows_spend_more_than_one_shift(
    ε: float, exponent: float, turn: float, slopes: tuple[float, float], b: tuple[float, float]
) -> None:
    """Pointwise the two corners bound the log-ratio; both together have less divergence than the one shift."""
    δ = 10.0**exponent
    Δ, d = 2.0, objective_deviation(2.0, ε, δ)
    m, other = Δ / d * np.cos(turn), Δ / d * np.sin(turn)
    e, e_other = np.array([np.cos(turn), np.sin(turn)]), np.array([np.cos(turn), -np.sin(turn)])
    w, draw = slopes[0] * e - slopes[1] * e_other, d * np.array(b)
    ratio = (w @ draw) / d**2 + (w @ w) / (2 * d**2)
    assert ratio <= max(m * abs(b[0]) + m**2 / 2, other * abs(b[1]) + other**2 / 2) * (1 + 1e-9) + 1e-12
    assert profile(ε, m, other) <= δ


def test_the_tail_that_makes_one_shift_the_worst() -> None:
    """2a·Q(a) ≥ φ(a) from `NEAREST` on, and not much before it."""
    from scipy.special import erfcx

    a = np.append(np.linspace(module.NEAREST, 60, 100_000), [1e3, 1e6])
    assert (a * np.sqrt(np.pi / 2) * erfcx(a / np.sqrt(2)) >= 0.5).all()
    assert 0.6 * np.sqrt(np.pi / 2) * erfcx(0.6 / np.sqrt(2)) < 0.5


def terms(delta: float = 0.0, loss: str = "logistic", **more: object) -> Agreement:
    return Agreement.of(
        {
            "agreement": {"rule": "A2", "horizon": 2, "answers": 1, "mechanism": "objective", **more},
            "model": {"loss": loss, "gradient_bound": 1.0, "regularization": 1e-2},
            "data": {"feature_bound": 1.0},
            "owner": [{"name": f"bank-{i}", "records": 400, "epsilon": 2.0, "delta": delta} for i in range(2)],
        }
    )


def tables() -> list[tuple[Array, Array]]:
    rng = np.random.default_rng(6)
    x = rng.uniform(-0.5, 0.5, size=(2, 400, 2))
    return [(part, np.where(part @ [3.0, -2.0] + 0.2 * rng.normal(size=400) > 0, 1.0, -1.0)) for part in x]


@pytest.mark.parametrize(("delta", "loss"), [(0.0, "logistic"), (1e-5, "logistic"), (0.0, "hinge")])
def test_owners_and_simulations_answer_alike(delta: float, loss: str) -> None:
    """Real noise cannot be seeded. With so many runs a right ratio has a logarithm of 0 ± 0.083 at most."""
    agreement = terms(delta, loss)
    simulated = simulate(agreement, tables(), runs=600, alone=False).theta
    real = []
    for _ in range(150):
        models = []
        for i, part in enumerate(tables()):
            owner = Owner(agreement, f"bank-{i}", Records.of(*part), Hinge() if loss == "hinge" else Logistic())
            models.append(owner.answer(Query("q", agreement.fingerprint, f"bank-{i}", np.zeros(2))).gradient)
            assert owner.ledger.spent == 2
        real.append(np.mean(models, axis=0))
    ratio = np.std(real, axis=0) / simulated.std(axis=0)
    assert (ratio > 0.6).all()
    assert (ratio < 1 / 0.6).all()
    apart = (np.mean(real, axis=0) - simulated.mean(axis=0)) / (simulated.std(axis=0) * np.sqrt(1 / 150 + 1 / 600))
    assert np.abs(apart).max() < 6


def test_refusals() -> None:
    owner = Owner(terms(), "bank-0", Records.of(*tables()[0]), Logistic())
    with pytest.raises(QueryRefused, match="agreed start"):
        owner.answer(Query("q", terms().fingerprint, "bank-0", np.ones(2)))
    with pytest.raises(AgreementError, match="answers"):
        terms(answers=2)
    with pytest.raises(AgreementError, match="either every owner"):
        Agreement.of(
            {**terms(1e-6).to_dict(), "owner": [terms(δ).to_dict()["owner"][i] for i, δ in enumerate((0.0, 1e-6))]}
        )


@pytest.mark.parametrize("condition", [1e2, 1e4, 9e4])
def test_no_row_counts_for_more_than_its_reach_whatever_the_metric(condition: float) -> None:
    """ω xᵀPx ≤ r² exactly, where P's directions nearly cancel in xᵀPx: computed here in rationals."""
    rng = np.random.default_rng(0)
    Q, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    P = (Q * np.array([1.0, 1.0, 1.0 / condition])) @ Q.T
    P = 0.5 * (P + P.T)
    rows = rng.normal(size=(300, 3)) * np.array([1e-3, 1e-3, 1.0]) @ Q.T
    reach = 0.5 * float(np.sqrt(np.abs(((rows @ P) * rows).sum(axis=1)).min()))
    made = agreed(p=3, feature_bound=10.0, metric=P, reach=reach, anchor=1.0)
    ready = made.tied(300, 1.0).prepared(Records.of(rows, np.ones(300)))
    exact = [[Fraction(float(v)) for v in row] for row in made.matrix]
    for row, ω in zip(ready.features, ready.damp, strict=True):
        x = [Fraction(float(v)) for v in row]
        length = sum(x[i] * exact[i][j] * x[j] for i in range(3) for j in range(3))
        assert Fraction(float(ω)) * length <= Fraction(reach) ** 2


@pytest.mark.parametrize("bound", [1e-6, 1e-4, 0.8])
def test_a_small_bound_does_not_ask_the_solver_for_more_than_floats_have(bound: float) -> None:
    """What it may leave, and what v hides, are one number."""
    rng = np.random.default_rng(0)
    made = agreed(p=4, bound=bound, anchor=1e-3, start=np.full(4, 2.0))
    records = dataset(400, 4, rng, labels=True)
    solver = made.tied(400, 0.1).prepared(records)
    for _ in range(20):
        tilt = made.noise_scale(400, 5.0) * rng.laplace(size=4)
        assert np.linalg.norm(solver.gradient(solver.minimum(tilt), tilt)) <= 0.5 * made.residual
    off = np.sqrt(4) * (made.residual + 2 * 2.0**-40) / made.strength(400, 0.1)
    assert made.remainder_scale(400, 0.1) >= 2 * off / (0.01 * 0.1) * (1 - 1e-12)


@given(
    p=st.integers(1, 12),
    n=st.integers(1, 60),
    size=st.floats(-3, 5),
    bound=st.floats(1e-3, 10),
    reach=st.none() | st.floats(1e-3, 3),
    seed=st.integers(0, 10**6),
)
def test_rounding_moves_the_gradient_no_further_than_it_says(
    p: int, n: int, size: float, bound: float, reach: float | None, seed: int
) -> None:
    """Against the same gradient in exact fractions."""
    rng = np.random.default_rng(seed)
    made = agreed(
        Squared(), p, bound=bound, start=rng.normal(size=p), anchor=float(10 ** rng.uniform(-6, 3)), reach=reach
    )
    tilted = made.tied(n, 1.0)
    solver = tilted.prepared(dataset(n, p, rng, labels=False))
    theta = 10**size * rng.uniform(0.5, 1.0, size=p) * rng.choice([-1.0, 1.0], size=p)
    # Targets near the predictions: slopes that are not clipped show the rounding inside predictions.
    solver = replace(solver, target=solver.features @ theta + rng.normal(size=n) * bound / 10)
    got = solver.gradient(theta, np.zeros(p))
    exact = exact_gradient(solver, theta)
    off = float(sum((Fraction(float(g)) - e) ** 2 for g, e in zip(got, exact, strict=True))) ** 0.5
    # The sum's part is proved in `clipping`; a slope is itself rounded, by a few parts of what it may be at most.
    assert off <= tilted.rounding(theta) + ROUNDING * bound


def exact_gradient(solver: Prepared, theta: Array) -> list[Fraction]:
    """∇F without a tilt, squared loss, from the floats that the solver has."""

    def dot(a: Array, b: list[Fraction]) -> Fraction:
        return sum((Fraction(float(x)) * y for x, y in zip(a, b, strict=True)), Fraction(0))

    made, λ = solver.tilted.agreed, Fraction(solver.tilted.firmness)
    θ = [Fraction(float(t)) for t in theta]
    away = [t - Fraction(float(s)) for t, s in zip(θ, made.start, strict=True)]
    total = [Fraction(made.regularization) * t + λ * dot(row, away) for t, row in zip(θ, made.inverse, strict=True)]
    rows = zip(solver.features, solver.target, solver.share, solver.damp, solver.limit, strict=True)
    for x, y, share, damp, limit in rows:
        slope = Fraction(float(damp)) * 2 * (dot(x, θ) - Fraction(float(y)))
        most = Fraction(float(limit)) if np.isfinite(limit) else abs(slope)
        part = Fraction(float(share)) * min(max(slope, -most), most)
        total = [t + part * Fraction(float(v)) for t, v in zip(total, x, strict=True)]
    return total


def test_of_a_model_too_large_for_its_rounding_the_start_is_released() -> None:
    made = agreed(Squared(), p=2, start=np.zeros(2), anchor=1e-9, regularization=0.0)
    answer = ObjectiveAnswer(made, Fraction(10**6), 0.0, 50)
    x = np.random.default_rng(0).normal(size=(50, 2))
    y = x @ [1.0, -2.0]
    assert not answer.answer(Squared(), Records.of(1e-4 * x, y), np.zeros(2)).any()
    assert np.abs(answer.answer(Squared(), Records.of(x, y), np.zeros(2))).max() < 10


def test_a_preconditioner_whose_inverse_floats_do_not_have_is_refused() -> None:
    agreed(metric=np.diag([1.0, 1e-5]))
    with pytest.raises(AgreementError, match="span a factor"):
        agreed(metric=np.diag([1.0, 1e-6]))


@pytest.mark.parametrize("condition", [1e2, 9e4])
def test_the_slack_covers_the_rounding_of_the_inverse(condition: float) -> None:
    """F has P⁻¹ as floats give it. The proof needs the inverse of that one, and its least eigenvalue."""
    rng = np.random.default_rng(6)
    for p in (2, 5, 8):
        Q = np.linalg.qr(rng.normal(size=(p, p)))[0]
        P = (Q * np.geomspace(1.0, 1.0 / condition, p)) @ Q.T
        made = agreed(p=p, metric=0.5 * (P + P.T), start=np.zeros(p), anchor=1.0, regularization=0.0)
        exact = inverted([[Fraction(float(v)) for v in row] for row in made.inverse])
        for x in np.vstack([np.eye(p), rng.normal(size=(5, p))]):
            v = [Fraction(float(number)) for number in x]
            true = sum(a * b * c for a, row in zip(v, exact, strict=True) for b, c in zip(row, v, strict=True))
            assert float(true) <= float(x @ made.matrix @ x) * (1 + 1e-9)
        # 1/λ_min(M) is the largest eigenvalue of M⁻¹, which floats have to full precision.
        largest = float(np.linalg.eigvalsh(np.array([[float(v) for v in row] for row in exact]))[-1])
        assert made.strength(100, 1.0) <= 1.0 / largest


def inverted(matrix: list[list[Fraction]]) -> list[list[Fraction]]:
    """By Gauss and Jordan, exactly."""
    n = len(matrix)
    rows = [row + [Fraction(int(i == j)) for j in range(n)] for i, row in enumerate(matrix)]
    for i in range(n):
        pivot = next(r for r in range(i, n) if rows[r][i] != 0)
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [v / rows[i][i] for v in rows[i]]
        for r in range(n):
            if r != i:
                rows[r] = [a - rows[r][i] * b for a, b in zip(rows[r], rows[i], strict=True)]
    return [row[n:] for row in rows]


def test_an_agreement_whose_rounding_could_not_be_hidden_is_refused_before_a_charge() -> None:
    wide = agreed(SmoothedHinge(0.1), p=30, bound=5.0, feature_bound=30.0, start=np.zeros(30), regularization=0.0)
    ObjectiveAnswer(replace(wide, anchor=1e-2), Fraction(1), 0.0, 10**9)
    with pytest.raises(AgreementError, match="hide its own rounding"):
        ObjectiveAnswer(replace(wide, anchor=4e-6), Fraction(1), 0.0, 10**9)


@pytest.mark.parametrize(
    ("surface", "bound", "at_a_million"),
    [(Squared(), 4.0, 0.02), (Logistic(), 2.0, 0.02), (SmoothedHinge(0.1), 2.0, 0.08)],
)
def test_what_hides_the_rounding_is_small_beside_the_noise(surface: Surface, bound: float, at_a_million: float) -> None:
    """The numbers of docs/explanation/mechanisms.md."""
    made = Perturbation(surface, bound, 1, 4.0, True, np.zeros(30), 1e-5)
    for n, most in ((10**4, 1e-3), (10**6, at_a_million)):
        assert made.remainder_scale(n, 1.0) <= most * made.noise_scale(n, 1.0) / made.strength(n, 1.0)


@pytest.mark.parametrize(
    "metric",
    [
        [[1.0, np.nan], [np.nan, 1.0]],
        [[1.0, np.inf], [np.inf, 1.0]],
        [[1.0, 2.0], [2.0, 1.0]],
        [[1.0, 0.5], [0.0, 1.0]],
    ],
)
def test_a_preconditioner_that_is_not_positive_definite_is_refused(metric: list[list[float]]) -> None:
    with pytest.raises(InvalidInput, match="positive definite"):
        agreed(metric=np.array(metric))


@pytest.mark.parametrize("row", [[0.0, 0.0], [5e-324, 0.0], [1e101, 0.0], [1.0, 0.0]])
def test_a_slope_beyond_all_floats_takes_no_noise_away(row: list[float]) -> None:
    """Times a feature of 0 it was no number, the start counted as the minimum, and left with next to no noise."""
    agreed = Agreement.of(
        {
            "agreement": {"rule": "A2", "horizon": 1, "answers": 1, "mechanism": "objective", "step": 1.0},
            "model": {"loss": "squared", "regularization": 1e-3, "gradient_bound": 1.0, "intercept": False},
            "data": {"components": 0, "feature_bound": 1.0},
            "owner": [{"name": "o", "records": 100, "epsilon": 1.0}],
        }
    )
    rng = np.random.default_rng(0)
    x = rng.uniform(-0.5, 0.5, (100, 2))
    x[0] = row
    y = x @ [1.0, -1.0]
    y[0] = 1e308
    for _ in range(5):
        owner = Owner(agreed, "o", Records.of(x, y), Squared())
        released = owner.answer(Query("q", agreed.fingerprint, "o", np.zeros(2))).gradient
        # Noise of a tenth and more: five answers this near the start come by chance less than once in 10⁹.
        assert np.abs(released).max() > 1e-4


@pytest.mark.parametrize("surface", SURFACES)
def test_a_scale_of_columns_is_as_if_they_came_in_that_unit(surface: Surface) -> None:
    rows = dataset(40, 3, np.random.default_rng(6), isinstance(surface, Logistic | SmoothedHinge))
    plain = agreed(surface, 3, intercept=True, reach=1.2)
    scaled = replace(plain, factors=np.array([8.0, 0.5, 1.0]))
    larger = Records.of(rows.features * scaled.factors, rows.target)
    tilt = np.array([0.1, -0.2, 0.05])
    one, other = (made.tied(40, 1.0).prepared(x).minimum(tilt) for made, x in ((plain, larger), (scaled, rows)))
    np.testing.assert_array_equal(one, other)


def test_a_scaled_answer_is_the_model_of_the_columns_as_they_are() -> None:
    rng, n, λ = np.random.default_rng(7), 400, 0.05
    x, y, start = 0.1 * rng.normal(size=(n, 2)), rng.normal(size=n), np.array([0.4, -0.2])
    made = agreed(Squared(), 2, start=start / 10.0, bound=1e3, feature_bound=1e2, regularization=0.0, anchor=λ)
    made = replace(made, factors=np.full(2, 10.0))
    got = ObjectiveAnswer(made, Fraction(10**9), 0.0, n).answer(Squared(), Records.of(x, y), start)
    scaled = 10.0 * x  # the ridge regression in that unit, solved by itself
    ridge = np.linalg.solve(2 * scaled.T @ scaled / n + λ * np.eye(2), 2 * scaled.T @ y / n + λ * start / 10.0)
    np.testing.assert_allclose(got, 10.0 * ridge, rtol=1e-3)
