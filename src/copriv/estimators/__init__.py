"""scikit-learn's conventions: `PrivateRegressor` and `PrivateClassifier`, whose rows are answered by owners in this process.

| file          | what it holds                                                          |
| ------------- | ---------------------------------------------------------------------- |
| linear        | the two estimators                                                     |
| parameters    | what parameters may be, and refusals by their names                    |
| ranges        | declared ranges: values to [−1, 1], coefficients back                  |
| levels        | declared levels of categories: one feature each                        |
| rows          | the private rows before an owner has them: their kinds, and whose      |
| declared      | the agreement that follows from what is declared                       |
| in_process    | the run: real owners with real noise, asked one after the other        |
| shared_ledger | what all fits of an estimator and its clones spent together            |

What is private and what is taken as public: docs/how-to/estimators.md.
"""

from copriv.estimators.declared import UndeclaredWarning
from copriv.estimators.linear import PrivateClassifier, PrivateRegressor
from copriv.estimators.shared_ledger import PrivacySpent, SharedLedger, SpendingWarning

__all__ = [
    "PrivacySpent",
    "PrivateClassifier",
    "PrivateRegressor",
    "SharedLedger",
    "SpendingWarning",
    "UndeclaredWarning",
]
