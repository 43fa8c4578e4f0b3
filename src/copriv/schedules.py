"""Who talks, and when: the sequence of participants of an asynchronous run, with event times.

Every schedule makes a stream of (time, owner) events; what happens to the stream afterwards is the same for all:
owners that are away do not talk, an owner that has given its m answers is not heard again, and the run ends after T
queries. Dropping the events of exhausted owners from independent uniform choices leaves independent uniform choices
among the others, so nothing has to be redrawn.

Times are in units of a clock of rate 1. Source: A, §3 and Remarks 2 and 4.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int

from copriv.errors import InvalidInput
from copriv.formatting.cards import Shown
from copriv.types import Array
from copriv.validation import count, positive

Index = np.ndarray


@dataclass(frozen=True, eq=False)
class Events(Shown):
    """Event k: `owner[k]` talks at `time[k]`; times do not fall.

    >>> import numpy as np
    >>> events = Events(np.array([0, 1, 0]), np.array([0.5, 1.0, 1.5]))
    >>> events.capped(1).owner.tolist(), len(events.first(2))
    ([0, 1], 2)
    """

    owner: Int[Index, " k"]
    time: Float[Array, " k"]

    def __len__(self) -> int:
        return len(self.owner)

    def keep(self, mask: Bool[Index, " k"]) -> "Events":
        """The events where the mask holds."""
        return Events(self.owner[mask], self.time[mask])

    def capped(self, answers: int) -> "Events":
        """Each owner's first `answers` events."""
        return self.keep(_rank(self.owner) < answers)

    def first(self, horizon: int) -> "Events":
        """The first `horizon` events."""
        return Events(self.owner[:horizon], self.time[:horizon])


@runtime_checkable
class Schedule(Protocol):
    """A source of events. `draw` may give more than `length` events, or fewer where no more can come.

    >>> import numpy as np
    >>> isinstance(Uniform(), Schedule)
    True
    """

    def draw(self, rng: np.random.Generator, owners: int, length: int) -> Events:
        """About `length` events among `owners` owners, before caps."""


@dataclass(frozen=True)
class Uniform:
    """Independent uniform choices: what Poisson clocks of equal rate amount to. Event k is at time k/N.

    >>> import numpy as np
    >>> events = Uniform().draw(np.random.default_rng(0), owners=4, length=8)
    >>> events.time.tolist()
    [0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0]
    """

    def draw(self, rng: np.random.Generator, owners: int, length: int) -> Events:
        return Events(rng.integers(owners, size=length), np.arange(1, length + 1) / owners)


@dataclass(frozen=True)
class PoissonClocks:
    """Each owner's clock ticks at its own rate; the merged ticks are exponential of rate Σ rates (A, §3).

    >>> import numpy as np
    >>> events = PoissonClocks((9.0, 1.0)).draw(np.random.default_rng(0), owners=2, length=1000)
    >>> bool((events.owner == 0).mean() > 0.8)
    True
    """

    rates: tuple[float, ...]

    def __post_init__(self) -> None:
        for rate in self.rates:
            positive("owner.rate", rate)

    def draw(self, rng: np.random.Generator, owners: int, length: int) -> Events:
        owner, wait = _ticks(self.rates, rng, owners, length)
        return Events(owner, np.cumsum(wait))


@dataclass(frozen=True)
class RandomOrder:
    """Every owner talks exactly `answers` times, all events in one random order.

    >>> import numpy as np
    >>> events = RandomOrder(2).draw(np.random.default_rng(0), owners=3, length=6)
    >>> sorted(events.owner.tolist())
    [0, 0, 1, 1, 2, 2]
    """

    answers: int

    def draw(self, rng: np.random.Generator, owners: int, length: int) -> Events:
        owner = rng.permutation(np.repeat(np.arange(owners), self.answers))
        return Events(owner, np.arange(1, len(owner) + 1) / owners)


@dataclass(frozen=True)
class Rounds:
    """Everybody once, in fresh random order, before anybody again.

    >>> import numpy as np
    >>> events = Rounds().draw(np.random.default_rng(0), owners=3, length=6)
    >>> sorted(events.owner[:3].tolist()), sorted(events.owner[3:].tolist())
    ([0, 1, 2], [0, 1, 2])
    """

    def draw(self, rng: np.random.Generator, owners: int, length: int) -> Events:
        rounds = -(-length // owners)
        owner = rng.permuted(np.tile(np.arange(owners), (rounds, 1)), axis=1).reshape(-1)
        return Events(owner, np.arange(1, len(owner) + 1) / owners)


@dataclass(frozen=True)
class Broadcast:
    """The learner offers its query every `interval`; the first owner to answer advances k (A, §3).

    After an offer, owner i answers after an exponential wait of its own rate; the next offer goes out at the next
    multiple of the interval. So k advances at most once an interval, and owner i is first with probability rate_i/Σ.

    >>> import numpy as np
    >>> events = Broadcast(1.0, (2.0, 2.0)).draw(np.random.default_rng(0), owners=2, length=50)
    >>> bool((np.diff(events.time) > 0).all())
    True
    """

    interval: float
    rates: tuple[float, ...]
    answers: int | None = None
    """Number of answers after which an owner is offered no more queries; None: no such number."""

    def __post_init__(self) -> None:
        positive("interval", self.interval)

    def draw(self, rng: np.random.Generator, owners: int, length: int) -> Events:
        owner, wait = _ticks(self.rates, rng, owners, length, self.answers)
        intervals = np.maximum(np.ceil(wait / self.interval), 1.0)
        offered = np.concatenate([[0.0], np.cumsum(intervals)[:-1]]) * self.interval
        return Events(owner, offered + wait)


@dataclass(frozen=True)
class Request:
    """Owners ask for an update when their clocks tick; the learner serves one alone for `service` time (A, §3).

    A request that comes while another owner is served is turned away. The event is stamped when service ends.

    >>> import numpy as np
    >>> events = Request(0.5, (2.0, 2.0)).draw(np.random.default_rng(0), owners=2, length=50)
    >>> bool((np.diff(events.time) >= 0.5).all())
    True
    """

    service: float
    rates: tuple[float, ...]
    answers: int | None = None
    """Number of answers after which an owner requests no more queries; None: no such number."""

    def __post_init__(self) -> None:
        positive("service", self.service)

    def draw(self, rng: np.random.Generator, owners: int, length: int) -> Events:
        # The clocks have no memory: after each service the wait for the next request is exponential again.
        owner, wait = _ticks(self.rates, rng, owners, length, self.answers)
        return Events(owner, np.cumsum(wait + self.service))


@dataclass(frozen=True)
class DropOut:
    """Owners are away for a while and come back: an owner's events inside its `away` intervals do not happen.

    >>> import numpy as np
    >>> away = DropOut(Rounds(), {0: [(0.0, 1.5)]}).draw(np.random.default_rng(0), owners=2, length=6)
    >>> away.owner[away.time < 1.5].tolist()
    [1]
    """

    schedule: Schedule
    away: Mapping[int, Sequence[tuple[float, float]]] = field(default_factory=dict)

    def draw(self, rng: np.random.Generator, owners: int, length: int) -> Events:
        events = self.schedule.draw(rng, owners, length)
        there = np.ones(len(events), dtype=bool)
        for owner, intervals in self.away.items():
            for start, end in intervals:
                there &= ~((events.owner == owner) & (events.time >= start) & (events.time < end))
        return events.keep(there)


@dataclass(frozen=True, eq=False)
class Replay(Shown):
    """A recorded trace, again: (time, owner) pairs in the order of time.

    >>> import numpy as np
    >>> Replay([(0.5, 1), (2.0, 0)]).draw(np.random.default_rng(0), owners=2, length=2).owner.tolist()
    [1, 0]
    """

    trace: Sequence[tuple[float, int]]

    def draw(self, rng: np.random.Generator, owners: int, length: int) -> Events:
        time = np.array([t for t, _ in self.trace], dtype=np.float64)
        owner = np.array([i for _, i in self.trace], dtype=np.intp)
        if len(owner) and not (owner.min() >= 0 and owner.max() < owners and (np.diff(time) >= 0).all()):
            raise InvalidInput(f"trace: owners must be 0 to {owners - 1} and times must not fall")
        return Events(owner, time)


def shares_of(schedule: Schedule, owners: int) -> Float[Array, " owners"] | None:
    """Share of each owner in the events while no owner is away; None for schedules without fixed shares (a trace).

    >>> shares_of(PoissonClocks((3.0, 1.0)), 2)
    array([0.75, 0.25])
    """
    match schedule:
        case PoissonClocks(rates=rates) | Broadcast(rates=rates) | Request(rates=rates):
            return _shares(rates, owners)
        case Uniform() | RandomOrder() | Rounds():
            return np.full(owners, 1.0 / owners)
        case DropOut(inner):
            return shares_of(inner, owners)
        case _:
            return None


def run_events(schedule: Schedule, rng: np.random.Generator, owners: int, horizon: int, answers: int) -> Events:
    """The events of one run: T at most, no owner more than m times.

    Fewer than min(T, mN) only where the schedule itself ends (a trace, an owner that never comes back).

    >>> import numpy as np
    >>> len(run_events(Uniform(), np.random.default_rng(0), owners=3, horizon=100, answers=5))
    15
    """
    wanted = min(count("horizon", horizon), count("answers", answers) * owners)
    state, events = rng.bit_generator.state, Events(np.empty(0, dtype=np.intp), np.empty(0))
    for doubling in range(8):
        rng.bit_generator.state = state  # a longer draw begins as the shorter one did
        events = schedule.draw(rng, owners, wanted << doubling).capped(answers).first(wanted)
        if len(events) == wanted:
            break
    return events


def _ticks(
    rates: tuple[float, ...], rng: np.random.Generator, owners: int, length: int, answers: int | None = None
) -> tuple[Index, Array]:
    """The owner of each of `length` ticks, and the wait before it; the clock of an owner stops after `answers` ticks."""
    owner = rng.choice(owners, size=length, p=_shares(rates, owners))
    wait = rng.exponential(1.0 / np.sum(rates), size=length)
    if answers is None:
        return owner, wait
    rank = _rank(owner)
    kept = rank < answers
    owner, last = owner[kept], rank[kept] == answers - 1
    stopped = np.cumsum(np.where(last, np.array(rates)[owner], 0.0))[:-1]
    wait = wait[: len(owner)]
    wait[1:] *= np.sum(rates) / np.maximum(np.sum(rates) - stopped, min(rates))
    return owner, wait


def _rank(owner: Index) -> Index:
    """Number of earlier events of the same owner, for each event."""
    order = np.argsort(owner, kind="stable")
    rank = np.empty(len(owner), dtype=np.intp)
    rank[order] = np.arange(len(owner)) - np.searchsorted(owner[order], owner[order])
    return rank


def _shares(rates: tuple[float, ...], owners: int) -> Array:
    if len(rates) != owners:
        raise InvalidInput(f"owner.rate: {len(rates)} rates for {owners} owners; give one for each")
    return np.asarray(np.array(rates, dtype=np.float64) / np.sum(rates))
