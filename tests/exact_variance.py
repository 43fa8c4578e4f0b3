"""Var f(θ_k) of linear rules, exactly: fourth moments over the noise and over who talks. The oracle for spreads of runs.

    Var f(θ_k) = ¼ Σ_jl a_j a_l E z_j² z_l² − (E f − f*)²

All directions hear the same participant and rotated Laplace noise, so E z_j² z_l² is no product: each pair j ≤ l is followed
by itself. With shared data a direction's state is y = (1, θ, S, x_1, x_2, …), x the owners' memories and S = Σ ω_i x_i,
and an event is y ← Fy + gξ. So E[y_a y_b · y'_c y'_d], ′ the direction l, obeys a closed linear recursion, given the
counts of `copriv.exact.asynchronous`. The noise brings (V = 2b², κ = 12b⁴, G as in `_in_rounds`)

    E ξ² = V,     E ξ² ξ'² = V² + κ G_jl,  with 2V² more for j = l,     odd moments 0.

**Identical owners collapse.** Owners of one class are exchangeable and an entry names at most four of them, so four
labels a class stand for all: E x_1 x_2 is the same for any two. `_split` sets the participant apart from its class, `_join`
makes it a random member of the class that its answer leads to; both only rename labels.

Exact to rounding, which is relative to the square of the mean: about 1e-13 of it. Owners of a class share their noise
scale here: the variance of an owner's new noise goes with that of its memory, so that an average would not do.
"""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from jaxtyping import Float, Int

from copriv.exact.asynchronous import NEGLIGIBLE, CopiesEvent, Counts, MemoryEvent
from copriv.exact.linear_system import Directions, Integers, Order, OwnerKinds
from copriv.model.fitness import Quadratic
from copriv.rules.rule import InRounds, Recursion, WithMemory
from copriv.types import Array

LABELS = 4
"""Owners of one class that an entry of four factors can name."""

ONE, MODEL, SUM = 0, 1, 2
"""The first labels of y; SUM is there only where a class can have more owners than labels."""

Row = tuple[int, ...]
Flags = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


def variance_of(
    recursion: Recursion,
    quadratic: Quadratic,
    owners: OwnerKinds,
    horizon: int,
    start: object,
    order: Order = "uniform",
) -> Float[Array, " k"]:
    """Var f(θ_k) after k updates, k = 0, 1, …; identical owners are best given as one kind."""
    d, rotation = Directions.of(quadratic, start), np.linalg.eigh(quadratic.hessian)[1]
    squares = np.square(rotation)
    mixing = squares.T @ squares
    if isinstance(recursion, InRounds):
        return _in_rounds(d, mixing, owners, recursion)
    remembers = isinstance(recursion, WithMemory)
    counts = Counts.of(owners, owners.caps(horizon, order), horizon, order, remembers)
    if isinstance(recursion, WithMemory):
        event: CopiesEvent | MemoryEvent = MemoryEvent(d, counts, recursion.step)
    else:
        event = CopiesEvent(d, counts, recursion.step, recursion.learner_step)
    found = _in_turns(d, mixing, counts, event)
    return np.pad(found, (0, horizon + 1 - len(found)), mode="edge")


def _in_rounds(d: Directions, mixing: Array, owners: OwnerKinds, recursion: InRounds) -> Float[Array, " k"]:
    """With ξ = z − E z and D = diag(a), noise of variance V and fourth cumulant κ in every direction,

        Var ½zᵀDz = μᵀDΣDμ + ½ tr(DΣDΣ) + ¼ Σ_jj' a_j a_j' G_jj' K_jj',   G_jj' = Σ_l U_lj² U_lj'²,

    where K_jj' = κ Σ_t r_tj² r_tj'², r_tj the response of z_j to the noise of round t.
    """
    a, p, steps, average = d.curvature, len(d.curvature), recursion.steps, recursion.average
    scale = owners.weights * owners.noise_scale
    V = 2.0 * float(owners.counts @ scale**2)
    κ = 12.0 * float(owners.counts @ scale**4)
    mixing = np.outer(a, a) * mixing
    states, out = (1, 0) if average is None else (2, 1)
    square = out * states + out
    μ = np.repeat(d.start[:, None], states, axis=1)
    Σ = np.zeros((p, states, states))
    K = np.zeros((p, states**2, p, states**2))
    variance = np.empty(len(steps) + 1)
    F, g = np.zeros((p, states, states)), np.zeros(states)
    for k in range(len(steps) + 1):
        m, s = μ[:, out], Σ[:, out, out]
        gaussian = float((a**2) @ (m**2 * s + 0.5 * s**2))
        variance[k] = gaussian + 0.25 * float((mixing * K[:, square, :, square]).sum())
        if k == len(steps):
            break
        F[:, 0, 0], g[0] = 1.0 - steps[k] * a, -steps[k]
        if average is not None:
            F[:, 1, 0], F[:, 1, 1] = average[k], 1.0 - average[k]
        μ = np.einsum("jab,jb->ja", F, μ)
        Σ = F @ Σ @ F.transpose(0, 2, 1) + V * np.outer(g, g)
        FF = np.einsum("jab,jcd->jacbd", F, F).reshape(p, states**2, states**2)
        gg = np.outer(g, g).reshape(-1)
        K = (FF @ K.reshape(p, states**2, -1)).reshape(p * states**2, p, states**2)
        K = np.einsum("rjb,jab->rja", K, FF).reshape(p, states**2, p, states**2)
        K += κ * gg[:, None, None] * gg
    return variance


def _in_turns(d: Directions, mixing: Array, counts: Counts, event: CopiesEvent | MemoryEvent) -> Float[Array, " k"]:
    recursion = _Recursion(d, mixing, counts, event)
    live = {counts.first: recursion.start()}
    found = [0.0]
    for k, moves in enumerate(_walk(counts), start=1):
        # Moves that lead to the same counts by the same class differ only in what came before.
        before_answer: dict[tuple[Row, int, Row, bool], Array] = {}
        for before, c, chance, after in moves:
            sizes, own, apart = recursion.split(live[before], before, c)
            key = (after, int(counts.successor[c]), sizes, own)
            before_answer[key] = before_answer.get(key, 0.0) + chance * apart
        live = {}
        for (after, joined, sizes, own), apart in before_answer.items():
            answered = recursion.answer(apart, int(counts.kind[joined]), sum(sizes), own)
            live[after] = live.get(after, 0.0) + _join(answered, after, joined, sizes, recursion.base, counts)
        live = {after: recursion.move(moments, k, after) for after, moments in live.items()}
        found.append(recursion.variance(live, counts))
    return np.array(found)


def _walk(counts: Counts) -> Iterator[list[tuple[Row, int, float, Row]]]:
    """Event by event, every move (counts before, class that talks, its chance, counts after) that is likely enough."""
    live = {counts.first: 1.0}
    for _ in range(counts.events):
        rows, states = list(live), np.array(list(live), dtype=np.int64)
        moves, reached = [], dict[Row, float]()
        for c, here, chance, to in counts.choices(states):
            for i, q, after in zip(here.tolist(), chance.tolist(), map(tuple, to.tolist()), strict=True):
                moves.append((rows[i], c, q, after))
                reached[after] = reached.get(after, 0.0) + q * live[rows[i]]
        live = {row: q for row, q in reached.items() if q > NEGLIGIBLE}
        yield [move for move in moves if move[3] in live]


class _Linear:
    """y ← Fy + gξ, one F for each direction, on the moments; labels that are not `changed` keep their place."""

    def __init__(self, F: Array, changed: Integers, g: Array) -> None:
        new, old = F.shape[1:]
        first, second, self._position = _pairs(new)
        c, d, place = _pairs(old)
        touched = np.isin(first, changed) | np.isin(second, changed)
        self._rows, self._rest = np.flatnonzero(touched), np.flatnonzero(~touched)
        self._kept = place[first[self._rest], second[self._rest]]
        a, b = first[self._rows][:, None], second[self._rows][:, None]
        self._square = F[:, a, c] * F[:, b, d] + np.where(c == d, 0.0, F[:, a, d] * F[:, b, c])
        noise = g[first] * g[second]
        self._noisy = np.flatnonzero(noise)
        self._noise = noise[self._noisy]
        # In one direction both factors share their draw: E y_a y_c · g_b g_d V, and a, b and c, d the other way round.
        half = np.flatnonzero((g[first] != 0) | (g[second] != 0))
        self._half, u, v = half, first[half], second[half]
        self._crosses = [
            (w[:, None], y, g[x][:, None] * g[z]) for w, x in ((u, v), (v, u)) for y, z in ((u, v), (v, u))
        ]  # fmt: skip

    def __call__(self, moments: Array, j: Integers, l: Integers) -> Array:
        """Without the noise."""
        rows, rest, kept, size = self._rows, self._rest, self._kept, len(self._rows) + len(self._rest)
        left = np.empty((len(moments), size, moments.shape[2]))
        left[:, rest] = moments[:, kept]
        left[:, rows] = self._square[j] @ moments
        both = np.empty((len(moments), size, size))
        both[:, :, rest] = left[:, :, kept]
        both[:, :, rows] = left @ self._square[l].transpose(0, 2, 1)
        return both

    def add_noise(self, moments: Array, scale: float, mixing: Array, same: Integers) -> None:
        """Laplace noise of that scale, to the pairs of directions with that G; `same` are the pairs j = l."""
        V, κ = 2.0 * scale**2, 12.0 * scale**4
        noisy, noise = self._noisy, self._noise
        left, right = moments[:, :, 0].copy(), moments[:, 0, :].copy()  # second moments, without the noise
        moments[:, noisy, :] += V * noise[:, None] * right[:, None, :]
        moments[:, :, noisy] += V * left[:, :, None] * noise
        fourth = V**2 + κ * mixing
        fourth[same] += 2.0 * V**2
        moments[:, noisy[:, None], noisy] += (left[:, 0] * fourth)[:, None, None] * np.outer(noise, noise)
        second = left[same][:, self._position]
        moments[np.ix_(same, self._half, self._half)] += V * sum(second[:, w, y] * gg for w, y, gg in self._crosses)


class _Recursion:
    """E[y_a y_b · y'_c y'_d; counts] as an array (pairs of directions) × (pairs a ≤ b) × (pairs c ≤ d)."""

    def __init__(self, d: Directions, mixing: Array, counts: Counts, event: CopiesEvent | MemoryEvent) -> None:
        self._d, self._counts, self._event = d, counts, event
        self._j, self._l = np.triu_indices(len(d.curvature))
        self._mixing = mixing[self._j, self._l]
        self._same = np.flatnonzero(self._j == self._l)
        self._talks: dict[tuple[int, int, bool], _Linear] = {}
        self.base = _base(counts)

    def start(self) -> Array:
        """θ, and A1's copies, at the start; A2's memories are empty."""
        z = self._d.start
        y = np.zeros((len(z), self.base + sum(_sizes(self._counts, self._counts.first))))
        y[:, ONE], y[:, MODEL], y[:, self.base :] = 1.0, z, z[:, None]
        first, second, _ = _pairs(y.shape[1])
        square = y[:, first] * y[:, second]
        return square[self._j, :, None] * square[self._l, None, :]

    def split(self, moments: Array, before: Row, c: int) -> tuple[Row, bool, Array]:
        """The participant's own memory as last label where it matters, and the labels left of its class."""
        sizes = _sizes(self._counts, before)
        if self._counts.slot[c] < 0:
            return sizes, False, moments
        left = (*sizes[:c], min(before[c] - 1, LABELS), *sizes[c + 1 :])
        own = isinstance(self._event, CopiesEvent) or self.base > SUM
        index = _split(self.base, sizes, left, c, own)
        labels = self.base + sum(left) + own
        return left, own, _gather(moments, index, labels)

    def answer(self, moments: Array, kind: int, others: int, own: bool) -> Array:
        """The participant's new memory as last label, and what changes with it at once."""
        key = (kind, others, own)
        if key not in self._talks:
            self._talks[key] = self._talk(kind, self.base + others, own)
        talk = self._talks[key]
        after = talk(moments, self._j, self._l)
        talk.add_noise(after, float(self._counts.owners.noise_scale[kind]), self._mixing, self._same)
        return after

    def _talk(self, kind: int, last: int, own: bool) -> _Linear:
        p = len(self._d.curvature)
        F, g = np.zeros((p, last + 1, last + own)), np.zeros(last + 1)
        F[:, range(last), range(last)] = 1.0
        constant, model_part, own_part, g[last] = self._event.memory(kind)
        F[:, last, ONE], F[:, last, MODEL] = constant, model_part
        changed = [last]
        if own:
            F[:, last, last] = own_part
        if self.base > SUM:
            ω = float(self._counts.owners.weights[kind])
            F[:, SUM] += ω * F[:, last]
            g[SUM] = ω * g[last]
            if own:
                F[:, SUM, last] -= ω
            changed.append(SUM)
        if isinstance(self._event, CopiesEvent):
            constant, keep, own_keep, _ = self._event.model(0, np.array([self._counts.first]))
            F[:, MODEL, ONE], F[:, MODEL, MODEL], F[:, MODEL, last] = constant, keep, own_keep
            changed.append(MODEL)
        return _Linear(F, np.array(changed), g)

    def move(self, moments: Array, k: int, after: Row) -> Array:
        """A2's step from the memories of all; A1 has made its own."""
        if isinstance(self._event, CopiesEvent):
            return moments
        counts, sizes = self._counts, _sizes(self._counts, after)
        labels = self.base + sum(sizes)
        constant, keep, _, pull = self._event.model(k, np.array([after]))
        F = np.repeat(np.eye(labels)[None], len(self._d.curvature), axis=0)
        F[:, MODEL, ONE], F[:, MODEL, MODEL] = constant, keep
        if self.base > SUM:
            F[:, MODEL, SUM] = pull[0, 0] / counts.owners.weights[counts.kind[counts.slot == 0]]
        else:
            F[:, MODEL, self.base :] = np.repeat(
                pull[0], [n for n, s in zip(sizes, counts.slot, strict=True) if s >= 0]
            )
        return _Linear(F, np.array([MODEL]), np.zeros(labels))(moments, self._j, self._l)

    def variance(self, live: dict[Row, Array], counts: Counts) -> float:
        a = self._d.curvature
        fourth, second = np.zeros(len(self._j)), np.zeros(len(a))
        for after, moments in live.items():
            θθ = int(_pairs(self.base + sum(_sizes(counts, after)))[2][MODEL, MODEL])
            fourth += moments[:, θθ, θθ]
            second += moments[self._same, θθ, 0]
        twice = np.where(self._j == self._l, 0.25, 0.5)
        return max(0.0, float(twice * a[self._j] * a[self._l] @ fourth) - float(0.5 * a @ second) ** 2)


def _base(counts: Counts) -> int:
    heard = np.minimum(counts.owners.counts, counts.events)
    return 3 if (counts.slot < 0).any() and (heard > LABELS).any() else 2


def _sizes(counts: Counts, row: Row) -> Row:
    """How many labels each class has."""
    return tuple(min(n, LABELS) if s >= 0 else 0 for n, s in zip(row, counts.slot.tolist(), strict=True))


@lru_cache(maxsize=256)
def _pairs(labels: int) -> tuple[Int[Integers, " pairs"], Int[Integers, " pairs"], Int[Integers, "labels labels"]]:
    """First and second label of each pair a ≤ b, and where the pair of two labels stands."""
    first, second = np.triu_indices(labels)
    position = np.zeros((labels, labels), dtype=np.int64)
    position[first, second] = position[second, first] = np.arange(len(first))
    return first, second, position


def _gather(moments: Array, index: Integers, labels: int) -> Array:
    pairs = labels * (labels + 1) // 2
    return moments.reshape(len(moments), -1)[:, index].reshape(len(moments), pairs, pairs)


def _entries(labels: int) -> Integers:
    """The four labels (a, b, c, d) of each entry."""
    first, second, _ = _pairs(labels)
    P = len(first)
    left, right = np.repeat(np.arange(P), P), np.tile(np.arange(P), P)
    return np.column_stack([first[left], second[left], first[right], second[right]])


def _place(entries: Integers, labels: int) -> Integers:
    _, _, position = _pairs(labels)
    P = labels * (labels + 1) // 2
    return position[entries[:, 0], entries[:, 1]] * P + position[entries[:, 2], entries[:, 3]]


def _renamed(entries: Integers, names: Integers, first: int) -> Integers:
    """`names` of the labels; those with −1 are any owners of a class: `first`, `first` + 1, … as they appear."""
    new, used = names[entries], np.full(len(entries), first)
    for i in range(4):
        unnamed = new[:, i] < 0
        for h in range(i, 4):
            same = unnamed & (entries[:, h] == entries[:, i])
            new[same, h] = used[same]
        used += unnamed
    return new


@lru_cache(maxsize=4096)
def _split(base: int, sizes: Row, left: Row, c: int, own: bool) -> Integers:
    """Where each entry stands before the participant left class c; the participant and the rest are any of its owners."""
    start, total = base + sum(sizes[:c]), base + sum(left)
    names = np.arange(total + own)
    names[start + left[c] : total] += sizes[c] - left[c]
    names[start : start + left[c]] = -1
    names[total:] = -1
    return _place(_renamed(_entries(total + own), names, start), base + sum(sizes))


def _join(moments: Array, after: Row, c: int, others: Row, base: int, counts: Counts) -> Array:
    """The participant, the last label, as any of the owners that class c has now."""
    sizes, n = _sizes(counts, after), after[c]
    inside, outside, named = _places_after(base, sizes, others, c)
    labels = base + sum(sizes)
    flat = moments.reshape(len(moments), -1)
    if n == 1:
        whole = np.where(named[0], inside[0], outside)
        return _gather(moments, whole, labels)
    result = flat[:, outside] * ((n - named.sum(axis=0)) / n)
    for place, here in zip(inside, named, strict=True):
        result[:, here] += flat[:, place[here]] / n
    pairs = labels * (labels + 1) // 2
    return np.reshape(result, (len(moments), pairs, pairs))


@lru_cache(maxsize=4096)
def _places_after(base: int, sizes: Row, others: Row, c: int) -> tuple[Integers, Integers, Flags]:
    """For each entry: its place if the participant is the r-th label of class c, or none of them; and which it names."""
    start, total, participant = base + sum(sizes[:c]), base + sum(sizes), base + sum(others)
    entries = _entries(total)
    names = np.arange(total)
    names[start + sizes[c] :] -= sizes[c] - others[c]
    names[start : start + sizes[c]] = -1
    outside = _place(_renamed(entries, names, start), participant + 1)
    inside = []
    for r in range(start, start + sizes[c]):
        names[r] = participant
        inside.append(_place(_renamed(entries, names, start), participant + 1))
        names[r] = -1
    named = np.array([(entries == r).any(axis=1) for r in range(start, start + sizes[c])])
    return np.array(inside), outside, named
