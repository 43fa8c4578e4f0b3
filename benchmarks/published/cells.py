"""One cell: so many fits of a table at one ε and δ, by what is stated, by one owner or five; and peers beside them.

| stated | what the estimator is told                                                                       |
| ------ | ------------------------------------------------------------------------------------------------ |
| norm   | rows within norm 1 and the range of y, [−1, 1]; no intercept, as the peers have none               |
| ranges | least and largest value of every column and of y, with an intercept                                |
| wide   | the same ranges, ten times as wide about their middle                                              |

Nothing to be worse than is the zero model where the norm is stated, and the private mean of y at the same ε and δ where
only ranges are; of classes the constant label, private where only ranges are stated. The gap goes from least squares (of
classes: logistic regression) with these rows and no noise to the zero model, or to the constant one where there is an
intercept. A loss is the mean squared error of the training rows; of classes their share of wrong labels.
"""

import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from benchmarks.published import peers
from benchmarks.published.tables import Table
from copriv import CoprivError
from copriv.estimators import PrivateClassifier, PrivateRegressor
from copriv.types import Array

EPSILONS = (0.05, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
QUICK = (0.1, 1.0, 10.0)
REFUSING = (0.01, 100.0)
"""Beside the others where exact ranges are stated: no fit may be refused there either."""
OWNERS = (1, 5)
Stated = Literal["norm", "ranges", "wide"]
STATED: tuple[Stated, ...] = ("norm", "ranges", "wide")
MANY = 4000
"""Draws of a private mean or label: its expected loss is then known far better than that of a cell's fits."""


@dataclass(frozen=True)
class Cell:
    """What a cell is, but for its table."""

    epsilon: float
    with_delta: bool
    stated: Stated
    owners: int

    def name(self, table: str) -> str:
        owners = "1 owner" if self.owners == 1 else f"{self.owners} owners"
        return f"{table}, {self.stated}, {owners}, eps {self.epsilon:g}, delta {'1/n²' if self.with_delta else '0'}"


def cells(few: bool) -> Iterator[Cell]:
    """All cells of a table; few: of one owner at three ε."""
    for owners in (1,) if few else OWNERS:
        for stated in STATED:
            extra = REFUSING if stated == "ranges" and owners == 1 and not few else ()
            for ε in (*(QUICK if few else EPSILONS), *extra):
                for with_delta in (False, True):
                    yield Cell(ε, with_delta, stated, owners)


@dataclass(frozen=True, eq=False)
class Ends:
    """Losses without noise that the gap lies between."""

    least: float
    nothing: float
    least_auc: float | None = None


def ends(table: Table, intercept: bool) -> Ends:
    """Least squares and the zero model; with an intercept the constant one. Of classes logistic regression, and a label."""
    if table.classes:
        best = LogisticRegression(C=np.inf, max_iter=2000).fit(table.x, table.y)
        wrong = float(np.mean(best.predict(table.x) != table.y))
        return Ends(wrong, float(min(np.mean(table.y > 0), np.mean(table.y < 0))), _auc(table, best.decision_function))
    x = np.column_stack([table.x, np.ones(len(table.y))]) if intercept else table.x
    θ = np.linalg.lstsq(x, table.y, rcond=None)[0]
    nothing = float(np.var(table.y) if intercept else np.mean(table.y**2))
    return Ends(float(peers.models_loss(θ, x, table.y)[0]), nothing)


def dealt(table: Table, owners: int) -> Array:
    """Whose row each one is, by number; as many rows each as can be."""
    return np.random.default_rng(5).permutation(np.arange(len(table.y)) % owners)


def estimator(table: Table, cell: Cell) -> Any:
    """What a user who knows just what is stated would make."""
    δ = table.delta if cell.with_delta else 0.0
    given: dict[str, Any] = {"epsilon": cell.epsilon, "delta": δ}
    if cell.stated == "norm":
        given |= {"bounds": (-1.0, 1.0), "row_norm": 1.0}
    else:
        given["bounds"] = _ranges(table.x, cell.stated)
    if table.classes:
        return PrivateClassifier(**given, classes=(-1.0, 1.0))
    if cell.stated == "norm":
        return PrivateRegressor(**given, target_bounds=(-1.0, 1.0), fit_intercept=False)
    return PrivateRegressor(**given, target_bounds=_ranges(table.y, cell.stated))


def _ranges(values: Array, stated: Stated) -> tuple[Any, Any]:
    low, high = values.min(axis=0), values.max(axis=0)
    wider = 10.0 if stated == "wide" else 1.0
    return (low + high) / 2 - wider * (high - low) / 2, (low + high) / 2 + wider * (high - low) / 2


def measure(table: Table, cell: Cell, runs: int, end: Ends) -> dict[str, Any]:
    """Losses of all fits, refusals by their kind, seconds of a fit, what nothing would cost, and peers' losses."""
    losses, aucs, seconds, refused, warned = [], [], [], [], 0
    whose = None if cell.owners == 1 else dealt(table, cell.owners)
    for _ in range(runs):
        begun = time.perf_counter()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            try:
                model = estimator(table, cell).fit(table.x, table.y, owners=whose)
            except (CoprivError, ArithmeticError) as error:
                refused.append(f"{type(error).__name__}: {str(error)[:200]}")
                continue
        seconds.append(time.perf_counter() - begun)
        warned += any(issubclass(one.category, RuntimeWarning) for one in seen)
        if table.classes:
            losses.append(float(np.mean(model.predict(table.x) != table.y)))
            aucs.append(_auc(table, model.decision_function))
        else:
            losses.append(float(np.mean((table.y - model.predict(table.x)) ** 2)))
    return {
        "losses": losses,
        "aucs": aucs,
        "refused": refused,
        "warned": warned,
        "seconds": float(np.median(seconds)) if seconds else None,
        "nothing": nothing(table, cell, end),
        "peers": {} if table.classes else beside(table, cell, runs),
    }


def nothing(table: Table, cell: Cell, end: Ends) -> float:
    """Expected loss of what needs no features."""
    if cell.stated == "norm":
        return end.nothing
    rng, δ = np.random.default_rng(27), table.delta if cell.with_delta else 0.0
    whose = dealt(table, cell.owners)
    parts = [table.y[whose == i] for i in range(cell.owners)]
    low, high = (-1.0, 1.0) if table.classes else (float(end) for end in _ranges(table.y, cell.stated))
    means = peers.private_means(parts, low, high, cell.epsilon, δ, MANY, rng)
    if table.classes:
        positive = float(np.mean(table.y > 0))
        return float(np.mean(np.where(means > 0, 1.0 - positive, positive)))
    return float(np.mean((means - table.y.mean()) ** 2) + table.y.var())


def beside(table: Table, cell: Cell, runs: int) -> dict[str, float]:
    """Mean losses of the peers that take norm and range as known, of one owner, with δ."""
    if cell.stated != "norm" or cell.owners > 1 or not cell.with_delta:
        return {}
    rng, terms = np.random.default_rng(27), (table.x, table.y, cell.epsilon, table.delta)
    found = {
        "AdaSSP": peers.adassp(*terms, runs, rng),
        "moments, zeroed": peers.moments(*terms, peers.ZEROED, runs, rng),
        "moments, replaced": peers.moments(*terms, peers.REPLACED, runs, rng),
    }
    return {name: float(peers.models_loss(θ, table.x, table.y).mean()) for name, θ in found.items()}


def _auc(table: Table, scores: Any) -> float:
    x, y = table.test or (table.x, table.y)
    return float(roc_auc_score(y, scores(x)))


def nothing_left(row: dict[str, Any]) -> float:
    """The share of the gap that nothing leaves: 1, or more where it is private."""
    return float((row["nothing"] - row["least"]) / (row["constant"] - row["least"]))


def left(row: dict[str, Any]) -> Array:
    """Share of the gap that each fit leaves: 0 least squares, 1 the zero or constant model."""
    return (np.array(row["losses"]) - row["least"]) / (row["constant"] - row["least"])
