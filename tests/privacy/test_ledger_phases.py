"""A run of several phases in a ledger's file: what a restart, a crash and payment ahead do to the budget of each."""

import os
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from copriv.errors import BudgetRefused
from copriv.privacy.ledger import LedgerDamaged, PhaseBudget
from copriv.privacy.ledger.lines import Entry, Totals, chained
from copriv.privacy.ledger.read import read_lines, verify
from ledger_files import opened

THETA, EIGHTH, DELTA = np.zeros(2), Fraction(1, 8), Fraction(1, 10**6)
FIRST = PhaseBudget(1, Fraction(1, 2), 4, DELTA)
SECOND = PhaseBudget(2, Fraction(1, 2), 4, DELTA)
PURE = PhaseBudget(2, Fraction(1, 2), 4)
RUN = ("f" * 64, "r", Fraction(1), 8, 2 * DELTA)


def kinds(path: Path) -> str:
    return " ".join(line.kind for line in read_lines(path))


def test_the_lines_of_two_phases(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with opened(path, "bank", Fraction(2), 2 * DELTA) as file:
        ledger = file.run(*RUN)
        for k, phase in enumerate((FIRST, FIRST, SECOND)):
            ledger.charge(f"q{k}", THETA, Fraction(1, 2), DELTA, phase)
    assert kinds(path) == "ledger lifetime run phase charge charge phase charge"
    said = [
        (line.identity, line.epsilon, line.delta, line.content) for line in read_lines(path) if line.kind == "phase"
    ]
    assert said == [("1", Fraction(1, 2), DELTA, "4"), ("2", Fraction(1, 2), DELTA, "4")]
    assert (verify(path).spent, verify(path).spent_delta) == (1, 2 * DELTA)


def test_a_phase_goes_on_after_a_restart_and_costs_nothing_twice(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    for k, (phase, spent) in enumerate(((FIRST, 1), (FIRST, 1), (SECOND, 2), (SECOND, 2))):
        with opened(path, "bank", Fraction(2), 2 * DELTA) as file:
            ledger = file.run(*RUN)
            ledger.charge(f"q{k}", THETA, Fraction(1, 2), DELTA, phase)
            assert (ledger.spent, ledger.spent_delta) == (spent * Fraction(1, 2), spent * DELTA)
    with opened(path, "bank", Fraction(2), 2 * DELTA) as file, pytest.raises(BudgetRefused, match="follow each other"):
        file.run(*RUN).charge("q9", THETA, Fraction(1, 2), DELTA, FIRST)


@pytest.mark.parametrize("restart", [False, True])
def test_what_a_phase_paid_ahead_is_gone_with_it(tmp_path: Path, restart: bool) -> None:
    """The next phase's answers of the same price are paid for themselves."""
    path, first = tmp_path / "ledger", PhaseBudget(1, Fraction(1, 2), 4)
    file = opened(path, "bank", Fraction(2), 2 * DELTA, ahead=2)
    ledger = file.run(*RUN)
    ledger.charge("q0", THETA, EIGHTH, phase=first)
    ledger.record("q0", THETA)
    ledger.charge("q1", THETA, EIGHTH, phase=first)  # paid for, and not written yet
    assert (file.totals.committed, ledger.spent) == (3 * EIGHTH, 2 * EIGHTH)
    if restart:
        file.close()
        file = opened(path, "bank", Fraction(2), 2 * DELTA, ahead=2)
        ledger = file.run(*RUN)
    ledger.charge("q2", THETA, EIGHTH, phase=PURE)
    assert (file.totals.committed, ledger.spent, ledger.answers) == (4 * EIGHTH, 4 * EIGHTH, 4)
    ledger.record("q1", THETA)  # late: it pays nothing ahead for a phase that is over
    assert file.totals.ahead == 0
    ledger.record("q2", THETA)
    assert file.totals.ahead == 2 * EIGHTH
    file.close()
    assert kinds(path).endswith("ahead charge phase charge answer answer ahead") or restart
    assert verify(path).committed == 6 * EIGHTH


def test_payment_ahead_stays_within_the_phase(tmp_path: Path) -> None:
    small = PhaseBudget(1, Fraction(1, 4), 4)
    with opened(tmp_path / "ledger", "bank", Fraction(2), 2 * DELTA, ahead=3) as file:
        ledger = file.run(*RUN)
        ledger.charge("q0", THETA, EIGHTH, phase=small)
        ledger.record("q0", THETA)
        assert file.totals.ahead == EIGHTH, "a quarter in all"


def test_a_phase_that_begins_as_the_process_dies_is_begun_and_spends_nothing_twice(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with opened(path, "bank", Fraction(2), 2 * DELTA) as file:
        file.run(*RUN).charge("q0", THETA, Fraction(1, 2), DELTA, FIRST)
        head, witnessed = path.stat().st_size, next(tmp_path.glob("*.witness")).read_bytes()
        file.run(*RUN).charge("q1", THETA, Fraction(1, 2), DELTA, SECOND)
    raw = path.read_bytes()
    phase_line = raw.index(b"\n", head) + 1
    os.truncate(path, phase_line)  # the charge's own line did not reach the disk, and the witness saw neither
    next(tmp_path.glob("*.witness")).write_bytes(witnessed)
    with opened(path, "bank", Fraction(2), 2 * DELTA) as file:
        ledger = file.run(*RUN)
        assert (ledger.spent, ledger.spent_delta) == (Fraction(1, 2), DELTA)
        with pytest.raises(BudgetRefused, match="follow each other"):
            ledger.charge("q2", THETA, Fraction(1, 2), DELTA, FIRST)
        for k in (2, 3):
            ledger.charge(f"q{k}", THETA, Fraction(1, 2), DELTA, SECOND)
            assert (ledger.spent, ledger.spent_delta) == (1, 2 * DELTA)


def charge(identity: str, ε: Fraction, δ: Fraction = DELTA) -> Entry:
    return Entry("charge", "f", "r", identity, ε, δ)


def phase(number: str, ε: Fraction = Fraction(1, 2), δ: Fraction = DELTA, cap: str = "1") -> Entry:
    return Entry("phase", "f", "r", number, ε, δ, cap)


HALF = Fraction(1, 2)
BEGUN = [
    Entry("ledger", identity="bank"),
    Entry("lifetime", identity="bank", epsilon=Fraction(2), delta=DELTA * 9),
    Entry("run", "f", "r", epsilon=Fraction(2), delta=DELTA * 9, content="9"),
]


def test_lines_of_phases_that_stand() -> None:
    totals = Totals.of(chained([*BEGUN, phase("1"), charge("a", HALF), phase("3"), charge("b", HALF)]))
    assert (totals.spent, totals.spent_delta) == (1, 2 * DELTA)


@pytest.mark.parametrize(
    "lines",
    [
        [phase("1"), charge("a", HALF), phase("2"), charge("b", Fraction(0), Fraction(0))],  # paid by another phase
        [phase("1"), charge("a", HALF), charge("b", HALF)],  # beyond its own answers and budget
        [phase("1", cap="2"), charge("a", Fraction(3, 4))],
        [phase("1", cap="2"), charge("a", HALF, 2 * DELTA)],
        [phase("1"), charge("a", HALF), phase("1"), charge("b", HALF)],
        [phase("2"), charge("a", HALF), phase("1"), charge("b", HALF)],
        [phase("0")],
        [phase("one")],
        [phase("1", cap="all")],
        [phase("1", Fraction(0))],
        [charge("a", HALF), phase("1"), charge("b", HALF)],  # it began as a run of one phase
    ],
)
def test_lines_of_phases_that_no_owner_writes(lines: list[Entry]) -> None:
    with pytest.raises(LedgerDamaged, match=r"overspends|makes no sense"):
        Totals.of(chained([*BEGUN, *lines]))


def test_two_runs_of_phases_that_take_turns_share_one_lifetime(tmp_path: Path) -> None:
    """Both began when the whole budget was there: the one that asks first has it, in whichever of its phases."""
    runs = {"a": Fraction(1, 4), "b": Fraction(1, 2)}  # the pilot's part of each
    with opened(tmp_path / "ledger", "bank", Fraction(1), ahead=3) as file:
        ledgers = {run: file.run(run * 64, run, Fraction(1), 4) for run in runs}
        given = Fraction(0)
        for k, (run, number) in enumerate([("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 2), ("b", 1)]):
            ε, answers = (runs[run], 1) if number == 1 else (1 - runs[run], 3)
            with suppress(BudgetRefused):
                ledgers[run].charge(f"q{k}", THETA, ε / answers, phase=PhaseBudget(number, ε, answers))
                ledgers[run].record(f"q{k}", THETA)
                given += ε / answers
    assert given == 1  # both pilots and a third of what is left of "a", and nothing after it
    assert verify(tmp_path / "ledger").committed == 1
