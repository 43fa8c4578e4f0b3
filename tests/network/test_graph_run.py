"""A run on a graph: each owner is asked at its own model, models follow from signed answers, a relay that errs is found."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from copriv.agreement import Agreement
from copriv.errors import AgreementError, InvalidInput
from copriv.losses import Squared
from copriv.network.agent import respond
from copriv.network.keys import Keys
from copriv.network.messages import signed_answer
from copriv.network.model import Model
from copriv.network.run import Trajectory
from copriv.network.run_state import Conductor
from copriv.network.store import RunStore
from copriv.network.turns import Conduct
from copriv.network.verify import verify_run
from copriv.owner import Owner
from copriv.privacy.ledger import MemoryLedger
from copriv.protocol import Answer, Query
from network_parties import NAMES, agreement, keys, records
from unsigned import unsigned

ROUNDS = 5


def agreed(tracking: bool = True) -> Agreement:
    """A line of three owners, the second in the middle."""
    graph = {"graph": [["bank-1", "bank-2"], ["bank-2", "bank-3"]], "tracking": tracking, "iterate": "last"}
    return agreement("S2", horizon=ROUNDS + 1, answers=ROUNDS).replace(agreement=graph)


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Keys]:
    return keys(tmp_path_factory.mktemp("keys"))


def some_owners() -> dict[str, Owner]:
    terms, found = agreed(), {}
    for i, owner in enumerate(terms.owner):
        ledger = MemoryLedger(owner.name, Fraction(owner.epsilon), ROUNDS)
        found[owner.name] = Owner(terms, owner.name, records(i), Squared(), ledger)
    return found


def conducted(path: Path, held: dict[str, Keys], owners: dict[str, Owner], most: int = 1000) -> Conductor:
    """A run that is cut off after so many answers."""
    store = RunStore.resume(path, agreed()) if path.exists() else RunStore.create(path, agreed(), 3)
    conductor = Conductor(store, Conduct(), 0.0, held["learner"])
    for name in NAMES:
        conductor.joined(name, 0.0, held[name].certificate.decode())
    answered = 0
    while queries := [message for _, message in conductor.take_outbox() if isinstance(message, Query)]:
        for query in queries:
            answer, _ = respond(owners[query.owner], query)
            assert isinstance(answer, Answer)
            if answered < most:
                conductor.answered(signed_answer(held[query.owner], store.run, query, answer), 1.0)
                answered += 1
    return conductor


def replayed(answers: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """Each owner's model by its own loop over what it and its neighbours said, and where it was asked."""
    W = np.array([[2, 1, 0], [1, 1, 1], [0, 1, 2]]) / 3
    θ, u, asked = np.zeros((3, 3)), np.zeros((3, 3)), []
    for k, given in enumerate(answers, start=1):
        asked += list(θ)
        d = [0.1 * θ[i] + 3 * given[i] / 3 for i in range(3)]
        y = [d[i] + u[i] for i in range(3)]
        new = [sum(W[i, j] * (θ[j] - 0.3 / np.sqrt(k) * y[j]) for j in range(3)) for i in range(3)]
        u = np.array([sum(W[i, j] * y[j] for j in range(3)) - d[i] for i in range(3)])
        θ = np.clip(new, -10.0, 10.0)
    return θ, asked


def test_each_owner_is_asked_at_its_own_model_and_the_file_has_all_of_them(
    tmp_path: Path, held: dict[str, Keys]
) -> None:
    path, owners = tmp_path / "run.db", some_owners()
    conducted(path, held, owners, most=7).store.close()  # cut off in the middle of a round, and taken up again
    conductor = conducted(path, held, owners)
    assert conductor.outcome is not None
    assert conductor.outcome.status == "finished"
    model = conductor.signed_model(None)
    asked = [one for one in conductor.run.asked.values() if one.answer is not None]
    answers = np.array([one.answer.gradient for one in asked if one.answer is not None]).reshape(ROUNDS, 3, 3)
    models, points = replayed(answers)
    np.testing.assert_allclose([one.query.theta for one in asked], points, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose([one["model"] for one in model.record["owners"]], models, rtol=1e-12)
    np.testing.assert_allclose(model.theta, models.mean(axis=0), rtol=1e-12)
    assert not np.allclose(points[-1], points[-2])
    file = tmp_path / "model.json"
    file.write_text(model.to_json())
    conductor.store.close()
    assert verify_run(path, model=file, authority=held["learner"].authority).problems == ()
    # A relay that hands an owner another model than the answers lead to.
    document = Model.load(file)
    document.record["owners"][1]["model"][0] += 1e-3
    file.write_text(document.to_json())
    problems = " ".join(str(one) for one in verify_run(path, model=file, authority=held["learner"].authority).problems)
    assert "record.owners[1].model[0]" in problems


def test_a_relay_that_asks_elsewhere_is_found(
    tmp_path: Path, held: dict[str, Keys], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, right = tmp_path / "run.db", Trajectory.query

    def wrong(self: Trajectory, participant: int) -> np.ndarray:
        θ = right(self, participant)
        return θ + 1e-3 * (np.arange(len(θ)) == 4)  # the second owner's second number

    monkeypatch.setattr(Trajectory, "query", wrong)
    conducted(path, held, some_owners()).store.close()
    monkeypatch.undo()
    (problem, *_) = verify_run(path, authority=held["learner"].authority).problems
    assert "asks at a point to which the agreed rule does not lead" in str(problem)


def test_all_owners_are_needed_each_round() -> None:
    with pytest.raises(AgreementError, match=r"agreement\.graph: .*--stragglers wait"):
        Conductor(RunStore.create(":memory:", agreed(), 3), Conduct(stragglers="drop"), 0.0, unsigned())
    with pytest.raises(InvalidInput, match="all owners"):
        Trajectory(agreed(), 3, "choose").step(0, {name: np.zeros(3) for name in NAMES[:2]})
