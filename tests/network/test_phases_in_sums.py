"""A pilot and the run after it, of both of which the learner sees sums alone."""

import asyncio
import shutil
import sqlite3
import time
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from copriv.agreement import Agreement
from copriv.display.ledger import phases_spent
from copriv.losses import Squared
from copriv.mechanisms.pilot import PilotNumbers
from copriv.network.agent import OwnerAgent
from copriv.network.messages import Hello, PhaseTerms, phase_content
from copriv.network.run import Run
from copriv.network.run_state import Conductor, Decision
from copriv.network.store import RunStore, StoreFailed
from copriv.network.turns import Conduct
from copriv.network.verify import verify_run
from copriv.privacy.ledger.read import read_lines, verify
from copriv.privacy.release_time import ReleaseTime
from copriv.privacy.shared_noise import SharedNoise
from copriv.report import RunFile, document
from ledger_files import opened
from memory_network import MemoryNetwork
from network.test_phases import charges, dies_at
from network.test_sum_runs import NAMES, RECORDS, UNITS, Held, agreed_by, held, noise
from network_parties import Consortium, finished, welcome
from phased_parties import CHOSEN, KNOWN, goes_on, piloted

__all__ = ["held", "noise"]
PATIENT = Conduct(deadline=5.0, patience=30.0)


def in_sums(held: Held, attempts: int = 1, **terms: Any) -> Agreement:
    """A quarter of ε for a pilot, and the rest for S2 in two rounds; each may be tried again so many times."""
    opened = piloted().to_dict()["agreement"]
    both = {key: opened[key] for key in ("pilot", "pilot_terms", "ranges", "step")}
    agreed = agreed_by(held, attempts=attempts, answers=2 + attempts, **both, **terms)
    return agreed.replace(model={"gradient_bound": "auto"}, data={"feature_bound": 1.0})


def together(folder: Path, agreed: Agreement, held: Held, kind: str = "memory") -> Consortium:
    consortium = Consortium(folder, agreed, kind, held)
    own = consortium.own
    consortium.own = lambda i, **given: own(i, records=RECORDS[NAMES[i]], **given)  # type: ignore[method-assign]
    return consortium


@pytest.mark.parametrize("kind", ["memory", "grpc"])
def test_the_learner_decides_by_the_sum_of_the_pilots_answers_and_sees_no_other(
    tmp_path: Path, held: Held, noise: list[list[int]], kind: str
) -> None:
    agreed, seen = in_sums(held), list[Any]()

    def decide(run: Run) -> Decision:
        seen.append(run.only_answers)
        return goes_on()(run)

    conductor = asyncio.run(together(tmp_path, agreed, held, kind).run(PATIENT, decide=decide))
    assert finished(conductor), conductor.outcome
    assert (conductor.run.phase, conductor.agreement) == (2, agreed.chosen_run(CHOSEN))
    first = agreed.phases[0]
    shared, numbers, total = (
        first.mechanism.in_sum(first, range(4), 3),
        PilotNumbers.agreed(first, 3),
        sum(UNITS.values()),
    )
    assert isinstance(shared, SharedNoise)
    cell = 2.0**shared.exponent * numbers.unit
    exact = sum(UNITS[name] / total * numbers.of(Squared(), RECORDS[name], np.array([0.2, 0.1, 0.0])) for name in NAMES)
    drawn = np.sum([each[: len(cell)] for each in noise[:4]], axis=0).astype(np.float64)
    assert seen[0].shape == (1, len(cell))
    np.testing.assert_allclose(seen[0][0], exact + drawn * cell, atol=float(4 * cell.max()))
    verdict = verify_run(tmp_path / "run.db", agreed, held["learner"].authority)
    assert verdict.ok, verdict.problems
    np.testing.assert_array_equal(verdict.run_state.phases[0].only_answers, seen[0])
    for name in NAMES:
        paid = [line.epsilon for line in read_lines(tmp_path / f"{name}.ledger") if line.kind == "charge"]
        assert paid == [Fraction(1, 8), Fraction(1, 4), Fraction(1, 4)]  # half of a quarter, and thirds of the rest
    store = RunStore.resume(tmp_path / "run.db", agreed)
    words = [line.numbers for line in store.events("answer")]
    store.close()
    assert len(words) == 12
    assert min(np.abs(one).max() for one in words) > 2**28, "each answer is under its masks"


@pytest.mark.parametrize(
    ("kind", "number"), [("query", 2), ("answer", 3), ("finished", 1), ("begun", 2), ("answer", 6)]
)
def test_a_learner_that_is_killed_goes_on_and_nothing_is_spent_beyond_the_attempts(
    tmp_path: Path, held: Held, kind: str, number: int
) -> None:
    agreed = in_sums(held)
    consortium = together(tmp_path, agreed, held)

    async def twice() -> Conductor:
        owners = [asyncio.ensure_future(consortium.own(i)) for i in range(4)]
        with pytest.MonkeyPatch.context() as patch:
            dies_at(patch, kind, number)
            with pytest.raises(StoreFailed, match="killed"):
                await asyncio.ensure_future(consortium.learn(PATIENT, decide=goes_on()))
        conductor = await consortium.learn(PATIENT, resume=True, decide=goes_on())
        await asyncio.wait(owners, timeout=5)
        return conductor

    conductor = asyncio.run(asyncio.wait_for(twice(), 60))
    assert finished(conductor), conductor.outcome
    assert conductor.run.phase == 2
    assert verify_run(tmp_path / "run.db", agreed, held["learner"].authority).ok
    for name in NAMES:
        assert verify(tmp_path / f"{name}.ledger").spent <= 1


@pytest.mark.parametrize("after", [1, 2], ids=["in the pilot", "in the run"])
def test_an_owner_may_be_missing_from_either_sum(tmp_path: Path, held: Held, after: int) -> None:
    agreed = in_sums(held, attempts=2, dropouts=1)
    consortium = together(tmp_path, agreed, held)

    async def whole() -> Conductor:
        owners = [asyncio.ensure_future(consortium.own(i)) for i in range(4)]
        learning = asyncio.ensure_future(consortium.learn(Conduct(deadline=0.5, patience=30.0), decide=goes_on()))
        while charges(tmp_path / "bank-1.ledger") < after:
            await asyncio.sleep(0)
        owners[0].cancel()
        conductor = await learning
        await asyncio.wait(owners[1:], timeout=5)
        await asyncio.gather(owners[0], return_exceptions=True)
        return conductor

    conductor = asyncio.run(asyncio.wait_for(whole(), 60))
    assert finished(conductor), conductor.outcome
    assert conductor.run.phase == 2
    verdict = verify_run(tmp_path / "run.db", agreed, held["learner"].authority)
    assert (verdict.problems, verdict.not_closed) == ((), ("bank-1",))


@pytest.mark.parametrize("kind", ["memory", "grpc"])
def test_an_owner_that_missed_the_pilot_answers_in_the_run(
    tmp_path: Path, held: Held, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """So that another may be missing from the run's sums; the pilot has nothing of it, and never will."""
    agreed = in_sums(held, attempts=2, dropouts=1)
    consortium, event, seen = together(tmp_path, agreed, held, kind), RunStore.event, list[str]()

    def noted(store: RunStore, named: str, *numbers: Any, **said: Any) -> None:
        event(store, named, *numbers, **said)
        seen.append(named)

    async def until(named: str, times: int) -> None:
        while seen.count(named) < times:
            await asyncio.sleep(0.001)

    def decide(run: Run) -> Decision:
        while not run.parties["bank-1"].there:
            time.sleep(0.01)
        return goes_on()(run)

    async def whole() -> Conductor:
        owners = [asyncio.ensure_future(consortium.own(i)) for i in range(4)]
        learning = asyncio.ensure_future(consortium.learn(Conduct(deadline=0.5, patience=15.0), decide=decide))
        await until("asked", 1)
        owners[0].cancel()
        await until("stepped", 1)
        owners.append(asyncio.ensure_future(consortium.own(0)))
        await until("stepped", 2)
        owners[1].cancel()
        conductor = await learning
        await asyncio.wait([*owners[2:]], timeout=5)
        for owner in owners:
            owner.cancel()
        await asyncio.gather(*owners, return_exceptions=True)
        return conductor

    monkeypatch.setattr(RunStore, "event", noted)
    conductor = asyncio.run(asyncio.wait_for(whole(), 60))
    assert finished(conductor), conductor.outcome
    assert conductor.run.phases[0].moved_by == NAMES[1:]
    verdict = verify_run(tmp_path / "run.db", agreed, held["learner"].authority)
    assert (verdict.problems, verdict.not_closed, verdict.missing.get("bank-1")) == ((), ("bank-2",), None)
    ((run, totals),) = verify(tmp_path / "bank-1.ledger").runs.items()
    assert [phase.number for phase, _ in totals.phases] == [2]
    assert totals.spent == totals.charged * Fraction(3, 4) / agreed.phases[1].answers
    assert "the 0.25 of the phase that has not begun is not spent" in phases_spent(run, totals)
    made = document(tmp_path / "bank-1.ledger", [RunFile.at(tmp_path / "run.db")], [agreed])
    assert made["problems"] == []


def test_the_rest_is_kept_where_the_sum_says_so(tmp_path: Path, held: Held) -> None:
    def keep(run: Run) -> Decision:
        return Decision(None, "joining pays for nobody", KNOWN)

    agreed = in_sums(held)
    conductor = asyncio.run(together(tmp_path, agreed, held).run(PATIENT, decide=keep))
    assert finished(conductor)
    assert {verify(tmp_path / f"{name}.ledger").spent for name in NAMES} == {Fraction(1, 8)}
    assert verify_run(tmp_path / "run.db", agreed, held["learner"].authority).ok


def test_terms_that_are_said_again_do_not_make_an_owner_forget_what_it_signed(tmp_path: Path, held: Held) -> None:
    """Whoever could have it begin anew within an attempt could have two sets of keys signed in one."""
    agreed, name, learner = in_sums(held), NAMES[0], held["learner"]
    with opened(tmp_path / "ledger", name, Fraction(1)) as ledgers:
        agent = OwnerAgent(
            agreed, name, RECORDS[name], Squared(), ledgers, MemoryNetwork().dialer(name), keys=held[name],
            times=ReleaseTime(1e-3),
        )  # fmt: skip
        hello = Hello(name, agreed.fingerprint, "", 3, "nonce", held[name].certificate.decode())
        greeting, parts = welcome(learner, hello), list[Any]()
        agent._ledger_of(greeting.run)
        for phase, chosen in ((1, {}), (1, {}), (2, CHOSEN), (2, CHOSEN), (1, {})):
            terms = agreed.phases[0] if phase == 1 else agreed.chosen_run(chosen)
            signature = learner.sign(phase_content(greeting.run, agreed.fingerprint, phase, terms.fingerprint))
            agent._begin(PhaseTerms.of(phase, chosen, signature), greeting)
            parts.append(agent._sums)
    assert parts[0] is parts[1]
    assert parts[2] is parts[3]
    assert parts[0] is not parts[2]
    assert parts[4] is parts[0], "nor does the next phase, and this one again"


def test_a_sum_of_the_pilot_that_the_file_does_not_have_is_missing(tmp_path: Path, held: Held) -> None:
    """A learner sees the pilot's sum, asks for another one in a copy of its file, and goes on with the first file."""
    agreed = in_sums(held, dropouts=1)
    consortium, event = together(tmp_path, agreed, held), RunStore.event

    def copied(here: str, there: str) -> None:
        with closing(sqlite3.connect(tmp_path / here)) as one, closing(sqlite3.connect(tmp_path / there)) as two:
            one.backup(two)

    async def until_a_sum(resume: bool) -> None:
        def stops(store: RunStore, named: str, *numbers: Any, **said: Any) -> None:
            if named == "answer" and not (tmp_path / "fork.db").exists():
                store.commit()
                copied("run.db", "fork.db")
            event(store, named, *numbers, **said)
            if named == "stepped":
                store.commit()
                raise store._failed(sqlite3.OperationalError("killed"))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RunStore, "event", stops)
            with pytest.raises(StoreFailed, match="killed"):
                await consortium.learn(PATIENT, resume=resume, decide=goes_on())

    async def whole() -> Conductor:
        owners = [asyncio.ensure_future(consortium.own(i)) for i in range(4)]
        await until_a_sum(False)
        copied("run.db", "first.db")
        shutil.copy(tmp_path / "fork.db", tmp_path / "run.db")
        await until_a_sum(True)
        shutil.copy(tmp_path / "first.db", tmp_path / "run.db")
        conductor = await consortium.learn(PATIENT, resume=True, decide=goes_on())
        await asyncio.wait(owners, timeout=5)
        return conductor

    conductor = asyncio.run(asyncio.wait_for(whole(), 60))
    assert finished(conductor), conductor.outcome
    assert conductor.run.phase == 2
    verdict = verify_run(tmp_path / "run.db", agreed, held["learner"].authority)
    assert sum(verdict.missing.values()) >= 3, "each owner whose answer is in the second sum counts it"
    spent = {one["name"]: one["spent"] for one in conductor.run.record()["owners"]}
    for name in verdict.missing:
        assert spent[name] == float(verify(tmp_path / f"{name}.ledger").spent)
