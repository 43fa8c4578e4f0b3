"""Every mechanism of an agreement, end to end on both transports: the simulation's model, and what the ledgers say."""

import asyncio
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from copriv.agreement import Agreement
from copriv.errors import AgreementError, NotCertified
from copriv.losses import Squared
from copriv.mechanisms.objective import perturbation
from copriv.mechanisms.objective_noise import ObjectiveAnswer
from copriv.mechanisms.pilot import PilotNumbers
from copriv.mechanisms.statistics import Moments
from copriv.network.agent import respond
from copriv.network.messages import Refusal
from copriv.network.run_state import Conductor
from copriv.network.store import RunStore
from copriv.network.turns import Conduct
from copriv.owner import Owner
from copriv.privacy.approximate import GaussianAnswer
from copriv.privacy.clipping import clipped_mean_gradient, mean_moments
from copriv.privacy.laplace import LaplaceAnswer
from copriv.privacy.ledger import MemoryLedger
from copriv.privacy.ledger.read import read_lines, verify
from copriv.problem import Problem
from copriv.protocol import Answer, Query
from copriv.simulation import simulate
from copriv.simulation.runs import Options, play
from network_parties import NAMES, Consortium, agreement, finished, records
from network_replay import assert_same_model, replayed
from unsigned import unsigned

pytest.importorskip("dp_accounting")

δ = 1e-6
P = [[2.0, 0.3, 0.0], [0.3, 1.0, 0.1], [0.0, 0.1, 1.5]]
GRADIENTS = {"gaussian": {"delta": δ}, "laplace-composed": {"delta": δ}}
ONCE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "statistics, public curvature": ({"mechanism": "statistics", "preconditioner": P, "step": 0.7}, {}),
    "statistics, moments": ({"mechanism": "statistics", "moments_share": 0.3, "step": "auto"}, {}),
    "objective": ({"mechanism": "objective", "step": "auto"}, {}),
    "objective, preconditioned": ({"mechanism": "objective", "preconditioner": P, "anchor": 2.0, "step": 1.4}, {}),
    "objective, delta": ({"mechanism": "objective", "step": "auto"}, {"delta": δ}),
    "pilot": ({"mechanism": "pilot", "preconditioner": P, "loss_bound": 4.0, "step": 0.7}, {}),
    "pilot, weighed": (
        {"mechanism": "pilot", "pilot_parts": {"gradient": 0.9, "record_lengths": 0.1}, "step": 0.7},
        {},
    ),
}
QUICK = Conduct(deadline=2.0, patience=5.0)


def once(name: str, rule: str = "A2") -> Agreement:
    terms, owner = ONCE[name]
    agreed = agreement(rule, horizon=3, answers=1, **owner)
    return agreed.replace(
        agreement={**terms, "answers": 1, "start": [0.1, -0.2, 0.0]}, data={"feature_bound": 1.0, "components": 3}
    )


def test_nobody_is_asked_by_a_mechanism_that_gives_no_model(tmp_path: Path) -> None:
    asked = once("pilot").replace(
        agreement={"mechanism": "lengths", "reach": 1.0, "preconditioner": None, "loss_bound": None}
    )
    with pytest.raises(AgreementError, match='no model follows from "lengths"'):
        asyncio.run(Consortium(tmp_path, asked, "memory").run(QUICK))
    assert all(verify(ledger).spent == 0 for ledger in tmp_path.glob("*.ledger"))


def together(name: str, rule: str) -> Agreement:
    agreed = agreement(rule, horizon=5 if rule == "S2" else 12, answers=4, **GRADIENTS[name])
    return agreed.replace(agreement={"mechanism": name})


@pytest.mark.parametrize("kind", ["memory", "grpc"])
@pytest.mark.parametrize("rule", ["A2", "S2"])
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_with_other_noise_give_the_model_of_the_simulation(
    tmp_path: Path, name: str, rule: str, kind: str
) -> None:
    agreed = together(name, rule)
    conductor = asyncio.run(Consortium(tmp_path, agreed, kind).run(QUICK))
    assert finished(conductor), conductor.outcome
    data, schedule, noise = replayed(agreed, tmp_path / "run.db")
    same = simulate(agreed, data, runs=1, schedule=schedule, noise=noise, alone=False)
    assert_same_model(conductor.model, same.theta[0])
    for owner in NAMES:
        totals = verify(tmp_path / f"{owner}.ledger")
        assert (totals.spent, totals.spent_delta) == (1, Fraction(δ)), "charged for the run, once"
        costs = [
            (line.epsilon, line.delta) for line in read_lines(tmp_path / f"{owner}.ledger") if line.kind == "charge"
        ]
        assert costs == [(1, Fraction(δ))] + [(0, 0)] * (len(costs) - 1)
        assert len(costs) == agreed.answers


class Drawn:
    """What owners' mechanisms added to what they released, by owner."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.by_owner: dict[str, list[np.ndarray]] = {}
        self._owner = ""
        private = Owner._private

        def noted(owner: Owner, theta: np.ndarray) -> np.ndarray:
            self._owner = owner.name
            return private(owner, theta)

        patch.setattr(Owner, "_private", noted)
        for kind in (LaplaceAnswer, GaussianAnswer):
            patch.setattr(kind, "release", self._noting(kind.release))

    def _noting(self, release: Any) -> Any:
        def noted(mechanism: Any, value: np.ndarray) -> np.ndarray:
            released: np.ndarray = release(mechanism, value)
            self.by_owner.setdefault(self._owner, []).append(released - value)
            return released

        return noted


@pytest.fixture
def drawn() -> Iterator[Drawn]:
    with pytest.MonkeyPatch.context() as patch:
        yield Drawn(patch)


class Fed(np.random.Generator):
    """A generator whose next draws, of scale 1, are given."""

    def __init__(self, draws: list[np.ndarray]) -> None:
        super().__init__(np.random.PCG64(0))
        self.draws = list(draws)

    def laplace(self, *_: Any, size: Any = None, **__: Any) -> Any:
        draw = self.draws.pop(0)
        assert draw.shape == np.zeros(size).shape
        return draw

    normal = laplace


class Streams(np.random.SeedSequence):
    """One run's streams, one an owner."""

    def feed(self, generators: list[Fed]) -> "Streams":
        self.generators = generators
        return self

    def spawn(self, n_children: int) -> Any:
        assert n_children == len(self.generators)
        return self.generators


def simulated(agreed: Agreement, draws: list[list[np.ndarray]]) -> np.ndarray:
    """The model of the in-memory simulation with each owner's noise fed in."""
    problem = Problem.of(agreed, [(records(i).features, records(i).target) for i in range(3)])
    streams = Streams(0).feed([Fed(own) for own in draws])
    played = play([problem], agreed.noise_scales(), Options(runs=1), [(np.random.SeedSequence(0), streams)])
    return np.asarray(played.kept[-1][0])


def noise_of_run(agreed: Agreement, folder: Path, drawn: Drawn) -> list[list[np.ndarray]]:
    if agreed.agreement.mechanism == "objective":
        problem = Problem.of(agreed, [(records(i).features, records(i).target) for i in range(3)])
        made = perturbation(agreed, 3, 1.0, problem.loss)
        return [
            [
                drawn.by_owner[terms.name][0] / agreed.mechanism.scale(agreed, terms),
                drawn.by_owner[terms.name][1] / made.remainder_scale(terms.records, terms.epsilon),
            ]
            for terms in agreed.owner
        ]
    store = RunStore.resume(folder / "run.db", agreed)
    given = {line.data["owner"]: line.numbers for line in store.events("answer")}
    store.close()
    made_of = []
    for i, terms in enumerate(agreed.owner):
        start = np.array(agreed.agreement.start)
        exact = clipped_mean_gradient(Squared(), records(i), start, agreed.gradient_bound)
        if agreed.agreement.moments_share > 0:
            exact = np.concatenate([exact, mean_moments(records(i), 1.0, False)])
        scales = agreed.mechanism.deviation(agreed, terms) * Moments.agreed(agreed, 3, 1.0).unit
        if agreed.agreement.mechanism == "pilot":
            numbers = PilotNumbers.agreed(agreed, 3)
            exact, scales = numbers.of(Squared(), records(i), start), 2 / (200 * 1.0) * numbers.unit
        made_of.append([(given[terms.name] - exact) / scales])
    return made_of


@pytest.mark.parametrize("kind", ["memory", "grpc"])
@pytest.mark.parametrize("name", ONCE)
def test_one_answer_an_owner_gives_the_model_of_the_simulation(
    tmp_path: Path, name: str, kind: str, drawn: Drawn
) -> None:
    agreed = once(name)
    conductor = asyncio.run(Consortium(tmp_path, agreed, kind).run(QUICK))
    assert finished(conductor), conductor.outcome
    assert conductor.stepped == 3
    expected = simulated(agreed, noise_of_run(agreed, tmp_path, drawn))
    assert_same_model(conductor.model, expected)
    for owner in NAMES:
        totals = verify(tmp_path / f"{owner}.ledger")
        assert (totals.spent, totals.spent_delta) == (1, Fraction(agreed.owner[0].delta))
        assert totals.runs[conductor.store.run].charged == 1


@pytest.mark.parametrize("rule", ["S1", "S2", "A1"])
def test_where_owners_answer_once_the_rule_does_not_matter(tmp_path: Path, rule: str) -> None:
    agreed = once("statistics, moments", rule)
    assert agreed.queries == 3
    conductor = asyncio.run(Consortium(tmp_path, agreed).run(QUICK))
    assert finished(conductor), conductor.outcome
    assert conductor.stepped == 3


def asked(agreed: Agreement) -> tuple[Conductor, dict[str, Query]]:
    conductor = Conductor(RunStore.create(":memory:", agreed, 3), QUICK, 0.0, unsigned())
    for name in NAMES:
        conductor.joined(name, 0.0)
    return conductor, {owner: message for owner, message in conductor.take_outbox() if isinstance(message, Query)}


def test_an_answer_must_have_the_agreed_length() -> None:
    agreed = once("statistics, moments")
    assert agreed.mechanism.length(agreed, 3) == 9
    for length in (3, 8, 10):
        conductor, queries = asked(agreed)
        query = queries["bank-1"]
        conductor.answered(Answer(query.identity, query.fingerprint, "bank-1", np.zeros(length), 1), 0.0)
        assert "must be 9 finite numbers" in conductor.parties["bank-1"].out
    for other in (once("objective"), together("gaussian", "A2")):
        assert other.mechanism.length(other, 3) == 3


def test_all_are_asked_at_once_and_who_is_away_is_done_without(tmp_path: Path) -> None:
    agreed = once("statistics, moments")
    conductor, queries = asked(agreed)
    assert set(queries) == set(NAMES)
    for i, name in enumerate(NAMES[:2]):
        message, _ = respond(Owner(agreed, name, records(i), Squared()), queries[name])
        assert isinstance(message, Answer)
        conductor.answered(message, 0.0)
    conductor.refused("bank-3", Refusal(queries["bank-3"].identity, "policy", "not today"), 0.0)
    assert conductor.outcome is not None
    assert (conductor.outcome.status, conductor.stepped) == ("stopped", 2), "one owner refused"


def test_a_run_of_one_answer_goes_on_after_a_crash(tmp_path: Path) -> None:
    agreed = once("statistics, moments")
    store = RunStore.create(tmp_path / "run.db", agreed, 3)
    conductor = Conductor(store, QUICK, 0.0, unsigned())
    conductor.joined("bank-1", 0.0)
    for name in NAMES[1:]:
        conductor.joined(name, 0.0)
    queries = {owner: message for owner, message in conductor.take_outbox() if isinstance(message, Query)}
    message, _ = respond(Owner(agreed, "bank-2", records(1), Squared()), queries["bank-2"])
    assert isinstance(message, Answer)
    conductor.answered(message, 0.0)
    conductor.take_outbox()
    store.close()
    again = Conductor(RunStore.resume(tmp_path / "run.db", agreed), QUICK, 0.0, unsigned())
    np.testing.assert_array_equal(again.model, conductor.model)
    assert (again.stepped, set(again.waiting_for)) == (1, {"bank-1", "bank-3"})
    again.store.close()


def test_a_solver_that_fails_has_cost_its_budget_and_the_owner_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    agreed = once("objective")
    owner = Owner(agreed, "bank-1", records(0), Squared(), MemoryLedger("bank-1", Fraction(1), 1))

    def fails(*_: Any) -> np.ndarray:
        raise NotCertified("the solver stopped")

    monkeypatch.setattr(ObjectiveAnswer, "answer", fails)
    query = Query("q", agreed.fingerprint, "bank-1", np.array(agreed.agreement.start))
    reply, failure = respond(owner, query)
    assert isinstance(reply, Refusal)
    assert (reply.code, failure, owner.ledger.spent) == ("lost", None, 1)


PROMISED = {
    "gaussian": (
        together("gaussian", "A2"),
        "at most 4 mean gradients",
        "clipped to 2 in L2",
        "normal noise of standard",
    ),
    "laplace-composed": (
        together("laplace-composed", "A2"),
        "in L1",
        "Laplace noise of scale",
        "delta 1e-06 over the run",
    ),
    "laplace": (agreement(), "at most 4", "in L1", "Laplace noise of scale 0.08: epsilon 1 over the run"),
    "statistics": (once("statistics, moments"), "one answer", "second moments", "0.0286 on the gradient"),
    "objective": (once("objective, delta"), "one model", "in L2", "tilted by normal noise of standard deviation"),
}


@pytest.mark.parametrize("name", PROMISED)
def test_an_owner_is_told_its_own_noise_and_price(name: str) -> None:
    agreed, *words = PROMISED[name]
    said = agreed.mechanism.promise(agreed, agreed.owner[0])
    for word in words:
        assert word in said
    assert agreed.mechanism.order(agreed) == (2 if "L2" in said else 1)
    if "delta" not in said:
        assert agreed.owner[0].delta == 0


def test_what_is_spent_follows_from_the_answers() -> None:
    pure, whole = agreement(), together("gaussian", "A2")
    assert [pure.mechanism.spent_after(pure, pure.owner[0], k) for k in (0, 1, 4)] == [
        (0, 0),
        (Fraction(1, 4), 0),
        (1, 0),
    ]
    assert [whole.mechanism.spent_after(whole, whole.owner[0], k) for k in (0, 1, 4)] == [
        (0, 0),
        *[(1, Fraction(δ))] * 2,
    ]
    shared = agreement("A2", overlap=2, **GRADIENTS["gaussian"]).replace(agreement={"mechanism": "gaussian"})
    assert shared.mechanism.spent_after(shared, shared.owner[0], 1) == (Fraction(1, 2), Fraction(δ) / 2)


def test_delta_without_a_mechanism_for_it_is_refused_before_anybody_is_asked() -> None:
    agreed = agreement(delta=δ)
    with pytest.raises(AgreementError, match="is pure epsilon"):
        Conductor(RunStore.create(":memory:", agreed, 3), QUICK, 0.0, unsigned())
