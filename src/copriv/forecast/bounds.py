"""Bounds beside measurements: the papers' theorems for a rule, and the law fitted to what was measured.

The theorems stand with their rules (`copriv.rules`), what they share in `rules.bounds`.
"""

import math
from dataclasses import dataclass

import numpy as np

from copriv.errors import InvalidInput
from copriv.rules.async_copies import a_theorem_2
from copriv.rules.bounds import Bound, Setting
from copriv.rules.sync_averaged import s_theorem_3
from copriv.rules.sync_decay import s_theorem_2
from copriv.validation import finite_array

__all__ = ["Bound", "Fit", "Setting", "a_theorem_2", "fit_inverse_square", "s_theorem_2", "s_theorem_3"]


@dataclass(frozen=True)
class Fit:
    """ψ = constant/(nε)² fitted to measurements, and how well that law does.

    `slope` is the exponent of nε with ± one standard error where it is free (the law says −2); `residual` is the root
    mean square of ln ψ around the law with slope −2.
    """

    constant: float
    slope: float
    slope_error: float
    residual: float

    def predict(self, n: float, epsilon: float) -> float:
        """ψ by the law with slope −2."""
        return self.constant / (n * epsilon) ** 2


def fit_inverse_square(n: object, epsilon: object, psi: object) -> Fit:
    """Fit c/(n²ε²) to measured ψ by least squares in logarithms; n and ε may be one number for all.

    What the papers draw as "the bound in Theorem 2" is this fit (erratum 9). Raises InvalidInput on fewer than 3
    points, a ψ that is not above 0, or points that all have the same nε.
    """
    ψ = finite_array("psi", psi, 1)
    n_, ε = (np.broadcast_to(np.asarray(v, dtype=np.float64), ψ.shape) for v in (n, epsilon))
    x = finite_array("n * epsilon", n_ * ε, 1)
    if len(ψ) < 3 or not (ψ > 0).all() or not (x > 0).all() or not np.ptp(x) > 1e-9 * x.max():
        raise InvalidInput(
            "fit: needs 3 or more points with psi, n and epsilon above 0, at two or more different n * epsilon"
        )
    u, v = np.log(x), np.log(ψ)
    away = u - u.mean()
    slope = float(away @ v / (away @ away))
    left = v - v.mean() - slope * away
    error = math.sqrt(float(left @ left) / (len(v) - 2) / float(away @ away))
    level = float((v + 2.0 * u).mean())
    return Fit(math.exp(level), slope, error, float(np.sqrt(np.mean((v + 2.0 * u - level) ** 2))))
