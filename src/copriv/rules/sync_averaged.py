"""S2: every owner answers each round; projection and polynomial-decay averaging. For convex fitness, maybe with kinks
(S, Alg. 2; the averaging is Shamir and Zhang's, 2013).

    θ[k+1] = Π_Θ[θ[k] − (c₁/√k) (∇g(θ[k]) + Σ (n_i/n) Q̄_i(θ[k]))],     k = 1 … T − 1
    θ̄[k+1] = (k−1)/(1/√T + k) · θ̄[k] + (1/√T + 1)/(1/√T + k) · θ[k]

The average takes θ[k], not θ[k+1]; at k = 1 it is θ[1] itself.
"""

import math
from dataclasses import dataclass
from math import sqrt

import numpy as np
from jaxtyping import Float, Int

from copriv.rules.bounds import Bound, Setting, checked_bound, on_parameters
from copriv.rules.descent import Descent, Participant
from copriv.rules.recursion import InRounds
from copriv.rules.rule import Rule, Way
from copriv.terms import AgreedTerms, Terms
from copriv.types import Array
from copriv.validation import count, positive


@dataclass(eq=False)
class _State:
    theta: Float[Array, "runs p"]
    average: Float[Array, "runs p"]
    k: int


@dataclass(frozen=True, eq=False)
class SyncAveraged:
    """S2 with c₁ = `step` over T = `horizon` rounds; the model is θ̄, or the last θ where `averaged` is false.

    >>> import numpy as np
    >>> from copriv.rules import PLAIN, SyncAveraged
    >>> rule = SyncAveraged(PLAIN, step_size=0.5, horizon=4, averaged=False)
    >>> rule.model(rule.step(rule.start(np.zeros((1, 2))), np.array([0]), np.array([[1.0, -1.0]])))
    array([[-0.5,  0.5]])
    """

    descent: Descent
    step_size: float | Float[Array, "runs 1"]
    horizon: int
    averaged: bool = True

    def start(self, theta: Float[Array, "runs p"]) -> _State:
        return _State(theta.copy(), theta.copy(), 1)

    def query(self, state: _State, participant: Int[Participant, " runs"]) -> Float[Array, "runs p"]:
        return state.theta

    def step(self, state: _State, participant: Int[Participant, " runs"], answer: Float[Array, "runs p"]) -> _State:
        c1, k, η = self.step_size, state.k, 1.0 / sqrt(self.horizon)
        moved = state.theta - c1 / sqrt(k) * self.descent.direction(state.theta, answer)
        average = (k - 1) / (η + k) * state.average + (η + 1) / (η + k) * state.theta
        return _State(self.descent.feasible_set.project(moved), average, k + 1)

    def model(self, state: _State) -> Float[Array, "runs p"]:
        return state.average if self.averaged else state.theta


def s2_steps(step: float, horizon: int) -> Float[Array, " updates"]:
    """c₁/√k, k = 1 … T−1 (S, Alg. 2)."""
    T, c1 = count("horizon", horizon), positive("step", step)
    return np.asarray(c1 / np.sqrt(np.arange(1.0, T)))


def s2_average(horizon: int) -> Float[Array, " updates"]:
    """The weight of θ[k] in θ̄[k+1], k = 1 … T−1 (S, eq. (8)); θ̄[1] weighs nothing, so it is taken to be θ[1]."""
    k, η = np.arange(1.0, count("horizon", horizon)), 1.0 / np.sqrt(horizon)
    return np.asarray((η + 1.0) / (η + k))


class _S2(Rule):
    name = "S2"
    together = True
    step = "c1"
    ways = (
        Way("S2", "S2", together=True, rounds=lambda m: InRounds(s2_steps(1.0, m + 1), s2_average(m + 1))),
        Way(
            "S2 last",
            "S2",
            together=True,
            rounds=lambda m: InRounds(s2_steps(1.0, m + 1)),
            terms=(("iterate", "last"),),
        ),
    )

    def update(
        self,
        agreed: AgreedTerms,
        descent: Descent,
        weights: Float[Array, " participants"],
        shares: Float[Array, " participants"] | None = None,
    ) -> SyncAveraged:
        terms = agreed.agreement
        return SyncAveraged(descent, agreed.step, terms.horizon, terms.iterate == "averaged")

    def variant(self, terms: Terms) -> str:
        return "last iterate" if terms.iterate == "last" else ""

    def way(self, terms: Terms) -> Way:
        return self.ways[terms.iterate == "last"]

    def recursion(self, agreed: AgreedTerms) -> InRounds:
        T = agreed.agreement.horizon
        return InRounds(s2_steps(agreed.step, T), s2_average(T) if agreed.agreement.iterate == "averaged" else None)

    def bounds(self, setting: Setting) -> tuple[Bound, ...]:
        costs = s_theorem_3(setting)
        return costs + on_parameters(costs, setting)


S2 = _S2()


def s_theorem_3(setting: Setting) -> tuple[Bound, ...]:
    """S Thm 3 for rule S2: as published with Shamir and Zhang's constant, and at this T for the last θ and for θ̄.

    Bounds on the cost; infinite where Θ is unbounded.
    """
    s, T = setting, count("horizon", setting.horizon, 2)
    D, c1 = s.diameter, s.step
    G2 = (s.regularizer_bound + s.gradient_bound) ** 2 + s.noise_moment
    needs = [*s.assumed, (math.isfinite(D), "Θ bounded"), (math.isfinite(G2), "gradients of g bounded over Θ")]
    last = (2.0 + math.log(T)) / math.sqrt(T)
    reached = s.rounds + 1
    at_end = (2.0 + math.log(reached)) / math.sqrt(reached)
    # c₁ = D/G makes D²/c₁ + c₁G² = 2DG; the theorem's right side keeps of G² the noise alone, of one coordinate.
    published = 2.0 * D * math.sqrt(8.0 * s.inverse_squares) * s.gradient_bound * T / s.total_records * last
    ζ, a = _average_weights(T, s.rounds), s2_steps(c1, T)[: s.rounds]
    average = D**2 * float(ζ[-1] / (2.0 * a[-1])) + 0.5 * G2 * float(ζ @ a)
    return (
        checked_bound(
            "S, Thm 3, eq. (11), as published", published, needs,
            "c₁ chosen for it and noise far above the gradient itself, of which it keeps nothing; noise of one "
            "coordinate (erratum 4)",
        ),
        checked_bound("S, Thm 3, last iterate (Shamir and Zhang 2013, Thm 2)", (D**2 / c1 + c1 * G2) * at_end, needs, None),
        checked_bound("S, Thm 3, average", average, needs, None),
    )  # fmt: skip


def _average_weights(horizon: int, moves: int) -> Float[Array, " iterates"]:
    """ζ_k, the weight of θ[k] in θ̄[K + 1] after K moves, k = 1 … K; Σ ζ = 1 and they do not fall."""
    mix = s2_average(horizon)[:moves]
    kept = np.concatenate([np.cumprod((1.0 - mix)[:0:-1])[::-1], [1.0]])
    return np.asarray(mix * kept)
