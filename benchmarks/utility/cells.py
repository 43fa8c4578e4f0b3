"""The cells of the table, each an agreement that leaves to the plan all that a plan may choose."""

from dataclasses import dataclass, replace
from typing import Any, Literal

from copriv import Agreement
from copriv_papers.consortia import table_at_hand

EPSILONS = (1.0, 10.0, 0.1)
"""In the order in which the table is filled."""
DELTA = 1e-6
"""Of the methods that need one."""


@dataclass(frozen=True)
class Cell:
    """`records` are those of each owner. Cards have ‖x‖₁ ≤ 4; an intercept comes on top of that, or inside it."""

    dataset: str
    loss: str
    owners: int
    records: int
    epsilon: float
    intercept: Literal["none", "on top", "inside"] = "none"

    @property
    def data(self) -> "Cell":
        """What records and fitness depend on: the cell at ε = 1."""
        return replace(self, epsilon=1.0)

    @property
    def name(self) -> str:
        extra = {"none": "", "on top": "-intercept", "inside": "-intercept-inside"}[self.intercept]
        return f"{self.dataset}-{self.loss}{extra}-N{self.owners}-n{self.records}-eps{self.epsilon:g}"

    def agreement(self, delta: float = 0.0, **terms: Any) -> Agreement:
        """Everything "auto" that can be."""
        data: dict[str, Any] = dict(table_at_hand(self.dataset))
        if self.dataset == "creditcard":
            bound = 3.0 if self.intercept == "inside" else 4.0
            data |= {"components": 0, "feature_bound": bound, "public_rows": 10_000}
        elif self.dataset == "hospital":
            data |= {"components": 9}
        if self.dataset != "hospital":  # stays are cut by payer and specialty: nobody can say that owners are alike
            data["heterogeneity"] = 0.0  # every owner's rows are resampled from one table, and all know it
        owner = {"records": self.records, "epsilon": self.epsilon, "delta": delta}
        return Agreement.of(
            {
                "agreement": {"rule": "auto", "communication": "asynchronous", "horizon": 1000, **terms},
                "model": {"loss": self.loss, "regularization": 1e-5, "intercept": self.intercept != "none"},
                "data": data,
                "owner": [{"name": f"owner-{i + 1}", **owner} for i in range(self.owners)],
            }
        )


def grid() -> list[Cell]:
    """All cells, the first ε first."""
    lending = [Cell("lending", "squared", N, n, 1.0) for N in (3, 10, 86) for n in (3_000, 10_000, 250_000)]
    cards = Cell("creditcard", "logistic", 3, 30_000, 1.0)
    data = [
        *lending, Cell("hospital", "squared", 86, 10_000, 1.0),
        cards, replace(cards, loss="hinge"), replace(cards, intercept="on top"), replace(cards, intercept="inside"),
    ]  # fmt: skip
    return [replace(cell, epsilon=ε) for ε in EPSILONS for cell in data]


def quick() -> list[Cell]:
    """One cell a data set and loss."""
    return [
        Cell("lending", "squared", 10, 10_000, 1.0),
        Cell("creditcard", "logistic", 3, 30_000, 1.0),
        Cell("creditcard", "hinge", 3, 30_000, 1.0),
    ]
