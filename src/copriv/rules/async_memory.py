"""A2: one owner at a time; the learner remembers the newest private answer of every owner that it has heard.

    a_i ← Q̄_i(θ)                                   the newest answer replaces the owner's old one
    G   = Σ_{j heard} (n_j / n_heard) a_j
    θ   ← Π_Θ[θ − α_k (∇g(θ) + G)],   α_k = α/(1 + k/N),   k = 1, 2, …

Nothing waits for the slowest owner, and an answer computed at a slightly older θ still counts, so several owners may be
at work at once. Each owner answers a few times only, which is what makes its noise small (docs/explanation/rules.md).
Memory makes the weights right whoever talks more often: no correction for frequency is needed.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from copriv.rules.descent import Descent, Talker
from copriv.types import Array


@dataclass(eq=False)
class _State:
    theta: Float[Array, "runs p"]
    memory: Float[Array, "runs owners p"]
    heard: Bool[np.ndarray, "runs owners"]
    total: Float[Array, "runs p"]
    """Σ_{j heard} (n_j/n) a_j."""
    weight: Float[Array, " runs"]
    """Σ_{j heard} n_j/n."""
    k: int


@dataclass(frozen=True, eq=False)
class AsyncMemory:
    """A2 with first step α = `step_size`, for N = len(weights) talkers of weights n_i/n."""

    descent: Descent
    step_size: float | Float[Array, "runs 1"]
    weights: Float[Array, " owners"]

    def start(self, theta: Float[Array, "runs p"]) -> _State:
        runs, p = theta.shape
        N = len(self.weights)
        return _State(
            theta.copy(),
            np.zeros((runs, N, p)),
            np.zeros((runs, N), bool),
            np.zeros((runs, p)),
            np.zeros(runs),
            0,
        )

    def query(self, state: _State, talker: Int[Talker, " runs"]) -> Float[Array, "runs p"]:
        return state.theta

    def step(self, state: _State, talker: Int[Talker, " runs"], answer: Float[Array, "runs p"]) -> _State:
        each, w = np.arange(len(talker)), self.weights[talker]
        state.k += 1
        state.total += w[:, None] * (answer - state.memory[each, talker])
        state.weight += np.where(state.heard[each, talker], 0.0, w)
        state.memory[each, talker] = answer
        state.heard[each, talker] = True
        G = np.divide(state.total, state.weight[:, None], out=np.zeros_like(answer), where=state.weight[:, None] > 0)
        α = self.step_size / (1 + state.k / len(self.weights))
        state.theta = self.descent.box.project(state.theta - α * self.descent.direction(state.theta, G))
        return state

    def model(self, state: _State) -> Float[Array, "runs p"]:
        return state.theta
