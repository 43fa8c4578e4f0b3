"""One scale of verdicts: its rule, and that figures and sentences follow it alike."""

from typing import get_args

import pytest

from copriv.ui.gallery import SHOWN
from copriv_papers.claims import Answer
from copriv_papers.figure import Comparison, Judgement
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
