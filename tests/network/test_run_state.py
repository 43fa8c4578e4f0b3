"""Stragglers, leavers, lost answers and restarts, without a network: only calls and a clock that the tests hold."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from copriv.agreement import Agreement
from copriv.errors import AgreementError, InvalidInput
from copriv.losses import Squared
from copriv.network.agent import respond
from copriv.network.messages import Busy, Offer, Refusal
from copriv.network.run import query_identity
from copriv.network.run_state import Conductor
from copriv.network.store import RunStore, StoreFailed
from copriv.network.turns import Conduct, Talk
from copriv.owner import Owner
from copriv.privacy.ledger import MemoryLedger
from copriv.protocol import Answer, Query
from copriv.rules import AsyncCopies
from network_parties import NAMES, agreement, records
from unsigned import unsigned

WAIT = Conduct(deadline=10.0, patience=100.0)
DROP = Conduct(deadline=10.0, patience=100.0, stragglers="drop")


class Table:
    """A conductor, owners that answer when they are told to, and a clock."""

    def __init__(self, path: Path | str, agreed: Agreement, conduct: Conduct, resume: bool = False) -> None:
        self.store = RunStore.resume(path, agreed) if resume else RunStore.create(path, agreed, 3)
        self.now, self.agreed = 0.0, agreed
        self.conductor = Conductor(self.store, conduct, self.now, unsigned())
        self.owners = {
            name: Owner(agreed, name, records(i), Squared(), MemoryLedger(name, Fraction(1), agreed.answers))
            for i, name in enumerate(NAMES)
        }
        self.asked: dict[str, Query] = {}
        self.others: list[object] = []

    def all_join(self) -> None:
        for name in NAMES:
            self.conductor.joined(name, self.now)
        self.collect()

    def collect(self) -> None:
        for owner, message in self.conductor.take_outbox():
            if isinstance(message, Query):
                assert message.owner == owner
                self.asked[owner] = message
            else:
                self.others.append((owner, message))

    def reply(self, owner: str) -> None:
        message, _ = respond(self.owners[owner], self.asked.pop(owner))
        if isinstance(message, Refusal):
            self.conductor.refused(owner, message, self.now)
        else:
            assert isinstance(message, Answer)
            self.conductor.answered(message, self.now)
        self.collect()

    def later(self, seconds: float) -> None:
        self.now += seconds
        self.conductor.tick(self.now)
        self.collect()

    def kinds(self) -> list[str]:
        return [event.kind for event in self.store.events()]


def test_nobody_is_asked_before_everybody_has_come() -> None:
    table = Table(":memory:", agreement(), WAIT)
    table.conductor.joined("bank-1", 0.0)
    table.collect()
    assert not table.asked
    table.all_join()
    assert set(table.asked) == set(NAMES), "A2 has all of them at work at once"


def test_with_any_the_first_is_asked_at_once() -> None:
    table = Table(":memory:", agreement(), Conduct(begin="any"))
    table.conductor.joined("bank-1", 0.0)
    table.collect()
    assert set(table.asked) == {"bank-1"}


def test_an_owner_is_late_three_of_its_slots_after_the_deadline() -> None:
    """A streamed table of ten million rows took 200 s for its first answer, and was overdue after 30."""
    table = Table(":memory:", agreement(), WAIT)
    for name, slot in zip(NAMES, (0.0, 0.0, 40.0), strict=True):
        table.conductor.joined(name, 0.0, slot=slot)
    table.collect()
    for owner in NAMES[:2]:
        for _ in range(4):
            table.reply(owner)
    assert table.conductor.next_deadline() == 10.0 + 3 * 40.0
    table.later(129.0)
    assert "overdue" not in table.kinds()
    table.later(1.0)
    assert "overdue" in table.kinds()
    table.later(89.0)
    assert table.conductor.outcome is None, "100 s of patience, and three slots"
    table.later(1.0)
    assert table.conductor.outcome is not None
    assert "no answer for 220 s" in table.conductor.outcome.reason


def test_the_slots_that_were_told_outlive_a_defect() -> None:
    table = Table(":memory:", agreement(), WAIT)
    for name in NAMES:
        table.conductor.joined(name, 0.0, slot=40.0)
    table.collect()
    table.conductor.failed("bank-1", ZeroDivisionError(), 0.0)
    table.later(129.0)
    assert "overdue" not in table.kinds()


def test_a2_goes_on_without_a_late_owner_and_uses_its_answer_when_it_comes() -> None:
    table = Table(":memory:", agreement(), WAIT)
    table.all_join()
    for _ in range(4):
        table.reply("bank-1")
        table.reply("bank-2")
    assert table.conductor.stepped == 8
    table.later(11)
    assert "overdue" in table.kinds()
    table.reply("bank-3")
    assert table.conductor.stepped == 9
    assert "late" not in table.kinds()


def test_a1_gives_up_a_late_turn_and_does_not_use_what_comes_of_it() -> None:
    table = Table(":memory:", agreement("A1"), WAIT)
    table.all_join()
    (slow,) = table.asked
    late = table.asked.pop(slow)
    table.later(11)
    (quick,) = table.asked
    assert quick != slow
    model = table.conductor.model
    answer, _ = respond(table.owners[slow], late)
    assert isinstance(answer, Answer)
    table.conductor.answered(answer, table.now)
    assert table.conductor.stepped == 0
    np.testing.assert_array_equal(table.conductor.model, model)
    assert "late" in table.kinds()
    assert table.conductor.parties[slow].answered == 1, "it was charged all the same"


def test_s2_waits_or_drops_as_agreed() -> None:
    for conduct, stepped in ((WAIT, 0), (DROP, 1)):
        table = Table(":memory:", agreement("S2", horizon=4), conduct)
        table.all_join()
        table.reply("bank-1")
        table.reply("bank-2")
        table.later(11)
        assert table.conductor.stepped == stepped
    dropped = [event.data for event in table.store.events("stepped")]
    assert (dropped[0]["owners"], dropped[0]["dropped"]) == (["bank-1", "bank-2"], ["bank-3"])


def test_with_drop_a_round_without_a_leaver_is_the_mean_of_the_others() -> None:
    table = Table(":memory:", agreement("S2", horizon=4), DROP)
    table.all_join()
    answers = {}
    for name in NAMES[:2]:
        message, _ = respond(table.owners[name], table.asked[name])
        assert isinstance(message, Answer)
        answers[name] = message.gradient
        table.conductor.answered(message, 0.0)
    table.later(11)
    # S2 with θ[1] = 0: θ[2] = Π[−c₁ · mean], and ∇g(0) = 0.
    expected = np.clip(-table.agreed.step * np.mean(list(answers.values()), axis=0), -10, 10)
    np.testing.assert_allclose(table.conductor.run.trajectory._state.theta[0], expected)


def test_a_leaver_is_asked_the_same_again_when_it_is_back() -> None:
    table = Table(":memory:", agreement("S2", horizon=4), WAIT)
    table.all_join()
    before = table.asked.pop("bank-2")
    table.conductor.left("bank-2", 1.0)
    table.conductor.joined("bank-2", 2.0)
    table.collect()
    assert table.asked["bank-2"] == before or table.asked["bank-2"].identity == before.identity
    assert table.asked["bank-2"].theta.tobytes() == before.theta.tobytes()


def test_an_answer_lost_in_a_crash_is_asked_for_under_a_new_name() -> None:
    table = Table(":memory:", agreement("A2"), WAIT)
    table.all_join()
    lost = table.asked.pop("bank-1")
    table.conductor.refused("bank-1", Refusal(lost.identity, "lost", "crashed"), 1.0)
    table.collect()
    again = table.asked["bank-1"]
    assert again.identity == query_identity(table.agreed.fingerprint, table.store.run, "bank-1", 2)
    assert again.theta.tobytes() == lost.theta.tobytes()


def test_an_answer_that_was_not_lost_after_all_does_not_change_what_is_replayed(tmp_path: Path) -> None:
    table = Table(tmp_path / "run.db", agreement("A2"), WAIT)
    table.all_join()
    one = table.asked.pop("bank-1")
    table.conductor.refused("bank-1", Refusal(one.identity, "lost", "said so"), 1.0)
    table.collect()
    other = table.asked.pop("bank-1")
    for query in (one, other):
        answer, _ = respond(table.owners["bank-1"], query)
        assert isinstance(answer, Answer)
        table.conductor.answered(answer, 1.0)
    table.collect()
    model = table.conductor.model
    table.store.close()
    again = Table(tmp_path / "run.db", table.agreed, WAIT, resume=True)
    assert again.conductor.model.tobytes() == model.tobytes()


def test_an_owner_that_always_loses_its_answers_is_left_out() -> None:
    table = Table(":memory:", agreement("A2"), WAIT)
    table.all_join()
    for _ in range(20):
        if "bank-1" in table.asked:
            query = table.asked.pop("bank-1")
            table.conductor.refused("bank-1", Refusal(query.identity, "lost", "crashed"), 1.0)
            table.collect()
    assert table.conductor.parties["bank-1"].out == "crashed"


def test_an_owner_that_put_things_right_is_asked_again() -> None:
    table = Table(":memory:", agreement("A2"), WAIT)
    table.all_join()
    query = table.asked.pop("bank-1")
    table.conductor.refused("bank-1", Refusal(query.identity, "ledger", "an older copy"), 1.0)
    table.conductor.left("bank-1", 2.0)
    assert table.conductor.parties["bank-1"].out == "an older copy"
    table.conductor.joined("bank-1", 3.0)
    table.collect()
    assert table.asked["bank-1"].identity != query.identity


def test_two_answers_to_one_query_put_their_owner_out_for_good() -> None:
    table = Table(":memory:", agreement(), WAIT)
    table.all_join()
    query = table.asked["bank-1"]
    for value in (1.0, 1.0, 2.0):
        answer = Answer(query.identity, query.fingerprint, "bank-1", np.full(3, value), 1)
        assert table.conductor.outcome is None
        table.conductor.answered(answer, 1.0)
    assert table.conductor.outcome is None, "the others go on"
    table.conductor.joined("bank-1", 2.0)
    assert "two different answers" in table.conductor.parties["bank-1"].out
    assert table.conductor.stepped == 1, "the first one counts"


@pytest.mark.parametrize("gradient", [np.zeros(2), np.array([0.0, np.nan, 0.0]), np.array([np.inf, 0.0, 0.0])])
def test_an_answer_that_is_none_puts_its_owner_out(gradient: np.ndarray) -> None:
    table = Table(":memory:", agreement(), WAIT)
    table.all_join()
    query = table.asked["bank-1"]
    table.conductor.answered(Answer(query.identity, query.fingerprint, "bank-1", gradient, 1), 1.0)
    assert "not valid" in table.conductor.parties["bank-1"].out
    assert table.conductor.outcome is None, "the others go on"


def test_without_answers_the_run_stops_and_says_for_whom_it_waits() -> None:
    table = Table(":memory:", agreement("S2", horizon=4), WAIT)
    table.all_join()
    table.reply("bank-1")
    table.later(101)
    assert table.conductor.outcome is not None
    assert table.conductor.outcome.status == "stopped"
    assert "waiting for bank-2, bank-3" in table.conductor.outcome.reason


@pytest.mark.parametrize("code", ["budget", "policy", "lost"])
@pytest.mark.parametrize("rule", ["A1", "A2", "S2"])
@pytest.mark.parametrize("answered", [0, 1, 5])
def test_a_run_that_its_owners_leave_early_is_stopped(rule: str, code: str, answered: int) -> None:
    """However much of it there was: only what was agreed is the end of a run."""
    table = Table(":memory:", agreement(rule, horizon=5 if rule[0] == "S" else 12), DROP)
    table.all_join()
    for _ in range(answered):
        table.reply(min(table.asked))
    while table.conductor.outcome is None:
        for name in NAMES:
            query = table.asked.pop(name, None)
            table.conductor.refused(name, Refusal("" if query is None else query.identity, code, "no"), table.now)
            table.collect()
    assert table.conductor.stepped < table.agreed.queries
    assert table.conductor.outcome.status == "stopped"
    assert f"after {table.conductor.stepped} of {table.agreed.queries} queries" in table.conductor.outcome.reason


def test_a_run_whose_owners_gave_all_their_answers_is_finished() -> None:
    """One answer came too late to be used, so that fewer queries than agreed moved the model."""
    table = Table(":memory:", agreement("A1"), WAIT)
    table.all_join()
    (slow,) = table.asked
    late = table.asked.pop(slow)
    table.later(11)
    answer, _ = respond(table.owners[slow], late)
    assert isinstance(answer, Answer)
    table.conductor.answered(answer, table.now)
    table.collect()
    while table.asked:
        table.reply(min(table.asked))
    assert table.conductor.outcome is not None
    assert (table.conductor.outcome.status, table.conductor.stepped) == ("finished", 11)
    assert "every owner gave all its answers, after 11 of 12 queries" in table.conductor.outcome.reason


def test_offers_go_to_all_and_the_first_reply_gets_the_turn() -> None:
    table = Table(":memory:", agreement("A1"), Conduct(talk="broadcast"))
    table.all_join()
    assert sorted({owner for owner, message in table.others if isinstance(message, Offer)}) == list(NAMES)
    assert not table.asked
    table.conductor.ready("bank-2", 7, 0.0)  # of an offer that was never made
    table.conductor.ready("bank-3", 1, 0.0)
    table.conductor.ready("bank-1", 1, 0.0)
    table.collect()
    assert set(table.asked) == {"bank-3"}


def test_an_agreed_broadcast_offers_at_multiples_of_its_interval() -> None:
    table = Table(":memory:", agreement("A1").replace(agreement={"schedule": "broadcast", "interval": 2.0}), Conduct())
    table.conductor.offer_interval = 2.0  # as the learner sets it, at a pace of one second

    def offers() -> int:
        return max((message.number for _, message in table.others if isinstance(message, Offer)), default=0)

    table.all_join()
    assert offers() == 1
    table.later(4.5)
    table.conductor.ready("bank-3", 1, table.now)
    table.collect()
    table.reply("bank-3")
    assert (offers(), table.conductor.stepped) == (1, 1)
    assert table.conductor.next_deadline() == 6.0
    table.later(1.25)
    assert offers() == 1
    table.later(0.25)
    assert offers() == 2


def test_the_learner_keeps_to_the_agreed_way_to_talk() -> None:
    agreed = agreement("A1").replace(agreement={"schedule": "request"})
    assert Table(":memory:", agreed, Conduct()).conductor.talk == "request"
    assert Table(":memory:", agreement("A1"), Conduct()).conductor.talk == "choose"
    with pytest.raises(AgreementError, match='is "request", and the learner was told "choose"'):
        Table(":memory:", agreed, Conduct(talk="choose"))


def test_a_request_while_another_is_served_is_turned_away() -> None:
    table = Table(":memory:", agreement("A1"), Conduct(talk="request"))
    table.all_join()
    table.conductor.ready("bank-2", 0, 0.0)
    table.conductor.ready("bank-1", 0, 0.0)
    table.collect()
    assert set(table.asked) == {"bank-2"}
    assert ("bank-1", Busy(0)) in table.others


@pytest.mark.parametrize("rule", ["A1", "A2", "S1", "S2"])
@pytest.mark.parametrize("stop_after", range(0, 9, 2))
def test_a_run_that_is_taken_up_again_is_where_it_was(tmp_path: Path, rule: str, stop_after: int) -> None:
    agreed = agreement(rule, horizon=5 if rule[0] == "S" else 12, answers=5)
    table = Table(tmp_path / "run.db", agreed, WAIT)
    table.all_join()
    for _ in range(stop_after):
        if table.asked:
            table.reply(sorted(table.asked)[0])
    model, outstanding = table.conductor.model, dict(table.asked)
    table.store.close()
    again = Table(tmp_path / "run.db", agreed, WAIT, resume=True)
    np.testing.assert_array_equal(again.conductor.model, model)
    assert again.conductor.stepped == table.conductor.stepped
    again.owners = table.owners
    again.all_join()
    for name, query in outstanding.items():
        assert again.asked[name].identity == query.identity, "the same is asked under the same name"
        assert again.asked[name].theta.tobytes() == query.theta.tobytes()
    for _ in range(100):
        if again.asked:
            again.reply(sorted(again.asked)[0])
    assert again.conductor.outcome is not None
    assert again.conductor.outcome.status == "finished"
    again.store.close()


def test_a_store_is_for_one_agreement_and_one_run(tmp_path: Path) -> None:
    RunStore.create(tmp_path / "run.db", agreement(), 3).close()
    with pytest.raises(InvalidInput, match="already holds a run"):
        RunStore.create(tmp_path / "run.db", agreement(), 3)
    with pytest.raises(InvalidInput, match="another agreement"):
        RunStore.resume(tmp_path / "run.db", agreement("A1"))
    with pytest.raises(InvalidInput, match="no run to resume"):
        RunStore.resume(tmp_path / "missing.db", agreement())


def test_a_store_that_was_changed_does_not_replay(tmp_path: Path) -> None:
    import sqlite3

    table = Table(tmp_path / "run.db", agreement(), WAIT)
    table.all_join()
    table.reply("bank-1")
    table.store.close()
    with sqlite3.connect(tmp_path / "run.db") as connection:
        connection.execute("UPDATE events SET numbers = ? WHERE kind = 'answer'", (np.ones(3).tobytes(),))
    connection.close()
    with pytest.raises(StoreFailed, match="does not follow"):
        Table(tmp_path / "run.db", agreement(), WAIT, resume=True)


@pytest.mark.parametrize(("talk", "shares"), [("choose", None), ("broadcast", [0.5, 0.25, 0.25])])
def test_a1_makes_up_for_clocks_that_differ_unless_the_learner_chooses(talk: Talk, shares: list[float] | None) -> None:
    agreed = agreement("A1")
    rates = [2.0, 1.0, 1.0]
    agreed = agreed.replace(owner=[o.model_dump() | {"rate": r} for o, r in zip(agreed.owner, rates, strict=True)])
    rule = Conductor(RunStore.create(":memory:", agreed, 3), Conduct(talk=talk), 0.0, unsigned()).run.trajectory._rule
    assert isinstance(rule, AsyncCopies)
    assert (None if rule.shares is None else rule.shares.tolist()) == shares


def test_a_preconditioner_of_another_size_is_refused_before_anybody_is_asked() -> None:
    agreed = agreement().replace(agreement={"preconditioner": np.eye(2).tolist()})
    with pytest.raises(AgreementError, match="needs 3 rows of 3 numbers"):
        Conductor(RunStore.create(":memory:", agreed, 3), None, 0.0, unsigned())


def in_rounds(window: int = 3) -> Agreement:
    return agreement("A2").replace(agreement={"window": window})


def stepped_by(table: Table) -> list[str]:
    return [event.data["owners"][0] for event in table.store.events("stepped")]


def test_in_rounds_everybody_is_heard_before_anybody_again() -> None:
    table = Table(":memory:", in_rounds(), WAIT)
    table.all_join()
    assert set(table.asked) == set(NAMES)
    table.reply("bank-1")
    assert "bank-1" not in table.asked, "it was heard at this θ, and the others are at work"
    table.reply("bank-3")
    assert set(table.asked) == {"bank-2"}
    table.reply("bank-2")
    assert set(table.asked) == set(NAMES), "the model has moved"
    assert len({table.asked[name].theta.tobytes() for name in NAMES}) == 1
    for _ in range(9):
        table.reply(next(iter(table.asked)))
    heard = stepped_by(table)
    assert [set(heard[k : k + 3]) for k in range(0, 12, 3)] == [set(NAMES)] * 4
    assert table.conductor.outcome is not None
    assert table.conductor.outcome.status == "finished"


def test_in_rounds_nobody_waits_for_an_owner_that_is_late_or_away() -> None:
    table = Table(":memory:", in_rounds(), WAIT)
    table.all_join()
    table.reply("bank-1")
    table.reply("bank-2")
    assert set(table.asked) == {"bank-3"}
    table.later(11)
    again = set(table.asked) - {"bank-3"}
    assert len(again) == 1, "one answer is lacking, and one is asked for"
    table.reply(again.pop())
    assert table.conductor.stepped == 3
    assert set(table.asked) == set(NAMES)

    table = Table(":memory:", in_rounds(), WAIT)
    table.all_join()
    table.conductor.left("bank-3", 1.0)
    table.collect()
    table.asked.pop("bank-3")
    table.reply("bank-1")
    assert set(table.asked) == {"bank-1", "bank-2"}, "a third answer has to come from somebody"
    table.reply("bank-2")
    table.reply("bank-1")
    assert stepped_by(table) == ["bank-1", "bank-2", "bank-1"]


def test_a_window_smaller_than_the_consortium_keeps_everybody_at_work() -> None:
    table = Table(":memory:", in_rounds(2), WAIT)
    table.all_join()
    assert set(table.asked) == set(NAMES)
    table.reply("bank-1")
    assert set(table.asked) == {"bank-2", "bank-3"}
    table.reply("bank-2")
    assert set(table.asked) == set(NAMES), "a new window"


def test_in_rounds_an_offer_is_for_those_that_were_not_heard() -> None:
    table = Table(":memory:", in_rounds(), Conduct(talk="broadcast"))
    table.all_join()

    def offered() -> list[str]:
        table.collect()
        names = [owner for owner, message in table.others if isinstance(message, Offer)]
        table.others.clear()
        return sorted(names)

    assert offered() == list(NAMES)
    table.conductor.ready("bank-2", 1, 0.0)
    table.collect()
    table.reply("bank-2")
    assert offered() == ["bank-1", "bank-3"]
    table.conductor.ready("bank-2", 2, 0.0)  # of an offer that was not made to it
    table.collect()
    assert not table.asked
    table.conductor.ready("bank-3", 2, 0.0)
    table.collect()
    table.reply("bank-3")
    assert offered() == ["bank-1"]


def test_a_window_is_known_again_after_a_restart(tmp_path: Path) -> None:
    table = Table(tmp_path / "run.db", in_rounds(), WAIT)
    table.all_join()
    table.reply("bank-1")
    table.store.close()
    again = Table(tmp_path / "run.db", in_rounds(), WAIT, resume=True)
    again.all_join()
    assert set(again.asked) == {"bank-2", "bank-3"}
    again.store.close()
