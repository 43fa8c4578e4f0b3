"""A run of two phases in an owner's papers: its ledger, its report, and the model learned at home say the same."""

from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from copriv.agreement import Agreement
from copriv.display.ledger import phases_spent, totals_fields
from copriv.display.run import compared, now_known, phases_told, promises
from copriv.errors import AgreementError, InvalidInput
from copriv.forecast import phases
from copriv.network.keys import Keys
from copriv.network.model import Model
from copriv.network.run_state import Conductor
from copriv.network.store import RunStore
from copriv.network.verify import verify_run
from copriv.privacy.ledger import PhaseBudget
from copriv.privacy.ledger.read import verify
from copriv.report import RunFile, _beside, _promised, document, page
from copriv.report.evidence import RunRead
from ledger_files import opened
from phased_parties import CHOSEN, TOLD, conducted, goes_on, keep, piloted


def test_a_ledger_says_what_each_phase_spent_and_what_never_began(tmp_path: Path) -> None:
    for folder, decide in (("whole", goes_on()), ("kept", keep)):
        (tmp_path / folder).mkdir()
        conducted(tmp_path / folder, piloted(), decide)
    whole, kept = (verify(tmp_path / folder / "bank-1.ledger") for folder in ("whole", "kept"))
    ((run, totals),) = whole.runs.items()
    assert phases_spent(run, totals) == (
        f"run {run[:8]}: phase 1 spent 0.25 of 0.25 in 1 answer, phase 2 spent 0.75 of 0.75 in 3 answers"
    )
    (phases,) = [one["phases"] for one in totals_fields(whole)["runs"]]
    assert [(one["phase"], one["spent"], one["answers"], len(one["terms"])) for one in phases] == [
        (1, 0.25, 1, 64),
        (2, 0.75, 3, 64),
    ]
    ((run, totals),) = kept.runs.items()
    assert phases_spent(run, totals).endswith(
        "the 0.75 of the phase that has not begun is not spent, and is kept if it never does"
    )


def test_a_model_s_record_says_the_phases_and_what_is_known(tmp_path: Path) -> None:
    record = conducted(tmp_path, piloted(), goes_on()).run.record()
    table, *_ = phases_told(record)
    assert table.rows == (("1: pilot", "3", "0.75", "0"), ("2: laplace", "9", "2.25", "0"))
    assert phases_told({}) == []
    forecast = {**record["realised"], "relative_fitness": TOLD["relative_fitness"], "kind": "as agreed"}
    spent = {row[0]: row[1:] for row in compared({**record, "forecast": forecast}, "mean squared error").rows}
    assert spent["answers, of all owners"] == ("12", "12")
    assert spent["epsilon spent, of all owners"] == ("3", "3")
    said = now_known({"before": TOLD, "after": TOLD})
    assert "Now we know: the run ends 2" in said
    assert "pays for 1, not for 0, open for 1 of 2 owners" in said


def test_an_owner_is_told_what_will_leave_it_in_each_phase() -> None:
    pilot, run = promises(piloted("gaussian", delta=1e-6), "bank-1")
    assert "epsilon 0.25" in pilot
    assert run.startswith("then at most 3 answers by the mechanism gaussian: epsilon 0.75, delta 1e-06")
    assert "step, gradient_bound, start and preconditioner, within the ranges that are signed" in run


@pytest.mark.parametrize("decide", [goes_on(), keep], ids=["goes on", "kept"])
def test_the_report_of_an_owner_finds_nothing_wrong(tmp_path: Path, decide: Any) -> None:
    agreed = piloted()
    conducted(tmp_path, agreed, decide, "grpc")
    made = document(tmp_path / "bank-1.ledger", [RunFile.at(tmp_path / "run.db")], [agreed])
    assert made["problems"] == []
    assert made["ok"]
    (run,) = made["runs"]
    assert "laplace" in run["agreement"]["what"]


def declared() -> Agreement:
    """Of a run without public rows, whose pilot asks how long rows are."""
    document = piloted().to_dict()
    document["agreement"] |= {"ranges": {"step": [0.01, 10.0]}}
    document["agreement"]["pilot_terms"] = {
        "start": [0.0] * 3,
        "gradient_bound": 1.0,
        "feature_bound": 2.0,
        "reach": 1.5,
    }
    document["model"] |= {"gradient_bound": 2.0}
    names = {"features": ["a", "b"], "target": "y"}
    document["data"] = {"public_rows": 0, **names, "bounds": {name: [-1.0, 1.0] for name in ("a", "b", "y")}}
    return Agreement.of(document)


def test_without_public_rows_no_file_of_them_is_signed() -> None:
    """The pilot's answers were given first, and the run did not verify: it named no file, and one was signed."""
    terms = declared().agreement.pilot_terms
    assert terms is not None
    signed = {**terms.model_dump(exclude_none=True), "public": "a" * 64}
    with pytest.raises(AgreementError, match=r"agreement\.pilot_terms\.public: .*data\.public_rows = 0"):
        declared().replace(agreement={"pilot_terms": signed})
    with pytest.raises(AgreementError, match="'zz'; it is the SHA-256 of the learner's public rows"):
        declared().replace(agreement={"pilot_terms": {**signed, "public": "zz"}})


@pytest.mark.parametrize("agreed", [piloted(), declared()], ids=["pilot", "lengths"])
def test_an_owner_gets_its_report_of_a_run_that_stopped_after_its_pilot(tmp_path: Path, agreed: Agreement) -> None:
    """Of a pilot without public rows it was refused, as no model follows; and it said that the run was at its end."""
    conducted(tmp_path, agreed, keep, "grpc")
    with closing(RunStore.resume(tmp_path / "run.db", agreed)) as store:
        conductor = Conductor(store, None, 0.0, Keys.load(tmp_path / "learner"))
        conductor.tick(0.0)
        model = conductor.signed_model(None)
    (tmp_path / "run.json").write_text(model.to_json())
    made = document(tmp_path / "bank-1.ledger", [RunFile.at(tmp_path / "run.db")], [agreed])
    assert made["problems"] == []
    (run,) = made["runs"]
    asked = agreed.phases[0].mechanism.name
    assert run["agreement"]["proofs"] == [
        {"mechanism": asked, "page": f"proofs/{asked}.md"},
        {"mechanism": "phases", "page": "proofs/phases.md"},
    ]
    assert run["file"]["kept"] == "joining pays for nobody"
    (steps,) = [row for row in run["beside"] if row["what"] == "queries"]
    assert (steps["agreed"], steps["realised"]) == (agreed.phases[0].queries, 3)
    text = " ".join(page(made).split())
    assert "By its file the run stopped after its pilot: joining pays for nobody." in text
    assert "Of this owner's budget for it, ε = 0.75 is not spent, and is kept" in text
    assert "The 3 steps of the pilot follow" in text
    assert f"docs/proofs/{asked}.md" in text
    assert "docs/proofs/phases.md" in text
    assert "docs/proofs/laplace.md" not in text
    if asked == "lengths":
        with pytest.raises(
            InvalidInput, match=r"after its pilot: no model follows from .* the agreed start; use it as it is"
        ):
            Model.load(tmp_path / "run.json")


def test_a_report_links_the_proof_of_each_phase_that_was_answered(tmp_path: Path) -> None:
    conducted(tmp_path, piloted(), goes_on())
    (run,) = document(tmp_path / "bank-1.ledger", [], [piloted()])["runs"]
    assert [one["mechanism"] for one in run["agreement"]["proofs"]] == ["pilot", "laplace", "phases"]


@pytest.mark.parametrize("mechanism", ["pilot", "lengths"])
def test_of_a_run_that_stopped_after_its_pilot_it_is_said_what_its_model_is(tmp_path: Path, mechanism: str) -> None:
    record = conducted(tmp_path, piloted(), keep).run.record()
    record["phases"][0]["mechanism"] = mechanism
    _, known, stopped = phases_told(record)
    assert "Now we know: the run would end 2" in str(known)
    assert "the run ends" not in str(known)
    model = {
        "pilot": "The model is of the pilot's answers alone.",
        "lengths": "No model follows from the pilot's answers alone: the model file has the agreed start.",
    }
    assert str(stopped).endswith(model[mechanism])


def test_owners_of_a_table_with_a_count_are_counted_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three owners that one table describes were one."""
    clinic, end = SimpleNamespace(name="clinic", verdict="no", probability=0.0, count=3), np.zeros(1)
    ψ = SimpleNamespace(end={"median": 0.02, "low": 0.01, "high": 0.3}, k=end, low=end, median=end, high=end)
    found = SimpleNamespace(
        owners=[clinic], recommended=SimpleNamespace(relative_fitness=ψ), options={"runs": 1, "seed": 0}
    )
    monkeypatch.setattr(phases, "forecast_of", lambda *_: found)
    said: Any = SimpleNamespace(before=None, after=found)
    assert "pays for 0, not for 3, open for 0 of 3 owners" in now_known(phases.AfterPilot.said(said))


def test_a_forecast_beside_what_a_run_spent_has_the_pilot_in_it(tmp_path: Path) -> None:
    record = conducted(tmp_path, piloted(), goes_on()).run.record()
    ((_, totals),) = verify(tmp_path / "bank-1.ledger").runs.items()
    told = replace(verify_run(tmp_path / "run.db"), record={**record, "forecast": record["realised"]})
    file = RunRead("run.db", told, (), None, {}, {})
    rows = {row["what"]: row for row in _beside(piloted(), "bank-1", totals, file)}
    assert [(rows[what]["forecast"], rows[what]["realised"]) for what in ("answers", "epsilon")] == [(4, 4), (1.0, 1.0)]


def test_what_is_paid_ahead_in_a_phase_is_not_spent_in_it_and_nothing_is_wrong(tmp_path: Path) -> None:
    """An owner with payment ahead is looked at in the middle of the run."""
    agreed = piloted()
    pilot, run = agreed.phases[0], agreed.chosen_run(CHOSEN)
    with opened(tmp_path / "l", "bank-1", Fraction(1), ahead=2) as file:
        ledger = file.run(agreed.fingerprint, "r" * 32, Fraction(1), pilot.answers + run.answers)
        for k, terms in enumerate((pilot, run), start=1):
            ε = Fraction(terms.terms_of("bank-1").epsilon)
            phase = PhaseBudget(k, ε, terms.answers, terms=terms.fingerprint)
            ledger.charge(f"q{k}", np.zeros(3), ε / terms.answers, phase=phase)
            ledger.record(f"q{k}", np.zeros(3))
    totals = verify(tmp_path / "l")
    (told,) = totals_fields(totals)["runs"]
    assert (totals.spent, totals.ahead) == (Fraction(1, 2), Fraction(1, 2))
    assert [(one["spent"], one["answers"]) for one in told["phases"]] == [(0.25, 1), (0.25, 1)]
    assert sum(one["spent"] for one in told["phases"]) == told["spent"]
    assert document(tmp_path / "l", [], [agreed])["problems"] == []


def of_sums(mechanism: str, bound: object, delta: float) -> Agreement:
    return Agreement.of({
        "agreement": {
            "rule": "S2", "horizon": 8, "answers": 3, "step": "auto", "aggregation": "sum", "colluding": 1, "attempts": 1,
            "pilot": 0.2, "ranges": {"step": [0.01, 10.0]} | ({"gradient_bound": [0.1, 10.0]} if bound == "auto" else {}),
            "mechanism": mechanism, "pilot_terms": {"start": [0.0] * 3, "gradient_bound": 1.0, "feature_bound": 1.0},
        },
        "model": {"loss": "squared", "regularization": 0.1, "theta_max": 10.0, "gradient_bound": bound},
        "data": {"components": 3, "feature_bound": 1.0},
        "owner": [{"name": f"bank-{i}", "records": 1000, "epsilon": 1.0, "delta": delta} for i in range(10)],
    })  # fmt: skip


@pytest.mark.parametrize("bound", ["auto", 1.0])
@pytest.mark.parametrize(("mechanism", "delta"), [("laplace", 0.0), ("gaussian", 1e-6)])
def test_of_a_pilot_in_sums_each_phase_has_its_promise_whole(mechanism: str, bound: object, delta: float) -> None:
    """The promise was that of the run alone, at the budget of both phases, or none; and it was cut at 500 characters."""
    agreed = of_sums(mechanism, bound, delta)
    told = _promised(agreed, "bank-0", True)
    pilot, run = promises(agreed, "bank-0")
    assert told["promise"] == f"{pilot}; {run}"
    assert "epsilon 0.2 over the run, against everybody outside and the learner with any 1 other owner" in pilot
    assert "if all the others work together, a share hides little" in pilot
    assert "then at most 3 answers" in run
    assert "epsilon 0.8" in run
    remaining = agreed.phases[1].mechanism.remaining(agreed.phases[1], agreed.phases[1].owner[0])
    hides = f"epsilon {remaining:.3g} at this delta if all" if remaining else "a share hides little"
    assert hides in run
    assert told["what"] == ""
