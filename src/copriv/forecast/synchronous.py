"""The former name of `forecast.exact.synchronous`, which the documentation of copriv 0.1 gave."""

from copriv.forecast.exact.synchronous import s1, s2

__all__ = ["s1", "s2"]
