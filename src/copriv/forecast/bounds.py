"""The papers' bounds, as published and as corrected, each with its constants spelled out and its conditions checked.

Write S₂ = Σ ε_i⁻², C = Ξ_g + Ξ and W = 8pΞ²m²S₂/n², the second moment of the noise in the learner's gradient (m = T in
the papers, erratum 8; they leave the p out, erratum 4).

| source                   | bounds           | value                                                                  |
| ------------------------ | ---------------- | ---------------------------------------------------------------------- |
| S Thm 2, as published    | best iterate, S1 | 8Ξ²ρS₂/(Ln²)                                                           |
| ... with the dimension   | "                | 8pΞ²ρS₂/(Ln²) · (m/T)²                                                 |
| ... and the smoothness   | "                | 4pλΞ²ρS₂/(Ln²) · (m/T)²                                                |
| ... at this T            | θ[T], S1         | e ← (1 − 2Lρ_k(1 − λρ_k/2)) e + λρ_k²W/2 from e = f(θ[1]) − f(θ*)      |
| S Thm 3, as published    | θ̄[T], S2         | c₂ (Ξ/n) √S₂ with c₂ = 4√2·D√T (2 + ln T)                              |
| ... last iterate         | θ[T], S2         | (D²/c₁ + c₁G²)(2 + ln T)/√T, G² = C² + W (Shamir, Zhang 2013, Thm 2)   |
| ... average              | θ̄[T], S2         | ζ_K D²√K/(2c₁) + (c₁G²/2) Σ_k ζ_k/√k, K = T − 1                        |
| A Thm 2, both forms      | θ_L, A1          | algorithms, "Bounds"                                                   |

*Smoothness.* The proof of S Thm 2 bounds (λ/2)‖θ[k+1] − θ[k]‖² but carries ρ_k²W, without the λ/2, from eq. (14) on. As
printed, 8Ξ²ρS₂/(Ln²) has the unit of ‖θ‖², not of f; with the factor kept it becomes 4λ….

*At this T.* The same descent step and 2L(f − f*) ≤ ‖∇f‖² give the recursion above for steps up to 2/λ: it keeps the
transient that erratum 5 finds missing.

*Average.* θ̄[T] = Σ ζ_k θ[k] with weights that do not fall in k (S, App. C), so ζ_k/(2c₁/√k) rises, and summing
f(θ[k]) − f* ≤ (d_k² − d_{k+1}²)/(2a_k) + a_kG²/2, d_k = ‖θ[k] − θ*‖ ≤ D, by parts leaves only its last value. The
papers point to Shamir and Zhang, whose averaging result is for other exponents; this one has no logarithm.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from copriv.errors import InvalidInput
from copriv.forecast.exact.synchronous import s1_steps, s2_average
from copriv.types import Array
from copriv.validation import count, finite_array, non_negative, positive


@dataclass(frozen=True)
class Bound:
    """An upper bound, what it bounds, and whether it may be used here.

    `conditions_met` is True only for a statement about the T that is run, all of whose conditions hold; `holds_for`
    spells them out, and names those that fail.
    """

    source: str
    quantity: Literal["cost", "squared parameter error"]
    """E f(θ) − f(θ*), in the unit of f, or E‖θ − θ*‖²."""
    value: float
    holds_for: str
    conditions_met: bool


@dataclass(frozen=True, eq=False)
class Setting:
    """The constants that the bounds are made of. Raises InvalidInput.

    `epsilon` holds each kind of owner's budget and `counts` how many owners there are of it (default one each).
    `answers` is m, the answers that each owner's noise is made for (default T). `strong_convexity` L and `smoothness` λ
    are of f (λ = inf: not smooth); `regularization` σ is the strong convexity of g; `diameter` D of Θ may be inf.
    """

    gradient_bound: float
    regularizer_bound: float
    n_parameters: int
    total_records: float
    epsilon: Float[Array, " kinds"]
    horizon: int
    step: float
    strong_convexity: float = 0.0
    smoothness: float = math.inf
    regularization: float = 0.0
    diameter: float = math.inf
    answers: int | None = None
    counts: Float[Array, " kinds"] | None = None

    def __post_init__(self) -> None:
        positive("gradient_bound", self.gradient_bound)
        positive("total_records", self.total_records)
        positive("step", self.step)
        count("n_parameters", self.n_parameters)
        count("horizon", self.horizon)
        non_negative("strong_convexity", self.strong_convexity)
        non_negative("regularization", self.regularization)
        for name, value in (
            ("regularizer_bound", self.regularizer_bound),
            ("smoothness", self.smoothness),
            ("diameter", self.diameter),
        ):
            if not value >= 0:
                raise InvalidInput(f"{name}: must be 0 or more, or inf, not {value!r}")
        if self.answers is not None:
            count("answers", self.answers)
        ε = finite_array("epsilon", self.epsilon, 1)
        N = self.numbers
        if len(ε) == 0 or len(N) != len(ε) or not (ε > 0).all() or not (N >= 1).all():
            raise InvalidInput("epsilon: every kind of owner needs a budget above 0 and a count of at least 1")

    @property
    def numbers(self) -> Float[Array, " kinds"]:
        """How many owners there are of each kind."""
        return np.ones(len(self.epsilon)) if self.counts is None else finite_array("counts", self.counts, 1)

    @property
    def noise_moment(self) -> float:
        """W = E‖Σ ω_i w_i‖² = 8pΞ²m²S₂/n²."""
        m = self.horizon if self.answers is None else self.answers
        return 8.0 * self.n_parameters * (self.gradient_bound * m / self.total_records) ** 2 * self.inverse_squares

    @property
    def inverse_squares(self) -> float:
        """S₂ = Σ ε_i⁻² over all owners."""
        return float(self.numbers @ self.epsilon**-2.0)


def s_theorem_2(setting: Setting, start_gap: float | None = None) -> tuple[Bound, ...]:
    """S Thm 2 for rule S1: as published, with the dimension, with the smoothness, and at this T.

    The last needs `start_gap` = f(θ[1]) − f(θ*) and is left out without it. Bounds on the cost; infinite where L = 0.
    """
    s, T, p = setting, setting.horizon, setting.n_parameters
    L, λ, Ξ, ρ, n = s.strong_convexity, s.smoothness, s.gradient_bound, s.step, s.total_records
    needs = [
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
    m = T if s.answers is None else s.answers
    with_p = published * p * (m / T) ** 2
    bounds = [
        _bound(
            "S, Thm 2, eq. (9), as published", published, needs, f"{asymptotic}; noise of one coordinate (erratum 4)"
        ),
        _bound("S, Thm 2, with the dimension", with_p, needs, f"{asymptotic}; the proof's factor λ/2 is missing"),
        _bound("S, Thm 2, with the dimension and the smoothness", with_p * λ / 2.0, needs, asymptotic),
    ]
    if start_gap is not None:
        e = non_negative("start_gap", start_gap)
        W = s.noise_moment
        usable = L > 0 and math.isfinite(λ)
        for ρ_k in s1_steps(ρ, T):
            e = (1.0 - 2.0 * L * ρ_k * (1.0 - λ * ρ_k / 2.0)) * e + λ * ρ_k**2 * W / 2.0 if usable else math.inf
        bounds.append(_bound("S, Thm 2, at this T", e, needs, None))
    return tuple(bounds)


def s_theorem_3(setting: Setting) -> tuple[Bound, ...]:
    """S Thm 3 for rule S2: as published with Shamir and Zhang's constant, and at this T for θ[T] and for θ̄[T].

    Bounds on the cost; infinite where Θ is unbounded.
    """
    s, T = setting, count("horizon", setting.horizon, 2)
    D, c1 = s.diameter, s.step
    G2 = (s.regularizer_bound + s.gradient_bound) ** 2 + s.noise_moment
    needs = [(math.isfinite(D), "Θ bounded"), (math.isfinite(G2), "gradients of g bounded over Θ")]
    last = (2.0 + math.log(T)) / math.sqrt(T)
    # c₁ = D/G makes D²/c₁ + c₁G² = 2DG; the theorem's right side keeps of G² the noise alone, of one coordinate.
    published = 2.0 * D * math.sqrt(8.0 * s.inverse_squares) * s.gradient_bound * T / s.total_records * last
    ζ, a = _average_weights(T), c1 / np.sqrt(np.arange(1.0, T))
    average = D**2 * float(ζ[-1] / (2.0 * a[-1])) + 0.5 * G2 * float(ζ @ a)
    return (
        _bound(
            "S, Thm 3, eq. (11), as published", published, needs,
            "c₁ chosen for it and noise far above the gradient itself, of which it keeps nothing; noise of one "
            "coordinate (erratum 4)",
        ),
        _bound("S, Thm 3, last iterate (Shamir and Zhang 2013, Thm 2)", (D**2 / c1 + c1 * G2) * last, needs, None),
        _bound("S, Thm 3, average", average, needs, None),
    )  # fmt: skip


def a_theorem_2(
    setting: Setting, quantity: Literal["cost", "squared parameter error"] = "squared parameter error"
) -> tuple[Bound, ...]:
    """A Thm 2 for rule A1, from its appendix: as published, and with √p in ν_i and the cap m.

    The constants of eq. (8) are not used: they are swapped and a 1/T is dropped (erratum 6). λ = 1 − 1/(2N) in both: as
    printed λ is 1 and the bound infinite (erratum 3). The cost follows from the parameter error E by C√E, since f is
    C-Lipschitz on Θ. Infinite where σ = 0 or Ξ_g is infinite.
    """
    s, T = setting, setting.horizon
    m = T if s.answers is None else s.answers
    α = s.step / T**2
    needs = [
        (s.regularization > 0, "g strongly convex"),
        (math.isfinite(s.regularizer_bound), "gradients of g bounded over Θ"),
        (α < 1, "ρ/T² < 1"),
    ]
    why = f"limsup over iterations, step ρ/T² and noise kept; not a statement at T = {T} (erratum 5); c_L = 1/2"

    def value(answers: int, coordinates: int) -> float:
        if not (needs[0][0] and needs[1][0]):
            return math.inf
        C, N, σ = s.regularizer_bound + s.gradient_bound, float(s.numbers.sum()), s.regularization
        ν = 2.0 * np.sqrt(2.0 * coordinates) * s.gradient_bound * answers / (s.total_records * s.epsilon)
        total = 1.0 + N * float(s.numbers @ (1.0 + ν / C) ** 2)
        # 1 − √λ = (1 − λ)/(1 + √λ), which keeps its digits for many owners
        gap = 1.0 / (2.0 * N) / (1.0 + math.sqrt(1.0 - 1.0 / (2.0 * N)))
        square = N * α * (C / σ) ** 2 * total
        error = square + 2.0 * N**2 * α * (C / σ) ** 2 * math.sqrt(N + 1.0) / gap * math.sqrt(total)
        return error if quantity == "squared parameter error" else C * math.sqrt(error)

    return (
        _bound("A, Thm 2, as published", value(T, 1), needs, f"{why}; noise of one coordinate (erratum 4)", quantity),
        _bound("A, Thm 2, corrected", value(m, s.n_parameters), needs, why, quantity),
    )


def _average_weights(horizon: int) -> Float[Array, " iterates"]:
    """ζ_k, the weight of θ[k] in θ̄[T], k = 1 … T−1; Σ ζ = 1 and they do not fall."""
    mix = s2_average(horizon)
    kept = np.concatenate([np.cumprod((1.0 - mix)[:0:-1])[::-1], [1.0]])
    return np.asarray(mix * kept)


def _over(value: float, by: float) -> float:
    return value / by if by > 0 else math.inf


def _bound(
    source: str,
    value: float,
    needs: list[tuple[bool, str]],
    caveat: str | None,
    quantity: Literal["cost", "squared parameter error"] = "cost",
) -> Bound:
    failing = [text for holds, text in needs if not holds]
    text = ", ".join(text for _, text in needs)
    text += f" (not so here: {', '.join(failing)})" if failing else " (so here)"
    if caveat is not None:
        text += f"; {caveat}"
    return Bound(source, quantity, float(value), text, caveat is None and not failing)


@dataclass(frozen=True)
class Fit:
    """ψ = constant/(nε)² fitted to measurements, and how well that law does.

    `slope` is the exponent of nε with ± one standard error where it is free (the law says −2); `residual` is the root
    mean square of ln ψ around the law with slope −2.
    """

    constant: float
    slope: float
    slope_error: float
    residual: float

    def predict(self, n: float, epsilon: float) -> float:
        """ψ by the law with slope −2."""
        return self.constant / (n * epsilon) ** 2


def fit_inverse_square(n: object, epsilon: object, psi: object) -> Fit:
    """Fit c/(n²ε²) to measured ψ by least squares in logarithms; n and ε may be one number for all.

    What the papers draw as "the bound in Theorem 2" is this fit (erratum 9). Raises InvalidInput on fewer than 3
    points, a ψ that is not above 0, or points that all have the same nε.
    """
    ψ = finite_array("psi", psi, 1)
    n_, ε = (np.broadcast_to(np.asarray(v, dtype=np.float64), ψ.shape) for v in (n, epsilon))
    x = finite_array("n * epsilon", n_ * ε, 1)
    if len(ψ) < 3 or not (ψ > 0).all() or not (x > 0).all() or not np.ptp(x) > 1e-9 * x.max():
        raise InvalidInput(
            "fit: needs 3 or more points with psi, n and epsilon above 0, at two or more different n * epsilon"
        )
    u, v = np.log(x), np.log(ψ)
    away = u - u.mean()
    slope = float(away @ v / (away @ away))
    left = v - v.mean() - slope * away
    error = math.sqrt(float(left @ left) / (len(v) - 2) / float(away @ away))
    level = float((v + 2.0 * u).mean())
    return Fit(math.exp(level), slope, error, float(np.sqrt(np.mean((v + 2.0 * u - level) ** 2))))
