"""E f(θ_k) of A1 and A2, from every vector of counts that a run can meet.

Given the counts (`answer_counts`), owners of a class are exchangeable and everything is linear, so the moments of
y = (1, θ, S), S the sum of a_i over each class, obey an exact recursion.
"""

import numpy as np
from jaxtyping import Float

from copriv.exact.answer_counts import CopiesEvent, Counts, MemoryEvent
from copriv.exact.linear_system import Directions, Integers
from copriv.types import Array

NEGLIGIBLE = 1e-20
"""Counts less likely than this are dropped: they cannot move a moment by more than rounding does."""
MODEL, SUMS = 1, 2
"""Where θ stands in y, and the first of S."""


def work(d: Directions, counts: Counts, most: float) -> float:
    """About how many nanoseconds `by_counts` takes; infinite above `most`."""
    one = len(d.curvature) * (1000.0 + 4.0 * (SUMS + counts.slots) ** 2)
    return counts.visits(most) * min(len(counts.kind), counts.owners.number) * one


def by_counts(d: Directions, counts: Counts, event: CopiesEvent | MemoryEvent) -> Float[Array, " k"]:
    """E f(θ_k) − f(θ*) for k = 0 … `counts.events`.

    M is E[yyᵀ; counts] in each direction, whose first entry is the counts' probability, and B is E[Σ a_i²; counts] of
    each slot.
    """
    M, B = _start(d, counts)
    states = np.array([counts.first], dtype=np.int64)
    cost = [0.5 * float(d.curvature @ M[0, :, MODEL, MODEL])]
    for k in range(1, counts.events + 1):
        index: dict[bytes, int] = {}
        steps = []
        for c, here, chance, after in counts.choices(states):
            to = np.array([index.setdefault(row.tobytes(), len(index)) for row in after])
            steps.append((c, here, chance, after, to))
        new_M, new_B = np.zeros((len(index), *M.shape[1:])), np.zeros((len(index), *B.shape[1:]))
        for c, here, chance, after, to in steps:
            ΔM, ΔB = _event(counts, event, k, c, states[here], after, M[here], B[here])
            # From two vectors of counts a class's answer never leads to the same one, so `to` has no repeats.
            new_M[to] += chance[:, None, None, None] * ΔM
            new_B[to] += chance[:, None, None] * ΔB
        likely = new_M[:, 0, 0, 0] > NEGLIGIBLE
        M, B = new_M[likely], new_B[likely]
        states = np.frombuffer(b"".join(index), dtype=np.int64).reshape(len(index), -1)[likely]
        cost.append(0.5 * float((M[:, :, MODEL, MODEL] @ d.curvature).sum()))
    return np.array(cost)


def _start(d: Directions, counts: Counts) -> tuple[Array, Array]:
    z = d.start
    y = np.zeros((len(z), SUMS + counts.slots))
    y[:, 0], y[:, MODEL] = 1.0, z
    B = np.zeros((1, len(z), counts.slots))
    for s, number in zip(counts.slot.tolist(), counts.first, strict=True):
        if s >= 0 and number > 0:  # A1: every copy starts where θ_L does
            y[:, SUMS + s], B[0, :, s] = number * z, number * z**2
    return (y[:, :, None] * y[:, None, :])[None], B


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
    states, p, size, _ = M.shape
    kind, old, new = int(counts.kind[c]), int(counts.slot[c]), int(counts.slot[counts.successor[c]])

    # Moments of e = (y, a_i): the owner is any of its class, with E a_i y = E S y/n and E a_i² = B/n.
    E = np.zeros((states, p, size + 1, size + 1))
    E[:, :, :size, :size] = M
    if old >= 0:
        n = before[:, c].astype(np.float64)[:, None]
        E[:, :, size, :size] = M[:, :, SUMS + old, :] / n[:, :, None]
        E[:, :, :size, size] = E[:, :, size, :size]
        E[:, :, size, size] = B[:, :, old] / n

    # The entries of y that change, as R e + G noise: θ, the sum that the owner leaves and the one that it joins.
    answer = np.zeros((p, size + 1))
    answer[:, 0], answer[:, MODEL], answer[:, size], gain = event.memory(kind)
    model = np.zeros((states, p, size + 1))
    model[..., 0], model[..., MODEL], model[..., size], pull = event.model(k, after)
    model[..., SUMS:size] = pull[:, None, :]
    model += pull[:, new, None, None] * answer
    joined = np.zeros((states, p, size + 1))
    joined[..., SUMS + new] = 1.0
    joined += answer
    rows, R, G = [MODEL], [model], [pull[:, new] * gain]
    if old >= 0:
        model[..., size] -= pull[:, old, None]
    if old == new:
        joined[..., size] -= 1.0
    elif old >= 0:
        left = np.zeros((states, p, size + 1))
        left[..., SUMS + old], left[..., size] = 1.0, -1.0
        rows, R, G = [*rows, SUMS + old], [*R, left], [*G, np.zeros(states)]
    rows, R, G = [*rows, SUMS + new], [*R, joined], [*G, np.full(states, gain)]
    change, noise = np.stack(R, axis=2), np.stack(G, axis=1)

    V = 2.0 * float(counts.owners.noise_scale[kind]) ** 2
    probability = M[:, :, 0, 0]
    product = change @ E
    after_M = M.copy()
    after_M[:, :, rows, :] = product[..., :size]
    after_M[:, :, :, rows] = product[..., :size].transpose(0, 1, 3, 2)
    drawn = V * probability[:, :, None, None] * (noise[:, :, None] * noise[:, None, :])[:, None]
    after_M[:, :, np.array(rows)[:, None], rows] = product @ change.transpose(0, 1, 3, 2) + drawn
    after_B = B.copy()
    if old >= 0:
        after_B[:, :, old] -= E[:, :, size, size]
    after_B[:, :, new] += ((answer[:, None, :] @ E)[:, :, 0] * answer).sum(axis=-1) + V * gain**2 * probability
    return after_M, after_B
