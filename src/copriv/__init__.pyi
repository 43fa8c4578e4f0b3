# Where each public name of copriv comes from; read by type checkers, and by lazy_loader when a name is first used.

from . import data as data
from . import errors as errors
from . import estimators as estimators
from . import losses as losses
from . import privacy as privacy
from . import rules as rules
from . import schedules as schedules
from .agreement import Agreement
from .errors import (
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
from .forecast import Forecast, forecast
from .forecast.after_pilot import pilot as pilot
from .forecast.at_home import owner_verdict as owner_verdict
from .market import Market, market
from .model.records import Records
from .owner import Owner
from .problem import Problem
from .problem.personalization import personalize as personalize
from .protocol import Answer, Query
from .simulation import OwnerOutcome, RelativeFitness, Simulation, own_learners, simulate

__version__: str

__all__ = [
    "Agreement",
    "AgreementError",
    "Answer",
    "BudgetRefused",
    "CoprivError",
    "DataError",
    "Forecast",
    "InvalidInput",
    "Market",
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
    "forecast",
    "market",
    "own_learners",
    "owner_verdict",
    "personalize",
    "pilot",
    "simulate",
]
