"""The agreed specification of the data: which table, which of its rows are public, and how rows become features."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from copriv.data import datasets
from copriv.data.dictionary import PublicDictionary
from copriv.data.schema import Scaling, Schema
from copriv.data.source import Source
from copriv.errors import DataError
from copriv.formatting.cards import Shown
from copriv.validation import count


@dataclass(frozen=True, eq=False)
class DataSpecification(Shown):
    """Everything that turns a table into records, apart from the table's rows. Public.

    Raises InvalidInput for numbers that cannot be.

    >>> from copriv.data import DataSpecification, load_consortium
    >>> specification = DataSpecification("lending-embedded", components=3, public_rows=200)
    >>> load_consortium(specification, [300]).feature_names
    ('pc1', 'pc2', 'pc3')
    """

    dataset: str
    """One of `datasets.names()`; "table" needs `schema`, and `path` where private rows are read."""
    path: str | Path | None = None
    schema: Schema | None = None
    unit: str | None = None
    """The column that names the person, where persons are the privacy unit."""
    unit_records: int | None = None
    """Most rows of a person that count."""
    scaling: Scaling | None = None
    """Scaling of the encoded columns; None: the data set's own ("none" for lending and hospitals, as in the papers)."""
    seed: int = 0
    """Seed of draws with replacement, of simulated tables and of random waves; nothing else depends on it."""
    public: Any = None
    """The learner's own rows: the path of a file, or a frame where `schema` is given; None: the last rows of the table."""
    public_rows: int | None = None
    """Number of last rows that are public; None: all of `public`, or 2,000 of the table; 0: none."""
    components: int = 10
    """Number of features of the public dictionary; 0: no dictionary, the encoded columns are the features."""
    dictionary: PublicDictionary | None = None
    """Used in place of one that is fitted on the public rows; `components` is then ignored."""
    mean_square: float | None = None
    """Mean square of each feature on the public rows; None: 1/10,000, as in the papers' lending data."""
    fourier_features: int | None = None
    """Number of random waves of the components that are the features (`RandomFeatures`); None: no waves."""
    fourier_width: float | Literal["auto"] = "auto"
    feature_bound: float | Literal["auto"] = "auto"
    """B, the bound on ‖x‖₁ of a record, without the intercept; "auto": from the public rows; 0: none."""
    intercept: bool = False
    """Append a feature that is always 1, after bounding."""

    def __post_init__(self) -> None:
        count("data.components", self.components, least=0)
        for name, number, least in (("data.public_rows", self.public_rows, 0), ("unit_records", self.unit_records, 1)):
            if number is not None:
                count(name, number, least=least)

    @property
    def file(self) -> Path | None:
        """`path` as a Path."""
        return None if self.path is None else Path(self.path)

    def open(self, rows: int) -> Source:
        """Open the table and its schema. rows: the size of a simulated table. Raises DataError as `open_dataset` does."""
        kind = datasets.named(self.dataset)
        if self.schema is not None and not kind.own_columns:
            raise DataError(
                f'data.dataset: {kind.name!r} brings its own schema; declare columns with dataset = "table"'
            )
        if self.path is not None and kind.like:
            raise DataError(f"data.path: {kind.name!r} reads no file; drop the path, or name another data set")
        source = kind.open(self, rows)
        # The schema of an owner's own table gets the same scaling and unit as that of the public sample.
        scaling, unit = self.scaling or source.schema.scaling, self.unit or source.schema.unit
        return replace(source, schema=replace(source.schema, scaling=scaling, unit=unit))


def open_dataset(dataset: str, *, rows: int = 200_000, **options: Any) -> Source:
    """Open a data set by name: its `.table` and `.schema`, which `check_table` and `prepare_owner` take.

    rows: the size of a simulated table; a real table is read whole.
    options: fields of `DataSpecification`, such as `path`, `schema`, `unit`, `seed` and `scaling`; an owner gives the
        path of its own table. Raises DataError where there is no such data set or file.

    >>> from copriv.data import open_dataset
    >>> source = open_dataset("lending-embedded")
    >>> set(source.schema.names) <= set(source.table.columns)
    True
    """
    return DataSpecification(dataset, **options).open(rows)
