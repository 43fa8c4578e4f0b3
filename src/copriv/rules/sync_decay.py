"""S1: every owner answers each round, steps fall as 1/k. For strongly convex and smooth fitness (S, Alg. 1).

    θ[k+1] = θ[k] − ρ/(T²k) · (∇g(θ[k]) + Σ (n_i/n) Q̄_i(θ[k])),     k = 1 … T − 1

S takes Θ to be the whole space; where the agreement's box is finite the iterate is projected onto it, which changes
nothing inside and keeps every query one that owners accept.
"""

from dataclasses import dataclass

from jaxtyping import Float, Int

from copriv.rules.descent import Descent, Talker
from copriv.types import Array


@dataclass(eq=False)
class _State:
    theta: Float[Array, "runs p"]
    k: int


@dataclass(frozen=True, eq=False)
class SyncDecay:
    """S1 with step ρ = `step` over T = `horizon` rounds."""

    descent: Descent
    step_size: float | Float[Array, "runs 1"]
    horizon: int

    def start(self, theta: Float[Array, "runs p"]) -> _State:
        return _State(theta.copy(), 1)

    def query(self, state: _State, talker: Int[Talker, " runs"]) -> Float[Array, "runs p"]:
        return state.theta

    def step(self, state: _State, talker: Int[Talker, " runs"], answer: Float[Array, "runs p"]) -> _State:
        ρ, T, k = self.step_size, self.horizon, state.k
        moved = state.theta - ρ / (T**2 * k) * self.descent.direction(state.theta, answer)
        return _State(self.descent.box.project(moved), k + 1)

    def model(self, state: _State) -> Float[Array, "runs p"]:
        return state.theta
