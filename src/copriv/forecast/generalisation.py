"""Generalisation: ψ on new records of the same owners, where elsewhere it is on the training records (A, Remark 1).

With F the expected fitness on new records of the owners in the shares n_i/n, θ° where it is least, and θ* the best model
of the n records at hand, f(θ*) flatters: with A = ∇²f and V = Σ (n_i/n) Cov_i(∇ℓ) at θ*, the covariance *within* owners,

    E F(θ*) − F(θ°) = κ/n,      E F(θ*) − E f(θ*) = 2κ/n,      κ = ½ tr(A⁻¹V)

(Takeuchi 1976, for a mean of means). It holds for owners that differ too: the differences between their means are the same
in new records, so V is the covariance within owners, and F is of the same mixture. Privacy noise is independent of the
records, and F has the curvature of f, so that on new records, relative to F(θ°),

    together: ψ + κ/(n f)      an owner alone: ψ_i + κ/(n f)      the public rows alone: ψ_0 − κ/(n f)

where ψ_i is of a model that was fitted to part of the records, and ψ_0 of one that was fitted to none of them. The expansion
is to first order in 1/n and needs a small p/n.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from copriv.populations.public_sample import PublicSample


@dataclass(frozen=True)
class Generalisation:
    """Expected fitness on new records of the owners, over that of the best model there, less 1."""

    best: float
    """κ/(n f): the best model of all records, without privacy."""
    within_owners: bool
    """Whether V is a covariance within owners, which strata of the public rows allow to estimate."""

    def trained(self, psi: float) -> float:
        """Expected ψ on new records of a model fitted to owners' records, from its ψ on these."""
        return psi + self.best

    def untrained(self, psi: float) -> float:
        """Expected ψ on new records of a model fitted to other records."""
        return max(psi - self.best, 0.0)

    @property
    def flattery(self) -> float:
        """2κ/(n f): fitness of a model on new records less that on the records it was fitted to."""
        return 2.0 * self.best

    def told(self, together: float, agreed: float, public_only: float, alone: Sequence[float]) -> dict[str, object]:
        """For JSON, from each model's ψ."""
        return {
            "best": self.best, "together": self.trained(together), "agreed": self.trained(agreed),
            "public_only": self.untrained(public_only), "alone": [self.trained(one) for one in alone],
            "flattery": self.flattery, "within_owners": self.within_owners,
        }  # fmt: skip


def generalisation_of(sample: PublicSample) -> Generalisation:
    """Estimate κ from public rows; V is within owners where rows have strata and are not smoothed.

    A stratum of fewer than 10 public rows gets the covariance of all rows.
    """
    problem, r = sample.problem, sample.records
    strata, of_owner = problem.strata, np.array(problem.stratum_of_owner, dtype=object)
    n, f = problem.terms.records.astype(np.float64), sample.optimum.value
    if strata is None or sample.smooth is not problem or (of_owner == None).all():  # noqa: E711 (of each entry)
        return Generalisation(sample.information / (n.sum() * f), False)
    g, within = problem.loss.gradients(sample.optimum.theta, r.features, r.target), 0.0
    inverse = np.linalg.pinv(sample.hessian, rcond=1e-12, hermitian=True)
    for stratum in set(of_owner):
        rows = strata == stratum
        if rows.sum() < 10:
            rows = np.ones(len(g), dtype=bool)
        share = r.weight[rows] / r.weight[rows].sum()
        centred = g[rows] - share @ g[rows]
        # Unbiased, of single records.
        covariance = (centred * share[:, None]).T @ centred / max(1.0 - float(share @ share), 1e-12)
        within += float(n @ (of_owner == stratum)) / n.sum() * float(np.sum(inverse * covariance))
    return Generalisation(0.5 * within / (n.sum() * f), True)
