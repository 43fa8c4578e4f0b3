"""Sentences of verdicts, from verdicts that are made up: each says what it depends on, and what would settle it."""

from dataclasses import replace

import pytest

from copriv.display.verdict import of_verdict
from copriv.problem.verdict import Answer, Outcome, OwnerVerdict, Verdict


def verdict(
    answer: Answer, probability: float, alike: tuple[float, float] | None, unlike: tuple[float, float] | None
) -> OwnerVerdict:
    """alike, unlike: the gain and the probability that joining pays."""

    def outcome(found: tuple[float, float] | None) -> Outcome | None:
        return None if found is None else Outcome("open", found[1], found[0], found[0], found[0])

    return OwnerVerdict(answer, probability, 0.01, 0.0, 0.02, "common", outcome(alike), outcome(unlike))


@pytest.mark.parametrize(("alike", "unlike", "said"), [
    ((0.0098, 0.9), (0.0, 0.0), "0.98 % better if the owners hardly differ, no better if they differ"),
    ((0.0014, 0.25), (0.0, 0.01), "it does with a probability of 25 % (0.14 % better) if the owners hardly differ, with a "
     "probability of 1.0 % (no better) if they differ"),
    ((0.011, 0.82), (0.031, 0.7), "it does with a probability of 82 % (1.1 % better) if the owners hardly differ, with a "
     "probability of 70 % (3.1 % better) if they differ"),
    (None, None, "it does with a probability of 55 %, and 80 % would be a yes."),
])  # fmt: skip
def test_what_is_open_says_what_it_depends_on(
    alike: tuple[float, float] | None, unlike: tuple[float, float] | None, said: str
) -> None:
    """Two gains above what is worthwhile, or two below it, once stood as if they were why it is open."""
    assert said in of_verdict(Verdict("own", {"north": verdict("open", 0.55, alike, unlike)}), 0.005)


@pytest.mark.parametrize(
    ("lacking", "said"), [("rows", "fewer public rows than parameters"), ("targets", "the same target")]
)
def test_public_rows_that_cannot_decide_are_what_would_settle_it(lacking: str, said: str) -> None:
    found = Verdict("own", {"north": verdict("open", 0.55, (0.01, 0.6), (0.0, 0.1))})
    told = of_verdict(replace(found, too_few=lacking), 0.005)
    assert said in told
    assert "data.strata" not in told
