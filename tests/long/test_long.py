"""The short form of the long runs (`python -m tests.long`): the same parties, attacks and oracles, with small numbers.

And wrong owners, learners and ledgers, each of which the long runs must find.
"""

import importlib.util
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from copriv.network.agent import OwnerAgent
from copriv.network.messages import Finished, encode
from copriv.network.run_state import Conductor
from copriv.owner import Owner
from copriv.privacy.ledger.file import LedgerFile
from copriv.protocol import Answer
from long import kills, results, strikes
from long.guided import INSTRUMENTED, side_of
from long.kills import Ground, owners_killed
from long.parties import Finding
from long.said import grown, valid
from long.whole_runs import runs_killed

pytestmark = pytest.mark.network


def attacked(side: Any, messages: int, seed: int) -> int:
    """Every valid message, and such as grow from them; how many were answered or taken."""
    chance, pool = random.Random(seed), valid()
    try:
        for data in pool:
            side.take(data)
        for _ in range(messages):
            side.take(grown(chance.choice(pool), chance))
    finally:
        side.close()
    return int(side.answered)


@pytest.mark.parametrize(("party", "kind", "messages"), [("owner", "memory", 400), ("learner", "memory", 300)])
def test_hundreds_of_messages(party: str, kind: str, messages: int) -> None:
    assert attacked(side_of(party, kind), messages, seed=3) > 5


def test_what_is_led_by_coverage_is_there() -> None:
    assert all(importlib.util.find_spec(name) for name in INSTRUMENTED)


@pytest.mark.slow
@pytest.mark.parametrize("party", ["owner", "learner"])
def test_messages_over_grpc(party: str) -> None:
    assert attacked(side_of(party, "grpc"), 400, seed=4) > 5


def test_what_grows_from_a_message_is_often_a_message_and_often_another() -> None:
    chance, pool = random.Random(0), valid()
    grew = [grown(chance.choice(pool), chance) for _ in range(500)]
    assert len(set(grew)) > 400
    frames = sum(data[1:9].startswith(b"COPRIV\x02") for data in grew)
    assert 250 < frames < 500


def signs_anything(self: OwnerAgent, owner: Owner, query: Any, welcome: Any) -> Any:
    from copriv.network.agent import respond

    return respond(owner, query)


def takes_anything(self: Conductor, answer: Answer, query: Any) -> str:
    return self.run.trajectory.unfit(answer.gradient)


@pytest.mark.parametrize(
    ("party", "where", "name", "wrong"),
    [
        ("owner", OwnerAgent, "_signed_reply", signs_anything),
        ("owner", Owner, "_check", lambda self, query: None),
        ("learner", Conductor, "_invalid", takes_anything),
        ("learner", Conductor, "ready", lambda self, owner, number, now: 1 / 0),
    ],
    ids=["an owner that asks for no signature", "an owner that checks nothing", "a learner that asks for no signature",
         "a learner with a defect"],
)  # fmt: skip
def test_a_wrong_party_is_found(
    party: str, where: type, name: str, wrong: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(where, name, wrong)
    with pytest.raises(Finding):
        attacked(side_of(party, "memory"), 2000, seed=5)


def test_a_few_kills_of_an_owner() -> None:
    struck = owners_killed(30, seed=8)
    assert struck.times == 30
    assert struck.left > 50
    assert struck.became["killed"] > 5


def test_a_few_kills_of_a_consortium() -> None:
    struck, _ = runs_killed(8, seed=8)
    assert struck.times == 8


def no_flush(self: LedgerFile, *entries: Any, at_once: bool = True) -> None:
    appended(self, *entries, at_once=False)


def charges_later(self: Owner, query: Any) -> Answer:
    stored = self._private(query.theta)
    if self.ledger.released(query.identity, query.theta) is None:
        self.ledger.charge(query.identity, query.theta, *self._phase.charge)
    return Answer(query.identity, query.fingerprint, self.name, stored, self.ledger.answers, self.ledger.head)


appended = LedgerFile.append


@pytest.mark.parametrize(
    ("where", "name", "wrong", "kinds"),
    [
        (LedgerFile, "append", no_flush, strikes.OF_POWER),
        (Owner, "answer", charges_later, ("killed at any time",)),
    ],
    ids=["a ledger that is not flushed", "an answer that is not written down"],
)
def test_a_wrong_ledger_is_found(
    where: type, name: str, wrong: Callable[..., Any], kinds: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(where, name, wrong)
    monkeypatch.setattr(kills, "KINDS", kinds)
    with pytest.raises(Finding):
        owners_killed(60, seed=9)


def test_a_failure_of_the_power_takes_what_was_not_flushed_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "ground").mkdir()
    kills.warm()
    ground = Ground(tmp_path / "ground", ahead=0)
    before = ground.ledger.read_bytes()
    with ground.ledger.open("ab") as stream:
        stream.write(b"x" * 1000)
    ground.flushed.power_fails(random.Random(1))
    after = ground.ledger.read_bytes()
    assert after.startswith(before)
    assert len(after) < len(before) + 1000 or after.endswith(b"\0")


def test_the_page_adds_up_what_was_done(tmp_path: Path) -> None:
    path = tmp_path / "out" / "results.jsonl"
    assert results.read(path) == []
    assert "It has not run yet" in results.page([])
    for times in (1000, 500):
        results.Stretch("messages", "owner, in one process", times, 2.0, guided=times == 500, answered=7).append(path)
    results.Stretch("kills", "an owner", 40, 3.0, answered=9, kinds={"the power fails": 40}).append(path)
    said = results.page(results.read(path))
    assert "1,500 messages of the 300,000" in said
    assert "500 of them were led by coverage" in said
    assert "| owner, in one process | 1,500 | 14 | 4 |" in said
    assert "| the power fails | 40 |" in said
    assert "None in what is counted above" in said
    assert f"one version of the code, commit {results.code()}. Not counted here: 0 messages and 0 kills" in said
    results.Stretch("kills", "an owner", 1, 3.0, findings=1).append(path)
    assert "1 in what is counted above" in results.page(results.read(path))


def test_the_page_counts_one_version_of_the_code(tmp_path: Path) -> None:
    """The newest: what was found and counted on others is in one line."""
    path = tmp_path / "results.jsonl"
    for version, times in (("", 7000), ("aaaaaaa", 500), ("bbbbbbb", 30)):
        results.Stretch("messages", "owner, in one process", times, 2.0, code=version).append(path)
        results.Stretch("kills", "an owner", times // 10, 3.0, kinds={version: 1}, code=version).append(path)
    said = results.page(results.read(path))
    assert "commit bbbbbbb. Not counted here: 7,500 messages and 750 kills on other versions (aaaaaaa)." in said
    assert "30 messages of the 300,000" in said
    assert "\n3 times of the 3,000" in said
    assert "| owner, in one process | 30 | 0 | 2 |" in said
    assert "| aaaaaaa | 1 |" not in said


def test_an_input_that_ends_a_party_does_not_end_the_attack() -> None:
    side = side_of("owner", "memory")
    for _ in range(3):
        side.take(b"\0" + encode(Finished("the run is over")))
    side.close()
    assert side.taken == 3
    assert np.isfinite(side.answered)
