"""The durable ledger: what a crash, a second process, a forger or an old backup can and cannot do to it."""

import hashlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from copriv.errors import BudgetRefused, QueryRefused
from copriv.privacy.one_writer import InUse
from copriv.privacy.sqlite_ledger import (
    START,
    Entry,
    LedgerDamaged,
    LedgerFailed,
    LedgerFile,
    SqliteLedger,
    read_lines,
    verify,
)

THETA = np.array([0.5, -1.25, 3e-310])
ONE = Fraction(1)


def filled(path: Path, answers: int = 3) -> str:
    with LedgerFile.open(path, "bank-1", Fraction(2)) as file:
        ledger = file.run("f" * 64, "run-1", ONE, 8)
        for k in range(answers):
            ledger.charge(f"q{k}", THETA + k, Fraction(1, 8))
            ledger.record(f"q{k}", THETA * k)
        return ledger.head


DELTA = Fraction(1, 10**6)


def test_what_was_spent_outlives_the_process(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    head = filled(path)
    with LedgerFile.open(path, "bank-1", Fraction(2)) as file:
        ledger = file.run("f" * 64, "run-1", ONE, 8)
        assert (ledger.answers, ledger.spent, ledger.head) == (3, Fraction(3, 8), head)
        stored = ledger.released("q2", THETA + 2)
        assert stored is not None
        assert stored.tobytes() == (THETA * 2).tobytes()
    assert verify(path, head).spent == Fraction(3, 8)


def test_the_sum_is_exact_where_floats_would_drift(tmp_path: Path) -> None:
    # Ten charges of a tenth fill a budget of one to the last bit; an eleventh, however small, is refused.
    with LedgerFile.open(tmp_path / "ledger", "bank-1", ONE) as file:
        ledger = file.run("f", "r", ONE, 100)
        for k in range(10):
            ledger.charge(f"q{k}", THETA, Fraction(1, 10))
        assert ledger.spent == 1
        with pytest.raises(BudgetRefused, match=r"spent 1\.000 of 1\.000"):
            ledger.charge("more", THETA, Fraction(5e-324))


@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(-1, 8), Fraction(-5e-324)])
def test_a_charge_never_gives_back(tmp_path: Path, epsilon: Fraction) -> None:
    with LedgerFile.open(tmp_path / "ledger", "bank-1", ONE) as file:
        ledger = file.run("f", "r", ONE, 8)
        with pytest.raises(BudgetRefused, match="above 0"):
            ledger.charge("q", THETA, epsilon)
        assert (ledger.answers, file.totals.lines) == (0, 2)


def test_an_epsilon_that_is_no_number_cannot_even_be_said() -> None:
    with pytest.raises((ValueError, OverflowError)):
        Fraction(float("nan"))


def test_the_lifetime_binds_over_runs_and_agreements(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with LedgerFile.open(path, "bank-1", Fraction(3, 2)) as file:
        first = file.run("agreement a", "run-1", ONE, 4)
        for k in range(2):
            first.charge(f"a{k}", THETA, Fraction(1, 4))
        second = file.run("agreement b", "run-2", ONE, 4)
        for k in range(4):
            second.charge(f"b{k}", THETA, Fraction(1, 4))
        with pytest.raises(BudgetRefused, match="lifetime"):
            first.charge("a2", THETA, Fraction(1, 4))
        with pytest.raises(BudgetRefused, match=r"lifetime budget of 1\.500"):
            file.run("agreement a", "run-3", ONE, 4)
    with pytest.raises(BudgetRefused, match="never comes back"):
        LedgerFile.open(path, "bank-1", Fraction(1))
    with LedgerFile.open(path, "bank-1", Fraction(2)) as file:
        file.run("agreement a", "run-1", ONE, 4).charge("a2", THETA, Fraction(1, 4))
    assert [line.kind for line in read_lines(path)].count("lifetime") == 2


def test_a_run_keeps_its_terms_and_a_ledger_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    filled(path)
    with LedgerFile.open(path, "bank-1", Fraction(2)) as file:
        for terms in (("e" * 64, ONE, 8), ("f" * 64, Fraction(2), 8), ("f" * 64, ONE, 9)):
            with pytest.raises(QueryRefused, match="another agreement"):
                file.run(terms[0], "run-1", *terms[1:])
    with pytest.raises(BudgetRefused, match="ledger of 'bank-1'"):
        LedgerFile.open(path, "bank-2", Fraction(2))


def test_identities_are_spent_over_all_runs(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    filled(path)
    with LedgerFile.open(path, "bank-1", Fraction(2)) as file:
        other = file.run("g" * 64, "run-2", ONE, 8)
        with pytest.raises(QueryRefused, match="new identity"):
            other.released("q0", THETA)
        with pytest.raises(QueryRefused, match="already charged"):
            other.charge("q0", THETA, Fraction(1, 8))


def test_a_crash_between_charge_and_answer_costs_budget_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with LedgerFile.open(path, "bank-1", ONE) as file:
        file.run("f", "r", ONE, 8).charge("q", THETA, Fraction(1, 8))
    with LedgerFile.open(path, "bank-1", ONE) as file:
        ledger = file.run("f", "r", ONE, 8)
        assert ledger.spent == Fraction(1, 8)
        with pytest.raises(QueryRefused, match="never answered"):
            ledger.released("q", THETA)


KILLED = """
import os, signal, sys
from fractions import Fraction
import numpy as np
from copriv.privacy.sqlite_ledger import LedgerFile
file = LedgerFile.open(sys.argv[1], "bank-1", Fraction(2))
ledger = file.run("f", "r", Fraction(1), 8)
ledger.charge("q", np.ones(3), Fraction(1, 8))
print("charged", flush=True)
signal.pause() if sys.argv[2] == "wait" else os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_has_charged_and_lets_the_next_one_in(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    died = subprocess.run([sys.executable, "-c", KILLED, path, "die"], stdout=subprocess.PIPE, check=False)
    assert died.returncode == -signal.SIGKILL
    assert died.stdout == b"charged\n"
    with LedgerFile.open(path, "bank-1", Fraction(2)) as file:
        assert file.run("f", "r", ONE, 8).answers == 1


def test_a_second_process_is_told_who_has_the_file(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    holder = subprocess.Popen([sys.executable, "-c", KILLED, path, "wait"], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"charged\n"
        with pytest.raises(InUse, match=f"in use by process {holder.pid}"):
            LedgerFile.open(path, "bank-1", Fraction(2))
        os.kill(holder.pid, signal.SIGSTOP)
        with pytest.raises(InUse):
            LedgerFile.open(path, "bank-1", Fraction(2))
        assert len(list(read_lines(path))) == 3, "reading goes on while another process writes"
    finally:
        holder.kill()
        holder.communicate()


def kinds(path: Path) -> list[str]:
    return [line.kind for line in read_lines(path)]


def commits(file: LedgerFile) -> list[str]:
    """The transactions that are written from now on: each is one flush."""
    seen: list[str] = []
    file._connection.set_trace_callback(lambda statement: seen.append(statement) if statement == "COMMIT" else None)
    return seen


def test_paying_ahead_halves_the_flushes_and_ends_where_the_run_ends(tmp_path: Path) -> None:
    flushes = {}
    for ahead in (0, 1, 3):
        path = tmp_path / f"{ahead}"
        with LedgerFile.open(path, "bank-1", Fraction(2), ahead=ahead) as file:
            ledger, written = file.run("f", "r", ONE, 8), commits(file)
            for k in range(8):
                ledger.charge(f"q{k}", THETA + k, Fraction(1, 8))
                assert ledger.answers == k + 1
                ledger.record(f"q{k}", THETA * k)
                assert verify(path).committed >= ledger.spent == Fraction(k + 1, 8)
                assert verify(path).committed <= min(ledger.spent + Fraction(ahead, 8), 1)
            flushes[ahead] = len(written)
            with pytest.raises(BudgetRefused):
                ledger.charge("more", THETA, Fraction(1, 8))
        assert (verify(path).spent, verify(path).ahead) == (1, 0), "a run to its end is charged what it was asked"
        stored = ledger_again(path).released("q3", THETA + 3)
        assert stored is not None
        assert stored.tobytes() == (THETA * 3).tobytes()
    assert flushes == {0: 16, 1: 9, 3: 9}


def ledger_again(path: Path) -> SqliteLedger:
    return LedgerFile.open(path, "bank-1", Fraction(2), ahead=0).run("f", "r", ONE, 8)


def test_the_budget_is_on_the_disk_before_a_charge_returns(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with LedgerFile.open(path, "bank-1", Fraction(2), ahead=2) as file:
        ledger = file.run("f", "r", ONE, 8)
        for k in range(8):
            ledger.charge(f"q{k}", THETA, Fraction(1, 8))
            on_disk = verify(path)
            assert on_disk.committed >= Fraction(k + 1, 8), "what a second reader of the file sees"
            ledger.record(f"q{k}", THETA)
        assert kinds(path).count("answer") == 8


def test_a_crash_after_paying_ahead_loses_no_answer_and_pays_twice_for_none(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with LedgerFile.open(path, "bank-1", Fraction(2), ahead=2) as file:
        ledger = file.run("f", "r", ONE, 4)
        ledger.charge("q0", THETA, Fraction(1, 4))
        ledger.record("q0", THETA)
        ledger.charge("q1", THETA, Fraction(1, 4))
        with pytest.raises(QueryRefused, match="never answered"):
            ledger.released("q1", THETA)
    totals = verify(path)
    assert (totals.spent, totals.ahead) == (Fraction(1, 4), Fraction(1, 2)), "nothing of q1 left, and it is paid for"
    with LedgerFile.open(path, "bank-1", Fraction(2), ahead=2) as file:
        ledger = file.run("f", "r", ONE, 4)
        assert ledger.released("q1", THETA) is None
        for k in (1, 2, 3):
            ledger.charge(f"q{k}", THETA, Fraction(1, 4))
            ledger.record(f"q{k}", THETA)
        with pytest.raises(BudgetRefused):
            ledger.charge("q4", THETA, Fraction(1, 4))
    assert (verify(path).spent, verify(path).ahead) == (1, 0)


def test_what_is_paid_ahead_is_not_there_for_another_run(tmp_path: Path) -> None:
    with LedgerFile.open(tmp_path / "ledger", "bank-1", Fraction(1), ahead=3) as file:
        first = file.run("f", "a", ONE, 4)
        second = file.run("f", "b", ONE, 4)
        first.charge("a0", THETA, Fraction(1, 4))
        first.record("a0", THETA)
        with pytest.raises(BudgetRefused, match="lifetime"):
            second.charge("b0", THETA, Fraction(1, 4))
        with pytest.raises(BudgetRefused, match=r"0\.000 is left"):
            file.run("f", "c", Fraction(1, 8), 4)
    with pytest.raises(BudgetRefused, match="are spent"):
        LedgerFile.open(tmp_path / "ledger", "bank-1", Fraction(1, 2))


def test_answers_that_are_private_together_need_no_paying_ahead(tmp_path: Path) -> None:
    with LedgerFile.open(tmp_path / "ledger", "bank-1", ONE, DELTA, ahead=2) as file:
        ledger = file.run("f", "r", ONE, 4, DELTA)
        for k in range(4):
            ledger.charge(f"q{k}", THETA, ONE, DELTA)
            ledger.record(f"q{k}", THETA)
        assert "ahead" not in kinds(tmp_path / "ledger")


def together(path: Path, answers: int = 2) -> None:
    """A run of (1, 1e-6) under a lifetime of (2, 1.5e-6)."""
    with LedgerFile.open(path, "bank-1", Fraction(2), DELTA * 3 / 2) as file:
        ledger = file.run("f" * 64, "run-1", ONE, 8, DELTA)
        for k in range(answers):
            ledger.charge(f"q{k}", THETA + k, ONE, DELTA)
            ledger.record(f"q{k}", THETA * k)


def test_delta_outlives_the_process_and_stands_in_the_lines(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    together(path)
    totals = verify(path)
    assert (totals.spent, totals.spent_delta, totals.lifetime_delta) == (1, DELTA, DELTA * 3 / 2)
    charges = [(line.epsilon, line.delta) for line in read_lines(path) if line.kind == "charge"]
    assert charges == [(1, DELTA), (0, 0)], "the first pays for all"
    with LedgerFile.open(path, "bank-1", Fraction(2), DELTA * 3 / 2) as file:
        assert file.totals.lines == totals.lines, "what is unchanged is not said again"
        ledger = file.run("f" * 64, "run-1", ONE, 8, DELTA)
        assert (ledger.answers, ledger.spent, ledger.spent_delta) == (2, 1, DELTA)
        ledger.charge("q9", THETA, ONE, DELTA)
        assert file.totals.spent == 1


def test_the_lifetime_delta_is_for_all_runs(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    together(path)
    with LedgerFile.open(path, "bank-1", Fraction(2), DELTA * 3 / 2) as file:
        with pytest.raises(BudgetRefused, match=r"delta of 1e-06, and 5e-07 is left of the lifetime's 1\.5e-06"):
            file.run("f" * 64, "run-2", ONE, 8, DELTA)
        second, third = (file.run("f" * 64, f"run-{k}", Fraction(1, 2), 8, DELTA / 2) for k in (2, 3))
        second.charge("r0", THETA, Fraction(1, 2), DELTA / 2)
        with pytest.raises(BudgetRefused, match="lifetime budget"):
            third.charge("s0", THETA, Fraction(1, 2), DELTA / 2)
    with pytest.raises(BudgetRefused, match=r"lifetime delta of 1e-06 is less than the 1\.5e-06"):
        LedgerFile.open(path, "bank-1", Fraction(2), DELTA)
    with pytest.raises(BudgetRefused, match="below 1"):
        LedgerFile.open(path, "bank-1", Fraction(2), ONE)


def test_a_run_keeps_its_delta(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    together(path)
    with LedgerFile.open(path, "bank-1", Fraction(2), ONE / 2) as file:
        for delta in (Fraction(0), DELTA / 2, DELTA * 2):
            with pytest.raises(QueryRefused, match="another agreement"):
                file.run("f" * 64, "run-1", ONE, 8, delta)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE lines SET content = x'' WHERE kind = 'lifetime'",
        "UPDATE lines SET content = CAST('8' AS BLOB) WHERE kind = 'run'",
        "UPDATE lines SET content = CAST('8 1/0' AS BLOB) WHERE kind = 'run'",
        "UPDATE lines SET content = CAST('8 -1/2' AS BLOB) WHERE kind = 'run'",
        "UPDATE lines SET content = CAST('eight' AS BLOB) WHERE kind = 'run'",
        "UPDATE lines SET content = substr(content, 1, 32) WHERE number = 3",
        "UPDATE lines SET epsilon = '1/8' WHERE number = 5",
    ],
)
def test_delta_cannot_be_taken_out_of_the_lines(tmp_path: Path, statement: str) -> None:
    """Not even by whoever makes the chain whole again."""
    path = tmp_path / "ledger"
    together(path)
    forged(path, statement)
    with pytest.raises(LedgerDamaged):
        verify(path)
    rechained(path)
    with pytest.raises(LedgerDamaged, match=r"overspends|makes no sense"):
        verify(path)


def rechained(path: Path) -> None:
    """What somebody who knows the format can do."""
    head = START
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT * FROM lines ORDER BY number").fetchall()
        for number, kind, time, fingerprint, run, identity, epsilon, content, _ in rows:
            digest = hashlib.sha256()
            raw = content.encode() if isinstance(content, str) else content
            for part in (head, str(number), kind, time, fingerprint, run, identity, epsilon):
                digest.update(len(part.encode()).to_bytes(8, "big") + part.encode())
            digest.update(len(raw).to_bytes(8, "big") + raw)
            head = digest.hexdigest()
            connection.execute("UPDATE lines SET hash = ? WHERE number = ?", (head, number))
    connection.close()


def forged(path: Path, statement: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TRIGGER no_update")
        connection.execute("DROP TRIGGER no_delete")
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE lines SET epsilon = '1/800' WHERE number = 3",
        "UPDATE lines SET epsilon = '' WHERE number = 3",
        "UPDATE lines SET epsilon = '1/0' WHERE number = 3",
        "UPDATE lines SET epsilon = '-1/8' WHERE number = 3",
        "UPDATE lines SET epsilon = 'nan' WHERE number = 3",
        "UPDATE lines SET content = x'00' WHERE number = 4",
        "UPDATE lines SET time = 'yesterday' WHERE number = 5",
        "UPDATE lines SET number = 90 WHERE number = 5",
        "DELETE FROM lines WHERE number = 3",
        "DELETE FROM lines WHERE number = 1",
        "INSERT INTO lines SELECT 9, kind, time, fingerprint, run, 'q9', epsilon, content, hash "
        "FROM lines WHERE number = 3",
    ],
)
def test_a_line_that_was_touched_breaks_the_chain(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "ledger"
    filled(path)
    forged(path, statement)
    with pytest.raises(LedgerDamaged):
        verify(path)
    with pytest.raises(LedgerDamaged):
        LedgerFile.open(path, "bank-1", Fraction(2))


def test_sqlite_itself_refuses_to_change_a_line(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    filled(path)
    with sqlite3.connect(path) as connection:
        for statement in ("DELETE FROM lines", "UPDATE lines SET epsilon = '0/1'"):
            with pytest.raises(sqlite3.IntegrityError, match="ledger line"):
                connection.execute(statement)
    connection.close()


def test_lines_cut_off_and_old_copies_are_noticed_by_whoever_kept_a_head(tmp_path: Path) -> None:
    path, old = tmp_path / "ledger", tmp_path / "old"
    filled(path, 2)
    shutil.copy(path, old)
    with LedgerFile.open(path, "bank-1", Fraction(2)) as file:
        ledger = file.run("f" * 64, "run-1", ONE, 8)
        before = ledger.head
        ledger.charge("new", THETA, Fraction(1, 8))
        seen = ledger.head
        assert file.holds(before)
        assert file.holds(seen)
    shutil.move(old, path)
    with LedgerFile.open(path, "bank-1", Fraction(2)) as file:
        assert not file.holds(seen)
        assert file.holds(before)
    assert verify(path).lines == 6, "an older chain is whole: the file alone cannot tell"
    with pytest.raises(LedgerDamaged, match="older copy"):
        verify(path, seen)


def test_a_file_replaced_under_a_running_owner_stops_it(tmp_path: Path) -> None:
    path, old = tmp_path / "ledger", tmp_path / "old"
    filled(path, 2)
    shutil.copy(path, old)
    with LedgerFile.open(path, "bank-1", Fraction(2)) as file:
        ledger = file.run("f" * 64, "run-1", ONE, 8)
        old.replace(path)
        with pytest.raises(LedgerDamaged, match="replaced"):
            ledger.charge("new", THETA, Fraction(1, 8))
        path.unlink()
        with pytest.raises(LedgerDamaged, match="moved"):
            ledger.charge("new", THETA, Fraction(1, 8))


def test_a_writer_that_got_round_the_lock_stops_this_one(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    filled(path, 2)
    with LedgerFile.open(path, "bank-1", Fraction(2)) as file:
        ledger = file.run("f" * 64, "run-1", ONE, 8)
        with sqlite3.connect(path) as other:
            other.execute("INSERT INTO lines SELECT 7, kind, '', '', '', '', '', x'', 'x' FROM lines WHERE number = 1")
        other.close()
        with pytest.raises(LedgerDamaged, match="another process"):
            ledger.charge("new", THETA, Fraction(1, 8))


def test_a_disk_that_refuses_the_charge_stops_the_answer(tmp_path: Path) -> None:
    with LedgerFile.open(tmp_path / "ledger", "bank-1", ONE) as file:
        ledger = file.run("f", "r", ONE, 8)
        file._connection.execute("PRAGMA max_page_count = 1")
        with pytest.raises(LedgerFailed, match="full"):
            ledger.charge("q" * 100_000, THETA, Fraction(1, 8))
        with pytest.raises(LedgerFailed):
            ledger.charge("after", THETA, Fraction(1, 8))


def test_what_is_no_ledger_is_refused(tmp_path: Path) -> None:
    wrong = tmp_path / "notes.txt"
    wrong.write_text("not a database" * 100)
    with pytest.raises(LedgerFailed, match="cannot be used"):
        LedgerFile.open(wrong, "bank-1", ONE)
    with pytest.raises(LedgerFailed, match="no such ledger"):
        verify(tmp_path / "missing")
    with pytest.raises(BudgetRefused, match="above 0"):
        LedgerFile.open(tmp_path / "ledger", "bank-1", Fraction(0))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 40), st.booleans()), max_size=30))
def test_no_order_of_charges_overspends(steps: list[tuple[int, int, bool]]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder, LedgerFile.open(f"{folder}/l", "bank-1", Fraction(3, 2)) as file:
        runs: dict[int, SqliteLedger] = {}
        for k, (run, denominator, answer) in enumerate(steps):
            try:
                ledger = runs.setdefault(run, file.run("f", f"run-{run}", ONE, 4))
                ledger.charge(f"q{k}", THETA, Fraction(1, denominator))
                if answer:
                    ledger.record(f"q{k}", THETA)
            except BudgetRefused:
                pass
        for ledger in runs.values():
            assert ledger.spent <= 1
            assert ledger.answers <= 4
        assert sum((ledger.spent for ledger in runs.values()), Fraction(0)) == file.totals.spent <= Fraction(3, 2)
        assert verify(f"{folder}/l").head == file.totals.head


def test_a_charge_that_is_not_paid_for_leaves_the_payment_of_those_that_are(tmp_path: Path) -> None:
    """Several threads may charge before any of them records: no line may come out that cannot stand."""
    path, each = tmp_path / "ledger", Fraction(1, 3)
    with LedgerFile.open(path, "bank-1", Fraction(1), ahead=1) as file:
        ledger = file.run("f", "r", ONE, 3)
        ledger.charge("q0", THETA, each)
        ledger.record("q0", THETA)
        ledger.charge("q1", THETA, each)  # paid for, and waiting
        ledger.charge("q2", THETA, each)  # not paid for
        with pytest.raises(BudgetRefused):
            ledger.charge("q3", THETA, each)
        ledger.record("q2", THETA)
        ledger.record("q1", THETA)
    totals = verify(path)
    assert (totals.spent, totals.ahead) == (1, 0)


def test_a_run_is_charged_for_its_own_agreement_only(tmp_path: Path) -> None:
    with LedgerFile.open(tmp_path / "ledger", "bank-1", Fraction(1), Fraction(1, 10)) as file:
        file.run("f", "r", ONE, 3).open_for("f", Fraction(0))
        for other, delta in (("g", Fraction(0)), ("f", Fraction(1, 10))):
            with pytest.raises(BudgetRefused, match="another agreement"):
                file.run("f", "r", ONE, 3).open_for(other, delta)


def test_looking_up_a_query_does_not_read_the_whole_ledger(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    filled(path)
    steps: list[int] = []
    with LedgerFile.open(path, "bank-1", Fraction(2)) as file:
        ledger = file.run("f" * 64, "run-1", ONE, 8)
        file._connection.set_progress_handler(lambda: steps.append(1), 1)
        ledger.released("unknown", THETA)
        few = len(steps)
        file._connection.set_progress_handler(None, 1)
        for k in range(400):
            file.append(Entry("run", "f" * 64, f"run {k}", epsilon=ONE, content=b"8"))
        steps.clear()
        file._connection.set_progress_handler(lambda: steps.append(1), 1)
        ledger.released("unknown", THETA)
        assert len(steps) <= few + 2, "SQLite's own count of what it did"
