"""Posterior of each owner's heterogeneity and of its best model, from its own public rows and the other owners'.

Let d_i = θ_i − θ* for owner i, A_i and A the curvature at θ* of its rows and of all. The mean gradient over its n_i⁰ public
rows at θ* is m_i = −A_i d_i plus noise of covariance φ_i A_i/n_i⁰. In coordinates with A = 1 and A_i = diag(λ) these are p
independent numbers. The prior is

    d  ~  N(0, u_i c (λ + 1/n_i⁰)^(−γ) + 2f(θ*) s eeᵀ),      c = 2f(θ*)/p,

so that E ½dᵀAd = u_i f(θ*) where λ = 1 and s = 0.

- e is the direction of a shift that is the same for every record: owners often differ in their level (a base rate, a wage)
  more than in anything else. s is the variance of that shift; the prior probability of s = 0 is a half.
- γ is the dependence on curvature. At γ = 0 deviations are as large in directions in which an owner's records hardly vary as
  in others. At γ = 1 they cost its own records the same in every direction, and all records more: owners that are sorted by
  a feature have their own slopes where their records hardly vary. The prior is uniform on five values.
- 1/n_i⁰ bounds λ from below in directions that none of its rows has.

For a loss with a kink, A_i has the size given by the rows near it, and the shape of gradients and features (`evidence_of`).
Either all u_i are 0, with a prior probability of a half where public rows name owners, or log u_i is normal with a common
mean and width, both unknown, whose prior is that of a table without strata (`heterogeneity.unknown`). u_i, γ and s are on
grids, summed over exactly; d given them is normal.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
from jaxtyping import Float

from copriv.model.records import Records
from copriv.populations.public_sample import PublicSample
from copriv.populations.world import curvature_of
from copriv.terms.heterogeneity import LEAST, unknown
from copriv.types import Array

LEVELS = np.geomspace(LEAST, 30.0, 90)
"""Grid of u_i."""
MIDDLES = np.geomspace(3e-4, 10.0, 27)
WIDTHS = np.array([0.4, 0.6, 0.9, 1.3])
"""Grid of the standard deviation of log u_i between owners of one table; 0.4 to 1.3 in groups of real tables."""
ALIKE = 0.5
"""Prior probability that no owner's deviation is more than such a shift, where public rows name owners. Without it a few
hundred rows of owners that are alike give the heterogeneity that real tables usually have; where a pilot's answers alone tell
of owners, it makes right choices rarer on real tables (decision 0017)."""
GAMMAS = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
"""Grid of γ."""
SHIFTS = np.array([0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0])
"""Grid of s."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """An owner's public rows, in coordinates in which the pooled curvature is 1 and its own diagonal."""

    basis: Float[Array, "p p"]
    """V: θ_i − θ* = V d, VᵀAV = 1, VᵀA_iV = diag(curvature)."""
    curvature: Float[Array, " p"]
    pull: Float[Array, " p"]
    """Vᵀm, m the mean gradient of its rows at θ*: −curvature·d plus noise of variance noise·curvature."""
    noise: Float[Array, " p"] | float
    rows: int
    """n_i⁰."""
    shift: Float[Array, " p"]
    """The direction e of a common shift of all predictions, scaled to unit cost eᵀAe."""

    @property
    def _seen(self) -> Any:
        return self.curvature > 1e-6

    @property
    def _width(self) -> Float[Array, " p"]:
        return self.curvature + 1.0 / max(self.rows, 1)

    def log_likelihood(self, variance: Float[Array, " levels"], gamma: float, s: float) -> Float[Array, " levels"]:
        """Log likelihood under d ~ N(0, variance · width^(−gamma) + s · shift shiftᵀ), at each variance."""
        λ, z = self.curvature[self._seen], self.pull[self._seen]
        noise = np.broadcast_to(self.noise, self._seen.shape)[self._seen]
        total = variance[:, None] * λ**2 / self._width[self._seen] ** gamma + noise * λ
        along = λ * self.shift[self._seen]
        size, projection = 1.0 + s * np.sum(along**2 / total, axis=1), np.sum(along * z / total, axis=1)
        plain = np.sum(np.log(total) + z**2 / total, axis=1)
        return np.asarray(-0.5 * (plain + np.log(size) - s * projection**2 / size))

    def with_pilot(
        self, turn: Float[Array, "p p"], pull: Float[Array, " p"], noise: Float[Array, " p"], records: int
    ) -> "Evidence":
        """The evidence of its public rows together with that of a pilot's answer, which is over all its records.

        turn: Vᵀ times the inverse transpose of the basis that the answer is told in. pull, noise: −d with noise, its variance.
        """
        λ = np.where(self._seen, self.curvature, 1.0)
        own = np.where(self._seen, 1.0 / np.maximum(self.noise * λ, 1e-300), 0.0)
        pull, told = λ * (turn @ pull), 1.0 / (λ**2 * (turn**2 @ noise))
        both = own + told
        return replace(
            self, curvature=λ, pull=(own * self.pull + told * pull) / both, noise=1.0 / (both * λ), rows=records
        )

    def drawn(
        self,
        rng: np.random.Generator,
        variance: Float[Array, " draws"],
        gamma: Float[Array, " draws"],
        s: Float[Array, " draws"],
    ) -> Float[Array, "draws p"]:
        """Draw θ_i − θ* once for each prior: first the common shift, then the other deviations given it."""
        prior = self._width ** gamma[:, None] / variance[:, None]
        λ, z = self.curvature, np.where(self._seen, self.pull, 0.0)
        total = np.where(self._seen, λ**2 / prior + self.noise * λ, np.inf)
        size = 1.0 + s * np.sum((λ * self.shift) ** 2 / total, axis=1)
        mean = -s * np.sum(λ * self.shift * z / total, axis=1) / size
        shifted = (mean + np.sqrt(s / size) * rng.normal(size=len(s)))[:, None] * self.shift
        spread = 1.0 / (prior + λ / self.noise)
        mean = -spread * (z + np.where(self._seen, λ, 0.0) * shifted) / self.noise
        return np.asarray((shifted + mean + np.sqrt(spread) * rng.normal(size=mean.shape)) @ self.basis.T)


def evidence_of(sample: PublicSample, rows_of: Sequence[Sequence[int]]) -> tuple[Evidence, ...]:
    """Summarize each owner's rows; rows_of: their indices among the public rows."""
    problem = sample.problem
    r = problem.owners[0]
    g = problem.fitness.loss.gradients(sample.optimum.theta, r.features, r.target)
    A_all, unit = sample.metric, np.sqrt(np.diag(sample.metric))
    inverse: Array = np.linalg.pinv(A_all / np.outer(unit, unit), rcond=1e-10, hermitian=True) / np.outer(unit, unit)
    everybody = float(np.sum((g @ inverse) * g)) / len(g) / len(inverse)
    shift = common_shift(r.features, A_all)
    found = []
    for rows in map(list, rows_of):
        if not rows:
            V = scipy.linalg.eigh(A_all * 0.0, A_all)[1]
            found.append(Evidence(V, np.zeros(len(V)), np.zeros(len(V)), 1.0, 0, V.T @ A_all @ shift))
            continue
        own = Records(r.features[rows], r.target[rows], r.weight[rows])
        A = curvature_of(problem.fitness_of(own), sample.optimum.theta)
        away = g[rows] - g[rows].mean(axis=0)
        if not problem.loss.smooth:
            # Few rows are near a kink, and in directions that they leave flat, A would overstate the deviation a thousandfold:
            # it gets the mean shape of the second moments of gradients and of features.
            shapes = [away.T @ away, own.features.T @ own.features]
            parts = [shape / size for shape in shapes if (size := float(np.sum(inverse * shape))) > 0]
            if parts:
                A = np.asarray(float(np.sum(inverse * A)) / len(parts) * sum(parts))
        size = max(float(np.sum(inverse * A)), 1e-12)
        φ = float(np.sum((away @ inverse) * away)) / max(len(rows) - 1, 1) / size
        φ = (φ * len(rows) + everybody * 10) / (len(rows) + 10)  # the pooled estimate counts for ten rows
        λ, V = scipy.linalg.eigh(A, A_all)
        # θ* is fitted to these rows too, which removes their share of the noise.
        noise = φ / len(rows) * (1.0 - len(rows) / len(g))
        pull, along = V.T @ g[rows].mean(axis=0), V.T @ A_all @ shift
        found.append(Evidence(V, np.maximum(λ, 0.0), pull, max(noise, 1e-300), len(rows), along))
    return tuple(found)


def common_shift(x: Float[Array, "rows p"], hessian: Float[Array, "p p"]) -> Float[Array, " p"]:
    """Direction of θ that shifts all predictions alike, scaled to unit cost; 0 where the columns do not span a constant."""
    shift = np.asarray(np.linalg.lstsq(x, np.ones(len(x)), rcond=1e-10)[0], dtype=np.float64)
    cost = float(shift @ hessian @ shift)
    residual = float(np.mean(np.square(x @ shift - 1.0)))
    if residual > 0.1 or cost <= 0:
        return 0.0 * shift
    return np.asarray(shift / np.sqrt(cost))


def posterior(
    sample: PublicSample, rows_of: Sequence[Sequence[int]]
) -> tuple[Float[Array, "draws owners"], Float[Array, "draws groups p"]]:
    """Draws of u_i, and of each owner's θ_i − θ*; the last group are public rows of no owner."""
    others = set(range(len(sample.problem.unbounded[0]))).difference(*rows_of)
    groups = [*rows_of, sorted(others)]
    f, draws, rng = sample.optimum.value, 400, np.random.default_rng([len(rows_of), 12])
    evidence, c = evidence_of(sample, groups), 2.0 * f / sample.problem.n_parameters
    rows = np.array([one.rows / groups.count(group) for one, group in zip(evidence, groups, strict=True)])
    if (pilot := sample.pilot) is not None and pilot.by_owner:
        records = sample.problem.terms.records
        answered = [
            one.with_pilot(one.basis.T @ sample.hessian @ pilot.basis, pull, noise, int(n))
            for one, pull, noise, n in zip(evidence[:-1], pilot.pull, pilot.noise, records, strict=True)
        ]
        evidence, rows = (*answered, evidence[-1]), np.append(records, 0.0)
    log = np.array(
        [[[one.log_likelihood(c * LEVELS, γ, 2.0 * f * s) for one in evidence] for s in SHIFTS] for γ in GAMMAS]
    )
    like = np.exp(log - log.max(axis=(0, 1, 3), keepdims=True))
    at, middles = np.log(LEVELS), np.log(MIDDLES)
    between = np.exp(-0.5 * ((at - middles[:, None, None]) / WIDTHS[:, None]) ** 2)
    between /= between.sum(axis=2, keepdims=True)
    alike = np.broadcast_to(LEVELS[0] == LEVELS, (1, *between.shape[1:]))
    between = np.concatenate([between, alike])
    by_owner = np.einsum("mwu,gsiu->gsmwi", between, like[:, :, : len(rows_of)], optimize=True)
    # Between tables log u has a standard deviation of 1.5: 1.25 was measured, grouped by region, payer, grade and age.
    prior = -0.5 * ((middles - np.log(unknown(sample.unexplained).value)) / 1.5) ** 2
    none_differs = ALIKE if any(map(len, rows_of)) else 0.0
    with np.errstate(divide="ignore"):
        prior = np.append(prior - np.log(np.exp(prior).sum()) + np.log(1.0 - none_differs), np.log(none_differs))
    none = np.where(SHIFTS == 0.0, np.log(max(len(SHIFTS) - 1, 1)), 0.0)
    weight = np.log(np.maximum(by_owner, 1e-300)).sum(axis=4) + prior[:, None] + none[:, None, None]
    weight = np.exp(weight - weight.max()).ravel()
    drawn = rng.choice(len(weight), size=draws, p=weight / weight.sum())
    gamma, shift, middle, width = np.unravel_index(drawn, by_owner.shape[:4])
    shape = between[middle, width]
    levels, deviations = np.empty((draws, len(evidence))), np.empty((draws, len(evidence), len(evidence[0].pull)))
    for i, one in enumerate(evidence):
        cumulative = np.cumsum(shape * like[gamma, shift, i], axis=1)
        at_level = (cumulative < rng.random((draws, 1)) * cumulative[:, -1:]).sum(axis=1).clip(0, len(LEVELS) - 1)
        levels[:, i] = LEVELS[at_level]
        deviations[:, i] = one.drawn(rng, c * LEVELS[at_level], GAMMAS[gamma], 2.0 * f * SHIFTS[shift])
    # The mean deviation Σ n_i⁰A⁻¹A_i(θ_i − θ*)/n⁰ is 0 by definition of θ*, whose error worlds draw: it is subtracted.
    follows = np.array([(one.basis * one.curvature) @ one.basis.T @ sample.metric for one in evidence])
    mean = np.einsum("g,dgp,gqp->dq", rows / rows.sum(), deviations, follows, optimize=True)
    return levels[:, :-1], deviations - mean[:, None, :]
