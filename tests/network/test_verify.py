"""A run's file leads to its model, or the check says which line is wrong: for a damaged file and for a learner that cheats."""

import json
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from copriv.agreement import Agreement
from copriv.cli import run as copriv
from copriv.errors import InvalidInput
from copriv.losses import Squared
from copriv.model.records import Records
from copriv.network import store
from copriv.network.agent import respond
from copriv.network.keys import Certified, Keys, issue
from copriv.network.messages import Refusal, model_content, query_content, signed_answer
from copriv.network.model import Model
from copriv.network.run import Run, Trajectory, Turn, query_identity
from copriv.network.run_state import Conductor
from copriv.network.store import START, RunStore, StoreFailed, digest, line_hash
from copriv.network.turns import Conduct
from copriv.network.verify import Verdict, verify_run
from copriv.owner import Owner
from copriv.privacy.ledger import MemoryLedger
from copriv.protocol import Answer, Query
from copriv.types import Array
from network_parties import NAMES, agreement, keys, records
from signed_run import signed_run
from unsigned import unsigned

Held = dict[str, Keys]


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Held:
    return keys(tmp_path_factory.mktemp("keys"))


def honest_owners(agreed: Agreement) -> dict[str, Owner]:
    return {
        name: Owner(
            agreed, name, records(i), Squared(),
            MemoryLedger(name, Fraction(1), agreed.answers, Fraction(agreed.owner[i].delta)),
        )
        for i, name in enumerate(NAMES)
    }  # fmt: skip


def conducted(
    path: Path,
    held: Held,
    agreed: Agreement | None = None,
    *,
    most: int = 1000,
    conduct: Conduct | None = None,
    owners: dict[str, Owner] | None = None,
) -> Conductor:
    """An honest run of signing owners, ended after so many answers; it can be taken up again."""
    agreed = agreed or agreement(horizon=8, answers=3)
    resumed = path.exists()
    store = RunStore.resume(path, agreed) if resumed else RunStore.create(path, agreed, 3)
    conductor = Conductor(store, conduct or Conduct(), 0.0, held["learner"])
    owners = owners or honest_owners(agreed)
    for name in NAMES:
        conductor.joined(name, 0.0, held[name].certificate.decode())
    answered = 0
    while queries := [message for _, message in conductor.take_outbox() if isinstance(message, Query)]:
        for query in queries:
            answer, _ = respond(owners[query.owner], query)
            if isinstance(answer, Refusal):
                conductor.refused(query.owner, answer, 1.0)
            elif answered < most:
                assert isinstance(answer, Answer)
                conductor.answered(signed_answer(held[query.owner], store.run, query, answer), 1.0)
                answered += 1
    store.close()
    return conductor


def check(path: Path, held: Held, **given: Any) -> Verdict:
    return verify_run(path, **({"authority": held["learner"].authority} | given))


def told(verdict: Verdict) -> str:
    assert not verdict.ok
    return "; ".join(map(str, verdict.problems))


ONE_ANSWER = {"horizon": 3, "answers": 1}
RUNS: dict[str, Callable[[], Agreement]] = {
    "A1": lambda: agreement("A1", horizon=8, answers=3),
    "A2": lambda: agreement("A2", horizon=8, answers=3),
    "A2 in rounds": lambda: agreement("A2", horizon=9, answers=3).replace(agreement={"window": 3}),
    "S1": lambda: agreement("S1", horizon=4, answers=4),
    "S2": lambda: agreement("S2", horizon=4, answers=4),
    "gaussian": lambda: agreement("A2", horizon=8, answers=3, delta=1e-6).replace(agreement={"mechanism": "gaussian"}),
    "statistics": lambda: agreement("A2", **ONE_ANSWER).replace(
        agreement={"mechanism": "statistics", "moments_share": 0.2}, data={"feature_bound": 1.0}
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_an_honest_run_leads_to_its_model_to_the_bit(tmp_path: Path, held: Held, name: str) -> None:
    agreed = RUNS[name]()
    conductor = conducted(tmp_path / "run.db", held, agreed)
    verdict = check(tmp_path / "run.db", held, agreement=agreed)
    assert verdict.problems == ()
    assert verdict.rounding == 0
    assert verdict.model is not None
    assert verdict.model.tobytes() == conductor.model.tobytes()
    assert (verdict.stepped, verdict.outcome) == (conductor.stepped, "finished")
    assert sum(verdict.answers.values()) >= conductor.stepped
    assert verdict.missing == {}


def test_a_learner_that_asks_in_another_way_than_agreed_is_found_out(
    tmp_path: Path, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    agreed = agreement("A1", horizon=8, answers=3).replace(agreement={"schedule": "request"})
    monkeypatch.setattr(Conduct, "under", lambda conduct, _: replace(conduct, talk="choose"))
    conducted(tmp_path / "run.db", held, agreed)
    assert "got their turns by 'choose', and 'request' is agreed" in told(
        check(tmp_path / "run.db", held, agreement=agreed)
    )


def test_a_run_that_stopped_and_was_taken_up_again_is_one_run(tmp_path: Path, held: Held) -> None:
    owners = honest_owners(agreement(horizon=8, answers=3))
    conducted(tmp_path / "run.db", held, most=4, owners=owners)
    halfway = check(tmp_path / "run.db", held)
    assert (halfway.problems, halfway.stepped) == ((), 4)
    conducted(tmp_path / "run.db", held, conduct=Conduct(deadline=9.0), owners=owners)
    verdict = check(tmp_path / "run.db", held, head=halfway.head)
    assert verdict.problems == ()


@pytest.mark.parametrize("how", ["given up", "left open"])
def test_a_learner_that_looks_at_an_answer_and_does_not_use_it_is_found_out(
    tmp_path: Path, held: Held, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """It could choose among answers by their noise: every line that is left is signed, and every step follows."""
    honest, skipped = Conductor._step, list[int]()

    def choosy(self: Conductor, turn: Turn) -> None:
        if skipped:
            honest(self, turn)
            return
        skipped.append(turn.number)
        if how == "given up":
            self._abandon(turn)
        else:
            turn.late = True  # and another one is asked

    monkeypatch.setattr(Conductor, "_step", choosy)
    conductor = conducted(tmp_path / "run.db", held)
    assert conductor.stepped >= 6
    said = told(check(tmp_path / "run.db", held))
    assert f"turn {skipped[0]} was answered by all that it asked, and its answers were not used" in said


@pytest.mark.parametrize("rule", ["A1", "A2", "S1"])
def test_a_learner_that_asks_an_owner_several_times_in_one_turn_is_found_out(
    rule: str, tmp_path: Path, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would have several answers at one θ, with noise of their own, and use the one that it likes."""
    honest = Conductor._ask

    def thrice(self: Conductor, turn: Turn, owner: str) -> None:
        for _ in range(3 if self.stepped < 1 else 1):
            honest(self, turn, owner)

    monkeypatch.setattr(Conductor, "_ask", thrice)
    agreed = agreement(rule, horizon=9 if rule[0] == "A" else 3, answers=9)
    conducted(tmp_path / "run.db", held, agreed)
    assert "was asked again in turn" in told(verify_run(tmp_path / "run.db", agreed, held["learner"].authority))


def test_a_learner_that_calls_an_answer_lost_and_uses_it_is_found_out(tmp_path: Path, held: Held) -> None:
    """It asks again, and takes the better one; an honest learner takes neither, and asks that owner no more."""
    agreed, path = agreement("A1", horizon=6, answers=9), tmp_path / "run.db"
    owners, store = honest_owners(agreed), RunStore.create(path, agreed, 3)
    conductor = Conductor(store, Conduct(), 0.0, held["learner"])
    for name in NAMES:
        conductor.joined(name, 0.0, held[name].certificate.decode())

    def asked() -> Query:
        return next(message for _, message in conductor.take_outbox() if isinstance(message, Query))

    first = asked()
    held_back = signed_answer(held[first.owner], store.run, first, respond(owners[first.owner], first)[0])
    conductor.refused(first.owner, Refusal(first.identity, "lost", "it was charged and never answered"), 1.0)
    assert conductor.answered(held_back, 2.0) is False
    assert conductor.parties[first.owner].barred
    # A learner that does not keep to that: the flag is what an honest one goes by.
    other, liar = tmp_path / "liar.db", RunStore.create(tmp_path / "liar.db", agreed, 3)
    conductor, owners = Conductor(liar, Conduct(), 0.0, held["learner"]), honest_owners(agreed)
    for name in NAMES:
        conductor.joined(name, 0.0, held[name].certificate.decode())
    first = asked()
    held_back = signed_answer(held[first.owner], liar.run, first, respond(owners[first.owner], first)[0])
    conductor.refused(first.owner, Refusal(first.identity, "lost", "it was charged and never answered"), 1.0)
    conductor.run.asked[first.owner, first.identity].lost = False
    conductor.answered(held_back, 2.0)
    liar.close()
    assert "answers what it had lost" in told(verify_run(other, agreed, held["learner"].authority))


def test_a_learner_that_ends_its_file_with_an_answer_that_it_does_not_use_is_found_out(
    tmp_path: Path, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could sign the model of before, if it likes that better, as that of a run that stopped in the middle."""
    honest = Conductor._step

    class Ends(Exception):
        pass

    def choosy(self: Conductor, turn: Turn) -> None:
        if self.stepped == 5:
            (tmp_path / "model.json").write_text(self.signed_model(None).to_json())
            self.store.close()
            raise Ends
        honest(self, turn)

    monkeypatch.setattr(Conductor, "_step", choosy)
    with pytest.raises(Ends):
        conducted(tmp_path / "run.db", held)
    said = told(check(tmp_path / "run.db", held, model=tmp_path / "model.json"))
    assert "was answered by all that it asked, and its answers were not used" in said


def test_an_answer_that_was_lost_is_said_to_be_missing(tmp_path: Path, held: Held) -> None:
    agreed = agreement(horizon=8, answers=3)
    store = RunStore.create(tmp_path / "run.db", agreed, 3)
    conductor = Conductor(store, Conduct(begin="any"), 0.0, held["learner"])
    owner = Owner(agreed, "bank-1", records(0), Squared(), MemoryLedger("bank-1", Fraction(1), 3))
    conductor.joined("bank-1", 0.0, held["bank-1"].certificate.decode())
    (_, lost), *_ = conductor.take_outbox()
    assert isinstance(lost, Query)
    owner.answer(lost)
    conductor.refused("bank-1", Refusal(lost.identity, "lost", "crashed"), 1.0)
    (_, again), *_ = conductor.take_outbox()
    assert isinstance(again, Query)
    conductor.answered(signed_answer(held["bank-1"], store.run, again, owner.answer(again)), 2.0)
    store.close()
    verdict = check(tmp_path / "run.db", held)
    assert verdict.problems == ()
    assert verdict.missing == {"bank-1": 1}
    assert [owner["lost"] for owner in conductor.run.record()["owners"]] == [1, 0, 0]


def test_a_learner_cannot_say_that_an_owner_lost_what_it_did_not(tmp_path: Path, held: Held) -> None:
    """A refusal is not signed: that an answer was lost is believed as far as the owner's own counts bear it out."""
    conductor = conducted(tmp_path / "run.db", held)
    store = RunStore.resume(tmp_path / "run.db", conductor.agreement)
    for _ in range(5):
        store.event("refused", owner="bank-1", identity="", code="lost", reason="said so")
    record = Run.of(store).record()
    store.close()
    assert [owner["lost"] for owner in record["owners"]] == [0, 0, 0]


def test_an_owner_cannot_spoil_the_run_by_answering_what_it_refused(tmp_path: Path, held: Held) -> None:
    """Its answer was taken and left out of its round, and the run of an honest learner did not verify."""
    agreed = agreement("S1", horizon=4, answers=4)
    owners, store = honest_owners(agreed), RunStore.create(tmp_path / "run.db", agreed, 3)
    conductor = Conductor(store, Conduct(), 0.0, held["learner"])
    for name in NAMES:
        conductor.joined(name, 0.0, held[name].certificate.decode())
    asked = [query for _, query in conductor.take_outbox() if isinstance(query, Query)]
    conductor.refused(NAMES[0], Refusal(asked[0].identity, "query", "no"), 1.0)
    for query in asked:
        answer = owners[query.owner].answer(query)
        conductor.answered(signed_answer(held[query.owner], store.run, query, answer), 1.0)
    store.close()
    assert check(tmp_path / "run.db", held).problems == ()


@pytest.mark.parametrize("seed", range(8))
def test_an_honest_learners_run_verifies_whatever_owners_do(tmp_path: Path, held: Held, seed: int) -> None:
    """They answer, refuse, answer what they refused, count wrongly, come and go; the learner meets defects and is restarted."""
    chance, path, now = random.Random(seed), tmp_path / "run.db", 0.0
    agreed = agreement(("A1", "A2", "S1", "S2")[seed % 4], horizon=8, answers=4)
    conduct = Conduct(stragglers=chance.choice(["wait", "drop"]), begin=chance.choice(["all", "any"]), deadline=5.0)
    asked: dict[str, list[Query]] = {name: [] for name in NAMES}
    store = RunStore.create(path, agreed, 3)
    conductor = Conductor(store, conduct, now, held["learner"])
    for _ in range(60):
        name, act, now = chance.choice(NAMES), chance.random(), now + 3 * chance.random()
        if act < 0.25:
            conductor.joined(name, now, held[name].certificate.decode())
        elif act < 0.3:
            conductor.left(name, now)
        elif act < 0.35:
            conductor.failed(name, ValueError(), now)
        elif act < 0.4:
            before = conductor.model.tobytes()
            store.close()
            store = RunStore.resume(path, agreed)
            conductor = Conductor(store, conduct, now, held["learner"])
            assert conductor.model.tobytes() == before
        elif asked[name] and act < 0.5:
            query = chance.choice(asked[name][-3:])
            conductor.refused(name, Refusal(query.identity, chance.choice(["lost", "query"]), "no"), now)
        elif asked[name]:
            query, numbers = chance.choice(asked[name][-3:]), np.full(3, chance.random())
            answer = Answer(query.identity, agreed.fingerprint, name, numbers, chance.choice([len(asked[name]), 1, 0]))
            conductor.answered(signed_answer(held[name], store.run, query, answer), now)
        for owner, message in conductor.take_outbox():
            if isinstance(message, Query):
                asked[owner].append(message)
    (tmp_path / "model.json").write_text(conductor.signed_model(None).to_json())
    store.close()
    assert check(path, held, model=tmp_path / "model.json").problems == ()


def test_a_defect_before_the_first_owner_comes_leaves_the_first_line(tmp_path: Path, held: Held) -> None:
    store = RunStore.create(tmp_path / "run.db", agreement(), 3)
    Conductor(store, None, 0.0, held["learner"]).failed(NAMES[0], ValueError(), 1.0)
    store.close()
    assert check(tmp_path / "run.db", held).problems == ()


# A learner that does not follow the rule -------------------------------------------------------------------------------


def test_a_learner_that_asks_where_the_rule_does_not_lead_is_found_out(
    tmp_path: Path, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Trajectory.query
    asked = 0

    def elsewhere(self: Trajectory, participant: int) -> Any:
        nonlocal asked
        asked += 1
        return original(self, participant) + (1e-6 if asked == 5 else 0.0)

    with monkeypatch.context() as patch:
        patch.setattr(Trajectory, "query", elsewhere)
        conducted(tmp_path / "run.db", held)
    said = told(check(tmp_path / "run.db", held))
    assert "turn 5 asks at a point to which the agreed rule does not lead" in said


@pytest.mark.parametrize("answered", [0, 1, 7])
def test_a_learner_that_calls_a_run_finished_which_its_owners_left_is_found_out(
    tmp_path: Path, held: Held, monkeypatch: pytest.MonkeyPatch, answered: int
) -> None:
    """The model's file says so too, and is signed."""
    honest = Conductor.end
    monkeypatch.setattr(Conductor, "end", lambda self, _, reason: honest(self, "finished", reason))
    store = RunStore.create(tmp_path / "run.db", agreement(horizon=8, answers=3), 3)
    conductor = Conductor(store, None, 0.0, held["learner"])
    owners = honest_owners(store.agreement)
    for name in NAMES:
        conductor.joined(name, 0.0, held[name].certificate.decode())
    while conductor.outcome is None:
        for owner, query in conductor.take_outbox():
            assert isinstance(query, Query)
            answer, _ = respond(owners[owner], query)
            assert isinstance(answer, Answer)
            if conductor.stepped < answered:
                conductor.answered(signed_answer(held[owner], store.run, query, answer), 1.0)
            else:
                conductor.refused(owner, Refusal(query.identity, "budget", "no"), 1.0)
    model = conductor.signed_model(None)
    assert model.finished_run
    (tmp_path / "model.json").write_text(model.to_json())
    store.close()
    said_of_it = told(check(tmp_path / "run.db", held, model=tmp_path / "model.json"))
    assert f"it says that the run finished, after {answered} of 8 queries" in said_of_it


def test_a_learner_that_weighs_answers_as_it_likes_is_found_out(
    tmp_path: Path, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Trajectory.step

    def favours(self: Trajectory, participant: int, answers: Any, *masks: Any) -> None:
        original(self, participant, {name: 1.001 * answer for name, answer in answers.items()}, *masks)

    with monkeypatch.context() as patch:
        patch.setattr(Trajectory, "step", favours)
        conducted(tmp_path / "run.db", held)
    assert "does not lead" in told(check(tmp_path / "run.db", held))


class Forger:
    """A learner that writes its run anew: every hash is right again, and every query is signed anew."""

    def __init__(self, path: Path, held: Held) -> None:
        self.path, self.held = path, held
        with sqlite3.connect(path) as connection:
            (self.run, self.fingerprint) = connection.execute("SELECT name, fingerprint FROM run").fetchone()
            lines = connection.execute("SELECT number, time, kind, data, numbers FROM events ORDER BY number")
            self.lines = [list(row) for row in lines]
        self.points = {json.loads(line[3])["turn"]: np.frombuffer(line[4]) for line in self.kinds("asked")}
        connection.close()

    def kinds(self, kind: str) -> list[list[Any]]:
        return [line for line in self.lines if line[2] == kind]

    def write(self) -> None:
        connection, head = sqlite3.connect(self.path), START
        connection.execute("DELETE FROM events")
        for number, line in enumerate(self.lines, start=1):
            _, at, kind, text, numbers = line
            if kind == "query":
                said = json.loads(text)
                query = Query(said["identity"], self.fingerprint, said["owner"], self.points[said["turn"]], head)
                said["signature"] = self.held["learner"].sign(query_content(self.run, query))
                text = json.dumps(said)
            head = line_hash(head, number, at, kind, text)
            connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", (number, at, kind, text, head, numbers))
        connection.commit()
        connection.close()

    def execute(self, statement: str, *values: Any) -> None:
        with sqlite3.connect(self.path) as connection:
            connection.execute(statement, values)
        connection.close()


@pytest.fixture
def forger(tmp_path: Path, held: Held) -> Forger:
    conducted(tmp_path / "run.db", held)
    return Forger(tmp_path / "run.db", held)


def test_the_forgers_own_file_is_right_while_it_changes_nothing(forger: Forger, held: Held) -> None:
    """What the forger writes is wrong for one reason only: the histories that owners signed are not signed anew."""
    assert check(forger.path, held).ok
    forger.lines[1][1] += 1e-3
    forger.write()
    assert "it is not what bank-" in told(check(forger.path, held))


def test_an_answer_that_is_left_out_afterwards_is_missed(forger: Forger, held: Held) -> None:
    keep = [line for line in forger.lines if line is not forger.kinds("answer")[-2]]
    steps = [line for line in keep if line[2] == "stepped"]
    gone = json.loads(steps[-2][3])
    forger.lines = [line for line in keep if line is not steps[-2]]
    for line in forger.kinds("stepped")[-1:]:
        line[3] = json.dumps(json.loads(line[3]) | {"k": gone["k"]})
    forger.write()
    assert not check(forger.path, held).ok


def test_an_answer_in_other_words_is_not_what_its_owner_signed(forger: Forger, held: Held) -> None:
    line = forger.kinds("answer")[-1]
    said = json.loads(line[3])
    other = np.array([0.5, 0.5, 0.5])
    line[3:] = json.dumps(said | {"gradient": digest(other)}), other.tobytes()
    forger.write()
    verdict = check(forger.path, held)
    assert f"line {line[0]}: it is not what {said['owner']} signed" in told(verdict)


def test_an_answer_under_another_owners_name_is_refused(forger: Forger, held: Held) -> None:
    line = forger.kinds("answer")[0]
    said = json.loads(line[3])
    other = next(name for name in NAMES if name != said["owner"])
    line[3] = json.dumps(said | {"owner": other})
    forger.write()
    assert f"line {line[0]}: {other} answers what it was not asked" in told(check(forger.path, held))


def test_owners_that_were_made_up_are_not_of_the_authority(tmp_path: Path, forger: Forger, held: Held) -> None:
    foreign = keys(tmp_path / "foreign")
    for line in forger.kinds("certified"):
        said = json.loads(line[3])
        line[3] = json.dumps(said | {"certificate": foreign[said["owner"]].certificate.decode()})
    forger.write()
    assert "certificate is not of this consortium's authority" in told(check(forger.path, held))


def test_an_owners_key_cannot_sign_as_the_learner(tmp_path: Path, forger: Forger, held: Held) -> None:
    line = forger.lines[0]
    line[3] = json.dumps(json.loads(line[3]) | {"learner": held["bank-1"].certificate.decode()})
    forger.write()
    assert "line 1: the certificate of the learner is that of bank-1, a owner" in told(check(forger.path, held))


def test_an_unsigned_run_proves_nothing(tmp_path: Path, held: Held) -> None:
    store = RunStore.create(tmp_path / "run.db", agreement(horizon=8, answers=3), 3)
    conductor = Conductor(store, Conduct(begin="any"), 0.0, unsigned())
    conductor.joined("bank-1", 0.0)
    conductor.take_outbox()
    store.close()
    assert "the learner did not sign it" in told(verify_run(tmp_path / "run.db"))


def test_a_file_that_was_cut_off_is_missed_by_its_head_and_by_its_model(
    tmp_path: Path, held: Held, forger: Forger, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = check(forger.path, held)
    last = max(line[0] for line in forger.lines)
    forger.execute("DELETE FROM events WHERE number = ?", last)
    assert check(forger.path, held).ok, "by itself it looks like a run that was not over yet"
    assert "no line has the head" in told(check(forger.path, held, head=whole.head))


def test_another_agreement_than_ones_own_is_noticed(forger: Forger, held: Held) -> None:
    other = agreement(horizon=9, answers=3)
    assert "under another agreement than the one given" in told(check(forger.path, held, agreement=other))


# A file that was damaged ------------------------------------------------------------------------------------------------

_TABLES = {
    "run": ("name", "parameters"),
    "events": ("time", "kind", "data", "hash", "numbers"),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory, held: Held) -> bytes:
    path = tmp_path_factory.mktemp("sound") / "run.db"
    conducted(path, held)
    return path.read_bytes()


def test_whatever_is_changed_in_a_file_is_noticed(tmp_path: Path, held: Held, sound: bytes) -> None:
    chance, path = random.Random(0), tmp_path / "changed.db"
    for _ in range(80):
        path.write_bytes(sound)
        what = change_one_value(path, chance)
        with suppress(StoreFailed):
            assert not check(path, held).ok, what


def change_one_value(path: Path, chance: random.Random) -> str:
    connection = sqlite3.connect(path)
    table = chance.choice(sorted(_TABLES))
    column = chance.choice(_TABLES[table])
    row = chance.choice([one for (one,) in connection.execute(f"SELECT rowid FROM {table} ORDER BY rowid")])
    (old,) = connection.execute(f"SELECT {column} FROM {table} WHERE rowid = ?", (row,)).fetchone()
    if old == b"":
        new: Any = chance.randbytes(8 * chance.randint(1, 3))
    elif isinstance(old, bytes):
        at = chance.randrange(len(old))
        new = old[:at] + bytes([old[at] ^ 1 << chance.randrange(8)]) + old[at + 1 :]
    elif isinstance(old, str):
        at = chance.randint(0, len(old))
        new = old[:at] + chance.choice("0aZ ") + old[at + chance.randint(0, 1) :] if chance.random() < 0.8 else ""
        new = new if new != old else f"{old}!"
    else:
        new = old + chance.choice([-1, 1, 2**40])
    connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (new, row))
    connection.commit()
    connection.close()
    return f"{table}.{column} of row {row}: {old!r} became {new!r}"


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0" + bytes(200), b"not a run", b"x" * 5000])
def test_what_is_no_run_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "run.db").write_bytes(content)
    with pytest.raises(StoreFailed):
        verify_run(tmp_path / "run.db")


def test_there_is_no_file_made_where_there_was_none(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed, match="there is no such file"):
        verify_run(tmp_path / "run.db")
    assert list(tmp_path.iterdir()) == []


# Certificates -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [lambda n: 1, lambda n: 0, lambda n: 4], ids=["the same", "none", "too many"])
def test_an_owner_cannot_spoil_the_run_by_how_it_counts(
    tmp_path: Path, held: Held, count: Callable[[int], int]
) -> None:
    """Its answers were taken and signed, and the run of an honest learner did not verify."""

    class Miscounting(Owner):
        def answer(self, query: Query) -> Answer:
            answer = super().answer(query)
            return replace(answer, answered=count(answer.answered))

    agreed = agreement(horizon=8, answers=3)
    owners = honest_owners(agreed)
    owners["bank-2"] = Miscounting(
        agreed, "bank-2", records(1), Squared(), MemoryLedger("bank-2", Fraction(1), agreed.answers)
    )
    conductor = conducted(tmp_path / "run.db", held, owners=owners)
    assert conductor.parties["bank-2"].out
    assert conductor.stepped >= 6
    verdict = check(tmp_path / "run.db", held)
    assert verdict.problems == ()
    assert verdict.answers["bank-2"] <= 1
    again = conducted(tmp_path / "run.db", held, owners=owners)  # the counts are known after a restart as well
    assert again.stepped == conductor.stepped


def test_a_certificate_that_had_expired_signs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = keys(tmp_path)
    issue(tmp_path / "authority", tmp_path / "short", "bank-1", "owner", days=1 / 86400)
    held["bank-1"] = Keys.load(tmp_path / "bank-1")
    late = replace(held["bank-1"], certificate=(tmp_path / "short" / "certificate.pem").read_bytes(),
                   key=(tmp_path / "short" / "key.pem").read_bytes())  # fmt: skip
    honest = conducted(tmp_path / "honest.db", held | {"bank-1": late})
    assert "its answer is not valid: the certificate of its owner is not valid any more" in honest.parties["bank-1"].out
    assert check(tmp_path / "honest.db", held).problems == ()
    with monkeypatch.context() as patched:
        patched.setattr(Certified, "valid_at", lambda *_: True)
        conducted(tmp_path / "run.db", held | {"bank-1": late})
    assert "the certificate of bank-1 was not valid at its time" in told(check(tmp_path / "run.db", held))


def test_a_learner_whose_certificate_expires_stops_and_goes_on_with_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it signed after that would not verify, so it signs nothing, and the run is one run all the same."""
    held, owners = keys(tmp_path), honest_owners(agreement(horizon=8, answers=3))
    conducted(tmp_path / "run.db", held, most=4, owners=owners)
    issue(tmp_path / "authority", tmp_path / "short", "learner", "learner", days=1 / 86400)
    old = Keys(
        held["learner"].authority,
        *((tmp_path / "short" / name).read_bytes() for name in ("certificate.pem", "key.pem")),
    )
    stopped = conducted(tmp_path / "run.db", held | {"learner": old}, owners=owners)
    assert stopped.outcome is not None
    assert "certificate is not valid any more; resume" in stopped.outcome.reason
    assert check(tmp_path / "run.db", held).stepped == 4
    conducted(tmp_path / "run.db", held, owners=owners)
    verdict = check(tmp_path / "run.db", held)
    assert (verdict.problems, verdict.outcome, verdict.stepped) == ((), "finished", 8)


# The command ------------------------------------------------------------------------------------------------------------


def test_the_command_says_yes_in_words_and_no_with_the_line(
    tmp_path: Path, held: Held, forger: Forger, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ca.pem").write_bytes(held["learner"].authority)
    (tmp_path / "agreed.toml").write_text(agreement(horizon=8, answers=3).to_toml())
    said = ["verify", str(forger.path), "--keys", str(tmp_path), "--agreement", str(tmp_path / "agreed.toml")]
    assert copriv(said) == 0
    shown = capsys.readouterr().out
    assert "The 8 steps follow from the agreement and the answers, to the bit." in shown
    assert "file's own" not in shown
    assert copriv(["verify", str(forger.path)]) == 0
    assert capsys.readouterr().out.count("file's own") == 2
    line = forger.kinds("answer")[3]
    forger.execute("UPDATE events SET data = replace(data, 'answered', 'answerde') WHERE number = ?", line[0])
    assert copriv([*said, "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "copriv.run-verified/1"
    assert document["ok"] is False
    assert document["problems"][0]["line"] == line[0]


def test_a_run_that_ended_early_is_said_to_have_done_so(
    tmp_path: Path, held: Held, capsys: pytest.CaptureFixture[str]
) -> None:
    """A learner may stop where it likes the model: nobody can tell why it did, but that it did."""
    conducted(tmp_path / "run.db", held, most=4)
    assert copriv(["verify", str(tmp_path / "run.db")]) == 0
    assert "It did not go on to the 8 steps" in " ".join(capsys.readouterr().out.split())
    conducted(tmp_path / "whole.db", held)
    assert copriv(["verify", str(tmp_path / "whole.db")]) == 0
    assert "did not go on" not in capsys.readouterr().out


def test_a_head_that_is_none_makes_no_sense(tmp_path: Path) -> None:
    assert copriv(["verify", str(tmp_path / "run.db"), "--head", "abc"]) == 2


def test_the_identity_of_a_query_follows_from_four_things() -> None:
    assert query_identity("f", "r", "o", 1) != query_identity("f", "r", "o", 2)


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i, 0.0, '', '{}', '' FROM n"
PROGRAMS = {
    "a view": f"CREATE VIEW events (number, time, kind, data, hash) AS {ENDLESS}",
    "a column that is worked out": "CREATE TABLE events (number INTEGER PRIMARY KEY, time REAL, kind TEXT, "
    "data TEXT AS(hex(zeroblob(400000000))), hash TEXT)",
    "one that says so in full": "CREATE TABLE events (number INTEGER PRIMARY KEY, time REAL, kind TEXT, "
    "data TEXT GENERATED/**/ALWAYS/**/AS/**/(hex(zeroblob(400000000))), hash TEXT)",
    "a virtual table": "CREATE VIRTUAL TABLE events USING fts5(number, time, kind, data, hash)",
    "a trigger": "CREATE TRIGGER more AFTER INSERT ON kept BEGIN DELETE FROM kept; END",
    "an index": "CREATE INDEX events ON kept (kind)",
}


@pytest.mark.parametrize("what", PROGRAMS)
def test_a_file_that_holds_a_program_is_refused_before_it_is_read(tmp_path: Path, held: Held, what: str) -> None:
    conducted(tmp_path / "run.db", held)
    with sqlite3.connect(tmp_path / "run.db") as file:
        file.execute("ALTER TABLE events RENAME TO kept")
        file.execute(PROGRAMS[what])
    with pytest.raises(StoreFailed, match="no learner writes"):
        check(tmp_path / "run.db", held)


DEEP = "[" * 100_000
STRANGE: dict[str, Callable[[dict[str, Any]], str]] = {
    "a certificate that is a number": lambda said: json.dumps(said | {"learner": 5}),
    "a line that never ends going deeper": lambda said: DEEP,
    "parameters without end": lambda said: json.dumps(said | {"parameters": 10**12}),
    "no parameters": lambda said: json.dumps(said | {"parameters": 0}),
    "an authority that is a list": lambda said: json.dumps(said | {"authority": [1]}),
}


@pytest.mark.parametrize("what", STRANGE)
def test_a_first_line_that_says_anything_is_wrong_and_ends_nothing(
    tmp_path: Path, held: Held, forger: Forger, what: str
) -> None:
    """Whoever makes the file chains and numbers it as it likes: tracebacks, and memory for 10¹² numbers, were seen."""
    with sqlite3.connect(forger.path) as file:
        (at, data), *_ = file.execute("SELECT time, data FROM events WHERE number = 1")
        strange = STRANGE[what](json.loads(data))
        file.execute(
            "UPDATE events SET data = ?, hash = ? WHERE number = 1",
            (strange, line_hash(START, 1, at, "begun", strange)),
        )
        with suppress(ValueError, TypeError, RecursionError):
            file.execute("UPDATE run SET parameters = ?", (json.loads(strange)["parameters"],))
    for authority in (None, held["learner"].authority):
        verdict = verify_run(forger.path, authority=authority)
        assert [problem.line for problem in verdict.problems][:1] == [1] or authority is not None
        assert not verdict.ok
    assert copriv(["verify", str(forger.path)]) == 3


@pytest.mark.parametrize("at", [1e17, 1e300, -1e17])
def test_a_line_at_no_time_is_wrong_and_ends_nothing(forger: Forger, held: Held, at: float) -> None:
    for line in forger.lines:
        line[1] = at
    forger.write()
    assert not check(forger.path, held).ok


@pytest.mark.parametrize(
    ("kind", "said"), [("continued", {"talk": {"no": "way"}}), ("stopped", {"reason": ["\x1b[2J"]})]
)
def test_words_that_no_learner_writes_are_wrong(forger: Forger, held: Held, kind: str, said: dict[str, Any]) -> None:
    """They would stand in the record of a model that verifies."""
    words = json.dumps(json.loads(forger.lines[0][3]) | said)
    forger.lines.append([0, forger.lines[-1][1], kind, words, b""])
    forger.write()
    assert f"line {len(forger.lines)}: " in told(check(forger.path, held))


def test_a_row_of_another_run_is_refused(forger: Forger, held: Held) -> None:
    forger.execute("INSERT INTO run SELECT 'other', fingerprint, agreement, parameters FROM run")
    with pytest.raises(StoreFailed, match="no part of its run"):
        check(forger.path, held)


def test_numbers_that_no_line_speaks_of_are_wrong(forger: Forger, held: Held) -> None:
    """Nobody signs them, and nobody would look at them."""
    line = forger.kinds("joined")[0]
    forger.execute("UPDATE events SET numbers = zeroblob(24) WHERE number = ?", line[0])
    assert f"line {line[0]}: it has numbers" in told(check(forger.path, held))


@pytest.mark.parametrize(("key", "value"), [("chain_head", 5), ("answered", 1.5), ("signature", {}), ("identity", [])])
def test_an_answer_that_says_anything_is_wrong_and_ends_nothing(
    forger: Forger, held: Held, key: str, value: object
) -> None:
    line = forger.kinds("answer")[0]
    line[3] = json.dumps(json.loads(line[3]) | {key: value})
    forger.write()
    assert f"line {line[0]}: " in told(check(forger.path, held))


@pytest.mark.parametrize("text", ["[]", "3", "null", '"said"'])
def test_a_line_that_is_no_table_is_wrong(forger: Forger, held: Held, text: str) -> None:
    line = forger.kinds("joined")[0]
    line[3] = text
    forger.write()
    assert f"line {line[0]}: it cannot be understood" in told(check(forger.path, held))


def test_owners_without_end_are_refused_before_they_are_named(tmp_path: Path, held: Held, forger: Forger) -> None:
    agreed = agreement(horizon=8, answers=3)
    many = agreed.replace(owner=[{"name": "bank", "records": 60, "epsilon": 1.0, "count": 10**6}])
    with sqlite3.connect(forger.path) as file:
        file.execute("UPDATE run SET agreement = ?, fingerprint = ?", (json.dumps(many.to_dict()), many.fingerprint))
    with pytest.raises(StoreFailed, match="a run has at most 100,000"):
        check(forger.path, held)
    model = Model(many, np.zeros(3), None, {"run": "r"})
    (tmp_path / "model.json").write_text(model.to_json())
    with pytest.raises(InvalidInput, match="a run has at most 100,000"):
        Model.load(tmp_path / "model.json")


@pytest.mark.parametrize(
    "text", [DEEP, "[]", "1" * 5000, '{"schema": "copriv.model/1"}', "\ud800", '{"schema": []}', "null"]
)
def test_a_model_that_is_none_is_told_in_words(tmp_path: Path, forger: Forger, text: str) -> None:
    (tmp_path / "model.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    assert copriv(["verify", str(forger.path), "--model", str(tmp_path / "model.json")]) == 3


@pytest.mark.parametrize("part", [{"record": ["abc"]}, {"record": {"run": [], "head": [1]}}, {"agreement": DEEP}])
def test_a_model_whose_parts_are_of_other_kinds_is_told_in_words(
    tmp_path: Path, held: Held, forger: Forger, part: dict[str, Any]
) -> None:
    agreed = agreement(horizon=8, answers=3)
    whole = {
        "schema": "copriv.model/1", "fingerprint": agreed.fingerprint, "theta": [0.0] * 3, "dictionary": None,
        "agreement": agreed.to_dict(), "record": {"run": check(forger.path, held).run, "head": [1]},
    }  # fmt: skip
    (tmp_path / "model.json").write_text(json.dumps(whole | part))
    assert copriv(["verify", str(forger.path), "--model", str(tmp_path / "model.json")]) == 3


def test_a_name_that_stands_twice_in_a_line_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two values under one name another reader may take the other one."""

    def twice(data: Any) -> str:
        text = json.dumps(data)
        return f'{{"k": 99, {text[1:]}' if isinstance(data, dict) and "participant" in data and "k" in data else text

    monkeypatch.setattr(store, "json", SimpleNamespace(dumps=twice, loads=json.loads))
    path, _, held = signed_run(tmp_path)
    found = verify_run(path, None, held["learner"].authority)
    assert not found.ok
    assert "stands twice" in found.problems[0].what


SMALL, LARGE = 1e-10, 1e10


@pytest.mark.parametrize("features", [np.full(3, LARGE), np.array([1.0, 1.0, LARGE])])
@pytest.mark.parametrize("cheats", ["model", "query"])
def test_a_theta_of_small_numbers_is_compared_in_their_size(tmp_path: Path, features: Array, cheats: str) -> None:
    """Columns of 1e10 have θ of 1e-10, which a tolerance of 1e-9 lets a learner choose."""
    agreed = agreement("A2", horizon=60, answers=20, records=2000).replace(
        agreement={"step": 0.5 / LARGE**2},
        model={"theta_max": 10.0, "gradient_bound": LARGE, "regularization": 0.0},
        owner={"epsilon": 50.0},
    )
    held, little = keys(tmp_path), np.array([0.0, 0.0, SMALL])
    rows = {name: records(i, 2000) for i, name in enumerate(NAMES)}
    owners = {
        name: Owner(agreed, name, Records.of(rows[name].features * features, rows[name].target), Squared())
        for name in NAMES
    }
    path = tmp_path / "run.db"
    with closing(RunStore.create(path, agreed, 3)) as lines:
        conductor = Conductor(lines, None, 0.0, held["learner"])
        follows = conductor.run.trajectory.query
        if cheats == "query":
            conductor.run.trajectory.query = lambda j: follows(j) + little
        for name in NAMES:
            conductor.joined(name, 0.0, held[name].certificate.decode())
        while queries := [message for _, message in conductor.take_outbox() if isinstance(message, Query)]:
            for query in queries:
                answer = respond(owners[query.owner], query)[0]
                conductor.answered(signed_answer(held[query.owner], lines.run, query, answer), 1.0)
        model = conductor.signed_model(None)
        if cheats == "model":
            model = replace(model, theta=model.theta + little, record=conductor.run.record())
            content = model_content(lines.run, lines.head, model.digest)
            lines.event("model", sha256=model.digest, signature=held["learner"].sign(content))
            lines.commit()
    file = path.with_suffix(".json")
    file.write_text(model.to_json())
    verdict = verify_run(path, agreed, held["learner"].authority, file)
    said = "is not the one to which" if cheats == "model" else "to which the agreed rule does not lead"
    assert any(said in str(problem) for problem in verdict.problems), verdict.problems
