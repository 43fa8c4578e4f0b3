"""The answer of a forecast on one screen of 24 lines by 80 columns."""

import textwrap
from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

from copriv.display.forecast import costs, notes, owners, title
from copriv.forecast import Forecast
from copriv.formatting.cards import Table
from copriv.formatting.sanitize import printable

WIDTH, HEIGHT = 80, 24


def lines(outlook: Forecast, more: Sequence[str] = ()) -> list[str]:
    """What is shown: at most HEIGHT lines of at most WIDTH columns; `more`: about a question, in place of the owners."""
    head = [
        _cut(title(outlook), WIDTH),
        *_wrapped(f"From {printable(outlook.description)}.", 2 if len(outlook.owners) <= 3 else 1),
        "",
    ]
    models = [*_aligned(costs(outlook)), ""]
    end = [line for note in notes(outlook) for line in _wrapped(note, 3)]
    end += ["More: --details. What it would take: --target 2%. What if: --without NAME."]
    room = HEIGHT - len(head) - len(models) - len(end) - 2  # a line for the prompt, and one before the end
    if more:
        said = [line for one in more for line in _wrapped(one, 4)][:room]
        left = room - len(said) - 1
        return [*head, *said, "", *models, *(_wrapped(outlook.verdict, left) if left > 1 else []), "", *end]
    said = _wrapped(outlook.verdict, 8)
    left = room - len(said) - 3
    if left < min(3, len(outlook.owners)):  # who gains is asked before what each model costs
        models, left = [], left + len(models)
    return [*head, *said, "", *models, *_aligned(owners(outlook), min(6, left)), "", *end]


def _aligned(table: Table, most: int = HEIGHT) -> list[str]:
    """The first column to the left, the others to the right; at most so many rows (one more, where that is the last)."""
    if most < 1:
        return []
    rows, more = table.first(most)
    cells = [table.head, *((_cut(row[0], 27), *row[1:]) for row in rows)]
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    made = []
    for first, *others in cells:
        rest = (" " * (width - cell_len(cell)) + cell for cell, width in zip(others, widths[1:], strict=True))
        made.append("   ".join([set_cell_size(first, widths[0]), *rest]).rstrip())
    return made + ([f"{more}: --details, or --json"] if more else [])


def _wrapped(text: str, most: int) -> list[str]:
    """At most so many lines, of whole words, where no number is parted from its sign."""
    kept = text.replace(" %", "\x1f%")  # a character that no text has (`printable`)
    made = textwrap.wrap(kept, WIDTH, max_lines=most, placeholder=" …", break_on_hyphens=False)
    return [line.replace("\x1f", " ") for line in made]


def _cut(text: str, width: int) -> str:
    """At most so many columns, whatever the script."""
    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"
