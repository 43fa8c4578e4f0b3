"""A run of two phases in an owner's papers: its ledger, its report, and the model learned at home say the same."""

from pathlib import Path
from typing import Any

import pytest

from copriv.display.ledger import phases_spent, totals_fields
from copriv.display.run import now_known, phases_told, promises
from copriv.privacy.ledger.read import verify
from copriv.report import RunFile, document
from phased_parties import TOLD, conducted, goes_on, keep, piloted


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
