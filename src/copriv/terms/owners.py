"""The tables [[owner]]: what each owner holds, and its privacy budget."""

import unicodedata
from typing import Annotated

from pydantic import Field, field_validator, model_validator

from copriv.terms.values import Budget, Count, KeyFingerprint, NonNegative, Positive, TermsTable, can_be_told_apart


class OwnerTerms(TermsTable):
    """[[owner]]: how much it holds, and how much it gives away."""

    name: Annotated[str, Field(min_length=1)]
    records: Count
    """n_i: records, or persons where `unit` is given. Public."""
    epsilon: Budget
    """ε_i: the owner's whole budget over the run."""
    overlap: Count = 1
    """κ: at most this many owners hold one and the same record (S, Assumption 1)."""
    delta: Annotated[float, Field(ge=0, lt=1)] = 0.0
    rate: Positive = 1.0
    """The rate of the owner's Poisson clock."""
    group: str | None = None
    """Owners of one group always answer together, as one fictitious owner (A, Remark 2)."""
    stratum: str | None = None
    """The stratum of the public rows that its records are like; the one that is called as it is, when not given."""
    unit: str | None = None
    """The column that names the person; without it, each record is its own unit."""
    unit_records: Count | None = None
    weight: NonNegative | None = None
    """The owner's weight in place of n_i/n; all owners give one, or none does. 0 leaves the owner out."""
    count: Count | None = None
    """So many owners with these terms, each of them with these records; named `name` and a number from 1."""
    key: KeyFingerprint | None = None
    """SHA-256 of the public key that the owner signs with; any that the authority certifies when not given."""

    @field_validator("name")
    @classmethod
    def _of_the_owner(cls, value: str) -> str:
        return can_be_told_apart(value)

    @field_validator("count")
    @classmethod
    def _one_is_no_number(cls, value: int | None) -> int | None:
        return None if value == 1 else value

    @model_validator(mode="after")
    def _a_key_is_one_owners(self) -> "OwnerTerms":
        if self.key is not None and self.count is not None:
            raise ValueError(f"key: is that of one owner, and {self.name} stands for {self.count:,}; write them out")
        return self

    @property
    def number(self) -> int:
        """How many owners this table is of."""
        return self.count or 1

    def each(self) -> "tuple[OwnerTerms, ...]":
        """One by one, each under a name of its own."""
        if self.count is None:
            return (self,)
        return tuple(self.model_copy(update={"name": name, "count": None}) for name in self.names())

    def names(self) -> tuple[str, ...]:
        """Of each owner: `name`, or of several "name 1", "name 2" …"""
        return (self.name,) if self.count is None else tuple(f"{self.name} {i}" for i in range(1, self.count + 1))


def name_of_two_owners(tables: tuple[OwnerTerms, ...]) -> str | None:
    """Return a name that two owners would have; None: there is none. Tables with a `count` are not expanded."""
    names = [unicodedata.normalize("NFC", table.name) for table in tables]
    if len(set(names)) < len(names):
        return next(name for name in sorted(names) if names.count(name) > 1)
    several = {table.name: table.number for table in tables if table.count is not None}
    for name in names if several else ():
        start, _, number = name.rpartition(" ")
        written_so = number.isdecimal() and number == str(int(number))
        if name not in several and written_so and 1 <= int(number) <= several.get(start, 0):
            return name
    return None
