"""The noise of objective perturbation, and its guarantee: what a budget buys of tilt, curvature and remainder.

With M = λP⁻¹ + σI, P the agreed public preconditioner (I without one), σ the regulariser's strength, θ₀ the agreed
start and b a vector of independent draws, the owner finds

    θ̂ = argmin over all θ of  F(θ) = (1/n) Σ ℓ̃(θ; x, y) + (σ/2)‖θ‖² + (λ/2)(θ − θ₀)ᵀP⁻¹(θ − θ₀) + bᵀθ

and releases θ̂ + v, v a little more noise. ℓ̃ is ωℓ with its slope clipped so that ‖∇ℓ̃‖ ≤ Ξ (still convex: φ′ stays
monotone); ω = min(1, r²/xᵀPx) lets a record beyond `reach` r count less. Then ε = ε₁ + ε₂ + ε₃ (docs/proofs/objective.md):

    ε₁: D and D′ give the same θ̂ for noises that differ by ∇(their losses), at most 2Ξ/n in norm;
        Laplace draws of scale 2Ξ/(nε₁), Ξ in L1: a ratio of at most e^ε₁.
        Normal draws (δ > 0), Ξ in L2: see `objective_deviation`.
    ε₂: the map from b to θ̂ stretches volume differently under D and D′, by det ratio at most 1 + s with
        s = c·r²/(n(λ + σμ)), c = sup φ″ and μ the least eigenvalue of P: ε₂ = log(1 + s), or s where a unit has
            many rows.
    ε₃: the solver stops within a known distance of θ̂; v, Laplace, hides the rest (`REMAINDER` of ε), low-order bits of θ̂
        in floating point included. A model too large for that (`Tilted.rounding`) is not released.

Assumed, and checked where it can be: a linear loss with a Lipschitz slope (squared, logistic, huber, smoothed hinge);
F's minimum over all of R^p (the learner projects later). That the solver reaches its tolerance for any records, and in how
many passes, is proved (`most_passes`); rounding that kept it from there would raise NotCertified after the charge.

Source: Chaudhuri, Monteleoni and Sarwate 2011, Algorithm 2; with (ε, δ), Kifer, Smith and Thakurta 2012 and, tight, Redberg,
Koskela and Wang 2024 (arXiv 2401.00583). Replacing a unit, coordinatewise noise, clipped slopes, an anchor of any shape and
what the solver leaves are ours.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float

from copriv.errors import AgreementError, InvalidInput, NotCertified
from copriv.losses import SmoothedHinge
from copriv.mechanisms.objective_solver import CHECK, FEW, Tilt, Tilted, sure_passes
from copriv.mechanisms.one_answer import in_memory
from copriv.model.records import InBlocks, Records
from copriv.privacy.noise import GRID, Releases
from copriv.privacy.release_time import timed
from copriv.types import Array, Loss
from copriv.validation import count, positive

REMAINDER = 0.01
"""The share of ε for what the solver leaves."""
LARGEST_SPEND = 600.0
"""An ε₂ that an anchor is chosen for is at most this: e^ε₂ stays a number, and the anchor above 0."""
V_SCALES = 40.0
"""v has room for its own rounding up to so many of its scales, which it passes with a probability of e⁻⁴⁰ a coordinate."""
LARGEST_DELTA = 0.05
"""Larger ones are refused: they are no guarantee that anybody means."""
NEAREST = 0.62
"""Least a of `objective_deviation`. From 0.613 on 2a·Q(a) ≥ φ(a), and the proof needs that (docs/proofs/objective.md)."""


@dataclass(frozen=True, eq=False)
class Perturbation(Tilt):
    """A tilted fitness, and how ε is split between its noise, its curvature and the solver's residual."""

    anchor: float | None = None
    """λ; None: the least with ε₂ = 0.4·ε."""
    many_rows: bool = False
    """Whether a unit may have several rows."""

    @cached_property
    def farthest(self) -> float:
        """r: the largest √(ω xᵀPx). Over the ball of B, √(xᵀPx) is largest at a corner."""
        if self.reach is not None:
            return self.reach
        p = len(self.start)
        own = p - int(self.intercept)
        corners = self.feature_bound * np.vstack([np.eye(p)[:own], -np.eye(p)[:own]])
        if self.intercept:
            corners[:, -1] = 1.0
        return float(np.sqrt(np.einsum("cj,jk,ck->c", corners, self.matrix, corners).max()))

    @cached_property
    def _least_eigenvalue(self) -> float:
        return float(self.eigenvalues[0]) * (1 - 1e-9)

    def smoothed(self, smoothing: float | None, **terms: Any) -> "Perturbation":
        """The same with other terms; a smoothing is a rounded hinge's."""
        surface = self.surface if smoothing is None else SmoothedHinge(smoothing)
        return replace(self, surface=surface, **terms)

    def _change(self, records: int, spent: float) -> float:
        """c·r²/(n·s), s the relative change of the Hessian that spends so much of ε: what M is to be at least."""
        s = spent if self.many_rows else np.expm1(min(spent, LARGEST_SPEND))
        return float(self.surface.curvature * self.farthest**2 / (records * s))

    def anchor_that_spends(self, records: int, spent: float) -> float:
        """λ for an ε₂ of so much; 0 or less where the regulariser is enough."""
        return self._change(records, spent) - self.regularization * float(self.eigenvalues[0])

    def firmness(self, records: int, epsilon: float) -> float:
        """λ, for an owner of n units and ε."""
        if self.anchor is not None:
            return self.anchor
        needed = self._change(records, min(0.4 * epsilon, LARGEST_SPEND))
        return max(needed * (1 + 1e-9) - self.regularization * self._least_eigenvalue, 0.0)

    def curvature_cost(self, records: int, epsilon: float) -> float:
        """ε₂: a rank-one change of the Hessian moves its log-determinant by log(1 + s), any other by s at most."""
        M = self.firmness(records, epsilon) + self.regularization * self._least_eigenvalue
        if not M > 0:
            raise AgreementError(
                "agreement.anchor: must be above 0, for without any regularisation no budget is enough"
            )
        s = self.surface.curvature * self.farthest**2 / (records * M)
        return float(s if self.many_rows else np.log1p(s)) * (1 + 1e-9)

    def strength(self, records: int, epsilon: float) -> float:
        """The least eigenvalue of M."""
        λ = self.firmness(records, epsilon)
        tied = λ if self.metric is None else float(np.linalg.eigvalsh(λ * self.inverse)[0])
        return tied * (1 - 1e-9) + self.regularization

    def noise_budget(self, records: int, epsilon: float) -> float:
        """ε₁ = ε − ε₂ − ε₃. Raises AgreementError, naming the least anchor, where nothing is left."""
        left = (1 - REMAINDER) * epsilon - self.curvature_cost(records, epsilon)
        if not left > 0:
            least = self._change(records, (1 - REMAINDER) * epsilon)
            raise AgreementError(
                f"agreement.anchor: {self.anchor:g} leaves nothing of epsilon {epsilon:g} for noise at {records} "
                f"records; it must be well above {least:.3g}, or left out"
            )
        return left

    def noise_scale(self, records: int, epsilon: float, delta: float = 0.0) -> float:
        """Scale of each coordinate of b: Laplace, or normal where δ > 0. `epsilon` and `delta` are already over κ."""
        ε1 = self.noise_budget(records, epsilon)
        sensitivity = 2.0 * self.bound / records
        return objective_deviation(sensitivity, ε1, delta, self.many_rows) if delta > 0 else sensitivity / ε1

    def remainder_scale(self, records: int, epsilon: float) -> float:
        """Scale of each coordinate of v: ‖θ − θ̂‖₁ ≤ √p ‖∇F(θ)‖₂/(least eigenvalue of M), on both sides.

        The proof has b with a density; OpenDP's b is within one step of the grid of such a draw (two geometric draws
        are two exponential ones rounded down), which counts as a part of ∇F.
        """
        p = len(self.start)
        residual = self.residual + np.sqrt(p) * 2.0**GRID
        # A smaller one than the second would be lost in its grid.
        off = max(np.sqrt(p) * residual / self.strength(records, epsilon), 100 * p * 2.0**GRID)
        return float(2.0 * off / (REMAINDER * epsilon))

    def certain(self, records: int, epsilon: float, delta: float, whole: float) -> bool:
        """Whether an owner's model is small enough to be released, where there is budget left for noise.

        whole: the largest loss at the start, 0. The model has F(θ̂) ≤ F(0), so (m/2)‖θ̂‖² ≤ whole + ‖b‖‖θ̂‖ for m the
        least eigenvalue of M. ‖b‖ is further out, for either law, less than once in 10⁹ answers.
        """
        m, p = self.strength(records, epsilon), len(self.start)
        b = self.noise_scale(records, epsilon, delta) * (np.sqrt(2.0 * p) + 25.0)
        farthest = b / m + np.sqrt((b / m) ** 2 + 2.0 * whole / m) + V_SCALES * self.remainder_scale(records, epsilon)
        return bool(self.tied(records, epsilon).rounding(farthest * np.ones(p)) <= self.residual / 8.0)

    def most_passes(self, records: int, epsilon: float, tilt: float) -> int:
        """Upper bound on the solver's passes over any records, for any ‖b‖₂ up to `tilt`."""
        λ, σ = self.firmness(records, epsilon), self.regularization
        least, largest = self.eigenvalues[[0, -1]]
        steepest = self.surface.curvature * self.farthest**2 + λ + σ * largest
        size = np.sqrt(largest) * (self.bound + σ * np.linalg.norm(self.start) + tilt)
        condition = float(steepest / (λ + σ * least)) * (1 + 1e-6)
        sure = sure_passes(condition, float(size), float(least), 0.5 * self.residual)
        return FEW + sure + sure // CHECK + 8

    def tied(self, records: int, epsilon: float) -> Tilted:
        """The solver for one owner's records."""
        return Tilted(self, self.firmness(records, epsilon))


def objective_deviation(sensitivity: float, epsilon: float, delta: float, many_rows: bool = False) -> float:
    """The standard deviation d of normal draws b for (ε₁, δ), Δ = 2Ξ/n in L2, one row a unit, by the exact profile.

    The noises that give θ̂ under D and D′ differ by w = (s x − s′x′)/n, |s|‖x‖₂ ≤ Ξ, so the log-ratio of their densities is
    bᵀw/d² + ‖w‖²/(2d²): largest where |s|‖x‖ = |s′|‖x′‖ = Ξ, at m|U| + m²/2 or at m′|V| + m′²/2, with m² + m′² = (Δ/d)² and
    U, V independent standard normals, whatever s and s′ do with b. One such term has the hockey-stick divergence
    2(Q(a) − e^ε₁·Q(a + m)), a = ε₁/m − m/2 ≥ 0; of m² it is superadditive for a ≥ `NEAREST`, so that m = Δ/d alone is worst.
    """
    if many_rows:
        raise AgreementError(
            'owner.delta: mechanism "objective" with delta above 0 is proved for one row a unit only; set delta = 0'
        )
    if not 0 < delta <= LARGEST_DELTA:
        raise InvalidInput(f"delta: must be above 0 and at most {LARGEST_DELTA}, not {delta!r}")
    return float(sensitivity / _shift(positive("epsilon", epsilon), delta)) * (1 + 1e-9)


@lru_cache(maxsize=4096)
def _shift(epsilon: float, delta: float) -> float:
    """The largest m = Δ/d of which `objective_deviation` says that it keeps (ε, δ)."""
    from scipy.optimize import brentq
    from scipy.special import erfcx, ndtri

    def shift(a: float) -> float:  # √(a² + 2ε) − a, which loses its digits where ε is small
        return float(2.0 * epsilon / (np.sqrt(a * a + 2.0 * epsilon) + a))

    def too_much(a: float) -> float:  # the profile over its own density at a, rounded up; e^ε = φ(a)/φ(a + m)
        here, there = (float(np.sqrt(np.pi / 2.0) * erfcx(x / np.sqrt(2.0))) for x in (a, a + shift(a)))  # Q/φ
        # Q/φ is convex and falls by 1 − aQ/φ: the second form where the first loses its digits.
        fall = min(here - there, shift(a) * (1.0 - a * here)) + 1e-15 * here
        return float(fall - 0.5 * delta * np.sqrt(2.0 * np.pi) * np.exp(0.5 * a * a))

    farthest = -float(ndtri(0.5 * delta))  # 2Q is δ there
    if not too_much(NEAREST) > 0:
        return shift(NEAREST)
    if too_much(farthest) < 0:
        farthest = float(brentq(too_much, NEAREST, farthest)) * (1 + 1e-9)
    return shift(farthest)


@dataclass(frozen=True, eq=False)
class ObjectiveAnswer:
    """The whole budget of a run in one answer: the minimiser of the tilted fitness, and what hides the solver's rest.

    Raises AgreementError where the anchor leaves no budget for noise, InvalidInput where noise cannot be certified.
    """

    agreed: Perturbation
    epsilon: Fraction
    delta: float
    units: int
    ahead = None

    def __post_init__(self) -> None:
        count("records", self.units)
        _ = self._tilt.scale
        if not self._hidden(self.agreed.start + V_SCALES * self._rest.scale):
            raise AgreementError(
                f'agreement: mechanism "objective" cannot hide its own rounding at {self.units} records and epsilon '
                f"{float(self.epsilon):g}; agree on a larger anchor, smaller features or more smoothing"
            )

    def _hidden(self, released: Float[Array, " p"]) -> bool:
        """Whether rounding at θ̂ + v stays within its share, with as much again for v."""
        return self._tilted.rounding(released) <= self.agreed.residual / 8.0

    @cached_property
    def _tilted(self) -> Tilted:
        return self.agreed.tied(self.units, float(self.epsilon))

    @property
    def scale(self) -> float:
        """Scale of each coordinate of b."""
        return self._tilt.scale

    @cached_property
    def _tilt(self) -> Releases:
        from copriv.privacy.approximate import GaussianAnswer
        from copriv.privacy.laplace import LaplaceAnswer

        n, ε, p = self.units, float(self.epsilon), len(self.agreed.start)
        ε1 = self.agreed.noise_budget(n, ε)
        sensitivity = 2.0 * self.agreed.bound / n
        if self.delta > 0:
            return GaussianAnswer(sensitivity, self.agreed.noise_scale(n, ε, self.delta) / sensitivity, p)
        return LaplaceAnswer(sensitivity, Fraction(ε1), p)

    @cached_property
    def _rest(self) -> Releases:
        from copriv.privacy.laplace import LaplaceAnswer

        ε3 = Fraction(REMAINDER) * self.epsilon * Fraction(999_999, 1_000_000)
        sensitivity = self.agreed.remainder_scale(self.units, float(self.epsilon)) * float(ε3)
        return LaplaceAnswer(sensitivity, ε3, len(self.agreed.start))

    @property
    def most_passes(self) -> int:
        """Upper bound on passes, unless a coordinate of b is beyond V_SCALES of its scales (probability e⁻⁴⁰ each)."""
        tilt = V_SCALES * self.scale * float(np.sqrt(len(self.agreed.start)))
        return self.agreed.most_passes(self.units, float(self.epsilon), tilt)

    def seconds(self, records: Records) -> float:
        """Seconds for `most_passes`: FEW of Newton's, half of them with a Hessian, and the sure ones of a gradient each."""
        rows, θ = self._tilted.prepared(records), self.agreed.start
        gradient, hessian, prepared = (
            float(np.mean(timed(work)))
            for work in (lambda: rows.gradient(θ, θ), lambda: rows.hessian(θ), lambda: self._tilted.prepared(records))
        )
        return prepared + 0.5 * FEW * (gradient + hessian) + (self.most_passes - FEW) * gradient

    def answer(self, loss: Loss, records: Records | InBlocks, theta: Float[Array, " p"]) -> Float[Array, " answer"]:
        """θ̂ + v. Where rounding could pass its share, which is told from θ̂ + v, or kept the solver from its goal: the start."""
        times = self.agreed.factors
        if not np.array_equal(theta / times, self.agreed.start):
            raise InvalidInput("objective: asked at another θ than the agreed start")
        tilt = self._tilt.release(np.zeros(len(theta)))
        try:
            released = self._rest.release(self._tilted.prepared(in_memory(records)).minimum(tilt))
        except NotCertified:
            released = self.agreed.start
        return times * (released if self._hidden(released) else self.agreed.start)
