"""Titles of the errata, by their numbers; docs/explanation/errata.md has the proofs, and a test holds both together."""

import re
from collections.abc import Callable

from markupsafe import Markup, escape

ERRATA = {
    1: "The norm of Ξ.",
    2: "The learner's step in A1.",
    3: "λ in A's appendix",
    4: "The dimension is missing.",
    5: "The horizon is circular.",
    6: "Constants of A (8), (9).",
    7: "A's published experiment code is not differentially private.",
    8: "Every owner is charged for T answers",
    9: 'S (4) sums over "N_j∖{j}"',
    10: "A factor λ/2 is missing from S (9)",
    11: '"The bound in (11) scales as ε⁻²"',
    12: "S (10): 4/L can be 2/L",
    13: "A, Fig. 2 against A, Fig. 4",
    14: "A step of the proof of S Thm 3",
    15: "S (11) cannot hold for all n",
    16: '"We get the same bounds"',
    17: "ε_i/κ does not keep ε_i where budgets differ",
    18: '"The sum of the privacy budgets squared"',
    19: "A's abstract against A, Fig. 6",
    20: '"The ML model remains within a compact set"',
}
_NAMED = re.compile(r"erratum (\d+)")


def named(texts: list[str]) -> dict[int, str]:
    """Those that some texts name."""
    numbers = {int(n) for text in texts for n in _NAMED.findall(text)}
    return {n: ERRATA[n] for n in sorted(numbers)}


def _linked(link: str) -> Callable[[str], str]:
    return lambda text: _NAMED.sub(lambda found: link.format(found[0], found[1]), text)


in_markdown = _linked("[{0}](../explanation/errata.md#erratum-{1})")
"""A text whose errata are links, for a page of docs/reference."""


def in_html(text: str) -> Markup:
    """The same for a page that has its errata at its end."""
    return Markup(_linked('<a href="#erratum-{1}">{0}</a>')(str(escape(text))))
