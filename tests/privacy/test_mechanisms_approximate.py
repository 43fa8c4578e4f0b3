"""(ε, δ): calibration against closed forms and brute force, what leaves an owner, and that it is never silent."""

from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest, laplace, norm

from copriv.agreement import Agreement
from copriv.errors import AgreementError, InvalidInput
from copriv.losses import Squared
from copriv.mechanisms.gradients import LaplaceComposed
from copriv.model.records import Records
from copriv.owner import Owner
from copriv.privacy.approximate import (
    GRID,
    GaussianAnswer,
    gaussian_multiplier,
    laplace_multiplier,
)
from copriv.privacy.clipping import clipped_mean_gradient
from copriv.privacy.laplace import LaplaceAnswer
from copriv.protocol import Query
from copriv.simulation import simulate
from statistical.composition_oracle import (
    delta_of_laplace,
    delta_of_laplace_on_integers,
    delta_of_normal,
    delta_of_normal_on_integers,
)

pytest.importorskip("dp_accounting")


@given(m=st.integers(1, 2000), ε=st.floats(0.05, 10), exponent=st.floats(-9, -2))
@settings(max_examples=30)
def test_normal_answers_add_up_to_epsilon_and_delta(m: int, ε: float, exponent: float) -> None:
    δ = 10.0**exponent
    together = gaussian_multiplier(m, ε, δ) / np.sqrt(m)
    assert delta_of_normal(together, ε) <= δ * (1 + 1e-6)
    assert delta_of_normal(0.99 * together, ε) > δ


@pytest.mark.parametrize(("m", "ε", "δ"), [(4, 1.0, 1e-3), (20, 1.0, 1e-5)])
def test_composed_laplace_answers_add_up(m: int, ε: float, δ: float) -> None:
    b = laplace_multiplier(m, ε, δ)
    assert b < m / ε
    assert delta_of_laplace(b, ε, m) <= δ
    assert delta_of_laplace(0.97 * b, ε, m) > δ


def test_a_thousand_answers_cost_seven_times_less_noise() -> None:
    assert 6.5 < 1000 / laplace_multiplier(1000, 1.0, 1e-6) < 8


def test_one_answer_gains_nothing_and_never_loses() -> None:
    assert 0.99 < laplace_multiplier(1, 1.0, 1e-9) <= 1.0


def test_scales_are_of_a_replaced_record_and_count_overlap() -> None:
    assert scale_of(terms("gaussian")) == pytest.approx(0.01 * gaussian_multiplier(20, 1.0, 1e-5))
    assert scale_of(terms("laplace-composed")) == pytest.approx(0.01 * laplace_multiplier(20, 1.0, 1e-5))
    bank = {"name": "bank", "records": 100, "epsilon": 1.0, "delta": 1e-5, "overlap": 2}
    twice = terms("gaussian").replace(owner=[bank, {**bank, "name": "other"}])
    assert scale_of(twice) == pytest.approx(0.01 * gaussian_multiplier(20, 0.5, 5e-6))


def test_independent_coordinates_are_no_worse_than_one() -> None:
    """The worst case of Laplace noise on a vector is a shift of one coordinate: δ(ε) by brute force over splits."""
    b, ε = 0.8, 0.5
    x = np.linspace(-14, 15, 1451)
    cell = (x[1] - x[0]) / (2 * b)

    def delta(shifts: tuple[float, float]) -> float:
        p, q = (np.exp(-np.abs(x) / b) * cell, [np.exp(-np.abs(x - s) / b) * cell for s in shifts])
        return float(np.maximum(np.outer(p, p) - np.exp(ε) * np.outer(q[0], q[1]), 0).sum())

    whole = delta((1.0, 0.0))
    assert all(delta((s, 1 - s)) <= whole + 1e-6 for s in (0.1, 0.3, 0.5))


def test_the_draws_are_normal_and_of_the_scale() -> None:
    made = GaussianAnswer(1e-3, 5.0, 4)
    assert made.scale == pytest.approx(5e-3, rel=1e-6)
    draws = np.array([made.release(np.zeros(4)) for _ in range(600)]).ravel()
    assert kstest(draws / made.scale, "norm").pvalue > 1e-6
    assert kstest(draws / made.scale * 1.5, "norm").pvalue < 1e-6
    for bad in (np.full(4, np.nan), np.zeros(3)):
        with pytest.raises(InvalidInput):
            made.release(bad)
    with pytest.raises(InvalidInput, match="grid"):
        GaussianAnswer(1e-12, 1.0, 4)


@given(seed=st.integers(0, 100))
def test_a_mean_clipped_in_l2_moves_by_two_bounds_at_most(seed: int) -> None:
    rng, n, p = np.random.default_rng(seed), 5, 4
    x, y = rng.standard_cauchy((n, p)), rng.standard_cauchy(n)
    other = Records.of(np.vstack([x[:-1], rng.standard_cauchy((1, p))]), np.append(y[:-1], -1e3 * y[-1]))
    theta = rng.normal(size=p)
    one, two = (clipped_mean_gradient(Squared(), r, theta, 0.5, 2) for r in (Records.of(x, y), other))
    assert np.linalg.norm(one - two) <= 2 * 0.5 / n * (1 + 1e-12)


# The step from the real line to the grid ---------------------------------------------------------------------------

STEP = 2.0**GRID


@pytest.mark.parametrize(
    ("make", "metric", "law", "on_the_line"),
    [
        (dp.m.make_laplace, dp.l1_distance(T=float), lambda z: np.exp(-np.abs(z) / 0.7), laplace(scale=0.7)),
        (dp.m.make_gaussian, dp.l2_distance(T=float), lambda z: np.exp(-np.square(z / 0.7) / 2), norm(scale=0.7)),
    ],
    ids=["Laplace", "normal"],
)
def test_opendp_rounds_to_the_nearest_step_and_draws_the_law_of_integers(make, metric, law, on_the_line):
    """At a scale of 0.7 steps, where draws of the real line that are rounded would be seen to be another law."""
    dp.enable_features("contrib")
    length = 50_000
    measurement = make(
        dp.vector_domain(dp.atom_domain(T=float, nan=False), size=length), metric, scale=0.7 * STEP, k=GRID
    )
    draws = np.array(measurement([2.6 * STEP] * length)) / STEP - 3
    assert (draws == np.rint(draws)).all()
    counts = np.bincount(np.clip(draws, -2, 2).astype(int) + 2)
    far = np.arange(-60, 61)
    right = np.bincount(np.clip(far, -2, 2) + 2, weights=law(far)) / law(far).sum()
    rounded = np.diff([0, *on_the_line.cdf([-1.5, -0.5, 0.5, 1.5]), 1])
    assert chisquare(counts, right * length).pvalue > 1e-8
    assert chisquare(counts, rounded * length).pvalue < 1e-8


@pytest.mark.parametrize("scale", [0.4, 1.0, 2.7, 40.0])
@pytest.mark.parametrize("shift", [1, 2, 5, 100])
def test_laplace_draws_on_integers_are_as_private_as_a_quarter_of_a_step_over_the_scale_more(shift, scale) -> None:
    """The trade-off curve is straight between its corners: each is above the curve of the line, at D + 1/(4b); not at D."""
    far = np.arange(-shift - 60 * int(scale + 1), 2 * shift + 60 * int(scale + 1))
    law = np.exp(-np.abs(far) / scale)
    law /= law.sum()
    at = np.arange(-5, shift + 6)
    false_positive = np.array([law[far >= t].sum() for t in at])
    false_negative = np.array([law[far < t - shift].sum() for t in at])
    line = laplace(scale=scale)

    def curve(moved: float) -> np.ndarray:
        return line.cdf(line.isf(false_positive) - moved)

    assert (false_negative >= curve(shift + 1 / (4 * scale)) * (1 - 1e-9)).all()
    assert (false_negative < curve(shift) * (1 - 1e-6)).any()


@pytest.mark.parametrize("scale", [2.0, 3.0, 7.5])
@pytest.mark.parametrize("shifts", [(1,), (4,), (11,), (3, 4), (1, 1)])
def test_normal_draws_on_integers_are_as_private_as_with_three_squared_steps_less(shifts, scale) -> None:
    moved = float(np.linalg.norm(shifts))
    worse = []
    for ε in np.linspace(0.0, 3.0, 61):
        exact = delta_of_normal_on_integers(shifts, scale, ε)
        assert exact <= delta_of_normal(np.sqrt(scale**2 - 3) / moved, ε) + 1e-13
        worse.append(exact > delta_of_normal(scale / moved, ε) * (1 + 1e-6))
    assert any(worse)


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize(("m", "ε"), [(2, 5.0), (2, 10.0), (2, 20.0), (3, 10.0)])
def test_composed_laplace_answers_on_the_grid_keep_delta(m: int, ε: float, p: int) -> None:
    """As near to the grid as an owner answers, by the whole distribution of the loss of what OpenDP draws."""
    δ = 0.1
    steps = 100.0001 * p  # below 100 a number the owner refuses
    agreement = terms("laplace-composed", δ, m, ε)
    made = LaplaceComposed().releases(steps * STEP, agreement, agreement.owner[0], p)
    β = laplace_multiplier(m, ε, δ)
    whole = int(steps) + p  # rounding onto the grid moves each number's difference by less than one step
    splits = [(whole,)] if p == 1 else [(whole - k, k) for k in (1, 20, whole // 2)]

    def δ_at(scale: float) -> float:
        return max(delta_of_laplace_on_integers(split, scale / STEP, ε, m) for split in splits)

    assert δ_at(made.scale) <= δ
    assert δ_at(β * steps * STEP) > 1.05 * δ, "without what rounding onto the grid adds"


@pytest.mark.parametrize("ε", [5.0, 10.0, 20.0])
def test_without_the_margin_for_draws_on_integers_delta_is_passed(ε: float) -> None:
    δ, m = 0.1, 2
    each = Fraction(1 / laplace_multiplier(m, ε, δ))
    certified = LaplaceAnswer(100.0001 * STEP, each, 1)
    assert delta_of_laplace_on_integers((101,), certified.scale / STEP, ε, m) > 1.0002 * δ
    agreement = terms("laplace-composed", δ, m, ε)
    ordinary = LaplaceComposed().releases(1e-6, agreement, agreement.owner[0], 1).scale
    assert ordinary == pytest.approx(LaplaceAnswer(1e-6, each, 1).scale, rel=1e-9), "far from the grid it is nothing"


@pytest.mark.parametrize(("ε", "δ"), [(0.5, 1e-2), (1.0, 1e-3), (3.0, 1e-6)])
def test_normal_answers_on_the_grid_keep_delta(ε: float, δ: float) -> None:
    one = gaussian_multiplier(1, ε, δ)
    steps = 1e4 / one  # below this the owner refuses
    made = GaussianAnswer((np.ceil(steps) + 1e-3) * STEP, one, 1)
    whole = int(np.ceil(steps)) + 1
    assert delta_of_normal_on_integers((whole,), made.scale / STEP, ε) <= δ
    assert delta_of_normal_on_integers((whole,), one * steps, ε) > δ, "without what rounding onto the grid adds"


def terms(mechanism: str, delta: float = 1e-5, answers: int = 20, epsilon: float = 1.0) -> Agreement:
    return Agreement.of(
        {
            "agreement": {"rule": "A2", "horizon": 200, "answers": answers, "step": 1.0, "mechanism": mechanism},
            "model": {"loss": "squared", "gradient_bound": 0.5},
            "owner": [{"name": "bank", "records": 100, "epsilon": epsilon, "delta": delta}],
        }
    )


def scale_of(agreement: Agreement) -> float:
    return agreement.mechanism.scale(agreement, agreement.owner[0])


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace-composed"])
def test_owners_and_simulations_have_the_same_noise(mechanism: str) -> None:
    agreement = terms(mechanism)
    scale = scale_of(agreement)
    x, y = np.random.default_rng(1).normal(size=(100, 2)), np.zeros(100)
    noise = []
    for _ in range(30):
        owner = Owner(agreement, "bank", Records.of(x, y), Squared())
        order = 2 if mechanism == "gaussian" else 1
        theta = np.array([1.0, -1.0])
        exact = clipped_mean_gradient(Squared(), Records.of(x, y), theta, 0.5, order)
        queries = [Query(f"{k}", agreement.fingerprint, "bank", theta) for k in range(20)]
        noise += [owner.answer(q).gradient - exact for q in queries]
        assert float(owner.ledger.spent) == pytest.approx(1.0)
    law = norm(scale=scale) if mechanism == "gaussian" else __import__("scipy.stats").stats.laplace(scale=scale)
    assert kstest(np.ravel(noise), law.cdf).pvalue > 1e-6
    assert kstest(np.ravel(noise) / 2, law.cdf).pvalue < 1e-6  # 1e-19 on average; with 1.5 one draw in eight passed
    assert simulate(agreement, [(x, y + 1.0)], runs=2, alone=False).owners[0].noise_scale == pytest.approx(scale)


def test_pure_epsilon_is_the_default_and_never_changes_silently() -> None:
    plain = terms("laplace", 0.0)
    assert plain.agreement.mechanism == "laplace"
    x, y = np.random.default_rng(1).normal(size=(100, 2)), np.zeros(100)
    for mechanism in ("laplace", "statistics"):
        with pytest.raises(AgreementError, match="pure epsilon"):
            Owner(terms(mechanism, 1e-6, 1), "bank", Records.of(x, y), Squared())
    for mechanism in ("gaussian", "laplace-composed"):
        with pytest.raises(AgreementError, match="delta"):
            terms(mechanism, 0.0)
