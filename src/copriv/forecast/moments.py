"""The former name of `forecast.exact.moments`, which the documentation of copriv 0.1 gave."""

from copriv.forecast.exact.moments import Directions, Moments, OwnerKinds

__all__ = ["Directions", "Moments", "OwnerKinds"]
