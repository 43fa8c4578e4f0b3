"""(ε, δ): calibration against closed forms and brute force, what leaves an owner, and that it is never silent."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest, norm

from copriv.agreement import Agreement
from copriv.errors import AgreementError, InvalidInput
from copriv.losses import Squared
from copriv.model.records import Records
from copriv.owner import Owner
from copriv.privacy.approximate import (
    GaussianAnswer,
    composed_laplace_scale,
    gaussian_multiplier,
    gaussian_scale,
    laplace_multiplier,
)
from copriv.privacy.clipping import clipped_mean_gradient
from copriv.protocol import Query
from copriv.simulation import simulate
from statistical.composition_oracle import delta_of_laplace, delta_of_normal

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
    assert gaussian_scale(2.0, 9, 100, 1.0, 1e-6) == pytest.approx(0.04 * gaussian_multiplier(9, 1.0, 1e-6))
    assert gaussian_scale(2.0, 9, 100, 1.0, 1e-6, overlap=2) == pytest.approx(0.04 * gaussian_multiplier(9, 0.5, 5e-7))
    assert composed_laplace_scale(2.0, 9, 100, 1.0, 1e-6) == pytest.approx(0.04 * laplace_multiplier(9, 1.0, 1e-6))
    with pytest.raises(InvalidInput, match="delta"):
        gaussian_scale(2.0, 9, 100, 1.0, 0.0)


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


def terms(mechanism: str, delta: float = 1e-5, answers: int = 20) -> Agreement:
    return Agreement.of(
        {
            "agreement": {"rule": "A2", "horizon": 200, "answers": answers, "step": 1.0, "mechanism": mechanism},
            "model": {"loss": "squared", "gradient_bound": 0.5},
            "owner": [{"name": "bank", "records": 100, "epsilon": 1.0, "delta": delta}],
        }
    )


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace-composed"])
def test_owners_and_simulations_have_the_same_noise(mechanism: str) -> None:
    agreement = terms(mechanism)
    scale = (gaussian_scale if mechanism == "gaussian" else composed_laplace_scale)(0.5, 20, 100, 1.0, 1e-5)
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
