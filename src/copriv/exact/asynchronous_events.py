"""A1 and A2 as events: who has answered how often, and what one more answer changes.

What an event does depends on how many owners of each kind have answered how often. Given those counts owners of a kind
are exchangeable, and the rule is linear: `CopiesEvent` and `MemoryEvent` say how, `Counts` what the counts can become.
Source: A, Alg. 1 and erratum 2; algorithms "A2, our own asynchronous rule".
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from copriv.errors import InvalidInput
from copriv.exact.moments import Directions, Integers, OwnerKinds
from copriv.exact.reduced_runs import Order
from copriv.types import Array

NEGLIGIBLE = 1e-20
"""Counts less likely than this are dropped: they cannot move a moment by more than rounding does."""


@dataclass(frozen=True, eq=False)
class Counts:
    """Owners by kind and by how often they have answered: class c = (kind, level), and where an answer leads.

    A level is "answers given" under caps; without them "not heard" and "heard" for A2, and one level for A1.
    """

    kind: Integers
    level: Integers
    successor: Integers
    """The class after an answer; −1 where the cap is reached."""
    preference: Float[Array, " classes"]
    """How likely one owner of the class is to talk next, relative to the others."""
    slot: Integers
    """Where Σ over the class stands in the state; −1 for owners without a memory."""
    first: tuple[int, ...]
    """The owners of each class at the start."""
    owners: OwnerKinds
    capped: bool
    horizon: int
    events: int
    """How many happen before every owner has reached its cap."""

    @classmethod
    def of(
        cls,
        d: Directions,
        owners: OwnerKinds,
        horizon: int,
        order: Order,
        remembers: bool,
        noise_apart: bool = False,
    ) -> "Counts":
        """Owners of equal weight and cap become one kind; with `noise_apart` only where their noise is equal too."""
        caps = owners.caps(horizon) if order == "uniform" else owners.answers
        if order == "random order" and caps is None:
            raise InvalidInput("order: a random order of all answers needs the number of answers of each owner")
        if d.shared:
            owners, caps = _merged(owners, caps, noise_apart)
        kind: list[int] = []
        level: list[int] = []
        successor: list[int] = []
        preference: list[float] = []
        first: list[int] = []
        for κ in range(len(owners.records)):
            top = int(caps[κ]) if caps is not None else int(remembers)
            for u in range(top + 1):
                successor.append(len(kind) + 1 if u < top else (-1 if caps is not None else len(kind)))
                kind.append(κ)
                level.append(u)
                preference.append(float(top - u) if order == "random order" else 1.0)
                first.append(int(owners.counts[κ]) if u == 0 else 0)
        has_memory = np.array(level) > 0 if remembers else np.ones(len(level), dtype=bool)
        slot = np.where(has_memory, np.cumsum(has_memory) - 1, -1)
        return cls(
            np.array(kind), np.array(level), np.array(successor), np.array(preference), slot, tuple(first),
            owners, caps is not None, horizon, horizon if caps is None else min(horizon, int(owners.counts @ caps)),
        )  # fmt: skip

    def visits(self, most: float) -> float:
        """About how many vectors of counts a whole run meets, each time that it does; infinite above `most`."""
        states = 1.0
        for κ, N in enumerate(self.owners.counts.tolist()):
            levels, heard = int((self.kind == κ).sum()), min(N, self.events)
            if self.capped:
                states *= math.comb(heard + levels - 1, levels - 1)
            elif levels > 1:
                states *= min(heard + 1.0, 3.0 * math.sqrt(heard) + 10.0)  # others are too unlikely to be kept
            if states > most:
                return math.inf
        return states if self.capped else states * self.events / 5.0  # few at first, and few when all have been heard


def _merged(owners: OwnerKinds, caps: Integers | None, noise_apart: bool) -> tuple[OwnerKinds, Integers | None]:
    alike = [owners.records] + ([] if caps is None else [caps]) + ([owners.noise_scale] if noise_apart else [])
    same, group = np.unique(np.column_stack(alike), axis=0, return_inverse=True)
    return as_groups(owners, group.reshape(-1)), None if caps is None else same[:, 1].astype(np.int64)


class CopiesEvent:
    """x_i and θ_L after an answer of an owner, as linear maps of (1, θ_L, x_i)."""

    def __init__(self, d: Directions, counts: Counts, α: float, c_L: float) -> None:
        self._d, self._counts, self._α, self._c_L = d, counts, α, c_L

    def memory(self, kind: int) -> tuple[Array, Array, Array, float]:
        """x_i ← constant + A·θ_L + B·x_i + g·noise; constant (batch q), A and B (batch q q)."""
        d, α, N = self._d, self._α, self._counts.owners.number
        ω = float(self._counts.owners.weights[kind])
        t = d.optimum.reshape(d.offset.shape[1:])
        slope, offset = answer(d, kind)
        gain = N * α / d.sigma * ω
        half = 0.5 * ((1.0 - α / 2.0) * np.eye(slope.shape[-1]) - gain * slope)
        return -α / 2.0 * t - gain * offset, half, half, -gain

    def model(self, k: int, kind: int, after: Integers) -> tuple[Array, float, float, Array]:
        """θ_L ← constant + A·θ_L + B·x_i + Σ_slots C·S': constant (batch q), A, B numbers, C (states slots)."""
        α, c = self._α, self._c_L
        t = self._d.optimum.reshape(self._d.offset.shape[1:])
        keep = 0.5 * (1.0 - c * α)
        return -c * α * t, keep, keep, np.zeros((len(after), int(self._counts.slot.max()) + 1))


class MemoryEvent:
    """a_i and θ after an answer of an owner, as linear maps of (1, θ, Σ a_i)."""

    def __init__(self, d: Directions, counts: Counts, α: float) -> None:
        self._d, self._counts, self._α = d, counts, α

    def memory(self, kind: int) -> tuple[Array, Array, Array, float]:
        slope, offset = answer(self._d, kind)
        return offset, slope, np.zeros_like(slope), 1.0

    def model(self, k: int, kind: int, after: Integers) -> tuple[Array, float, float, Array]:
        d, c = self._d, self._counts
        α = self._α / (1.0 + k / c.owners.number)
        heard = c.slot >= 0
        ω = c.owners.weights[c.kind[heard]]
        weight = after[:, heard] @ ω
        t = d.optimum.reshape(d.offset.shape[1:])
        return -α * d.sigma * t, 1.0 - α * d.sigma, 0.0, -α * ω / weight[:, None]


def answer(d: Directions, kind: int) -> tuple[Array, Array]:
    """Γ (batch q q) and γ (batch q) of one kind's answers."""
    of = kind if len(d.slope) > 1 else 0
    return d.slope[of], d.offset[of]


def choices(counts: Counts, states: Integers) -> Iterator[tuple[int, Integers, Array]]:
    """For each class that can talk: the states where it can, and with what probability it does."""
    likely = states * np.where(counts.successor >= 0, counts.preference, 0.0)
    chance = likely / likely.sum(axis=1, keepdims=True)
    for c in range(states.shape[1]):
        here = np.flatnonzero(chance[:, c] > 0)
        if len(here):
            yield c, here, chance[here, c]


def as_groups(owners: OwnerKinds, group: Integers) -> OwnerKinds:
    number = np.bincount(group, weights=owners.counts)
    share = np.bincount(group, weights=owners.counts * owners.records)
    # ω²b² is what the noise adds; its sum over the group is kept.
    noise = np.bincount(group, weights=owners.counts * (owners.records * owners.noise_scale) ** 2)
    records = share / number
    return OwnerKinds(records, np.sqrt(noise / number) / records, number.astype(np.int64))
