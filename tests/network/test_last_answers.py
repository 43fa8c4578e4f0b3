"""An answer that the learner never wrote down is told by its owner's signed count, also where no other answer came after it."""

import asyncio
import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from copriv.agreement import Agreement
from copriv.cli import run as copriv
from copriv.errors import Unreachable
from copriv.losses import Squared
from copriv.network.agent import OwnerAgent
from copriv.network.keys import Keys
from copriv.network.messages import Closing, Hello, Message, Refusal, closing_content, decode, encode, signed_query
from copriv.network.run_state import Conductor
from copriv.network.store import START, RunStore, line_hash
from copriv.network.transport import Link
from copriv.network.turns import Conduct
from copriv.network.verify import Verdict, verify_run
from copriv.privacy.release_time import ReleaseTime
from copriv.protocol import Answer, Query
from ledger_files import opened
from memory_network import MemoryLink, MemoryNetwork
from network_parties import NAMES, QUICK, Consortium, agreement, finished, keys, records, welcome
from signed_run import signed_run

AGREED = agreement("S1", horizon=4, answers=4)
"""Three answers of each owner."""
PATIENT = Conduct(patience=30.0)


def run(folder: Path, agreed: Agreement) -> tuple[Conductor, Verdict]:
    """A real run over mutual TLS, and what its file says."""
    consortium = Consortium(folder, agreed, "grpc")
    conductor = asyncio.run(consortium.run(PATIENT))
    assert consortium.keys is not None
    return conductor, verify_run(folder / "run.db", agreed, consortium.keys["learner"].authority)


def lets_fall(monkeypatch: pytest.MonkeyPatch, number: int, steps: int) -> None:
    """A learner that does not write down this answer of bank-2, and stops when the model has moved so often."""
    honest = Conductor.answered

    def chooses(self: Conductor, answer: Answer, now: float) -> bool:
        left_out = answer.owner == "bank-2" and answer.answered == number
        self.seen = getattr(self, "seen", False) or left_out  # type: ignore[attr-defined]
        told = left_out or honest(self, answer, now)
        if self.outcome is None and self.stepped == steps and self.seen:  # type: ignore[attr-defined]
            self.end("stopped", "as it likes")
        return told

    monkeypatch.setattr(Conductor, "answered", chooses)


def one_answer() -> Agreement:
    return agreement("A2", horizon=3, answers=1).replace(
        agreement={"mechanism": "statistics", "moments_share": 0.2}, data={"feature_bound": 1.0}
    )


@pytest.mark.parametrize("agreed", [agreement(), one_answer()], ids=["several answers", "one answer"])
def test_at_the_end_of_an_honest_run_every_owner_signs_its_count(tmp_path: Path, agreed: Agreement) -> None:
    conductor, verdict = run(tmp_path, agreed)
    assert finished(conductor)
    assert (verdict.problems, verdict.missing, verdict.not_closed) == ((), {}, ())


@pytest.mark.parametrize("agreed", [agreement(), one_answer()], ids=["the last answer", "the only answer"])
def test_a_last_answer_that_the_learner_lets_fall_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agreed: Agreement
) -> None:
    lets_fall(monkeypatch, agreed.answers, 3 * agreed.answers - 1)
    _, verdict = run(tmp_path, agreed)
    assert verdict.problems == ()
    assert verdict.answers["bank-2"] == agreed.answers - 1
    assert verdict.missing == {"bank-2": 1}
    assert verdict.not_closed == ()


def test_a_learner_that_also_leaves_out_the_count_is_said_to_lack_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    honest = Conductor.closed
    monkeypatch.setattr(Conductor, "closed", lambda self, owner, said: owner == "bank-2" or honest(self, owner, said))
    path, *_ = signed_run(tmp_path, AGREED)
    assert verify_run(path).not_closed == ("bank-2",)
    assert copriv(["verify", str(path)]) == 0
    assert "No signed count at the end from bank-2" in " ".join(capsys.readouterr().out.split())
    assert copriv(["verify", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["not_closed"] == ["bank-2"]


def signed(held: dict[str, Keys], store: RunStore, head: str, answered: int) -> dict[str, Any]:
    count = Closing(head, answered)
    content = closing_content(store.run, "bank-2", store.agreement.fingerprint, count)
    return {"owner": "bank-2", "head": head, "answered": answered, "signature": held["bank-2"].sign(content)}


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("more", "it is not what bank-2 signed"),
        ("fewer, signed", "bank-2 counts 1 answers at the end, which cannot be"),
        ("of before", "bank-2 counted its answers before it was asked for the last of them"),
        ("of another run", "it is not what bank-2 signed"),
        ("of another owner", "it is not what bank-2 signed"),
        ("unsigned", "bank-2 did not sign it"),
        ("no number", "it cannot be understood"),
    ],
)
def test_a_count_that_is_not_the_owners_last_one_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, said: str
) -> None:
    """What a learner may write in the place of the count that it was given; every hash is right."""
    original, heads = RunStore.event, list[str]()
    held: dict[str, Keys] = {}

    def writes(self: RunStore, kind: str, *numbers: Any, **data: Any) -> None:
        if kind == "closed" and data["owner"] == "bank-2":
            n, self.take = data["answered"], None  # what it writes is not what it holds to be so
            match how:
                case "more":
                    data["answered"] = n + 1
                case "fewer, signed":
                    data = signed(held, self, data["head"], 1)
                case "of before":
                    data = signed(held, self, heads[5], n)
                case "of another run" | "of another owner":
                    other = "bank-1" if how == "of another owner" else "bank-2"
                    run = self.run if how == "of another owner" else "0" * 32
                    content = closing_content(run, other, self.agreement.fingerprint, Closing(data["head"], n))
                    data["signature"] = held[other].sign(content)
                case "unsigned":
                    data["signature"] = ""
                case "no number":
                    data["answered"] = [n]
        original(self, kind, *numbers, **data)
        heads.append(self.head)

    held |= keys(tmp_path)
    monkeypatch.setattr(RunStore, "event", writes)
    path, *_ = signed_run(tmp_path, AGREED, held=held)
    verdict = verify_run(path)
    assert [problem.what for problem in verdict.problems if said in problem.what], verdict.problems
    assert "bank-2" in verdict.not_closed


@pytest.mark.parametrize("said", ["true", "1.0"])
def test_a_count_that_is_no_whole_number_is_none(tmp_path: Path, said: str) -> None:
    """What an owner signs has the same bytes for 1 and for true, and the record would say that it gave true answers."""
    path, _, held = signed_run(tmp_path, agreement("A1", horizon=3, answers=1))
    with closing(sqlite3.connect(path)) as file:
        lines, head = file.execute("SELECT number, time, kind, data FROM events ORDER BY number").fetchall(), START
        for number, at, kind, text in lines:
            text = text.replace('"answered": 1', f'"answered": {said}') if kind == "closed" else text
            head = line_hash(head, number, at, kind, text)
            file.execute("UPDATE events SET data = ?, hash = ? WHERE number = ?", (text, head, number))
        file.commit()
    assert not verify_run(path, authority=held["learner"].authority).ok


def test_a_run_that_is_taken_up_again_gets_the_answer_that_was_missing_and_is_counted_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agreed, consortium = agreement(), Consortium(tmp_path, agreement(), "grpc")
    assert consortium.keys is not None
    with monkeypatch.context() as patch:
        lets_fall(patch, 2, 9)
        asyncio.run(consortium.run(PATIENT))
    authority = consortium.keys["learner"].authority
    stopped = verify_run(tmp_path / "run.db", agreed, authority)
    assert (stopped.outcome, stopped.missing, stopped.not_closed) == ("stopped", {"bank-2": 1}, ())
    asyncio.run(consortium.run(PATIENT, resume=True))
    whole = verify_run(tmp_path / "run.db", agreed, authority, head=stopped.head)
    assert (whole.outcome, whole.problems, whole.missing, whole.not_closed) == ("finished", (), {}, ())
    asked = [kind for (kind,) in lines(tmp_path / "run.db") if kind in ("query", "closed")]
    assert "query" in asked[asked.index("closed") :], "the first counts were of before"


def lines(path: Path) -> list[tuple[str]]:
    with closing(sqlite3.connect(path)) as file:
        return file.execute("SELECT kind FROM events ORDER BY number").fetchall()


@pytest.mark.parametrize("ending", ["with a word", "while it speaks", "while it counts"])
def test_an_owner_that_has_signed_its_count_answers_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    """Else a learner would take the count while its query is on its own record only, and ask then.

    It may read nothing of what the owner says, and close the connection then: an owner that is not heard does not go on.
    """
    held, agreed, heard, sessions = keys(tmp_path), agreement(), list[Message](), list[Link]()
    unheard = {"with a word": (), "while it speaks": (Refusal,), "while it counts": (Closing,)}[ending]
    sends = MemoryLink.send

    async def breaks(self: MemoryLink, frame: bytes) -> None:
        await sends(self, frame)
        if self.peer == "learner" and isinstance(decode(frame), unheard):
            raise Unreachable("the link broke")

    monkeypatch.setattr(MemoryLink, "send", breaks)

    async def learner(link: Link) -> None:
        sessions.append(link)
        hello = decode(await link.receive())
        assert isinstance(hello, Hello)
        await link.send(encode(welcome(held["learner"], hello)))
        query = signed_query(held["learner"], "run", Query("q", agreed.fingerprint, "bank-1", np.zeros(3)))
        for message in (Closing("a" * 64, 0), query)[len(sessions) - 1 :]:
            await link.send(encode(message))
            heard.append(decode(await link.receive()))
        await link.close()

    async def session() -> str:
        network = MemoryNetwork()
        with opened(tmp_path / "ledger", "bank-1", Fraction(1)) as file:
            async with network.listening(learner):
                agent = OwnerAgent(
                    agreed, "bank-1", records(0), Squared(), file, network.dialer("bank-1"), keys=held["bank-1"],
                    patience=QUICK, times=ReleaseTime(1e-3),
                )  # fmt: skip
                said = await asyncio.wait_for(agent.serve(), 10)
            assert file.totals.spent == 0
        return said

    assert "took the count" in asyncio.run(session())
    assert len(sessions) == 1, "it does not dial again"
    assert isinstance(heard[0], Closing)
    assert heard[0].answered == 0
    assert [type(message) for message in heard[1:]] == ([] if ending == "while it counts" else [Refusal])


@pytest.mark.parametrize("wrong", ["fewer", "more", "unsigned", "another head", "another's"])
def test_an_owner_cannot_spoil_the_run_by_how_it_closes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    honest, taken = Conductor.closed, dict[str, bool]()

    def closes(self: Conductor, owner: str, said: Closing) -> bool:
        if owner == "bank-2":
            changes = {
                "fewer": {"answered": 0}, "more": {"answered": 5}, "unsigned": {"signature": ""},
                "another head": {"head": "0" * 64}, "another's": {"signature": said.signature[::-1]},
            }  # fmt: skip
            said = replace(said, **changes[wrong])  # type: ignore[arg-type]
        taken[owner] = honest(self, owner, said)
        return taken[owner]

    monkeypatch.setattr(Conductor, "closed", closes)
    path, *_ = signed_run(tmp_path, AGREED)
    assert taken == {name: name != "bank-2" for name in NAMES}
    verdict = verify_run(path)
    assert (verdict.problems, verdict.not_closed) == ((), ("bank-2",))


def over(folder: Path) -> tuple[Path, Path, Keys]:
    """(path of a finished run's file, of its model's, the learner's keys): the learner died before it wrote the model."""
    path, agreed, held = signed_run(folder, AGREED)
    with closing(RunStore.resume(path, agreed)) as store:
        conductor = Conductor(store, None, 0.0, held["learner"])
        conductor.tick(0.0)
        assert {party.answered for party in conductor.parties.values()} == {3}
        (folder / "model.json").write_text(conductor.signed_model(None).to_json())
    return path, folder / "model.json", held["learner"]


def test_counts_outlast_the_learners_process_and_the_model_is_signed_after_them(tmp_path: Path) -> None:
    path, model, keys = over(tmp_path)
    kinds = [kind for (kind,) in lines(path)]
    assert kinds[-6:] == ["closed", "closed", "closed", "continued", "finished", "model"]
    verdict = verify_run(path, AGREED, keys.authority, model)
    assert (verdict.problems, verdict.missing, verdict.not_closed) == ((), {}, ())


def test_an_answer_that_only_the_last_count_tells_of_is_paid_for_in_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record of a resumed learner and the one that `verify` makes count it too."""
    agreed, consortium = agreement(), Consortium(tmp_path, agreement(), "grpc")
    assert consortium.keys is not None
    lets_fall(monkeypatch, agreed.answers, 3 * agreed.answers - 1)
    asyncio.run(consortium.run(PATIENT))
    with closing(RunStore.resume(tmp_path / "run.db", agreed)) as store:
        made = Conductor(store, None, 0.0, consortium.keys["learner"]).signed_model(None)
    (tmp_path / "model.json").write_text(made.to_json())
    verdict = verify_run(tmp_path / "run.db", agreed, consortium.keys["learner"].authority, tmp_path / "model.json")
    assert (verdict.problems, verdict.missing) == ((), {"bank-2": 1})
    assert {(owner["answers"], owner["spent"]) for owner in verdict.record["owners"]} == {(agreed.answers, 1.0)}


def test_a_count_that_is_cut_off_is_missed_by_the_model(tmp_path: Path) -> None:
    """By whoever has the file and not the learner's key."""
    path, model, keys = over(tmp_path)
    with closing(sqlite3.connect(path)) as file:
        number, signed = file.execute("SELECT number, data FROM events WHERE kind = 'model'").fetchone()
        first = file.execute("SELECT min(number) FROM events WHERE kind = 'closed'").fetchone()[0]
        file.execute("DELETE FROM events WHERE number >= ?", (first,))
        file.commit()
    assert number > first
    cut = verify_run(path, AGREED, keys.authority, model)
    assert [problem.what for problem in cut.problems] == ["the model names a line that is not in this file"]
    with closing(RunStore.resume(path, AGREED)) as store:
        store.event("model", **json.loads(signed))
    put_back = verify_run(path, AGREED, keys.authority, model)
    assert "it is not what the learner signed" in [problem.what for problem in put_back.problems]


def test_lines_after_the_model_change_nothing_in_it(tmp_path: Path) -> None:
    path, model, keys = over(tmp_path)
    before = verify_run(path, AGREED, keys.authority, model)
    with closing(RunStore.resume(path, AGREED)) as store:
        store.event("refused", owner="bank-2", identity="", code="lost", reason="never said")
        store.event("stopped", reason="never so")
    after = verify_run(path, AGREED, keys.authority, model)
    assert after.problems == ()
    assert (after.record, after.missing, after.not_closed) == (before.record, {}, ())
    with closing(RunStore.resume(path, AGREED)) as store:
        store.event("closed", owner="bank-2", head=store.head, answered=4, signature="")
    forged = verify_run(path, AGREED, keys.authority, model)
    assert [problem.what for problem in forged.problems] == ["bank-2 did not sign it"]
    assert forged.missing == {}
