"""Asynchronous runs by how many owners of each kind have answered how often, and how an answer changes the state.

What an event does depends on those counts alone: given them owners of a class are exchangeable, and the rule is linear.
Source: A, Alg. 1 and erratum 2; algorithms "A2, our own asynchronous rule".
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from copriv.errors import InvalidInput
from copriv.exact.linear_system import Directions, Integers, OwnerKinds
from copriv.types import Array

Order = Literal["uniform", "random order"]
"""Who talks next: a uniform choice among owners with answers left, or all Σ m_i answers in one random order."""


@dataclass(frozen=True, eq=False)
class Counts:
    """Classes of owners, by kind and by how often they have answered, and the class that an answer leads to.

    Under caps a class is of so many answers given; without them it is "not heard" or "heard" for A2, and A1 needs one.
    """

    owners: OwnerKinds
    kind: Integers
    """Of each class."""
    successor: Integers
    """The class after an answer; −1 where the cap is reached."""
    preference: Float[Array, " classes"]
    """How likely one owner of the class is to talk next, relative to the others."""
    slot: Integers
    """Where the sum over the class stands in the state; −1 for owners without a memory."""
    first: tuple[int, ...]
    """The owners of each class at the start."""
    capped: bool
    events: int
    """How many happen before every owner has reached its cap."""

    @classmethod
    def of(cls, owners: OwnerKinds, caps: Integers | None, horizon: int, order: Order, remembers: bool) -> "Counts":
        """The classes of these kinds. caps: as `caps_of`; remembers: whether only owners that were heard have a memory."""
        tops: Integers = np.full(len(owners.counts), int(remembers))
        events = horizon
        if caps is not None:
            tops, events = caps, min(horizon, int(owners.counts @ caps))
        kind = np.repeat(np.arange(len(tops)), tops + 1)
        level = np.concatenate([np.arange(top + 1) for top in tops])
        successor = np.arange(len(kind)) + 1
        successor[level == tops[kind]] -= 1  # the last class leads to itself
        if caps is not None:
            successor[level == tops[kind]] = -1
        preference = np.ones(len(kind))
        if order == "random order":
            preference = (tops[kind] - level).astype(np.float64)
        has_memory = level >= int(remembers)
        slot = np.where(has_memory, np.cumsum(has_memory) - 1, -1)
        first = tuple(np.where(level == 0, owners.counts[kind], 0).tolist())
        return cls(owners, kind, successor, preference, slot, first, caps is not None, events)

    @property
    def slots(self) -> int:
        return int(self.slot.max()) + 1

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

    def choices(self, states: Integers) -> Iterator[tuple[int, Integers, Array, Integers]]:
        """For each class that can talk: the states where it can, with what probability it does, and the states after."""
        likely = states * np.where(self.successor >= 0, self.preference, 0.0)
        chance = likely / likely.sum(axis=1, keepdims=True)
        for c in range(states.shape[1]):
            here = np.flatnonzero(chance[:, c] > 0)
            if len(here):
                after = states[here].copy()
                after[:, c] -= 1
                after[:, self.successor[c]] += 1
                yield c, here, chance[here, c], after


def caps_of(owners: OwnerKinds, horizon: int, order: Order) -> Integers | None:
    """The caps that count. Raises InvalidInput for a random order of answers whose number is not given."""
    if order == "random order" and owners.answers is None:
        raise InvalidInput("order: a random order of all answers needs the number of answers of each owner")
    return owners.caps(horizon) if order == "uniform" else owners.answers


class CopiesEvent:
    """x_i and θ_L of A1 after an answer of an owner, as linear maps of (1, θ_L, x_i)."""

    def __init__(self, d: Directions, counts: Counts, α: float, c_L: float) -> None:
        self._d, self._counts, self._α, self._c_L = d, counts, α, c_L

    def memory(self, kind: int) -> tuple[Array, Array, Array, float]:
        """x_i ← constant + A·θ_L + B·x_i + g·noise, a number of each in every direction; g is one for all."""
        d, α, owners = self._d, self._α, self._counts.owners
        gain = owners.number * α / d.sigma * float(owners.weights[kind])
        half = 0.5 * ((1.0 - α / 2.0) - gain * d.slope)
        return -α / 2.0 * d.optimum - gain * d.offset, half, half, -gain

    def model(self, k: int, after: Integers) -> tuple[Array, float, float, Array]:
        """θ_L ← constant + A·θ_L + B·x_i + Σ_slots C·S' at event k; A, B are numbers, C has a row for each state."""
        keep = 0.5 * (1.0 - self._c_L * self._α)
        return -self._c_L * self._α * self._d.optimum, keep, keep, np.zeros((len(after), self._counts.slots))


class MemoryEvent:
    """a_i and θ of A2 after an answer of an owner, as linear maps of (1, θ, Σ a_i)."""

    def __init__(self, d: Directions, counts: Counts, α: float) -> None:
        self._d, self._counts, self._α = d, counts, α

    def memory(self, kind: int) -> tuple[Array, Array, Array, float]:
        """As of `CopiesEvent`: the newest answer."""
        return self._d.offset, self._d.slope, np.zeros_like(self._d.slope), 1.0

    def model(self, k: int, after: Integers) -> tuple[Array, float, float, Array]:
        """As of `CopiesEvent`: a step along the mean of all newest answers, owners weighed by records."""
        d, c = self._d, self._counts
        α = self._α / (1.0 + k / c.owners.number)
        heard = c.slot >= 0
        ω = c.owners.weights[c.kind[heard]]
        weight = after[:, heard] @ ω
        return -α * d.sigma * d.optimum, 1.0 - α * d.sigma, 0.0, -α * ω / weight[:, None]
