"""A data market: owners state what privacy costs them and accuracy is worth; who joins, at which ε, and who pays whom.

    offer = market(agreement)                  # each [[owner]] has a table `market`
    offer["shapley"].payment                   # money to each owner; negative: from it
    offer.proposed("shapley")                  # the agreement of those who answer

Four mechanisms are offered side by side, since balance, participation, efficiency and truth exclude each other
(docs/explanation/data-market.md). Everything is in forecast, from public information and what owners state.
"""

from copriv.market.allocation import Statements
from copriv.market.result import MECHANISMS, Market, market
from copriv.market.sharing import Outcome

__all__ = ["MECHANISMS", "Market", "Outcome", "Statements", "market"]
