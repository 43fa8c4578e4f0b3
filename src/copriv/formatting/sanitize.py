"""What others wrote, as text: safe to show (no control character reaches a terminal, no line is theirs), safe to compare."""

import re
import sys
import unicodedata
from typing import Any

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Controls, formats (which turn the direction of writing), halves of characters, private and unknown ones, ends of lines."""
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""Letters, marks and signs of which nothing is drawn: fillers, joiners and selectors of variants."""

_FORMULA = re.compile(r"(^|;)(?='*\s*[=+@\-＝＋＠－])")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def printable(text: str, most: int = 500) -> str:
    """The text on one line, what cannot be seen as \\x1b, at most so many characters."""
    shown = "".join(_escaped(c) if unicodedata.category(c) in _UNSEEN or _BLANK.match(c) else c for c in text[:most])
    if max(len(shown), len(text)) > most:
        return shown[: most - 1] + "…"
    return shown


def cell(text: str) -> str:
    """The text, `printable` and whole, for a cell of a CSV file that a spreadsheet may open.

    What a spreadsheet would compute (=, +, - or @ at its start, or after a ; at which some split cells) gets a ' before it;
    a number such as -1 stays as it is.
    """
    shown = printable(text, sys.maxsize)
    if _NUMBER.fullmatch(shown):
        return shown
    return _FORMULA.sub(r"\1'", shown)


def reason(error: Exception) -> str:
    """Why something could not be read or written, without the number that an operating system gives it."""
    return str(getattr(error, "strerror", None) or error)


def label(value: object) -> str:
    """A label as text: 1.0, as which a table may hold whole numbers, is the owner called "1"."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value)


def says_nothing(label: Any) -> bool:
    """Whether a label is missing, or is a container."""
    if label is None or isinstance(label, list | dict):
        return True
    try:
        return bool(label == "" or label != label)
    except TypeError:  # some libraries' "missing" cannot be compared
        return True


def _escaped(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\U{code:08x}"
