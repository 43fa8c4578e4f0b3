"""S1 and S2: every owner answers each round, k = 1 … T − 1, and the learner descends along the weighted mean.

    θ[k+1] = Π_Θ[θ[k] − a_k (∇g(θ[k]) + Σ (n_i/n) Q̄_i(θ[k]))]

**S1**, a_k = ρ/(T²k), for strongly convex and smooth fitness (S, Alg. 1). S takes Θ to be the whole space; where the
agreement's box is finite the iterate is projected onto it, which changes nothing inside and keeps every query one that
owners accept.

**S2**, a_k = c₁/√k, for convex fitness, maybe with kinks (S, Alg. 2), with polynomial-decay averaging (Shamir and Zhang 2013):

    θ̄[k+1] = (k−1)/(1/√T + k) · θ̄[k] + (1/√T + 1)/(1/√T + k) · θ[k]

The average takes θ[k], not θ[k+1]; at k = 1 it is θ[1] itself.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from copriv.rules.bounds import Bound, Setting, checked_bound, on_parameters
from copriv.rules.rule import Descent, InRounds, Iterates, Rule, Way, Weights, Who
from copriv.terms import AgreedTerms, Terms
from copriv.types import Array
from copriv.validation import count, positive


@dataclass(eq=False)
class State:
    """Iterate and average before round k. Leading axes of arrays are the runs and, on a graph, its owners."""

    theta: Iterates
    average: Iterates
    k: int


@dataclass(frozen=True, eq=False)
class SyncDecay:
    """S1 with step ρ = `step` over T = `horizon` rounds.

    >>> import numpy as np
    >>> from copriv.rules import PLAIN, SyncDecay
    >>> rule = SyncDecay(PLAIN, step_size=8.0, horizon=4)
    >>> rule.model(rule.step(rule.start(np.zeros((1, 2))), np.array([0]), np.array([[1.0, -1.0]])))
    array([[-0.5,  0.5]])
    """

    descent: Descent
    step_size: float | Float[Array, "runs 1"]
    horizon: int

    def start(self, theta: Iterates) -> State:
        return State(theta.copy(), theta.copy(), 1)

    def query(self, state: State, participant: Who) -> Iterates:
        return state.theta

    def step(self, state: State, participant: Who, answer: Iterates) -> State:
        moved = state.theta - self.size(state.k) * self.descent.direction(state.theta, answer)
        return State(self.descent.feasible_set.project(moved), self.average(state), state.k + 1)

    def model(self, state: State) -> Iterates:
        return state.theta

    def size(self, k: int) -> float | Float[Array, "runs 1"]:
        """a_k."""
        return self.step_size / (self.horizon**2 * k)

    def average(self, state: State) -> Iterates:
        """The model after round k, where it is an average of iterates."""
        return state.average


@dataclass(frozen=True, eq=False)
class SyncAveraged(SyncDecay):
    """S2 with c₁ = `step` over T = `horizon` rounds; the model is θ̄, or the last θ where `averaged` is false.

    >>> import numpy as np
    >>> from copriv.rules import PLAIN, SyncAveraged
    >>> rule = SyncAveraged(PLAIN, step_size=0.5, horizon=4, averaged=False)
    >>> rule.model(rule.step(rule.start(np.zeros((1, 2))), np.array([0]), np.array([[1.0, -1.0]])))
    array([[-0.5,  0.5]])
    """

    averaged: bool = True

    def model(self, state: State) -> Iterates:
        return state.average if self.averaged else state.theta

    def size(self, k: int) -> float | Float[Array, "runs 1"]:
        return self.step_size / math.sqrt(k)

    def average(self, state: State) -> Iterates:
        k, η = state.k, 1.0 / math.sqrt(self.horizon)
        return (k - 1) / (η + k) * state.average + (η + 1) / (η + k) * state.theta


def s1_steps(step: float, horizon: int) -> Float[Array, " updates"]:
    """ρ/(T²k), k = 1 … T−1 (S, Alg. 1)."""
    T, ρ = count("horizon", horizon), positive("step", step)
    return np.asarray(ρ / (T**2 * np.arange(1.0, T)))


def s2_steps(step: float, horizon: int) -> Float[Array, " updates"]:
    """c₁/√k, k = 1 … T−1 (S, Alg. 2)."""
    T, c1 = count("horizon", horizon), positive("step", step)
    return np.asarray(c1 / np.sqrt(np.arange(1.0, T)))


def s2_average(horizon: int) -> Float[Array, " updates"]:
    """The weight of θ[k] in θ̄[k+1], k = 1 … T−1 (S, eq. (8)); θ̄[1] weighs nothing, so it is taken to be θ[1]."""
    k, η = np.arange(1.0, count("horizon", horizon)), 1.0 / np.sqrt(horizon)
    return np.asarray((η + 1.0) / (η + k))


class _S1(Rule):
    name = "S1"
    together = True
    step = "rho"
    ways = (Way("S1", "S1", together=True, rounds=lambda m: InRounds(s1_steps(1.0, m + 1))),)

    def update(
        self, agreed: AgreedTerms, descent: Descent, weights: Weights, shares: Weights | None = None
    ) -> SyncDecay:
        return SyncDecay(descent, agreed.step, agreed.agreement.horizon)

    def recursion(self, agreed: AgreedTerms) -> InRounds:
        return InRounds(s1_steps(agreed.step, agreed.agreement.horizon))

    def bounds(self, setting: Setting) -> tuple[Bound, ...]:
        costs = s_theorem_2(setting)
        return costs + on_parameters(costs, setting)


class _S2(Rule):
    name = "S2"
    together = True
    step = "c1"
    ways = (
        Way("S2", "S2", together=True, rounds=lambda m: InRounds(s2_steps(1.0, m + 1), s2_average(m + 1))),
        Way("S2 last", "S2", True, lambda m: InRounds(s2_steps(1.0, m + 1)), terms=(("iterate", "last"),)),
    )

    def update(
        self, agreed: AgreedTerms, descent: Descent, weights: Weights, shares: Weights | None = None
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


S1, S2 = _S1(), _S2()


def s_theorem_2(setting: Setting) -> tuple[Bound, ...]:
    """S Thm 2 for rule S1: as published, with the dimension, and with the smoothness.

    Bounds on the cost; infinite where L = 0.
    """
    s, T = setting, setting.horizon
    L, λ, Ξ, ρ, n = s.strong_convexity, s.smoothness, s.gradient_bound, s.step, s.total_records
    needs = [
        *s.assumed,
        (L > 0, "f strongly convex"),
        (math.isfinite(λ), "f smooth"),
        (math.isinf(s.diameter), "Θ unbounded"),
        (ρ * λ <= T**2, "ρ/T² ≤ 1/λ"),
    ]
    asymptotic = (
        f"the best of θ[1] … θ[T] as T → ∞; not a statement at T = {T}, and with ρ fixed the T that it "
        "needs need not exist (erratum 5)"
    )
    published, with_p = math.inf, math.inf
    if L > 0:
        published, with_p = 8.0 * Ξ**2 * ρ * s.inverse_squares / n**2 / L, ρ * s.noise_moment / T**2 / L
    one_coordinate = f"{asymptotic}; noise of one coordinate (erratum 4)"
    no_factor = f"{asymptotic}; the proof's factor λ/2 is missing"
    return (
        checked_bound("S, Thm 2, eq. (9), as published", published, needs, one_coordinate),
        checked_bound("S, Thm 2, with the dimension", with_p, needs, no_factor),
        checked_bound("S, Thm 2, with the dimension and the smoothness", with_p * λ / 2.0, needs, asymptotic),
    )


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
    mix, a = s2_average(T)[: s.rounds], s2_steps(c1, T)[: s.rounds]
    # The weight of θ[k] in θ̄[K + 1] after K moves, k = 1 … K; Σ ζ = 1 and they do not fall.
    ζ = mix * np.concatenate([np.cumprod((1.0 - mix)[:0:-1])[::-1], [1.0]])
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
