"""What a pilot's answers tell of the common model and of each owner's, in coordinates of the public curvature.

θ = θ₀ + Vd, with θ₀ the public model, VᵀAV = 1 for the public curvature A, and V such that coordinates have independent noise
(`copriv.forecast.after_pilot` makes these numbers). The weighted mean of the owners' d_i is the d of the common model.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from copriv.types import Array


@dataclass(frozen=True, eq=False)
class PilotAnswers:
    """Posterior of the common model, and evidence of each owner's deviation from it."""

    start: Float[Array, " p"]
    """θ₀."""
    basis: Float[Array, "p p"]
    """V."""
    mean: Float[Array, " p"]
    """Posterior mean of the common model's d."""
    root: Float[Array, "p p"]
    """R, with RRᵀ its covariance."""
    pull: Float[Array, "owners p"]
    """−(d_i − d), with noise."""
    noise: Float[Array, "owners p"]
    """Variance of that noise."""

    @property
    def centre(self) -> Float[Array, " p"]:
        """Posterior mean of the common model."""
        return self.start + self.basis @ self.mean

    def common(self, rng: np.random.Generator) -> Float[Array, " p"]:
        """Draw the common model."""
        return np.asarray(self.centre + self.basis @ (self.root @ rng.normal(size=len(self.mean))))
