"""The run of a fit, with real owners and real noise in this process, and the ledger of all fits of an estimator and its clones.

The same `Owner` as over the network answers here, and the agreed rule moves the model; nothing else reads a record.

What fits spend together is one count, for cross-validation and searches. `sklearn.clone` copies parameters, and a copied
ledger would begin at 0: five folds at ε = 1 would read 0, or 1. This one is never copied: a clone counts in the same. A copy
in another process, made by pickling or forking, shows what it had counted and refuses to count more, so that nothing is
answered that is not counted where the caller looks.

**One ledger is one population.** Neither rows nor labels identify people, who may come again in another order, with other
targets or columns, or with their owners renamed. So every fit counts for the same people. For other people pass another
`SharedLedger` as `ledger`.

- Within a fit composition is parallel: each row has one label, so one owner answers from it, and a fit costs as much as
  the owner that spends the most. Two rows of one fit are taken for two people.
- Between fits it is sequential: costs add up, whatever the owners are called (basic composition).

`spent`, the sum, bounds what any row has paid. The ledger lives as long as the process.
"""

import os
import random
import secrets
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.agreement.participants import Participants, agreed_rule
from copriv.errors import BudgetRefused
from copriv.estimators.inputs import with_level
from copriv.mechanisms.lengths import Lengths, Measured
from copriv.mechanisms.mechanism import start_of
from copriv.model.records import Records
from copriv.owner import Owner
from copriv.privacy.ledger import Cost, Ledger, MemoryLedger, PhaseBudget
from copriv.problem import Problem
from copriv.protocol import Query
from copriv.rules import Aggregation, Unmoved
from copriv.types import Array
from copriv.validation import non_negative

NOTHING_MEASURED = Measured()


@dataclass(eq=False, repr=False)
class PrivateRows:
    """The private rows of a fit, by owner, in whatever units terms ask for."""

    x: Float[Array, "rows columns"]
    """In their ranges, [−1, 1]."""
    target: Float[Array, " rows"]
    whose: Mapping[str, Any]
    """The rows of each owner."""
    share: Array | None
    """For how much of a record each row counts; None: for one."""
    level: int
    """Columns of ones beside x in a model: 1 where shares leave less of an intercept."""
    public: Records | None
    _last: tuple[Any, list[Records]] = field(init=False, default=(None, []))

    def problem(self, agreement: Agreement, scale: float = 1.0, known: Measured = NOTHING_MEASURED) -> Problem:
        """scale: of columns, 0 for one column of ones in their place. known: in whose units targets are."""
        level = self.level * (agreement.agreement.mechanism != Lengths.name)
        units = float(scale), known, level
        if self._last[0] != units:  # terms change more often than units, and each copy of a large table takes time
            self._last = units, self._copied(*units)
        return Problem.of(agreement, self._last[1], public=self.public)

    def _copied(self, scale: float, known: Measured, level: int) -> list[Records]:
        with np.errstate(all="ignore"):  # a warning would tell of single rows
            columns = with_level(scale * self.x, level) if scale else np.ones((len(self.x), 1))
        targets = known.clipped(self.target) if known.spent else self.target
        each = [slice(None)] if len(self.whose) == 1 else self.whose.values()
        if self.share is None:
            return [Records.of(columns[rows], targets[rows]) for rows in each]
        return [Records.of_shares(columns[rows], targets[rows], self.share[rows]) for rows in each]


def train(problem: Problem, ledgers: Mapping[str, Ledger]) -> Float[Array, " p"]:
    """θ after all agreed queries. All that it depends on of the records is what owners answered.

    Raises AgreementError or InvalidInput before anything is spent where the agreement cannot be kept, BudgetRefused
    where a ledger says no.
    """
    rule, state = _run(problem, ledgers)
    return np.array(rule.model(state)[0])


def answered(problem: Problem, ledgers: Mapping[str, Ledger]) -> Float[Array, " answer"]:
    """Mean over owners of one answer each, by a mechanism of which no model follows. Raises as `train` does."""
    rule, state = _run(problem, ledgers)
    assert isinstance(rule, Unmoved)
    return np.array(rule.answered(state)[0])


def owners_of(problem: Problem, ledgers: Mapping[str, Ledger] | None = None) -> list[Owner]:
    """The owners, who have spent nothing yet; without ledgers only to see whether they can keep the agreement.

    Raises as `train` does.
    """
    return [
        Owner(problem.agreement, name, part, problem.loss, None if ledgers is None else ledgers[name])
        for name, part in zip(problem.agreement.owner_names, problem.owners, strict=True)
    ]


def _run(problem: Problem, ledgers: Mapping[str, Ledger]) -> tuple[Any, Any]:
    """The rule, and its state after all agreed queries."""
    agreement, records, owners = problem.agreement, problem.owners, owners_of(problem, ledgers)
    participants, p = Participants.of(agreement), records[0].n_parameters
    rule = agreed_rule(agreement, participants, p)
    state = rule.start(start_of(agreement, p)[None, :])
    run, fingerprint, w = secrets.token_hex(16), agreement.fingerprint, agreement.weights
    order, rng = list(range(len(participants.members))), random.Random(agreement.agreement.seed)
    for k in range(agreement.queries):
        # Everybody once, in random order, before anybody again: within every cap, and a window is full at its end.
        if k % len(order) == 0:
            rng.shuffle(order)
        participant = np.array([order[k % len(order)]])
        members = list(participants.members[participant[0]])
        θ = np.array(rule.query(state, participant)[0])
        answers = [
            owners[i].answer(Query(f"{run} {k} {i}", fingerprint, owners[i].name, θ.copy())).gradient for i in members
        ]
        state = rule.step(state, participant, Aggregation(w[members]).vector(np.array(answers))[None, :])
    return rule, state


class SpendingWarning(UserWarning):
    """Issued where a ledger that has counted a fit counts another one, so that rows are paid for again.

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
    """ε of the owner that spent the most: the most that a record paid."""
    delta: float
    by_owner: Mapping[str, tuple[float, float]]
    """(ε, δ) of each owner."""


NOTHING: Cost = (Fraction(0), Fraction(0))


class SharedLedger:
    """Counts what every fit spends, for an estimator and all its clones, on one population.

    epsilon, delta: the most that any row may pay over all fits; None: counted without a limit. A fit costs as much as the
    owner that spends the most, and costs of fits add up, whatever rows, columns or names of owners they have. For other
    people make another SharedLedger. Raises InvalidInput for a limit below 0, and BudgetRefused, before anything is answered,
    where a fit would go beyond.

    >>> import numpy as np
    >>> from copriv.estimators import PrivateRegressor, SharedLedger
    >>> ledger, X = SharedLedger(epsilon=2.0), np.linspace(0, 1, 200)[:, None]
    >>> model = PrivateRegressor(bounds=(0, 1), target_bounds=(0, 1), ledger=ledger).fit(X, X[:, 0])
    >>> ledger
    <SharedLedger: epsilon 1 of 2 spent in 1 fits>
    """

    def __init__(self, epsilon: float | None = None, delta: float | None = None) -> None:
        for name, most in (("epsilon", epsilon), ("delta", delta)):
            if most is not None:
                non_negative(name, most)
        self._most = (None if epsilon is None else Fraction(epsilon), None if delta is None else Fraction(delta))
        self._spent, self._by_owner, self._fits = NOTHING, dict[str, Cost](), 0
        self._under_way = list[tuple[Cost, dict[str, Cost]]]()  # budget of each fit, and what its owners have paid
        self._process = os.getpid()
        self._one_at_a_time = threading.RLock()

    @property
    def spent(self) -> float:
        """The most ε that a row has paid: the sum over fits of the owner that spent the most."""
        return float(self._spent[0])

    @property
    def spent_delta(self) -> float:
        """The most δ that a row has paid."""
        return float(self._spent[1])

    @property
    def by_owner(self) -> dict[str, tuple[float, float]]:
        """(ε, δ) charged under each owner's name, over all fits. A row that had several names may have paid for each."""
        return {name: (float(ε), float(δ)) for name, (ε, δ) in self._by_owner.items()}

    @property
    def fits(self) -> int:
        """How many fits count here."""
        return self._fits

    @contextmanager
    def for_fit(self, budgets: Mapping[str, Cost], answers: int) -> "Iterator[dict[str, OwnersLedger]]":
        """A ledger for each owner of one more fit, whose whole budget is kept for it until it ends.

        Raises BudgetRefused where so much is not left beside fits under way: a fit that has begun is not refused any more.
        """
        fit: dict[str, Cost] = {}
        with self._one_at_a_time:
            for name, cost in budgets.items():
                self._refuse_overspending(name, cost, fit)
            self._under_way.append((_dearest(budgets.values()), fit))
            self._fits += 1
        try:
            yield {name: OwnersLedger(self, name, ε, answers, δ, fit) for name, (ε, δ) in budgets.items()}
        finally:
            with self._one_at_a_time:
                self._under_way = [one for one in self._under_way if one[1] is not fit]
                self._fits -= not fit  # it was refused before anything was asked

    def pay(self, owner: str, cost: Cost, fit: dict[str, Cost] | None = None) -> None:
        """Count a charge. Raises BudgetRefused, and counts nothing, where it is beyond the limit.

        fit: what each owner was charged before in the same fit, of which the largest counts; None: a fit of its own.
        """
        with self._one_at_a_time:
            fit = {} if fit is None else fit
            paid = _sum(fit.get(owner, NOTHING), cost)
            (ε, δ), (new_ε, new_δ) = _dearest(fit.values()), _dearest([*fit.values(), paid])
            more = new_ε - ε, new_δ - δ  # nothing for an owner that follows a dearer one: no row is at both
            self._refuse_overspending(owner, more, fit)
            fit[owner], self._spent = paid, _sum(self._spent, more)
            self._by_owner[owner] = _sum(self._by_owner.get(owner, NOTHING), cost)

    def _refuse_overspending(self, owner: str, cost: Cost, fit: dict[str, Cost]) -> None:
        if self._process != os.getpid():
            raise BudgetRefused(
                "ledger: this is a copy, made by pickling or forking, and does not count for the original: fit in the "
                "process and with the ledger of the caller (n_jobs=1, or joblib's threading backend), or set a new "
                "SharedLedger"
            )
        paid_by_others = [(budget, _dearest(paid.values())) for budget, paid in self._under_way if paid is not fit]
        kept = [sum((budget[i] - paid[i] for budget, paid in paid_by_others), Fraction(0)) for i in range(2)]
        for what, asked, gone, held, most in zip(
            ("epsilon", "delta"), cost, self._spent, kept, self._most, strict=True
        ):
            if most is not None and gone + held + asked > most:
                beside = f", {float(held):g} kept for fits under way," if held else ""
                raise BudgetRefused(
                    f"{owner} refused: asked for {what} {float(asked):g}, spent {float(gone):g}{beside} of {float(most):g} "
                    "that the shared ledger allows over all fits, whatever their owners are called. Fit less often, allow "
                    "more, or make another SharedLedger if these are other people"
                )

    def __deepcopy__(self, memo: dict[int, Any]) -> "SharedLedger":
        return self

    def __copy__(self) -> "SharedLedger":
        return self

    def __sklearn_clone__(self) -> "SharedLedger":
        return self

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: value for name, value in vars(self).items() if name != "_one_at_a_time"}
        return {**kept, "_by_owner": dict(self._by_owner), "_process": 0}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._one_at_a_time = threading.RLock()

    def __repr__(self) -> str:
        most = "" if self._most[0] is None else f" of {float(self._most[0]):g}"
        return f"<SharedLedger: epsilon {self.spent:g}{most} spent in {self._fits} fits>"


class OwnersLedger(MemoryLedger):
    """The ledger of one owner for one fit; each charge is counted in the shared one first."""

    def __init__(
        self, shared: SharedLedger, owner: str, epsilon: Fraction, answers: int, delta: Fraction, fit: dict[str, Cost]
    ) -> None:
        super().__init__(owner, epsilon, answers, delta)
        self._shared, self._fit = shared, fit

    def of_the_same_fit(self) -> "OwnersLedger":
        """A ledger for another agreement of the same fit, with what is left of the budget."""
        run = self._run
        ε, δ = run.epsilon - run.spent, run.delta - run.spent_delta
        return OwnersLedger(self._shared, self._owner, ε, run.cap, δ, self._fit)

    def charge(
        self,
        identity: str,
        theta: Float[Array, " p"],
        epsilon: Fraction,
        delta: Fraction = Fraction(0),
        phase: PhaseBudget | None = None,
    ) -> None:
        # A charge that this ledger then refuses stays counted in the shared one: budget is lost, never privacy.
        self._shared.pay(self._owner, self._run.to_pay(self._owner, (epsilon, delta), phase), self._fit)
        super().charge(identity, theta, epsilon, delta, phase)


def _sum(one: Cost, other: Cost) -> Cost:
    return one[0] + other[0], one[1] + other[1]


def _dearest(costs: Iterable[Cost]) -> Cost:
    """The largest ε and the largest δ."""
    ε, δ = zip(NOTHING, *costs, strict=True)
    return max(ε), max(δ)
