"""Questions to a forecast: what it would take to reach a target (`reach`), and what if some owners stay away (`without`).

Answers are from the forecast's own curve and worlds, so that they agree with the rest of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from copriv.errors import UsageError
from copriv.forecast.coalition_value import least, least_number
from copriv.forecast.quantiles import quantiles
from copriv.forecast.result import Forecast
from copriv.formatting.cards import Shown

MOST_MORE_OWNERS = 10_000


@dataclass(frozen=True)
class Target(Shown):
    """What it takes to reach ψ ≤ value. Each of the ways changes one thing, and leaves the rest as agreed."""

    value: float
    reached_by: Literal["public", "together", "nobody"]
    """The public rows alone; the recommended terms; nothing as it is agreed now."""
    epsilon: float | None
    """The least ε, the same for every owner, with which it is typically reached; None: no ε is enough."""
    epsilon_surely: float | None
    """With which it is reached in 95 % of worlds and runs."""
    records: float | None
    """By how much everybody's records would have to be multiplied; None: no number is enough."""
    more_owners: int | None
    """How many more owners like the typical one of these (`like`); None: not even MOST_MORE_OWNERS."""
    like: tuple[int, float]
    """Records and ε of that owner: the medians."""

    def to_dict(self) -> dict[str, Any]:
        """As in the JSON contract."""
        return {**vars(self), "like": {"records": self.like[0], "epsilon": self.like[1]}}


@dataclass(frozen=True)
class Without(Shown):
    """The consortium without some of its owners, on everybody's records still."""

    names: tuple[str, ...]
    together: float
    """ψ that the others would typically reach."""
    together_with_all: float
    loss: float
    """How much ψ rises for the others; below 0 they are better off."""
    worth_in_records: float
    """The loss in pooled records without privacy."""
    times_epsilon: float | None
    """How many times the others' ε would have to be to make up for it; None: no ε is enough."""
    joining_pays: dict[str, bool]
    """For each that stays, whether it then still does."""

    def to_dict(self) -> dict[str, Any]:
        """As in the JSON contract."""
        return {**vars(self), "names": list(self.names)}


def reach(outlook: Forecast, value: float) -> Target:
    """What it takes to reach ψ ≤ value. Raises UsageError unless value is above 0."""
    if not (np.isfinite(value) and value > 0):
        raise UsageError("target: how far above the best possible the model may be, above 0; such as 2% or 0.02")
    members = outlook.consortium
    spread = float(quantiles(outlook.recommended.draws, [0.95])[0]) / max(outlook.together, 1e-300)
    each = members.one_by_one()
    like = int(np.median(each.records)), float(np.median(each.epsilon))

    def enough(more: int) -> bool:
        # As many owners of one kind, as one: (κ/ε)² adds up.
        return members.joined_by(more * like[0], like[1] / np.sqrt(more)).together() <= value

    by: Literal["public", "together", "nobody"] = "nobody"
    if outlook.public_only <= value:
        by = "public"
    elif outlook.together <= value:
        by = "together"
    return Target(
        value,
        by,
        members.epsilon_for(value),
        members.epsilon_for(value / max(spread, 1.0)),
        least(lambda t: replace(members, records=t * members.records).together() <= value, 1e-6, 1e6),
        0 if members.together() <= value else least_number(enough, MOST_MORE_OWNERS),
        like,
    )


def without(outlook: Forecast, names: Sequence[str]) -> Without:
    """The others, if these stay away. Raises UsageError for names that no owner has, and where nobody would be left."""
    members, known = outlook.consortium, [owner.name for owner in outlook.owners]
    for name in names:
        if name not in known:
            raise UsageError(f"without: no owner is called {name!r}; they are {', '.join(known[:12])}")
    stay = np.where([name not in names for name in known], members.number, 0.0)
    if not stay.any():
        raise UsageError("without: nobody would be left; leave at least one owner in")
    cost, together = float(members.cost(stay)), members.together()
    return Without(
        tuple(name for name in known if name in names),
        cost,
        together,
        cost - together,
        members.as_records(together) - members.as_records(cost),
        members.in_place_of(stay),
        {known[i]: bool(cost < members.without_joining[i]) for i in np.flatnonzero(stay)},
    )
