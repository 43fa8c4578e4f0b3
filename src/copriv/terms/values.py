"""Types of the values in an agreement, and the checks that all its tables share."""

from functools import cache
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator

from copriv.formatting.sanitize import printable


def _zero_or_at_least(least: float) -> AfterValidator:
    """Refuse what is below `least` and not 0: its powers would be floats with few digits."""

    def checked(value: float) -> float:
        if value != 0 and not value >= least:
            raise ValueError(f"must be 0, or at least {least:g}")
        return value

    return AfterValidator(checked)


Number = Annotated[float, Field(ge=-1e30, le=1e30, allow_inf_nan=False)]
"""A number in any unit, small enough for its fourth power to be finite."""
Positive = Annotated[float, Field(ge=1e-30, le=1e30, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, le=1e30, allow_inf_nan=False)]
ZeroOrPositive = Annotated[float, Field(allow_inf_nan=False, le=1e30), _zero_or_at_least(1e-30)]
"""A bound, or 0 for none; small enough for its fourth power to be finite, large enough for its square to have all digits."""
Count = Annotated[int, Field(ge=1, le=10**15)]
LEAST_BUDGET = 1e-12
LARGEST_BUDGET = 1e12
Budget = Annotated[float, Field(ge=LEAST_BUDGET, le=LARGEST_BUDGET, allow_inf_nan=False)]
"""ε, within a range in which floating-point accounting is meaningful."""
Delta = Annotated[float, Field(lt=1, allow_inf_nan=False), _zero_or_at_least(1e-60)]
"""δ, 0 or at least 1e-60: no count of records needs less, and floats lose the digits of what is far below."""
UnitOfMeasure = Annotated[float, Field(ge=1e-12, le=1e12, allow_inf_nan=False)]
"""A public unit of measure: a divisor, so neither it nor its inverse may overflow."""
Unlike = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
"""Heterogeneity u (`copriv.terms.heterogeneity`)."""
KeyFingerprint = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
"""SHA-256 of a public key, hex: what `copriv owner keys` prints."""
LONGEST_NAME = 200
"""Most letters of a name, which is shown in tables and used in certificates and as a folder's name."""


def as_annotated(value: Any, annotation: str) -> Any:
    """Convert lists to tuples, whole numbers to floats where the field's type has them, and numpy's numbers, at any depth."""
    if isinstance(value, np.generic):
        value = value.item()  # a number of rows that numpy or pandas counted
    if isinstance(value, dict):
        return {key: as_annotated(inner, annotation) for key, inner in value.items()}
    if isinstance(value, list | tuple) and "tuple" in annotation:
        if set(map(type, value)) == {float}:  # rows of large matrices, which are checked often
            return tuple(value)
        return tuple(as_annotated(inner, annotation) for inner in value)
    if type(value) is not int or "float" not in annotation or "int" in annotation:  # True is no number
        return value
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"is a whole number of {len(str(value))} digits, which no computer calculates with") from None


def can_be_told_apart(name: str) -> str:
    """Return the name of an owner. Raises ValueError where it cannot be seen, or looks like another name."""
    if not name.strip():
        raise ValueError("has no letter that can be seen")
    if name != name.strip():
        raise ValueError("begins or ends with a space, which nobody sees")
    if name != " ".join(name.split()):
        raise ValueError("has two spaces together, or one of another kind, which nobody sees; write one plain space")
    if len(name) > LONGEST_NAME:
        raise ValueError(f"has {len(name):,} letters, and may have {LONGEST_NAME} at most")
    if printable(name, LONGEST_NAME) != name:
        raise ValueError(f"has characters that cannot be seen: {printable(name, 60)}")
    return name


class TermsTable(BaseModel):
    """A table of the agreement: frozen, without unknown keys, and strict about types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @field_validator("*", mode="before")
    @classmethod
    def _as_annotated(cls, value: Any, info: Any) -> Any:
        # A strict field of floats refuses TOML's 1, which is an int, and one of tuples refuses its lists.
        return as_annotated(value, _annotation(cls, info.field_name))


@cache
def _annotation(table: type[TermsTable], field: str) -> str:
    """The type of a field of a table, as text; to make it takes longer than to check an owner."""
    return str(table.model_fields[field].annotation)
