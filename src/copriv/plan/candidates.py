"""The candidates of a plan, where the agreement leaves it open: mechanisms of noise, rules, answers, starts."""

from collections.abc import Sequence

import numpy as np

from copriv import mechanisms, rules
from copriv.agreement import Agreement
from copriv.errors import AgreementError
from copriv.mechanisms import GradientNoise, Guarantee
from copriv.rules import Way

ANSWERS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48)
PRECONDITIONERS: tuple[float, ...] = (0.0, 0.5, 1.0)
"""Candidates for γ in P = (A/a_max)^−γ: none, half, Newton's."""
_COMMUNICATION = {True: "synchronous", False: "asynchronous"}


def leaves_open(agreement: Agreement) -> bool:
    """Whether a term is "auto", so that the agreement must be planned before it can be run."""
    terms = agreement.agreement
    return "auto" in (terms.rule, terms.step, terms.group_size, agreement.model.gradient_bound)


def noises_of(agreement: Agreement) -> tuple[GradientNoise, ...]:
    """The mechanisms of noise on gradients to weigh; under a mechanism of one answer, what the table stands for."""
    agreed, default = agreement.mechanism, mechanisms.ALL[0]
    if agreed is default:
        return tuple(one for one in mechanisms.ALL if isinstance(one, GradientNoise) and one.weighed(agreement))
    noise = agreed
    if not isinstance(noise, GradientNoise):
        noise = default
    assert isinstance(noise, GradientNoise)
    return (noise,)


def opted_for_delta(agreement: Agreement) -> bool:
    """Whether every owner states a δ: the opt-in to (ε, δ)."""
    return all(owner.delta > 0 for owner in agreement.owner_tables)


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


def participants_of(agreement: Agreement, size: int | None = None) -> int:
    """How many answer by themselves, where a plan groups owners by `size`, or as it is agreed."""
    if size is None:
        return agreement.n_participants
    return agreement.participants_in_groups_of(size)


def sizes_of(agreement: Agreement, way: Way) -> tuple[int | None, ...]:
    """Sizes of groups to weigh: powers of two and everybody, where the agreement leaves them open; None: as agreed."""
    if agreement.agreement.group_size != "auto" or way.together:
        return (None,)
    most = agreement.participants_in_groups_of(None)
    return (*(2**j for j in range(most.bit_length()) if 2**j < most), most)


def ways_of(agreement: Agreement) -> tuple[Way, ...]:
    """Rules, each in every way in which a plan may use it. Raises AgreementError where the agreed rule has none."""
    terms = agreement.agreement
    if terms.rule == "auto":
        every = [way for rule in rules.ALL for way in rule.ways]
        return tuple(way for way in every if terms.communication in ("any", _COMMUNICATION[way.together]))
    rule = rules.named(terms.rule)
    way = rule.way(terms)
    if way is None:
        why = rule.why_not_planned or (
            f'{rule.name} cannot be planned; name "auto", or fix its step, answers and gradient_bound'
        )
        raise AgreementError(f"agreement.rule: {why}")
    return (way,)


def answers_of(agreement: Agreement, way: Way) -> Sequence[int]:
    """Numbers of answers of each owner to weigh."""
    terms = agreement.agreement
    if terms.answers is not None:
        return (agreement.answers,)
    if terms.step != "auto" and way.together:
        return (agreement.queries,)
    if terms.step != "auto":
        return (agreement.answers,)
    return [m for m in ANSWERS if m <= max(terms.horizon - way.together, 1)]


def starts_of(agreement: Agreement, public_start: bool) -> tuple[str, ...]:
    """Starts to weigh, as `Choice.start` names them."""
    if agreement.agreement.start is not None:
        return ("agreed",)
    return ("zero", "public")[: 1 + public_start]
