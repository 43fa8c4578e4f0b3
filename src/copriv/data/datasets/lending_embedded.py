"""The 9,857 loans inside the package, whatever else is at hand: to try everything with."""

from copriv.data.datasets.lending import loans_inside
from copriv.data.source import Source, Wanted
from copriv.errors import DataError


class EmbeddedLoans:
    """Lending Club loans of 2016; see `lending`, which reads a file of the same columns."""

    name = "lending-embedded"
    own_columns = False
    read_from = "lending"
    published: tuple[tuple[str, int], ...] = ()

    def open(self, wanted: Wanted) -> Source:
        """Raises DataError where a path is given."""
        if wanted.path is not None:
            raise DataError(f"data.path: {self.name!r} reads no file; drop the path, or name another data set")
        return loans_inside()
