"""What an agreement's four tables hold: its keys, the checks of each value, and what follows from values alone.

The lists of rules, mechanisms and losses stand above this file, and know it; `copriv.agreement` stands above the lists,
and holds an agreement against them. Names are a contract: keys are added, never renamed.
"""

import unicodedata
from collections.abc import Sequence
from datetime import date
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Int
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from copriv.errors import AgreementError
from copriv.formatting.sanitize import printable
from copriv.types import Array

Number = Annotated[float, Field(ge=-1e30, le=1e30, allow_inf_nan=False)]
"""In whatever unit: its square, and the square of that, are numbers still."""
Positive = Annotated[float, Field(ge=1e-30, le=1e30, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, le=1e30, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=10**15)]
Budget = Annotated[float, Field(ge=1e-12, le=1e12, allow_inf_nan=False)]
"""ε: beyond these ends arithmetic is no longer about privacy, but about the smallest and largest numbers there are."""
UnitOfMeasure = Annotated[float, Field(ge=1e-12, le=1e12, allow_inf_nan=False)]
"""A public unit of measure, which divides and is divided by."""
Unlike = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
"""How many times worse a perfect model of one owner's population is for everybody."""
KeyFingerprint = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
"""SHA-256 of a public key, hex: what `copriv owner keys` prints."""
MOST_OWNERS = 1_000_000
"""Of one agreement."""
LONGEST_NAME = 200
"""Letters of a name: it stands in tables, on certificates and as a folder."""
PUBLIC_ROWS = 2000
"""Of a built-in data set, where the agreement does not say how many rows are public."""


def _real(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"is a whole number of {len(str(value))} digits, which no computer calculates with") from None


def can_be_told_apart(name: str) -> str:
    """A name as it is read, or why it cannot be one."""
    if not name.strip():
        raise ValueError("has no letter that can be seen")
    if name != name.strip():
        raise ValueError("begins or ends with a space, which nobody sees")
    if len(name) > LONGEST_NAME:
        raise ValueError(f"has {len(name):,} letters, and may have {LONGEST_NAME} at most")
    if printable(name, LONGEST_NAME) != name:
        raise ValueError(f"has characters that cannot be seen: {printable(name, 60)}")
    return name


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @field_validator("*", mode="before")
    @classmethod
    def _whole_numbers_are_numbers(cls, value: Any, info: Any) -> Any:
        # TOML's 1 is an int; a field that wants a real number takes it. True is not a number.
        annotation = str(cls.model_fields[info.field_name].annotation)
        if isinstance(value, int) and not isinstance(value, bool) and "float" in annotation and "int" not in annotation:
            return _real(value)
        return value


class Terms(_Table):
    """[agreement]: who talks, how long, how far a step goes."""

    @field_validator("preconditioner")
    @classmethod
    def _square(cls, value: Any) -> Any:
        if value is not None and {len(row) for row in value} != {len(value)}:
            raise ValueError("must be square: as many numbers in every row as there are rows")
        if value is not None and not _descends(np.array(value)):
            raise ValueError("must be positive definite: with any other matrix, steps lead away from the optimum")
        return value

    @field_validator("start", "preconditioner", mode="before")
    @classmethod
    def _lists_of_numbers(cls, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return tuple(cls._lists_of_numbers(v) for v in value)
        return _real(value) if isinstance(value, int) and not isinstance(value, bool) else value

    name: str = "consortium"
    rule: str
    """One of `copriv.rules.ALL`, or "auto": planned."""
    communication: Literal["synchronous", "asynchronous", "any"] = "any"
    horizon: Count
    """T: queries (A1, A2) or rounds (S1, S2)."""
    answers: Count | None = None
    """m: the most answers of one owner; the horizon when not given, as in the papers."""
    step: Positive | Literal["auto"] = "auto"
    """rho (S1, A1), c1 (S2), alpha (A2)."""
    seed: Annotated[int, Field(ge=0)] = 0
    learner_step: Literal["corrected", "printed"] = "corrected"
    """A1 only: the corrected c_L = 1/2, or (N − 1)/N as printed (erratum 2)."""
    schedule: Literal["uniform", "poisson", "random-order", "rounds"] = "uniform"
    """A1, A2: independent uniform choices; Poisson clocks of the owners' rates; every owner m times in one random order
    ("random-order"); or everybody once, in random order, before anybody again ("rounds")."""
    iterate: Literal["averaged", "last"] = "averaged"
    """S2 only: the model is the averaged iterate, as in the paper, or the last one."""
    window: Count = 1
    """A2: answers between two moves of the model; 1 moves it at every answer."""
    group_size: Count | Literal["auto"] | None = None
    """A1, A2: owners that name no group answer in groups of about so many, in the agreement's order, as one (A, Remark 2);
    "auto": planned, with all their answers within the horizon. None: each by itself."""
    start: tuple[Number, ...] | None = None
    """θ at the start, one number a parameter; zeros when not given. A public choice."""
    mechanism: str = "laplace"
    """What an owner answers with: one of `copriv.mechanisms` (docs/explanation/mechanisms.md)."""
    moments_share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """"statistics" only: the part of ε for second moments; 0: the learner takes them from its public sample."""
    anchor: Positive | None = None
    """"objective" only: λ, how firmly an owner's model is tied to the start; when not given, the least that will do."""
    reach: Positive | None = None
    """"objective" only: a record with √(xᵀPx) above it counts for less, P the preconditioner; None: B says."""
    preconditioner: tuple[tuple[Number, ...], ...] | None = None
    """A public p × p matrix that multiplies every direction of descent; the identity when not given."""
    learner_key: KeyFingerprint | None = None
    """SHA-256 of the public key that the learner signs with; any that the authority certifies when not given."""


class ModelTerms(_Table):
    """[model]: the fitness, the box and the bound on a record's gradient."""

    loss: str
    threshold: Positive = 1.0
    """Huber only: where the loss turns straight, in the target's unit."""
    regularization: NonNegative = 0.0
    smoothing: Positive = 0.5
    """Half the width over which "objective" rounds the hinge's kink; ψ is of the hinge itself."""
    theta_max: Positive = 1e5
    gradient_bound: Positive | Literal["proved", "auto"] = "auto"
    """Ξ: a number is enforced by L1 clipping; "proved" follows from declared bounds; "auto" is planned."""
    gradient_bound_assumed: bool = False
    """Take Ξ on trust, as the papers do, and clip nothing. NOT PRIVATE: for reproducing figures only."""
    intercept: bool = False


class DataTerms(_Table):
    """[data]: where records come from and how they become numbers."""

    dataset: str | None = None
    """A built-in data set, or "table": columns of one's own; None: the records are given as arrays."""
    path: str | None = None
    public: str | None = None
    """A file of public rows; with a table of one's own nothing else is public."""
    public_rows: Count | None = None
    """How many rows are public, the last ones; None: all of `public`, or `PUBLIC_ROWS` of a built-in data set."""
    components: Annotated[int, Field(ge=0)] = 10
    mean_square: UnitOfMeasure | None = None
    """Of each feature of the public dictionary, on the public rows; None: 1/10,000, as of the papers' loans."""
    feature_bound: NonNegative | Literal["auto"] = "auto"
    """B: the L1 length of features beyond which a record counts for less in mechanisms that need a bound; 0: none. "auto":
    from the tail of the public rows. Gradients need no B, and the fitness is always of the records as they are."""
    scaling: Literal["declared", "none"] | None = None
    """How columns become numbers before the dictionary: as they are declared, or as in the papers."""
    dictionary: str | None = None
    """A public dictionary file that the coordinator made, instead of fitting one on the public rows here."""
    fourier_features: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """D: so many random waves of the components (or columns) are the features: curves for a linear model. None: no waves."""
    fourier_width: UnitOfMeasure | None = None
    """Of the waves' Gaussian kernel; None: the median distance of two public rows."""
    heterogeneity: Unlike | tuple[Unlike, Unlike] | None = None
    """How unlike the owners are, a number or a range (`copriv.terms.heterogeneity`): the ψ, on everybody's records,
    of a perfect model of one owner's own population. 0: alike; not given: not known, which is not the same."""
    strata: str | None = None
    """The column of the public table that says whose each row is: the name of an owner, or of a stratum (`owner.stratum`).
    Public rows need it, owners' tables do not."""
    features: tuple[str, ...] | None = None
    target: str | None = None
    bounds: dict[str, tuple[Number, Number]] | None = None
    categories: dict[str, tuple[str, ...]] | None = None
    ordered: tuple[str, ...] | None = None
    """Categories whose levels stand in order: one feature each; the others have one a level."""
    booleans: tuple[str, ...] | None = None
    dates: dict[str, tuple[str, str]] | None = None
    missing: dict[str, float | str] | None = None
    """What a missing value of a column counts as: a number within its bounds, or one of its levels."""
    scales: dict[str, Literal["size", "centred", "log"]] | None = None
    clamp: tuple[str, ...] | None = None
    """Columns in which a value out of bounds counts as the nearest bound; in the others it is refused."""

    @property
    def named(self) -> str:
        """The data set that records are to be read from. Raises AgreementError where the agreement names none."""
        if self.dataset is None:
            raise AgreementError(
                'data: the agreement names no data; add [data] with dataset = "lending-embedded" or another one, declare '
                "columns of your own (features, target, bounds), or give the records as arrays"
            )
        return self.dataset

    @property
    def mapped(self) -> bool:
        """Whether columns go through a public dictionary before they are features."""
        return self.components > 0 or self.fourier_features is not None

    @property
    def public_count(self) -> int:
        """How many rows are public, as far as the agreement says."""
        return self.public_rows or PUBLIC_ROWS

    @model_validator(mode="before")
    @classmethod
    def _declared_columns_are_a_table(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        # What categories mean has changed since 0.1.0: `ordered` stands in the fingerprint of all that have any.
        ordered = {"ordered": ()} if value.get("categories") is not None else {}
        return {**({"dataset": "table"} if "features" in value else {}), **ordered, **value}

    @model_validator(mode="after")
    def _width_of_something(self) -> "DataTerms":
        if self.fourier_width is not None and self.fourier_features is None:
            raise ValueError("fourier_width: a width without waves; give fourier_features, or leave it out")
        return self

    @field_validator("heterogeneity", mode="before")
    @classmethod
    def _range(cls, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return tuple(_real(v) if isinstance(v, int) and not isinstance(v, bool) else v for v in value)
        return value

    @field_validator("heterogeneity")
    @classmethod
    def _in_order(cls, value: Any) -> Any:
        if isinstance(value, tuple) and value[0] > value[1]:
            raise ValueError(f"a range goes from low to high, not from {value[0]:g} to {value[1]:g}")
        return value

    @field_validator("features", "ordered", "booleans", "clamp", mode="before")
    @classmethod
    def _lists(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @field_validator("dates", mode="before")
    @classmethod
    def _days(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {k: tuple(map(str, v)) if isinstance(v, list | tuple) else v for k, v in value.items()}

    @field_validator("missing", mode="before")
    @classmethod
    def _missing(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        said = {k: ("yes" if v else "no") if isinstance(v, bool) else v for k, v in value.items()}
        number = {k: _real(v) if isinstance(v, int) else v for k, v in said.items()}
        return {k: v.isoformat() if isinstance(v, date) else v for k, v in number.items()}

    @field_validator("bounds", "categories", mode="before")
    @classmethod
    def _pairs(cls, value: Any, info: Any) -> Any:
        if not isinstance(value, dict):
            return value
        number = info.field_name == "bounds"
        return {
            k: tuple(_real(e) if number and type(e) is int else e for e in v) if isinstance(v, list | tuple) else v
            for k, v in value.items()
        }


class OwnerTerms(_Table):
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
        twice = _twice(self.owner_tables)
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


def _descends(P: Array) -> bool:
    """Whether xᵀPx is above 0 for every x, but for rounding: then a step along P·gradient goes down."""
    largest = float(np.abs(P).max())
    if largest == 0.0:
        return False
    symmetric = (P + P.T) / (2.0 * largest)
    try:
        np.linalg.cholesky(symmetric + 1e-12 * len(P) * np.eye(len(P)))
    except np.linalg.LinAlgError:
        return False
    return True


def _twice(tables: tuple[OwnerTerms, ...]) -> str | None:
    """A name that two owners would have, without writing all of them out."""
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
