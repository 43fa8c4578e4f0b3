"""The phases of an agreement with a pilot: one private answer of each owner, then the run that is planned by them.

Both phases are ordinary agreements. Their shares of ε and δ are fixed before the first, as are the pilot's mechanism and its
one answer; together they spend each owner's ε at most (docs/proofs/phases.md).
"""

from fractions import Fraction
from math import nextafter
from typing import Any

from copriv.errors import AgreementError
from copriv.mechanisms import Pilot
from copriv.rules import WITHOUT_WAITING
from copriv.terms import AgreedTerms

PILOT = 0.1
"""Share of every owner's ε where `agreement.pilot` is "auto"."""
_COMMON = ("name", "seed", "goal", "worthwhile", "learner_key")
"""Keys of [agreement] that a pilot has in common with the run."""


def pilot_share(agreed: AgreedTerms) -> float:
    """Share of ε that the pilot has; 0 where there is none."""
    share = agreed.agreement.pilot or 0.0
    return PILOT if share == "auto" else share


def check_pilot(agreed: AgreedTerms) -> None:
    """Raise AgreementError for terms that no pilot goes with."""
    if agreed.agreement.mechanism == Pilot.name:
        raise AgreementError(
            "agreement.pilot: the run after it cannot be a pilot too; leave agreement.mechanism out to have it planned"
        )
    if agreed.summed:
        raise AgreementError(
            'agreement.pilot: the learner sees each answer of a pilot, where aggregation = "sum" says that it sees none; '
            "leave one out"
        )
    if agreed.model.gradient_bound_assumed:
        raise AgreementError(
            "agreement.pilot: clips every gradient, and model.gradient_bound_assumed says that nothing does; leave one out"
        )


def documents_of(agreed: AgreedTerms) -> tuple[dict[str, Any], dict[str, Any]]:
    """The documents of the pilot and of the run after it.

    The pilot is asked at the public model, in the public metric: start, preconditioner and Ξ of the agreement are the run's.
    """
    share = pilot_share(agreed)
    document = agreed.model_dump(mode="python", exclude_none=True, by_alias=True)
    whole = document["agreement"]
    run = {**document, "agreement": {key: value for key, value in whole.items() if key != "pilot"}}
    run["owner"] = [{**owner, "epsilon": _rest(owner["epsilon"], share)} for owner in document["owner"]]
    terms = {key: value for key, value in whole.items() if key in _COMMON}
    terms |= {"rule": WITHOUT_WAITING.name, "horizon": agreed.n_owners, "answers": 1, "mechanism": Pilot.name}
    pilot = {**document, "agreement": terms, "model": {**document["model"], "gradient_bound": "auto"}}
    pilot["owner"] = [
        {**owner, "group": None, "epsilon": share * owner["epsilon"], "delta": 0.0} for owner in document["owner"]
    ]
    return pilot, run


def _rest(epsilon: float, share: float) -> float:
    """The largest float that is at most ε less the pilot's part of it."""
    left = epsilon - share * epsilon
    while Fraction(left) + Fraction(share * epsilon) > Fraction(epsilon):
        left = nextafter(left, 0.0)
    return left
