"""A run of two phases over a network: a pilot, what is chosen by its answers, and the run after it, each on its own budget."""

import asyncio
import re
import sqlite3
import time
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from copriv.cli import run as copriv
from copriv.errors import BudgetRefused, CoprivError
from copriv.network.agent import _LONGEST_REASON
from copriv.network.run import Run
from copriv.network.run_state import Conductor, Decision
from copriv.network.store import RunStore, StoreFailed
from copriv.network.turns import Conduct
from copriv.network.verify import verify_run
from copriv.owner import Owner
from copriv.privacy.ledger import PhaseBudget
from copriv.privacy.ledger.read import read_lines, verify
from ledger_files import opened
from network_parties import NAMES, Consortium, finished
from phased_parties import CHOSEN, QUICK, conducted, goes_on, keep, piloted

pytest.importorskip("dp_accounting")


@pytest.mark.parametrize("kind", ["memory", "grpc"])
def test_both_phases_are_answered_from_one_ledger_and_the_chain_is_one(tmp_path: Path, kind: str) -> None:
    agreed = piloted()
    conductor = conducted(tmp_path, agreed, goes_on(), kind)
    assert finished(conductor), conductor.outcome
    assert (conductor.run.phase, conductor.agreement) == (2, agreed.chosen_run(CHOSEN))
    for name in NAMES:
        ledger = tmp_path / f"{name}.ledger"
        assert verify(ledger).spent == 1
        said = [
            (line.identity, line.epsilon, line.content.split()[0])
            for line in read_lines(ledger)
            if line.kind == "phase"
        ]
        assert said == [("1", Fraction(1, 4), "1"), ("2", Fraction(3, 4), "3")]
    if kind == "grpc":
        verdict = verify_run(tmp_path / "run.db", agreed)
        assert verdict.ok, verdict.problems
        assert verdict.answers == dict.fromkeys(NAMES, 4)
        assert verdict.missing == {}
        np.testing.assert_array_equal(verdict.model, conductor.model)
    record = conductor.run.record()
    assert [(o["answers"], o["most_answers"], o["spent"]) for o in record["owners"]] == [(4, 4, 1.0)] * 3
    assert [(one["mechanism"], one["epsilon"]["bank-1"]) for one in record["phases"]] == [
        ("pilot", 0.25),
        ("laplace", 0.75),
    ]


def test_the_rest_of_the_budget_is_kept_where_the_pilot_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conductor = conducted(tmp_path, piloted(), keep, "grpc")
    assert finished(conductor)
    assert conductor.outcome.reason == "joining pays for nobody"
    assert {verify(tmp_path / f"{name}.ledger").spent for name in NAMES} == {Fraction(1, 4)}
    verdict = verify_run(tmp_path / "run.db")
    assert verdict.ok, verdict.problems
    assert (verdict.run_state.kept, verdict.not_closed) == ("joining pays for nobody", ())
    assert copriv(["verify", str(tmp_path / "run.db")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "is on the learner's word; --public TABLE computes both again" in said
    assert "it follows from them" not in said


def test_a_pure_pilot_and_then_delta(tmp_path: Path) -> None:
    δ = 1e-6
    conductor = conducted(tmp_path, piloted("gaussian", delta=δ), goes_on())
    assert finished(conductor), conductor.outcome
    for name in NAMES:
        costs = [(one.epsilon, one.delta) for one in read_lines(tmp_path / f"{name}.ledger") if one.kind == "charge"]
        assert costs == [(Fraction(1, 4), 0), (Fraction(3, 4), Fraction(δ)), (0, 0), (0, 0)]


def dies_at(patch: pytest.MonkeyPatch, kind: str, number: int) -> None:
    """Let the learner die as this line of a kind is to be written; what was not flushed before it is lost."""
    event, seen = RunStore.event, [0]

    def dying(store: RunStore, named: str, *numbers: Any, **said: Any) -> None:
        if named == kind:
            seen[0] += 1
            if seen[0] == number:
                raise store._failed(sqlite3.OperationalError("killed"))  # after which nothing more is written
        event(store, named, *numbers, **said)

    patch.setattr(RunStore, "event", dying)


@pytest.mark.parametrize(
    ("kind", "number"),
    [("query", 2), ("answer", 3), ("finished", 1), ("begun", 2), ("query", 5), ("answer", 7), ("finished", 2)],
)
def test_a_learner_that_is_killed_in_either_phase_or_between_goes_on_and_nothing_is_spent_twice(
    tmp_path: Path, kind: str, number: int
) -> None:
    consortium = Consortium(tmp_path, piloted())
    decided: list[int] = []

    def decide(run: Run) -> Decision:
        decided.append(1)
        return goes_on()(run)

    async def twice() -> Conductor:
        owners = [asyncio.ensure_future(consortium.own(i)) for i in range(3)]
        with pytest.MonkeyPatch.context() as patch:
            dies_at(patch, kind, number)
            first = asyncio.ensure_future(consortium.learn(QUICK, decide=decide))
            with pytest.raises(StoreFailed, match="killed"):
                await first
        conductor = await consortium.learn(QUICK, resume=True, decide=decide)
        await asyncio.wait(owners, timeout=5)
        return conductor

    conductor = asyncio.run(asyncio.wait_for(twice(), 60))
    assert finished(conductor), conductor.outcome
    assert conductor.run.phase == 2
    for name in NAMES:
        totals = verify(tmp_path / f"{name}.ledger")
        assert (totals.spent, [run.charged for run in totals.runs.values()]) == (1, [4])
    assert 1 <= len(decided) <= 2


def charges(ledger: Path) -> int:
    with suppress(CoprivError, FileNotFoundError):
        return sum(line.kind == "charge" for line in read_lines(ledger))
    return 0


@pytest.mark.parametrize("after", [0, 1, 2], ids=["in the pilot", "between", "in the run"])
def test_an_owner_that_is_killed_comes_back_and_spends_nothing_twice(tmp_path: Path, after: int) -> None:
    consortium, waits = Consortium(tmp_path, piloted()), asyncio.Event()

    async def whole() -> Conductor:
        others = [asyncio.ensure_future(consortium.own(i)) for i in (1, 2)]
        mine = asyncio.ensure_future(consortium.own(0))
        loop = asyncio.get_running_loop()

        def decide(run: Run) -> Decision:
            if after == 1:
                loop.call_soon_threadsafe(waits.set)
                time.sleep(0.3)
            return goes_on()(run)

        learning = asyncio.ensure_future(consortium.learn(Conduct(deadline=2.0, patience=20.0), decide=decide))
        while after != 1 and charges(tmp_path / "bank-1.ledger") < after + 1:
            await asyncio.sleep(0)
        if after == 1:
            await waits.wait()
        mine.cancel()
        await asyncio.gather(mine, return_exceptions=True)
        again = asyncio.ensure_future(consortium.own(0))
        conductor = await learning
        await asyncio.wait([*others, again], timeout=5)
        return conductor

    conductor = asyncio.run(asyncio.wait_for(whole(), 60))
    assert finished(conductor), conductor.outcome
    assert {verify(tmp_path / f"{name}.ledger").spent for name in NAMES} == {1}


def test_an_owner_that_lost_its_answer_of_the_pilot_ends_the_run_with_what_to_do(tmp_path: Path) -> None:
    """It dies between the charge and the answer: nothing more is charged, and the rest of the budget is there to be used."""
    consortium, private = Consortium(tmp_path, piloted()), Owner._private

    def dying(owner: Owner, θ: Any) -> Any:
        if owner.name == NAMES[0]:
            raise asyncio.CancelledError
        return private(owner, θ)

    async def whole() -> Conductor:
        others = [asyncio.ensure_future(consortium.own(i)) for i in (1, 2)]
        learning = asyncio.ensure_future(consortium.learn(QUICK, decide=goes_on()))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Owner, "_private", dying)
            await asyncio.gather(consortium.own(0), return_exceptions=True)
        again = asyncio.ensure_future(consortium.own(0))
        conductor = await learning
        await asyncio.wait([*others, again], timeout=5)
        for task in (*others, again):
            task.cancel()
        return conductor

    conductor = asyncio.run(asyncio.wait_for(whole(), 60))
    assert conductor.outcome is not None
    assert (conductor.outcome.status, conductor.run.phase) == ("stopped", 1)
    assert "bank-1 lost its one answer of the pilot" in conductor.outcome.reason
    assert (
        "Sign a new agreement for what every owner has left of its epsilon (at most 0.75 of 1), "
        in conductor.outcome.reason
    )
    assert (
        "lifetime_epsilon of each policy must allow what is spent and what that may spend" in conductor.outcome.reason
    )
    assert {verify(tmp_path / f"{name}.ledger").spent for name in NAMES} == {Fraction(1, 4)}
    anew = piloted().replace(agreement={"name": "again", "pilot": 0.5}, owner={"epsilon": 0.75})
    with opened(tmp_path / "bank-1.ledger", NAMES[0], Fraction(1)) as file:  # is left for it
        with pytest.raises(BudgetRefused, match=r"cannot go on, sign a new agreement .* lifetime_epsilon") as refused:
            file.run(piloted().fingerprint, "0" * 32, Fraction(1), 4)  # the same agreement once more, in another run
        assert len(str(refused.value)) < _LONGEST_REASON  # of which no more is shown
        assert "an epsilon of at most 0.75;" in str(refused.value)
        file.run(anew.fingerprint, "again", Fraction(3, 4), sum(phase.answers for phase in anew.phases_in_numbers()))


def test_a_pilot_without_an_owner_that_is_barred_ends_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium, answered = Consortium(tmp_path, piloted()), Conductor.answered

    def fails(self: Conductor, answer: Any, now: float) -> bool:
        if answer.owner == NAMES[0]:
            raise RuntimeError("whatever it sent")
        return answered(self, answer, now)

    monkeypatch.setattr(Conductor, "answered", fails)

    async def whole() -> Conductor:
        owners = [asyncio.ensure_future(consortium.own(i)) for i in range(3)]
        conductor = await consortium.learn(QUICK, decide=goes_on())
        for task in owners:
            task.cancel()
        return conductor

    conductor = asyncio.run(asyncio.wait_for(whole(), 60))
    assert conductor.outcome is not None
    assert (conductor.outcome.status, conductor.run.phase) == ("stopped", 1)
    assert "bank-1 cannot take part in this run again, and resuming does not change that" in conductor.outcome.reason
    assert "what every owner has left of its epsilon (at most 0.75 of 1), " in conductor.outcome.reason


def test_what_is_said_to_be_left_after_a_lost_pilot_can_be_signed(tmp_path: Path) -> None:
    """Of 1 and a pilot of 0.1, 0.9 as a float is more than is left, and was refused although "0.900 is left"."""
    agreed, spent = piloted(share=0.1), Fraction(0.1)
    assert Fraction(0.9) > 1 - spent
    with opened(tmp_path / "bank-1.ledger", NAMES[0], Fraction(1)) as file:
        lost = file.run(agreed.fingerprint, "lost", Fraction(1), 4)
        first = PhaseBudget(1, spent, 1, Fraction(0), agreed.phases[0].fingerprint)
        lost.charge("a" * 64, np.zeros(3), spent, phase=first)
        with pytest.raises(BudgetRefused, match=r"it may spend 0\.9, and 0\.8999999999999999 is left") as refused:
            file.run("b" * 64, "again", Fraction(0.9), 4)
        (left,) = re.findall(r"an epsilon of at most ([\d.]+);", str(refused.value))
        assert float(left) == agreed.phases[-1].owner[0].epsilon  # which the learner says of the lost pilot
        file.run("b" * 64, "again", Fraction(float(left)), 4)
