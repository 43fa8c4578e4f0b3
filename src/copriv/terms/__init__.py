"""The tables of an agreement: their keys, the checks of each value, and errors in plain words."""

from copriv.terms.data import DataTerms
from copriv.terms.learning import ModelTerms, Terms
from copriv.terms.market import MarketTerms, PrivacyCost
from copriv.terms.tables import AgreedTerms, OwnerTerms
from copriv.terms.values import can_be_told_apart

__all__ = [
    "AgreedTerms",
    "DataTerms",
    "MarketTerms",
    "ModelTerms",
    "OwnerTerms",
    "PrivacyCost",
    "Terms",
    "can_be_told_apart",
]
