"""E f(θ_k) of A1 and A2, exactly over the noise and over the order of owners.

**A1 without caps** (`_copies_sums`). Owners of equal weight are exchangeable and the choice is uniform, so the recursion
closes on the first and second moments of θ_L and of X = Σ x_i over each kind, and on B = E Σ x_i²: an owner drawn from
a kind has E x_i = E X/N and E x_i² = B/N. One kind costs the same for 3 owners and for a million.

**A2, caps, and clocks of different rates** (`by_counts`). A step depends on how many owners of each kind have answered how
often. The recursion is over all such counts, which is feasible for few kinds without caps, and for few owners with caps. Given
the counts, owners of a class are exchangeable, and the rule is linear. So the moments of y = (1, θ, S), S the sum of a_i over
each class, obey an exact recursion.

Noise scales may differ within a kind: new noise is independent of the past and of the order, so only the mean of 2b_i²
enters. Source: A, Alg. 1 and erratum 2; algorithms "A2, our own asynchronous rule".
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from copriv.errors import InvalidInput
from copriv.exact.linear_system import Directions, Integers, Order, OwnerKinds
from copriv.model.fitness import Quadratic
from copriv.rules.rule import WithCopies, WithMemory
from copriv.types import Array
from copriv.validation import count

NEGLIGIBLE = 1e-20
"""Probability below which a vector of counts is dropped, as it changes moments by less than rounding errors."""
MODEL, SUMS = 1, 2
"""Indices in y of θ, and of the first entry of S."""


@dataclass(frozen=True, eq=False)
class Counts:
    """Classes of owners, by kind and by how often they have answered, and the class that an answer leads to.

    Under caps a class is of so many answers given; without them it is "not heard" or "heard" for A2, and A1 needs one.
    """

    owners: OwnerKinds
    kind: Integers
    """Kind of owner of each class."""
    successor: Integers
    """The class after an answer; −1 where the cap is reached."""
    preference: Float[Array, " classes"]
    """Relative probability that one owner of the class answers next."""
    slot: Integers
    """Index in S of the sum over the class; −1 for owners without a memory."""
    first: tuple[int, ...]
    """The owners of each class at the start."""
    capped: bool
    events: int
    """Number of events until every owner has reached its cap."""

    @classmethod
    def of(cls, owners: OwnerKinds, caps: Integers | None, horizon: int, order: Order, remembers: bool) -> "Counts":
        """The classes of these kinds. remembers: whether only owners that were heard have a memory."""
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
        preference = owners.relative_rates[kind]
        if order == "random order":
            preference = (tops[kind] - level).astype(np.float64)
        has_memory = level >= int(remembers)
        slot = np.where(has_memory, np.cumsum(has_memory) - 1, -1)
        first = tuple(np.where(level == 0, owners.counts[kind], 0).tolist())
        return cls(owners, kind, successor, preference, slot, first, caps is not None, events)

    @property
    def slots(self) -> int:
        return int(self.slot.max()) + 1

    def work(self, directions: int, most: float) -> float:
        """Approximate time of `by_counts` in nanoseconds; infinite above `most`.

        It is the number of vectors of counts over all events, times the time of one event.
        """
        states = 1.0
        for κ, N in enumerate(self.owners.counts.tolist()):
            levels, heard = int((self.kind == κ).sum()), min(N, self.events)
            if self.capped:
                states *= math.comb(heard + levels - 1, levels - 1)
            elif levels > 1:
                states *= min(heard + 1.0, 3.0 * math.sqrt(heard) + 10.0)  # others are too unlikely to be kept
            if states > most:
                return math.inf
        if not self.capped:
            states *= self.events / 5.0  # few at first, and few when all have been heard
        return states * min(len(self.kind), self.owners.number) * directions * (1000.0 + 4.0 * (SUMS + self.slots) ** 2)

    def choices(self, states: Integers) -> Iterator[tuple[int, Integers, Array, Integers]]:
        """For each class: the states in which it can answer, its probability to answer next, and the states after that."""
        likely = states * np.where(self.successor >= 0, self.preference, 0.0)
        chance = likely / likely.sum(axis=1, keepdims=True)
        for c in range(states.shape[1]):
            here = np.flatnonzero(chance[:, c] > 0)
            if len(here):
                after = states[here].copy()
                after[:, c] -= 1
                after[:, self.successor[c]] += 1
                yield c, here, chance[here, c], after


class CopiesEvent:
    """x_i and θ_L of A1 after an answer of an owner, as linear maps of (1, θ_L, x_i)."""

    def __init__(self, d: Directions, counts: Counts, α: float, c_L: float) -> None:
        self._d, self._counts, self._α, self._c_L = d, counts, α, c_L

    def memory(self, kind: int) -> tuple[Array, Array, Array, float]:
        """x_i ← constant + A·θ_L + B·x_i + g·noise, a number of each in every direction; g is one for all."""
        d, α, owners = self._d, self._α, self._counts.owners
        gain = owners.number * α / d.sigma * float(owners.weights[kind] / owners.relative_rates[kind])
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
        """The map of the newest answer, as in `CopiesEvent`."""
        return self._d.offset, self._d.slope, np.zeros_like(self._d.slope), 1.0

    def model(self, k: int, after: Integers) -> tuple[Array, float, float, Array]:
        """The map of a step along the mean of all newest answers, owners weighed by records, as in `CopiesEvent`."""
        d, c = self._d, self._counts
        α = self._α / (1.0 + k / c.owners.number)
        heard = c.slot >= 0
        ω = c.owners.weights[c.kind[heard]]
        weight = after[:, heard] @ ω
        return -α * d.sigma * d.optimum, 1.0 - α * d.sigma, 0.0, -α * ω / weight[:, None]


def by_counts(d: Directions, counts: Counts, event: CopiesEvent | MemoryEvent) -> Float[Array, " k"]:
    """E f(θ_k) − f(θ*) for k = 0 … `counts.events`.

    M is E[yyᵀ; counts] in each direction, whose first entry is the counts' probability, and B is E[Σ a_i²; counts] of
    each slot.
    """
    z = d.start
    y, B = np.zeros((len(z), SUMS + counts.slots)), np.zeros((1, len(z), counts.slots))
    y[:, 0], y[:, MODEL] = 1.0, z
    for s, number in zip(counts.slot.tolist(), counts.first, strict=True):
        if s >= 0 and number > 0:  # A1: every copy starts where θ_L does
            y[:, SUMS + s], B[0, :, s] = number * z, number * z**2
    M = (y[:, :, None] * y[:, None, :])[None]
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


def in_turns(
    quadratic: Quadratic,
    owners: OwnerKinds,
    recursion: WithCopies | WithMemory,
    horizon: int,
    start: object,
    order: Order = "uniform",
) -> Float[Array, " k"]:
    """E f(θ_k) − f(θ*) of any rule by which one owner answers at a time. T + 1 entries, the start first.

    Raises InvalidInput for terms that the rule cannot be run with, and for what is out of reach.
    """
    if isinstance(recursion, WithCopies):
        recursion.require(quadratic.regularizer.strength)
    T, d, caps = count("horizon", horizon), Directions.of(quadratic, start), owners.caps(horizon, order)
    kinds, caps = owners.merged(caps)
    if isinstance(recursion, WithCopies) and kinds.rates is None and caps is None and len(kinds.records) <= 400:
        return _copies_sums(d, kinds, recursion, T)  # time goes with the square of their number
    if isinstance(recursion, WithCopies) and kinds.rates is not None and caps is not None:
        raise InvalidInput(
            "owners: those with fast clocks run out of answers first, and this rule then corrects by realised shares, which no "
            "exact recursion follows; simulate these terms instead"
        )
    counts = Counts.of(kinds, caps, T, order, isinstance(recursion, WithMemory))
    most = 4e9  # nanoseconds, as estimated
    if counts.work(len(d.curvature), most) > most:
        raise InvalidInput(
            f"owners: {owners.number:,} of {len(kinds.records):,} kinds can answer in more ways than an exact recursion can "
            "follow; simulate these terms instead"
        )
    event: CopiesEvent | MemoryEvent = MemoryEvent(d, counts, recursion.step)
    if isinstance(recursion, WithCopies):
        event = CopiesEvent(d, counts, recursion.step, recursion.learner_step)
    cost = by_counts(d, counts, event)
    return np.pad(cost, (0, T + 1 - len(cost)), mode="edge")


def _copies_sums(d: Directions, owners: OwnerKinds, recursion: WithCopies, horizon: int) -> Float[Array, " k"]:
    """E f(θ_L,k) − f(θ*) for one owner chosen uniformly at each of `horizon` events; arrays are directions × kinds.

    With m = (θ_L + x_i)/2 an event is x_i ← βm + τ − noise of variance V, θ_L ← δm − η.
    """
    α, c_L = recursion.step, recursion.learner_step
    N, n, σ = owners.number, owners.counts.astype(np.float64), d.sigma
    t, h = d.optimum[:, None], d.slope[:, None]
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
    squares = [moments[2][:, 0]]
    for _ in range(horizon):
        moments = event(*moments)
        squares.append(moments[2][:, 0])
    return 0.5 * np.array(squares) @ d.curvature


def _repeated(
    event: Callable[..., tuple[Array, ...]], moments: tuple[Array, ...], times: int
) -> Float[Array, "k directions moments"]:
    """The moments of one kind after 0 … `times` events, by powers of the matrix of one event."""
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
