"""The agreement: the one document that all parties sign up to, before any private record is touched.

It is a TOML file with the tables [agreement], [model], [data] and one [[owner]] for each data owner; this module
is its schema, its checks and its fingerprint. Names are a contract: keys are added, never renamed.

What follows from it, and from nothing else: each owner's cap on answers m, the scale of each owner's noise
b = 2 Ξ m κ / (n ε), and how many queries a run can ask in all.
"""

import hashlib
import json
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from copriv.errors import AgreementError
from copriv.types import Array

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Rule = Literal["S1", "S2", "A1", "A2"]
ONE_ANSWER = ("statistics", "objective")
"""Mechanisms by which an owner answers a single query, at the agreed start."""


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @field_validator("*", mode="before")
    @classmethod
    def _whole_numbers_are_numbers(cls, value: Any, info: Any) -> Any:
        # TOML's 1 is an int; a field that wants a real number takes it. True is not a number.
        annotation = str(cls.model_fields[info.field_name].annotation)
        if isinstance(value, int) and not isinstance(value, bool) and "float" in annotation and "int" not in annotation:
            return float(value)
        return value


class Terms(_Table):
    """[agreement]: who talks, how long, how far a step goes."""

    @field_validator("start", "preconditioner", mode="before")
    @classmethod
    def _lists_of_numbers(cls, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return tuple(cls._lists_of_numbers(v) for v in value)
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value

    name: str = "consortium"
    rule: Literal["S1", "S2", "A1", "A2", "auto"]
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
    start: tuple[float, ...] | None = None
    """θ at the start, one number a parameter; zeros when not given. A public choice."""
    mechanism: Literal["laplace", "gaussian", "laplace-composed", "statistics", "objective"] = "laplace"
    """What an owner answers with (docs/explanation/mechanisms.md). Only "laplace" and "statistics" are always pure ε."""
    moments_share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """"statistics" only: the part of ε for second moments; 0: the learner takes them from its public sample."""
    anchor: Positive | None = None
    """"objective" only: λ, how firmly an owner's model is tied to the start; when not given, the least that will do."""
    reach: Positive | None = None
    """"objective" only: a record with √(xᵀPx) above it counts for less, P the preconditioner; None: B says."""
    preconditioner: tuple[tuple[float, ...], ...] | None = None
    """A public p × p matrix that multiplies every direction of descent; the identity when not given."""


class ModelTerms(_Table):
    """[model]: the fitness, the box and the bound on a record's gradient."""

    loss: Literal["squared", "logistic", "hinge", "huber"]
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

    dataset: str = "lending"
    components: Annotated[int, Field(ge=0)] = 10
    feature_bound: NonNegative | Literal["auto"] = "auto"
    """B: each record's features are scaled into the L1 ball of this radius; 0: not bounded."""
    public_rows: Count = 2000
    scaling: Literal["declared", "none"] | None = None
    """How columns become numbers before the dictionary: over their declared sizes, or as they are (the papers)."""
    path: str | None = None
    features: tuple[str, ...] | None = None
    target: str | None = None
    bounds: dict[str, tuple[float, float]] | None = None
    categories: dict[str, tuple[str, ...]] | None = None
    missing: dict[str, float | str] | None = None
    """What a missing value of a column counts as: a number within its bounds, or one of its levels."""
    dictionary: str | None = None
    """A public dictionary file that the coordinator made, instead of fitting one on the public rows here."""

    @model_validator(mode="before")
    @classmethod
    def _declared_columns_are_a_table(cls, value: Any) -> Any:
        return {"dataset": "table", **value} if isinstance(value, dict) and "features" in value else value

    @field_validator("features", mode="before")
    @classmethod
    def _features(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @field_validator("missing", mode="before")
    @classmethod
    def _missing(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {k: float(v) if isinstance(v, int) and not isinstance(v, bool) else v for k, v in value.items()}

    @field_validator("bounds", "categories", mode="before")
    @classmethod
    def _pairs(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        number = {
            k: [float(e) if isinstance(e, int) else e for e in v] if isinstance(v, list) else v
            for k, v in value.items()
        }
        return {k: tuple(v) if isinstance(v, list) else v for k, v in number.items()}


class OwnerTerms(_Table):
    """[[owner]]: how much it holds, and how much it gives away."""

    name: Annotated[str, Field(min_length=1)]
    records: Count
    """n_i: records, or persons where `unit` is given. Public."""
    epsilon: Positive
    """ε_i: the owner's whole budget over the run."""
    overlap: Count = 1
    """κ: at most this many owners hold one and the same record (S, Assumption 1)."""
    delta: Annotated[float, Field(ge=0, lt=1)] = 0.0
    rate: Positive = 1.0
    """The rate of the owner's Poisson clock."""
    group: str | None = None
    """Owners of one group always answer together, as one fictitious owner (A, Remark 2)."""
    unit: str | None = None
    """The column that names the person; without it, each record is its own unit."""
    unit_records: Count | None = None
    weight: NonNegative | None = None
    """The owner's weight in place of n_i/n; all owners give one, or none does. 0 leaves the owner out."""


class Agreement(BaseModel):
    """What all parties sign up to. Read one with `Agreement.load(path)`; every rule is checked when it is made."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    agreement: Terms
    model: ModelTerms
    data: DataTerms = DataTerms()
    owner: Annotated[tuple[OwnerTerms, ...], Field(min_length=1)]

    @field_validator("owner", mode="before")
    @classmethod
    def _owners(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _fits_together(self) -> "Agreement":
        names = [owner.name for owner in self.owner]
        twice = {name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else set()
        if twice:
            raise ValueError(f"owner.name: {sorted(twice)[0]!r} stands twice; every owner needs a name of its own")
        given = [owner.weight is not None for owner in self.owner]
        if any(given) and not all(given):
            raise ValueError("owner.weight: give every owner a weight, or none")
        if all(given) and sum(owner.weight or 0.0 for owner in self.owner) <= 0:
            raise ValueError("owner.weight: at least one owner's weight must be above 0")
        if self.model.gradient_bound_assumed and not isinstance(self.model.gradient_bound, float):
            raise ValueError("model.gradient_bound: an assumed bound must be a number")
        if len({owner.unit for owner in self.owner}) > 1:
            raise ValueError("owner.unit: the privacy unit must be the same for every owner")
        return self

    @model_validator(mode="after")
    def _mechanism_can_be_kept(self) -> "Agreement":
        mechanism, loss = self.agreement.mechanism, self.model.loss
        if mechanism in ONE_ANSWER and self.answers != 1:
            raise ValueError(f'agreement.answers: mechanism "{mechanism}" answers once; set answers = 1')
        if mechanism == "statistics" and loss != "squared":
            raise ValueError(f'model.loss: mechanism "statistics" is for the squared loss, not {loss}')
        if mechanism in ONE_ANSWER and self.data.feature_bound == 0:
            raise ValueError(f'data.feature_bound: mechanism "{mechanism}" needs a bound on the features; 0 is none')
        if mechanism == "objective" and len({owner.delta > 0 for owner in self.owner}) > 1:
            raise ValueError('owner.delta: with mechanism "objective" either every owner has a delta above 0, or none')
        if mechanism in ("gaussian", "laplace-composed") and any(owner.delta == 0 for owner in self.owner):
            raise ValueError(
                f'owner.delta: mechanism "{mechanism}" is (epsilon, delta); give every owner a delta above 0, '
                'such as 1e-6, or choose mechanism = "laplace"'
            )
        return self

    @classmethod
    def load(cls, path: str | Path) -> "Agreement":
        """Read and check a TOML file. Raises AgreementError, on one line, with the field path and what to do."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise AgreementError(f"{path}: cannot read the agreement ({error}); give the path of a TOML file") from None
        try:
            return cls.of(tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise AgreementError(f"{path}: not valid TOML: {error}") from None
        except AgreementError as error:
            raise AgreementError(f"{path}: {error}") from None

    @classmethod
    def of(cls, document: dict[str, Any]) -> "Agreement":
        """Check a mapping of the file's shape. Raises AgreementError as `load` does."""
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            raise AgreementError(_one_line(error)) from None

    def replace(self, **changes: Any) -> "Agreement":
        """A copy with some terms changed, checked again: `replace(agreement={"step": 3.0}, model={...})`.

        `owner` takes the whole list, or one mapping that is applied to every owner.
        """
        document = self.to_dict()
        for table, values in changes.items():
            if table == "owner" and isinstance(values, dict):
                document["owner"] = [{**owner, **values} for owner in document["owner"]]
            elif table == "owner":
                document["owner"] = list(values)
            else:
                document[table] = {**document[table], **values}
        return Agreement.of(document)

    def to_dict(self) -> dict[str, Any]:
        """The mapping that `of` reads; keys without a value are left out, as TOML has no null."""
        return self.model_dump(mode="python", exclude_none=True)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical form (sorted keys, shortest exact numbers): it is in every message and ledger line."""
        canonical = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(canonical.encode()).hexdigest()

    @property
    def owner_names(self) -> tuple[str, ...]:
        """In the order in which rules count owners."""
        return tuple(owner.name for owner in self.owner)

    @property
    def n_owners(self) -> int:
        """N."""
        return len(self.owner)

    @property
    def records(self) -> Array:
        """n_i, one an owner."""
        return np.array([owner.records for owner in self.owner], dtype=np.float64)

    @property
    def epsilons(self) -> Array:
        """ε_i, one an owner."""
        return np.array([owner.epsilon for owner in self.owner])

    @property
    def weights(self) -> Array:
        """What each owner's answer counts: n_i/n, or the agreed weights; they add up to 1."""
        given = [owner.weight for owner in self.owner]
        weight = self.records if given[0] is None else np.array(given, dtype=np.float64)
        normalised: Array = weight / weight.sum()
        return normalised

    @property
    def answers(self) -> int:
        """m: the most answers that an owner gives. A synchronous learner asks T − 1 times, yet T is charged (S, Thm 1)."""
        return min(self.agreement.answers or self.agreement.horizon, self.agreement.horizon)

    @property
    def synchronous(self) -> bool:
        """Whether every owner answers every round."""
        return self.agreement.rule in ("S1", "S2")

    @property
    def one_answer(self) -> bool:
        """Whether each owner answers one query, at the agreed start, and the learner then computes the model."""
        return self.agreement.mechanism in ONE_ANSWER

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

    @property
    def queries(self) -> int:
        """How many times the learner asks in a full run: T − 1 rounds, or the least of T and all owners' caps.

        Where owners answer once, each is asked once.
        """
        if self.one_answer:
            return self.n_owners
        if self.synchronous:
            return min(self.agreement.horizon - 1, self.answers)
        talkers = len({owner.group or ("", owner.name) for owner in self.owner})
        return min(self.agreement.horizon, self.answers * talkers)


def _one_line(error: ValidationError) -> str:
    first, more = error.errors()[0], error.error_count() - 1
    place = ".".join(
        str(part) for part in first["loc"] if not str(part).startswith(("constrained", "literal", "function"))
    )
    message = first["msg"].removeprefix("Value error, ")
    got = "" if first["type"] in ("missing", "value_error") else f", not {first['input']!r}"
    if first["type"] == "missing":
        message = "missing; every agreement must give it"
    if first["type"] == "extra_forbidden":
        message, got = "not a key of the agreement; check its spelling", ""
    rest = f" (and {more} more)" if more else ""
    return f"{place}: {message}{got}{rest}" if place else f"{message}{rest}"
