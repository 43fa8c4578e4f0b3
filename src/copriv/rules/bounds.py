"""Constants and conditions of the papers' bounds; the theorems are with their rules.

Write S₂ = Σ ε_i⁻², C = Ξ_g + Ξ and W = 8pΞ²m²S₂/n², the second moment of the noise in the learner's gradient (m = T in
the papers, erratum 8; they leave the p out, erratum 4).

| source                   | bounds           | value                                                                  |
| ------------------------ | ---------------- | ---------------------------------------------------------------------- |
| S Thm 2, as published    | best iterate, S1 | 8Ξ²ρS₂/(Ln²)                                                           |
| ... with the dimension   | "                | 8pΞ²ρS₂/(Ln²) · (m/T)²                                                 |
| ... and the smoothness   | "                | 4pλΞ²ρS₂/(Ln²) · (m/T)²                                                |
| S Thm 3, as published    | θ̄[T], S2         | c₂ (Ξ/n) √S₂ with c₂ = 4√2·D√T (2 + ln T)                              |
| ... last iterate         | θ[T], S2         | (D²/c₁ + c₁G²)(2 + ln T)/√T, G² = C² + W (Shamir, Zhang 2013, Thm 2)   |
| ... average              | θ̄[T], S2         | ζ_K D²√K/(2c₁) + (c₁G²/2) Σ_k ζ_k/√k, K = T − 1                        |
| A Thm 2, both forms      | θ_L, A1          | algorithms, "Bounds"                                                   |
| S (10), (12)             | E‖θ − θ*‖²       | 4/L times the cost as published; 2/L times it, where f is L-strongly convex |

*Agreements beyond the papers' setting.* W is the second moment of the noise of the agreed mechanism, for any law with mean 0,
as the proofs use nothing else. With κ holders of a record, its ε is divided by κ, which is included in W. A multiple of the
identity as preconditioner is another step. Conditions that no proof covers make a bound unusable, and are named: clipped
gradients (the bound then holds for another convex loss), weights other than n_i/n (for the fitness with these weights), any
other preconditioner, a start outside Θ.

*Parameters and smoothness*: erratum 12, and docs/explanation/cost-of-privacy.md. *Average.* θ̄[T] = Σ ζ_k θ[k] with weights
that do not fall in k (S, App. C), so ζ_k/(2c₁/√k) rises, and summing f(θ[k]) − f* ≤ (d_k² − d_{k+1}²)/(2a_k) + a_kG²/2,
d_k = ‖θ[k] − θ*‖ ≤ D, by parts leaves only its last value. The papers point to Shamir and Zhang, whose averaging result is
for other exponents; this one has no logarithm.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Float

from copriv.errors import InvalidInput
from copriv.types import Array
from copriv.validation import count, finite_array, non_negative, positive

Quantity = Literal["cost", "squared parameter error"]
"""E f(θ) − f(θ*), in the unit of f, or E‖θ − θ*‖²."""


@dataclass(frozen=True)
class Bound:
    """An upper bound, what it bounds, and whether it may be used here.

    `conditions_met` is True only for a statement about the T that is run, all of whose conditions hold; `holds_for`
    spells them out, and names those that fail.
    """

    source: str
    quantity: Quantity
    value: float
    holds_for: str
    conditions_met: bool


@dataclass(frozen=True, eq=False)
class Setting:
    """The constants in the bounds. Raises InvalidInput.

    `answers` is m, the answers that each owner's noise is made for (default T). `strong_convexity` L and `smoothness` λ
    are of f (λ = inf: not smooth); `regularization` σ is the strong convexity of g; `diameter` D of Θ may be inf.
    """

    gradient_bound: float
    regularizer_bound: float
    n_parameters: int
    total_records: float
    epsilon: Float[Array, " owners"]
    """Budget of each participant."""
    horizon: int
    step: float
    strong_convexity: float = 0.0
    smoothness: float = math.inf
    regularization: float = 0.0
    diameter: float = math.inf
    answers: int | None = None
    noise: Float[Array, " owners"] | None = None
    """E‖w_i·noise‖² of each participant, in the learner's gradient; Laplace noise for m answers and weights n_i/n when not
    given: 8pΞ²m²/(nε_i)²."""
    moves: int | None = None
    """Number of steps of S1 and S2; T − 1 when not given. Fewer where m ends the run."""
    assumed: tuple[tuple[bool, str], ...] = ()
    """Assumptions of every proof: whether each holds here, and its words."""

    def __post_init__(self) -> None:
        for name in ("gradient_bound", "total_records", "step"):
            positive(name, getattr(self, name))
        for name in ("strong_convexity", "regularization"):
            non_negative(name, getattr(self, name))
        for name in ("regularizer_bound", "smoothness", "diameter"):
            if not getattr(self, name) >= 0:
                raise InvalidInput(f"{name}: must be 0 or more, or inf, not {getattr(self, name)!r}")
        for name in ("n_parameters", "horizon", "answers", "moves"):
            if getattr(self, name) is not None:
                count(name, getattr(self, name))
        ε = finite_array("epsilon", self.epsilon, 1)
        if len(ε) == 0 or not (ε > 0).all():
            raise InvalidInput("epsilon: every owner needs a budget above 0")

    @property
    def noise_moments(self) -> Float[Array, " owners"]:
        """Contribution of each participant to W: `noise`, or 8pΞ²m²/(nε_i)²."""
        if self.noise is not None:
            return self.noise
        m = self.answers or self.horizon
        return 8.0 * self.n_parameters * (self.gradient_bound * m / (self.total_records * self.epsilon)) ** 2

    @property
    def noise_moment(self) -> float:
        """W = E‖Σ ω_i w_i‖²."""
        return float(self.noise_moments.sum())

    @property
    def rounds(self) -> int:
        """Number of steps of S1 and S2 in a whole run."""
        return self.moves or self.horizon - 1

    @property
    def inverse_squares(self) -> float:
        """S₂ = Σ ε_i⁻² over all owners."""
        return float(np.sum(self.epsilon**-2.0))


def on_parameters(costs: tuple[Bound, ...], setting: Setting) -> tuple[Bound, ...]:
    """The same bounds as ones on E‖θ − θ*‖²: the first, published one 4/L times (S (10), (12)), the others 2/L times.

    None where f is not strongly convex.
    """
    L = setting.strong_convexity
    if not L > 0:
        return ()
    found = []
    for cost, factor in zip(costs, (4.0, *[2.0] * len(costs)), strict=False):
        source = f"{cost.source}: parameters, {factor:g}/L times the cost"
        found.append(replace(cost, source=source, quantity="squared parameter error", value=factor * cost.value / L))
    return tuple(found)


def checked_bound(
    source: str, value: float, needs: list[tuple[bool, str]], caveat: str | None, quantity: Quantity = "cost"
) -> Bound:
    """A bound with its conditions, each with whether it holds, in words; a caveat keeps it from being used here."""
    failing = [text for holds, text in needs if not holds]
    text = ", ".join(text for _, text in needs)
    if failing:
        text += f" (not so here: {', '.join(failing)})"
    else:
        text += " (so here)"
    if caveat is not None:
        text += f"; {caveat}"
    return Bound(source, quantity, float(value), text, caveat is None and not failing)
