"""Heterogeneity of the owners: one public number, its source and its range.

**Heterogeneity** u is the ψ, on the records of all owners, of a perfect model of one owner's own population. It is 0 where
all populations are the same; 0.02 means two percent worse than the best common model. With θ_i the owner's own optimum and
A = ∇²f,

    u_i  ≈  ½ (θ_i − θ*)ᵀ A (θ_i − θ*) / f(θ*),        u = Σ (n_i/n) u_i.

It may be *stated* by the parties, *estimated* from public rows that say which owner or stratum they are of, estimated
from the *answers* of a run (they are public once given), or not known. Not stated does not mean 0: the range is then
the one that real tables with grouped rows show (`UNKNOWN`).
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
"""Heterogeneity below this is no different from 0 in any decision."""


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
        """u that is not exceeded with this probability: 5 % at low, 50 % at value, 95 % at high."""
        z = float(ndtri(probability) / ndtri(0.95))
        low, middle, high = (max(u, LEAST) for u in (self.low, self.value, self.high))
        end = low
        if z > 0:
            end = high
        found = float(middle * (end / middle) ** abs(z))
        if found <= LEAST:
            return 0.0
        return found


UNKNOWN = Heterogeneity(0.02, 0.0, 1.0, "not stated")
"""Where nothing is stated and a model explains hardly anything: groups of real tables (regions, occupations, departments,
payers) lie between 0.003 and 0.1, half of them below 0.02; owners may also be alike, or sorted by their target."""


def unknown(unexplained: float) -> Heterogeneity:
    """Heterogeneity where nothing is stated: `UNKNOWN`, relative to the variance that a model leaves unexplained.

    unexplained: f of the best model over f of the best constant (1 − R²). Differences between
    groups are a share of the whole variance, and ψ is relative to what the best model leaves: where a model leaves a tenth,
    u is ten times as large.
    """
    times = 1.0 / max(unexplained, 0.05)  # no model is taken to explain more
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
    own rows give and which is taken off: the estimate is unbiased where rows of a stratum are a sample of it.
    The range is the jackknife's over strata. Raises InvalidInput with fewer than two strata of two rows.
    """
    inverse: Array = np.asarray(np.linalg.pinv(hessian, rcond=1e-10, hermitian=True), dtype=np.float64)
    means, weights, noise = [], [], []
    for label in np.unique(strata):
        of = strata == label
        rows, size = gradients[of], int(of.sum())
        if size >= 2:
            away = rows - rows.mean(axis=0)
            means.append(rows.mean(axis=0))
            noise.append(float(np.sum((away @ inverse) * away)) / (size - 1) / size)
            weights.append(float(share[of].sum()))
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
    sampling: what an owner's records, being few, add to the noise in the metric A⁻¹: 2κ/n_i.
    """
    inverse: Array = np.asarray(np.linalg.pinv(hessian, rcond=1e-10, hermitian=True), dtype=np.float64)
    in_all = np.trace(inverse) * noise + sampling
    return _spread(answers, weights, in_all, inverse, optimum, "answers", in_all_directions(inverse))


def in_all_directions(noise: Float[Array, "p p"]) -> float:
    """In how many directions noise has its mean square, were it alike in them: (tr S)²/tr S² (Satterthwaite).

    noise: its covariance S in a metric M, as MS. Noise that is large in few directions falls as if there were only these.
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

    p: in how many directions it is alike (`in_all_directions`).

    u_i is ½ mᵀA⁻¹m/f of an owner's mean gradient about all, less what noise alone would make of it on average. The range
    holds the mean over owners with 90 % (Student's t with N − 1 degrees of freedom), from two variances: how owners differ
    (a jackknife), and noise. What is taken off for noise, E = ½ tr(A⁻¹S), has a variance of 2E²/p where noise is alike in
    every direction, and crosses with what is there by 4·found·E/p.
    """
    w, N = weights / weights.sum(), len(means)
    away = means - w @ means
    # An owner's noise is in the weighted mean too: (1 − w_i)² s_i² + Σ_{j≠i} w_j² s_j².
    known = 0.5 * ((1.0 - 2.0 * w) * noise + float(np.sum(w**2 * noise))) / optimum
    found = 0.5 * np.einsum("ij,jk,ik->i", away, inverse, away) / optimum - known
    mean = float(w @ found)
    without = (mean - w * found) / (1.0 - w)
    between = (N - 1) / N * float(np.sum(np.square(without - without.mean())))
    within = float(w**2 @ (2.0 * known**2 + 4.0 * np.maximum(found, 0.0) * known)) / p
    error = float(stdtrit(N - 1, 0.95) * np.sqrt(between + within))
    value = max(mean, 0.0)
    return Heterogeneity(value, max(mean - error, 0.0), max(value, mean + error, 2.0 * value), source)
