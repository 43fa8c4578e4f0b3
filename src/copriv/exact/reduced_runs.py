"""How f(θ_k) spreads over runs: the rules' own linear systems, simulated in the eigenvectors of A.

Nothing is approximated but the law itself, by its draws: the noise is Laplace, schedules are drawn, and no record is
touched. A run costs p numbers a step. Identical owners collapse: the sum of m Laplace draws of one scale is a
difference of two Gamma draws of shape m, and an asynchronous run keeps only the owners that it has heard.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from copriv.errors import InvalidInput
from copriv.exact.moments import Directions, Integers, OwnerKinds
from copriv.model.fitness import Quadratic
from copriv.rules.recursion import InRounds, Recursion, WithCopies
from copriv.types import Array
from copriv.validation import count

Order = Literal["uniform", "random order"]
"""Who talks next: a uniform choice among owners with answers left, or all Σ m_i answers in one random order."""

BLOCK = 8_000_000
"""Numbers of an asynchronous run's memory that are held at once."""


@dataclass(frozen=True, eq=False)
class Spread:
    """Quantiles of f(θ_k) − f(θ*) over runs, in the unit of f; row k after k updates (`Moments` says which those are).

    `error` is half the 95 % interval of each quantile that the order statistics of `runs` runs leave.
    """

    probabilities: Float[Array, " probabilities"]
    quantiles: Float[Array, "k probabilities"]
    error: Float[Array, "k probabilities"]
    runs: int


def spread(
    recursion: Recursion,
    quadratic: Quadratic,
    owners: OwnerKinds,
    horizon: int,
    start: object,
    rng: np.random.Generator,
    probabilities: object = (0.05, 0.25, 0.5, 0.75, 0.95),
    runs: int = 4000,
    order: Order = "uniform",
) -> Spread:
    """The quantiles of f(θ_k) − f(θ*) for every k, from `runs` reduced runs. Raises InvalidInput."""
    levels = np.atleast_1d(np.asarray(probabilities, dtype=np.float64))
    if not ((levels >= 0) & (levels <= 1)).all():
        raise InvalidInput(f"probabilities: must be between 0 and 1, not {levels.tolist()}")
    directions = Directions.of(quadratic, owners, start)
    costs = simulated_costs(recursion, directions, owners, horizon, runs, rng, order)
    around = 1.96 * np.sqrt(levels * (1.0 - levels) / runs)
    low, high = (np.quantile(costs, np.clip(levels + s * around, 0.0, 1.0), axis=0).T for s in (-1, 1))
    return Spread(levels, np.quantile(costs, levels, axis=0).T, 0.5 * (high - low), runs)


def simulated_costs(
    recursion: Recursion,
    directions: Directions,
    owners: OwnerKinds,
    horizon: int,
    runs: int,
    rng: np.random.Generator,
    order: Order = "uniform",
) -> Float[Array, "runs k"]:
    """f(θ_k) − f(θ*) of each run and k."""
    count("runs", runs)
    if isinstance(recursion, InRounds):
        return _in_rounds(directions, owners, recursion.steps, recursion.average, runs, rng)
    T = count("horizon", horizon)
    recursion.require(directions.sigma)
    blocks, done = [], 0
    drawn = int(owners.counts @ owners.answers) if order == "random order" and owners.answers is not None else T
    most = max(1, BLOCK // max(drawn, min(owners.number, T) * len(directions.curvature)))
    while done < runs:
        size = min(most, runs - done)
        participants = draw_participants(owners, T, size, rng, order)
        kind, slot = _slots(owners, participants)
        if isinstance(recursion, WithCopies):
            blocks.append(_with_copies(directions, owners, recursion, kind, slot, rng))
        else:
            blocks.append(_with_memory(directions, owners, recursion.step, kind, slot, rng))
        done += size
    costs = np.concatenate(blocks)
    return np.concatenate([costs, np.repeat(costs[:, -1:], T + 1 - costs.shape[1], axis=1)], axis=1)


def _in_rounds(
    d: Directions, owners: OwnerKinds, steps: Array, average: Array | None, runs: int, rng: np.random.Generator
) -> Array:
    p = len(d.start)
    scale, kind = np.unique(owners.weights * owners.noise_scale, return_inverse=True)
    counts = np.bincount(kind.reshape(-1), weights=owners.counts)
    z = np.repeat(d.start[None, :], runs, axis=0)
    mean = z.copy()
    costs = np.empty((runs, len(steps) + 1))
    costs[:, 0] = d.cost(z)
    for k, γ in enumerate(steps):
        w = np.zeros((runs, p))
        for b, m in zip(scale, counts, strict=True):
            if b > 0:
                w += rng.laplace(scale=b, size=(runs, p)) if m == 1 else b * _laplace_sum(m, (runs, p), rng)
        if average is not None:
            mean += average[k] * (z - mean)
        z = z - γ * (d.curvature * z + w @ d.rotation)
        costs[:, k + 1] = d.cost(z if average is None else mean)
    return costs


def _laplace_sum(number: float, shape: tuple[int, int], rng: np.random.Generator) -> Array:
    """The sum of `number` Laplace draws of scale 1: a Laplace draw is a difference of two exponential draws."""
    return rng.standard_gamma(number, shape) - rng.standard_gamma(number, shape)


def draw_participants(
    owners: OwnerKinds, horizon: int, runs: int, rng: np.random.Generator, order: Order = "uniform"
) -> Int[Integers, "runs k"]:
    """The owner of each event, 0 … N−1 in the order of kinds; fewer than `horizon` events where the caps end it."""
    length, N = owners.total_answers(horizon), owners.number
    if order == "random order":
        if owners.answers is None:
            raise InvalidInput("order: a random order of all answers needs the number of answers of each owner")
        each = np.repeat(np.arange(N), np.repeat(owners.answers, owners.counts))
        return rng.permuted(np.broadcast_to(each, (runs, len(each))), axis=1)[:, :length]
    caps = owners.caps(horizon)
    if caps is None:
        return rng.integers(N, size=(runs, length))
    # Uniform choices without the events of exhausted owners are uniform choices among the others.
    most = np.repeat(caps, owners.counts)
    draws = rng.integers(N, size=(runs, length + length // 4 + 8))
    while True:
        sequence = np.argsort(draws, axis=1, kind="stable")
        inside = np.take_along_axis(draws, sequence, axis=1)
        rank = np.empty_like(draws)
        np.put_along_axis(rank, sequence, _run_position(inside), axis=1)
        keep = rank < most[draws]
        if (keep.sum(axis=1) >= length).all():
            first = np.argsort(~keep, axis=1, kind="stable")[:, :length]
            return np.take_along_axis(draws, first, axis=1)
        draws = np.concatenate([draws, rng.integers(N, size=draws.shape)], axis=1)


def _run_position(ordered: Integers) -> Integers:
    """In rows of equal values side by side: how many of the same value stand before each."""
    place = np.broadcast_to(np.arange(ordered.shape[1]), ordered.shape)
    new = np.ones(ordered.shape, dtype=bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    return place - np.maximum.accumulate(np.where(new, place, 0), axis=1)


def _slots(owners: OwnerKinds, participants: Integers) -> tuple[Integers, Integers]:
    """The kind of each participant, and its number among the owners that the run hears: memory only for those."""
    kind = np.searchsorted(np.cumsum(owners.counts), participants, side="right")
    sequence = np.argsort(participants, axis=1, kind="stable")
    ordered = np.take_along_axis(participants, sequence, axis=1)
    number = np.zeros_like(ordered)
    number[:, 1:] = np.cumsum(ordered[:, 1:] != ordered[:, :-1], axis=1)
    slot = np.empty_like(participants)
    np.put_along_axis(slot, sequence, number, axis=1)
    return kind, slot


class _Answers:
    """Noisy answers at z, in the eigenvectors of A."""

    def __init__(self, d: Directions, owners: OwnerKinds, rng: np.random.Generator) -> None:
        self._d, self._rng, self._scale = d, rng, owners.noise_scale

    def at(self, z: Array, kind: Integers) -> Array:
        d = self._d
        noise = (self._rng.laplace(size=z.shape) * self._scale[kind, None]) @ d.rotation
        if d.shared:
            exact: Array = z * d.slope[0, :, 0, 0] + d.offset[0, :, 0]
        else:
            exact = np.einsum("rab,rb->ra", d.slope[kind, 0], z) + d.offset[kind, 0]
        return exact + noise


def _with_copies(
    d: Directions, owners: OwnerKinds, rule: WithCopies, kind: Integers, slot: Integers, rng: np.random.Generator
) -> Array:
    α, c_L = rule.step, rule.learner_step
    runs, length = kind.shape
    N, σ, ω, t = owners.number, d.sigma, owners.weights, d.optimum
    answers, each = _Answers(d, owners, rng), np.arange(runs)
    L = np.repeat(d.start[None, :], runs, axis=0)
    copies = np.repeat(L[:, None, :], int(slot.max(initial=0)) + 1, axis=1)
    costs = np.empty((runs, length + 1))
    costs[:, 0] = d.cost(L)
    for k in range(length):
        i, s = kind[:, k], slot[:, k]
        m = 0.5 * (L + copies[each, s])
        pull = σ * (m + t)
        copies[each, s] = m - (N * α / σ) * (pull / (2 * N) + ω[i, None] * answers.at(m, i))
        L = m - (c_L * α / σ) * pull
        costs[:, k + 1] = d.cost(L)
    return costs


def _with_memory(
    d: Directions, owners: OwnerKinds, α: float, kind: Integers, slot: Integers, rng: np.random.Generator
) -> Array:
    runs, length = kind.shape
    N, σ, ω, t = owners.number, d.sigma, owners.weights, d.optimum
    answers, each = _Answers(d, owners, rng), np.arange(runs)
    z = np.repeat(d.start[None, :], runs, axis=0)
    memory = np.zeros((runs, int(slot.max(initial=0)) + 1, z.shape[1]))
    heard = np.zeros(memory.shape[:2], dtype=bool)
    total, weight = np.zeros_like(z), np.zeros(runs)
    costs = np.empty((runs, length + 1))
    costs[:, 0] = d.cost(z)
    for k in range(length):
        i, s = kind[:, k], slot[:, k]
        new = answers.at(z, i)
        total += ω[i, None] * (new - memory[each, s])
        weight += np.where(heard[each, s], 0.0, ω[i])
        memory[each, s], heard[each, s] = new, True
        z = z - α / (1.0 + (k + 1) / N) * (σ * (z + t) + total / weight[:, None])
        costs[:, k + 1] = d.cost(z)
    return costs
