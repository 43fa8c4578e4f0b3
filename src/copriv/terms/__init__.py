"""The tables of an agreement: their keys, the checks of each value, and errors in plain words."""

from copriv.terms.tables import (
    AgreedTerms,
    DataTerms,
    ModelTerms,
    OwnerTerms,
    Terms,
    can_be_told_apart,
)

__all__ = ["AgreedTerms", "DataTerms", "ModelTerms", "OwnerTerms", "Terms", "can_be_told_apart"]
