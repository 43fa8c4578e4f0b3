"""Worlds in which owners differ: the public rows, dealt out unequally.

The public rows are a sample of everybody's records together. A world takes them as the whole pool (drawn again, as a
bootstrap does) and deals each row to the owners by soft shares,

    share of owner j in row k  ∝  w_j · exp(c_j + s·t_jk),        Σ_j share_jk = 1,

t_jk where row k stands, from least to most, along a random direction of owner j through features and scores (∇ℓ at θ*).
s = 0 deals everybody the same; as s grows owners come to differ in what their records look like *and* in what their best
model is, while all of them together stay the public sample: nothing is added to what is known, only who holds what.
s is set so that the owners' unlikeness is the one asked for. `unlikeness` says what that number is.

Many owners share a few directions (`KINDS`): a run's cost does not grow with owners that are alike.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import ndtri, softmax

from copriv.agreement import Agreement
from copriv.fitness import Optimum
from copriv.problem import Problem
from copriv.public_sample import PublicSample
from copriv.records import Records
from copriv.types import Array
from copriv.unlikeness import UNKNOWN, Unlikeness, from_strata

KINDS = 8
"""Directions in one world."""
STEEPEST = 30.0
"""The largest s: rows all but cut into parts."""
MOST_ROUNDS = 500
"""Of fitting the kinds' sizes: steep deals need many."""


def unlikeness_of(problem: Problem) -> Unlikeness:
    """What is known of the owners' unlikeness: stated in the agreement, estimated from strata of public rows, or unknown."""
    stated = problem.terms.data.unlikeness
    if stated is not None:
        return Unlikeness.stated(stated)
    if problem.strata is None or len(np.unique(problem.strata)) < 2:
        return UNKNOWN
    sample = PublicSample.of(problem)
    r = sample.problem.owners[0]
    gradients = sample.problem.fitness.loss.gradients(sample.optimum.theta, r.features, r.target)
    return from_strata(gradients, r.weight / r.total, problem.strata, sample.hessian, sample.optimum.value)


@dataclass(frozen=True, eq=False)
class UnlikeWorld:
    """Public rows with how much of each every kind of owner holds; `problem` makes a consortium of it."""

    sample: PublicSample
    rows: Records
    """As the public table has them: unbounded, drawn again."""
    shares: Float[Array, "kinds records"]
    unlikeness: float
    """What was reached: less than asked for where the rows do not allow as much."""

    def problem(self, agreement: Agreement) -> Problem:
        """The owners of `agreement` in this world, all records together being `rows`: owner i is of kind i mod KINDS."""
        kinds = [Records(self.rows.features, self.rows.target, self.rows.weight * share) for share in self.shares]
        parts = tuple(kinds[i % len(kinds)] for i in range(agreement.n_owners))
        same = self.sample.problem.under(agreement)
        return replace(same, unbounded=parts, pooled=self.rows, known_optimum=self.optimum)

    @cached_property
    def optimum(self) -> Optimum:
        """θ* of all records together."""
        pool = replace(self.sample.problem, unbounded=(self.rows,) * len(self.sample.problem.unbounded))
        return replace(pool, known_optimum=None).optimum


def unlike_worlds(
    sample: PublicSample, agreement: Agreement, unlikeness: float, number: int, seed: int = 0
) -> tuple[UnlikeWorld, ...]:
    """`number` worlds of the owners of `agreement` at this unlikeness (0: alike, and bootstrap worlds as ever)."""
    rng = np.random.default_rng([seed, 5])
    return tuple(_world(sample, agreement, unlikeness, rng) for _ in range(number))


def _world(sample: PublicSample, agreement: Agreement, unlikeness: float, rng: np.random.Generator) -> UnlikeWorld:
    raw = sample.smooth.unbounded[0]
    # Where public rows are few, what they were smoothed into is drawn from, row for row.
    drawn = rng.multinomial(raw.units if sample.law.plenty else len(raw), raw.weight / raw.weight.sum()).astype(
        np.float64
    )
    some = drawn > 0
    rows = Records(raw.features[some], raw.target[some], drawn[some])
    n = np.asarray(agreement.records, dtype=np.float64)
    size = np.bincount(np.arange(len(n)) % KINDS, weights=n)
    deal = _Deal.of(sample, some, drawn[some], size / size.sum(), rng)
    if unlikeness <= 0 or len(size) < 2:
        return UnlikeWorld(sample, rows, deal.shares(0.0), 0.0)
    low, high = 0.0, STEEPEST
    if deal.unlikeness(high) > unlikeness:
        for _ in range(14):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if deal.unlikeness(middle) < unlikeness else (low, middle)
    return UnlikeWorld(sample, rows, deal.shares(high), deal.unlikeness(high))


@dataclass(frozen=True, eq=False)
class _Deal:
    """Where every row stands along each kind's direction, and what makes a deal's unlikeness a number."""

    places: Float[Array, "kinds records"]
    weight: Float[Array, " records"]
    size: Float[Array, " kinds"]
    """Each kind's part of all records."""
    gradients: Float[Array, "records p"]
    hessian: Float[Array, "p p"]
    optimum: float

    @classmethod
    def of(
        cls,
        sample: PublicSample,
        some: Bool[np.ndarray, " rows"],
        weight: Array,
        size: Float[Array, " kinds"],
        rng: np.random.Generator,
    ) -> "_Deal":
        r, f = sample.records, sample.smooth.fitness
        x, y = r.features[some], r.target[some]
        g = f.loss.gradients(sample.optimum.theta, x, y)
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
        return cls(places, weight, size, g, sample.hessian, sample.optimum.value)

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

    def unlikeness(self, steepness: float) -> float:
        """Σ size_j · ½ m_jᵀA⁻¹m_j / f(θ*), m_j the mean gradient of kind j's rows at the common optimum."""
        held = self.shares(steepness) * self.weight
        m = (held @ self.gradients) / held.sum(axis=1, keepdims=True)
        away = np.linalg.lstsq(self.hessian, m.T, rcond=1e-10)[0].T
        return float(self.size @ (0.5 * np.sum(m * away, axis=1))) / self.optimum


def _whitened(rows: Float[Array, "records p"], share: Float[Array, " records"]) -> Float[Array, "records p"]:
    """Rows in coordinates in which they are uncorrelated and of variance 1; what does not vary is left out."""
    a, U = np.linalg.eigh((rows * share[:, None]).T @ rows)
    return np.asarray(rows @ (U * np.where(a > 1e-10 * max(a[-1], 1e-300), 1.0 / np.sqrt(np.maximum(a, 1e-300)), 0.0)))
