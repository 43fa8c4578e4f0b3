"""The four tables of an agreement together: the checks across tables, and what follows from their values alone.

The lists of rules, mechanisms and losses stand above this file, and know it; `copriv.agreement` stands above the lists,
and holds an agreement against them. Names are a contract: keys are added, never renamed.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from jaxtyping import Int
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from copriv.errors import AgreementError
from copriv.terms.data import DataTerms
from copriv.terms.learning import ModelTerms, Terms
from copriv.terms.owners import OwnerTerms, name_of_two_owners
from copriv.types import Array

MOST_OWNERS = 1_000_000
"""Owners of one agreement, at most."""


class AgreedTerms(BaseModel):
    """The four tables together, each value checked; whether rule, mechanism and loss are known, `Agreement` checks."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    agreement: Terms
    model: ModelTerms
    data: DataTerms = DataTerms()
    owner_tables: Annotated[tuple[OwnerTerms, ...], Field(min_length=1, alias="owner")]
    """As the file has them: a table with a `count` is several owners."""

    @field_validator("owner_tables", mode="before")
    @classmethod
    def _owners(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _fits_together(self) -> "AgreedTerms":
        twice = name_of_two_owners(self.owner_tables)
        wrong = [] if twice is None else [f"owner.name: {twice!r} stands twice; every owner needs a name of its own"]
        if self.n_owners > MOST_OWNERS:
            wrong.append(f"owner.count: {self.n_owners:,} owners in all; an agreement has at most {MOST_OWNERS:,}")
        given = [owner.weight is not None for owner in self.owner_tables]
        if any(given) and not all(given):
            without = next(owner.name for owner in self.owner_tables if owner.weight is None)
            wrong.append(f"owner.weight: {without} has none; give every owner a weight, or none")
        if all(given) and sum(owner.weight or 0.0 for owner in self.owner_tables) <= 0:
            wrong.append("owner.weight: at least one owner's weight must be above 0")
        if self.model.gradient_bound_assumed and not isinstance(self.model.gradient_bound, float):
            wrong.append("model.gradient_bound: an assumed bound must be a number")
        wrong += [
            f"owner.overlap: {owner.name} says that {owner.overlap} owners may hold one record, of {self.n_owners} in "
            "all; give at most the number of owners"
            for owner in self.owner_tables
            if owner.overlap > self.n_owners
        ]
        if len({owner.unit for owner in self.owner_tables}) > 1:
            wrong.append("owner.unit: the privacy unit must be the same for every owner")
        if wrong:
            raise ValueError("; ".join(wrong))
        return self

    @cached_property
    def owner(self) -> tuple[OwnerTerms, ...]:
        """Every owner, one by one, in the order in which rules count them."""
        if all(table.count is None for table in self.owner_tables):
            return self.owner_tables
        return tuple(owner for table in self.owner_tables for owner in table.each())

    @property
    def owner_names(self) -> tuple[str, ...]:
        """In the order in which rules count owners."""
        return tuple(name for table in self.owner_tables for name in table.names())

    @cached_property
    def owner_keys(self) -> dict[str, str]:
        """SHA-256 of the public key of each owner whose key is agreed on."""
        return {table.name: table.key for table in self.owner_tables if table.key is not None}

    @property
    def counts(self) -> Int[np.ndarray, " tables"]:
        """How many owners each table is of."""
        return np.array([table.number for table in self.owner_tables], dtype=np.int64)

    @property
    def n_owners(self) -> int:
        """N."""
        return sum(table.number for table in self.owner_tables)

    @property
    def n_participants(self) -> int:
        """How many answer by themselves: owners of one group answer as one."""
        return self.participants_in_groups_of(self.agreement.group_size)

    def participants_in_groups_of(self, size: int | str | None) -> int:
        """How many there are with such a `group_size`; "auto" counts as none."""
        ungrouped = sum(table.number for table in self.owner_tables if not table.group)
        named = len({table.group for table in self.owner_tables if table.group})
        return named + (-(-ungrouped // size) if isinstance(size, int) else ungrouped)

    def by_owner(self, values: Sequence[float] | Array) -> Array:
        """One number an owner from one a table."""
        return np.repeat(np.asarray(values, dtype=np.float64), self.counts)

    @property
    def records(self) -> Array:
        """n_i, one an owner."""
        return self.by_owner([table.records for table in self.owner_tables])

    @property
    def epsilons(self) -> Array:
        """ε_i, one an owner."""
        return self.by_owner([table.epsilon for table in self.owner_tables])

    @property
    def overlaps(self) -> Array:
        """κ_i, one an owner."""
        return self.by_owner([table.overlap for table in self.owner_tables])

    @property
    def weights(self) -> Array:
        """What each owner's answer counts: n_i/n, or the agreed weights; they add up to 1."""
        given = [table.weight for table in self.owner_tables]
        weight = self.records if given[0] is None else self.by_owner([w or 0.0 for w in given])
        normalised: Array = weight / weight.sum()
        return normalised

    @property
    def answers(self) -> int:
        """m: the most answers that an owner gives. A synchronous learner asks T − 1 times, yet T is charged (S, Thm 1)."""
        return min(self.agreement.answers or self.agreement.horizon, self.agreement.horizon)

    @property
    def step(self) -> float:
        """The agreed step, once it is a number."""
        if not isinstance(self.agreement.step, float):
            raise AgreementError('agreement.step: still "auto"; plan it first (copriv forecast) or give a number')
        return self.agreement.step

    @property
    def gradient_bound(self) -> float:
        """Ξ, once it is a number."""
        if not isinstance(self.model.gradient_bound, float):
            raise AgreementError(
                f'model.gradient_bound: still "{self.model.gradient_bound}"; plan it first (copriv forecast) or give a number'
            )
        return self.model.gradient_bound
