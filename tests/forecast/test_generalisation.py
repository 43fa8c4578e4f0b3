"""Fitness on new records (A, Remark 1): the expansion against tables that are drawn again and again from known laws."""

import numpy as np
import pytest

from copriv.agreement import Agreement
from copriv.forecast.generalisation import generalisation_of
from copriv.populations.public_sample import PublicSample
from copriv.problem import Problem

SIZES = (300, 200, 100)
NOISE = 0.5


def laws(unlike: float):  # type: ignore[no-untyped-def]
    """θ of each owner: y = θ₁ + θ₂z + noise, z normal; owners differ in their level."""
    return [np.array([level * unlike, -1.0]) for level in (0.0, 1.5, -1.0)]


def draw(rng, law, n):  # type: ignore[no-untyped-def]
    x = np.column_stack([np.ones(n), rng.normal(size=n)])
    return x, x @ law + NOISE * rng.normal(size=n)


def population(unlike: float):  # type: ignore[no-untyped-def]
    """H, c, s of F(θ) = θᵀHθ − 2cᵀθ + s, from the laws' own moments."""
    w = np.array(SIZES) / sum(SIZES)
    c = sum(a * θ for a, θ in zip(w, laws(unlike), strict=True))
    return np.eye(2), c, sum(a * (θ @ θ + NOISE**2) for a, θ in zip(w, laws(unlike), strict=True))


def tables(unlike: float, many: int = 2000):  # type: ignore[no-untyped-def]
    """Means over tables, in parts of F(θ°): F(θ*) − F(θ°), F(θ*) − f(θ*); of owner 2's own model F − F(θ°), f − f(θ*)."""
    rng, (H, c, s) = np.random.default_rng(1), population(unlike)
    middle = np.linalg.solve(H, c)
    best = s - c @ middle
    found = []
    for _ in range(many):
        parts = [draw(rng, law, n) for law, n in zip(laws(unlike), SIZES, strict=True)]
        x, y = np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
        θ, own = np.linalg.lstsq(x, y)[0], np.linalg.lstsq(*parts[1])[0]
        F, f = (lambda t: t @ H @ t - 2 * c @ t + s), (lambda t, x=x, y=y: np.mean((y - x @ t) ** 2))
        chance = f(middle) - best  # of mean 0: taken off, so that fewer tables are enough
        found.append([F(θ) - best, F(θ) - f(θ) + chance, F(own) - best, f(own) - f(θ)])
    return np.mean(found, axis=0) / best


def forecast(unlike: float, known: bool):  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(2)
    rows = [draw(rng, law, 40 * n) for law, n in zip(laws(unlike), SIZES, strict=True)]
    labels = np.repeat(["a", "b", "c"], [40 * n for n in SIZES])
    agreement = Agreement.of(
        {
            "agreement": {"rule": "A2", "horizon": 3, "step": 1.0},
            "model": {"loss": "squared", "gradient_bound": 1.0},
            "owner": [{"name": k, "records": n, "epsilon": 1.0} for k, n in zip("abc", SIZES, strict=True)],
        }
    )
    sample = np.concatenate([r[0] for r in rows]), np.concatenate([r[1] for r in rows])
    problem = Problem.forecasting(agreement, sample, strata=labels if known else None)
    return generalisation_of(PublicSample(problem))


@pytest.mark.parametrize("unlike", [0.0, 1.0])
def test_new_records_cost_what_the_expansion_says_for_owners_alike_and_not(unlike: float) -> None:
    new, flattered, own_new, own_here = tables(unlike)
    found = forecast(unlike, known=True)
    assert found.within_owners
    assert found.best == pytest.approx(new, rel=0.08)
    assert found.flattery == pytest.approx(flattered, rel=0.08)
    assert found.trained(own_here) == pytest.approx(own_new, rel=0.05)
    pooled = forecast(unlike, known=False).best
    if unlike:
        assert pooled > 1.3 * new  # what lies between owners is no chance of their records
    else:
        assert pooled == pytest.approx(found.best, rel=0.02)


def test_the_public_rows_own_model_is_flattered_by_no_record() -> None:
    """κ(1/n₀ + 1/n) on the pool at hand is κ/n₀ on new records."""
    found = forecast(0.0, known=False)
    κ = found.best * sum(SIZES)
    n0 = 40 * sum(SIZES)
    assert found.untrained(κ * (1 / n0 + 1 / sum(SIZES))) == pytest.approx(κ / n0)
    assert found.untrained(0.0) == 0.0
    told = found.told(0.1, 0.2, 0.3, [0.4])
    assert told["alone"] == [0.4 + found.best]
    assert told["together"] == 0.1 + found.best
