"""How a value shows itself: on one screen where it is printed, and as HTML in a notebook, both from one card.

A class inherits `Shown` and says its `_card`: a title, sentences and tables; or it names the function of `copriv.display`
that makes them (`_teller`). One that says neither is told by its fields. Arrays are told by their shapes alone: what is in
them may be records. Whatever is in a name, no control character of it reaches a terminal and no markup of it a notebook.
"""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from html import escape
from importlib import import_module
from typing import Any, ClassVar, TypeVar

import numpy as np

from copriv.formatting.sanitize import printable

WIDTH, HEIGHT = 100, 24
"""Columns and lines of a screen, at most."""
ROWS = 6
"""Rows of a table that are shown; how many more there are is said."""
LONGEST = 600
"""Characters of a sentence."""
_CELL = 60
_GAP = "   "

Item = TypeVar("Item")


@dataclass(frozen=True)
class Table:
    """Rows of words; the first column is of names, those after it of numbers unless there is no head."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    what: str = "rows"
    """What the rows are called, where not all of them are shown."""
    strong: int = -1
    """The row that stands out on a terminal; none by default."""

    @classmethod
    def of(
        cls, head: Sequence[str], items: Sequence[Item], cells: Callable[[Item], Sequence[str]], what: str = "rows"
    ) -> "Table":
        """A row for each item, made into cells; `what` the items are called."""
        return cls(tuple(head), tuple(tuple(printable(cell, 100) for cell in cells(item)) for item in items), what)

    def first(self, most: int) -> tuple[tuple[tuple[str, ...], ...], str]:
        """The first `most` rows (one more, where that is the last), and in words how many are left out.

        A table without a head, which lists a value's fields, is shown whole.
        """
        left = len(self.rows) - most if self.head and len(self.rows) > most + 1 else 0
        return self.rows[: len(self.rows) - left], f"and {left:,} more {self.what}" if left else ""


@dataclass(frozen=True)
class Card:
    """What a value says of itself: a title, then sentences and tables in order."""

    title: str
    parts: tuple[str | Table, ...] = ()

    def text(self) -> str:
        """At most HEIGHT lines of WIDTH characters."""
        lines, last = textwrap.wrap(printable(self.title, LONGEST), WIDTH), None
        for part in self.parts:
            # A table with a head stands by itself.
            if any(isinstance(one, Table) and one.head for one in (part, last)):
                lines.append("")
            if isinstance(part, str):
                lines += textwrap.wrap(printable(part, LONGEST), WIDTH)
            else:
                lines += _lines(part)
            last = part
        if len(lines) > HEIGHT:
            lines[HEIGHT - 1 :] = ["…"]
        return "\n".join(lines)

    def html(self) -> str:
        """The same as a fragment of HTML, which is well-formed XML: every string is escaped, a table's cells in `_row`."""
        parts = [f"<p><strong>{_escaped(self.title)}</strong></p>"]
        for part in self.parts:
            if isinstance(part, str):
                parts.append(f"<p>{_escaped(part)}</p>")
                continue
            head = f"<thead>{_row(part.head, 'th')}</thead>" if part.head else ""
            rows, more = part.first(ROWS)
            body = "".join(_row(cells, "td") for cells in rows)
            parts.append(f"<table>{head}<tbody>{body}</tbody></table>")
            parts += [f"<p>{_escaped(more)}</p>"] if more else []
        return f'<div class="copriv">{"".join(parts)}</div>'


def _escaped(text: str) -> str:
    return escape(printable(text, LONGEST))


def _row(cells: tuple[str, ...], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{_escaped(cell)}</{tag}>' for cell in cells)}</tr>"


def above(where: str) -> Callable[..., Any]:
    """The function at "module:name". Rooms below name what tells and draws their results; they never import it."""
    module, _, name = where.partition(":")
    function: Callable[..., Any] = getattr(import_module(module), name)
    return function


class Shown:
    """A value that fits a screen when it is printed, and a notebook's cell when it is its last line."""

    _teller: ClassVar[str] = ""
    """ "module:function" of the card, where it is made in `copriv.display`."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # A dataclass writes a __repr__ of all its fields into every class that has none of its own.
        cls.__repr__ = cls.__str__ = Shown._told  # type: ignore[method-assign, assignment]

    def _card(self) -> Card:
        if not self._teller:
            return Card(type(self).__name__, (fields_of(self),))
        card: Card = above(self._teller)(self)
        return card

    def _told(self) -> str:
        return self._card().text()

    def _repr_html_(self) -> str:
        return self._card().html()


def fields_of(value: Any) -> Table:
    """A dataclass's fields and what is in them, a line each."""
    assert is_dataclass(value)
    named = [(field.name, getattr(value, field.name)) for field in fields(value)]
    return Table((), tuple((name, in_short(what)) for name, what in named))


def in_short(value: Any) -> str:
    """A value in a few words: numbers and names as they are, arrays by their shape, others by what and how many they are."""
    if value is None:
        return "none"
    if isinstance(value, bool | np.bool_):
        return ("no", "yes")[bool(value)]
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    if isinstance(value, float | np.floating):
        return f"{value:.6g}"
    if isinstance(value, str):
        return printable(value, _CELL)
    if isinstance(value, np.ndarray):
        return f"array of {' × '.join(f'{n:,}' for n in value.shape) or 'one number'}"
    if isinstance(value, Mapping | tuple | list):
        return _several(value)
    return type(value).__name__


def _several(values: Mapping[Any, Any] | Sequence[Any]) -> str:
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
    """Columns as wide as their cells, the widest ones cut where a line would be too long."""
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
