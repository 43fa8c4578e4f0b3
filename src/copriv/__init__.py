"""copriv: the cost of privacy, before you pay it.

    agreement = copriv.Agreement.load("agreement.toml")
    result = copriv.simulate(agreement, runs=100)
    print(result.relative_fitness.final)

| to                                  | use                                                            |
| ----------------------------------- | -------------------------------------------------------------- |
| read what the parties sign up to    | `Agreement`                                                    |
| know before you start               | `forecast` → `Forecast`                                        |
| try it on records at hand           | `simulate`, `own_learners` → `Simulation`; `Problem`, `Records` |
| answer queries about private records | `Owner`: `Query` in, `Answer` out                              |
| catch what goes wrong               | `CoprivError` and its children (copriv.errors)                 |

Everything else has its place one level down: copriv.data, copriv.privacy, copriv.rules, copriv.schedules.
"""

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from copriv.agreement import Agreement
from copriv.errors import (
    AgreementError,
    BudgetRefused,
    CoprivError,
    DataError,
    InvalidInput,
    NotCertified,
    QueryRefused,
    Unreachable,
    UsageError,
)
from copriv.finish import finish

# Eager, since the function has the name of its package: a lazy one would be hidden by it.
from copriv.forecast import Forecast, forecast
from copriv.problem import Problem
from copriv.protocol import Answer, Query
from copriv.records import Records
from copriv.simulation import OwnerOutcome, RelativeFitness, Simulation, own_learners, simulate

if TYPE_CHECKING:
    from copriv.owner import Owner

__version__ = version("copriv")

__all__ = [
    "Agreement",
    "AgreementError",
    "Answer",
    "BudgetRefused",
    "CoprivError",
    "DataError",
    "Forecast",
    "InvalidInput",
    "NotCertified",
    "Owner",
    "OwnerOutcome",
    "Problem",
    "Query",
    "QueryRefused",
    "Records",
    "RelativeFitness",
    "Simulation",
    "Unreachable",
    "UsageError",
    "__version__",
    "finish",
    "forecast",
    "own_learners",
    "simulate",
]


def __getattr__(name: str) -> Any:
    # The owner's vetted noise sampler takes a second to import, and a simulation never touches it.
    if name == "Owner":
        from copriv.owner import Owner

        return Owner
    raise AttributeError(f"module 'copriv' has no attribute {name!r}")
