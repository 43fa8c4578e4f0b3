"""The mean of f(θ_k) of A1 and A2 from counts: how many owners of each kind have answered how often.

Given the counts, owners of a class are exchangeable and everything is linear, so the moments of (1, θ, Σ a_i over each
class) obey an exact recursion. `by_counts` follows every vector of counts. Where there are too many, `by_paths` draws
paths of counts and is exact given each, which leaves a small part of the error of as many runs; `memory_paths` is the same
for A2 without caps, where much less has to be carried. Source: as `asynchronous_events`.
"""

import numpy as np
from jaxtyping import Float

from copriv.exact.asynchronous_events import NEGLIGIBLE, CopiesEvent, Counts, MemoryEvent, choices
from copriv.exact.moments import Directions, Integers, OwnerKinds
from copriv.types import Array

BLOCKS = 8
"""Independent blocks of paths: the standard error is that of their mean."""


def work(d: Directions, counts: Counts, most: float) -> float:
    """About how many nanoseconds `by_counts` takes; infinite above `most`."""
    return counts.visits(most) * min(len(counts.kind), counts.owners.number) * event_work(d, counts)


def event_work(d: Directions, counts: Counts) -> float:
    """About how many nanoseconds one event takes for one vector of counts."""
    _, batch, q, _ = d.slope.shape
    size = 1 + q * (2 + int(counts.slot.max()))
    return float(batch * (1000 + 4 * q * size**2))


def by_counts(d: Directions, counts: Counts, event: CopiesEvent | MemoryEvent) -> Float[Array, " k"]:
    """E f(θ_k) − f(θ*), from the moments of y = (1, θ, S) for each vector of counts; θ and each S are batch × q.

    M is E[yyᵀ; counts], whose first entry is the counts' probability, and B is E[Σ a_i a_iᵀ; counts] of each slot.
    """
    M, B = _start(d, counts)
    states = np.array([counts.first], dtype=np.int64)
    cost = [float(_costs(d, M)[0])]
    for k in range(1, counts.events + 1):
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
        cost.append(float(_costs(d, M).sum()))
    return np.array(cost + cost[-1:] * (counts.horizon - counts.events))


def by_paths(
    d: Directions, counts: Counts, event: CopiesEvent | MemoryEvent, paths: int, rng: np.random.Generator
) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
    """E f(θ_k) − f(θ*) and its standard error: `by_counts` along `BLOCKS` times `paths` drawn paths of counts."""
    R = BLOCKS * paths
    M, B = (np.repeat(first, R, axis=0) for first in _start(d, counts))
    states = np.repeat(np.array([counts.first], dtype=np.int64), R, axis=0)
    cost = [_costs(d, M)]
    for k in range(1, counts.events + 1):
        likely = np.cumsum(states * np.where(counts.successor >= 0, counts.preference, 0.0), axis=1)
        talks = (likely <= evenly(paths, rng) * likely[:, -1:]).sum(axis=1)
        for c in np.unique(talks).tolist():
            here = np.flatnonzero(talks == c)
            before = states[here]
            states[here, c] -= 1
            states[here, counts.successor[c]] += 1
            M[here], B[here] = _event(counts, event, k, c, before, states[here], M[here], B[here])
        cost.append(_costs(d, M))
    return _mean_and_error(np.array(cost + cost[-1:] * (counts.horizon - counts.events)))


def evenly(paths: int, rng: np.random.Generator) -> Float[Array, "draws 1"]:
    """A uniform draw for each path; those of a block are spread evenly, which settles most of one event's choice."""
    strata = rng.permuted(np.tile(np.arange(paths), (BLOCKS, 1)), axis=1).reshape(-1, 1)
    return np.asarray((strata + rng.random(strata.shape)) / paths)


def _mean_and_error(costs: Float[Array, "k draws"]) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
    """Blocks are independent, the paths of one are not."""
    blocks = costs.reshape(len(costs), BLOCKS, -1).mean(axis=2)
    return np.asarray(blocks.mean(axis=1)), np.asarray(blocks.std(axis=1, ddof=1) / np.sqrt(BLOCKS))


def memory_paths(
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
    costs = [0.5 * LL @ d.curvature]
    for k in range(1, horizon + 1):
        place = N * evenly(paths, rng)
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
        costs.append(0.5 * LL @ d.curvature)
    return _mean_and_error(np.array(costs))


def _start(d: Directions, counts: Counts) -> tuple[Array, Array]:
    _, batch, q, _ = d.slope.shape
    slots = int(counts.slot.max()) + 1
    z = d.start.reshape(batch, q)
    y = np.zeros((batch, 1 + q * (1 + slots)))
    y[:, 0], y[:, 1 : 1 + q] = 1.0, z
    B = np.zeros((1, batch, slots, q, q))
    for c, s in enumerate(counts.slot.tolist()):
        if s >= 0 and counts.first[c] > 0:  # A1: every copy starts where θ_L does
            y[:, _slot(s, q)] = counts.first[c] * z
            B[0, :, s] = counts.first[c] * z[:, :, None] * z[:, None, :]
    return (y[:, :, None] * y[:, None, :])[None], B


def _costs(d: Directions, M: Float[Array, "states batch size size"]) -> Float[Array, " states"]:
    """f(θ) − f(θ*) expected with each vector of counts, times its probability."""
    _, batch, q, _ = d.slope.shape
    second = np.diagonal(M[:, :, 1 : 1 + q, 1 : 1 + q], axis1=2, axis2=3)
    return np.asarray(0.5 * np.einsum("sbq,bq->s", second, d.curvature.reshape(batch, q)))


def _slot(s: int, q: int) -> slice:
    return slice(1 + q * (1 + s), 1 + q * (2 + s))


def _event(
    counts: Counts,
    event: CopiesEvent | MemoryEvent,
    k: int,
    c: int,
    before: Integers,
    after: Integers,
    M: Array,
    B: Array,
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
