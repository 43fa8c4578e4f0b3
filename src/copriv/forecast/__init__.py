"""The cost of privacy and the value of joining, before any private record is touched.

    outlook = forecast(agreement)            # from the public rows that the agreement's [data] names
    outlook.agreed.relative_fitness.mean     # E ψ under the agreed terms
    outlook.recommended.agreement            # the terms that cost the least
    outlook.owners[0].joining_pays

Three kinds of statement, each under its own name: *exact* (expectations of a linear recursion, no clipping),
*simulated* (the rule run on the public rows with the real noise) and *bound* (the papers' theorems, as printed and as
corrected). The exact ones are in `exact`, below the plan, which uses them too: so names here load on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from copriv.forecast.assessment import Assessment, Band
    from copriv.forecast.forecaster import Forecast, OwnerForecast, forecast
    from copriv.plan import Choice, NoiseCurve, Plan, plan

_FROM = {
    **dict.fromkeys(("Assessment", "Band"), "copriv.forecast.assessment"),
    **dict.fromkeys(("Forecast", "OwnerForecast", "forecast"), "copriv.forecast.forecaster"),
    **dict.fromkeys(("Choice", "NoiseCurve", "Plan", "plan"), "copriv.plan"),
}

__all__ = ["Assessment", "Band", "Choice", "Forecast", "NoiseCurve", "OwnerForecast", "Plan", "forecast", "plan"]


def __getattr__(name: str) -> Any:
    if name not in _FROM:
        raise AttributeError(f"module 'copriv.forecast' has no attribute {name!r}")
    return getattr(import_module(_FROM[name]), name)
