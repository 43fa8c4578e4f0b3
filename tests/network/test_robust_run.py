"""A run that is robust against owners that lie: over the conductor, resumed, verified, and what its report says of noise."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from copriv.agreement import Agreement
from copriv.display.run import run_tables, verified
from copriv.errors import AgreementError, InvalidInput
from copriv.losses import Squared
from copriv.network.agent import respond
from copriv.network.keys import Keys
from copriv.network.messages import signed_answer
from copriv.network.run import Trajectory
from copriv.network.run_state import Conductor
from copriv.network.store import RunStore
from copriv.network.turns import Conduct
from copriv.network.verify import verify_run
from copriv.owner import Owner
from copriv.privacy.ledger import MemoryLedger
from copriv.privacy.noise import Law
from copriv.protocol import Answer, Query
from copriv.rules.robust import RobustAggregation
from network_parties import NAMES, agreement, keys, records
from unsigned import unsigned

ROUNDS = 12


def agreed() -> Agreement:
    """The third owner's noise is twenty times that of the others."""
    terms = agreement("S2", horizon=ROUNDS + 1, answers=ROUNDS).replace(agreement={"robust": 1, "iterate": "last"})
    owners = [owner | {"epsilon": ε} for owner, ε in zip(terms.to_dict()["owner"], (1.0, 1.0, 0.05), strict=True)]
    return terms.replace(owner=owners)


def some_owners() -> dict[str, Owner]:
    terms, found = agreed(), {}
    for i, owner in enumerate(terms.owner):
        ledger = MemoryLedger(owner.name, Fraction(owner.epsilon), ROUNDS)
        found[owner.name] = Owner(terms, owner.name, records(i), Squared(), ledger)
    return found


def conducted(path: Path, held: dict[str, Keys], owners: dict[str, Owner], most: int = 1000) -> Conductor:
    """A run in which bank-3 answers the same without noise each round, ended after so many answers."""
    store = RunStore.resume(path, agreed()) if path.exists() else RunStore.create(path, agreed(), 3)
    conductor = Conductor(store, Conduct(), 0.0, held["learner"])
    for name in NAMES:
        conductor.joined(name, 0.0, held[name].certificate.decode())
    answered = 0
    while queries := [message for _, message in conductor.take_outbox() if isinstance(message, Query)]:
        for query in queries:
            answer, _ = respond(owners[query.owner], query)
            assert isinstance(answer, Answer)
            if query.owner == "bank-3":
                answer = Answer(
                    answer.identity, answer.fingerprint, "bank-3", np.zeros(3), answer.answered, answer.chain_head
                )
            if answered < most:
                conductor.answered(signed_answer(held[query.owner], store.run, query, answer), 1.0)
                answered += 1
    return conductor


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Keys]:
    return keys(tmp_path_factory.mktemp("keys"))


def test_the_model_follows_from_robust_means_and_the_owner_without_noise_is_named(
    tmp_path: Path, held: dict[str, Keys]
) -> None:
    path = tmp_path / "run.db"
    conductor = conducted(path, held, some_owners())
    assert conductor.outcome is not None
    assert conductor.outcome.status == "finished"
    model = conductor.signed_model(None)
    # The rule in plain loops, from the answers in the file.
    answers = np.array([line.numbers for line in conductor.store.events() if line.kind == "answer"]).reshape(
        ROUNDS, 3, 3
    )
    together, θ = RobustAggregation(agreed().agreement, Law.LAPLACE, agreed().noise_scales()), np.zeros(3)
    for k, given in enumerate(answers, start=1):
        θ = np.clip(θ - 0.3 / np.sqrt(k) * (0.1 * θ + together.vector(given[None])[0]), -10.0, 10.0)
    np.testing.assert_allclose(model.theta, θ, rtol=1e-12)
    said = {owner["name"]: owner["too_little_noise"] for owner in model.record["owners"]}
    assert said == {"bank-1": False, "bank-2": False, "bank-3": True}
    owners, _ = run_tables(model.record, "mean squared error")
    assert [row[-1] for row in owners.rows] == ["as agreed", "as agreed", "too little"]
    file = tmp_path / "model.json"
    file.write_text(model.to_json())
    conductor.store.close()
    verdict = verify_run(path, model=file, authority=held["learner"].authority)
    assert verdict.problems == ()
    told = " ".join(str(one) for one in verified(verdict, file, {"agreement": True, "authority": True}))
    assert (
        "than the agreed noise allows: bank-3. Either noise is missing there, or others' answers were made from these."
        in told
    )
    assert "Where the learner shows no owner's answer to another, an honest owner is named" in told


def test_a_run_that_is_taken_up_again_goes_on_with_the_running_means(tmp_path: Path, held: dict[str, Keys]) -> None:
    path, owners = tmp_path / "run.db", some_owners()
    conducted(path, held, owners, most=9).store.close()
    conductor = conducted(path, held, owners)
    assert conductor.stepped == ROUNDS
    conductor.signed_model(None)
    conductor.store.close()
    assert verify_run(path, authority=held["learner"].authority).problems == ()


def test_all_owners_are_needed_each_round() -> None:
    with pytest.raises(AgreementError, match="--stragglers wait"):
        Conductor(RunStore.create(":memory:", agreed(), 3), Conduct(stragglers="drop"), 0.0, unsigned())
    with pytest.raises(InvalidInput, match="all owners"):
        Trajectory(agreed(), 3, "choose").step(0, {name: np.zeros(3) for name in NAMES[:2]})
