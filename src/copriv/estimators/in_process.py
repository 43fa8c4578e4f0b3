"""The run of a fit: real owners in this process, real noise, one model.

The same `Owner` as over the network answers here, and the agreed rule moves the model; nothing else reads a record.
"""

import random
import secrets
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.agreement.participants import Participants, agreed_rule
from copriv.model.records import Records
from copriv.owner import Owner
from copriv.privacy.ledger import Ledger
from copriv.protocol import Query
from copriv.types import Array, Loss


def train(
    agreement: Agreement, records: Sequence[Records], loss: Loss, ledgers: Mapping[str, Ledger]
) -> Float[Array, " p"]:
    """θ after all agreed queries. All that it depends on of the records is what owners answered.

    Raises AgreementError or InvalidInput before anything is spent where the agreement cannot be kept, BudgetRefused
    where a ledger says no.
    """
    owners = [
        Owner(agreement, name, part, loss, ledgers[name])
        for name, part in zip(agreement.owner_names, records, strict=True)
    ]
    participants, p = Participants.of(agreement), records[0].n_parameters
    rule = agreed_rule(agreement, participants, p)
    start = agreement.agreement.start
    state = rule.start((np.zeros(p) if start is None else np.array(start))[None, :])
    run, fingerprint, w = secrets.token_hex(16), agreement.fingerprint, agreement.weights
    for k, j in zip(
        range(agreement.queries), _turns(len(participants.members), agreement.agreement.seed), strict=False
    ):
        participant, members = np.array([j]), list(participants.members[j])
        θ = np.array(rule.query(state, participant)[0])
        answers = [
            owners[i].answer(Query(f"{run} {k} {i}", fingerprint, owners[i].name, θ.copy())).gradient for i in members
        ]
        # Owners that answer together count by their weights (A, Remark 2).
        share = w[members] / w[members].sum() if w[members].sum() > 0 else np.zeros(len(members))
        state = rule.step(state, participant, (share @ np.array(answers))[None, :])
    return np.array(rule.model(state)[0])


def _turns(participants: int, seed: int) -> Iterator[int]:
    """Everybody once, in random order, before anybody again: within every cap, and a window is full at its end."""
    order, rng = list(range(participants)), random.Random(seed)
    while True:
        rng.shuffle(order)
        yield from order
