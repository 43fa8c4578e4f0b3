"""What a plan may choose from, where the agreement leaves it open: noises, rules, answers, starts."""

from collections.abc import Sequence

import numpy as np

from copriv import mechanisms
from copriv.agreement import Agreement
from copriv.errors import AgreementError
from copriv.mechanisms import GradientNoise, Guarantee
from copriv.plan.rule_response import Way

ANSWERS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48)
PRECONDITIONERS = (0.0, 0.5, 1.0)
"""Candidates for γ in P = (A/a_max)^−γ: none, half, Newton's."""


def noises_of(agreement: Agreement) -> tuple[GradientNoise, ...]:
    """The mechanisms of noise on gradients to weigh; under a mechanism of one answer, what the table stands for."""
    agreed, default = agreement.mechanism, mechanisms.ALL[0]
    assert isinstance(default, GradientNoise)
    if isinstance(agreed, GradientNoise):
        if agreed is not default:
            return (agreed,)
        return tuple(one for one in mechanisms.ALL if isinstance(one, GradientNoise) and one.weighed(agreement))
    return (default,)


def opted_for_delta(agreement: Agreement) -> bool:
    """Whether every owner states a δ: the opt-in to (ε, δ)."""
    return all(owner.delta > 0 for owner in agreement.owner)


def variances_of(agreement: Agreement, noises: Sequence[GradientNoise], answers: int) -> dict[GradientNoise, float]:
    """v(m) of each mechanism; without those whose δ gains nothing over pure ε, with Ξ in the same norm."""
    found = {noise: noise.variance(agreement, answers) for noise in noises}
    pure = {noise.norm: v for noise, v in found.items() if noise.guarantee is Guarantee.PURE}
    return {
        noise: v
        for noise, v in found.items()
        if noise.guarantee is Guarantee.PURE or v <= 0.99 * pure.get(noise.norm, np.inf)
    }


def freed(agreement: Agreement) -> Agreement:
    """The agreement with nothing fixed that a plan may choose."""
    document = agreement.to_dict()
    own = (key for mechanism in mechanisms.ALL for key in mechanism.terms)
    for key in ("answers", "start", "preconditioner", "window", "mechanism", *own):
        document["agreement"].pop(key, None)
    document["agreement"] |= {"rule": "auto", "step": "auto"}
    document["model"] |= {"gradient_bound": "auto", "gradient_bound_assumed": False}
    document["data"] |= {"feature_bound": "auto"}
    return Agreement.of(document)


def talkers_of(agreement: Agreement) -> int:
    return len({owner.group or ("", owner.name) for owner in agreement.owner})


def ways_of(agreement: Agreement) -> tuple[Way, ...]:
    terms = agreement.agreement
    match terms.rule:
        case "auto":
            synchronous: tuple[Way, ...] = ("S1", "S2", "S2 last")
            asynchronous: tuple[Way, ...] = ("A2", "A2 rounds")
            allowed = {"synchronous": synchronous, "asynchronous": asynchronous, "any": synchronous + asynchronous}
            return allowed[terms.communication]
        case "S2":
            return ("S2 last",) if terms.iterate == "last" else ("S2",)
        case "S1":
            return ("S1",)
        case "A2":
            return ("A2",) if terms.window == 1 else ("A2 rounds",)
    raise AgreementError(
        'agreement.rule: A1 cannot be planned (its step shrinks with T, erratum 5); name "auto" or "A2", or fix its '
        "step, answers and gradient_bound"
    )


def answers_of(agreement: Agreement, way: Way) -> Sequence[int]:
    terms = agreement.agreement
    if terms.answers is not None:
        return (agreement.answers,)
    if terms.step != "auto":
        return (agreement.answers if way.startswith("A2") else agreement.queries,)
    return [m for m in ANSWERS if m <= max(terms.horizon - (not way.startswith("A2")), 1)]


def starts_of(agreement: Agreement, public_start: bool) -> tuple[str, ...]:
    if agreement.agreement.start is not None:
        return ("agreed",)
    return ("zero", "public") if public_start else ("zero",)
