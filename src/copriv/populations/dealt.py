"""Worlds in which owners differ and no strata are known: a pool, allocated to the owners unequally.

The public rows are a sample of all owners' records. A world's pool is drawn from them as where owners are alike
(`PublicSample.drawn`), and each of its rows is shared by the owners,

    share of owner j in row k  ∝  w_j · exp(c_j + s·t_jk),        Σ_j share_jk = 1,

with t_jk the normal score of row k along a random direction of owner j through features and gradients ∇ℓ at θ*. At s = 0 all
owners have the same law; as s grows they differ in their features and in their best models, while the pool is unchanged. s is
set so that the owners have the heterogeneity asked for (`copriv.terms.heterogeneity`).

Many owners share a few directions (`KINDS`), so that the cost of a run does not grow with their number.
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
"""Directions, and kinds of owners, in one world."""
STEEPEST = 30.0
"""Largest s, at which nearly every row is one owner's."""
MOST_ROUNDS = 500
"""Most iterations for the sizes c_j; more are needed at a large s."""


def heterogeneity_of(problem: Problem) -> Heterogeneity:
    """The owners' heterogeneity: stated in the agreement, estimated from strata of public rows, or the prior."""
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
    """The owners' laws given strata of the public rows; None where these are not the owners, or rows are too few."""
    if not knows_owners(sample.problem):
        return None
    laws = OwnerLaws(sample)
    return laws if laws.usable else None


def draw_worlds(
    sample: PublicSample, agreement: Agreement, heterogeneity: Heterogeneity, number: int, seed: int = 0
) -> "tuple[HeterogeneousWorld | OwnerWorld, ...]":
    """Draw worlds: of the owners themselves where strata are known, else over quantiles of the heterogeneity."""
    laws = laws_of(sample)
    if laws is not None:
        return laws.drawn(number, seed)
    order = np.random.default_rng([seed, 6]).permutation(number)
    return heterogeneous_worlds_at(sample, agreement, [heterogeneity.quantile((i + 0.5) / number) for i in order], seed)


@dataclass(frozen=True, eq=False)
class HeterogeneousWorld:
    """A pool, and the share of each row that every kind of owner holds."""

    pool: Problem
    """All records, in every owner's place; its optimum is known."""
    shares: Float[Array, "kinds records"]
    apart: Float[Array, " kinds"]
    """Heterogeneity of each kind: ψ of its law's best model on all records."""
    heterogeneity: float
    """Mean over kinds, weighted by size; less than asked for where the rows do not allow as much."""
    bundle: Int[np.ndarray, " owners"]
    """Index of each owner's bundle (`copriv.agreement.equivalent_owners`)."""

    def problem(self, agreement: Agreement) -> Problem:
        """The problem of `agreement`'s owners (or their bundles) in this world; bundle i is of kind i mod KINDS."""
        rows, N = self.pool.unbounded[0], agreement.n_owners
        kinds = [Records(rows.features, rows.target, rows.weight * share) for share in self.shares]
        place = self.bundle.tolist() if len(self.bundle) == N else range(N)
        parts = tuple(map((kinds * (-(-N // len(kinds)))).__getitem__, place))
        return replace(self.pool.under(agreement), unbounded=parts, pooled=rows)


def heterogeneous_worlds(
    sample: PublicSample, agreement: Agreement, heterogeneity: float, number: int, seed: int = 0
) -> tuple[HeterogeneousWorld, ...]:
    """`number` worlds of the owners of `agreement` at this heterogeneity, on the pools of `sample.drawn`."""
    return heterogeneous_worlds_at(sample, agreement, [heterogeneity] * number, seed)


def heterogeneous_worlds_at(
    sample: PublicSample, agreement: Agreement, levels: Sequence[float], seed: int = 0
) -> tuple[HeterogeneousWorld, ...]:
    """A world for each level of heterogeneity, in the order of `sample.drawn(len(levels), seed)`."""
    bundles = bundles_of(agreement)
    n = bundles.total(np.asarray(agreement.records, dtype=np.float64))
    size = np.bincount(np.arange(len(n)) % KINDS, weights=n)
    made = []
    for i, (world, level) in enumerate(zip(sample.drawn(len(levels), seed), levels, strict=True)):
        deal = _Deal.of(world.pool, sample.hessian, size / size.sum(), np.random.default_rng([seed, 5, i]))
        s = deal.steepness(level)
        made.append(
            HeterogeneousWorld(world.pool, deal.shares(s), deal.apart(s), deal.heterogeneity(s), bundles.of_owner)
        )
    return tuple(made)


@dataclass(frozen=True, eq=False)
class _Deal:
    """Normal scores of all rows along each kind's direction, and the heterogeneity of their allocation."""

    places: Float[Array, "kinds records"]
    weight: Float[Array, " records"]
    size: Float[Array, " kinds"]
    """Share of all records that each kind holds."""
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
        # Features and gradients count alike.
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
        """Share of each row that every kind holds, with the agreed sizes in all."""
        share = self.weight / self.weight.sum()
        level = np.log(self.size)[:, None] + np.zeros((len(self.size), 1))
        for _ in range(MOST_ROUNDS if steepness > 0 else 0):
            held = softmax(level + steepness * self.places, axis=0) @ share
            if np.abs(held / self.size - 1.0).max() < 1e-3:
                break
            level += np.log(self.size / np.maximum(held, 1e-300))[:, None]
        return np.asarray(softmax(level + steepness * self.places, axis=0))

    def steepness(self, heterogeneity: float) -> float:
        """Find the s of this heterogeneity by bisection; `STEEPEST` where the rows do not allow as much."""
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
    """Whiten centred rows under these weights; constant directions are set to 0."""
    a, U = np.linalg.eigh((rows * share[:, None]).T @ rows)
    return np.asarray(rows @ (U * np.where(a > 1e-10 * max(a[-1], 1e-300), 1.0 / np.sqrt(np.maximum(a, 1e-300)), 0.0)))
