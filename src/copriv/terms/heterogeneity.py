"""Heterogeneity of the owners: one public number, its source and its range.

**Heterogeneity** u is the ψ, on the records of all owners, of a perfect model of one owner's own population. It is 0 where
all populations are the same; 0.02 means two percent worse than the best common model. With θ_i the owner's own optimum and
A = ∇²f,

    u_i  ≈  ½ (θ_i − θ*)ᵀ A (θ_i − θ*) / f(θ*),        u = Σ (n_i/n) u_i.

It is *stated* by the parties, *estimated* from public rows with labels of their owner or stratum, estimated from the *answers*
of a run (which are public), or not known. Not stated does not mean 0: the range is then that of real tables with grouped
rows (`UNKNOWN`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri, stdtrit

from copriv.errors import InvalidInput
from copriv.formatting.cards import Shown
from copriv.types import Array

Source = Literal["stated", "strata", "answers", "not stated"]
LEAST = 1e-4
"""Heterogeneity below this counts as 0."""


@dataclass(frozen=True)
class Heterogeneity(Shown):
    """u, its 90 % range and its source. Log-normal between `low` and `high`."""

    value: float
    low: float
    high: float
    source: Source

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.value <= self.high < np.inf:
            raise InvalidInput(
                f"heterogeneity: needs 0 ≤ low ≤ value ≤ high, not {self.low!r}, {self.value!r}, {self.high!r}"
            )

    @classmethod
    def stated(cls, given: float | Sequence[float]) -> "Heterogeneity":
        """A number, or a range (low, high) whose middle is the value. Raises InvalidInput on anything else."""
        if isinstance(given, int | float):
            return cls(float(given), float(given), float(given), "stated")
        if len(given) != 2:
            raise InvalidInput(f"heterogeneity: a number, or a range of two, not {len(given)} numbers")
        low, high = float(given[0]), float(given[1])
        middle = 0.5 * (low + high)
        if low > 0:
            middle = float(np.sqrt(low * high))
        return cls(middle, low, high, "stated")

    @property
    def alike(self) -> bool:
        """Whether owners are known to be alike."""
        return self.high < LEAST

    def quantile(self, probability: float) -> float:
        """Quantile of u: `low` at 5 %, `value` at 50 %, `high` at 95 %."""
        z = float(ndtri(probability) / ndtri(0.95))
        low, middle, high = (max(u, LEAST) for u in (self.low, self.value, self.high))
        end = high if z > 0 else low
        u = float(middle * (end / middle) ** abs(z))
        return u * (u > LEAST)


UNKNOWN = Heterogeneity(0.02, 0.0, 1.0, "not stated")
"""Heterogeneity where nothing is stated and a model explains hardly anything. Groups of real tables (regions, occupations,
departments, payers) have between 0.003 and 0.1, half of them less than 0.02; owners may also be alike, or sorted by target."""


def unknown(unexplained: float) -> Heterogeneity:
    """Heterogeneity where nothing is stated: `UNKNOWN`, relative to the variance that a model leaves unexplained.

    unexplained: f of the best model over f of the best constant (1 − R²). Differences between groups are a share of the whole
    variance, and ψ is relative to the unexplained part: where that is a tenth, u is ten times as large.
    """
    times = 1.0 / max(unexplained, 0.05)  # at most 95 % count as explained
    return Heterogeneity(times * UNKNOWN.value, UNKNOWN.low, times * UNKNOWN.high, "not stated")


def from_strata(
    gradients: Float[Array, "records p"],
    share: Float[Array, " records"],
    strata: np.ndarray[tuple[int], np.dtype[np.int64]],
    hessian: Float[Array, "p p"],
    optimum: float,
) -> Heterogeneity:
    """Estimate u from public rows with labels of their owner or stratum.

    gradients: ∇ℓ of each row at the public optimum; share: the rows' weights, Σ = 1; strata: an index a row.
    hessian, optimum: ∇²f and f there. A stratum's mean gradient is −A(θ_i − θ*) and sampling noise, whose variance its
    own rows give and which is subtracted: the estimate is unbiased where the rows of a stratum are a random sample of it.
    The range is the jackknife's over strata. Raises InvalidInput with fewer than two strata of two rows.
    """
    inverse: Array = np.asarray(np.linalg.pinv(hessian, rcond=1e-10, hermitian=True), dtype=np.float64)
    means, weights, noise = [], [], []
    for label in np.unique(strata):
        inside = strata == label
        rows, size = gradients[inside], int(inside.sum())
        if size >= 2:
            deviation = rows - rows.mean(axis=0)
            means.append(rows.mean(axis=0))
            noise.append(float(np.sum((deviation @ inverse) * deviation)) / (size - 1) / size)
            weights.append(float(share[inside].sum()))
    if len(means) < 2:
        raise InvalidInput("strata: needs at least two strata with two or more public rows each")
    directions = float(len(inverse))
    return _spread(np.array(means), np.array(weights), np.array(noise), inverse, optimum, "strata", directions)


def from_answers(
    answers: Float[Array, "owners p"],
    weights: Float[Array, " owners"],
    noise: Float[Array, " owners"],
    hessian: Float[Array, "p p"],
    optimum: float,
    sampling: Float[Array, " owners"] | float = 0.0,
) -> Heterogeneity:
    """Estimate u from the owners' answers at one θ, as their spread beyond the known noise. Spends no budget.

    answers: each owner's (noisy, clipped) mean gradient at one θ; weights: n_i/n; noise: the variance of its noise on
    one coordinate. hessian, optimum: public ∇²f and f. Assumes that θ is near the optimum, or curvatures alike.
    sampling: variance of the mean gradient of n_i records, in the metric A⁻¹: 2κ/n_i.
    """
    inverse: Array = np.asarray(np.linalg.pinv(hessian, rcond=1e-10, hermitian=True), dtype=np.float64)
    total = np.trace(inverse) * noise + sampling
    return _spread(answers, weights, total, inverse, optimum, "answers", effective_directions(inverse))


def effective_directions(noise: Float[Array, "p p"]) -> float:
    """Effective number of directions of noise, (tr S)²/tr S² (Satterthwaite): p where its variance is equal in all p.

    noise: MS, its covariance S in a metric M.
    """
    return float(np.trace(noise)) ** 2 / float(np.sum(noise * noise.T))


def _spread(
    means: Float[Array, "owners p"],
    weights: Float[Array, " owners"],
    noise: Float[Array, " owners"],
    inverse: Float[Array, "p p"],
    optimum: float,
    source: Source,
    p: float,
) -> Heterogeneity:
    """Estimate u from mean gradients. noise: expected squared noise of each in the metric A⁻¹, which is subtracted.

    p: effective number of directions of the noise (`effective_directions`).

    u_i is ½ mᵀA⁻¹m/f, with m an owner's mean gradient less that of all, minus its expectation under noise alone. The range is a
    90 % confidence interval of the mean over owners (Student's t with N − 1 degrees of freedom), with two variances: between
    owners (a jackknife), and of noise. The noise term E = ½ tr(A⁻¹S) has the variance 2E²/p, and 4·u_i·E/p with the signal.
    """
    w, N = weights / weights.sum(), len(means)
    deviation = means - w @ means
    # The weighted mean contains the owner's own noise: (1 − w_i)² s_i² + Σ_{j≠i} w_j² s_j².
    known = 0.5 * ((1.0 - 2.0 * w) * noise + float(np.sum(w**2 * noise))) / optimum
    found = 0.5 * np.einsum("ij,jk,ik->i", deviation, inverse, deviation) / optimum - known
    mean = float(w @ found)
    without = (mean - w * found) / (1.0 - w)
    between = (N - 1) / N * float(np.sum(np.square(without - without.mean())))
    within = float(w**2 @ (2.0 * known**2 + 4.0 * np.maximum(found, 0.0) * known)) / p
    error = float(stdtrit(N - 1, 0.95) * np.sqrt(between + within))
    value = max(mean, 0.0)
    return Heterogeneity(value, max(mean - error, 0.0), max(value, mean + error, 2.0 * value), source)
