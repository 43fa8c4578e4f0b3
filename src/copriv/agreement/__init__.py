"""The agreement that all parties sign up to: its document, its participants, and what it says of the data."""

from copriv.agreement.agreement import Agreement
from copriv.terms import AgreedTerms, DataTerms, ModelTerms, OwnerTerms, Terms

__all__ = ["AgreedTerms", "Agreement", "DataTerms", "ModelTerms", "OwnerTerms", "Terms"]
