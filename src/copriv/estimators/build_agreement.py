"""Build the agreement of an estimator from its parameters: planned on public rows, or without data.

Without public rows each owner fits a model of its own to a tilted fitness and answers once with it, from zero, and the
models are averaged: the one mechanism for all four losses whose settings need no data. Ξ then follows from the declared
ranges: for classes no gradient is above it; for numbers those of residuals up to half of the target's range are not.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from copriv import mechanisms
from copriv.agreement import Agreement
from copriv.errors import AgreementError
from copriv.losses import OfMargin, named
from copriv.mechanisms import OneAnswer
from copriv.model.records import Records
from copriv.plan import plan
from copriv.problem import Problem
from copriv.rules import WITHOUT_WAITING

HORIZON = 1000
"""Largest horizon T of a plan."""
ROUNDING = 1e-9
"""Relative margin of bounds on lengths, for floating-point rounding."""


@dataclass(frozen=True)
class OwnersPart:
    """Public terms of one owner."""

    records: int
    epsilon: float
    delta: float


@dataclass(frozen=True)
class Wanted:
    """Public parameters of a fit; columns and target are in [−1, 1]."""

    loss: str
    threshold: float
    regularization: float
    intercept: bool
    feature_bound: float | Literal["auto"]
    owners: Mapping[str, OwnersPart]
    columns: int

    def document(self) -> dict[str, Any]:
        """The agreement, with rule, step and bounds left to be planned."""
        return {
            "agreement": {"name": "estimator", "rule": "auto", "horizon": HORIZON},
            "model": {
                "loss": self.loss, "threshold": self.threshold, "regularization": self.regularization,
                "intercept": self.intercept,
            },
            "data": {
                "components": 0, "feature_bound": self.feature_bound, "target": "target",
                "features": [f"x{j}" for j in range(self.columns)],
            },
            "owner": [{"name": name, **vars(part)} for name, part in self.owners.items()],
        }  # fmt: skip


def planned(wanted: Wanted, public: Records) -> tuple[Agreement, Problem]:
    """Plan on the public rows; return the agreement, and the problem with these rows in place of every owner's."""
    document = wanted.document()
    document["data"]["public_rows"] = len(public)
    problem = Problem.forecasting(Agreement.of(document), public)
    agreement = plan(problem, one_answer=True).agreement
    return agreement, problem.under(agreement)


def without_data(wanted: Wanted) -> Agreement:
    """Derive all terms from what is declared, without any rows."""
    loss = named(wanted.loss, wanted.threshold)
    mechanism = next(
        one for one in reversed(mechanisms.ALL)
        if isinstance(one, OneAnswer) and one.suits(loss) and "anchor" in one.terms
    )  # fmt: skip
    deltas = {part.delta > 0 for part in wanted.owners.values()}
    if len(deltas) > 1:
        raise AgreementError("delta: either every owner has one above 0, or none")
    # Columns in [−1, 1] have ‖x‖₁ ≤ p and ‖x‖₂ ≤ √p: rows are no longer than that, whatever is in them.
    B = float(wanted.columns) if wanted.feature_bound == "auto" else wanted.feature_bound
    extra = float(wanted.intercept)
    longest = float(np.sqrt(min(B**2, wanted.columns) + extra)) * (1 + ROUNDING)
    slope = loss.slope_bound(np.inf, 1.0) if isinstance(loss, OfMargin) else loss.slope_bound(1.0, 0.0)
    document = wanted.document()
    document["agreement"] |= {
        "rule": WITHOUT_WAITING.name, "mechanism": mechanism.name, "horizon": len(wanted.owners), "answers": 1,
        "step": 1.0, "reach": longest,
    }  # fmt: skip
    document["model"]["gradient_bound"] = slope * (longest if deltas == {True} else B + extra) * (1 + ROUNDING)
    document["data"]["feature_bound"] = B * (1 + ROUNDING)
    return Agreement.of(document)
