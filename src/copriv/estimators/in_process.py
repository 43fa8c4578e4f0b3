"""The run of a fit: real owners in this process, real noise, one model.

The same `Owner` as over the network answers here, and the agreed rule moves the model; nothing else reads a record.
"""

import random
import secrets
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from copriv.agreement.participants import Participants, agreed_rule
from copriv.mechanisms.mechanism import start_of
from copriv.owner import Owner
from copriv.privacy.ledger import Ledger
from copriv.problem import Problem
from copriv.protocol import Query
from copriv.rules import Aggregation, Unmoved
from copriv.types import Array


def train(problem: Problem, ledgers: Mapping[str, Ledger]) -> Float[Array, " p"]:
    """θ after all agreed queries. All that it depends on of the records is what owners answered.

    Raises AgreementError or InvalidInput before anything is spent where the agreement cannot be kept, BudgetRefused
    where a ledger says no.
    """
    rule, state = _run(problem, ledgers)
    return np.array(rule.model(state)[0])


def answered(problem: Problem, ledgers: Mapping[str, Ledger]) -> Float[Array, " answer"]:
    """Mean over owners of one answer each, by a mechanism of which no model follows. Raises as `train` does."""
    rule, state = _run(problem, ledgers)
    assert isinstance(rule, Unmoved)
    return np.array(rule.answered(state)[0])


def owners_of(problem: Problem, ledgers: Mapping[str, Ledger] | None = None) -> list[Owner]:
    """The owners, who have spent nothing yet; without ledgers only to see whether they can keep the agreement.

    Raises as `train` does.
    """
    return [
        Owner(problem.agreement, name, part, problem.loss, None if ledgers is None else ledgers[name])
        for name, part in zip(problem.agreement.owner_names, problem.owners, strict=True)
    ]


def _run(problem: Problem, ledgers: Mapping[str, Ledger]) -> tuple[Any, Any]:
    """The rule, and its state after all agreed queries."""
    agreement, records, owners = problem.agreement, problem.owners, owners_of(problem, ledgers)
    participants, p = Participants.of(agreement), records[0].n_parameters
    rule = agreed_rule(agreement, participants, p)
    state = rule.start(start_of(agreement, p)[None, :])
    run, fingerprint, w = secrets.token_hex(16), agreement.fingerprint, agreement.weights
    order, rng = list(range(len(participants.members))), random.Random(agreement.agreement.seed)
    for k in range(agreement.queries):
        # Everybody once, in random order, before anybody again: within every cap, and a window is full at its end.
        if k % len(order) == 0:
            rng.shuffle(order)
        participant = np.array([order[k % len(order)]])
        members = list(participants.members[participant[0]])
        θ = np.array(rule.query(state, participant)[0])
        answers = [
            owners[i].answer(Query(f"{run} {k} {i}", fingerprint, owners[i].name, θ.copy())).gradient for i in members
        ]
        state = rule.step(state, participant, Aggregation(w[members]).vector(np.array(answers))[None, :])
    return rule, state
