"""How a declared column is said on one line, as it is typed: "0..120; missing 50", "I < II < III", "east, west", "yes/no"."""

import re
from datetime import date

from copriv.agreement.data_terms import declared_schema
from copriv.data.proposal import LARGEST, Kind, Proposal, as_declared
from copriv.errors import InvalidInput

_DAY = r"\d{4}-\d\d-\d\d"


def said_of(column: Proposal, target: bool = False) -> str:
    """The line of a column."""
    if target and column.classes:
        return ", ".join(column.classes)
    if column.kind == "bounds":
        said = "..".join(map(_plain, column.value))
    elif column.kind == "dates":
        said = "..".join(column.value)
    elif column.kind == "booleans":
        said = "yes/no"
    else:
        said = (" < " if column.ordered else ", ").join(column.value)
    return said if column.missing is None else f"{said}; missing {_plain(column.missing)}"


def _plain(value: object) -> str:
    """A number in its fewest digits, a truth as yes or no, a text as it is."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def read_column(text: str, of: Proposal, target: bool) -> Proposal:
    """The column that a line declares; the proposal itself where its own line is given back, whatever stands in its levels.

    target: it is to be predicted: a number, or two classes. Raises InvalidInput, or ValueError for what is no number.
    """
    if of.kind and text == said_of(of, target):
        return of
    said, _, rest = (part.strip() for part in text.partition(";"))
    kind, value = _kind_and_value(said, target)
    missing: str | float | None = None
    if rest:
        if not rest.lower().startswith("missing "):
            raise InvalidInput("after the semicolon, write what a missing value counts as: 0..120; missing 50")
        missing = rest[len("missing ") :].strip()
        if kind == "bounds":
            missing = float(missing)
    made = Proposal(of.name, kind, value, ordered="<" in said and kind == "categories", missing=missing)
    other = Proposal(f"not {of.name}", "bounds", (0.0, 1.0))
    declared_schema(as_declared((made, other), of.name if target else other.name))
    return made


def _kind_and_value(text: str, target: bool) -> tuple[Kind, tuple[object, ...]]:
    if text.lower() in ("yes/no", "true/false") and not target:
        return "booleans", ()
    if re.fullmatch(rf"{_DAY}\s*\.\.\s*{_DAY}", text) and not target:
        try:
            first, last = (date.fromisoformat(day.strip()).isoformat() for day in text.split(".."))
        except ValueError:
            raise InvalidInput("one of these is not a day; write them as 2015-01-01..2024-12-31") from None
        return "dates", (first, last)
    if ".." in text:
        low, high = (float(part) for part in text.split("..", 1))
        if not -LARGEST <= low < high <= LARGEST:
            raise InvalidInput("the lower bound comes first, and is below the upper one; both are plain numbers")
        return "bounds", (low, high)
    levels = tuple(part.strip() for part in text.split("<" if "<" in text else ",") if part.strip())
    if len(set(levels)) < len(levels):
        raise InvalidInput("name each level once")
    if len(levels) < 2 or (target and len(levels) != 2):
        raise InvalidInput(f"write bounds as 0..120, or levels with commas between{' (two of them)' if target else ''}")
    return "categories", levels
