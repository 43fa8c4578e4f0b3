"""Values at the ends of what an agreement allows, and rows of any size: each is refused, or keeps its guarantee in floats."""

import mpmath
import numpy as np
import pytest

import copriv
from copriv.errors import AgreementError
from copriv.losses import Custom, Squared
from copriv.mechanisms.moments import BoundedMoments
from copriv.mechanisms.pilot import PilotNumbers
from copriv.mechanisms.statistics import Moments
from copriv.model.records import Records
from copriv.privacy.approximate import gaussian_multiplier
from copriv.privacy.clipping import ROUNDING
from copriv.types import Array

SMALLEST, LARGEST = 1e-30, 1e30


def persons(n: int, last: int) -> Records:
    """Records of n persons, of whom the last one has so many rows."""
    rows = np.random.default_rng(0).integers(1, 40, n)
    rows[-1] = last
    person = np.repeat(np.arange(n), rows)
    x = np.column_stack([np.zeros(len(person)), np.ones(len(person))])
    return Records.of_persons(x, np.zeros(len(person)), person)


@pytest.mark.parametrize("bound", [1.0, 1e-10, 1e-16, SMALLEST])
def test_the_number_of_a_persons_rows_does_not_move_the_moment_of_the_intercept(bound: float) -> None:
    moments, n = Moments(1.0, bound, True, 0.5, 2), 1000
    seen = [moments.of(Squared(), persons(n, last), np.zeros(2)) / moments.unit for last in range(1, 40)]
    assert max(np.abs(one - other).sum() for one in seen for other in seen) <= 2 / n + 2 * ROUNDING


def lengths(mechanism: str, bound: float, p: int, row: Array, scale: float = 1.0) -> float:
    """Length of one unit's share of the second moments, over what the proof allows."""
    n = 10
    made: Moments | BoundedMoments
    if mechanism == "statistics":
        made, allowed, order = Moments(1.0, bound, False, 0.9, p), 0.9 / n, 1
    else:
        made, allowed, order = BoundedMoments(1.0, bound, False, p, np.full(p, scale)), np.sqrt(0.5) / n, 2
    x = np.vstack([row, np.zeros((n - 1, p))])
    with np.errstate(over="ignore"):
        share = made.of(Squared(), Records.of(x, np.zeros(n)), np.zeros(p)) / made.unit
    return float(np.linalg.norm(share, order) / allowed)


@pytest.mark.parametrize("mechanism", ["statistics", "moments"])
@pytest.mark.parametrize("bound", [SMALLEST, 1e-16, 2.3e-16, 5e-16, 7.1e-15, 1.0, LARGEST])
@pytest.mark.parametrize("size", [1e-308, 1e-160, SMALLEST, 1.0, 1e154, 1.7e308])
def test_a_row_of_any_size_stays_within_its_bound(mechanism: str, bound: float, size: float) -> None:
    p = 24
    for k in (1, 2, 3, 17, 18, 24):
        row = np.zeros(p)
        row[:k] = size / k
        assert lengths(mechanism, bound, p, row) <= 1 + 1e-12


@pytest.mark.parametrize("scale", [SMALLEST, 1e-6, 1e6, LARGEST])
@pytest.mark.parametrize("bound", [SMALLEST, 1.0, LARGEST])
@pytest.mark.parametrize("size", [1e-308, SMALLEST, 1.0, 1e154, 1.7e308])
def test_a_row_of_any_size_stays_within_its_bound_in_any_unit(scale: float, bound: float, size: float) -> None:
    p = 24
    for k in (1, 17, 24):
        row = np.zeros(p)
        row[:k] = size / k
        assert lengths("moments", bound, p, row, scale) <= 1 + 1e-12


@pytest.mark.parametrize("epsilon", [1e-12, 1e-9, 9.9e-5, 1e-4, 0.1, 1.0, 30.0, 1e3, 1e6, 1e12])
@pytest.mark.parametrize("delta", [1e-60, 1e-30, 1e-12, 1e-9, 1e-3, 0.9, 0.999999])
def test_normal_noise_keeps_delta_at_the_ends_of_what_is_allowed(epsilon: float, delta: float) -> None:
    """Balle and Wang (2018), eq. (6), with 250 digits."""
    with mpmath.workdps(250):
        s, ε = mpmath.mpf(gaussian_multiplier(1, epsilon, delta)), mpmath.mpf(epsilon)
        true = mpmath.ncdf(1 / (2 * s) - ε * s) - mpmath.exp(ε) * mpmath.ncdf(-1 / (2 * s) - ε * s)
        assert true <= delta


def document(**owner: float) -> dict[str, object]:
    return {
        "agreement": {"name": "x", "rule": "A2", "mechanism": "gaussian", "horizon": 1, "answers": 1, "step": 1.0},
        "model": {"loss": "squared", "gradient_bound": 1.0},
        "data": {"components": 0},
        "owner": [{"name": "a", "records": 2, "epsilon": 1.0, "delta": 1e-6, **owner}],
    }


@pytest.mark.parametrize("delta", [5e-324, 1e-100, 1e-61])
def test_a_delta_that_floats_lose_is_refused(delta: float) -> None:
    with pytest.raises(AgreementError, match="must be 0, or at least 1e-60"):
        copriv.Agreement.of(document(delta=delta))


@pytest.mark.parametrize("bound", [1e-170, 1e-161, 9e-31])
def test_a_feature_bound_whose_square_floats_lose_is_refused(bound: float) -> None:
    with pytest.raises(AgreementError, match="must be 0, or at least 1e-30"):
        copriv.Agreement.of({**document(), "data": {"components": 0, "feature_bound": bound}})


PILOT = {
    "agreement": {"name": "a", "rule": "A2", "horizon": 2, "answers": 1, "mechanism": "pilot", "step": 1.0},
    "model": {"loss": "squared", "gradient_bound": 1.0, "regularization": 1e-3, "intercept": False},
    "data": {"components": 0, "feature_bound": 1.0, "target": "y", "features": ["a", "b", "c"]},
    "owner": [{"name": name, "records": 100, "epsilon": 1.0} for name in "ns"],
}


def test_a_pilot_in_a_metric_of_another_size_is_refused_before_its_charge() -> None:
    metric = copriv.Agreement.of(PILOT).replace(agreement={"preconditioner": [[1.0, 0.0], [0.0, 1.0]]})
    x = np.random.default_rng(0).random((100, 3))
    with pytest.raises(AgreementError, match="preconditioner: is 2 numbers wide, and theta has 3"):
        copriv.Owner(metric, "n", Records.of(x, x[:, 0]), metric.loss)


@pytest.mark.parametrize("bound", [0.1, 0.7, 1.3, 9.9])
def test_a_loss_of_16_bits_moves_a_pilot_no_further_than_its_bound(bound: float) -> None:
    """A user's own loss whose values are clipped to the nearest number of 16 bits, which may be above the bound."""
    loss = Custom(
        "own",
        lambda t, x, y: np.asarray(6e4 * (y > 0), dtype=np.float16),
        lambda t, x, y: 1e9 * y[:, None] * np.ones_like(x),
    )
    numbers = PilotNumbers(1.0, 1.0, bound, False, 1)
    one, other = (
        numbers.of(loss, Records.of([[x], [0.0]], [y, 0.0]), np.zeros(1)) / numbers.unit
        for x, y in ((100.0, 1.0), (0.3, -1e-9))
    )
    assert np.abs(one - other).sum() <= 2 / 2 + 2 * ROUNDING
