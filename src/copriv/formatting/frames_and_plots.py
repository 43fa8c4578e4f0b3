"""Data frames of results, in the user's library, and their pictures: `to_frame` and `plot`."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar, TypeAlias

from copriv.errors import CoprivError, UsageError
from copriv.formatting.cards import above

Columns: TypeAlias = Mapping[str, Sequence[Any] | Any]
"""Name → column, all of one length."""
BACKENDS = ("pandas", "polars", "pyarrow")
"""Libraries of data frames."""


class Framed:
    """A result with one or more tables: name → function that makes the table's columns."""

    def _frames(self) -> Mapping[str, Callable[[], Columns]]:
        raise NotImplementedError

    def to_frame(self, table: str | None = None, *, backend: str = "pandas") -> Any:
        """Convert a table of the result to a data frame.

        table: its name; None: the first. backend: "pandas", "polars", or "pyarrow", which is always installed.

        Raises UsageError for an unknown table or backend, CoprivError where the library is not installed.
        """
        frames = self._frames()
        name = next(iter(frames)) if table is None else table
        if name not in frames:
            raise UsageError(f"to_frame: there is no table {table!r} of this; there is {', '.join(frames)}")
        if backend not in BACKENDS:
            raise UsageError(f"to_frame: {backend!r} is not a backend that is known; use one of {', '.join(BACKENDS)}")
        try:
            import_module(backend)
        except ImportError:
            raise CoprivError(
                f"to_frame: {backend} is not installed; pip install {backend}, or take to_frame(backend='pyarrow')"
            ) from None
        import narwhals.stable.v2 as nw

        return nw.from_dict(dict(frames[name]()), backend=backend).to_native()  # type: ignore[arg-type]


class Drawn:
    """A result with pictures. It names the functions that draw them, because `pictures` imports the results."""

    _pictures: ClassVar[Mapping[str, str]]
    """Name → "module:function"; the first is drawn where none is named."""

    def plot(self, picture: str | None = None) -> Any:
        """Draw a picture of the result, a matplotlib Figure: `.savefig(path)` saves it, a notebook displays it.

        picture: its name; None: the first.

        Raises UsageError for an unknown picture, CoprivError where matplotlib is not installed.
        """
        name = picture or next(iter(self._pictures))
        if name not in self._pictures:
            raise UsageError(f"plot: there is no picture {picture!r} of this; there is {', '.join(self._pictures)}")
        try:
            import_module("matplotlib")
        except ImportError:
            raise CoprivError("plot: matplotlib is not installed; pip install matplotlib") from None
        return above(self._pictures[name])(self)


def columns_of(items: Sequence[Any], names: Sequence[str]) -> Columns:
    """Make a column of each attribute, with a row for each item."""
    return {name: [getattr(item, name) for item in items] for name in names}
