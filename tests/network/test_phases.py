"""A run of two phases over a network: a pilot, what is chosen by its answers, and the run after it, each on its own budget."""

import asyncio
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from copriv.agreement import Agreement
from copriv.errors import AgreementError
from copriv.network.run import Run
from copriv.network.run_state import Conductor, Decision
from copriv.network.turns import Conduct
from copriv.network.verify import verify_run
from copriv.privacy.ledger.read import read_lines, verify
from network_parties import NAMES, Consortium, agreement, finished

pytest.importorskip("dp_accounting")

QUICK = Conduct(deadline=2.0, patience=5.0)
P = [[2.0, 0.3, 0.0], [0.3, 1.0, 0.1], [0.0, 0.1, 1.5]]
CHOSEN = {"step": 0.5, "gradient_bound": 1.5, "start": [0.1, -0.2, 0.0], "preconditioner": P}
KNOWN = {"public": "", "before": {}, "after": {}}


def piloted(mechanism: str = "laplace", share: float = 0.25, answers: int = 3, **owner: Any) -> Agreement:
    """Terms as they are signed before the pilot: what it may choose has a range."""
    terms = agreement(horizon=3 * answers, answers=answers, **owner)
    return terms.replace(
        agreement={
            "mechanism": mechanism,
            "pilot": share,
            "pilot_terms": {"start": [0.2, 0.1, 0.0], "gradient_bound": 1.0, "feature_bound": 1.0, "preconditioner": P},
            "ranges": {
                "step": [0.01, 10.0],
                "gradient_bound": [0.1, 10.0],
                "start": [-1, 1],
                "preconditioner": [-5, 5],
            },
            "step": "auto",
        },
        model={"gradient_bound": "auto"},
    )


def goes_on(chosen: Mapping[str, Any] = CHOSEN) -> Any:
    return lambda run: Decision(chosen, "joining pays", KNOWN)


def keep(run: Run) -> Decision:
    return Decision(None, "joining pays for nobody", KNOWN)


def conducted(folder: Path, agreed: Agreement, decide: Any, kind: str = "memory", **options: Any) -> Conductor:
    return asyncio.run(Consortium(folder, agreed, kind).run(QUICK, decide=decide, **options))


@pytest.mark.parametrize("kind", ["memory", "grpc"])
def test_both_phases_are_answered_from_one_ledger_and_the_chain_is_one(tmp_path: Path, kind: str) -> None:
    agreed = piloted()
    conductor = conducted(tmp_path, agreed, goes_on(), kind)
    assert finished(conductor), conductor.outcome
    assert (conductor.run.phase, conductor.agreement) == (2, agreed.chosen_run(CHOSEN))
    for name in NAMES:
        ledger = tmp_path / f"{name}.ledger"
        assert verify(ledger).spent == 1
        said = [
            (line.identity, line.epsilon, line.content.split()[0])
            for line in read_lines(ledger)
            if line.kind == "phase"
        ]
        assert said == [("1", Fraction(1, 4), "1"), ("2", Fraction(3, 4), "3")]
    if kind == "grpc":
        verdict = verify_run(tmp_path / "run.db", agreed)
        assert verdict.ok, verdict.problems
        assert verdict.answers == dict.fromkeys(NAMES, 4)
        assert verdict.missing == {}
        np.testing.assert_array_equal(verdict.model, conductor.model)
    record = conductor.run.record()
    assert [(o["answers"], o["most_answers"], o["spent"]) for o in record["owners"]] == [(4, 4, 1.0)] * 3
    assert [(one["mechanism"], one["epsilon"]["bank-1"]) for one in record["phases"]] == [
        ("pilot", 0.25),
        ("laplace", 0.75),
    ]


def test_the_rest_of_the_budget_is_kept_where_the_pilot_says_so(tmp_path: Path) -> None:
    conductor = conducted(tmp_path, piloted(), keep, "grpc")
    assert finished(conductor)
    assert conductor.outcome.reason == "joining pays for nobody"
    assert {verify(tmp_path / f"{name}.ledger").spent for name in NAMES} == {Fraction(1, 4)}
    verdict = verify_run(tmp_path / "run.db")
    assert verdict.ok, verdict.problems
    assert (verdict.run_state.kept, verdict.not_closed) == ("joining pays for nobody", ())


def test_a_pure_pilot_and_then_delta(tmp_path: Path) -> None:
    δ = 1e-6
    conductor = conducted(tmp_path, piloted("gaussian", delta=δ), goes_on())
    assert finished(conductor), conductor.outcome
    for name in NAMES:
        costs = [(one.epsilon, one.delta) for one in read_lines(tmp_path / f"{name}.ledger") if one.kind == "charge"]
        assert costs == [(Fraction(1, 4), 0), (Fraction(3, 4), Fraction(δ)), (0, 0), (0, 0)]
