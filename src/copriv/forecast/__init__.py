"""The cost of privacy and the value of joining, before any private record is touched.

    outlook = forecast(agreement)            # from the public rows that the agreement's [data] names
    outlook.agreed.relative_fitness.mean     # E ψ under the agreed terms
    outlook.recommended.agreement            # the terms that cost the least
    outlook.owners[0].joining_pays

Three kinds of statement, each under its own name: *exact* (expectations of a linear recursion, no clipping),
*simulated* (the rule run on the public rows with the real noise) and *bound* (the papers' theorems, as printed and as
corrected). The exact ones are of `copriv.exact`, which the plan uses too.
"""

from copriv.forecast.assessment import Assessment, Band
from copriv.forecast.forecaster import forecast
from copriv.forecast.owner_forecast import OwnerForecast
from copriv.forecast.result import Forecast
from copriv.plan import Choice, NoiseCurve, Plan, plan

__all__ = ["Assessment", "Band", "Choice", "Forecast", "NoiseCurve", "OwnerForecast", "Plan", "forecast", "plan"]
