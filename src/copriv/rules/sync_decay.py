"""S1: every owner answers each round, steps fall as 1/k. For strongly convex and smooth fitness (S, Alg. 1).

    θ[k+1] = θ[k] − ρ/(T²k) · (∇g(θ[k]) + Σ (n_i/n) Q̄_i(θ[k])),     k = 1 … T − 1

S takes Θ to be the whole space; where the agreement's box is finite the iterate is projected onto it, which changes
nothing inside and keeps every query one that owners accept.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from copriv.rules.bounds import Bound, Setting, checked_bound, on_parameters
from copriv.rules.descent import Descent, Participant
from copriv.rules.recursion import InRounds
from copriv.rules.rule import Rule, Way
from copriv.terms import AgreedTerms
from copriv.types import Array
from copriv.validation import count, non_negative, positive


@dataclass(eq=False)
class _State:
    theta: Float[Array, "runs p"]
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

    def start(self, theta: Float[Array, "runs p"]) -> _State:
        return _State(theta.copy(), 1)

    def query(self, state: _State, participant: Int[Participant, " runs"]) -> Float[Array, "runs p"]:
        return state.theta

    def step(self, state: _State, participant: Int[Participant, " runs"], answer: Float[Array, "runs p"]) -> _State:
        ρ, T, k = self.step_size, self.horizon, state.k
        moved = state.theta - ρ / (T**2 * k) * self.descent.direction(state.theta, answer)
        return _State(self.descent.feasible_set.project(moved), k + 1)

    def model(self, state: _State) -> Float[Array, "runs p"]:
        return state.theta


def s1_steps(step: float, horizon: int) -> Float[Array, " updates"]:
    """ρ/(T²k), k = 1 … T−1 (S, Alg. 1)."""
    T, ρ = count("horizon", horizon), positive("step", step)
    return np.asarray(ρ / (T**2 * np.arange(1.0, T)))


class _S1(Rule):
    name = "S1"
    together = True
    step = "rho"
    ways = (Way("S1", "S1", together=True, rounds=lambda m: InRounds(s1_steps(1.0, m + 1))),)

    def update(
        self,
        agreed: AgreedTerms,
        descent: Descent,
        weights: Float[Array, " participants"],
        shares: Float[Array, " participants"] | None = None,
    ) -> SyncDecay:
        return SyncDecay(descent, agreed.step, agreed.agreement.horizon)

    def recursion(self, agreed: AgreedTerms) -> InRounds:
        return InRounds(s1_steps(agreed.step, agreed.agreement.horizon))

    def bounds(self, setting: Setting) -> tuple[Bound, ...]:
        costs = s_theorem_2(setting)
        return costs + on_parameters(costs, setting)


S1 = _S1()


def s_theorem_2(setting: Setting, start_gap: float | None = None) -> tuple[Bound, ...]:
    """S Thm 2 for rule S1: as published, with the dimension, with the smoothness, and at this T.

    The last needs `start_gap` = f(θ[1]) − f(θ*) and is left out without it. Bounds on the cost; infinite where L = 0.
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
    published = _over(8.0 * Ξ**2 * ρ * s.inverse_squares / n**2, L)
    with_p = _over(ρ * s.noise_moment / T**2, L)
    bounds = [
        checked_bound(
            "S, Thm 2, eq. (9), as published", published, needs, f"{asymptotic}; noise of one coordinate (erratum 4)"
        ),
        checked_bound(
            "S, Thm 2, with the dimension", with_p, needs, f"{asymptotic}; the proof's factor λ/2 is missing"
        ),
        checked_bound("S, Thm 2, with the dimension and the smoothness", with_p * λ / 2.0, needs, asymptotic),
    ]
    if start_gap is not None:
        e = non_negative("start_gap", start_gap)
        W = s.noise_moment
        usable = L > 0 and math.isfinite(λ)
        for ρ_k in s1_steps(ρ, T)[: s.rounds]:
            e = (1.0 - 2.0 * L * ρ_k * (1.0 - λ * ρ_k / 2.0)) * e + λ * ρ_k**2 * W / 2.0 if usable else math.inf
        bounds.append(checked_bound("S, Thm 2, at this T", e, needs, None))
    return tuple(bounds)


def _over(value: float, by: float) -> float:
    return value / by if by > 0 else math.inf
