"""How the learner moves θ when a private answer arrives: each rule a few lines of state in, state out.

| rule | file             | who answers                | source                            |
| ---- | ---------------- | -------------------------- | --------------------------------- |
| S1   | synchronous      | every owner, every round   | S, Alg. 1                         |
| S2   | synchronous      | every owner, every round   | S, Alg. 2                         |
| A1   | async_copies     | one owner at a time        | A, Alg. 1; erratum 2              |
| A2   | async_memory     | one owner at a time        | copriv; docs/explanation/rules.md |

and, for mechanisms of one answer, those in `one_answer`; `graph` runs S1 and S2 with a model for each owner. Each file
implements the interface `rule`, and the list here, `ALL`, is the only place that compares names.
`copriv.agreement.participants` selects the rule and the participants of an agreement.

A rule gets answers and never records. Every array has a leading axis of runs, of which there are hundreds in a simulation and
one in a deployment. States are updated in place and returned.

A *participant* is one owner, a fixed group of owners, or (synchronous rules) all owners. For a rule, a group is one owner with
n_G = Σ n_i and answer Σ (n_i/n_G) Q̄_i (A, Remark 2).
"""

from copriv.errors import AgreementError
from copriv.rules.async_copies import A1, AsyncCopies
from copriv.rules.async_memory import A2, AsyncMemory
from copriv.rules.one_answer import AverageModels, SolveStatistics, Unmoved
from copriv.rules.rule import PLAIN, Aggregation, Descent, Rule, SharedSum, UpdateRule, Way
from copriv.rules.synchronous import S1, S2, SyncAveraged, SyncDecay

__all__ = [
    "ALL",
    "PLAIN",
    "WITHOUT_WAITING",
    "Aggregation",
    "AsyncCopies",
    "AsyncMemory",
    "AverageModels",
    "Descent",
    "Rule",
    "SharedSum",
    "SolveStatistics",
    "SyncAveraged",
    "SyncDecay",
    "Unmoved",
    "UpdateRule",
    "Way",
    "named",
]

ALL: tuple[Rule, ...] = (S1, S2, A1, A2)
"""Every rule that can be agreed, in the order in which a plan looks at them."""

WITHOUT_WAITING = A2
"""Rule that agreements name where each owner answers once, so that no owner waits for another."""


def named(name: str) -> Rule:
    """The rule that `agreement.rule` names. Raises AgreementError.

    >>> named("A2").counted_in
    'queries'
    """
    for rule in ALL:
        if rule.name == name:
            return rule
    known = ", ".join(rule.name for rule in ALL)
    if name == "auto":
        raise AgreementError(
            f'agreement.rule: still "auto"; plan it first (copriv forecast --out DIR) or name one of {known}'
        )
    raise AgreementError(
        f'agreement.rule: there is no rule "{name}"; name one of {known}, or "auto" to have it planned'
    )
