"""Statistics: every owner answers once, at the start, and the learner solves for the squared loss's optimum.

An answer is a noisy mean gradient g_i at θ₀ and, if agreed, noisy second moments H_i. Over the owners heard, weighted,

    θ = Π_Θ[θ₀ − η A⁻¹ (∇g(θ₀) + g)],      A = 2H + σI, repaired,

which is the optimum itself for η = 1, no noise, and gradients that were not clipped. Without second moments A⁻¹ is the
agreed preconditioner. η is the agreed step, 1 where that is "auto"; below 1 it stays nearer to a good θ₀ in noise.

Repair. Noise can give A eigenvalues at or below 0. With a public curvature A₀ (the preconditioner's inverse), look at
S = A₀^{−½} A A₀^{−½}, which is near I: it is drawn to I by as much as noise is larger than what n₀ public rows leave
unknown (entries' mean squares, 2(p² + p)/n₀ for the latter), and its eigenvalues are kept in [1/4, 4]. Without A₀,
eigenvalues of A are raised to the noise's own largest one, 2√p times the spread of an entry of 2H (Wigner's edge).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from copriv.errors import AgreementError
from copriv.privacy.moments import multiplicity, unpack
from copriv.rules.descent import Descent, Participant
from copriv.types import Array

LEAST, MOST = 0.25, 4.0
"""Limits on the ratio of the curvature to the public one."""


@dataclass(eq=False)
class _State:
    start: Float[Array, "runs p"]
    total: Float[Array, "runs answer"]
    weight: Float[Array, " runs"]
    noise: Float[Array, " runs"]
    """Σ w_i² b_i², b_i the scale of the noise on owner i's mean of x_j²."""


@dataclass(frozen=True, eq=False)
class SolveStatistics:
    """`moments_scale` is b_i of each participant; None where no second moments are released.

    >>> import numpy as np
    >>> from copriv.model.feasible_set import FeasibleSet, Regularizer
    >>> from copriv.rules import Descent, SolveStatistics
    >>> along = Descent(Regularizer(0.0), FeasibleSet(), np.eye(2))
    >>> rule = SolveStatistics(along, np.array([1.0]), None, public_rows=100)
    >>> rule.model(rule.step(rule.start(np.zeros((1, 2))), np.array([0]), np.array([[1.0, -1.0]])))
    array([[-1.,  1.]])
    """

    descent: Descent
    weights: Float[Array, " participants"]
    moments_scale: Float[Array, " participants"] | None
    public_rows: int
    step_size: float = 1.0

    def __post_init__(self) -> None:
        if self.moments_scale is None and self.descent.preconditioner is None:
            raise AgreementError(
                "agreement.moments_share: 0 leaves the learner without second moments; agree on a share, or on a "
                "preconditioner from the public sample"
            )

    def start(self, theta: Float[Array, "runs p"]) -> _State:
        runs, p = theta.shape
        length = p if self.moments_scale is None else p + p * (p + 1) // 2
        return _State(theta.copy(), np.zeros((runs, length)), np.zeros(runs), np.zeros(runs))

    def query(self, state: _State, participant: Int[Participant, " runs"]) -> Float[Array, "runs p"]:
        return state.start

    def step(
        self, state: _State, participant: Int[Participant, " runs"], answer: Float[Array, "runs answer"]
    ) -> _State:
        w = self.weights[participant]
        state.total += w[:, None] * answer
        state.weight += w
        if self.moments_scale is not None:
            state.noise += (w * self.moments_scale[participant]) ** 2
        return state

    def model(self, state: _State) -> Float[Array, "runs p"]:
        heard = np.where(state.weight > 0, state.weight, 1.0)[:, None]
        mean, p = state.total / heard, state.start.shape[1]
        slope = self.descent.regularizer.gradient(state.start) + mean[:, :p]
        if self.moments_scale is None:
            move: Array = self.descent.along(slope)
        else:
            H = unpack(mean[:, p:], p)
            A: Array = 2.0 * H + self.descent.regularizer.strength * np.eye(p)
            repaired: Array = self._repaired(A, state.noise / heard[:, 0] ** 2)
            move = np.asarray(np.linalg.solve(repaired, slope[:, :, None])[:, :, 0], dtype=np.float64)
        moved = self.descent.feasible_set.project(state.start - self.step_size * move)
        return np.asarray(np.where(state.weight[:, None] > 0, moved, state.start))

    def _repaired(self, A: Float[Array, "runs p p"], noise: Float[Array, " runs"]) -> Float[Array, "runs p p"]:
        p = A.shape[-1]
        if self.descent.preconditioner is None:
            values, vectors = np.linalg.eigh(A)
            # An entry off the diagonal of 2H has noise of variance 4·2·(b/2)².
            edge = 2.0 * np.sqrt(p) * np.sqrt(2.0 * noise)
            floor = np.maximum(edge, np.finfo(float).eps * np.abs(values).max(axis=1))[:, None]
            return np.asarray((vectors * np.maximum(values, floor)[:, None, :]) @ np.swapaxes(vectors, 1, 2))
        root, back, gain = self._whitening
        S = root @ A @ root
        unknown = 2.0 * (p * p + p) / self.public_rows
        kept = (unknown / (unknown + gain * noise))[:, None, None]
        values, vectors = np.linalg.eigh(kept * S + (1.0 - kept) * np.eye(p))
        return np.asarray(
            back @ ((vectors * np.clip(values, LEAST, MOST)[:, None, :]) @ np.swapaxes(vectors, 1, 2)) @ back
        )

    @cached_property
    def _whitening(self) -> tuple[Array, Array, float]:
        """A₀^{−½}, A₀^{½}, and E‖A₀^{−½}(2N)A₀^{−½}‖² in the sum of squares for noise of b = 1."""
        P = self.descent.preconditioner
        assert P is not None
        values, vectors = np.linalg.eigh(0.5 * (P + P.T))
        if not values[0] > 0:
            raise AgreementError('preconditioner: mechanism "statistics" needs a positive definite one')
        root = (vectors * np.sqrt(values)) @ vectors.T
        back = (vectors / np.sqrt(values)) @ vectors.T
        Q = root @ root
        row, column = np.triu_indices(len(Q))
        # ‖w_j w_kᵀ + w_k w_jᵀ‖² = 2(Q_jj Q_kk + Q_jk²) for j < k, ‖w_j w_jᵀ‖² = Q_jj².
        size = np.where(row == column, Q[row, row] ** 2, 2.0 * (Q[row, row] * Q[column, column] + Q[row, column] ** 2))
        variance = 4.0 * 2.0 / multiplicity(len(Q)) ** 2
        return np.asarray(root), np.asarray(back), float(size @ variance)
