"""A pilot in earnest, from the forecast before it to the run after it: what is signed, chosen, stopped, and computed again."""

import asyncio
from contextlib import closing
from dataclasses import replace
from pathlib import Path

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
    everybody = {
        verdict: [replace(owner, verdict=verdict) for owner in found.after.owners] for verdict in ("yes", "no")
    }
    kept, goes_on = (
        AfterPilot.decided(signed, found.before, replace(found.after, owners=tuple(everybody[verdict])))
        for verdict in ("no", "yes")
    )
    assert (kept.chosen, goes_on.chosen) == (None, found.chosen)
    run.chosen = dict(found.chosen or {})
    assert wrong_with(run, found, "digest") == ""
    nobody = replace(
        kept, after=replace(kept.after, owners=tuple(replace(o, probability=0.0) for o in kept.after.owners))
    )
    assert "went on after the pilot, by whose answers joining pays for nobody" in wrong_with(run, nobody, "digest")
    run.known = {}
    assert "does not say what the pilot told" in wrong_with(run, found, "digest")
    run.known = {"public": "digest"}
    run.kept = kept.reason
    assert wrong_with(run, kept, "digest") == ""
    assert "stopped after the pilot, by whose answers joining pays for bank-1" in wrong_with(run, goes_on, "digest")


def test_a_floor_is_signed_whole_and_divided_once() -> None:
    """Of a floor of 2 the run's part was signed as that of both phases: 1.6, and then divided again."""
    owners = [{**owner.model_dump(exclude_none=True), "floor": 30.0} for owner in TERMS.owner]
    terms = TERMS.replace(agreement={"aggregation": "sum", "colluding": 1}, owner=owners)
    to_be_signed = to_sign(terms, copriv.forecast(terms, PUBLIC, runs=8))
    assert {owner.floor for owner in to_be_signed.owner} == {30.0}
    assert [phase.owner[0].floor for phase in to_be_signed.phases] == pytest.approx([6.0, 24.0])
