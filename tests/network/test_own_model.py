"""Owners that learn for themselves from one run's file: everybody's answers once, one's own part exact, nothing sent."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from copriv.agreement import Agreement
from copriv.cli import run as copriv
from copriv.losses import Squared
from copriv.network.agent import respond
from copriv.network.keys import Keys
from copriv.network.messages import Refusal, signed_answer
from copriv.network.model import Model
from copriv.network.run_state import Conductor
from copriv.network.setup import owner_records
from copriv.network.store import RunStore
from copriv.network.turns import Conduct
from copriv.owner import Owner
from copriv.privacy.ledger import MemoryLedger
from copriv.protocol import Answer, Query
from network_parties import NAMES, keys

ROWS = 400
AGREED = {
    "agreement": {
        "rule": "A2", "horizon": len(NAMES), "answers": 1, "step": 1.0, "mechanism": "statistics", "moments_share": 0.5,
        "start": [0.0, 0.0],
    },
    "model": {"loss": "squared", "theta_max": 100.0, "gradient_bound": 4.0},
    "data": {
        "dataset": "table", "components": 0, "feature_bound": 2.0, "features": ["a", "b"], "target": "y",
        "bounds": {"a": [-1, 1], "b": [-1, 1], "y": [-2, 2]}, "scaling": "none",
    },
    "owner": [{"name": name, "records": ROWS, "epsilon": 1.0} for name in NAMES],
}  # fmt: skip


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Keys]:
    return keys(tmp_path_factory.mktemp("keys"))


def tables(folder: Path) -> dict[str, Path]:
    made = {}
    for i, name in enumerate(NAMES):
        rng = np.random.default_rng(i)
        x = rng.uniform(-1, 1, (ROWS, 2))
        y = x @ [0.7, -0.4] + 0.1 * rng.uniform(-1, 1, ROWS)
        made[name] = folder / f"{i}.csv"
        np.savetxt(made[name], np.column_stack([x, y]), delimiter=",", header="a,b,y", comments="")
    return made


def conducted(folder: Path, held: dict[str, Keys], terms: Agreement, refuses: str = "") -> dict[str, Path]:
    own = tables(folder)
    owners = {
        name: Owner(terms, name, owner_records(terms, name, str(own[name]), None)[0], Squared(),
                    MemoryLedger(name, Fraction(1), 1, Fraction(0)))
        for name in NAMES
    }  # fmt: skip
    store = RunStore.create(folder / "run.db", terms, 2 + int(terms.model.intercept))
    conductor = Conductor(store, Conduct(), 0.0, held["learner"])
    for name in NAMES:
        conductor.joined(name, 0.0, held[name].certificate.decode())
    while queries := [message for _, message in conductor.take_outbox() if isinstance(message, Query)]:
        for query in queries:
            if query.owner == refuses:
                conductor.refused(refuses, Refusal(query.identity, "policy", "no"), 1.0)
                continue
            answer, _ = respond(owners[query.owner], query)
            assert isinstance(answer, Answer)
            conductor.answered(signed_answer(held[query.owner], store.run, query, answer), 1.0)
    (folder / "run.json").write_text(conductor.signed_model(None).to_json())
    store.close()
    return own


def learn(folder: Path, name: str, table: Path, *more: str) -> int:
    call = [
        "owner",
        "learn",
        str(folder / "run.db"),
        "--name",
        name,
        "--data",
        str(table),
        "--out",
        str(folder / "own.json"),
    ]
    return copriv([*call, *more])


def test_each_owner_learns_its_own_model_from_the_same_answers(tmp_path, held, capsys):
    own = conducted(tmp_path, held, Agreement.of(AGREED))
    before = (tmp_path / "run.db").read_bytes()
    learned = {}
    for name in NAMES:
        assert learn(tmp_path, name, own[name]) == 0
        learned[name] = Model.load(tmp_path / "own.json").theta
    said = " ".join(capsys.readouterr().out.split())
    assert "no budget was spent" in said
    assert "keep it" in said
    assert (tmp_path / "run.db").read_bytes() == before
    assert (tmp_path / "own.json").stat().st_mode & 0o077 == 0
    common = Model.load(tmp_path / "run.json").theta
    assert len({θ.tobytes() for θ in [*learned.values(), common]}) == len(NAMES) + 1


def test_the_model_is_that_of_the_others_answers_and_the_exact_own_part(tmp_path, held):
    own = conducted(tmp_path, held, Agreement.of(AGREED))
    assert learn(tmp_path, NAMES[0], own[NAMES[0]]) == 0
    store = RunStore.read(tmp_path / "run.db")
    answers = {line.data["owner"]: line.numbers for line in store.events("answer")}
    store.close()
    data = np.loadtxt(own[NAMES[0]], delimiter=",", skiprows=1)
    x, y = data[:, :2], data[:, 2]
    g = sum(a[:2] for name, a in answers.items() if name != NAMES[0]) - 2 * x.T @ y / ROWS
    h = sum(a[2:] for name, a in answers.items() if name != NAMES[0]) + np.array(
        [np.mean(x[:, 0] ** 2), np.mean(x[:, 0] * x[:, 1]), np.mean(x[:, 1] ** 2)]
    )
    A = 2 * np.array([[h[0], h[1]], [h[1], h[2]]]) / len(NAMES)
    expected = np.linalg.solve(A, -g / len(NAMES))
    np.testing.assert_allclose(Model.load(tmp_path / "own.json").theta, expected, rtol=1e-6)


def test_an_intercept_is_there_once(tmp_path, held):
    terms = {**AGREED, "model": {**AGREED["model"], "intercept": True}}
    terms["agreement"] = {**AGREED["agreement"], "start": [0.0, 0.0, 0.0]}
    own = conducted(tmp_path, held, Agreement.of(terms))
    assert learn(tmp_path, NAMES[0], own[NAMES[0]]) == 0
    assert len(Model.load(tmp_path / "own.json").theta) == 3


def test_a_run_that_did_not_finish_is_learned_from_by_that_name_only(tmp_path, held, capsys):
    own = conducted(tmp_path, held, Agreement.of(AGREED), refuses=NAMES[2])
    assert learn(tmp_path, NAMES[0], own[NAMES[0]]) == 3
    assert "did not finish" in capsys.readouterr().err
    assert not (tmp_path / "own.json").exists()
    assert learn(tmp_path, NAMES[0], own[NAMES[0]], "--unfinished") == 0
    found = Model.load(tmp_path / "own.json", unfinished=True).record
    assert (found["status"], found["learned_at_home"]["answers_of"]) == ("stopped", [NAMES[1]])


def test_a_run_that_was_tampered_with_teaches_nothing(tmp_path, held, capsys):
    own = conducted(tmp_path, held, Agreement.of(AGREED))
    document = json.loads((tmp_path / "run.json").read_text())
    document["theta"][0] += 0.5
    (tmp_path / "run.json").write_text(json.dumps(document))
    assert learn(tmp_path, NAMES[0], own[NAMES[0]]) == 3
    assert "does not verify" in capsys.readouterr().err
    assert not (tmp_path / "own.json").exists()


def test_many_answers_and_wrong_names_are_refused(tmp_path, held, capsys):
    own = conducted(tmp_path, held, Agreement.of(AGREED))
    assert learn(tmp_path, "nobody", own[NAMES[0]]) == 3
    assert "not in the agreement" in capsys.readouterr().err
    many = Agreement.of({**AGREED, "agreement": {"rule": "A2", "horizon": 9, "answers": 3, "step": 0.1}})
    (tmp_path / "many.json").write_text(Model(many, np.zeros(2), None, {"status": "finished"}).to_json())
    assert learn(tmp_path, NAMES[0], own[NAMES[0]], "--model", str(tmp_path / "many.json")) == 3
    assert "copriv own-learners" in capsys.readouterr().err
