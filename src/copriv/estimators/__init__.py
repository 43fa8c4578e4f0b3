"""scikit-learn's conventions: `PrivateRegressor` and `PrivateClassifier`, whose rows are answered by owners in this process.

| file          | what it holds                                                          |
| ------------- | ---------------------------------------------------------------------- |
| linear        | the two estimators                                                     |
| declared      | what their parameters declare: ranges of columns, and the agreement    |
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
