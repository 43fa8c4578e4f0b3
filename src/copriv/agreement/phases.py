"""The phases of an agreement with a pilot: one private answer of each owner, then the run that is planned by them.

Before the pilot all parties sign which shares of ε and δ, mechanisms and numbers of answers both phases have, the pilot's own
terms (`pilot_terms`), and the `ranges` of the terms that its answers choose. `within` is what an owner checks of the chosen
ones; its guarantee does not rest on them, as each phase keeps its budget for any of them (docs/proofs/phases.md).
"""

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import nextafter
from typing import Any

import numpy as np

from copriv.agreement.sums import IN_SUMS
from copriv.errors import AgreementError
from copriv.formatting.sanitize import printable
from copriv.mechanisms import Pilot
from copriv.mechanisms.lengths import Lengths, longest_row
from copriv.rules import WITHOUT_WAITING
from copriv.terms import AgreedTerms
from copriv.terms.learning import RANGED, PilotTerms
from copriv.terms.values import LEAST_BUDGET


def check_pilot(agreed: AgreedTerms) -> None:
    """Raise AgreementError for terms that cannot be combined with a pilot."""
    if agreed.agreement.mechanism == Pilot.name:
        raise AgreementError(
            "agreement.pilot: the run after it cannot be a pilot too; leave agreement.mechanism out to have it planned"
        )
    if agreed.model.gradient_bound_assumed:
        raise AgreementError(
            "agreement.pilot: clips every gradient, and model.gradient_bound_assumed says that nothing does; leave one out"
        )
    asked, parts = agreed.agreement.pilot_terms, agreed.agreement.pilot_parts
    if parts is not None or (agreed.data.declared_only and asked is not None and asked.pilot_parts is not None):
        raise AgreementError(
            "agreement.pilot_parts: the parts of a pilot before a run are planned, and stand in pilot_terms; without public "
            "rows it has none; leave pilot_parts out"
        )
    if agreed.data.declared_only and asked is not None and asked.public is not None:
        raise AgreementError(
            "agreement.pilot_terms.public: names a file of public rows, and data.public_rows = 0 says that none are public; "
            "leave one of the two out"
        )
    if asked is not None:
        _check_point(asked, agreed.model.theta_max)
    share, least = agreed.agreement.pilot, min(owner.epsilon for owner in agreed.owner)
    if isinstance(share, float) and min(share * least, _rest(least, share)) < LEAST_BUDGET:
        raise AgreementError(
            f"agreement.pilot: a share of {share:g} of an epsilon of {least:g} is too little for one of the phases, which "
            f"take at least {LEAST_BUDGET:g} each; agree on a share such as 0.1"
        )


def _check_point(asked: PilotTerms, theta_max: float) -> None:
    """Raise AgreementError where no owner would answer a pilot there."""
    p, metric = len(asked.start), asked.preconditioner
    if metric is not None and len(metric) != p:
        raise AgreementError(
            f"agreement.pilot_terms.preconditioner: needs {p} rows of {p} numbers, as many as pilot_terms.start has, and not "
            f"{len(metric)}; copriv forecast --out DIR writes both"
        )
    if metric is not None and np.linalg.cond(np.array(metric)) > 1e14:
        raise AgreementError(
            "agreement.pilot_terms.preconditioner: has a direction of which it is 0, and a pilot asks for a gradient in every "
            "direction; copriv forecast --out DIR writes one"
        )
    if max(map(abs, asked.start), default=0.0) > theta_max:
        raise AgreementError(
            f"agreement.pilot_terms.start: owners answer within model.theta_max = {theta_max:g}, and a number of it is beyond; "
            "copriv forecast --out DIR writes it"
        )


def documents_of(agreed: AgreedTerms, share: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """The documents of the pilot, with the share of every ε, and of the run after it.

    The pilot is asked at the public model, in the public metric: start, preconditioner and Ξ of the agreement are the run's.
    Without public rows it asks how long rows are and where targets lie.
    """
    document = agreed.model_dump(mode="python", exclude_none=True, by_alias=True)
    whole, own = document["agreement"], document["agreement"].get("pilot_terms", {})
    only_before = ("pilot", "pilot_terms", "ranges")
    run = {**document, "agreement": {key: value for key, value in whole.items() if key not in only_before}}
    run["owner"] = [{**owner, **_each(owner, lambda whole: _rest(whole, share))} for owner in document["owner"]]
    in_common: tuple[str, ...] = ("name", "seed", "goal", "worthwhile", "learner_key", *IN_SUMS)
    if agreed.agreement.agreed_talk is not None:  # owners get their turns in one way during a run
        in_common += ("schedule", "interval", "service")
    terms = {key: whole[key] for key in in_common if key in whole}
    asked, bound = Pilot.name, own.get("gradient_bound", "auto")
    if agreed.data.declared_only:
        asked, bound = Lengths.name, 1.0  # the bound on gradients, which are not asked for
        terms["reach"] = longest_row(agreed)
    once = 1 + agreed.summed * agreed.attempts
    horizon = max(agreed.n_owners, once)
    terms |= {"rule": WITHOUT_WAITING.name, "horizon": horizon, "answers": once, "mechanism": asked}
    terms |= {key: own[key] for key in ("start", "preconditioner", "reach", *Pilot.terms) if key in own}
    model = {**document["model"], "gradient_bound": bound}
    pilot = {**document, "agreement": terms, "model": model}
    if "feature_bound" in own:
        pilot["data"] = {**document["data"], "feature_bound": own["feature_bound"]}
    pilot["owner"] = [
        {**owner, "group": None, "delta": 0.0, **_each(owner, lambda whole: share * whole)}
        for owner in document["owner"]
    ]
    return pilot, run


def _each(owner: Mapping[str, Any], part: Callable[[float], float]) -> dict[str, float]:
    """A phase's part of an owner's ε, and of its floor."""
    return {key: part(owner[key]) for key in ("epsilon", "floor") if key in owner}


def _rest(epsilon: float, share: float) -> float:
    """The largest float that is at most ε minus the pilot's part."""
    left = epsilon - share * epsilon
    while Fraction(left) + Fraction(share * epsilon) > Fraction(epsilon):
        left = nextafter(left, 0.0)
    return left


def within(agreed: AgreedTerms, chosen: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The chosen terms, by table, as changes of the run's agreement.

    Raises AgreementError for a term that was not left open, of another size than θ, or with a number out of its agreed range.
    """
    ranges, changes = agreed.agreement.ranges or {}, dict[str, dict[str, Any]]()
    asked = agreed.agreement.pilot_terms
    for key, value in chosen.items():
        name = printable(key, 40)
        if key not in ranges:
            open_to = ", ".join(ranges) or "nothing"
            raise AgreementError(f"agreement.ranges: {name} is not open; what the pilot may choose is {open_to}")
        low, high = ranges[key]
        try:
            numbers = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise AgreementError(f"agreement.ranges: {name} was chosen as what is no number") from None
        if asked:
            p = len(asked.start)
            size = {"start": (p,), "preconditioner": (p, p)}.get(key, ())
            if numbers.shape != size:
                raise AgreementError(
                    f"agreement.ranges: {name} was chosen with shape {numbers.shape}, and pilot_terms.start takes {size}"
                )
        if not ((numbers >= low) & (numbers <= high)).all():
            raise AgreementError(
                f"agreement.ranges: {name} was chosen as {numbers if numbers.ndim == 0 else 'numbers'} out of its range, "
                f"{low:g} to {high:g}; only what was signed before the pilot may be chosen after it"
            )
        changes.setdefault(RANGED[key], {})[key] = value
    return changes
