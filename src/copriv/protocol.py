"""What learner and owner exchange: a query and an answer. Frozen values, no I/O, no code.

A query is a point θ and an identity; an answer is a noisy mean gradient of the same identity.
"""

from dataclasses import dataclass

from jaxtyping import Float

from copriv.formatting.cards import Shown
from copriv.types import Array


@dataclass(frozen=True, eq=False)
class Query(Shown):
    """The learner asks one owner for the mean gradient at θ.

    An `identity` is answered once; a repeated query gets the same answer.

    >>> copriv.Query("first", agreement.fingerprint, "north", np.zeros(3)).owner
    'north'
    """

    identity: str
    fingerprint: str
    """Fingerprint of the agreement."""
    owner: str
    theta: Float[Array, " p"]
    head: str = ""
    """The head of the learner's record of the run before the query, which the answer confirms; "" without a record."""
    signature: str = ""
    """Signature by the learner's key, hex."""


@dataclass(frozen=True, eq=False)
class Answer(Shown):
    """An owner's private answer Q̄ = Q(θ) + w, and how many answers it has given so far in this run.

    >>> problem = copriv.Problem.of(agreement, data)
    >>> north = copriv.Owner(agreement, "north", problem.owners[0], problem.loss)
    >>> answer = north.answer(copriv.Query("first", agreement.fingerprint, "north", np.zeros(3)))
    >>> answer.identity, answer.answered, answer.gradient.shape
    ('first', 1, (3,))
    """

    identity: str
    fingerprint: str
    owner: str
    gradient: Float[Array, " p"]
    answered: int
    chain_head: str = ""
    """The head of the owner's ledger, which the learner returns, so that an older copy of the ledger is detected."""
    signature: str = ""
    """Signature of the query and this answer by the owner's key, hex."""
