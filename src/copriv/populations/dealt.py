"""Worlds in which owners differ: by owner where strata of the public rows are owners, else by an unequal allocation.

The public rows are a sample of all owners' records. Without strata, a world's pool is drawn as where owners are alike
(`PublicSample.drawn`), and each of its rows is divided among the owners,

    share of owner j in row k  ∝  w_j · exp(c_j + s·t_jk),        Σ_j share_jk = 1,

with t_jk the normal score of row k along a random direction of owner j through features and gradients ∇ℓ at θ*. At s = 0 all
owners have the same law; as s grows they differ in their features and in their best models, while the pool is unchanged. s is
chosen to give the owners a stated heterogeneity (`copriv.terms.heterogeneity`).

Many owners share a few directions (`KINDS`), so that the cost of a run does not grow with their number.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from copriv.agreement import Agreement
from copriv.agreement.participants import bundles_of
from copriv.model.records import Records
from copriv.populations.by_owner import OwnerLaws, knows_owners
from copriv.populations.public_sample import PublicSample
from copriv.populations.world import World
from copriv.problem import Problem
from copriv.terms.heterogeneity import Heterogeneity, from_answers, from_strata, unknown
from copriv.types import Array

KINDS = 8
"""Number of directions, and of kinds of owners, in one world."""


def heterogeneity_of(sample: PublicSample) -> Heterogeneity:
    """The owners' heterogeneity: stated in the agreement, estimated from a pilot or strata of public rows, or the prior."""
    problem = sample.problem
    if problem.terms.data.heterogeneity is not None:
        return Heterogeneity.stated(problem.terms.data.heterogeneity)
    laws = laws_of(sample)
    if laws is not None and sample.optimum.value > 0:
        return laws.heterogeneity
    if sample.pilot is not None and problem.terms.n_owners > 1:
        told, axes = sample.pilot, np.eye(problem.n_parameters)
        noise = told.noise.mean(axis=1)
        return from_answers(told.pull, problem.terms.weights, noise, axes, sample.optimum.value)
    if problem.strata is None or not problem.strata_name_owners or sample.optimum.value <= 0:
        return unknown(sample.unexplained)
    r = problem.owners[0]
    gradients = problem.fitness.loss.gradients(sample.optimum.theta, r.features, r.target)
    return from_strata(gradients, r.weight / r.total, problem.strata, sample.hessian, sample.optimum.value)


@lru_cache(maxsize=4)
def laws_of(sample: PublicSample) -> OwnerLaws | None:
    """The owners' laws given strata of the public rows; None where strata are not owners, or rows are too few."""
    laws = OwnerLaws(sample)
    if not knows_owners(sample) or not laws.usable:
        return None
    return laws


def draw_worlds(
    sample: PublicSample, agreement: Agreement, heterogeneity: Heterogeneity, number: int, seed: int = 0
) -> tuple[World, ...]:
    """Draw worlds: of equal owners where u is 0, by owner where strata are owners, else at quantiles of u."""
    if heterogeneity.alike or agreement.n_owners == 1:
        return sample.drawn(number, seed)
    laws = laws_of(sample)
    if laws is not None:
        return laws.drawn(number, seed)
    order = np.random.default_rng([seed, 6]).permutation(number)
    return heterogeneous_worlds(sample, agreement, [heterogeneity.quantile((i + 0.5) / number) for i in order], seed)


def heterogeneous_worlds(
    sample: PublicSample, agreement: Agreement, levels: Sequence[float], seed: int = 0
) -> tuple[World, ...]:
    """Draw a world for each level of heterogeneity, from the pools of `sample.drawn` in their order.

    A world's heterogeneity is below its level where no allocation of the rows reaches it.
    """
    bundles = bundles_of(agreement)
    n = bundles.total(np.asarray(agreement.records, dtype=np.float64))
    size = np.bincount(np.arange(len(n)) % KINDS, weights=n)
    size, made = size / size.sum(), []
    for i, (world, level) in enumerate(zip(sample.drawn(len(levels), seed), levels, strict=True)):
        deal = _Deal.of(world.pool, sample.hessian, size, np.random.default_rng([seed, 5, i]))
        shares, rows = deal.shares_at(level), world.pool.unbounded[0]
        u = deal.heterogeneity(shares)
        parts = tuple(Records(rows.features, rows.target, rows.weight * share) for share in shares)
        made.append(replace(world, parts=parts, bundle=bundles.of_owner, apart=u, heterogeneity=float(size @ u)))
    return tuple(made)


@dataclass(frozen=True, eq=False)
class _Deal:
    """Allocation of a pool's rows to kinds of owners, by their normal scores along each kind's direction."""

    scores: Float[Array, "kinds records"]
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
        r, best = pool.owners[0], pool.optimum
        x, share = r.features, r.weight / r.weight.sum()
        g = pool.fitness.loss.gradients(best.theta, x, r.target)
        g = g - share @ g
        along = np.zeros((len(x), len(size)))
        for part in (x - share @ x, g):  # whitened, so that features and gradients have equal influence
            a, U = np.linalg.eigh((part * share[:, None]).T @ part)
            scale = np.where(a > 1e-10 * max(a[-1], 1e-300), 1.0 / np.sqrt(np.maximum(a, 1e-300)), 0.0)
            along += part @ (U * scale) @ rng.normal(size=(x.shape[1], len(size)))
        order = np.argsort(along, axis=0, kind="stable").T
        before = np.cumsum(share[order], axis=1) - 0.5 * share[order]
        scores = np.empty(order.shape)
        np.put_along_axis(scores, order, ndtri(np.clip(before, 1e-6, 1.0 - 1e-6)), axis=1)
        return cls(scores, r.weight, size, g, hessian, best.value)

    def shares(self, steepness: float) -> Float[Array, "kinds records"]:
        """Share of each kind in every row at this s; the kinds have the agreed sizes."""
        share = self.weight / self.weight.sum()
        level = np.log(self.size)[:, None] + np.zeros((len(self.size), 1))
        if steepness == 0:
            return _softmax(level)
        along = steepness * self.scores
        for _ in range(500):  # convergence is slow at a large s
            held = _softmax(level + along) @ share
            if np.abs(held / self.size - 1.0).max() < 1e-3:
                break
            level += np.log(self.size / np.maximum(held, 1e-300))[:, None]
        return _softmax(level + along)

    def shares_at(self, heterogeneity: float) -> Float[Array, "kinds records"]:
        """Shares of this heterogeneity, by bisection up to s = 30, where nearly every row belongs to one kind."""
        low, high = 0.0, 30.0
        if heterogeneity <= 0 or len(self.size) < 2:
            return self.shares(low)
        if float(self.size @ self.heterogeneity(self.shares(high))) > heterogeneity:
            for _ in range(14):
                middle = 0.5 * (low + high)
                if float(self.size @ self.heterogeneity(self.shares(middle))) < heterogeneity:
                    low = middle
                else:
                    high = middle
        return self.shares(high)

    def heterogeneity(self, shares: Float[Array, "kinds records"]) -> Float[Array, " kinds"]:
        """u_j = ½ m_jᵀA⁻¹m_j / f(θ*), m_j the mean gradient of kind j's rows at the common optimum."""
        held = shares * self.weight
        m = (held @ self.gradients) / held.sum(axis=1, keepdims=True)
        away = np.linalg.lstsq(self.hessian, m.T, rcond=1e-10)[0].T
        return np.asarray(0.5 * np.sum(m * away, axis=1) / self.optimum)


def _softmax(scores: Float[Array, "kinds records"]) -> Float[Array, "kinds records"]:
    """Softmax of each column, in place; scipy's has too much overhead for thousands of calls."""
    scores -= scores.max(axis=0)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=0)
    return scores
