"""How a value shows itself: on one screen, as HTML in a notebook, as a data frame (`to_frame`) or a picture (`plot`).

A class that inherits `Shown` defines `_card`, with a title, sentences and tables, or names the function of `copriv.display`
that makes it (`_teller`). Otherwise its fields are listed. Of arrays only the shapes are shown, since they may hold records.
No control characters reach a terminal, and no markup a notebook.
"""

import json
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from html import escape
from importlib import import_module
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np

from copriv.errors import CoprivError, UsageError
from copriv.formatting.numbers import json_ready, yes_or_no
from copriv.formatting.sanitize import printable

WIDTH = 100
"""Most columns of a line."""
ROWS = 6
"""Most rows of a table that are shown; further ones are counted."""
LONGEST = 10_000
"""Most characters of a paragraph."""
_CELL = 60
_GAP = "   "

Columns: TypeAlias = Mapping[str, Sequence[Any] | Any]
"""Name → column, all of one length."""
BACKENDS = ("pandas", "polars", "pyarrow")
"""Libraries of data frames."""

Item = TypeVar("Item")


@dataclass(frozen=True)
class Table:
    """Rows of words. The first column has names, the others numbers, unless there is no head."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    what: str = "rows"
    """Name of the rows, for counting those that are not shown."""
    strong: int = -1
    """Index of the row that is emphasised on a terminal; none by default."""

    @classmethod
    def of(
        cls, head: Sequence[str], items: Sequence[Item], cells: Callable[[Item], Sequence[str]], what: str = "rows"
    ) -> "Table":
        """Make a row of each item by `cells`; `what` is the name of the items."""
        return cls(tuple(head), tuple(tuple(printable(cell, 100) for cell in cells(item)) for item in items), what)

    def first(self, most: int) -> tuple[tuple[tuple[str, ...], ...], str]:
        """Return the first `most` rows (one more, where that is the last), and words that count the others.

        A table without a head, which lists a value's fields, is returned whole.
        """
        if not self.head or len(self.rows) <= most + 1:
            return self.rows, ""
        return self.rows[:most], f"and {len(self.rows) - most:,} more {self.what}"


@dataclass(frozen=True)
class Card:
    """A summary of a value: a title, then sentences and tables in order."""

    title: str
    parts: tuple[str | Table, ...] = ()

    def text(self) -> str:
        """Format for a terminal: lines of WIDTH characters at most, and every sentence."""
        return "\n".join(self._lines(self.parts))

    def _lines(self, parts: Sequence[str | Table]) -> list[str]:
        lines, last = textwrap.wrap(printable(self.title, LONGEST), WIDTH), None
        for part in parts:
            # A table with a head has an empty line before and after it.
            if any(isinstance(one, Table) and one.head for one in (part, last)):
                lines.append("")
            if isinstance(part, str):
                lines += textwrap.wrap(printable(part, LONGEST), WIDTH)
            else:
                lines += _lines(part)
            last = part
        return lines

    def html(self) -> str:
        """Format as a fragment of HTML that is well-formed XML; every string is escaped, those of tables in `_row`."""
        parts = [f"<p><strong>{_escaped(self.title)}</strong></p>"]
        for part in self.parts:
            if isinstance(part, str):
                parts.append(f"<p>{_escaped(part)}</p>")
                continue
            head = f"<thead>{_row(part.head, 'th')}</thead>" if part.head else ""
            rows, more = part.first(ROWS)
            body = "".join(_row(cells, "td") for cells in rows)
            parts.append(f"<table>{head}<tbody>{body}</tbody></table>")
            if more:
                parts.append(f"<p>{_escaped(more)}</p>")
        return f'<div class="copriv">{"".join(parts)}</div>'


def _escaped(text: str) -> str:
    return escape(printable(text, LONGEST))


def _row(cells: tuple[str, ...], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{_escaped(cell)}</{tag}>' for cell in cells)}</tr>"


def above(where: str) -> Callable[..., Any]:
    """Import the function at "module:name". Results name the functions that describe and draw them, which import results."""
    module, _, name = where.partition(":")
    function: Callable[..., Any] = getattr(import_module(module), name)
    return function


def in_words(where: str, doc: str) -> Any:
    """A property in words: what the function at "module:name" of `copriv.display` says of the value."""
    return property(lambda self: above(where)(self), doc=doc)


class Shown:
    """A value that is printed, and displayed in notebooks, as a card."""

    _teller: ClassVar[str] = ""
    """Function of `copriv.display` that makes the card, as "module:function"."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # A dataclass writes a __repr__ of all its fields into every class that has none of its own.
        cls.__repr__ = cls.__str__ = Shown._told  # type: ignore[method-assign, assignment]

    def _card(self) -> Card:
        if not self._teller:
            assert is_dataclass(self)
            values = ((field.name, getattr(self, field.name)) for field in fields(self))
            return Card(type(self).__name__, (Table((), tuple((name, in_short(value)) for name, value in values)),))
        card: Card = above(self._teller)(self)
        return card

    def _told(self) -> str:
        return self._card().text()

    def _repr_html_(self) -> str:
        return self._card().html()


def in_short(value: Any) -> str:
    """Describe a value in a few words: numbers and names as they are, arrays by shape, others by type and number."""
    if value is None:
        return "none"
    if isinstance(value, bool | np.bool_):
        return yes_or_no(value)
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    if isinstance(value, float | np.floating):
        return f"{value:.6g}"
    if isinstance(value, str):
        return printable(value, _CELL)
    if isinstance(value, np.ndarray):
        return f"array of {' × '.join(f'{n:,}' for n in value.shape) or 'one number'}"
    if isinstance(value, Mapping | tuple | list):
        return _several_in_short(value)
    return type(value).__name__


def _several_in_short(values: Mapping[Any, Any] | Sequence[Any]) -> str:
    if not values:
        return "none"
    if isinstance(values, Mapping):
        told = ", ".join(f"{in_short(key)}: {in_short(value)}" for key, value in [*values.items()][:8])
        return told if len(values) <= 8 and len(told) <= _CELL else f"{len(values):,} entries"
    if all(value is None or isinstance(value, str | int | float) for value in values[:8]):
        told = ", ".join(map(in_short, values[:8]))
        if len(values) <= 8 and len(told) <= _CELL:
            return told
    kinds = {type(value).__name__ for value in values[:100]}
    return f"{len(values):,} of {kinds.pop()}" if len(kinds) == 1 else f"{len(values):,} values"


def _lines(table: Table) -> list[str]:
    """Format a table with columns as wide as their cells; the widest are cut where lines would be longer than WIDTH."""
    first, more = table.first(ROWS)
    rows = [tuple(printable(cell, _CELL) for cell in row) for row in (table.head, *first) if row]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    while sum(widths) + len(_GAP) * (len(widths) - 1) > WIDTH:
        widths[int(np.argmax(widths))] -= 1
    lines = []
    for row in rows:
        placed = []
        for j, (cell, width) in enumerate(zip(row, widths, strict=True)):
            if len(cell) > width:
                cell = cell[: width - 1] + "…"
            if j == 0 or not table.head:
                placed.append(cell.ljust(width))
            else:
                placed.append(cell.rjust(width))
        lines.append(_GAP.join(placed).rstrip())
    return [*lines, *filter(None, [more])]


class Written:
    """A result with a JSON document."""

    def to_dict(self) -> dict[str, Any]:
        raise NotImplementedError

    def to_json(self, **added: Any) -> str:
        """`to_dict` as JSON text, and what is added to it; numbers that are not finite are null."""
        return json.dumps(json_ready({**self.to_dict(), **added}), indent=2)


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
