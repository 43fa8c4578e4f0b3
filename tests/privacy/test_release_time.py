"""All that a learner sees of an answer, and how it comes: value, refusal, loss, time and head, for neighbours."""

import time
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from copriv import owner as owner_module
from copriv.agreement import Agreement, data_terms
from copriv.data import stream
from copriv.data.stream import table_chunks
from copriv.errors import BudgetRefused
from copriv.losses import Hinge, Huber, Logistic, Squared
from copriv.mechanisms import objective_solver
from copriv.mechanisms.objective_noise import ObjectiveAnswer, Perturbation
from copriv.mechanisms.objective_solver import Prepared, surface_of
from copriv.model.records import BLOCK, Records
from copriv.network.setup import streamed_records
from copriv.owner import Owner
from copriv.privacy import release_time
from copriv.privacy.laplace import LaplaceAnswer
from copriv.privacy.ledger import MemoryLedger
from copriv.privacy.ledger import lines as ledger_lines
from copriv.privacy.release_time import (
    SAFETY,
    SHORTEST,
    STEP,
    ManyPasses,
    ReleaseTime,
    coarse_slot,
    measured_seconds,
    rounded_slot,
)
from copriv.protocol import Query
from ledger_files import opened

N, P = 1000, 3


def agreed(mechanism: str, epsilon: float = 3.0) -> Agreement:
    return Agreement.of(
        {
            "agreement": {"rule": "A2", "horizon": 1, "answers": 1, "step": 1.0, "mechanism": mechanism},
            "model": {"loss": "squared", "gradient_bound": 1.0, "theta_max": 1e6},
            "data": {"feature_bound": 1.0, "components": 0},
            "owner": [{"name": "bank", "records": N, "epsilon": epsilon}],
        }
    )


def neighbour(x: float, y: float) -> Records:
    """A thousand records of zeros, but for the first."""
    features, target = np.zeros((N, P)), np.zeros(N)
    features[0, 0], target[0] = x, y
    return Records.of(features, target)


class Virtual:
    """A clock on which nothing takes time but passes over the records, a second each."""

    def __init__(self) -> None:
        self.now = 0.0

    def read(self) -> float:
        self.now += 1e-6  # a process that waits awake looks at it often
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def passes_take_time(patch: pytest.MonkeyPatch, clock: Virtual) -> None:
    gradient = Prepared.gradient

    def slow(self: Prepared, *arguments: Any) -> Any:
        clock.now += 1.0
        return gradient(self, *arguments)

    patch.setattr(Prepared, "gradient", slow)


NEIGHBOURS = [(0.0, 0.0), (1.0, 0.0), (1.0, 0.6), (1.0, 5.0)]


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_the_solver_takes_longer_on_some_neighbours_and_nobody_sees_it(
    monkeypatch: pytest.MonkeyPatch, epsilon: float
) -> None:
    """The finding: 2 passes on D, 3 or 65 on D′. What leaves takes one slot, and a slot is enough for any records."""
    terms, clock = agreed("objective", epsilon), Virtual()
    passes_take_time(monkeypatch, clock)
    owner = Owner(terms, "bank", neighbour(0.0, 0.0), Squared())
    assert isinstance(owner._phase.private, ObjectiveAnswer)
    slot = float(owner._phase.private.most_passes)
    seen: dict[bool, dict[tuple[float, float], set[int]]] = {False: {}, True: {}}
    for fixed in seen:
        for x, y in NEIGHBOURS:
            found = set()
            for k in range(10):
                times = ReleaseTime(slot, clock.read, clock.sleep) if fixed else None
                owner = Owner(terms, "bank", neighbour(x, y), Squared(), times=times)
                begun = clock.now
                answer = owner.answer(Query(f"{k}", terms.fingerprint, "bank", np.zeros(P)))
                assert answer.gradient.shape == (P,)
                found.add(round(clock.now - begun))
            seen[fixed][x, y] = found
    assert seen[False][NEIGHBOURS[0]] != seen[False][NEIGHBOURS[2]], "without it the time tells them apart"
    assert set.union(*seen[True].values()) == {round(slot)}


@pytest.mark.parametrize("loss", [Squared(), Huber(0.3), Logistic(), Hinge()], ids=lambda loss: loss.name)
def test_the_sure_way_arrives_in_no_more_passes_than_its_bound(monkeypatch: pytest.MonkeyPatch, loss: Any) -> None:
    """Whatever the records: so a solver that gives up is not seen, and a slot of so many passes hides how many it took."""
    rng = np.random.default_rng(7)
    for _ in range(12):
        p, n, B = int(rng.integers(1, 5)), int(rng.integers(1, 400)), float(10 ** rng.uniform(-1, 1))
        a = rng.normal(size=(p, p))
        metric = None if rng.random() < 0.5 else a @ a.T + 0.05 * np.eye(p)
        tilted = Perturbation(
            surface_of(loss, 0.3), float(10 ** rng.uniform(-1, 1)), 1, B, False, rng.normal(size=p),
            float(rng.choice([0.0, 0.1])), metric,
        )  # fmt: skip
        ε = float(10 ** rng.uniform(-1, 1))
        x = rng.normal(size=(n, p)) * 10 ** rng.uniform(-2, 1)
        y = rng.choice([-1.0, 1.0], n) if loss.name in ("logistic", "hinge") else rng.normal(size=n) * 5
        rows = tilted.tied(n, ε).prepared(Records.of(x, y))
        b = rng.laplace(size=p) * tilted.noise_scale(n, ε)
        passes = [0]
        gradient = Prepared.gradient

        def counted(self: Prepared, *given: Any, of: Any = gradient, passes: list[int] = passes) -> Any:
            passes[0] += 1
            return of(self, *given)

        with monkeypatch.context() as patch:
            patch.setattr(Prepared, "gradient", counted)
            quick = rows.minimum(b)
            assert passes[0] <= objective_solver.FEW
            patch.setattr(objective_solver, "FEW", 0)  # Newton's steps give up at once
            passes[0] = 0
            sure = rows.minimum(b)
        assert passes[0] <= tilted.most_passes(n, ε, float(np.linalg.norm(b)))
        goal = 0.5 * tilted.residual
        assert np.linalg.norm(rows.gradient(sure, b)) <= goal
        assert np.linalg.norm(sure - quick) <= 2 * goal / tilted.strength(n, ε)


def test_an_answer_that_fails_takes_its_slot_too() -> None:
    clock = Virtual()
    times = ReleaseTime(1.0, clock.read, clock.sleep)

    def failing() -> None:
        with times.held():
            clock.now += 0.3
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert clock.now == pytest.approx(1.0, abs=1e-4)
    with times.held():
        clock.now += 2.3
    assert (clock.now, times.late) == (pytest.approx(4.0, abs=1e-3), 1)


def test_slots_are_at_most_a_tenth_longer_than_they_need_to_be() -> None:
    for seconds in np.geomspace(1e-3, 1e3, 500):
        slot = rounded_slot(float(seconds))
        assert 1.0 - 1e-9 <= slot / (SAFETY * seconds) <= STEP
        assert slot == pytest.approx(SHORTEST * STEP ** round(np.log(slot / SHORTEST) / np.log(STEP)), rel=1e-9)
        assert slot <= 2.0 * seconds, "the goal: at most twice the work"
    assert rounded_slot(1e-6) == SHORTEST


@pytest.mark.parametrize(("seconds", "slot"), [(1e-5, 1e-3), (8e-4, 2e-3), (1.4e-3, 5e-3), (4e-3, 1e-2), (0.4, 1.0)])
def test_slots_from_private_rows_are_coarse(seconds: float, slot: float) -> None:
    assert coarse_slot(seconds) == pytest.approx(slot)


@pytest.mark.parametrize("mechanism", ["laplace", "statistics", "objective"])
def test_the_slot_is_made_from_public_things(mechanism: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock on which work takes as long as its records are large, owners of other records have the same slot."""
    terms, clock = agreed(mechanism), Virtual()
    monkeypatch.setattr(release_time, "time", SimpleNamespace(perf_counter=lambda: clock.now))

    def as_large(records: Records) -> float:
        return 1e-3 * (1.0 + float(np.abs(records.features).sum() + np.abs(records.target).sum()))

    def answer(self: Any, loss: Any, records: Records, theta: Any) -> Any:
        clock.now += as_large(records)

    slots, own = [], []
    for x, y in NEIGHBOURS:
        owner = Owner(terms, "bank", neighbour(x, y), Squared())
        private = owner._phase.private
        monkeypatch.setattr(type(private), "answer", answer)
        if isinstance(private, ManyPasses):
            monkeypatch.setattr(type(private), "seconds", lambda self, records: as_large(records))
        slots.append(owner.release_time().slot)
        own.append(as_large(neighbour(x, y)))
    assert len(set(slots)) == 1
    assert len(set(own)) == len(own), "measured on the owner's records, slots could differ"
    assert slots[0] > 1e-3, "made-up rows were measured"


def slot_of_file(monkeypatch: pytest.MonkeyPatch, path: Path, seconds_a_byte: float) -> float:
    """The slot of an owner that reads this file for each answer, on a clock on which only its bytes take time."""
    clock, own = Virtual(), table_chunks

    def chunks(file: Path, schema: Any, rows: int = BLOCK) -> Any:
        def read() -> Any:
            clock.now += (seconds_a_byte if Path(file) == path else 1e-6) * Path(file).stat().st_size
            return own(file, schema, rows)()

        return read

    with monkeypatch.context() as patch:
        patch.setattr(release_time, "time", SimpleNamespace(perf_counter=lambda: clock.now))
        patch.setattr(owner_module, "time", SimpleNamespace(perf_counter=lambda: clock.now))
        patch.setattr(stream, "table_chunks", chunks)
        patch.setattr(data_terms, "table_chunks", chunks)
        records, _ = streamed_records(of_file(), "bank", str(path), "", None)
        return Owner(of_file(), "bank", records, Squared()).release_time().slot


def of_file() -> Agreement:
    """As `agreed`, of a file with a feature x and the target y."""
    return agreed("laplace").replace(data={"features": ["x"], "target": "y", "bounds": {"x": [0, 1], "y": [0, 1]}})


def test_the_slot_of_a_file_is_that_of_a_made_up_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Files of other cells, which take other times, have the same slot, unless theirs takes longer than a made-up one's."""
    path, slots = tmp_path / "loans.csv", set()
    for cell in ("0", "0.5", "0.12345678901"):
        path.write_text("x,y\n" + f"{cell},{cell}\n" * N)
        slots.add(slot_of_file(monkeypatch, path, 1e-6))
    assert len(slots) == 1
    assert SHORTEST < slots.pop() < 0.1, "some 20 kB at a microsecond each"
    assert slot_of_file(monkeypatch, path, 1e-4) == coarse_slot(1e-4 * path.stat().st_size)


def test_one_interruption_of_the_machine_makes_no_longer_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, took = Virtual(), iter([9.0, *[1.0] * 7, 60.0, *[1.0] * 8])

    def answer(*_: Any) -> None:
        clock.now += next(took)

    monkeypatch.setattr(release_time, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    owner = Owner(agreed("laplace"), "bank", neighbour(0.0, 0.0), Squared())
    monkeypatch.setattr(type(owner._phase.private), "answer", answer)
    assert measured_seconds(owner._phase.private, Squared(), N, np.zeros(P)) == pytest.approx(1.0)


def test_the_first_answer_takes_no_longer_than_the_others() -> None:
    """Limits of clipping are computed before the slot is: a large table's first answer was late by them."""
    held = neighbour(1.0, 0.6)
    Owner(agreed("laplace"), "bank", held, Squared()).release_time()
    assert [len(limits) for limits in held.clipping_limits.values()] == [N]


def test_the_noise_cannot_be_told_by_the_time() -> None:
    """OpenDP's sampler takes longer for larger noise; what leaves is on time, or late by what the machine does."""
    terms = Agreement.of(
        {
            "agreement": {"rule": "A2", "horizon": 200, "answers": 200, "step": 1.0},
            "model": {"loss": "squared", "gradient_bound": 1.0, "theta_max": 1e6},
            "owner": [{"name": "bank", "records": N, "epsilon": 200.0}],
        }
    )
    owner = Owner(terms, "bank", neighbour(0.0, 0.0), Squared(), times=ReleaseTime(8e-3))
    took, noise = [], []
    for k in range(200):
        begun = time.perf_counter()
        answer = owner.answer(Query(f"{k}", terms.fingerprint, "bank", np.zeros(P)))
        took.append(time.perf_counter() - begun)
        noise.append(float(np.abs(answer.gradient).sum()))
    assert min(took) >= 8e-3
    assert abs(spearmanr(took, noise).statistic) < 6 / np.sqrt(200)


def test_drawing_ahead_takes_a_slot_whatever_was_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A draw keeps the process from everything else: whoever spoke meanwhile heard back when it ended, and so when that was."""
    terms, clock = agreed("laplace"), Virtual()
    owner = Owner(terms, "bank", neighbour(1.0, 0.6), Squared(), times=ReleaseTime(60.0))
    ahead = owner._phase.private.ahead
    assert ahead is not None
    drawn = list[object]()
    release = LaplaceAnswer.release
    monkeypatch.setattr(LaplaceAnswer, "release", lambda self, value: drawn.append(1) or release(self, value))
    begun = time.perf_counter()
    owner.draw_ahead()
    assert time.perf_counter() - begun < 30.0, "a draw's slot is not that of an answer over many records"
    assert len(drawn) > 1, "measured_seconds with draws that nobody uses"
    assert owner._draws is not None
    assert owner._draws.slot >= 1e-3
    owner._draws = ReleaseTime(1.0, clock.read, clock.sleep)
    for seconds in (0.01, 0.3, 0.9):

        def slow(_: object, seconds: float = seconds) -> None:
            clock.now += seconds

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(ahead), "draw", slow)
            begun = clock.now
            owner.draw_ahead()
        assert clock.now - begun == pytest.approx(1.0, abs=1e-3)


def test_another_run_does_not_look_at_the_records_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A learner names runs as it likes, and can measure how long it takes to be greeted: that was a pass over the records."""
    terms, looked = agreed("laplace"), list[str]()

    def check(self: Owner, *_: Any) -> None:
        looked.append("bank")

    monkeypatch.setattr(Owner, "_check_records", check)
    first = Owner(terms, "bank", neighbour(1.0, 0.6), Squared())
    assert looked == ["bank"]
    ledgers = [MemoryLedger("bank", Fraction(3), 1) for _ in range(2)]
    times = ReleaseTime(1e-3)
    for ledger in ledgers:
        owner = first.charging(ledger, times)
        owner.answer(Query("q", terms.fingerprint, "bank", np.zeros(P)))
        assert (owner.ledger.answers, first.ledger.answers) == (1, 0)
        with pytest.raises(BudgetRefused):
            owner.answer(Query("q2", terms.fingerprint, "bank", np.zeros(P)))
    assert looked == ["bank"]


def test_noise_drawn_ahead_serves_one_answer_of_all_runs() -> None:
    """What answers for two runs has one mechanism: were it copied with what is in waiting, both would use the same draw."""
    terms = agreed("laplace")
    first = Owner(terms, "bank", neighbour(1.0, 0.6), Squared())
    first.draw_ahead()
    query = Query("q", terms.fingerprint, "bank", np.zeros(P))
    given = [
        first.charging(MemoryLedger("bank", Fraction(3), 1), ReleaseTime(1e-3)).answer(query).gradient for _ in range(2)
    ]
    assert not np.array_equal(*given)


def test_records_that_are_read_anew_for_a_run_are_read_in_a_slot() -> None:
    terms, clock = agreed("laplace"), Virtual()
    held = neighbour(1.0, 0.6)

    class Slow:
        units, n_parameters, seconds = N, P, 0.0

        def blocks(self) -> Any:
            clock.now += self.seconds
            return held.blocks()

    owner, times = Owner(terms, "bank", Slow(), Squared()), ReleaseTime(1.0, clock.read, clock.sleep)
    for Slow.seconds in (0.1, 0.7):
        begun = clock.now
        owner.charging(MemoryLedger("bank", Fraction(3), 1), times)
        assert clock.now - begun == pytest.approx(1.0, abs=1e-3)


def test_terms_that_a_pilot_chose_have_slots_for_the_passes_that_they_may_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """The finding: slots were measured at the terms before a pilot, and a weaker anchor takes a solver more passes."""

    def a_millisecond_each(self: ObjectiveAnswer, records: Records) -> float:
        return 1e-3 * self.most_passes * len(records) / N

    monkeypatch.setattr(ObjectiveAnswer, "seconds", a_millisecond_each)
    firm = agreed("objective").replace(agreement={"anchor": 10.0})
    weak = agreed("objective").replace(agreement={"anchor": 2.0**-9})
    owner = Owner(firm, "bank", neighbour(1.0, 0.6), Squared())
    times, needed = owner.release_time(), Owner(weak, "bank", neighbour(1.0, 0.6), Squared()).release_time().slot
    assert times.slot < 0.5 * needed
    owner.charging(MemoryLedger("bank", Fraction(3), 1), times, weak)
    assert times.slot == needed
    owner.charging(MemoryLedger("bank", Fraction(3), 1), times, firm)  # the run with the longest answers decides
    assert times.slot == needed


# The head of the ledger ----------------------------------------------------------------------------------------------


def test_a_head_gives_away_nothing_of_when_or_what(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The finding: heads hashed the millisecond of an answer, found by trying in 24 of 24 cases. The same lines at the same
    moment have other heads now: a hash of 256 random bits, which nobody who has not read the ledger can try."""

    class Frozen:
        @staticmethod
        def now(_: Any) -> Any:
            return ledger_lines.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=ledger_lines.UTC)

    heads = set()
    lines = []
    for k in range(20):
        with opened(tmp_path / f"{k}", "bank", Fraction(1)) as file:
            ledger = file.run("f", "r", Fraction(1), 8)
            ledger.charge("q", np.zeros(P), Fraction(1, 8))
            ledger.record("q", np.zeros(P))
            heads.add(ledger.head)
    assert len(heads) == 20
    monkeypatch.setattr(ledger_lines, "datetime", type("datetime", (ledger_lines.datetime,), {"now": Frozen.now}))
    lines = [ledger_lines.Entry("charge", "f", "r", "q", Fraction(1, 8)).after(3, "0" * 64) for _ in range(20)]
    assert len({line.time for line in lines}) == 1
    assert "." not in lines[0].time, "to the second"
    assert len({line.hash for line in lines}) == len({line.nonce for line in lines}) == 20
    assert all(len(bytes.fromhex(line.nonce)) == 32 for line in lines)
