"""S2: every owner answers each round; projection and polynomial-decay averaging. For convex fitness, maybe with kinks
(S, Alg. 2; the averaging is Shamir and Zhang's, 2013).

    θ[k+1] = Π_Θ[θ[k] − (c₁/√k) (∇g(θ[k]) + Σ (n_i/n) Q̄_i(θ[k]))],     k = 1 … T − 1
    θ̄[k+1] = (k−1)/(1/√T + k) · θ̄[k] + (1/√T + 1)/(1/√T + k) · θ[k]

The average takes θ[k], not θ[k+1]; at k = 1 it is θ[1] itself.
"""

from dataclasses import dataclass
from math import sqrt

from jaxtyping import Float, Int

from copriv.rules.descent import Descent, Talker
from copriv.types import Array


@dataclass(eq=False)
class _State:
    theta: Float[Array, "runs p"]
    average: Float[Array, "runs p"]
    k: int


@dataclass(frozen=True, eq=False)
class SyncAveraged:
    """S2 with c₁ = `step` over T = `horizon` rounds; the model is θ̄, or the last θ where `averaged` is false."""

    descent: Descent
    step_size: float | Float[Array, "runs 1"]
    horizon: int
    averaged: bool = True

    def start(self, theta: Float[Array, "runs p"]) -> _State:
        return _State(theta.copy(), theta.copy(), 1)

    def query(self, state: _State, talker: Int[Talker, " runs"]) -> Float[Array, "runs p"]:
        return state.theta

    def step(self, state: _State, talker: Int[Talker, " runs"], answer: Float[Array, "runs p"]) -> _State:
        c1, k, η = self.step_size, state.k, 1.0 / sqrt(self.horizon)
        moved = state.theta - c1 / sqrt(k) * self.descent.direction(state.theta, answer)
        average = (k - 1) / (η + k) * state.average + (η + 1) / (η + k) * state.theta
        return _State(self.descent.box.project(moved), average, k + 1)

    def model(self, state: _State) -> Float[Array, "runs p"]:
        return state.average if self.averaged else state.theta
