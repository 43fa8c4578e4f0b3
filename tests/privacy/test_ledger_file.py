"""The durable ledger: what a crash, a second process, a forger or an old backup can and cannot do to it."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from copriv.errors import BudgetRefused, QueryRefused
from copriv.privacy.ledger import LedgerDamaged, LedgerFailed, chain
from copriv.privacy.ledger.create import adopt
from copriv.privacy.ledger.disk import InUse
from copriv.privacy.ledger.file import RunLedger
from copriv.privacy.ledger.lines import START
from copriv.privacy.ledger.read import read_lines, verify
from ledger_files import opened

THETA = np.array([0.5, -1.25, 3e-310])
ONE = Fraction(1)


def filled(path: Path, answers: int = 3) -> str:
    with opened(path, "bank-1", Fraction(2)) as file:
        ledger = file.run("f" * 64, "run-1", ONE, 8)
        for k in range(answers):
            ledger.charge(f"q{k}", THETA + k, Fraction(1, 8))
            ledger.record(f"q{k}", THETA * k)
        return ledger.head


DELTA = Fraction(1, 10**6)


def test_what_was_spent_outlives_the_process(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    head = filled(path)
    with opened(path, "bank-1", Fraction(2)) as file:
        ledger = file.run("f" * 64, "run-1", ONE, 8)
        assert (ledger.answers, ledger.spent, file.holds(head)) == (3, Fraction(3, 8), True)
        stored = ledger.released("q2", THETA + 2)
        assert stored is not None
        assert stored.tobytes() == (THETA * 2).tobytes()
    assert verify(path, head).spent == Fraction(3, 8)


def test_the_sum_is_exact_where_floats_would_drift(tmp_path: Path) -> None:
    # Ten charges of a tenth fill a budget of one to the last bit; an eleventh, however small, is refused.
    with opened(tmp_path / "ledger", "bank-1", ONE) as file:
        ledger = file.run("f", "r", ONE, 100)
        for k in range(10):
            ledger.charge(f"q{k}", THETA, Fraction(1, 10))
        assert ledger.spent == 1
        with pytest.raises(BudgetRefused, match=r"spent 1\.000 of 1\.000"):
            ledger.charge("more", THETA, Fraction(5e-324))


@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(-1, 8), Fraction(-5e-324)])
def test_a_charge_never_gives_back(tmp_path: Path, epsilon: Fraction) -> None:
    with opened(tmp_path / "ledger", "bank-1", ONE) as file:
        ledger = file.run("f", "r", ONE, 8)
        with pytest.raises(BudgetRefused, match="above 0"):
            ledger.charge("q", THETA, epsilon)
        assert (ledger.answers, file.totals.lines) == (0, 2), "the ledger and its lifetime"


def test_an_epsilon_that_is_no_number_cannot_even_be_said() -> None:
    with pytest.raises((ValueError, OverflowError)):
        Fraction(float("nan"))


def test_the_lifetime_binds_over_runs_and_agreements(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with opened(path, "bank-1", Fraction(3, 2)) as file:
        first = file.run("agreement a", "run-1", ONE, 4)
        for k in range(2):
            first.charge(f"a{k}", THETA, Fraction(1, 4))
        second = file.run("agreement b", "run-2", ONE, 4)
        for k in range(4):
            second.charge(f"b{k}", THETA, Fraction(1, 4))
        with pytest.raises(BudgetRefused, match="lifetime"):
            first.charge("a2", THETA, Fraction(1, 4))
        with pytest.raises(BudgetRefused, match=r"lifetime budget of 1\.5"):
            file.run("agreement a", "run-3", ONE, 4)
    with pytest.raises(BudgetRefused, match="never comes back"):
        opened(path, "bank-1", Fraction(1))
    with opened(path, "bank-1", Fraction(2)) as file:
        file.run("agreement a", "run-1", ONE, 4).charge("a2", THETA, Fraction(1, 4))
    assert [line.kind for line in read_lines(path)].count("lifetime") == 2


def test_a_run_keeps_its_terms_and_a_ledger_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    filled(path)
    with opened(path, "bank-1", Fraction(2)) as file:
        for terms in (("e" * 64, ONE, 8), ("f" * 64, Fraction(2), 8), ("f" * 64, ONE, 9)):
            with pytest.raises(QueryRefused, match="another agreement"):
                file.run(terms[0], "run-1", *terms[1:])
    with pytest.raises(BudgetRefused, match="ledger of 'bank-1'"):
        opened(path, "bank-2", Fraction(2))


def test_identities_are_spent_over_all_runs(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    filled(path)
    with opened(path, "bank-1", Fraction(2)) as file:
        other = file.run("g" * 64, "run-2", ONE, 8)
        with pytest.raises(QueryRefused, match="new identity"):
            other.released("q0", THETA)
        with pytest.raises(QueryRefused, match="already charged"):
            other.charge("q0", THETA, Fraction(1, 8))


def test_a_crash_between_charge_and_answer_costs_budget_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with opened(path, "bank-1", ONE) as file:
        file.run("f", "r", ONE, 8).charge("q", THETA, Fraction(1, 8))
    with opened(path, "bank-1", ONE) as file:
        ledger = file.run("f", "r", ONE, 8)
        assert ledger.spent == Fraction(1, 8)
        with pytest.raises(QueryRefused, match="never answered"):
            ledger.released("q", THETA)


KILLED = """
import os, signal, sys
from fractions import Fraction
import numpy as np
from ledger_files import opened
file = opened(sys.argv[1], "bank-1", Fraction(2))
ledger = file.run("f", "r", Fraction(1), 8)
if sys.argv[2] == "paid ahead":
    file.ahead, ledger = 2, file.run("f", "r", Fraction(1), 4)
    for q in ("q0", "q1"):  # the first pays for two more, of which one is asked for
        ledger.charge(q, np.ones(3), Fraction(1, 4))
        ledger.record(q, np.ones(3))
else:
    ledger.charge("q", np.ones(3), Fraction(1, 8))
print("charged", flush=True)
signal.pause() if sys.argv[2] == "wait" else os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(path: Path, how: str) -> None:
    """A process that charges, and is killed."""
    tests = str(Path(__file__).parents[1])
    died = subprocess.run([sys.executable, "-c", KILLED, path, how], stdout=subprocess.PIPE, check=False, cwd=tests)
    assert died.returncode == -signal.SIGKILL
    assert died.stdout == b"charged\n"
    for witness in path.parent.glob("*.witness"):
        shutil.copy(witness, witness.with_suffix(".kept"))


def test_a_killed_process_has_charged_and_lets_the_next_one_in(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    killed(path, "die")
    with opened(path, "bank-1", Fraction(2)) as file:
        assert file.run("f", "r", ONE, 8).answers == 1


def test_a_second_process_is_told_who_has_the_file(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    holder = subprocess.Popen(
        [sys.executable, "-c", KILLED, path, "wait"], stdout=subprocess.PIPE, cwd=Path(__file__).parents[1]
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"charged\n"
        with pytest.raises(InUse, match=f"in use by process {holder.pid}"):
            opened(path, "bank-1", Fraction(2))
        os.kill(holder.pid, signal.SIGSTOP)
        with pytest.raises(InUse):
            opened(path, "bank-1", Fraction(2))
        assert len(list(read_lines(path))) == 4, "reading goes on while another process writes"
    finally:
        holder.kill()
        holder.communicate()


def kinds(path: Path) -> list[str]:
    return [line.kind for line in read_lines(path)]


def test_paying_ahead_waits_for_the_disk_less_and_ends_where_the_run_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushes = {}
    for ahead in (0, 1, 3):
        path = tmp_path / f"{ahead}"
        with opened(path, "bank-1", Fraction(2), ahead=ahead) as file:
            ledger, written = file.run("f", "r", ONE, 8), list[int]()
            monkeypatch.setattr(chain, "flush", written.append)
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
    assert flushes == {0: 8, 1: 8, 3: 4}


def ledger_again(path: Path) -> RunLedger:
    return opened(path, "bank-1", Fraction(2), ahead=0).run("f", "r", ONE, 8)


def test_the_budget_is_on_the_disk_before_a_charge_returns(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with opened(path, "bank-1", Fraction(2), ahead=2) as file:
        ledger = file.run("f", "r", ONE, 8)
        for k in range(8):
            ledger.charge(f"q{k}", THETA, Fraction(1, 8))
            on_disk = verify(path)
            assert on_disk.committed >= Fraction(k + 1, 8), "what a second reader of the file sees"
            ledger.record(f"q{k}", THETA)
        assert kinds(path).count("answer") == 8


def test_after_a_crash_all_that_was_paid_ahead_counts_as_given(tmp_path: Path) -> None:
    """An answer that was paid for ahead may leave before its line is on the disk: nobody knows how many did."""
    path = tmp_path / "ledger"
    killed(path, "paid ahead")
    whole = path.read_bytes()
    for lost in (0, 1, 2):  # as if the power had failed: the last lines did not reach the disk
        path.write_bytes(b"".join(whole.splitlines(keepends=True)[: len(whole.splitlines()) - lost]))
        with opened(path, "bank-1", Fraction(2), ahead=2) as file:
            ledger = file.run("f", "r", ONE, 4)
            assert (file.totals.spent, file.totals.ahead, ledger.answers) == (Fraction(3, 4), 0, 3)
            ledger.charge("q9", THETA, Fraction(1, 4))
            with pytest.raises(BudgetRefused):
                ledger.charge("q4", THETA, Fraction(1, 4))
        for witness in tmp_path.glob("*.witness"):
            witness.unlink()
        for name in tmp_path.glob("*.kept"):
            shutil.copy(name, name.with_suffix(".witness"))


def test_after_an_orderly_end_what_was_paid_ahead_pays_for_the_next_answers(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with opened(path, "bank-1", Fraction(2), ahead=2) as file:
        ledger = file.run("f", "r", ONE, 4)
        ledger.charge("q0", THETA, Fraction(1, 4))
        ledger.record("q0", THETA)
        ledger.charge("q1", THETA, Fraction(1, 4))
        with pytest.raises(QueryRefused, match="never answered"):
            ledger.released("q1", THETA)
    totals = verify(path)
    assert (totals.spent, totals.ahead) == (Fraction(1, 2), Fraction(1, 4)), "records may have been read for q1"
    with opened(path, "bank-1", Fraction(2), ahead=2) as file:
        ledger = file.run("f", "r", ONE, 4)
        with pytest.raises(QueryRefused, match="never answered"):
            ledger.released("q1", THETA)
        for k in (2, 3):
            ledger.charge(f"q{k}", THETA, Fraction(1, 4))
            ledger.record(f"q{k}", THETA)
        with pytest.raises(BudgetRefused):
            ledger.charge("q4", THETA, Fraction(1, 4))
    assert (verify(path).spent, verify(path).ahead) == (1, 0)


def test_what_is_paid_ahead_is_not_there_for_another_run(tmp_path: Path) -> None:
    with opened(tmp_path / "ledger", "bank-1", Fraction(1), ahead=3) as file:
        first = file.run("f", "a", ONE, 4)
        second = file.run("f", "b", ONE, 4)
        first.charge("a0", THETA, Fraction(1, 4))
        first.record("a0", THETA)
        with pytest.raises(BudgetRefused, match="lifetime"):
            second.charge("b0", THETA, Fraction(1, 4))
        with pytest.raises(BudgetRefused, match=r"0\.0 is left"):
            file.run("f", "c", Fraction(1, 8), 4)
    with pytest.raises(BudgetRefused, match="are spent"):
        opened(tmp_path / "ledger", "bank-1", Fraction(1, 2))


def test_answers_that_are_private_together_need_no_paying_ahead(tmp_path: Path) -> None:
    with opened(tmp_path / "ledger", "bank-1", ONE, DELTA, ahead=2) as file:
        ledger = file.run("f", "r", ONE, 4, DELTA)
        for k in range(4):
            ledger.charge(f"q{k}", THETA, ONE, DELTA)
            ledger.record(f"q{k}", THETA)
        assert "ahead" not in kinds(tmp_path / "ledger")


def together(path: Path, answers: int = 2) -> None:
    """A run of (1, 1e-6) under a lifetime of (2, 1.5e-6)."""
    with opened(path, "bank-1", Fraction(2), DELTA * 3 / 2) as file:
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
    with opened(path, "bank-1", Fraction(2), DELTA * 3 / 2) as file:
        assert file.totals.lines == totals.lines, "what is unchanged is not said again"
        ledger = file.run("f" * 64, "run-1", ONE, 8, DELTA)
        assert (ledger.answers, ledger.spent, ledger.spent_delta) == (2, 1, DELTA)
        ledger.charge("q9", THETA, ONE, DELTA)
        assert file.totals.spent == 1


def test_the_lifetime_delta_is_for_all_runs(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    together(path)
    with opened(path, "bank-1", Fraction(2), DELTA * 3 / 2) as file:
        with pytest.raises(BudgetRefused, match=r"delta of 1e-06, and 5e-07 is left of the lifetime's 1\.5e-06"):
            file.run("f" * 64, "run-2", ONE, 8, DELTA)
        second, third = (file.run("f" * 64, f"run-{k}", Fraction(1, 2), 8, DELTA / 2) for k in (2, 3))
        second.charge("r0", THETA, Fraction(1, 2), DELTA / 2)
        with pytest.raises(BudgetRefused, match="lifetime budget"):
            third.charge("s0", THETA, Fraction(1, 2), DELTA / 2)
    with pytest.raises(BudgetRefused, match=r"lifetime delta of 1e-06 is less than the 1\.5e-06"):
        opened(path, "bank-1", Fraction(2), DELTA)
    with pytest.raises(BudgetRefused, match="below 1"):
        opened(path, "bank-1", Fraction(2), ONE)


def test_a_run_keeps_its_delta(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    together(path)
    with opened(path, "bank-1", Fraction(2), ONE / 2) as file:
        for delta in (Fraction(0), DELTA / 2, DELTA * 2):
            with pytest.raises(QueryRefused, match="another agreement"):
                file.run("f" * 64, "run-1", ONE, 8, delta)


def rewritten(path: Path, change: Callable[[list[dict[str, Any]]], object], whole: bool) -> None:
    """Lines changed by somebody with an editor; with `whole`, by somebody who makes the chain fit again as well."""
    lines = [json.loads(raw) for raw in path.read_bytes().splitlines()]
    change(lines)
    head, out = START, []
    for line in lines:
        stored = line.pop("hash")
        body = json.dumps(line, separators=(",", ":"))[:-1]
        head = hashlib.sha256(bytes.fromhex(head) + body.encode()).hexdigest()
        out.append(f'{body},"hash":"{head if whole else stored}"}}\n')
    path.write_text("".join(out))


def said(number: int, **values: object) -> Callable[[list[dict[str, Any]]], object]:
    """Line `number` with other values."""
    return lambda lines: lines[number - 1].update(values)


@pytest.mark.parametrize(
    "change",
    [
        said(2, delta=""),
        said(3, delta=""),
        said(3, delta="1/0"),
        said(3, delta="-1/2"),
        said(3, content="eight"),
        said(4, delta=""),
        said(6, epsilon="1/8"),
    ],
)
def test_delta_cannot_be_taken_out_of_the_lines(tmp_path: Path, change: Callable[..., object]) -> None:
    """Not even by whoever makes the chain whole again."""
    path = tmp_path / "ledger"
    together(path)
    kept = path.read_bytes()
    rewritten(path, change, whole=False)
    with pytest.raises(LedgerDamaged):
        verify(path)
    path.write_bytes(kept)
    rewritten(path, change, whole=True)
    with pytest.raises(LedgerDamaged, match=r"overspends|makes no sense|cannot be read"):
        verify(path)


@pytest.mark.parametrize(
    "change",
    [
        said(4, epsilon="1/800"),
        said(4, epsilon=""),
        said(4, epsilon="1/0"),
        said(4, epsilon="-1/8"),
        said(4, epsilon="nan"),
        said(4, epsilon=None),
        said(4, line=4.0),
        said(5, content="00"),
        said(6, time="yesterday"),
        said(6, line=90),
        said(6, more="text"),
        lambda lines: lines.pop(3),
        lambda lines: lines.pop(0),
        lambda lines: lines.insert(6, {**lines[3], "line": 7, "identity": "q9"}),
        lambda lines: lines.append({**lines[3], "line": 10}),
    ],
)
def test_a_line_that_was_touched_breaks_the_chain(tmp_path: Path, change: Callable[..., object]) -> None:
    path = tmp_path / "ledger"
    filled(path)
    rewritten(path, change, whole=False)
    with pytest.raises((LedgerDamaged, LedgerFailed)):
        verify(path)
    with pytest.raises((LedgerDamaged, LedgerFailed)):
        opened(path, "bank-1", Fraction(2))


def test_whoever_makes_the_chain_whole_again_is_found_out_by_the_witness(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    filled(path)
    rewritten(path, said(4, epsilon="1/800"), whole=True)
    assert verify(path).spent < Fraction(3, 8), "the file alone cannot tell"
    with pytest.raises(LedgerDamaged, match="went its own way"):
        opened(path, "bank-1", Fraction(2))
    with pytest.raises(LedgerDamaged, match="older copy, or another"):
        verify(path, witness=tmp_path)


def test_an_older_copy_is_noticed_by_the_owner_alone_and_by_whoever_kept_a_head(tmp_path: Path) -> None:
    path, old = tmp_path / "ledger", tmp_path / "old"
    filled(path, 2)
    shutil.copy(path, old)
    with opened(path, "bank-1", Fraction(2)) as file:
        ledger = file.run("f" * 64, "run-1", ONE, 8)
        before = ledger.head
        ledger.charge("new", THETA, Fraction(1, 8))
        seen = ledger.head
        assert file.holds(before)
        assert file.holds(seen)
    shutil.move(old, path)
    assert verify(path).lines == 7, "an older chain is whole: the file alone cannot tell"
    with pytest.raises(LedgerDamaged, match="older copy"):
        verify(path, seen)
    with pytest.raises(LedgerDamaged, match="has 7 lines, and these keys saw 8: it is an older copy"):
        opened(path, "bank-1", Fraction(2))
    adopt_again(path)
    with opened(path, "bank-1", Fraction(2)) as file:  # by somebody who takes the old copy's word for it
        assert not file.holds(seen), "what the learner remembers still tells"
        assert file.holds(before)


def adopt_again(path: Path) -> None:
    for witness in path.parent.glob("*.witness"):
        witness.unlink()
    adopt(path, "bank-1", verify(path).head, path.parent)


def test_a_file_replaced_under_a_running_owner_stops_it(tmp_path: Path) -> None:
    path, old = tmp_path / "ledger", tmp_path / "old"
    filled(path, 2)
    shutil.copy(path, old)
    with opened(path, "bank-1", Fraction(2)) as file:
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
    with opened(path, "bank-1", Fraction(2)) as file:
        ledger = file.run("f" * 64, "run-1", ONE, 8)
        with path.open("ab") as other:
            other.write(path.read_bytes().splitlines(keepends=True)[0])
        with pytest.raises(LedgerDamaged, match="another process"):
            ledger.charge("new", THETA, Fraction(1, 8))


@pytest.mark.parametrize("what", ["write", "flush"])
def test_a_disk_that_refuses_the_charge_stops_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with opened(tmp_path / "ledger", "bank-1", ONE) as file:
        ledger = file.run("f", "r", ONE, 8)
        with monkeypatch.context() as patched:
            patched.setattr(*((os, "write") if what == "write" else (chain, "flush")), full)
            with pytest.raises(LedgerFailed, match="No space"):
                ledger.charge("q", THETA, Fraction(1, 8))
        with pytest.raises(LedgerFailed):
            ledger.charge("after", THETA, Fraction(1, 8))
    with opened(tmp_path / "ledger", "bank-1", ONE) as file:
        assert file.totals.spent == (0 if what == "write" else Fraction(1, 8)), "counted where it may have been written"


@pytest.mark.parametrize("said", ["1e999999999", "9" * 4000 + "/1", "1/0", "0.5", "1/", "/2", "one"])
def test_a_budget_that_is_no_fraction_is_refused_at_once(tmp_path: Path, said: str) -> None:
    """A file from elsewhere is read by reports and pages too: 1e999999999 kept them at work for ever."""
    path = tmp_path / "ledger"
    filled(path)
    raw = path.read_bytes().replace(b'"epsilon":"1/8"', b'"epsilon":"' + said.encode() + b'"', 1)
    path.write_bytes(raw)
    with pytest.raises(LedgerDamaged, match="line 4 cannot be read"):
        verify(path)


def test_what_is_no_ledger_is_refused(tmp_path: Path) -> None:
    wrong = tmp_path / "notes.txt"
    wrong.write_text("not a database" * 100)
    with pytest.raises(LedgerDamaged, match="cannot be used as a ledger"):  # exit code 4: no service tries again
        opened(wrong, "bank-1", ONE)
    with pytest.raises(LedgerFailed, match="no such ledger"):
        verify(tmp_path / "missing")
    with pytest.raises(BudgetRefused, match="above 0"):
        opened(tmp_path / "ledger", "bank-1", Fraction(0))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 40), st.booleans()), max_size=30))
def test_no_order_of_charges_overspends(steps: list[tuple[int, int, bool]]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder, opened(f"{folder}/l", "bank-1", Fraction(3, 2)) as file:
        runs: dict[int, RunLedger] = {}
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
    with opened(path, "bank-1", Fraction(1), ahead=1) as file:
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
    with opened(tmp_path / "ledger", "bank-1", Fraction(1), Fraction(1, 10)) as file:
        file.run("f", "r", ONE, 3).open_for("f", Fraction(0))
        for other, delta in (("g", Fraction(0)), ("f", Fraction(1, 10))):
            with pytest.raises(BudgetRefused, match="another agreement"):
                file.run("f", "r", ONE, 3).open_for(other, delta)


@pytest.mark.parametrize("call", ["flush", "fchmod", "fstat"])
def test_a_disk_that_fails_while_a_ledger_is_opened_is_told_in_words(
    tmp_path: Path, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(tmp_path / "ledger", "bank", Fraction(1)).close()

    def fails(*_: Any) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(chain if call == "flush" else os, call, fails)
        with pytest.raises(LedgerFailed, match="Input/output error"):
            opened(tmp_path / "ledger", "bank", Fraction(1))
    opened(tmp_path / "ledger", "bank", Fraction(1)).close()  # and nobody holds its lock


def test_what_was_paid_ahead_is_not_given_twice_where_a_disk_fails_once_after_the_power_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by tests/long: the file was closed in good order, as it seemed, before what was lost had been written down."""
    path, each = tmp_path / "ledger", Fraction(1, 8)
    file = opened(path, "bank", Fraction(1), ahead=4)
    ledger = file.run("f", "run", Fraction(1), 8)
    for k in range(4):  # the first pays for four more, and three of those leave, which is not flushed
        ledger.charge(f"q{k}", np.zeros(3), each)
        ledger.record(f"q{k}", np.zeros(3))
        flushed = path.stat().st_size if k == 0 else flushed
    os.close(file._descriptor)  # killed,
    os.close(file._witness._descriptor)
    os.truncate(path, flushed)  # and the power fails

    from copriv.privacy.ledger.witness import Witness

    write, failed = Witness._write, list[int]()

    def fails_once(self: Witness, seen: Any) -> None:
        if not failed:
            failed.append(1)
            raise OSError(28, "No space left on device")
        write(self, seen)

    monkeypatch.setattr(Witness, "_write", fails_once)
    with pytest.raises(LedgerFailed, match="No space left"):
        opened(path, "bank", Fraction(1), ahead=4)
    with opened(path, "bank", Fraction(1), ahead=4) as file:
        ledger = file.run("f", "run", Fraction(1), 8)
        assert ledger.spent == 5 * each, "the fifth counts too: nobody knows that it did not leave"
        for k in range(4, 7):
            ledger.charge(f"q{k}", np.zeros(3), each)
            ledger.record(f"q{k}", np.zeros(3))
        with pytest.raises(BudgetRefused):
            ledger.charge("q7", np.zeros(3), each)
