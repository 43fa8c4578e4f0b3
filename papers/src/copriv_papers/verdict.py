"""The one scale of verdicts, of figures and of sentences alike, and how near a number of ours must be to the paper's."""

from collections.abc import Iterable
from typing import Literal, get_args

Verdict = Literal["reproduced", "reproduced in part", "not reproduced", "not testable", "beyond the papers"]
BEYOND_THEM: Verdict = "beyond the papers"
SCALE: tuple[tuple[Verdict, str], ...] = (
    ("reproduced", "every number that the paper gives for it is met"),
    ("reproduced in part", "some are met, and some are not"),
    ("not reproduced", "none is met"),
    ("not testable", "the paper gives a number, and what it is of is not public, not here, or was not run"),
    (BEYOND_THEM, "no sentence of the papers says anything of it: the number is ours alone"),
)
"""Each with its rule. Panels and settings that the papers have not are shown, and never counted."""
assert tuple(word for word, _ in SCALE) == get_args(Verdict)

SLOPE = 0.15
"""How far a slope may be from the one that is printed."""
PRINTED = 2.0
"""Factor within which a number is one that is printed as "approximately" so."""
READ_OFF = 5.0
"""The same for a number that is read off a plot on log axes, of other data."""
MOST = 0.9
"""Share of neighbouring points at which a sentence without a number ("improves with") must hold."""

RULES = (
    f"a slope within {SLOPE}",
    f"a number that is printed within a factor of {PRINTED:g}",
    f"one that is read off a plot within a factor of {READ_OFF:g}",
    f'"improves with" at {MOST:.0%} of neighbouring points',
    '"above" and "below" as they are printed; any other tolerance is in its row',
)
"""What "met" means, for people."""


def verdict(held: Iterable[bool | None]) -> Verdict:
    """By what is met of what the paper says; None: it says nothing of it."""
    judged = [one for one in held if one is not None]
    if not judged:
        return "not testable"
    return "reproduced" if all(judged) else "reproduced in part" if any(judged) else "not reproduced"


def within(ours: float, theirs: float, factor: float) -> bool:
    """Whether a number is the paper's but for a factor."""
    return theirs / factor <= ours <= theirs * factor


def steep(slope: float, theirs: float = -2.0) -> bool:
    """Whether a slope is the paper's; −2 is what both print."""
    return abs(slope - theirs) <= SLOPE
