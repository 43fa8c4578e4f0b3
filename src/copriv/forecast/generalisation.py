"""How good the models are on new records of the same owners (A, Remark 1: ψ is about the records that were trained on).

With F the expected fitness on new records of the owners in the shares n_i/n, θ° where it is least, and θ* the best model
of the n records at hand, f(θ*) flatters: with A = ∇²f and V = Σ (n_i/n) Cov_i(∇ℓ) at θ*, the covariance *within* owners,

    E F(θ*) − F(θ°) = κ/n,      E F(θ*) − E f(θ*) = 2κ/n,      κ = ½ tr(A⁻¹V)

(Takeuchi 1976, for a mean of means). Owners that differ are no reason against it: what lies between their means does not
change from one table of theirs to the next, so V is smaller, and F is of the same mixture. Noise that privacy adds does
not know the records, and F bends as f does, so that on new records, in parts of F(θ°),

    together: ψ + κ/(n f)      an owner alone: ψ_i + κ/(n f)      the public rows alone: ψ_0 − κ/(n f)

where ψ_i is of a model that the trained records hold, whose records flatter it by their share of the pool, and ψ_0 of one
that shares no record with them. A model between public rows and pool lies between. An expansion to 1/n: p/n is to be small.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from copriv.populations.public_sample import PublicSample
from copriv.types import Array


@dataclass(frozen=True)
class Generalisation:
    """Expected fitness on new records of the owners, over that of the best model there, less 1."""

    best: float
    """κ/(n f): the best model of all records, without privacy."""
    within_owners: bool
    """Whether public rows said whose they are, so that what lies between owners is left out of V."""

    def trained(self, psi: float) -> float:
        """The expected ψ on new records of a model that was fitted to owners' records and has this ψ there."""
        return psi + self.best

    def untrained(self, psi: float) -> float:
        """The same of a model that was fitted to none of them."""
        return max(psi - self.best, 0.0)

    @property
    def flattery(self) -> float:
        """2κ/(n f): by how much the fitness of the records at hand is below that of new ones, at the same model."""
        return 2.0 * self.best

    def told(self, together: float, agreed: float, public_only: float, alone: Sequence[float]) -> dict[str, object]:
        """For JSON, from each model's ψ."""
        return {
            "best": self.best, "together": self.trained(together), "agreed": self.trained(agreed),
            "public_only": self.untrained(public_only), "alone": [self.trained(one) for one in alone],
            "flattery": self.flattery, "within_owners": self.within_owners,
        }  # fmt: skip


def generalisation_of(sample: PublicSample) -> Generalisation:
    """From public rows alone; their strata are used where they say whose rows they are."""
    n, f = float(sample.problem.terms.records.sum()), sample.optimum.value
    covariance = _within(sample)
    if covariance is None:
        return Generalisation(sample.information / (n * f), False)
    inverse = np.linalg.pinv(sample.hessian, rcond=1e-12, hermitian=True)
    return Generalisation(0.5 * float(np.sum(inverse * covariance)) / (n * f), True)


def _within(sample: PublicSample) -> Array | None:
    """V; None where no row says whose it is, or rows were smoothed and are nobody's.

    A stratum of fewer than 10 public rows is taken to have the covariance of all rows.
    """
    problem = sample.problem
    strata = problem.strata
    if strata is None or sample.smooth is not problem or len(strata) != len(sample.records):
        return None
    of_owner = problem.stratum_of_owner
    if all(one is None for one in of_owner):
        return None
    r = sample.records
    g = problem.loss.gradients(sample.optimum.theta, r.features, r.target)
    everybody = _covariance(g, r.weight)
    own: dict[int | None, Array] = {None: everybody}
    for s in {s for s in of_owner if s is not None}:
        rows = strata == s
        if rows.sum() < 10:
            rows[:] = True
        own[s] = _covariance(g[rows], r.weight[rows])
    share = problem.terms.records / problem.terms.records.sum()
    total = np.zeros_like(everybody)
    for owner, weight in zip(of_owner, share, strict=True):
        total += own[owner] * weight
    return total


def _covariance(g: Array, weight: Array) -> Array:
    """The unbiased covariance of single records."""
    share = weight / weight.sum()
    centred = g - share @ g
    return np.asarray((centred * share[:, None]).T @ centred / max(1.0 - float(share @ share), 1e-12))
