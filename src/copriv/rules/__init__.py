"""How the learner moves θ when a private answer arrives: one rule a file, each a few lines of state in, state out.

| rule | file             | who answers                | source                            |
| ---- | ---------------- | -------------------------- | --------------------------------- |
| S1   | sync_decay       | every owner, every round   | S, Alg. 1                         |
| S2   | sync_averaged    | every owner, every round   | S, Alg. 2                         |
| A1   | async_copies     | one owner at a time        | A, Alg. 1; erratum 2              |
| A2   | async_memory     | one owner at a time        | copriv; docs/explanation/rules.md |

and, for mechanisms by which every owner answers once: `solve_statistics`, `average_models`. Which of them an agreement
names, and who its talkers are: `copriv.talkers`.

A rule sees answers and never records. Every array has a leading axis of runs: a simulation moves hundreds of runs at
once, a deployment moves one, and a rule does not know which. States are updated in place and handed back.

A *talker* is whoever answers at once: one owner, a fixed group of owners, or (synchronous rules) all of them. To a
rule, a group is one fictitious owner with n_G = Σ n_i and answer Σ (n_i/n_G) Q̄_i (A, Remark 2).
"""

from copriv.rules.async_copies import AsyncCopies
from copriv.rules.async_memory import AsyncMemory
from copriv.rules.average_models import AverageModels
from copriv.rules.descent import Descent, UpdateRule
from copriv.rules.solve_statistics import SolveStatistics
from copriv.rules.sync_averaged import SyncAveraged
from copriv.rules.sync_decay import SyncDecay

__all__ = [
    "AsyncCopies",
    "AsyncMemory",
    "AverageModels",
    "Descent",
    "SolveStatistics",
    "SyncAveraged",
    "SyncDecay",
    "UpdateRule",
]
