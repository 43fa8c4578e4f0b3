"""Rules for owners that answer once, at the agreed start θ₀, after which the learner computes the model.

Over the owners heard, answers are averaged by weight. η is the agreed step, 1 where that is "auto"; below 1 it stays nearer
to a good θ₀ in noise.

**Statistics.** An answer is a noisy mean gradient g_i at θ₀ and, if agreed, noisy second moments H_i:

    θ = Π_Θ[θ₀ − η A⁻¹ (∇g(θ₀) + g)],      A = 2H + σI, repaired,

which is the squared loss's optimum itself for η = 1, no noise, and gradients that were not clipped. Without second
moments A⁻¹ is the agreed preconditioner.

Repair. Noise can give A eigenvalues at or below 0. With a public curvature A₀ (the preconditioner's inverse), look at
S = A₀^{−½} A A₀^{−½}, which is near I: it is drawn to I by as much as noise is larger than what n₀ public rows leave
unknown (entries' mean squares, 2(p² + p)/n₀ for the latter), and its eigenvalues are kept in [1/4, 4]. Without A₀,
eigenvalues of A are raised to the noise's own largest one, 2√p times the spread of an entry of 2H (Wigner's edge).

**A pilot.** An answer begins with W∇f_i(θ₀), W the root of P = W²:  θ = Π_Θ[θ₀ − η (P∇g(θ₀) + W Σ w_i W∇f_i)].

**Models.** An answer is a model θ̂_i (objective perturbation), tied to θ₀ with firmness λ:

    θ = Π_Θ[θ₀ + η (Σ_{heard} (n_i/n_heard) θ̂_i − θ₀)]

Where the tie has the shape of the fitness (a preconditioner that is the inverse Hessian), the average falls short of the
optimum by 1/(1 + λ): η = 1 + λ undoes it, and an η between is best where noise is not small beside what θ₀ is off by.
"""

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from copriv.errors import AgreementError
from copriv.privacy.clipping import multiplicity, unpack
from copriv.rules.rule import Descent, Points, Weights, Who
from copriv.types import Array


@dataclass(eq=False)
class _State:
    start: Points
    total: Float[Array, "runs answer"]
    weight: Float[Array, " runs"]
    """Σ w_i over the owners heard."""
    noise: Float[Array, " runs"]
    """Σ w_i² b_i², b_i the scale of the noise on owner i's mean of x_j²."""


@dataclass(frozen=True, eq=False)
class _Averaged:
    descent: Descent
    weights: Weights

    def start(self, theta: Points) -> _State:
        runs, p = theta.shape
        return _State(theta.copy(), np.zeros((runs, self._length(p))), np.zeros(runs), np.zeros(runs))

    def query(self, state: _State, participant: Who) -> Points:
        return state.start

    def step(self, state: _State, participant: Who, answer: Float[Array, "runs answer"]) -> _State:
        w = self.weights[participant]
        state.total += w[:, None] * answer
        state.weight += w
        return state

    def model(self, state: _State) -> Points:
        heard = np.where(state.weight > 0, state.weight, 1.0)
        moved = self.descent.feasible_set.project(self._moved(state, state.total / heard[:, None], heard))
        return np.asarray(np.where(state.weight[:, None] > 0, moved, state.start))

    def _length(self, n_parameters: int) -> int:
        return n_parameters

    @abstractmethod
    def _moved(self, state: _State, mean: Float[Array, "runs answer"], heard: Float[Array, " runs"]) -> Points:
        """θ before its projection, from the answers' mean over owners of this weight."""


@dataclass(frozen=True, eq=False)
class AverageModels(_Averaged):
    """One model an owner, weighted.

    >>> import numpy as np
    >>> from copriv.rules import PLAIN, AverageModels
    >>> rule = AverageModels(PLAIN, np.array([0.25, 0.75]))
    >>> state, models = rule.start(np.zeros((1, 2))), ([[4.0, 0.0]], [[0.0, 4.0]])
    >>> for participant, model in enumerate(models):
    ...     state = rule.step(state, np.array([participant]), np.array(model))
    >>> rule.model(state)
    array([[1., 3.]])
    """

    step_size: float = 1.0

    def _moved(self, state: _State, mean: Float[Array, "runs answer"], heard: Float[Array, " runs"]) -> Points:
        return np.asarray(state.start + self.step_size * (mean - state.start))


@dataclass(frozen=True, eq=False)
class Unmoved(_Averaged):
    """Answers of which no model follows; their weighted mean is what was asked for.

    >>> import numpy as np
    >>> from copriv.rules import PLAIN, Unmoved
    >>> rule = Unmoved(PLAIN, np.array([0.25, 0.75]), length=1)
    >>> state = rule.start(np.zeros((1, 2)))
    >>> for participant, answer in enumerate([[[4.0]], [[8.0]]]):
    ...     state = rule.step(state, np.array([participant]), np.array(answer))
    >>> rule.answered(state), rule.model(state)
    (array([[7.]]), array([[0., 0.]]))
    """

    length: int

    def answered(self, state: _State) -> Float[Array, "runs answer"]:
        """Mean of the answers over the owners heard."""
        return np.asarray(state.total / np.maximum(state.weight, np.finfo(float).tiny)[:, None])

    def _length(self, n_parameters: int) -> int:
        return self.length

    def _moved(self, state: _State, mean: Float[Array, "runs answer"], heard: Float[Array, " runs"]) -> Points:
        return state.start


@dataclass(frozen=True, eq=False)
class FirstStep(_Averaged):
    """One step along the mean gradient, which answers have first, in the public metric: W∇f, `root` W the root of P.

    >>> import numpy as np
    >>> from copriv.rules import PLAIN
    >>> from copriv.rules.one_answer import FirstStep
    >>> rule = FirstStep(PLAIN, np.array([1.0]), np.eye(2))
    >>> rule.model(rule.step(rule.start(np.zeros((1, 2))), np.array([0]), np.array([[1.0, -1.0, 0.3, 0.7]])))
    array([[-1.,  1.]])
    """

    root: Float[Array, "p p"]
    step_size: float = 1.0

    def step(self, state: _State, participant: Who, answer: Float[Array, "runs answer"]) -> _State:
        return super().step(state, participant, answer[:, : state.start.shape[1]])

    def _moved(self, state: _State, mean: Float[Array, "runs answer"], heard: Float[Array, " runs"]) -> Points:
        public = self.descent.along(self.descent.regularizer.gradient(state.start))
        return np.asarray(state.start - self.step_size * (public + mean @ self.root))


@dataclass(frozen=True, eq=False)
class SolveStatistics(_Averaged):
    """`moments_scale` is b_i of each participant; None where no second moments are released.

    >>> import numpy as np
    >>> from copriv.model.objective import FeasibleSet, Regularizer
    >>> from copriv.rules import Descent, SolveStatistics
    >>> along = Descent(Regularizer(0.0), FeasibleSet(), np.eye(2))
    >>> rule = SolveStatistics(along, np.array([1.0]), None, public_rows=100)
    >>> rule.model(rule.step(rule.start(np.zeros((1, 2))), np.array([0]), np.array([[1.0, -1.0]])))
    array([[-1.,  1.]])
    """

    moments_scale: Weights | None
    public_rows: int
    step_size: float = 1.0
    factors: Float[Array, " p"] | float = 1.0
    """Factors on the features before noise was added, which has the same scale for all of them in that unit."""

    def __post_init__(self) -> None:
        if self.moments_scale is None and self.descent.preconditioner is None:
            raise AgreementError(
                "agreement.moments_share: 0 leaves the learner without second moments; agree on a share, or on a "
                "preconditioner from the public sample"
            )

    def step(self, state: _State, participant: Who, answer: Float[Array, "runs answer"]) -> _State:
        if self.moments_scale is not None:
            state.noise += (self.weights[participant] * self.moments_scale[participant]) ** 2
        return super().step(state, participant, answer)

    def _length(self, n_parameters: int) -> int:
        if self.moments_scale is None:
            return n_parameters
        return n_parameters + n_parameters * (n_parameters + 1) // 2

    def _moved(self, state: _State, mean: Float[Array, "runs answer"], heard: Float[Array, " runs"]) -> Points:
        p, g = state.start.shape[1], self.descent.regularizer
        slope = g.gradient(state.start) + mean[:, :p]
        if self.moments_scale is None:
            move = self.descent.along(slope)
        else:
            u = self.factors * np.ones(p)
            A = np.outer(u, u) * (2.0 * unpack(mean[:, p:], p) + g.strength * np.eye(p))
            A = self._repaired(A, state.noise / heard**2)
            move = u * np.asarray(np.linalg.solve(A, (u * slope)[:, :, None])[:, :, 0], dtype=np.float64)
        return np.asarray(state.start - self.step_size * move)

    def _repaired(self, A: Float[Array, "runs p p"], noise: Float[Array, " runs"]) -> Float[Array, "runs p p"]:
        p = A.shape[-1]
        if self.descent.preconditioner is None:
            values, vectors = np.linalg.eigh(A)
            # An entry off the diagonal of 2H has noise of variance 4·2·(b/2)².
            edge = 2.0 * np.sqrt(p) * np.sqrt(2.0 * noise)
            floor = np.maximum(edge, np.finfo(float).eps * np.abs(values).max(axis=1))[:, None]
            floor[floor == 0] = 1.0  # nobody was heard yet
            return np.asarray((vectors * np.maximum(values, floor)[:, None, :]) @ np.swapaxes(vectors, 1, 2))
        root, back, gain = self._whitening
        S = root @ A @ root
        unknown = 2.0 * (p * p + p) / self.public_rows
        kept = (unknown / (unknown + gain * noise))[:, None, None]
        values, vectors = np.linalg.eigh(kept * S + (1.0 - kept) * np.eye(p))
        kept_near = np.clip(values, 0.25, 4.0)[:, None, :]
        return np.asarray(back @ ((vectors * kept_near) @ np.swapaxes(vectors, 1, 2)) @ back)

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
