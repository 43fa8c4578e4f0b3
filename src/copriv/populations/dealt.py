"""Worlds in which owners differ: the public rows, dealt out unequally.

The public rows are a sample of everybody's records together. A world takes them as the whole pool (drawn again, as a
bootstrap does) and deals each row to the owners by soft shares,

    share of owner j in row k  ∝  w_j · exp(c_j + s·t_jk),        Σ_j share_jk = 1,

t_jk where row k stands, from least to most, along a random direction of owner j through features and scores (∇ℓ at θ*).
s = 0 deals everybody the same; as s grows owners come to differ in what their records look like *and* in what their best
model is, while all of them together stay the public sample: nothing is added to what is known, only who holds what.
s is set so that the owners' heterogeneity is the one asked for. `heterogeneity` says what that number is.

Many owners share a few directions (`KINDS`): a run's cost does not grow with owners that are alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int
from scipy.special import ndtri, softmax

from copriv.agreement import Agreement
from copriv.agreement.equivalent_owners import bundles_of
from copriv.model.records import Records
from copriv.populations.by_owner import OwnerLaws, OwnerWorld, knows_owners
from copriv.populations.public_sample import PublicSample
from copriv.problem import Problem
from copriv.terms.heterogeneity import Heterogeneity, from_strata, unknown
from copriv.types import Array

KINDS = 8
"""Directions in one world."""
STEEPEST = 30.0
"""The largest s: rows all but cut into parts."""
MOST_ROUNDS = 500
"""Of fitting the kinds' sizes: steep deals need many."""


def heterogeneity_of(problem: Problem) -> Heterogeneity:
    """What is known of the owners' heterogeneity: stated in the agreement, estimated from strata of public rows, or unknown."""
    stated = problem.terms.data.heterogeneity
    if stated is not None:
        return Heterogeneity.stated(stated)
    sample = PublicSample.of(problem)
    if problem.strata is None or len(np.unique(problem.strata)) < 2 or sample.optimum.value <= 0:
        return unknown(sample.unexplained)
    laws = laws_of(sample)
    if laws is not None:
        return laws.heterogeneity
    r = sample.problem.owners[0]
    gradients = sample.problem.fitness.loss.gradients(sample.optimum.theta, r.features, r.target)
    return from_strata(gradients, r.weight / r.total, problem.strata, sample.hessian, sample.optimum.value)


def laws_of(sample: PublicSample) -> OwnerLaws | None:
    """What strata of the public rows say of each owner; None where they are none of the owners, or too few."""
    if not knows_owners(sample.problem):
        return None
    laws = OwnerLaws(sample)
    return laws if laws.usable else None


def worlds_of(
    sample: PublicSample, agreement: Agreement, heterogeneity: Heterogeneity, number: int, seed: int = 0
) -> "tuple[UnlikeWorld | OwnerWorld, ...]":
    """Worlds over all that heterogeneity may be: of the owners themselves, where public rows say whose they are."""
    laws = laws_of(sample)
    if laws is not None:
        return laws.drawn(number, seed)
    order = np.random.default_rng([seed, 6]).permutation(number)
    return unlike_worlds_at(sample, agreement, [heterogeneity.quantile((i + 0.5) / number) for i in order], seed)


@dataclass(frozen=True, eq=False)
class UnlikeWorld:
    """The pool of a world with how much of each row every kind of owner holds; `problem` makes a consortium of it."""

    pool: Problem
    """All records together, in every owner's place; its optimum is known."""
    shares: Float[Array, "kinds records"]
    apart: Float[Array, " kinds"]
    """Each kind's own heterogeneity: ψ of its own population's best model on everybody's records."""
    heterogeneity: float
    """Of all: less than asked for where the rows do not allow as much."""
    bundle: Int[np.ndarray, " owners"]
    """Of each owner (`copriv.agreement.equivalent_owners`): many owners of one kind are dealt to by bundles."""

    def problem(self, agreement: Agreement) -> Problem:
        """The owners of `agreement` in this world, or their bundles: bundle i is of kind i mod KINDS."""
        rows, N = self.pool.unbounded[0], agreement.n_owners
        kinds = [Records(rows.features, rows.target, rows.weight * share) for share in self.shares]
        place = self.bundle.tolist() if len(self.bundle) == N else range(N)
        parts = tuple(map((kinds * (-(-N // len(kinds)))).__getitem__, place))
        return replace(self.pool.under(agreement), unbounded=parts, pooled=rows)


def unlike_worlds(
    sample: PublicSample, agreement: Agreement, heterogeneity: float, number: int, seed: int = 0
) -> tuple[UnlikeWorld, ...]:
    """`number` worlds of the owners of `agreement` at this heterogeneity, on the pools of `sample.drawn`."""
    return unlike_worlds_at(sample, agreement, [heterogeneity] * number, seed)


def unlike_worlds_at(
    sample: PublicSample, agreement: Agreement, levels: Sequence[float], seed: int = 0
) -> tuple[UnlikeWorld, ...]:
    """A world for each level of heterogeneity, in the order of `sample.drawn(len(levels), seed)`."""
    bundles = bundles_of(agreement)
    n = bundles.total(np.asarray(agreement.records, dtype=np.float64))
    size = np.bincount(np.arange(len(n)) % KINDS, weights=n)
    made = []
    for i, (world, level) in enumerate(zip(sample.drawn(len(levels), seed), levels, strict=True)):
        deal = _Deal.of(world.pool, sample.hessian, size / size.sum(), np.random.default_rng([seed, 5, i]))
        s = deal.steepness(level)
        made.append(UnlikeWorld(world.pool, deal.shares(s), deal.apart(s), deal.heterogeneity(s), bundles.of_owner))
    return tuple(made)


@dataclass(frozen=True, eq=False)
class _Deal:
    """Where every row stands along each kind's direction, and what makes a deal's heterogeneity a number."""

    places: Float[Array, "kinds records"]
    weight: Float[Array, " records"]
    size: Float[Array, " kinds"]
    """Each kind's part of all records."""
    gradients: Float[Array, "records p"]
    hessian: Float[Array, "p p"]
    optimum: float

    @classmethod
    def of(
        cls, pool: Problem, hessian: Float[Array, "p p"], size: Float[Array, " kinds"], rng: np.random.Generator
    ) -> "_Deal":
        r, f, best = pool.owners[0], pool.fitness, pool.optimum
        x, y, weight = r.features, r.target, r.weight
        g = f.loss.gradients(best.theta, x, y)
        share = weight / weight.sum()
        g = g - share @ g
        # Both parts count alike: what records look like, and what their best model is.
        directions = [_whitened(part, share) for part in (x - share @ x, g)]
        p = x.shape[1]
        along = sum(part @ rng.normal(size=(p, len(size))) for part in directions)
        places = np.empty((len(size), len(y)))
        for j in range(len(size)):
            order = np.argsort(along[:, j], kind="stable")  # type: ignore[index]
            before = np.cumsum(share[order])
            places[j, order] = ndtri(np.clip(before - 0.5 * share[order], 1e-6, 1.0 - 1e-6))
        return cls(places, weight, size, g, hessian, best.value)

    def shares(self, steepness: float) -> Float[Array, "kinds records"]:
        """How much of each row every kind holds; all of them together hold what was agreed."""
        share = self.weight / self.weight.sum()
        level = np.log(self.size)[:, None] + np.zeros((len(self.size), 1))
        for _ in range(MOST_ROUNDS if steepness > 0 else 0):
            held = softmax(level + steepness * self.places, axis=0) @ share
            if np.abs(held / self.size - 1.0).max() < 1e-3:
                break
            level += np.log(self.size / np.maximum(held, 1e-300))[:, None]
        return np.asarray(softmax(level + steepness * self.places, axis=0))

    def steepness(self, heterogeneity: float) -> float:
        """s at which the deal has this heterogeneity, by bisection; `STEEPEST` where the rows do not allow as much."""
        if heterogeneity <= 0 or len(self.size) < 2:
            return 0.0
        low, high = 0.0, STEEPEST
        if self.heterogeneity(high) <= heterogeneity:
            return high
        for _ in range(14):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.heterogeneity(middle) < heterogeneity else (low, middle)
        return high

    def heterogeneity(self, steepness: float) -> float:
        """Σ size_j · u_j."""
        return float(self.size @ self.apart(steepness))

    def apart(self, steepness: float) -> Float[Array, " kinds"]:
        """u_j = ½ m_jᵀA⁻¹m_j / f(θ*), m_j the mean gradient of kind j's rows at the common optimum."""
        held = self.shares(steepness) * self.weight
        m = (held @ self.gradients) / held.sum(axis=1, keepdims=True)
        away = np.linalg.lstsq(self.hessian, m.T, rcond=1e-10)[0].T
        return np.asarray(0.5 * np.sum(m * away, axis=1) / self.optimum)


def _whitened(rows: Float[Array, "records p"], share: Float[Array, " records"]) -> Float[Array, "records p"]:
    """Rows in coordinates in which they are uncorrelated and of variance 1; what does not vary is left out."""
    a, U = np.linalg.eigh((rows * share[:, None]).T @ rows)
    return np.asarray(rows @ (U * np.where(a > 1e-10 * max(a[-1], 1e-300), 1.0 / np.sqrt(np.maximum(a, 1e-300)), 0.0)))
