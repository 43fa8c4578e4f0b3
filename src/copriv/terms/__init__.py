"""The tables of an agreement: their keys, the checks of each value, and errors in plain words.

Here are [[owner]] with its table `market`, and all tables together, with checks across them and derived values; `learning`
has the others. Whether rules, mechanisms and losses are known is checked in
`copriv.agreement`, which imports their lists. Names are a contract: keys are added, never renamed.
"""

import unicodedata
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float, Int
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from copriv.errors import AgreementError
from copriv.terms.learning import DataTerms, ModelTerms, PilotTerms, Terms
from copriv.terms.values import (
    Budget,
    Count,
    Delta,
    KeyFingerprint,
    NonNegative,
    Positive,
    TermsTable,
    can_be_told_apart,
)
from copriv.types import Array

__all__ = [
    "AgreedTerms",
    "DataTerms",
    "MarketTerms",
    "ModelTerms",
    "OwnerTerms",
    "PilotTerms",
    "PrivacyCost",
    "Terms",
    "can_be_told_apart",
]


Point = tuple[Positive, NonNegative]
"""ε, and what it costs."""


class PrivacyCost(TermsTable):
    """What spending ε costs an owner: one of four shapes, 0 at ε = 0 and never falling."""

    linear: NonNegative | None = None
    """Money per unit of ε: c(ε) = linear·ε."""
    quadratic: NonNegative | None = None
    """Money per unit of ε²: c(ε) = quadratic·ε²."""
    threshold: Positive | None = None
    """ε up to which nothing is lost; beyond it c(ε) = above."""
    above: NonNegative | None = None
    """With `threshold`: what any ε beyond it costs."""
    table: Annotated[tuple[Point, ...], Field(min_length=1)] | None = None
    """Points (ε, money), with straight lines between them and to (0, 0); an ε beyond the last one is not for sale."""

    @model_validator(mode="after")
    def _one_shape(self) -> "PrivacyCost":
        shapes = ("linear", "quadratic", "threshold", "table")
        given = [shape for shape in shapes if getattr(self, shape) is not None]
        if len(given) != 1:
            raise ValueError(f"give one shape of linear, quadratic, threshold and table, not {len(given)}")
        if (self.above is None) != (self.threshold is None):
            raise ValueError("threshold and above belong together: free up to the one, then the other in money")
        points = self.table or ()
        if any(b[0] <= a[0] or b[1] < a[1] for a, b in pairwise(points)):
            raise ValueError("a table's points must rise in epsilon, and their money must not fall")
        return self


class MarketTerms(TermsTable):
    """What an owner states in a data market (`copriv market`). All parties read it."""

    privacy_cost: PrivacyCost
    worth: NonNegative
    """Money that a fall of ψ by 1 (of the cost, by its least value) is worth to the owner."""


class OwnerTerms(TermsTable):
    """Keys of [[owner]]: its records and its privacy budget."""

    name: Annotated[str, Field(min_length=1)]
    records: Count
    """n_i: records, or persons where `unit` is given. Public."""
    epsilon: Budget
    """ε_i: the owner's whole budget over the run."""
    overlap: Count = 1
    """κ: at most this many owners hold one and the same record (S, Assumption 1)."""
    delta: Delta = 0.0
    rate: Positive = 1.0
    """The rate of the owner's Poisson clock."""
    group: str | None = None
    """Name of the group whose owners answer together, as one fictitious owner (A, Remark 2)."""
    stratum: str | None = None
    """The stratum of public rows that its records are like; None: the stratum with the owner's name."""
    unit: str | None = None
    """The column that names the person, who is then the privacy unit; None: each record is its own unit."""
    unit_records: Count | None = None
    """Most records of one person. Without `unit` it is not enforced, and reports say what ε means for so many records."""
    weight: NonNegative | None = None
    """The owner's weight in place of n_i/n; all owners give one, or none does. 0 leaves the owner out."""
    count: Count | None = None
    """Number of owners with these terms, each with these records; they are named `name` and a number from 1."""
    floor: Budget | None = None
    """ε_max, "sum" only: with noise of its own the owner keeps ε_max even if all others work together; None: without."""
    key: KeyFingerprint | None = None
    """SHA-256 of the public key that the owner signs with; any that the authority certifies when not given."""
    market: MarketTerms | None = None
    """What privacy costs the owner and accuracy is worth to it, in money; read by `copriv market` alone."""
    lot: Count | None = None
    """Records that the owner is publicly known to have at least, for the exchange of `copriv market`; None: the agreement's."""

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
    def budget(self) -> tuple[float, float]:
        """ε/κ and δ/κ: the owner's budget for one record, which κ owners may hold."""
        return self.epsilon / self.overlap, self.delta / self.overlap

    def with_terms(self, changes: dict[str, Any]) -> "OwnerTerms | dict[str, Any]":
        """The same table where these changes are its terms already; else the document of it with the changes, unchecked."""
        now = {key: vars(self).get(key, changes) for key in changes}
        if all(type(now[key]) is type(value) and now[key] == value for key, value in changes.items()):
            return self
        return {**self.model_dump(mode="python", exclude_none=True), **changes}

    @property
    def at_floor(self) -> "OwnerTerms | None":
        """The same terms with ε_max in place of ε; None without a floor."""
        return None if self.floor is None else self.model_copy(update={"epsilon": self.floor})

    @property
    def number(self) -> int:
        """Number of owners with these terms."""
        return self.count or 1

    @property
    def counted(self) -> str:
        """What `records` counts: "persons" where these are the units, else "records"."""
        if self.unit is None:
            return "records"
        return "persons"

    def each(self) -> "tuple[OwnerTerms, ...]":
        """Terms of each of these owners, by its own name."""
        if self.count is None:
            return (self,)
        return tuple(self.model_copy(update={"name": name, "count": None}) for name in self.names())

    def names(self) -> tuple[str, ...]:
        """Name of each owner: `name`, or "name 1", "name 2" … where there are several."""
        if self.count is None:
            return (self.name,)
        return tuple(f"{self.name} {i}" for i in range(1, self.count + 1))


class AgreedTerms(BaseModel):
    """The four tables together, each value checked; `Agreement` checks whether rule, mechanism and loss are known."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    agreement: Terms
    model: ModelTerms
    data: DataTerms = DataTerms()
    owner_tables: Annotated[tuple[OwnerTerms, ...], Field(min_length=1, alias="owner")]
    """Tables as in the file; one with a `count` is several owners."""

    @property
    def preconditioner(self) -> Float[Array, "p p"] | None:
        """P, the agreed public metric; None for the identity."""
        if self.agreement.preconditioner is None:
            return None
        return np.array(self.agreement.preconditioner)

    @field_validator("owner_tables", mode="before")
    @classmethod
    def _owners(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _fits_together(self) -> "AgreedTerms":
        twice, wrong = _name_of_two_owners(self.owner_tables), []
        if twice is not None:
            wrong.append(f"owner.name: {twice!r} stands twice; every owner needs a name of its own")
        if self.n_owners > 1_000_000:
            wrong.append(f"owner.count: {self.n_owners:,} owners in all; an agreement has at most 1,000,000")
        given = [owner.weight is not None for owner in self.owner_tables]
        if any(given) and not all(given):
            without = next(owner.name for owner in self.owner_tables if owner.weight is None)
            wrong.append(f"owner.weight: {without} has none; give every owner a weight, or none")
        if all(given) and sum(owner.weight or 0.0 for owner in self.owner_tables) <= 0:
            wrong.append("owner.weight: at least one owner's weight must be above 0")
        f = self.agreement.robust
        if f is None and self.agreement.robust_by is not None:
            wrong.append("agreement.robust_by: needs robust, the number of owners that may lie")
        if f is not None and 2 * f >= self.n_owners:
            wrong.append(f"agreement.robust: {f} of {self.n_owners} owners may not lie; fewer than half of them may")
        if f is not None and self.summed:
            wrong.append("agreement.robust: lies cannot be told apart in a sum; leave robust or aggregation out")
        if f is not None and self.agreement.pilot:
            wrong.append("agreement.robust: the answers of a pilot are averaged; leave robust or pilot out")
        if f is not None and any(given):
            wrong.append("owner.weight: with agreement.robust every owner counts once; leave weights out")
        others = ("relays", "mixing", "tracking")
        if self.agreement.graph is None:
            given_keys = [key for key in others if getattr(self.agreement, key) is not None]
            wrong += [f"agreement.{key}: needs a graph; set graph, or leave it out" for key in given_keys]
        elif self.summed or f is not None or self.agreement.pilot:
            beside = {"aggregation": self.summed, "robust": f is not None, "pilot": True}
            key = next(key for key, given in beside.items() if given)
            wrong.append(f"agreement.graph: there is no learner for {key}; leave one of them out")
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

    def __eq__(self, other: object) -> bool:
        # By terms alone: pydantic's own begins with all attributes, and arrays that are kept have no truth value.
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in type(self).model_fields)

    def __hash__(self) -> int:
        # A few numbers that plans vary: dictionaries of bounds have no hash, and hashing a large preconditioner is slow.
        terms, bound = self.agreement, self.model.gradient_bound
        return hash((terms.rule, terms.mechanism, terms.horizon, terms.answers, terms.step, bound, self.n_owners))

    @cached_property
    def owner(self) -> tuple[OwnerTerms, ...]:
        """Every owner, one by one, in the order in which rules count them."""
        if all(table.count is None for table in self.owner_tables):
            return self.owner_tables
        return tuple(owner for table in self.owner_tables for owner in table.each())

    @property
    def owner_names(self) -> tuple[str, ...]:
        """Names of all owners, in the order in which rules count them."""
        return tuple(name for table in self.owner_tables for name in table.names())

    def terms_of(self, owner: str) -> OwnerTerms:
        """Return the terms of the owner with this name. Raises AgreementError where the agreement names nobody so."""
        names = self.owner_names
        if owner not in names:
            raise AgreementError(
                f"owner: {owner!r} is not in the agreement, which names {', '.join(names)}; name one of them"
            )
        return self.owner[names.index(owner)]

    @cached_property
    def owner_keys(self) -> dict[str, str]:
        """Owner → SHA-256 of its public key, for owners whose key is agreed on."""
        return {table.name: table.key for table in self.owner_tables if table.key is not None}

    @cached_property
    def counts(self) -> Int[np.ndarray, " tables"]:
        """Number of owners of each table."""
        counts = np.array([table.number for table in self.owner_tables], dtype=np.int64)
        counts.flags.writeable = False
        return counts

    @cached_property
    def n_owners(self) -> int:
        """N."""
        return sum(table.number for table in self.owner_tables)

    @cached_property
    def offers_delta(self) -> bool:
        """Whether any owner has δ > 0."""
        return any(table.delta > 0 for table in self.owner_tables)

    @property
    def n_participants(self) -> int:
        """Number of participants: owners, with those of one group counted as one."""
        return self.participants_in_groups_of(self.agreement.group_size)

    def participants_in_groups_of(self, size: int | str | None) -> int:
        """Number of participants with this `group_size`; "auto" counts as None."""
        ungrouped = sum(table.number for table in self.owner_tables if not table.group)
        if isinstance(size, int):
            ungrouped = -(-ungrouped // size)
        return ungrouped + len({table.group for table in self.owner_tables if table.group})

    def by_owner(self, values: Sequence[float] | Array) -> Array:
        """Repeat a value of each table for each of its owners."""
        return np.repeat(np.asarray(values, dtype=np.float64), self.counts)

    @cached_property
    def records(self) -> Array:
        """n_i, one an owner."""
        records = self.by_owner([table.records for table in self.owner_tables])
        records.flags.writeable = False
        return records

    @property
    def epsilons(self) -> Array:
        """ε_i, one an owner."""
        return self.by_owner([table.epsilon for table in self.owner_tables])

    def shared_budget(self, owner: OwnerTerms) -> tuple[float, float]:
        """Upper bound on ε and δ of all answers for one record that `owner` and overlap − 1 others hold.

        Each of them spends its own ε_j/κ_j, which adds up to more than this owner's ε where another's budget is larger
        (erratum 17).
        """
        others = [table.budget for table in self.owner_tables for _ in range(min(table.number, owner.overlap))]
        others.remove(owner.budget)
        ε, δ = (sum(sorted(one, reverse=True)[: owner.overlap - 1]) for one in zip((0.0, 0.0), *others, strict=True))
        return owner.budget[0] + ε, owner.budget[1] + δ

    @property
    def overlaps(self) -> Array:
        """κ_i, one an owner."""
        return self.by_owner([table.overlap for table in self.owner_tables])

    @cached_property
    def weights(self) -> Array:
        """Weight of each owner's answer: n_i/n, or the agreed one; they add up to 1."""
        weight = self.records
        if self.owner_tables[0].weight is not None:
            weight = self.by_owner([table.weight or 0.0 for table in self.owner_tables])
        weights = np.asarray(weight / weight.sum())
        weights.flags.writeable = False
        return weights

    @property
    def answers(self) -> int:
        """m: the most answers that an owner gives. A synchronous learner asks T − 1 times, yet T is charged (S, Thm 1)."""
        return min(self.agreement.answers or self.agreement.horizon, self.agreement.horizon)

    @property
    def summed(self) -> bool:
        """Whether the learner sees only sums of answers."""
        return self.agreement.aggregation == "sum"

    @property
    def colluding(self) -> int:
        """t: owners that may work together with the learner."""
        return 1 if self.agreement.colluding is None else self.agreement.colluding

    @property
    def dropouts(self) -> int:
        """d: owners that may be missing from a sum."""
        return self.agreement.dropouts or 0

    @property
    def uncounted(self) -> int:
        """t + d: owners on whose shares of the noise no sum relies."""
        return self.colluding + self.dropouts

    @property
    def uncounted_in_sums(self) -> int | None:
        """`uncounted` where the learner sees only sums; None where it sees each answer."""
        if not self.summed:
            return None
        return self.uncounted

    @property
    def fewest_in_sum(self) -> int:
        """Owners that must answer together for a sum: two honest ones are in it, and it is one (k > t + 2d)."""
        return self.colluding + max(2, 2 * self.dropouts + 1)

    @property
    def attempts(self) -> int:
        """How many of the m answers are kept for sums that have to be tried again."""
        return self.agreement.attempts or 0

    @property
    def step(self) -> float:
        """The agreed step, once it is a number."""
        if not isinstance(self.agreement.step, float):
            raise AgreementError(
                'agreement.step: still "auto"; plan it first (copriv forecast --out DIR) or give a number'
            )
        return self.agreement.step

    @property
    def gradient_bound(self) -> float:
        """Ξ, once it is a number."""
        if not isinstance(self.model.gradient_bound, float):
            raise AgreementError(
                f'model.gradient_bound: still "{self.model.gradient_bound}"; plan it first (copriv forecast --out DIR) or give '
                "a number"
            )
        return self.model.gradient_bound


def _name_of_two_owners(tables: tuple[OwnerTerms, ...]) -> str | None:
    """Find a name that two owners would have, without expanding tables with a `count`; None: there is none."""
    names = [unicodedata.normalize("NFC", table.name) for table in tables]
    if len(set(names)) < len(names):
        return next(name for name in sorted(names) if names.count(name) > 1)
    several = {table.name: table.number for table in tables if table.count is not None}
    for name in names:
        start, _, number = name.rpartition(" ")
        written_so = number.isdecimal() and number == str(int(number))
        if name not in several and written_so and 1 <= int(number) <= several.get(start, 0):
            return name
    return None
