"""The table [data]: where records come from, and how they become numbers."""

from datetime import date
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from copriv.errors import AgreementError
from copriv.terms.values import Count, NonNegative, Number, TermsTable, UnitOfMeasure, Unlike, ZeroOrPositive


class DataTerms(TermsTable):
    """Keys of [data]."""

    dataset: str | None = None
    """A built-in data set, or "table": columns of one's own; None: the records are given as arrays."""
    path: str | None = None
    public: str | None = None
    """A file of public rows. For a table of one's own, no other rows are public."""
    public_rows: Count | None = None
    """Number of last rows that are public; None: all of `public`, or 2,000 of a built-in data set."""
    components: Annotated[int, Field(ge=0)] = 10
    mean_square: UnitOfMeasure | None = None
    """Mean square of each feature of the public dictionary on the public rows; None: 1/10,000, as for the papers' loans."""
    feature_bound: ZeroOrPositive | Literal["auto"] = "auto"
    """B: bound on ‖x‖₁. In mechanisms that need it, a record beyond it counts for less; clipped gradients do not need it, and
    the fitness ignores it. "auto": from the tail of the public rows; 0: none."""
    scaling: Literal["declared", "none"] | None = None
    """Encoding of columns before the dictionary: over their declared sizes, or in their own units, as in the papers."""
    dictionary: str | None = None
    """File of a public dictionary that the coordinator made; None: one is fitted on the public rows."""
    fourier_features: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """D: number of random waves of the components (or columns) that are the features; None: no waves."""
    fourier_width: UnitOfMeasure | None = None
    """Width of the waves' Gaussian kernel; None: the median distance between two public rows."""
    heterogeneity: Unlike | tuple[Unlike, Unlike] | None = None
    """Heterogeneity u of the owners, a number or a range (`copriv.terms.heterogeneity`): ψ, on all records, of a perfect model
    of one owner's own population. 0: owners are alike; None: not known, which does not mean 0."""
    strata: str | None = None
    """Column of the public table with the stratum of each row: the name of an owner, or an `owner.stratum`. Owners' tables do
    not need it."""
    mix: dict[str, dict[str, NonNegative]] | None = None
    """Column of the public table → level → share of all owners' records, as the owners state it. A forecast compares the public
    rows with it. The column need not be a feature."""
    features: tuple[str, ...] | None = None
    target: str | None = None
    bounds: dict[str, tuple[Number, Number]] | None = None
    categories: dict[str, tuple[str, ...]] | None = None
    ordered: tuple[str, ...] | None = None
    """Categories whose levels are in order: one feature each; other categories have one feature a level."""
    booleans: tuple[str, ...] | None = None
    dates: dict[str, tuple[str, str]] | None = None
    missing: dict[str, float | str] | None = None
    """Value that a missing one counts as, by column: a number within the bounds, or a level."""
    scales: dict[str, Literal["size", "centred", "log"]] | None = None
    clamp: tuple[str, ...] | None = None
    """Columns in which a value out of bounds counts as the nearest bound; in others it is refused."""

    @property
    def named(self) -> str:
        """Name of the data set. Raises AgreementError where the agreement names none."""
        if self.dataset is None:
            raise AgreementError(
                'data: the agreement names no data; add [data] with dataset = "lending-embedded" or another one, declare '
                "columns of your own (features, target, bounds), or give the records as arrays"
            )
        return self.dataset

    @property
    def mapped(self) -> bool:
        """Whether features are made of the columns by a public dictionary."""
        return self.components > 0 or self.fourier_features is not None

    @property
    def public_count(self) -> int:
        """Number of public rows by the agreement."""
        # This imports pyarrow, which is slow.
        from copriv.data.public import PUBLIC_ROWS

        return self.public_rows or PUBLIC_ROWS

    @model_validator(mode="before")
    @classmethod
    def _declared_columns_are_a_table(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        # The encoding of categories has changed since 0.1.0: `ordered` makes the fingerprint of such agreements differ.
        if value.get("categories") is not None:
            value = {"ordered": (), **value}
        if "features" in value:
            value = {"dataset": "table", **value}
        return value

    @model_validator(mode="after")
    def _width_of_something(self) -> "DataTerms":
        if self.fourier_width is not None and self.fourier_features is None:
            raise ValueError("fourier_width: a width without waves; give fourier_features, or leave it out")
        return self

    @field_validator("heterogeneity")
    @classmethod
    def _in_order(cls, value: Any) -> Any:
        if isinstance(value, tuple) and value[0] > value[1]:
            raise ValueError(f"a range goes from low to high, not from {value[0]:g} to {value[1]:g}")
        return value

    @field_validator("mix")
    @classmethod
    def _whole(cls, value: Any) -> Any:
        for column, shares in (value or {}).items():
            if not 0.98 <= sum(shares.values()) <= 1.02:  # shares may be rounded to percent
                raise ValueError(
                    f"{column}: shares add up to 1, not to {sum(shares.values()):g}; give one for each level"
                )
        return value

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
        words = {True: "yes", False: "no"}
        said = {k: words[v] if isinstance(v, bool) else v for k, v in value.items()}
        return {k: v.isoformat() if isinstance(v, date) else v for k, v in said.items()}
