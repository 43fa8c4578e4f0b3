"""A1: one owner at a time; the learner keeps its own θ_L and one copy θ_i an owner. For strongly convex g (A, Alg. 1).

    θ̄   = (θ_L + θ_i)/2
    θ_i ← Π_Θ[θ̄ − (Nρ/(T²σ)) (∇g(θ̄)/(2N) + (n_i/n) Q̄_i(θ̄))]
    θ_L ← Π_Θ[θ̄ − c_L (ρ/(T²σ)) ∇g(θ̄)]

The appendix of A needs c_L = 1/2; eq. (7) prints (N − 1)/N, which agrees for N = 2 only (erratum 2). Both can be had.
Owners that talk more often than 1/N of the time have their gradients scaled down by as much (A, Remark 4).
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from copriv.errors import InvalidInput
from copriv.rules.descent import Descent, Talker
from copriv.types import Array


@dataclass(eq=False)
class _State:
    learner: Float[Array, "runs p"]
    copies: Float[Array, "runs owners p"]
    middle: Float[Array, "runs p"]
    """θ̄ of the query that is out."""


@dataclass(frozen=True, eq=False)
class AsyncCopies:
    """A1 with step ρ = `step_size` over T = `horizon` queries, for N = len(weights) talkers of weights n_i/n.

    Raises InvalidInput without a regulariser: the step is ρ/(T²σ), and σ is its strength.
    """

    descent: Descent
    step_size: float | Float[Array, "runs 1"]
    horizon: int
    weights: Float[Array, " owners"]
    shares: Float[Array, " owners"] | None = None
    learner_step: str = "corrected"

    def __post_init__(self) -> None:
        if not self.descent.regularizer.strength > 0:
            raise InvalidInput(
                "model.regularization: rule A1 steps by rho/(T^2 sigma), so it needs a regularization above 0 "
                "(the papers use 1e-5); set one, or use rule A2"
            )

    def start(self, theta: Float[Array, "runs p"]) -> _State:
        copies = np.repeat(theta[:, None, :], len(self.weights), axis=1)
        return _State(theta.copy(), copies, theta.copy())

    def query(self, state: _State, talker: Int[Talker, " runs"]) -> Float[Array, "runs p"]:
        state.middle = (state.learner + state.copies[np.arange(len(talker)), talker]) / 2
        return state.middle

    def step(self, state: _State, talker: Int[Talker, " runs"], answer: Float[Array, "runs p"]) -> _State:
        N, T, ρ = len(self.weights), self.horizon, self.step_size
        g, box = self.descent.regularizer, self.descent.box
        α = ρ / (T**2 * g.strength)
        factor = self.weights if self.shares is None else self.weights / (N * self.shares)
        c_L = 0.5 if self.learner_step == "corrected" else (N - 1) / N
        θ = state.middle
        pull = self.descent.along(g.gradient(θ))
        push = self.descent.along(answer)
        state.copies[np.arange(len(talker)), talker] = box.project(
            θ - N * α * (pull / (2 * N) + factor[talker, None] * push)
        )
        state.learner = box.project(θ - c_L * α * pull)
        return state

    def model(self, state: _State) -> Float[Array, "runs p"]:
        return state.learner
