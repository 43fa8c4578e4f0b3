"""The agreement that an estimator's parameters declare. No private value is used.

The agreement is planned on public rows. Without them each owner answers once, from zero: with a model of its own, fitted to
a tilted fitness, or with noisy moments. Which of them, whether with δ, how firmly it is tied to 0 and in which unit columns
stand beside the intercept is chosen by the expected cost over tables such as there are (`copriv.mechanisms.expected`). Ξ
follows from the declared ranges: for classes no gradient is above it; for numbers those of residuals up to half of the
target's range are not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import numpy as np

from copriv import mechanisms
from copriv.agreement import Agreement
from copriv.errors import AgreementError
from copriv.losses import named
from copriv.mechanisms import OneAnswer
from copriv.mechanisms.expected import ROUNDED, SCALES, TIGHTER, Declared
from copriv.model.records import Records
from copriv.plan import plan
from copriv.problem import Problem
from copriv.rules import WITHOUT_WAITING
from copriv.terms import ModelTerms

DROWNED = 0.9
"""An expected gap above this is said in a warning."""


class UndeclaredWarning(UserWarning):
    """Something that should be declared was not; the message says what was taken in its place.

    >>> import warnings
    >>> from copriv.estimators import UndeclaredWarning
    >>> warnings.simplefilter("error", UndeclaredWarning)  # bounds are then declared, or there is no fit
    >>> warnings.resetwarnings()
    """


def terms(
    *, columns: int, loss: str, threshold: float, regularization: float, intercept: bool,
    feature_bound: float | Literal["auto"], owners: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:  # fmt: skip
    """The agreement of a fit with columns and target in [−1, 1]; rule, step and bounds are left to be planned.

    owners: name, records, epsilon and delta of each.
    """
    return {
        "agreement": {"name": "estimator", "rule": "auto", "horizon": 1000},
        "model": {"loss": loss, "threshold": threshold, "regularization": regularization, "intercept": intercept},
        "data": {
            "components": 0, "feature_bound": feature_bound, "target": "target",
            "features": [f"x{j}" for j in range(columns)],
        },
        "owner": owners,
    }  # fmt: skip


def planned(wanted: Mapping[str, Any], public: Records) -> tuple[Agreement, Problem]:
    """Plan on the public rows; return the agreement, and the problem with these rows in place of every owner's."""
    document = {**wanted, "data": {**wanted["data"], "public_rows": len(public)}}
    problem = Problem.forecasting(Agreement.of(document), public)
    agreement = plan(problem, one_answer=True).agreement
    return agreement, problem.under(agreement)


@dataclass(frozen=True, eq=False)
class Settled:
    """Terms that follow from what is declared, without any rows."""

    agreement: Agreement
    """For columns in [−scale, scale]."""
    scale: float
    expected_gap: float
    """What is expected to be left between the best model, 0, and a constant one, 1 (`copriv.mechanisms.expected`)."""


def without_data(wanted: Mapping[str, Any], row_norm: float | None = None) -> Settled:
    """Derive all terms from what is declared, without any rows: those of the least expected cost.

    row_norm: the largest ‖x‖₂ of a row with columns in [−1, 1]; None: what follows from the other bounds. A row that is
    longer counts for less. Pure ε is (ε, δ), so owners that state a δ may be asked with δ = 0.
    """
    model, data = wanted["model"], wanted["data"]
    loss = named(model["loss"], model["threshold"])
    approximate = {owner["delta"] > 0 for owner in wanted["owner"]}
    if len(approximate) > 1:
        raise AgreementError("delta: either every owner has one above 0, or none")
    # Columns in [−1, 1] have ‖x‖₁ ≤ p and ‖x‖₂ ≤ √p: rows are no longer than that, whatever is in them.
    columns = len(data["features"])
    longest = float(min(np.sqrt(columns), np.inf if row_norm is None else row_norm))
    B = min(columns, np.sqrt(columns) * longest) if data["feature_bound"] == "auto" else data["feature_bound"]
    found = []
    scales, tighter = SCALES if model["intercept"] else (1.0,), TIGHTER if data["feature_bound"] == "auto" else (1.0,)
    for kept, scale, tightness in product({0.0, float(approximate == {True})}, scales, tighter):
        owners = [{**owner, "delta": owner["delta"] * kept} for owner in wanted["owner"]]
        declared = Declared(
            loss=loss, smoothing=ModelTerms.model_fields["smoothing"].default, regularization=model["regularization"],
            columns=columns, intercept=model["intercept"], feature_bound=float(B * scale * tightness),
            row_norm=float(min(B, longest) * scale * tightness), tightness=tightness,
            owners=tuple((owner["records"], owner["epsilon"], owner["delta"]) for owner in owners),
        )  # fmt: skip
        for mechanism in mechanisms.ALL:
            if isinstance(mechanism, OneAnswer) and mechanism.suits(loss):
                for gap, setting in mechanism.expected(declared):
                    found.append((gap, mechanism.name, setting, declared, owners, scale))
    gap, name, setting, declared, owners, scale = min(found, key=lambda one: one[0])
    settled = {"rule": WITHOUT_WAITING.name, "mechanism": name, "horizon": len(owners), "answers": 1, "step": 1.0}
    agreement = Agreement.of({
        **wanted, "agreement": {**wanted["agreement"], **settled, **setting.terms},
        "model": {**model, "gradient_bound": setting.bound},
        "data": {**data, "feature_bound": declared.feature_bound * ROUNDED}, "owner": owners,
    })  # fmt: skip
    return Settled(agreement, float(scale), gap)


def enough(wanted: Mapping[str, Any], row_norm: float | None) -> str:
    """The least ε, by doubling, of which a constant is not expected, as a sentence."""
    times = 1.0
    while times < 2.0**20:
        times *= 2.0
        owners = [{**owner, "epsilon": times * owner["epsilon"]} for owner in wanted["owner"]]
        if without_data({**wanted, "owner": owners}, row_norm).expected_gap <= DROWNED:
            ε = max(owner["epsilon"] for owner in owners)
            return f"It takes an epsilon of {ε:.2g}, or {times:g} times as many rows."
    return "No epsilon that is private would do."
