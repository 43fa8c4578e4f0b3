"""The cells of the table, each an agreement that leaves to the plan all that a plan may choose."""

from dataclasses import dataclass
from typing import Any

from copriv import Agreement

EPSILONS = (1.0, 10.0, 0.1)
"""In the order in which the table is filled."""
DELTA = 1e-6
"""Of the methods that need one."""


@dataclass(frozen=True)
class Cell:
    """`records` are those of each owner."""

    dataset: str
    loss: str
    owners: int
    records: int
    epsilon: float

    @property
    def data(self) -> tuple[str, str, int, int]:
        """What records and fitness depend on."""
        return self.dataset, self.loss, self.owners, self.records

    @property
    def name(self) -> str:
        return f"{self.dataset}-{self.loss}-N{self.owners}-n{self.records}-eps{self.epsilon:g}"

    def agreement(self, delta: float = 0.0, **terms: Any) -> Agreement:
        """Everything "auto" that can be."""
        data: dict[str, Any] = {"dataset": self.dataset}
        if self.dataset == "creditcard":
            data |= {"components": 0, "feature_bound": 4.0, "public_rows": 10_000}
        elif self.dataset == "hospital":
            data |= {"components": 9}
        owner = {"records": self.records, "epsilon": self.epsilon, "delta": delta}
        return Agreement.of(
            {
                "agreement": {"rule": "auto", "communication": "asynchronous", "horizon": 1000, **terms},
                "model": {"loss": self.loss, "regularization": 1e-5},
                "data": data,
                "owner": [{"name": f"owner-{i + 1}", **owner} for i in range(self.owners)],
            }
        )


def grid() -> list[Cell]:
    """All cells, the first ε first."""
    data: list[tuple[str, str, int, int]] = [
        *(("lending", "squared", N, n) for N in (3, 10, 86) for n in (3_000, 10_000, 250_000)),
        ("hospital", "squared", 86, 10_000),
        *(("creditcard", loss, 3, 30_000) for loss in ("logistic", "hinge")),
    ]
    return [Cell(*terms, ε) for ε in EPSILONS for terms in data]


def quick() -> list[Cell]:
    """One cell a data set and loss."""
    return [
        Cell("lending", "squared", 10, 10_000, 1.0),
        Cell("creditcard", "logistic", 3, 30_000, 1.0),
        Cell("creditcard", "hinge", 3, 30_000, 1.0),
    ]
