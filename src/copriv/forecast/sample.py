"""The former name of `public_sample`, which the documentation of copriv 0.1 gave."""

from copriv.public_sample import PublicSample

__all__ = ["PublicSample"]
