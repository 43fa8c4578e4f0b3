"""A1 and A2: the mean of f(θ_k) exactly, over the noise and over who happens to talk, where that is within reach.

**A1 without caps** (`_copies_sums`). Owners of equal weight are exchangeable and the choice is uniform, so the recursion
closes on the first and second moments of θ_L and of X = Σ x_i over each kind, and on B = E Σ x_i²: an owner drawn from
a kind has E x_i = E X/N and E x_i² = B/N. One kind costs the same for 3 owners and for a million.

**A2, and caps** (`asynchronous_mean`). What a step does depends on how many owners of each kind have answered how often. Those
counts are all followed where they are few: for a few kinds without caps, for a few owners with caps. Where they are
not, paths of counts are drawn.

Noise scales may differ within a kind: new noise is independent of everything before and of who talks, so only the
average of 2b_i² enters. The variance is `asynchronous_variance`'s. **Beyond reach** either is that of `reduced_runs`.
Source: A, Alg. 1 and erratum 2; algorithms "A2, our own asynchronous rule".
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Float

from copriv.exact import asynchronous_mean, asynchronous_variance
from copriv.exact.asynchronous_events import CopiesEvent, Counts, MemoryEvent, as_groups
from copriv.exact.moments import Directions, Moments, OwnerKinds
from copriv.exact.reduced_runs import Order, simulated_costs
from copriv.model.fitness import Quadratic
from copriv.rules.async_copies import a1_recursion
from copriv.rules.recursion import WithCopies, WithMemory
from copriv.types import Array
from copriv.validation import count, positive

MOST_GROUPS = 400
"""A1: different weights that are kept apart; more are grouped."""

MOST_WORK = 4e9
"""Nanoseconds, as estimated, that an exact recursion over counts may take; beyond it there are runs instead."""

PATHS_HOLD, PATHS_WORK = 15_000, 1e9
"""About how many numbers all paths of A2 without caps may hold; how many nanoseconds other paths may take."""

FEW, MOST_WORK_FOR_MANY = 10, 0.7e9
"""The variance for more than `FEW` owners may take only this long: beside their exact mean runs are quick and sharp."""


def a1(
    quadratic: Quadratic,
    owners: OwnerKinds,
    step: float,
    horizon: int,
    start: object,
    rng: np.random.Generator,
    learner_step: float = 0.5,
    order: Order = "uniform",
    runs: int = 500,
) -> Moments:
    """A1 with ρ = `step` and c_L = `learner_step` (1/2; the paper prints (N−1)/N). T + 1 entries, θ_L,0 first.

    The variance is exact where that is within reach, and else that of `runs` reduced runs; with runs = 0 it is left out
    (NaN), which makes an exact mean cheap. Raises InvalidInput without a regulariser: the step is ρ/(T²σ).
    """
    return in_turns(quadratic, owners, a1_recursion(step, horizon, learner_step), horizon, start, rng, order, runs)


def a2(
    quadratic: Quadratic,
    owners: OwnerKinds,
    step: float,
    horizon: int,
    start: object,
    rng: np.random.Generator,
    order: Order = "uniform",
    runs: int = 500,
) -> Moments:
    """A2 with α = `step`, α_k = α/(1 + k/N). T + 1 entries, θ_0 first; `runs` as for A1."""
    return in_turns(quadratic, owners, WithMemory(positive("step", step)), horizon, start, rng, order, runs)


def in_turns(
    quadratic: Quadratic,
    owners: OwnerKinds,
    recursion: WithCopies | WithMemory,
    horizon: int,
    start: object,
    rng: np.random.Generator,
    order: Order = "uniform",
    runs: int = 500,
) -> Moments:
    """Any rule by which one owner answers at a time. T + 1 entries, the start first; `runs` as for A1."""
    recursion.require(quadratic.regularizer.strength)
    T = count("horizon", horizon)
    d = Directions.of(quadratic, owners, start)
    terms = _Terms(recursion, d, owners, T, order, runs, rng)
    if isinstance(recursion, WithCopies) and d.shared and order == "uniform" and owners.caps(T) is None:
        weights = len(np.unique(owners.weights))
        if weights <= MOST_GROUPS:
            return terms.around(_copies_sums(d, _pooled(owners), recursion, T))
        fine, coarse = (_copies_sums(d, _grouped(owners, g), recursion, T) for g in (MOST_GROUPS, MOST_GROUPS // 2))
        return terms.around(fine, np.abs(fine - coarse))
    return terms.by_counts()


@dataclass(frozen=True, eq=False)
class _Terms:
    """What is run; its moments exactly where they are within reach, and else from reduced runs."""

    recursion: WithCopies | WithMemory
    directions: Directions
    owners: OwnerKinds
    horizon: int
    order: Order
    runs: int
    rng: np.random.Generator

    def by_counts(self) -> Moments:
        """Exactly, or else from paths of counts, or else both from runs."""
        d = self.directions
        counts, event = self._events(noise_apart=False)
        if asynchronous_mean.work(d, counts, MOST_WORK) <= MOST_WORK:
            return self.around(asynchronous_mean.by_counts(d, counts, event))
        runs = self.simulated()
        if isinstance(self.recursion, WithMemory) and d.shared and not counts.capped:
            numbers = len(d.curvature) * len(counts.owners.records)
            paths = min(self.runs, max(PATHS_HOLD // numbers, 2 * asynchronous_mean.BLOCKS)) // asynchronous_mean.BLOCKS
            if paths > 1 and numbers <= PATHS_HOLD:
                mean, error = asynchronous_mean.memory_paths(
                    d, counts.owners, self.recursion.step, self.horizon, paths, self.rng
                )
                return replace(runs, mean=mean, mean_error=error)
        else:
            one = counts.events * asynchronous_mean.event_work(d, counts)
            paths = min(self.runs, int(PATHS_WORK / one)) // asynchronous_mean.BLOCKS
            if paths > 1:
                mean, error = asynchronous_mean.by_paths(d, counts, event, paths, self.rng)
                return replace(runs, mean=mean, mean_error=error)
        return runs

    def around(self, mean: Array, grouping: Array | None = None) -> Moments:
        """A variance to a mean that is known."""
        kind: Literal["exact", "grouped"] = "exact" if grouping is None else "grouped"
        error = np.zeros_like(mean) if grouping is None else grouping
        if self.runs == 0:
            unknown = np.full_like(mean, np.nan)
            return Moments(kind, mean, error, "none", unknown, unknown)
        counts, event = self._events(noise_apart=True)
        most = MOST_WORK if self.owners.number <= FEW else MOST_WORK_FOR_MANY
        if self.directions.shared and asynchronous_variance.work(self.directions, counts, most) <= most:
            variance = asynchronous_variance.variances(self.directions, counts, event)
            return Moments(kind, mean, error, "exact", variance, np.zeros_like(mean))
        simulated = self.simulated()
        return Moments(kind, mean, error, "simulated", simulated.variance, simulated.variance_error)

    def simulated(self) -> Moments:
        """Both from runs."""
        runs = count("runs", self.runs, 2)
        costs = simulated_costs(self.recursion, self.directions, self.owners, self.horizon, runs, self.rng, self.order)
        mean, variance = costs.mean(axis=0), costs.var(axis=0, ddof=1)
        fourth = np.mean((costs - mean) ** 4, axis=0)
        error = np.sqrt(np.maximum(fourth - variance**2, 0.0) / runs)
        return Moments("simulated", mean, np.sqrt(variance / runs), "simulated", variance, error)

    def _events(self, noise_apart: bool) -> tuple[Counts, CopiesEvent | MemoryEvent]:
        d, recursion = self.directions, self.recursion
        remembers = isinstance(recursion, WithMemory)
        counts = Counts.of(d, self.owners, self.horizon, self.order, remembers, noise_apart)
        if isinstance(recursion, WithMemory):
            return counts, MemoryEvent(d, counts, recursion.step)
        return counts, CopiesEvent(d, counts, recursion.step, recursion.learner_step)


def _pooled(owners: OwnerKinds) -> OwnerKinds:
    """Owners of equal weight as one kind, of the average noise variance."""
    return as_groups(owners, np.unique(owners.records, return_inverse=True)[1].reshape(-1))


def _grouped(owners: OwnerKinds, groups: int) -> OwnerKinds:
    """Owners of nearly equal weight as one kind: at most `groups` kinds, each of about as many kinds of owners."""
    pooled = _pooled(owners)
    return as_groups(pooled, np.arange(len(pooled.records)) * groups // len(pooled.records))


def _copies_sums(d: Directions, owners: OwnerKinds, recursion: WithCopies, horizon: int) -> Float[Array, " k"]:
    """E f(θ_L,k) − f(θ*) for one owner chosen uniformly at each of `horizon` events; arrays are directions × kinds.

    With m = (θ_L + x_i)/2 an event is x_i ← βm + τ − noise of variance V, θ_L ← δm − η.
    """
    α, c_L = recursion.step, recursion.learner_step
    N, n, σ = owners.number, owners.counts.astype(np.float64), d.sigma
    t, h = d.optimum[:, None], d.slope[0, :, 0, :]
    ω = owners.weights
    β = 1.0 - α / 2.0 - (N * α / σ) * h * ω
    τ = (N * α * ω - α / 2.0) * t
    V = (N * α / σ * ω) ** 2 * 2.0 * owners.noise_scale**2
    δ, η = 1.0 - c_L * α, c_L * α * t
    u, r = β / 2.0, β / 2.0 - 1.0  # new − x_i = uL + r·x_i + τ − noise

    diagonal = np.arange(len(n))

    def event(l: Array, x: Array, LL: Array, LX: Array, B: Array, XX: Array, one: Array) -> tuple[Array, ...]:
        """The moments after an event; linear in those before it and in `one`, which is 1."""
        mean_x = x.sum(axis=1, keepdims=True) / N
        mean_LX = LX.sum(axis=1, keepdims=True) / N
        mean_B = B.sum(axis=1, keepdims=True) / N
        m1 = 0.5 * (l + mean_x)
        m2 = 0.25 * (LL + 2.0 * mean_LX + mean_B)
        # E ΔX_κ X_κ' and E (ΔX_κ)², of the one owner that talks
        cross = (
            r[:, :, None] * XX + u[:, :, None] * n[:, None] * LX[:, None, :] + (n * τ)[:, :, None] * x[:, None, :]
        ) / N
        change = (
            n * (u**2 * LL + (τ**2 + V) * one + 2.0 * u * τ * l) + r**2 * B + 2.0 * u * r * LX + 2.0 * r * τ * x
        ) / N  # fmt: skip
        new_B = B + (β**2 * 0.25 * (n * LL + 2.0 * LX + B) + β * τ * (n * l + x) + n * (τ**2 + V) * one - B) / N
        # E θ_L' X_κ and E θ_L' ΔX_κ
        new_LX = 0.5 * δ * (LX + XX.sum(axis=1) / N) - η * x
        new_LX = (
            new_LX
            + (
                0.5 * δ * (n * u * LL + r * LX + n * τ * l + u * LX + r * B + τ * x)
                - η * (n * u * l + r * x + n * τ * one)
            )
            / N
        )
        new_XX = XX + cross + cross.transpose(0, 2, 1)
        new_XX[:, diagonal, diagonal] += change
        new_x = x + (n * u * l + r * x + n * τ * one) / N
        return δ * m1 - η * one, new_x, δ**2 * m2 - 2.0 * δ * η * m1 + η**2 * one, new_LX, new_B, new_XX, one

    l = d.start[:, None].copy()
    x, one = n * l, np.ones_like(l)
    moments: tuple[Array, ...] = (l, x, l**2, n * l**2, n * l**2, x[:, :, None] * x[:, None, :], one)
    if len(n) == 1:
        return 0.5 * _repeated(event, moments, horizon)[:, :, 2] @ d.curvature
    cost = np.empty(horizon + 1)
    cost[0] = 0.5 * float(d.curvature @ moments[2][:, 0])
    for k in range(horizon):
        moments = event(*moments)
        cost[k + 1] = 0.5 * float(d.curvature @ moments[2][:, 0])
    return cost


def _repeated(
    event: Callable[..., tuple[Array, ...]], moments: tuple[Array, ...], times: int
) -> Float[Array, "k directions moments"]:
    """The moments of one kind after 0 … `times` events, by the matrix of one: a product in place of sixty small ones."""
    p, size = len(moments[0]), len(moments)
    columns = []
    for j in range(size):
        unit = tuple(np.full_like(moment, float(i == j)) for i, moment in enumerate(moments))
        columns.append(np.stack([after.reshape(p) for after in event(*unit)], axis=1))
    matrix = np.stack(columns, axis=2)
    made = np.empty((times + 1, p, size))
    made[0] = np.stack([moment.reshape(p) for moment in moments], axis=1)
    for k in range(times):
        np.matmul(matrix, made[k][:, :, None], out=made[k + 1][:, :, None])
    return made
