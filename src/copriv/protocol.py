"""What goes between learner and owner: a query and an answer. Frozen values, no I/O, no code.

A query is a point θ and a name for it; an answer is a noisy mean gradient under that name. Nothing else is ever sent.
"""

from dataclasses import dataclass

from jaxtyping import Float

from copriv.formatting.cards import Shown
from copriv.types import Array


@dataclass(frozen=True, eq=False)
class Query(Shown):
    """The learner asks one owner for the mean gradient at θ.

    `identity` names the query for ever: the same identity is answered once, and asked again it returns the same answer.

    >>> copriv.Query("first", agreement.fingerprint, "north", np.zeros(3)).owner
    'north'
    """

    identity: str
    fingerprint: str
    """Of the agreement that both sides signed up to."""
    owner: str
    theta: Float[Array, " p"]
    head: str = ""
    """What the learner's record of the run stood at when it asked: answering says that it was so; "" without a record."""
    signature: str = ""
    """By the learner's key, hex."""


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
    """The head of the owner's ledger: the learner hands it back, so that a ledger put back is noticed."""
    signature: str = ""
    """Over the query and this answer, by the owner's key, hex."""
