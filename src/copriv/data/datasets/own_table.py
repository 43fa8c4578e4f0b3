"""A table of the parties' own: a .csv or .parquet file, with the columns that the agreement declares."""

from copriv.data.source import Source, Wanted
from copriv.data.tables import read_table
from copriv.errors import DataError


class OwnTable:
    """dataset = "table", which declared columns imply."""

    name = "table"
    own_columns = True
    read_from = "table"
    published: tuple[tuple[str, int], ...] = ()

    def open(self, wanted: Wanted) -> Source:
        """The table at the path. Raises DataError where path or declared columns are missing, or it cannot be read."""
        if wanted.path is None or wanted.schema is None:
            raise DataError('data.path: dataset = "table" needs a path and declared columns (features, target, bounds)')
        names = wanted.schema.names if wanted.unit is None else (*wanted.schema.names, wanted.unit)
        return Source(read_table(wanted.path, names), wanted.schema, f"Records in {wanted.path.name}", wanted.path)
