"""What have all fits of an estimator and its clones spent together? One count for cross-validation and searches.

`sklearn.clone` copies parameters, and a copied ledger would begin at 0: five folds at ε = 1 would read 0, or 1. This one
is never copied: a clone counts in the same. In another process it cannot, so a ledger that was pickled and read again
shows what it had counted and refuses to count on: nothing is answered that is not counted where the caller looks.

It counts by owner, and adds up (basic composition): folds share rows. A record is at one owner, so what it paid is that
owner's sum, and `spent` is the largest one. It lives as long as the process.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from jaxtyping import Float

from copriv.errors import BudgetRefused
from copriv.privacy.ledger import Cost, MemoryLedger, to_pay
from copriv.types import Array


class SpendingWarning(UserWarning):
    """Rows are paid for again: another fit counts in a ledger that has counted one before.

    >>> import warnings
    >>> from copriv.estimators import SpendingWarning
    >>> warnings.simplefilter("ignore", SpendingWarning)  # the ledger is read all the same
    """


@dataclass(frozen=True)
class PrivacySpent:
    """What one fit spent, as its owners' ledgers read.

    >>> from copriv.estimators import PrivacySpent
    >>> PrivacySpent(1.0, 0.0, {"north": (1.0, 0.0), "south": (0.5, 0.0)}).by_owner["south"]
    (0.5, 0.0)
    """

    epsilon: float
    """Of the owner that spent the most: what a record paid at most."""
    delta: float
    by_owner: Mapping[str, tuple[float, float]]
    """(ε, δ) of each owner."""


class SharedLedger:
    """Counts what every fit spends, for an estimator and all its clones.

    epsilon, delta: the most that any one owner may spend over all fits; None: counted without a limit.
    Raises BudgetRefused, before anything is answered, where a fit would go beyond.

    >>> import numpy as np
    >>> from copriv.estimators import PrivateRegressor, SharedLedger
    >>> ledger, X = SharedLedger(epsilon=2.0), np.linspace(0, 1, 200)[:, None]
    >>> model = PrivateRegressor(bounds=(0, 1), target_bounds=(0, 1), ledger=ledger).fit(X, X[:, 0])
    >>> ledger
    <SharedLedger: epsilon 1 of 2 spent in 1 fits>
    """

    def __init__(self, epsilon: float | None = None, delta: float | None = None) -> None:
        self._most = (None if epsilon is None else Fraction(epsilon), None if delta is None else Fraction(delta))
        self._spent: dict[str, Cost] = {}
        self._fits = 0
        self._closed = False
        self._one_at_a_time = threading.RLock()

    @property
    def spent(self) -> float:
        """ε, of the owner that spent the most."""
        return float(max((ε for ε, _ in self._spent.values()), default=Fraction(0)))

    @property
    def spent_delta(self) -> float:
        """δ, of the owner that spent the most."""
        return float(max((δ for _, δ in self._spent.values()), default=Fraction(0)))

    @property
    def by_owner(self) -> dict[str, tuple[float, float]]:
        """(ε, δ) of each owner, over all fits."""
        return {name: (float(ε), float(δ)) for name, (ε, δ) in self._spent.items()}

    @property
    def fits(self) -> int:
        """How many fits count here."""
        return self._fits

    def for_fit(self, budgets: Mapping[str, Cost], answers: int) -> "dict[str, OwnersLedger]":
        """A ledger for each owner of one more fit. Raises BudgetRefused where its whole budget is not left."""
        with self._one_at_a_time:
            for name, cost in budgets.items():
                self._refuse_overspending(name, cost)
            self._fits += 1
            return {name: OwnersLedger(self, name, ε, answers, δ) for name, (ε, δ) in budgets.items()}

    def pay(self, owner: str, cost: Cost) -> None:
        """Count a charge. Raises BudgetRefused, and counts nothing, where it is beyond the limit."""
        with self._one_at_a_time:
            self._refuse_overspending(owner, cost)
            ε, δ = self._spent.get(owner, (Fraction(0), Fraction(0)))
            self._spent[owner] = ε + cost[0], δ + cost[1]

    def _refuse_overspending(self, owner: str, cost: Cost) -> None:
        if self._closed:
            raise BudgetRefused(
                "ledger: this is a copy, made by pickling, and does not count for the original: fit in the process and "
                "with the ledger of the caller (n_jobs=1, or joblib's threading backend), or set a new SharedLedger"
            )
        spent = self._spent.get(owner, (Fraction(0), Fraction(0)))
        for what, asked, gone, most in zip(("epsilon", "delta"), cost, spent, self._most, strict=True):
            if most is not None and gone + asked > most:
                raise BudgetRefused(
                    f"{owner} refused: asked for {what} {float(asked):g}, spent {float(gone):g} of {float(most):g} that "
                    "the shared ledger allows over all fits. Fit less often, or allow more"
                )

    def __deepcopy__(self, memo: dict[int, Any]) -> "SharedLedger":
        return self

    def __copy__(self) -> "SharedLedger":
        return self

    def __sklearn_clone__(self) -> "SharedLedger":
        return self

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: value for name, value in vars(self).items() if name != "_one_at_a_time"}
        return {**kept, "_spent": dict(self._spent), "_closed": True}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._one_at_a_time = threading.RLock()

    def __repr__(self) -> str:
        most = "" if self._most[0] is None else f" of {float(self._most[0]):g}"
        return f"<SharedLedger: epsilon {self.spent:g}{most} spent in {self._fits} fits>"


class OwnersLedger(MemoryLedger):
    """The ledger of one owner for one fit; each charge is counted in the shared one first."""

    def __init__(self, shared: SharedLedger, owner: str, epsilon: Fraction, answers: int, delta: Fraction) -> None:
        super().__init__(owner, epsilon, answers, delta)
        self._shared = shared

    def charge(
        self, identity: str, theta: Float[Array, " p"], epsilon: Fraction, delta: Fraction = Fraction(0)
    ) -> None:
        # A charge that this ledger then refuses stays counted in the shared one: budget is lost, never privacy.
        self._shared.pay(self._owner, to_pay(self._owner, epsilon, delta, self.spent, self.spent_delta))
        super().charge(identity, theta, epsilon, delta)
