"""How much noise owners bring into the average of their answers: ν, and v(m) by mechanism."""

from typing import Literal

import numpy as np

from copriv.agreement import Agreement
from copriv.types import Array


def noise_of(agreement: Agreement, weights: Array | None = None) -> float:
    """ν = Σ w_i² κ_i²/(n_i ε_i)²."""
    w = agreement.weights if weights is None else weights
    κ = np.array([owner.overlap for owner in agreement.owner], dtype=np.float64)
    return float(np.sum((w * κ / (agreement.records * agreement.epsilons)) ** 2))


def noise_variance(agreement: Agreement, mechanism: str, answers: int) -> float:
    """v(m): the variance of noise in one coordinate of Σ w_i Q̄_i, for Ξ = 1 and m answers of each owner.

    mechanism: "laplace", "laplace-composed" or "gaussian"; the latter two take each owner's δ, and need dp-accounting.
    """
    if mechanism == "laplace":
        return 8.0 * answers**2 * noise_of(agreement)
    from copriv.privacy.approximate import gaussian_multiplier, laplace_multiplier

    multiplier, each = (gaussian_multiplier, 1.0) if mechanism == "gaussian" else (laplace_multiplier, 2.0)
    scales = [
        2.0 / o.records * multiplier(answers, o.epsilon / o.overlap, o.delta / o.overlap) for o in agreement.owner
    ]
    return each * float(np.sum((agreement.weights * np.array(scales)) ** 2))


def norm_order(mechanism: str) -> Literal[1, 2]:
    return 2 if mechanism == "gaussian" else 1
