"""Format numbers and lists of names for people: percentages without powers of ten, few digits, short lists."""

import math
from collections.abc import Sequence
from typing import Any


def percent(ratio: float) -> str:
    """Format a ratio in percent: two significant digits, no power of ten; ratios below 1e-9 are rounding errors, and 0.

    >>> percent(0.0123), percent(22.5), percent(1e-12), percent(1e20)
    ('1.2 %', '2,200 %', '0 %', 'over 10,000,000 %')
    """
    value = 100.0 * ratio
    if not math.isfinite(value):
        return "unbounded"
    if abs(value) < 1e-7:
        return "0 %"
    if value > 1e7:
        return "over 10,000,000 %"
    digits = 1 - math.floor(math.log10(abs(value)))
    return f"{round(value, digits):,.{max(0, digits)}f} %"


def percent_range(low: float, high: float) -> str:
    """Format a range, as "1.2 % to 3.4 %", or one number where both ends have the same digits."""
    first, last = percent(low), percent(high)
    if first == last:
        return first
    return f"{first} to {last}"


def chance_range(low: float, high: float | None = None) -> str:
    """Format a probability, or a range of probabilities; none is said to be 0 or 100 %.

    >>> chance_range(0.25, 0.825), chance_range(0.999), chance_range(0.001, 0.3)
    ('25 % to 82 %', 'more than 99 %', 'less than 1 % to 30 %')
    """
    first, last = (
        "more than 99 %" if p > 0.99 else "less than 1 %" if p < 0.01 else percent(p)
        for p in (low, low if high is None else high)
    )
    return first if first == last else f"{first} to {last}"


def estimated(value: float, low: float, high: float) -> str:
    """Format an estimated ratio with its range, as "1.2 % (0.5 % to 3.4 %)"."""
    return f"{percent(value)} ({percent(low)} to {percent(high)})"


def axis_percent(ratio: float) -> str:
    """Format a tick of a log axis in percent: as a power of ten where it is very large or small."""
    value = 100.0 * ratio
    if value >= 1e5 or 0 < value < 9e-5:
        return f"$10^{{{round(math.log10(value))}}}$ %"
    return f"{value:,.10f}".rstrip("0").rstrip(".") + " %"


def plain_number(value: float) -> str:
    """Format a number with three significant digits; large ones without a power of ten.

    >>> plain_number(0.12345), plain_number(271.4), plain_number(12345.0)
    ('0.123', '271', '12,300')
    """
    if value == 0:
        return "0"
    short = f"{value:.3g}"
    if 1e3 <= abs(float(short)) < 1e12:
        return f"{float(short):,.0f}"
    return short


def times(factor: float) -> str:
    """Format a factor with two significant digits: 2.345 → "2.3", 22,612 → "23,000"."""
    if factor < 100:
        return f"{factor:,.2g}"
    return f"{float(f'{factor:.2g}'):,.0f}"


def rounded(records: float) -> str:
    """Format an estimated number of records with two significant digits, or as a whole number below 100."""
    return f"{records:,.0f}" if records < 100 else f"{float(f'{records:.2g}'):,.0f}"


def listed(names: Sequence[str], most: int = 3) -> str:
    """List names, as "a", "a and b", "a, b and c"; of many the first `most`, and the number of the others."""
    if len(names) > most + 1:
        names = [*names[:most], f"{len(names) - most} others"]
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def counted(number: int, what: str) -> str:
    """Format a number of things, with the plural.

    >>> counted(1, "owner"), counted(1200, "owner")
    ('1 owner', '1,200 owners')
    """
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def yes_or_no(holds: object) -> str:
    """Say whether a condition holds: "yes" or "no"."""
    return "yes" if holds else "no"


def mapping(value: object | None) -> dict[str, Any] | None:
    """The fields of a value by name; None for None."""
    if value is None:
        return None
    return dict(vars(value))


def json_ready(value: Any) -> Any:
    """Replace numbers that are not finite, which JSON does not have, by None."""
    if isinstance(value, dict):
        return {key: json_ready(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
