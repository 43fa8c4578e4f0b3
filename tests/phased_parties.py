"""A small consortium with a pilot, for the network's tests: what is signed before it, and a learner that decides at once."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from copriv.agreement import Agreement
from copriv.network.run import Run
from copriv.network.run_state import Conductor, Decision
from copriv.network.turns import Conduct
from network_parties import Consortium, agreement

QUICK = Conduct(deadline=2.0, patience=5.0)
P = [[2.0, 0.3, 0.0], [0.3, 1.0, 0.1], [0.0, 0.1, 1.5]]
CHOSEN = {"step": 0.5, "gradient_bound": 1.5, "start": [0.1, -0.2, 0.0], "preconditioner": P}
BAND = {"k": [0, 1], "low": [0.01, 0.01], "median": [0.02, 0.02], "high": [0.4, 0.3]}
TOLD: dict[str, Any] = {
    "relative_fitness": {"median": 0.02, "low": 0.01, "high": 0.3},
    "band": BAND,
    "owners": {"bank-1": {"verdict": "yes", "probability": 0.9}, "bank-2": {"verdict": "open", "probability": 0.5}},
}
KNOWN = {"public": "", "before": TOLD, "after": TOLD}


def piloted(mechanism: str = "laplace", share: float = 0.25, answers: int = 3, **owner: Any) -> Agreement:
    """Terms as they are signed before the pilot: what it may choose has a range."""
    terms = agreement(horizon=3 * answers, answers=answers, **owner)
    return terms.replace(
        agreement={
            "mechanism": mechanism,
            "pilot": share,
            "pilot_terms": {
                "start": [0.2, 0.1, 0.0],
                "gradient_bound": 1.0,
                "feature_bound": 1.0,
                "preconditioner": P,
                "pilot_parts": {"gradient": 0.75, "record_lengths": 0.25},
            },
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
