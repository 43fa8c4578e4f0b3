"""The former name of `forecast.exact.asynchronous`, which the documentation of copriv 0.1 gave."""

from copriv.forecast.exact.asynchronous import a1, a2

__all__ = ["a1", "a2"]
