"""An agreement and its records as numbers, and an owner's own model made from the common one."""

from copriv.problem.problem import Problem

__all__ = ["Problem"]
