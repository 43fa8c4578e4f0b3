"""Every value of a model's file is made anew from the run, or stands in what everybody signed: no change of it passes."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from copriv.cli import run as copriv
from copriv.data.dictionary import PublicDictionary
from copriv.errors import CoprivError, InvalidInput
from copriv.losses import Squared
from copriv.network.agent import respond
from copriv.network.keys import Keys
from copriv.network.messages import Closing, closing_content, model_content, signed_answer
from copriv.network.model import Model, digest_of
from copriv.network.run_state import Conductor
from copriv.network.store import RunStore
from copriv.network.verify import _wrong_with, verify_run
from copriv.network.verify_lines import LineCheck
from copriv.owner import Owner
from copriv.privacy.ledger import MemoryLedger
from copriv.protocol import Answer, Query
from copriv.report.public_rows import PublicRows
from network_parties import NAMES, agreement, keys, records

Place = tuple[str | int, ...]
WORD = (("record", "realised", "public"), ("record", "forecast"))
"""What does not follow from the run: the learner signs it."""


@dataclass(frozen=True)
class Made:
    """A signed run and the text of its model's file."""

    path: Path
    keys: dict[str, Keys]
    text: str

    @property
    def document(self) -> Any:
        """A copy that may be changed."""
        return json.loads(self.text)

    def wrong(self, text: str, path: Path | None = None) -> list[str]:
        """What `copriv verify` finds wrong with a run and this model; that it is no model's file counts."""
        model = self.path.with_name("forged.json")
        model.write_text(text, encoding="utf-8")
        try:
            verdict = verify_run(path or self.path, authority=self.keys["learner"].authority, model=model)
        except CoprivError as error:
            return [str(error)]
        assert not (verdict.problems and verdict.record), "what is wrong is not repeated"
        return [problem.what for problem in verdict.problems]


def conducted(folder: Path, held: dict[str, Keys], theirs: str | None = None) -> Made:
    """theirs: the fingerprint of the dictionary that owners have, where it is not the learner's."""
    agreed = agreement("A2", horizon=6, answers=2, delta=1e-6).replace(agreement={"mechanism": "gaussian"})
    dictionary = PublicDictionary.fit(np.random.default_rng(0).uniform(size=(20, 4)), 3)
    theirs, δ = theirs or dictionary.fingerprint, Fraction(1e-6)
    owners = {
        name: Owner(agreed, name, records(i), Squared(), MemoryLedger(name, Fraction(1), 2, δ))
        for i, name in enumerate(NAMES)
    }
    with closing(RunStore.create(folder / "run.db", agreed, 3)) as store:
        conductor = Conductor(store, None, 0.0, held["learner"], dictionary.fingerprint)
        for name in NAMES:
            conductor.joined(name, 0.0, held[name].certificate.decode())
        while queries := [message for _, message in conductor.take_outbox() if isinstance(message, Query)]:
            for query in queries:
                answer: Any = respond(owners[query.owner], query)[0]
                conductor.answered(signed_answer(held[query.owner], store.run, query, answer, theirs), 1.0)
        rows = PublicRows(agreed, records(9, 40))
        model = conductor.signed_model(dictionary, rows.said_of(conductor), rows.expected(2))
    return Made(folder / "run.db", held, model.to_json())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("forged")
    return conducted(folder, keys(folder))


def leaves(value: Any, place: Place = ()) -> Iterator[Place]:
    """Where every number, text and null of a document is; an empty list or table counts as one."""
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in below:
        yield from leaves(inner, (*place, key))
    if not below:
        yield place


def changed(document: Any, place: Place) -> None:
    """Make the value there another one of its kind."""
    for key in place[:-1]:
        document = document[key]
    old = document[place[-1]]
    document[place[-1]] = another(old)


def another(old: Any) -> Any:
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        return old + 1
    if isinstance(old, float):
        return -old or 0.25
    return f"{old}x"


def test_the_file_as_it_was_made_is_right(made: Made) -> None:
    assert made.wrong(made.text) == []
    again = json.dumps(made.document, sort_keys=True)
    assert made.wrong(again) == [], "the order of names and spaces say nothing"


def test_every_value_that_is_changed_is_found(made: Made) -> None:
    places = list(leaves(made.document))
    assert len(places) > 120
    for place in places:
        forged = made.document
        changed(forged, place)
        assert made.wrong(json.dumps(forged)), place


@pytest.mark.slow
def test_two_values_that_are_changed_together_are_found(made: Made) -> None:
    """Of lists of alike things, the first and the last: everything else in all pairs."""
    with closing(RunStore.read(made.path)) as store:
        check = checked(made, store)
        places = {tuple("*" if isinstance(key, int) else key for key in p): p for p in leaves(made.document)}
        for pair in combinations(places.values(), 2):
            forged = made.document
            for place in pair:
                changed(forged, place)
            assert found(forged, check, store), pair


def checked(made: Made, store: RunStore) -> LineCheck:
    check = LineCheck(store, made.keys["learner"].authority, made.document["record"]["head"])
    assert check.to_the_end()
    assert check.problems == []
    return check


def found(forged: Any, check: LineCheck, store: RunStore) -> list[str]:
    try:
        return _wrong_with(Model.of(forged), forged, check, store)
    except CoprivError as error:
        return [str(error)]


def test_a_learner_that_signs_what_does_not_follow_is_found(made: Made) -> None:
    """The learner itself may sign any file; only what its public rows say rests on its word."""
    with closing(RunStore.read(made.path)) as store:
        check = checked(made, store)
        assert check.signed is not None
        signed = check.signed
        for place in leaves(made.document):
            forged = made.document
            changed(forged, place)
            check.signed = replace(signed, digest=digest_of(forged))
            its_word = any(place[: len(word)] == word for word in WORD)
            assert bool(found(forged, check, store)) != its_word, place


@pytest.mark.parametrize("after", ["another model", "a count of more answers"])
def test_a_model_that_the_learner_signed_too_early_is_found(tmp_path: Path, after: str) -> None:
    """Of two models that say other things one would be shown to some; a count that comes later is not in the record."""
    agreed, held = agreement(horizon=8, answers=4), keys(tmp_path)
    owners = {
        name: Owner(agreed, name, records(i), Squared(), MemoryLedger(name, Fraction(1), 4))
        for i, name in enumerate(NAMES)
    }
    store = RunStore.create(tmp_path / "run.db", agreed, 3)
    conductor = Conductor(store, None, 0.0, held["learner"])
    for name in NAMES:
        conductor.joined(name, 0.0, held[name].certificate.decode())
    while queries := [message for _, message in conductor.take_outbox() if isinstance(message, Query)]:
        for query in queries:
            answer, _ = respond(owners[query.owner], query)
            assert isinstance(answer, Answer)
            conductor.answered(signed_answer(held[query.owner], store.run, query, answer), 1.0)
    assert conductor.closing is not None
    early = Made(tmp_path / "run.db", held, conductor.signed_model(None).to_json())
    if after == "another model":
        said = "the learner signed another one after it"
        conductor.signed_model(None, forecast={"mean": 1e-9})
    else:
        said = "owners counted more answers after it than its record says"
        count = Closing(conductor.closing.head, 4)
        assert conductor.parties["bank-1"].answered < 4
        content = closing_content(store.run, "bank-1", agreed.fingerprint, count)
        assert conductor.closed("bank-1", replace(count, signature=held["bank-1"].sign(content)))
    store.close()
    assert said in "; ".join(early.wrong(early.text))


UNKNOWN: dict[str, Callable[[Any], Any]] = {
    "a field of the file": lambda document: document | {"intercept": 3.0},
    "a field of the record": lambda document: document | {"record": document["record"] | {"accuracy": 0.99}},
    "a field of an owner": lambda document: document["record"]["owners"][0].update(alone=1.0) or document,
    "an owner more": lambda document: document["record"]["owners"].append(document["record"]["owners"][0]) or document,
    "a field of the dictionary": lambda document: document["dictionary"].update(intercept=1.0) or document,
    "a field of what the public rows say": lambda d: d["record"]["realised"]["public"].update(sure=1) or d,
    "a number written as a text": lambda document: document["record"].update(queries="6") or document,
    "a whole number for a real one": lambda d: d["record"]["owners"][0].update(epsilon=1) or d,
    "the record as a list": lambda document: document | {"record": list(map(list, document["record"].items()))},
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_what_no_model_has_is_found(made: Made, what: str) -> None:
    assert made.wrong(json.dumps(UNKNOWN[what](made.document)))


def test_every_value_that_is_left_out_is_found(made: Made) -> None:
    for place in leaves(made.document):
        forged = inner = made.document
        for key in place[:-1]:
            inner = inner[key]
        del inner[place[-1]]
        assert made.wrong(json.dumps(forged)), place


def test_a_name_that_stands_twice_is_found(made: Made) -> None:
    """Another reader may take the first one."""
    assert "twice" in made.wrong(made.text.replace('"theta":', '"theta": [9.0], "theta":', 1))[0]
    assert "twice" in made.wrong(made.text.replace('"spent":', '"spent": 0.001, "spent":', 1))[0]


@pytest.mark.parametrize("depth", [500, 5000, 100_000])
@pytest.mark.parametrize("place", ["realised", "forecast", "owners"])
def test_a_record_that_nests_without_end_is_told_in_words(made: Made, place: str, depth: int) -> None:
    forged = made.document
    forged["record"][place] = "deep"
    if place == "realised":
        forged["record"][place] = {"public": "deep"}
    assert made.wrong(json.dumps(forged).replace('"deep"', "[" * depth + "]" * depth))


def test_an_agreement_that_is_changed_with_its_fingerprint_is_found(made: Made) -> None:
    model = Model.from_json(made.text)
    other = model.agreement.replace(model={"theta_max": 11.0})
    assert made.wrong(replace(model, agreement=other).to_json()) == ["the model is that of another run"]


def test_the_sign_of_a_dictionary_is_part_of_what_owners_signed(made: Made) -> None:
    model = Model.from_json(made.text)
    assert model.dictionary is not None
    negated = replace(model, dictionary=replace(model.dictionary, matrix=-model.dictionary.matrix))
    assert "another public dictionary" in made.wrong(negated.to_json())[0]


def test_whoever_has_no_key_of_the_learner_signs_no_model(made: Made, tmp_path: Path) -> None:
    """The chain can be gone on with by anybody who has the file; the learner's signature cannot."""
    forged = made.document
    forged["record"]["realised"]["public"]["estimate"] = 1e-9
    for signer in (None, made.keys["bank-1"]):
        copy = tmp_path / f"{signer is None}.db"
        copy.write_bytes(made.path.read_bytes())
        with closing(RunStore.resume(copy, Model.from_json(made.text).agreement)) as store:
            forged["record"]["head"] = store.head
            digest = digest_of(forged)
            signature = "" if signer is None else signer.sign(model_content(store.run, store.head, digest))
            store.event("model", sha256=digest, signature=signature)
        assert made.wrong(json.dumps(forged), copy)


def test_a_learner_that_tells_owners_another_dictionary_is_found(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first line and its model have one dictionary, and its owners answered under another."""
    monkeypatch.setattr(Conductor, "_invalid", lambda *_: "")
    lying = conducted(tmp_path, made.keys, "b" * 64)
    assert "it is not what bank-" in lying.wrong(lying.text)[0]


def test_the_command_names_the_values_and_repeats_none(
    made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forged = made.document
    forged["record"]["owners"][0]["spent"] = 0.001
    made.path.with_name("honest.json").write_text(made.text)
    assert copriv(["verify", str(made.path), "--model", str(made.path.with_name("honest.json"))]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "is theirs: every value in the file follows from the run" in said
    assert "on the learner's word" in said
    (tmp_path / "model.json").write_text(json.dumps(forged))
    assert copriv(["verify", str(made.path), "--model", str(tmp_path / "model.json")]) == 3
    said = " ".join(capsys.readouterr().out.split())
    assert "the model says 0.001, and the run 1.0, under record.owners[0].spent" in said
    assert "theirs" not in said


def test_a_run_is_not_taken_up_again_with_another_dictionary(made: Made, tmp_path: Path) -> None:
    copy = tmp_path / "run.db"
    copy.write_bytes(made.path.read_bytes())
    with closing(RunStore.resume(copy, Model.from_json(made.text).agreement)) as store:
        with pytest.raises(InvalidInput, match="began with another public dictionary"):
            Conductor(store, None, 0.0, made.keys["learner"])
        assert store.signed_model == Model.from_json(made.text).digest, "nothing was written"
