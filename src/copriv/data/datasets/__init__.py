"""The data sets that an agreement can name, on one list.

A data set is one file and one entry in `ALL`: a `copriv.data.source.DataSet`, whose `open` reads or draws its table.
"""

from copriv.data.datasets.creditcard import CREDITCARD
from copriv.data.datasets.hospital import HOSPITAL, HOSPITAL_SIMULATED
from copriv.data.datasets.lending import LENDING, LENDING_EMBEDDED
from copriv.data.source import DataSet, Source, Wanted
from copriv.data.tables import read_table
from copriv.errors import DataError
from copriv.formatting.sanitize import printable


def _open_own(wanted: Wanted, rows: int) -> Source:
    if wanted.file is None or wanted.schema is None:
        raise DataError('data.path: dataset = "table" needs a path and declared columns (features, target, bounds)')
    names = (*wanted.schema.names, *filter(None, [wanted.unit]))
    title = f"Records in {printable(wanted.file.name)}"
    return Source(read_table(wanted.file, names), wanted.schema, title, wanted.file)


OWN_TABLE = DataSet("table", _open_own, own_columns=True)
"""A table of the parties' own: a .csv or .parquet file, with the columns that the agreement declares."""

ALL: tuple[DataSet, ...] = (LENDING, LENDING_EMBEDDED, CREDITCARD, HOSPITAL, HOSPITAL_SIMULATED, OWN_TABLE)
"""All data sets, in the order in which messages list them."""


def named(name: str) -> DataSet:
    """The data set that an agreement names. Raises DataError, listing the names that there are."""
    for dataset in ALL:
        if dataset.name == name:
            return dataset
    raise DataError(f"data.dataset: {name!r} is not known; use one of {', '.join(names())}")


def names() -> tuple[str, ...]:
    """Names that an agreement can give in data.dataset."""
    return tuple(dataset.name for dataset in ALL)
