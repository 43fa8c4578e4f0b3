"""Make text of other parties safe to display: on one line, without control characters or formulas."""

import re
import sys
import unicodedata
from typing import Any

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories of controls, formats (which change the writing direction), surrogates, private and unassigned, line ends."""
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""Characters without a visible glyph: fillers, joiners and variation selectors."""

_FORMULA = re.compile(r"(^|;)(?='*\s*[=+@\-＝＋＠－])")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def printable(text: str, most: int = 500) -> str:
    """Return text on one line of at most `most` characters, with invisible ones as \\x1b."""
    shown = "".join(_escaped(c) if unicodedata.category(c) in _UNSEEN or _BLANK.match(c) else c for c in text[:most])
    if max(len(shown), len(text)) > most:
        return shown[: most - 1] + "…"
    return shown


def without_user(text: str) -> str:
    """Return an address without its user and password, and of PostgreSQL's, which may hold one anywhere, the scheme alone.

    What is no address is returned as it is.
    """
    scheme, colon, rest = text.partition(":")
    if scheme.lower() in ("postgresql", "postgres") and colon:
        return f"{scheme}://…"
    if len(scheme) > 1 and rest.startswith("/") and "@" in rest:  # a Path has one slash, and C: is a drive
        return f"{scheme}://{rest.rpartition('@')[2]}"
    return text


def cell(text: str) -> str:
    """Return text, `printable` and whole, for a cell of a CSV file that a spreadsheet may open.

    Formulas (=, +, - or @ at the start, or after a ; at which some programs split cells) get a ' before them; numbers such as
    -1 do not.
    """
    shown = printable(text, sys.maxsize)
    if _NUMBER.fullmatch(shown):
        return shown
    return _FORMULA.sub(r"\1'", shown)


def reason(error: Exception) -> str:
    """Return the reason of an error in reading or writing, without the operating system's number or a codec's name."""
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is not UTF-8 text"
    return str(getattr(error, "strerror", None) or error)


def label(value: object) -> str:
    """Convert a label to text; 1.0, as tables with missing values store whole numbers, becomes "1"."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value)


def says_nothing(label: Any) -> bool:
    """Whether a label is missing, or is a container."""
    if label is None or isinstance(label, list | dict):
        return True
    try:
        return bool(label == "" or label != label)
    except TypeError:  # comparing with pandas.NA
        return True


def _escaped(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\U{code:08x}"
