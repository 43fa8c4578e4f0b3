"""The answer of a forecast on one screen: 24 lines of 80 columns, or as much text on a wider or narrower one.

Sentences are wrapped and never cut. What has no room is left out whole, the least important first, and stands in
`--details`.
"""

import textwrap
from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

from copriv.display.forecast import better_by, costs, made_from, notes, owners, title
from copriv.display.verdict import answer, qualified
from copriv.forecast import Forecast
from copriv.formatting.cards import Table

WIDTH, HEIGHT = 80, 24
WIDEST = 120
MORE = "More: --details. What it would take: --target 2%. What if: --without NAME."


def lines(outlook: Forecast, asked: Sequence[str] = (), headline: Sequence[str] = (), width: int = WIDTH) -> list[str]:
    """What is shown, in lines of at most `width` columns.

    asked: the answer to a question, in place of what joining means for each owner. headline: sentences in place of the verdict.
    """
    width = min(width, WIDEST)
    room = HEIGHT - 1 if width >= WIDTH else (HEIGHT - 1) * WIDTH // width  # a line for the prompt
    head = [*_wrapped(title(outlook), width), *_wrapped(made_from(outlook), width)]
    question = [line for one in asked for line in _wrapped(one, width)]
    said = [*headline] or [answer(outlook)]
    caution, more = outlook.caution, [*qualified(outlook)]
    more += [caution] if caution else []
    if question:
        said, more = [], [*said, *more]
    table = _aligned(owners(outlook), min(6, outlook.n_owners), width) + _wrapped(better_by(outlook), width)
    table = [] if question else table
    models: list[str] = []
    told = [line for note in notes(outlook) for line in _wrapped(note, width)]

    def screen() -> list[str]:
        parts = [head, question, _wrapped(" ".join(said), width), models, table, [*told, *_wrapped(MORE, width)]]
        return [line for part in parts if part for line in ("", *part)][1:]

    if question:
        models = _aligned(costs(outlook), HEIGHT, width)
    for sentence in more:
        said.append(sentence)
        if len(screen()) > room:
            said.pop()
    if not models:
        models = _aligned(costs(outlook), HEIGHT, width)
        if len(screen()) > room:
            models = []
    return screen()


def _aligned(table: Table, most: int, width: int) -> list[str]:
    """The first column to the left, the others to the right; at most so many rows (one more, where that is the last)."""
    rows, more = table.first(most)
    others = [max(map(cell_len, column)) for column in list(zip(table.head, *rows, strict=True))[1:]]
    while len(others) > 1 and width - sum(others) - 2 * len(others) < 14:
        others.pop()  # a narrow screen has fewer columns, none of them cut
    gap = 3 if cell_len(table.head[0]) + sum(others) + 3 * len(others) <= width else 2
    room = max(width - sum(others) - gap * len(others), 8)
    names = [_cut(row[0], room) for row in (table.head, *rows)]
    first, made = max(map(cell_len, names)), []
    for name, (_, *rest) in zip(names, (table.head, *rows), strict=True):
        right = (" " * (size - cell_len(cell)) + cell for cell, size in zip(rest, others, strict=False))
        made.append((" " * gap).join([set_cell_size(name, first), *right]).rstrip())
    return made + (_wrapped(f"{more}: --details, or --json", width) if more else [])


def _wrapped(text: str, width: int) -> list[str]:
    """Lines of whole words, where no number is parted from its sign."""
    kept = text.replace(" %", "\x1f%")  # a character that no text has (`printable`)
    return [line.replace("\x1f", " ") for line in textwrap.wrap(kept, width, break_on_hyphens=False)]


def _cut(name: str, width: int) -> str:
    """A name of at most so many columns, whatever the script."""
    return name if cell_len(name) <= width else set_cell_size(name, width - 1).rstrip() + "…"
