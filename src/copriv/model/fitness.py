"""The fitness f(θ) = g(θ) + (1/n) Σ w ℓ(θ; x, y) over the box Θ, its optimum θ*, and relative fitness ψ.

The reference optimum decides what every ψ means: it is solved by a method made for the loss, and certified (`solvers`).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from jaxtyping import Float

from copriv.errors import InvalidInput
from copriv.losses import Squared
from copriv.model import solvers
from copriv.model.feasible_set import FeasibleSet as FeasibleSet
from copriv.model.feasible_set import Regularizer as Regularizer
from copriv.model.records import Records
from copriv.model.solvers import ACCURACY
from copriv.model.solvers import Optimum as Optimum
from copriv.types import Array, Loss, is_linear
from copriv.validation import non_negative, positive


@dataclass(frozen=True, eq=False)
class Quadratic:
    """f(θ) = θᵀHθ − 2cᵀθ + s + (σ/2)θᵀθ: the squared loss, whole, in p² + p + 1 numbers.

    H = Σ w x xᵀ/n, c = Σ w x y/n, s = Σ w y²/n. Exact for any number of records after one pass over them.
    """

    H: Float[Array, "p p"]
    c: Float[Array, " p"]
    s: float
    regularizer: Regularizer

    @classmethod
    def of(cls, records: Records, regularizer: Regularizer) -> "Quadratic":
        """One pass, in blocks that stay in cache."""
        p = records.n_parameters
        H, c, s, n = np.zeros((p, p)), np.zeros(p), 0.0, float(records.weight.sum())
        plain = bool((records.weight == 1.0).all())
        for start in range(0, len(records), 8192):
            rows = slice(start, start + 8192)
            x, y, w = records.features[rows], records.target[rows], records.weight[rows]
            wx, wy = (x, y) if plain else (w[:, None] * x, w * y)
            H += wx.T @ x
            c += x.T @ wy
            s += float(wy @ y)
        return cls(H / n, c / n, s / n, regularizer)

    @cached_property
    def hessian(self) -> Float[Array, "p p"]:
        """A = ∇²f = 2H + σI."""
        return 2.0 * self.H + self.regularizer.strength * np.eye(len(self.c))

    def value(self, theta: Float[Array, "*batch p"]) -> Float[Array, "*batch"]:
        """f at each θ."""
        half = 0.5 * ((theta @ self.hessian) * theta).sum(axis=-1)
        return np.asarray(half - 2.0 * (theta @ self.c) + self.s)

    def gradient(self, theta: Float[Array, "*batch p"]) -> Float[Array, "*batch p"]:
        """∇f at each θ."""
        return np.asarray(theta @ self.hessian - 2.0 * self.c)

    def free_minimum(self) -> Float[Array, " p"]:
        """argmin f over all of R^p; the least-norm one where records do not determine it."""
        try:
            factor = scipy.linalg.cho_factor(self.hessian)
            return np.asarray(scipy.linalg.cho_solve(factor, 2.0 * self.c))
        except np.linalg.LinAlgError:
            return np.asarray(np.linalg.lstsq(self.hessian, 2.0 * self.c, rcond=None)[0], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Fitness:
    """f over `records` (weights and all), with its gradient and its certified minimum over Θ."""

    loss: Loss
    regularizer: Regularizer
    feasible_set: FeasibleSet
    records: Records

    @cached_property
    def quadratic(self) -> Quadratic | None:
        """The whole of f in a few numbers, for the squared loss; None for the others."""
        return Quadratic.of(self.records, self.regularizer) if isinstance(self.loss, Squared) else None

    def value(self, theta: Float[Array, "*batch p"], block: int = 2048) -> Float[Array, "*batch"]:
        """f at each θ; one pass over the records in blocks, for all θ at once."""
        if self.quadratic is not None:
            return self.quadratic.value(theta)
        thetas = theta.reshape(-1, theta.shape[-1])
        total = np.zeros(len(thetas))
        for start in range(0, len(self.records), block):
            rows = slice(start, start + block)
            x, y, w = self.records.features[rows], self.records.target[rows], self.records.weight[rows]
            if is_linear(self.loss):
                total += w @ self.loss.value(x @ thetas.T, y[:, None])
            else:
                total += np.array([w @ self.loss.values(t, x, y) for t in thetas])
        mean = total / self.records.weight.sum()
        return np.asarray(mean.reshape(theta.shape[:-1]) + self.regularizer.value(theta))

    def gradient(self, theta: Float[Array, " p"]) -> Float[Array, " p"]:
        """A subgradient of f at one θ."""
        r = self.records
        if is_linear(self.loss):
            mean = (r.weight * self.loss.slope(r.features @ theta, r.target)) @ r.features
        else:
            mean = r.weight @ self.loss.gradients(theta, r.features, r.target)
        return np.asarray(mean / r.weight.sum() + self.regularizer.gradient(theta))

    def smoothness(self) -> float:
        """λ: ∇f is λ-Lipschitz; `inf` where the loss has a kink or is not known."""
        if not is_linear(self.loss) or not np.isfinite(self.loss.curvature):
            return np.inf
        plain = Quadratic.of(self.records, Regularizer(0.0))
        return self.loss.curvature * float(np.linalg.eigvalsh(plain.H)[-1]) + self.regularizer.strength

    def strong_convexity(self) -> float:
        """L: f is L-strongly convex. From the records for the squared loss, else from the regulariser alone."""
        if self.quadratic is not None:
            return max(float(np.linalg.eigvalsh(self.quadratic.hessian)[0]), self.regularizer.strength)
        return self.regularizer.strength

    def minimum(self, near: Float[Array, " p"] | None = None, accuracy: float = ACCURACY) -> Optimum:
        """θ* to `accuracy` of f, with its certificate. `near` is where to look first: it saves time and changes nothing else.

        Raises NotCertified when no proof of that accuracy was reached, or where records that can be separated have no
        finite θ*; DataError when the loss cannot take the targets.
        """
        self.loss.check_target(self.records.target)
        return solvers.minimum(
            solvers.Task(self, self.loss, self.records, self.regularizer.strength, self.feasible_set.theta_max),
            near,
            accuracy,
        )


def relative_fitness(fitness: Float[Array, "*batch"], optimum: Optimum) -> Float[Array, "*batch"]:
    """ψ = f/f(θ*) − 1, at least 0; lower is better (S, eq. (13); A, §V). Raises InvalidInput where f(θ*) is 0."""
    if not optimum.value > 0:
        raise InvalidInput(
            f"relative fitness: f(θ*) is {optimum.value:g}, for these records can be fitted exactly; ψ is relative to f(θ*) "
            "and needs one above 0: set model.regularization above 0, or bring more records than there are parameters"
        )
    return np.asarray(fitness / optimum.value - 1.0)


def gradient_bound_over(loss: Loss, feature_bound: float, target_bound: float, feasible_set: FeasibleSet) -> float:
    """Ξ proved from declared bounds: ‖x‖₁ ≤ feature_bound, |y| ≤ target_bound, θ in Θ. Raises where there is none."""
    positive("feature_bound", feature_bound)
    bound = loss.gradient_bound(feature_bound, non_negative("target bound", target_bound), feasible_set.theta_max)
    if not np.isfinite(bound):
        raise InvalidInput(
            f"gradient_bound: the {loss.name} loss has no proved bound over these features and theta_max; "
            "give a number and it is enforced by clipping"
        )
    return bound
