"""A1 and A2: the mean of f(θ_k) exactly, over the noise and over who happens to talk, where that is within reach.

**A1 without caps** (`_a1_sums`). Owners of equal weight are exchangeable and the choice is uniform, so the recursion
closes on the first and second moments of θ_L and of X = Σ x_i over each kind, and on B = E Σ x_i²: an owner drawn from
a kind has E x_i = E X/N and E x_i² = B/N. One kind costs the same for 3 owners and for a million.

**A2, and caps** (`_by_counts`). What a step does depends on how many owners of each kind have answered how often. Given
those counts owners are exchangeable again, so for each vector of counts it carries the moments of (1, θ, Σ a_i over
those owners). The vectors must be few: they are for a few kinds without caps, for a few owners with caps.

Where they are not few, A2 without caps still needs only some of them (`_a2_paths`): counts are drawn, and the rest is
exact given them, which leaves a small part of the error of as many runs.

Noise scales may differ within a kind: new noise is independent of everything before and of who talks, so only the
average of 2b_i² enters. The variance is `fluctuation`'s. **Beyond reach** either is that of reduced runs (`spread`).
Source: A, Alg. 1 and erratum 2; algorithms "A2, our own asynchronous rule".
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Float

from copriv.fitness import Quadratic
from copriv.forecast import fluctuation
from copriv.forecast.events import NEGLIGIBLE, A1Event, A2Event, Counts, as_groups, choices
from copriv.forecast.moments import Directions, Integers, Moments, OwnerKinds, Rule
from copriv.forecast.spread import Order, require_regularizer, simulated_costs
from copriv.types import Array
from copriv.validation import count, positive

MOST_GROUPS = 400
"""A1: different weights that are kept apart; more are grouped."""

MOST_WORK = 4e9
"""Nanoseconds, as estimated, that an exact recursion over counts may take; beyond it there are runs instead."""

BLOCKS, AT_ONCE = 8, 20_000
"""Independent blocks of paths of counts, which give the standard error, and about how many numbers they may hold."""

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
    require_regularizer(quadratic.regularizer.strength)
    T, ρ = count("horizon", horizon), positive("step", step)
    d = Directions.of(quadratic, owners, start)
    terms = _Terms("A1", d, owners, ρ, T, learner_step, order, runs, rng)
    if d.shared and order == "uniform" and owners.caps(T) is None:
        weights = len(np.unique(owners.weights))
        if weights <= MOST_GROUPS:
            return terms.around(_a1_sums(d, _pooled(owners), ρ / T**2, learner_step, T))
        fine, coarse = (
            _a1_sums(d, _grouped(owners, g), ρ / T**2, learner_step, T) for g in (MOST_GROUPS, MOST_GROUPS // 2)
        )
        return terms.around(fine, np.abs(fine - coarse))
    return terms.by_counts()


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
    T, α = count("horizon", horizon), positive("step", step)
    d = Directions.of(quadratic, owners, start)
    return _Terms("A2", d, owners, α, T, 0.5, order, runs, rng).by_counts()


@dataclass(frozen=True, eq=False)
class _Terms:
    """What is run; its moments exactly where they are within reach, and else from reduced runs."""

    rule: Rule
    directions: Directions
    owners: OwnerKinds
    step: float
    horizon: int
    learner_step: float
    order: Order
    runs: int
    rng: np.random.Generator

    def by_counts(self) -> Moments:
        """Exactly, or else from paths of counts, or else both from runs."""
        counts, event = self._events(noise_apart=False)
        if _work(self.directions, counts) <= MOST_WORK:
            return self.around(_by_counts(self.directions, counts, event))
        runs = self.simulated()
        if self.rule == "A1" or counts.capped or not self.directions.shared:
            return runs
        numbers = len(self.directions.curvature) * len(counts.owners.records)
        if numbers > AT_ONCE:
            return runs
        paths = max(2, min(self.runs, AT_ONCE // numbers) // BLOCKS)
        mean, error = _a2_paths(self.directions, counts.owners, self.step, self.horizon, paths, self.rng)
        return replace(runs, mean=mean, mean_error=error)

    def around(self, mean: Array, grouping: Array | None = None) -> Moments:
        """A variance to a mean that is known."""
        kind: Literal["exact", "grouped"] = "exact" if grouping is None else "grouped"
        error = np.zeros_like(mean) if grouping is None else grouping
        if self.runs == 0:
            unknown = np.full_like(mean, np.nan)
            return Moments(kind, mean, error, "none", unknown, unknown)
        counts, event = self._events(noise_apart=True)
        most = MOST_WORK if self.owners.number <= FEW else MOST_WORK_FOR_MANY
        if self.directions.shared and fluctuation.work(self.directions, counts, most) <= most:
            variance = fluctuation.variances(self.directions, counts, event)
            return Moments(kind, mean, error, "exact", variance, np.zeros_like(mean))
        simulated = self.simulated()
        return Moments(kind, mean, error, "simulated", simulated.variance, simulated.variance_error)

    def simulated(self) -> Moments:
        """Both from runs."""
        runs = count("runs", self.runs, 2)
        costs = simulated_costs(
            self.rule,
            self.directions,
            self.owners,
            self.step,
            self.horizon,
            runs,
            self.rng,
            self.learner_step,
            self.order,
        )
        mean, variance = costs.mean(axis=0), costs.var(axis=0, ddof=1)
        fourth = np.mean((costs - mean) ** 4, axis=0)
        error = np.sqrt(np.maximum(fourth - variance**2, 0.0) / runs)
        return Moments("simulated", mean, np.sqrt(variance / runs), "simulated", variance, error)

    def _events(self, noise_apart: bool) -> tuple[Counts, A1Event | A2Event]:
        d = self.directions
        counts = Counts.of(d, self.owners, self.horizon, self.order, self.rule == "A2", noise_apart)
        if self.rule == "A2":
            return counts, A2Event(d, counts, self.step)
        return counts, A1Event(d, counts, self.step / self.horizon**2, self.learner_step)


def _pooled(owners: OwnerKinds) -> OwnerKinds:
    """Owners of equal weight as one kind, of the average noise variance."""
    return as_groups(owners, np.unique(owners.records, return_inverse=True)[1].reshape(-1))


def _grouped(owners: OwnerKinds, groups: int) -> OwnerKinds:
    """Owners of nearly equal weight as one kind: at most `groups` kinds, each of about as many kinds of owners."""
    pooled = _pooled(owners)
    return as_groups(pooled, np.arange(len(pooled.records)) * groups // len(pooled.records))


def _a1_sums(d: Directions, owners: OwnerKinds, α: float, c_L: float, horizon: int) -> Float[Array, " k"]:
    """E f(θ_L,k) − f(θ*) for one owner chosen uniformly at each of `horizon` events; arrays are directions × kinds.

    With m = (θ_L + x_i)/2 an event is x_i ← βm + τ − noise of variance V, θ_L ← δm − η.
    """
    N, n, σ = owners.number, owners.counts.astype(np.float64), d.sigma
    t, h = d.optimum[:, None], d.slope[0, :, 0, :]
    ω = owners.weights
    β = 1.0 - α / 2.0 - (N * α / σ) * h * ω
    τ = (N * α * ω - α / 2.0) * t
    V = (N * α / σ * ω) ** 2 * 2.0 * owners.noise_scale**2
    δ, η = 1.0 - c_L * α, c_L * α * t
    u, r = β / 2.0, β / 2.0 - 1.0  # new − x_i = uL + r·x_i + τ − noise

    l = d.start[:, None].copy()
    x = n * l
    LL, LX, B = l**2, n * l**2, n * l**2
    XX = x[:, :, None] * x[:, None, :]
    diagonal = np.arange(len(n))
    cost = np.empty(horizon + 1)
    cost[0] = 0.5 * float(d.curvature @ LL[:, 0])
    for k in range(horizon):
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
            n * (u**2 * LL + τ**2 + V + 2.0 * u * τ * l) + r**2 * B + 2.0 * u * r * LX + 2.0 * r * τ * x
        ) / N  # fmt: skip
        new_B = B + (β**2 * 0.25 * (n * LL + 2.0 * LX + B) + β * τ * (n * l + x) + n * (τ**2 + V) - B) / N
        # E θ_L' X_κ and E θ_L' ΔX_κ
        new_LX = 0.5 * δ * (LX + XX.sum(axis=1) / N) - η * x
        new_LX += (
            0.5 * δ * (n * u * LL + r * LX + n * τ * l + u * LX + r * B + τ * x) - η * (n * u * l + r * x + n * τ)
        ) / N
        XX = XX + cross + cross.transpose(0, 2, 1)
        XX[:, diagonal, diagonal] += change
        x = x + (n * u * l + r * x + n * τ) / N
        l = δ * m1 - η
        LL = δ**2 * m2 - 2.0 * δ * η * m1 + η**2
        LX, B = new_LX, new_B
        cost[k + 1] = 0.5 * float(d.curvature @ LL[:, 0])
    return cost


def _a2_paths(
    d: Directions, owners: OwnerKinds, α: float, horizon: int, paths: int, rng: np.random.Generator
) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
    """E f(θ_k) − f(θ*) of A2 without caps, and its standard error: exact given how many of each kind have been heard.

    That path is drawn, `BLOCKS` times `paths` of them; the noise, and who of the heard talks again, are averaged. With
    X = Σ a_i over the heard of a kind and S = Σ ωX, it carries the moments of (1, θ, X), E XS and B = E Σ a_i²; a kind
    gains `gain` of an answer y = Γθ + γ and loses `leave` of what it holds. Arrays are paths × directions (× kinds).
    """
    N, n, σ, K = owners.number, owners.counts.astype(np.float64), d.sigma, len(owners.records)
    ω, V = owners.weights, 2.0 * owners.noise_scale**2
    Γ, γ, R = d.slope[0, :, 0, 0], d.offset[0, :, 0], BLOCKS * paths
    heard = np.zeros((R, K))
    l = np.repeat(d.start[None], R, axis=0)
    LL = l**2
    x, LX, XS, B = np.zeros((4, R, len(l[0]), K))
    costs = np.empty((BLOCKS, horizon + 1))
    costs[:, 0] = 0.5 * float(LL[0] @ d.curvature)
    for k in range(1, horizon + 1):
        # A Latin hypercube: at each event the draws of a block are spread evenly, which settles most of the choice.
        strata = rng.permuted(np.tile(np.arange(paths), (BLOCKS, 1)), axis=1).reshape(-1, 1)
        place = N * (strata + rng.random((R, 1))) / paths
        unheard = np.cumsum(n - heard, axis=1)
        new = (unheard > place) & (unheard - (n - heard) <= place)
        fresh = new.any(axis=1, keepdims=True)
        number = np.maximum(heard.sum(axis=1, keepdims=True), 1.0)
        gain = np.where(fresh, new, heard / number)[:, None, :]
        leave = np.where(fresh, 0.0, 1.0 / number)[:, :, None]
        heard += new

        Ly, yy = (Γ * LL + γ * l)[:, :, None], (Γ**2 * LL + 2.0 * Γ * γ * l + γ**2)[:, :, None]
        yX = Γ[:, None] * LX + γ[:, None] * x
        squares = gain * (yy + V)
        XS += gain * (yX @ ω)[:, :, None] + yX * (gain @ ω)[:, :, None] - 2.0 * leave * XS
        XS += ω * (squares - 2.0 * leave * yX + leave * B)
        B += squares - leave * B
        x += gain * (Γ * l + γ)[:, :, None] - leave * x
        LX += gain * Ly - leave * LX

        α_k = α / (1.0 + k / N)
        keep, c, g = 1.0 - α_k * σ, -α_k * σ * d.optimum, α_k / (heard @ ω)[:, None]
        S, LS, SS = x @ ω, LX @ ω, XS @ ω
        LX = keep * LX + c[:, None] * x - g[:, :, None] * XS
        LL = keep**2 * LL + c**2 + g**2 * SS + 2.0 * (keep * c * l - keep * g * LS - c * g * S)
        l = keep * l + c - g * S
        costs[:, k] = 0.5 * (LL @ d.curvature).reshape(BLOCKS, paths).mean(axis=1)
    return costs.mean(axis=0), costs.std(axis=0, ddof=1) / np.sqrt(BLOCKS)


def _work(d: Directions, counts: Counts) -> float:
    """About how many nanoseconds `_by_counts` takes."""
    _, batch, q, _ = d.slope.shape
    size = 1 + q * (2 + int(counts.slot.max()))
    classes = min(len(counts.kind), counts.owners.number)
    return counts.visits(MOST_WORK) * classes * float(batch * (1000 + 4 * q * size**2))


def _by_counts(d: Directions, counts: Counts, event: A1Event | A2Event) -> Float[Array, " k"]:
    """E f(θ_k) − f(θ*), from the moments of y = (1, θ, S) for each vector of counts; θ and each S are batch × q.

    M is E[yyᵀ; counts], whose first entry is the counts' probability, and B is E[Σ a_i a_iᵀ; counts] of each slot.
    """
    _, batch, q, _ = d.slope.shape
    slots, events = int(counts.slot.max()) + 1, counts.events
    size = 1 + q * (1 + slots)
    z = d.start.reshape(batch, q)
    y = np.zeros((batch, size))
    y[:, 0], y[:, 1 : 1 + q] = 1.0, z
    B = np.zeros((1, batch, slots, q, q))
    for c, s in enumerate(counts.slot.tolist()):
        if s >= 0 and counts.first[c] > 0:  # A1: every copy starts where θ_L does
            y[:, _slot(s, q)] = counts.first[c] * z
            B[0, :, s] = counts.first[c] * z[:, :, None] * z[:, None, :]
    M = (y[:, :, None] * y[:, None, :])[None]
    states = np.array([counts.first], dtype=np.int64)
    a = d.curvature.reshape(batch, q)
    cost = [0.5 * float((a * z**2).sum())]
    for k in range(1, events + 1):
        index: dict[bytes, int] = {}
        steps = []
        for c, here, chance in choices(counts, states):
            after = states[here].copy()
            after[:, c] -= 1
            after[:, counts.successor[c]] += 1
            to = np.array([index.setdefault(row.tobytes(), len(index)) for row in after])
            steps.append((c, here, chance, after, to))
        new_M, new_B = np.zeros((len(index), *M.shape[1:])), np.zeros((len(index), *B.shape[1:]))
        for c, here, chance, after, to in steps:
            ΔM, ΔB = _event(counts, event, k, c, states[here], after, M[here], B[here])
            # From two vectors of counts a class's answer never leads to the same one, so `to` has no repeats.
            new_M[to] += chance[:, None, None, None] * ΔM
            new_B[to] += chance[:, None, None, None, None] * ΔB
        likely = new_M[:, 0, 0, 0] > NEGLIGIBLE
        M, B = new_M[likely], new_B[likely]
        states = np.frombuffer(b"".join(index), dtype=np.int64).reshape(len(index), -1)[likely]
        second = np.einsum("sbqq->bq", M[:, :, 1 : 1 + q, 1 : 1 + q])
        cost.append(0.5 * float((a * second).sum()))
    return np.array(cost + cost[-1:] * (counts.horizon - events))


def _slot(s: int, q: int) -> slice:
    return slice(1 + q * (1 + s), 1 + q * (2 + s))


def _event(
    counts: Counts, event: A1Event | A2Event, k: int, c: int, before: Integers, after: Integers, M: Array, B: Array
) -> tuple[Array, Array]:
    """The moments after an owner of class c has answered at event k, given the counts before and after."""
    states, batch, size, _ = M.shape
    kind, old, new = int(counts.kind[c]), int(counts.slot[c]), int(counts.slot[counts.successor[c]])
    q = B.shape[-1]
    θ, own, eye = slice(1, 1 + q), slice(size, size + q), np.eye(q)

    # Moments of e = (y, a_i): the owner is any of its class, with E a_i yᵀ = E S yᵀ/n and E a_i a_iᵀ = B/n.
    E = np.zeros((states, batch, size + q, size + q))
    E[:, :, :size, :size] = M
    if old >= 0:
        n = before[:, c].astype(np.float64)[:, None, None, None]
        E[:, :, own, :size] = M[:, :, _slot(old, q), :] / n
        E[:, :, :size, own] = E[:, :, own, :size].transpose(0, 1, 3, 2)
        E[:, :, own, own] = B[:, :, old] / n

    # The rows of y that change, as R e + G noise: θ, the sum that the owner leaves and the one that it joins.
    constant, A, own_part, gain = event.memory(kind)
    answer = np.zeros((batch, q, size + q))
    answer[:, :, 0], answer[:, :, θ], answer[:, :, own] = constant, A, own_part
    joined = np.zeros((states, batch, q, size + q))
    joined[:, :, :, _slot(new, q)] = eye
    joined += answer
    if old == new:
        joined[:, :, :, own] -= eye
    constant, keep, own_keep, pull = event.model(k, kind, after)
    pull = pull[:, :, None, None, None]
    model = np.zeros((states, batch, q, size + q))
    model[..., 0], model[:, :, :, θ], model[:, :, :, own] = constant, keep * eye, own_keep * eye
    for s in range(pull.shape[1]):
        model[:, :, :, _slot(s, q)] += pull[:, s] * eye
    model += pull[:, new] * answer
    if old >= 0:
        model[:, :, :, own] -= pull[:, old] * eye
    rows, R, G = [*range(1, 1 + q)], [model], [pull[:, new] * gain * eye]
    if old not in (-1, new):
        left = np.zeros((states, batch, q, size + q))
        left[:, :, :, _slot(old, q)], left[:, :, :, own] = eye, -eye
        rows, R, G = [*rows, *_columns(old, q)], [*R, left], [*G, np.zeros((states, 1, q, q))]
    rows, R, G = [*rows, *_columns(new, q)], [*R, joined], [*G, np.broadcast_to(gain * eye, (states, 1, q, q))]
    change, noise = np.concatenate(R, axis=2), np.concatenate(G, axis=2)

    V = 2.0 * float(counts.owners.noise_scale[kind]) ** 2
    probability = M[:, :, :1, :1]
    product = change @ E
    after_M = M.copy()
    after_M[:, :, rows, :] = product[..., :size]
    after_M[:, :, :, rows] = product[..., :size].transpose(0, 1, 3, 2)
    square = product @ change.transpose(0, 1, 3, 2) + V * probability * (noise @ noise.transpose(0, 1, 3, 2))
    after_M[:, :, np.array(rows)[:, None], rows] = square
    after_B = B.copy()
    if old >= 0:
        after_B[:, :, old] -= E[:, :, own, own]
    after_B[:, :, new] += answer @ E @ answer.transpose(0, 2, 1) + V * gain**2 * probability * eye
    return after_M, after_B


def _columns(s: int, q: int) -> range:
    return range(1 + q * (1 + s), 1 + q * (2 + s))
