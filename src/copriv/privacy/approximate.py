"""Optional (ε, δ)-differential privacy: less noise for many answers, by Google's dp-accounting (extra `approximate`).

A whole run is (ε, δ)-differentially private. δ has to be far below 1/n. An agreement has to ask for it with `mechanism` and
`owner.delta`.

**Gaussian answers.** Each gradient is clipped to ‖·‖₂ ≤ Ξ (in L2, not L1), so replacing a unit moves the mean by at
most Δ = 2Ξ/n in L2. m normal answers of standard deviation s are exactly as private as one of s/√m, also when each
question depends on the answers before it; `get_sigma_gaussian` inverts the exact δ(ε) of one (Balle and Wang, 2018).

**Laplace answers, composed.** As pure answers, but with the privacy losses of m answers added up as a distribution
(PLD) in place of their worst cases. The accountant knows one number with noise, an answer has p; the worst case is
one number (docs/proofs/laplace-composed.md; group privacy: Dong, Roth and Su 2022, Thm 2.14).

In both, Δ is of a unit *replaced*, and it is put in by hand: the multiplier handed to the accountant is noise/Δ under
its default relation. Its REPLACE_ONE switch would double a Gaussian's sensitivity again, and refuses Laplace. Draws are
OpenDP's, on a grid of 2^−40; what the grid adds to the noise that the real line needs is proved there too.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float

from copriv.errors import CoprivError, InvalidInput
from copriv.privacy.noise import CLIP_SLACK, GRID, check_value, normal_draws
from copriv.types import Array
from copriv.validation import count, positive


def gaussian_multiplier(answers: int, epsilon: float, delta: float) -> float:
    """s/Δ at which m answers together are (ε, δ)-private."""
    return _sigma_of_one(epsilon, delta) * float(np.sqrt(answers)) * (1 + CLIP_SLACK)


def gaussian_epsilon(answers: int, multiplier: float, delta: float) -> float:
    """The ε at which m answers with normal noise of `multiplier` sensitivities are (ε, δ)-private together."""
    return float(_accounting().get_epsilon_gaussian(multiplier / math.sqrt(answers), delta))


@lru_cache(maxsize=4096)
def _sigma_of_one(epsilon: float, delta: float) -> float:
    """s/Δ of one answer. Below ε = 1e-4 and above 1e6 the accountant's δ(ε) loses digits, so proved bounds are used there.

    They are c/ε with c² = 2 ln(1.25/δ) ≥ 9/4 (Dwork and Roth 2014, Thm A.1), and δ(0) = 2Φ(Δ/2s) − 1 ≤ Δ/(s√2π).
    """
    if epsilon < 1e-4:
        c = math.sqrt(max(2.0 * math.log(1.25 / delta), 2.25)) * (1 + CLIP_SLACK)
        return min(c / epsilon, 1.0 / (delta * math.sqrt(2.0 * math.pi)))
    return float(_accounting().get_sigma_gaussian(min(epsilon, 1e6), delta))


@lru_cache(maxsize=4096)
def laplace_multiplier(answers: int, epsilon: float, delta: float) -> float:
    """b/Δ at which m answers together are (ε, δ)-private; at most m/ε, at which they are with δ = 0."""
    _accounting()
    from dp_accounting.pld import privacy_loss_distribution

    # The grid of losses must be finer than one answer's loss, and m times its rounding small compared with ε.
    interval = epsilon * min(1e-4, 1 / (20 * answers))

    def private(multiplier: float) -> bool:
        one = privacy_loss_distribution.from_laplace_mechanism(multiplier, value_discretization_interval=interval)
        return bool(one.self_compose(answers).get_epsilon_for_delta(delta) <= epsilon)

    safe = answers / epsilon
    if not private(0.99 * safe):
        return safe  # composing would gain less than a hundredth
    safe, low = 0.99 * safe, safe / 1.3
    while private(low):
        safe, low = low, low / 1.3
    while safe / low > 1 + 1e-4:
        middle = float(np.sqrt(safe * low))
        if private(middle):
            safe = middle
        else:
            low = middle
    return float(safe)


@dataclass(frozen=True)
class GaussianAnswer:
    """One private answer: a vector of `length` numbers plus independent normal noise of `multiplier` sensitivities.

    `sensitivity` is in L2 for one unit replaced. Raises InvalidInput where the noise is too small for the grid.
    """

    sensitivity: float
    multiplier: float
    length: int

    def __post_init__(self) -> None:
        positive("sensitivity", self.sensitivity)
        positive("multiplier", self.multiplier)
        count("length", self.length)
        if not self.scale >= 1e4 * 2.0**GRID:
            raise InvalidInput(
                f"noise: a standard deviation of {self.scale:g} is too close to the grid of 2^{GRID}; give features "
                "and target in smaller units (so that gradients, and gradient_bound, are larger)"
            )
        _ = self._measurement

    @property
    def scale(self) -> float:
        """s in the unit of the vector, for the sensitivity after rounding onto the grid, plus three squared grid steps."""
        on_grid = self.sensitivity * (1 + CLIP_SLACK) + float(np.sqrt(self.length)) * 2.0**GRID
        return float(np.hypot(self.multiplier * on_grid, np.sqrt(3.0) * 2.0**GRID))

    @cached_property
    def _measurement(self) -> Any:
        from opendp.domains import atom_domain

        measurement = normal_draws(atom_domain(T=float, nan=False), self.length, self.scale, k=GRID)
        ρ, allowed = float(measurement.map(self.sensitivity)), 0.5 / self.multiplier**2
        if not ρ <= allowed * (1 + 1e-7):
            raise InvalidInput(f"noise: OpenDP certifies rho {ρ:g}, more than the {allowed:g} that was calibrated for")
        return measurement

    def release(self, value: Float[Array, " length"]) -> Float[Array, " length"]:
        """`value` with fresh noise. Raises InvalidInput on a wrong shape, NaN or infinity: nothing is drawn then."""
        check_value(value, self.length)
        return np.array(self._measurement(value.tolist()), dtype=np.float64)


def _accounting() -> Any:
    try:
        import dp_accounting
    except ModuleNotFoundError:
        raise CoprivError(
            "(epsilon, delta) accounting needs dp-accounting: pip install 'copriv[approximate]', or keep to pure "
            'epsilon (mechanism = "laplace", delta = 0)'
        ) from None
    return dp_accounting
