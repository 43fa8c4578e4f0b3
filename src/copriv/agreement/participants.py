"""The participants of an agreement and its update rule, for simulations and for learners over a network."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.errors import AgreementError
from copriv.mechanisms import OneAnswer
from copriv.model.fitness import FeasibleSet, Regularizer
from copriv.rules import SyncDecay, named
from copriv.rules.graph import Graph, OnGraph
from copriv.rules.rule import Descent, UpdateRule
from copriv.types import Array


@dataclass(frozen=True, eq=False)
class Participants:
    """Owners grouped as they answer: all together (synchronous), by agreed group, or one by one."""

    members: tuple[tuple[int, ...], ...]
    """Owners of each participant, by their indices in the agreement."""
    weights: Float[Array, " participants"]
    rates: tuple[float, ...]
    """Mean rate of each participant's Poisson clocks."""

    @classmethod
    def of(cls, agreement: Agreement) -> "Participants":
        """Group the owners of an agreement. Where owners answer once, each is a participant by itself, whatever the rule.

        Raises AgreementError where the size of groups is still "auto".
        """
        if agreement.agreement.group_size == "auto":
            raise AgreementError(
                'agreement.group_size: still "auto"; plan it first (copriv forecast --out DIR) or give a number'
            )
        w, members = agreement.weights, agreement.members
        rates = tuple(float(np.mean([agreement.owner[i].rate for i in group])) for group in members)
        return cls(members, np.array([w[list(group)].sum() for group in members]), rates)


def agreed_rule(
    agreement: Agreement,
    participants: Participants,
    n_parameters: int,
    *,
    shares_by_rate: bool = False,
    shares: Float[Array, " participants"] | None = None,
    feature_bound: float | None = None,
) -> UpdateRule:
    """Make the update rule of an agreement.

    shares_by_rate: whether participants answer in proportion to their clocks' rates, which a rule may correct (A, Remark 4).
    shares: share of all answers that each participant gives; None: by the agreement.
    n_parameters, feature_bound: p, and B where the agreement gives no number; used where owners answer once.
    Raises AgreementError for terms that are still "auto", InvalidInput for a rule that cannot be run with these terms.
    """
    terms, model = agreement.agreement, agreement.model
    matrix = None if terms.preconditioner is None else np.array(terms.preconditioner)
    descent = Descent(Regularizer(model.regularization), FeasibleSet(model.theta_max), matrix)
    mechanism = agreement.mechanism
    if isinstance(mechanism, OneAnswer):
        return mechanism.rule(agreement, descent, participants.weights, n_parameters, feature_bound)
    if shares is None and shares_by_rate:
        rates = np.array(participants.rates)
        shares = rates / rates.sum()
    rule = named(terms.rule).update(agreement, descent, participants.weights, shares)
    if terms.graph is not None and isinstance(rule, SyncDecay):
        return OnGraph(rule, Graph.of(agreement), agreement.weights, bool(terms.tracking))
    return rule
