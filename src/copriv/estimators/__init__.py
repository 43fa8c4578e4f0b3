"""scikit-learn's conventions: `PrivateRegressor` and `PrivateClassifier`, whose rows are answered by owners in this process.

| file          | what it holds                                                          |
| ------------- | ---------------------------------------------------------------------- |
| linear        | the two estimators                                                     |
| inputs        | what a fit is given, as numbers: declared ranges and levels, and rows  |
| declared      | what parameters may be, and the agreement that follows from them       |
| in_process    | real owners with real noise, and what all fits and clones spent        |

What is private and what is taken as public: docs/how-to/estimators.md.
"""

from copriv.estimators.declared import UndeclaredWarning
from copriv.estimators.in_process import PrivacySpent, SharedLedger, SpendingWarning
from copriv.estimators.linear import PrivateClassifier, PrivateRegressor

__all__ = [
    "PrivacySpent",
    "PrivateClassifier",
    "PrivateRegressor",
    "SharedLedger",
    "SpendingWarning",
    "UndeclaredWarning",
]
