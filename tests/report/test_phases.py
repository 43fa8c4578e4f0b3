"""A pilot in earnest, from the forecast before it to the run after it: what is signed, chosen, stopped, and computed again."""

import asyncio
import copy
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import copriv
from copriv.agreement import Agreement
from copriv.forecast.phases import AfterPilot, to_sign
from copriv.model.records import Records
from copriv.network.run import Run
from copriv.network.run_state import Conductor
from copriv.network.store import RunStore
from copriv.network.turns import Conduct
from copriv.problem.verdict import Answer
from copriv.report.phases import decided, wrong_with
from network_parties import Consortium, finished

AT, RUNS = 400, 16


def rows(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, 2))
    return x, x @ [0.6, -0.4] + 0.5 * rng.normal(size=n)


PUBLIC = rows(9, 60)
TERMS = Agreement.of(
    {
        "agreement": {"rule": "S1", "answers": 2, "horizon": 3, "pilot": 0.2, "goal": "common"},
        "model": {"loss": "squared", "regularization": 1e-4, "theta_max": 100.0},
        "data": {"components": 0},
        "owner": [{"name": f"bank-{i}", "records": AT, "epsilon": 20.0} for i in (1, 2, 3)],
    }
)


@pytest.fixture(scope="module")
def outlook() -> copriv.Forecast:
    return copriv.forecast(TERMS, PUBLIC, runs=RUNS)


@pytest.fixture(scope="module")
def signed(outlook: copriv.Forecast) -> Agreement:
    return to_sign(TERMS, outlook)


@pytest.fixture(scope="module")
def conducted(signed: Agreement, tmp_path_factory: pytest.TempPathFactory) -> tuple[Conductor, Path]:
    folder = tmp_path_factory.mktemp("run")
    consortium = Consortium(folder, signed)

    async def whole() -> Conductor:
        owners = [
            asyncio.ensure_future(consortium.own(i, records=Records.of(*rows(i, AT)), lifetime=20)) for i in range(3)
        ]
        learning = consortium.learn(
            Conduct(deadline=20.0, patience=60.0), parameters=2,
            decide=lambda run: decided(run, Records.of(*PUBLIC), None, "digest", RUNS),
        )  # fmt: skip
        conductor = await asyncio.wait_for(learning, 200)
        await asyncio.wait(owners, timeout=5)
        return conductor

    return asyncio.run(whole()), folder / "run.db"


@pytest.mark.slow
def test_what_is_signed_before_the_pilot_fixes_all_but_the_ranges(signed: Agreement, outlook: copriv.Forecast) -> None:
    pilot, run = signed.phases
    assert pilot.mechanism.one_answer
    assert pilot.model.gradient_bound == signed.agreement.pilot_terms.gradient_bound
    planned = outlook.recommended.agreement
    assert (run.agreement.rule, run.answers, run.mechanism) == (
        planned.agreement.rule,
        planned.answers,
        planned.mechanism,
    )
    assert [owner.epsilon for owner in signed.owner] == [20.0] * 3
    assert {"step", "gradient_bound", "start", "preconditioner"} <= signed.agreement.ranges.keys()
    assert Agreement.of(signed.to_dict()).fingerprint == signed.fingerprint
    assert (
        to_sign(signed, copriv.forecast(signed, PUBLIC, runs=RUNS)).agreement.pilot_terms
        == signed.agreement.pilot_terms
    )


def test_the_run_goes_on_with_terms_of_two_digits_and_says_what_it_knows(conducted: tuple[Conductor, Path]) -> None:
    conductor, _ = conducted
    assert finished(conductor), conductor.outcome
    run = conductor.run
    assert run.phase == 2
    for key in ("step", "gradient_bound"):
        assert run.chosen[key] == float(f"{run.chosen[key]:.2g}")
    assert run.known["public"] == "digest"
    assert run.known["before"]["owners"].keys() == {"bank-1", "bank-2", "bank-3"}
    assert run.known["after"]["relative_fitness"] != run.known["before"]["relative_fitness"]


def test_terms_are_computed_again_whatever_the_threads_and_others_are_found(
    conducted: tuple[Conductor, Path], signed: Agreement
) -> None:
    with closing(RunStore.read(conducted[1])) as store:
        run = Run.of(store)
    assert run.phases[0].whose_answers == ("bank-1", "bank-2", "bank-3")
    with threadpool_limits(2):
        found = AfterPilot.of(signed, Records.of(*PUBLIC), run.phases[0].only_answers, runs=RUNS)
    assert wrong_with(run, found, "digest") == ""
    assert "other public rows" in wrong_with(run, found, "another")
    run.chosen = {**run.chosen, "step": run.chosen["step"] / 50}
    assert "more than those that its answers lead to" in wrong_with(run, found, "digest")
    run.chosen = dict(found.chosen or {})
    assert wrong_with(run, found, "digest") == ""

    unlike = AfterPilot.decided(signed, found.before, replace(found.after, longer=0.31))
    assert unlike.chosen is None
    assert "31 % of all records are longer than any public row" in unlike.reason
    assert "public rows are not like the owners' records" in wrong_with(run, unlike, "digest")
    run.kept = unlike.reason
    assert wrong_with(run, unlike, "digest") == ""
    run.kept = None

    def were_it(verdict: Answer, probability: float) -> AfterPilot:
        """The same answers, were the verdict of bank-1 another one, and no of the others; `known` says so."""
        owners = []
        for owner in found.after.owners:
            answer, chance = (verdict, probability) if owner.name == "bank-1" else ("no", 0.0)
            on_all = replace(owner.on_all, answer=answer, probability=chance, if_alike=None, if_unlike=None)
            owners.append(replace(owner, verdict=answer, probability=chance, on_all=on_all))
        made = AfterPilot.decided(signed, found.before, replace(found.after, owners=tuple(owners)))
        run.known = {**made.said(), "public": "digest"}
        return made

    assert "went on after the pilot, by whose answers joining pays for nobody" in wrong_with(
        run, were_it("no", 0.0), "digest"
    )
    assert wrong_with(run, were_it("no", 0.15), "digest") == "", "on another machine it may be open"
    run.kept = "joining pays for nobody"
    assert wrong_with(run, were_it("no", 0.1), "digest") == ""
    assert wrong_with(run, were_it("open", 0.25), "digest") == "", "on another machine it may be a no"
    for verdict, probability in (("open", 0.5), ("yes", 0.9)):
        wrong = wrong_with(run, were_it(verdict, probability), "digest")
        assert "stopped after the pilot, by whose answers joining may pay for bank-1" in wrong


def test_what_a_learner_says_that_the_pilot_told_is_computed_again(
    conducted: tuple[Conductor, Path], signed: Agreement
) -> None:
    with closing(RunStore.read(conducted[1])) as store:
        run = Run.of(store)
    found = AfterPilot.of(signed, Records.of(*PUBLIC), run.phases[0].only_answers, runs=RUNS)
    honest = copy.deepcopy(run.known)
    assert wrong_with(run, found, "digest") == ""

    def changed(*path: str, to: Any) -> str:
        run.known = copy.deepcopy(honest)
        place = run.known
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = to
        return wrong_with(run, found, "digest")

    chance = honest["after"]["owners"]["bank-1"]["probability"]
    median = honest["after"]["relative_fitness"]["median"]
    assert changed("after", "relative_fitness", "median", to=1.1 * median) == ""
    wrong = "what the run's file says that the pilot told is not what its answers tell"
    for path, to in (
        (("after", "relative_fitness", "median"), 0.5 * median),
        (("after", "relative_fitness", "median"), "low"),
        (("before", "band", "high"), [1.0]),
        (("after", "owners", "bank-1", "probability"), chance - 0.5 if chance > 0.5 else chance + 0.5),
        (("after", "owners", "bank-1", "probability"), None),
        (("after", "owners"), {}),
        (("after", "owners"), []),
        (("after",), None),
    ):
        assert changed(*path, to=to) == wrong, path
    run.known = {**honest, "public": None}
    assert wrong_with(run, found, "digest") == "the run was planned without public rows, and some were given here"
    run.known = {}
    assert "does not say what the pilot told" in wrong_with(run, found, "digest")


def test_a_floor_is_signed_whole_and_divided_once() -> None:
    """Of a floor of 2 the run's part was signed as that of both phases: 1.6, and then divided again."""
    owners = [{**owner.model_dump(exclude_none=True), "floor": 30.0} for owner in TERMS.owner]
    terms = TERMS.replace(agreement={"aggregation": "sum", "colluding": 1}, owner=owners)
    to_be_signed = to_sign(terms, copriv.forecast(terms, PUBLIC, runs=8))
    assert {owner.floor for owner in to_be_signed.owner} == {30.0}
    assert [phase.owner[0].floor for phase in to_be_signed.phases] == pytest.approx([6.0, 24.0])
