"""The cells of the table, each an agreement that leaves to the plan all that a plan may choose."""

from dataclasses import dataclass
from typing import Any

from copriv import Agreement

EPSILONS = (0.1, 1.0, 10.0)
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
    """All cells."""
    cells = [
        Cell("lending", "squared", N, n, ε) for N in (3, 10, 86) for n in (3_000, 10_000, 250_000) for ε in EPSILONS
    ]
    cells += [Cell("hospital", "squared", 86, 10_000, ε) for ε in EPSILONS]
    cells += [Cell("creditcard", loss, 3, 30_000, ε) for loss in ("logistic", "hinge") for ε in EPSILONS]
    return cells


def quick() -> list[Cell]:
    """One cell a data set and loss."""
    return [
        Cell("lending", "squared", 10, 10_000, 1.0),
        Cell("creditcard", "logistic", 3, 30_000, 1.0),
        Cell("creditcard", "hinge", 3, 30_000, 1.0),
    ]
