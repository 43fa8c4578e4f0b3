"""The line that an owner's process shows beside its work: answered, spent, waiting."""

import asyncio
from fractions import Fraction

import pytest

from copriv.cli import following
from copriv.privacy.ledger.lines import RunTotals, Totals
from network_parties import agreement
from phased_parties import piloted


def totals(answered, spent):
    run = RunTotals("f", Fraction(1), 4)
    run.charged = run.answered = answered
    sums = Totals(owner="a", lifetime=Fraction(1), spent=Fraction(spent))
    sums.runs["r"] = run
    return sums


def test_it_says_what_was_answered_spent_and_how_long_nothing_was_asked():
    agreed = agreement()
    at_work = following.owner_line("a", agreed, totals(3, "3/4"), frozenset(), 0.1)
    assert at_work == f"a: 3 of {agreed.answers} answers, 0.75 of 1 spent, in 1 run"
    assert following.owner_line("a", agreed, totals(3, "3/4"), frozenset(), 12.3).endswith("; waiting for 12 s")


def test_the_answers_of_both_phases_are_counted():
    """It said "3 of 2 answers" at the end of a run of two answers after a pilot."""
    sums = Totals(owner="a", lifetime=Fraction(1), spent=Fraction(0))
    assert "a: 0 of 4 answers" in following.owner_line("a", piloted(), sums, frozenset(), 0.0)
    sums.runs["r"] = RunTotals("f", Fraction(1), 4, charged=3, answered=3)
    assert "a: 3 of 4 answers" in following.owner_line("a", piloted(), sums, frozenset(), 0.0)


def test_runs_before_this_process_are_spent_and_not_counted_as_answers_of_this_one():
    sums = totals(3, "3/4")
    sums.runs["new"] = RunTotals("f", Fraction(1), 4)
    assert "a: 0 of" in following.owner_line("a", agreement(), sums, frozenset({"r"}), 0.0)


@pytest.mark.parametrize("breaks", [False, True])
def test_the_work_ends_as_it_would_without_the_line(monkeypatch, breaks):
    monkeypatch.setattr(following, "_LOOK", 0.001)
    if breaks:
        monkeypatch.setattr(following, "owner_line", lambda *_: 1 / 0)

    async def work():
        await asyncio.sleep(0.02)
        return "the reason"

    assert asyncio.run(following.beside(work(), "a", agreement(), lambda: totals(1, "1/4"))) == "the reason"


def test_a_log_gets_a_line_only_when_something_was_answered(monkeypatch):
    monkeypatch.setattr(following, "_LOOK", 0.001)
    monkeypatch.setattr(following, "_LOGGED", 0.0)
    lines, answered = [], [0]
    monkeypatch.setattr(following, "log", lines.append)

    async def work():
        await asyncio.sleep(0.02)
        answered[0] = 1
        await asyncio.sleep(0.05)

    asyncio.run(following.beside(work(), "a", agreement(), lambda: totals(answered[0], "1/4")))
    assert len(lines) == 1
    assert "1 of" in lines[0]
