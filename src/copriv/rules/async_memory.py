"""A2: one owner at a time; the learner remembers the newest private answer of every owner that it has heard.

    a_i ← Q̄_i(θ)                                   the newest answer replaces the owner's old one
    G   = Σ_{j heard} (n_j / n_heard) a_j
    θ   ← Π_Θ[θ − α_k (∇g(θ) + G)],   α_k = α/(1 + k/N),   k = 1, 2, …

The learner does not wait for the slowest owner, and an answer at a slightly older θ is used too, so that several owners may
compute at once. Each owner answers a few times only, which keeps its noise small (docs/explanation/rules.md). Because of the
memory, no correction for the frequency of an owner's answers is needed.

With a window of B > 1 answers, θ moves by B·α_k after every B answers. With B = N and owners that answer in rounds, G is the
noisy gradient at one point, and a few answers are as effective as under a synchronous rule, one owner at a time and in any
order. An owner that answers twice within a window (because another one is away) answers at the same θ, and the mean of the
two answers is kept.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from copriv.rules.rule import PLAIN, Descent, InRounds, Points, Rule, Way, Weights, Who, WithMemory
from copriv.terms import AgreedTerms, Terms
from copriv.types import Array


@dataclass(eq=False)
class _State:
    theta: Points
    first: Who
    """Index of each run's first row in `memory` and `repeats`, which have a row for each of its owners."""
    memory: Float[Array, "rows p"]
    repeats: Float[Array, " rows"]
    """Number of answers at the present θ in the owner's memory; −1 before its first answer."""
    total: Points
    """Σ_{j heard} (n_j/n) a_j."""
    weight: Float[Array, " runs"]
    """Σ_{j heard} n_j/n."""
    k: int


@dataclass(frozen=True, eq=False)
class AsyncMemory:
    """A2 with first step α = `step_size`, for N = len(weights) participants of weights n_i/n.

    >>> import numpy as np
    >>> from copriv.rules import PLAIN, AsyncMemory
    >>> rule = AsyncMemory(PLAIN, step_size=0.5, weights=np.array([1.0]))
    >>> rule.model(rule.step(rule.start(np.zeros((1, 2))), np.array([0]), np.array([[1.0, -1.0]])))
    array([[-0.25,  0.25]])
    """

    descent: Descent
    step_size: float | Float[Array, "runs 1"]
    weights: Weights
    window: int = 1

    def start(self, theta: Points) -> _State:
        runs, p = theta.shape
        N = len(self.weights)
        memory, never = np.zeros((runs * N, p)), np.full(runs * N, -1.0)
        return _State(theta.copy(), N * np.arange(runs), memory, never, np.zeros((runs, p)), np.zeros(runs), 0)

    def query(self, state: _State, participant: Who) -> Points:
        return state.theta

    def step(self, state: _State, participant: Who, answer: Points) -> _State:
        at, w = state.first + participant, self.weights[participant]
        state.k += 1
        known, repeats = state.memory[at], state.repeats[at]
        newest = answer
        if self.window > 1:
            newest = known + (answer - known) / np.maximum(repeats + 1.0, 1.0)[:, None]
        state.total += w[:, None] * (newest - known)
        state.weight += w * (repeats < 0)
        state.memory[at] = newest
        state.repeats[at] = np.maximum(repeats, 0.0) + 1.0
        if state.k % self.window == 0:
            # Before the first answer of an owner with a positive weight, the total is 0 and so is G.
            G = state.total / np.maximum(state.weight, np.finfo(np.float64).tiny)[:, None]
            α = self.window * self.step_size / (1.0 + state.k / len(self.weights))
            state.theta = self.descent.feasible_set.project(state.theta - α * self.descent.direction(state.theta, G))
            np.minimum(state.repeats, 0.0, out=state.repeats)
        return state

    def model(self, state: _State) -> Points:
        return state.theta


class _A2(Rule):
    name = "A2"
    several_at_once = True
    step = "alpha"
    ways = (
        Way("A2", "A2", together=False, turns=lambda weights: AsyncMemory(PLAIN, 1.0, weights)),
        # N·α_k at the end of each round r, k = rN, in units of Nα.
        Way("A2 rounds", "A2", False, lambda m: InRounds(1.0 / (1.0 + np.arange(1.0, m + 1))), one_by_one=True),
    )

    def update(
        self, agreed: AgreedTerms, descent: Descent, weights: Weights, shares: Weights | None = None
    ) -> AsyncMemory:
        return AsyncMemory(descent, agreed.step, weights, agreed.agreement.window)

    def way(self, terms: Terms) -> Way:
        return self.ways[terms.window > 1]

    def recursion(self, agreed: AgreedTerms) -> WithMemory | None:
        return WithMemory(agreed.step) if agreed.agreement.window == 1 else None


A2 = _A2()
