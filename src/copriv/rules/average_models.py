"""Models: every owner answers once with a model of its own (objective perturbation), and the learner averages them.

    θ = Π_Θ[θ₀ + η (Σ_{heard} (n_i/n_heard) θ̂_i − θ₀)]

η is the agreed step, 1 where that is "auto". Owners' models are tied to θ₀ with firmness λ. Where the tie has the shape
of the fitness (a preconditioner that is the inverse Hessian), the average falls short of the optimum by 1/(1 + λ):
η = 1 + λ undoes it, and an η between is best where noise is not small beside what θ₀ is off by.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from copriv.rules.descent import Descent, Participant
from copriv.types import Array


@dataclass(eq=False)
class _State:
    start: Float[Array, "runs p"]
    total: Float[Array, "runs p"]
    weight: Float[Array, " runs"]


@dataclass(frozen=True, eq=False)
class AverageModels:
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

    descent: Descent
    weights: Float[Array, " participants"]
    step_size: float = 1.0

    def start(self, theta: Float[Array, "runs p"]) -> _State:
        return _State(theta.copy(), np.zeros_like(theta), np.zeros(len(theta)))

    def query(self, state: _State, participant: Int[Participant, " runs"]) -> Float[Array, "runs p"]:
        return state.start

    def step(self, state: _State, participant: Int[Participant, " runs"], answer: Float[Array, "runs p"]) -> _State:
        w = self.weights[participant]
        state.total += w[:, None] * answer
        state.weight += w
        return state

    def model(self, state: _State) -> Float[Array, "runs p"]:
        heard = np.where(state.weight > 0, state.weight, 1.0)[:, None]
        moved = state.start + self.step_size * (state.total / heard - state.start)
        return np.asarray(np.where(state.weight[:, None] > 0, self.descent.feasible_set.project(moved), state.start))
