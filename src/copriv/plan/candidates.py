"""Candidates for the terms that an agreement leaves open: mechanisms of noise, rules, numbers of answers, starts."""

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
    """Mechanisms of noise on gradients to price: the agreed one, all of them where it is the default."""
    agreed, default = agreement.mechanism, mechanisms.ALL[0]
    if agreed is default:
        return tuple(one for one in mechanisms.ALL if isinstance(one, GradientNoise) and one.weighed(agreement))
    # Under a mechanism of one answer, the table is that of the default.
    return tuple(one for one in (agreed, default) if isinstance(one, GradientNoise))[:1]


def opted_for_delta(agreement: Agreement) -> bool:
    """Whether every owner states a δ above 0, which allows (ε, δ)."""
    return all(owner.delta > 0 for owner in agreement.owner_tables)


def sums_of(agreement: Agreement, way: Way, size: int | None) -> tuple[tuple[int, ...], ...]:
    """Owners that are seen as a sum only, in this way and with groups of this size; none where each answer is seen."""
    if not agreement.summed:
        return ()
    return agreement.members_of(way.together, agreement.agreement.group_size if size is None else size)


def hidden(agreement: Agreement, groups: Sequence[tuple[int, ...]]) -> bool:
    """Whether no sum is of fewer than two owners beside the colluding ones."""
    return all(len(group) >= agreement.colluding + 2 for group in groups)


def variances_of(
    agreement: Agreement, noises: Sequence[GradientNoise], answers: int, groups: Sequence[tuple[int, ...]] = ()
) -> dict[GradientNoise, float]:
    """v(m) of each mechanism, without those whose δ gains less than 1 % over pure ε with Ξ in the same norm."""
    found = {noise: noise.variance(agreement, answers, groups) for noise in noises}
    pure = {noise.norm: v for noise, v in found.items() if noise.guarantee is Guarantee.PURE}
    return {
        noise: v
        for noise, v in found.items()
        if noise.guarantee is Guarantee.PURE or v <= 0.99 * pure.get(noise.norm, np.inf)
    }


def freed(agreement: Agreement) -> Agreement:
    """The agreement without the terms that a plan may choose."""
    document = agreement.to_dict()
    own = (key for mechanism in mechanisms.ALL for key in mechanism.terms)
    for key in ("answers", "start", "preconditioner", "window", "mechanism", *own):
        document["agreement"].pop(key, None)
    document["agreement"] |= {"rule": "auto", "step": "auto"}
    document["model"] |= {"gradient_bound": "auto", "gradient_bound_assumed": False}
    document["data"] |= {"feature_bound": "auto"}
    return Agreement.of(document)


def participants_of(agreement: Agreement, size: int | None = None) -> int:
    """Number of participants in groups of this size; None for the agreed groups."""
    if size is None:
        return agreement.n_participants
    return agreement.participants_in_groups_of(size)


def sizes_of(agreement: Agreement, way: Way) -> tuple[int | None, ...]:
    """Candidates for the size of groups: powers of two and all owners where it is "auto"; None for the agreed groups."""
    if agreement.agreement.group_size != "auto" or way.together:
        return (None,)
    most = agreement.participants_in_groups_of(None)
    return (*(2**j for j in range(most.bit_length()) if 2**j < most), most)


def ways_of(agreement: Agreement) -> tuple[Way, ...]:
    """Ways in which a plan may use the rules. Raises AgreementError for an agreed rule without one."""
    terms = agreement.agreement
    if terms.rule == "auto":
        every = [way for rule in rules.ALL for way in rule.ways]
        every = [way for way in every if terms.communication in ("any", _COMMUNICATION[way.together])]
        return tuple(way for way in every if way.together or (terms.robust is None and terms.graph is None))
    rule = rules.named(terms.rule)
    way = rule.way(terms)
    if way is None:
        why = rule.why_not_planned or (
            f'{rule.name} cannot be planned; name "auto", or fix its step, answers and gradient_bound'
        )
        raise AgreementError(f"agreement.rule: {why}")
    return (way,)


def answers_of(agreement: Agreement, way: Way) -> Sequence[int]:
    """Candidates for the number of answers of each owner."""
    terms = agreement.agreement
    if terms.answers is not None:
        return (agreement.answers,)
    if terms.step != "auto" and way.together:
        return (agreement.queries,)
    if terms.step != "auto":
        return (agreement.answers,)
    return [m + agreement.attempts for m in ANSWERS if m <= max(terms.horizon - way.together - agreement.attempts, 1)]


def starts_of(agreement: Agreement, public_start: bool) -> tuple[str, ...]:
    """Candidates for the start, as in `Choice.start`."""
    if agreement.agreement.start is not None:
        return ("agreed",)
    return ("zero", "public")[: 1 + public_start]
