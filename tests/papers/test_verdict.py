"""One scale of verdicts: its rule, and that figures and sentences follow it alike."""

import json
import re
from html import unescape
from typing import get_args

import pytest

from copriv.ui.gallery import SHOWN, VERDICTS
from copriv_papers import FIGURES
from copriv_papers.claims import CLAIMS, Answer
from copriv_papers.contents import names
from copriv_papers.figure import Comparison, Judgement
from copriv_papers.papers import PAPERS
from copriv_papers.verdict import RULES, SCALE, SLOPE, Verdict, steep, verdict, within


@pytest.mark.parametrize(
    ("held", "word"),
    [
        ((), "not testable"), ((None,), "not testable"), ((True, None), "reproduced"), ((True, True), "reproduced"),
        ((True, False, None), "reproduced in part"), ((False, None), "not reproduced"),
    ],
)  # fmt: skip
def test_a_verdict_is_by_what_is_met(held: tuple[bool | None, ...], word: str) -> None:
    assert verdict(held) == word
    assert Judgement.of([Comparison("", "", 0.0, one) for one in held], "why").verdict == word
    assert Answer((), tuple(one for one in held if one is not None)).verdict == word


def test_the_pages_name_every_word_with_its_rule() -> None:
    assert tuple(word for word, _ in SCALE) == get_args(Verdict)
    docs = SHOWN.parent
    for page in ("gallery.md", "reference/claims.md"):
        text = (docs / page).read_text(encoding="utf-8")
        assert all(f"| {word} | {when} |" in text for word, when in SCALE)
        assert all(rule in text for rule in RULES)


def test_near_is_the_same_for_all() -> None:
    assert steep(-2.0 - SLOPE)
    assert not steep(-1.8)
    assert not steep(float("nan"))
    assert within(5.0, 1.0, 5.0)
    assert not within(0.19, 1.0, 5.0)


@pytest.mark.parametrize(
    ("here", "there", "word"),
    [
        ((True,), (True,), "reproduced"), ((True,), (False,), "reproduced in part"), ((True,), (None,), "reproduced"),
        ((False,), (True, None), "reproduced in part"), ((False,), (False,), "not reproduced"),
    ],
)  # fmt: skip
def test_a_figure_is_judged_on_all_its_tables(
    here: tuple[bool, ...], there: tuple[bool | None, ...], word: str
) -> None:
    own = Judgement.of([Comparison("", "", 0.0, one) for one in here], "in part", "in full")
    both = own.on_all_tables(there)
    assert (both.verdict, both.comparisons) == (word, own.comparisons)
    assert both.why == ("in full" if word == "reproduced" else "in part")
    ours = Judgement("beyond the papers", "ours", own.comparisons)
    assert ours.on_all_tables(there) == ours


KINDNESS = ("not reproduced", "reproduced in part", "reproduced")


def _taken_together(words: set[str]) -> str:
    """Verdict on several claims that were each given one; untestable ones say nothing."""
    known = words & set(KINDNESS)
    return known.pop() if len(known) == 1 else "reproduced in part" if known else "not testable"


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.identity)
def test_no_figure_is_judged_more_kindly_than_its_claims(figure) -> None:  # type: ignore[no-untyped-def]
    """On the kept pages: a claim is of a figure where its place names it, or where its number is read from it."""
    docs = SHOWN.parent
    table = (docs / "reference" / "claims.md").read_text(encoding="utf-8").split("## Beyond the papers")[0]
    rows = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)] for line in table.splitlines() if line.count("|") >= 8
    ]
    said = {(re.sub("<a .*?</a>", "", row[1]), row[2]): re.match("[a-z ]+", row[6]) for row in rows}
    mine = {
        found[0].strip()
        for claim in CLAIMS
        if not claim.beyond and (names(claim.place, figure.source) or claim.source == figure.identity)
        for found in (said[claim.place, claim.sentence],)
        if found is not None
    }
    assert mine
    together = _taken_together(mine)
    told = {one["id"]: one for one in json.loads((SHOWN / VERDICTS).read_text(encoding="utf-8"))["figures"]}
    verdict_of_it = told[figure.identity]["verdict"]
    assert together not in KINDNESS or KINDNESS.index(verdict_of_it) <= KINDNESS.index(together)
    gallery = (docs / "gallery.md").read_text(encoding="utf-8")
    assert f"| [{figure.source}](#{figure.identity}) | {figure.title} | {verdict_of_it} |" in gallery
    (poster,) = (
        unescape((docs / "papers" / f"{paper.identity}.html").read_text(encoding="utf-8"))
        for paper in PAPERS
        if figure in paper.figures
    )
    assert f'alt="{figure.title}: {verdict_of_it}"' in poster
