"""Random problems with owners that are alike: every table is drawn from one law, and so are the public rows.

A problem is a function of its seed and number alone, so that a run can be taken up again where it stopped.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from copriv import Agreement
from copriv.types import Array

LOSSES = ("squared", "logistic", "hinge", "huber")
SIGNAL = (0.02, 0.2, 0.5, 0.8, 0.95, 0.999)
"""R² of a regression; a classifier's margins are as much wider."""
REGULARIZATION = (0.0, 1e-5, 1e-3, 1e-2)

Table = tuple[Array, Array]
Draw = Callable[[np.random.Generator, int], Array]
"""Features of so many rows."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """One problem: an agreement, the learner's public rows, and the owners' tables, which a forecast never sees."""

    number: int
    kind: str
    loss: str
    p: int
    signal: float
    agreement: Agreement
    public: Table
    owners: tuple[Table, ...]

    @property
    def facts(self) -> dict[str, Any]:
        """What a report groups by."""
        owners = self.agreement.owner
        return {
            "number": self.number, "kind": self.kind, "loss": self.loss, "p": self.p, "signal": self.signal,
            "owners": len(owners), "records": sum(o.records for o in owners), "public": len(self.public[1]),
            "epsilon": max(o.epsilon for o in owners), "regularization": self.agreement.model.regularization,
            "intercept": self.agreement.model.intercept,
        }  # fmt: skip


def _normal(rng: np.random.Generator, p: int) -> Draw:
    return lambda g, n: g.normal(size=(n, p))


def _heavy(rng: np.random.Generator, p: int) -> Draw:
    return lambda g, n: g.standard_t(3, size=(n, p))


def _binary(rng: np.random.Generator, p: int) -> Draw:
    share = rng.uniform(0.05, 0.95, size=p)
    return lambda g, n: (g.random((n, p)) < share).astype(np.float64)


def _correlated(rng: np.random.Generator, p: int) -> Draw:
    mix = rng.normal(size=(p, max(p // 3, 1))) @ rng.normal(size=(max(p // 3, 1), p)) / np.sqrt(p)
    return lambda g, n: g.normal(size=(n, p)) @ (mix + 0.2 * np.eye(p))


def _constant(rng: np.random.Generator, p: int) -> Draw:
    value = float(rng.choice([0.0, 1.0, 7.0]))

    def draw(g: np.random.Generator, n: int) -> Array:
        x = g.normal(size=(n, p))
        if p > 1:
            x[:, 0] = value
        return x

    return draw


def _categories(rng: np.random.Generator, p: int) -> Draw:
    levels = max(p // 2, 1)
    share = rng.dirichlet(np.ones(levels))

    def draw(g: np.random.Generator, n: int) -> Array:
        first = np.eye(levels)[g.choice(levels, size=n, p=share)]
        return np.hstack([first, g.normal(size=(n, p - levels))])

    return draw


def _counts(rng: np.random.Generator, p: int) -> Draw:
    mean = np.exp(rng.uniform(-1.0, 2.5, size=p))
    return lambda g, n: g.poisson(mean, size=(n, p)).astype(np.float64)


def _scales(rng: np.random.Generator, p: int) -> Draw:
    scale = 10.0 ** rng.uniform(-2.0, 2.0, size=p)
    return lambda g, n: scale * g.normal(size=(n, p))


KINDS: dict[str, Callable[[np.random.Generator, int], Draw]] = {
    "normal": _normal, "heavy tails": _heavy, "binary": _binary, "correlated": _correlated,
    "constant column": _constant, "categories": _categories, "counts": _counts, "scales": _scales,
    "skewed target": _normal, "rare class": _normal, "duplicated rows": _normal, "sorted rows": _normal,
}  # fmt: skip
"""Features of each kind; the last four are kinds of targets and of tables."""


def problem(seed: int, number: int) -> Drawn:
    """Problem `number` under `seed`."""
    rng = np.random.default_rng([seed, number])
    kind = list(KINDS)[number % len(KINDS)]
    losses = {"skewed target": ("squared", "huber"), "rare class": ("logistic", "hinge")}.get(kind, LOSSES)
    loss = str(rng.choice(losses))
    p = int(rng.choice([1, 2, 3, 5, 8, 12, 20, 30, 45, 60]))
    N = int(rng.choice([1, 2, 3, 5, 8, 12]))
    size = float(np.exp(rng.uniform(np.log(20), np.log(5000))))
    equal = rng.random() < 0.5
    records = [int(np.clip(size * (1.0 if equal else np.exp(rng.normal(0, 0.7))), 20, 5000)) for _ in range(N)]
    ε = float(np.exp(rng.uniform(np.log(0.05), np.log(20.0))))
    budgets = [ε if equal else float(np.clip(ε * np.exp(rng.normal(0, 0.5)), 0.05, 20.0)) for _ in range(N)]
    public = int(np.exp(rng.uniform(np.log(30), np.log(1500))))
    signal, c = float(rng.choice(SIGNAL)), float(rng.choice(REGULARIZATION))
    agreement = Agreement.of(
        {
            "agreement": {"rule": "auto", "horizon": 100},
            "data": {"heterogeneity": 0.0},
            "model": {"loss": loss, "regularization": c, "intercept": bool(rng.random() < 0.3)},
            "owner": [
                {"name": f"owner-{i + 1}", "records": n, "epsilon": e}
                for i, (n, e) in enumerate(zip(records, budgets, strict=True))
            ],
        }
    )
    features = KINDS[kind](rng, p)
    target = _target(rng, kind, loss, p, signal, features)

    def table(n: int, order: bool = True) -> Table:
        x = features(rng, n)
        x, y = x, target(rng, x)
        if kind == "duplicated rows":
            again = rng.integers(0, max(n // 3, 1), size=n)
            x, y = x[again], y[again]
        if kind == "sorted rows":
            at = np.argsort(y, kind="stable")
            x, y = x[at], y[at]
        return x, y

    return Drawn(number, kind, loss, p, signal, agreement, table(public), tuple(table(n) for n in records))


def _target(
    rng: np.random.Generator, kind: str, loss: str, p: int, signal: float, features: Draw
) -> Callable[[np.random.Generator, Array], Array]:
    theta = rng.normal(size=p) * (rng.random(p) < rng.choice([0.3, 1.0]))
    sample = features(rng, 4000)
    spread = sample.std(axis=0)
    theta = np.where(spread > 0, theta / np.maximum(spread, 1e-9), 0.1 * theta)
    size = float(np.std(sample @ theta)) or 1.0
    theta, centre = theta / size, float(np.mean(sample @ theta)) / size
    ratio = float(np.sqrt(signal / (1.0 - signal)))
    if loss in ("squared", "huber"):
        unit, level = float(rng.choice([0.1, 1.0, 10.0])), float(rng.choice([0.0, 0.0, 3.0]))

        def number(g: np.random.Generator, x: Array) -> Array:
            n = len(x)
            noise = g.lognormal(0.0, 1.0, size=n) / 2.16 if kind == "skewed target" else g.normal(size=n)
            return np.asarray(unit * (ratio * (x @ theta - centre) + noise + level) / np.sqrt(1.0 + ratio**2))

        return number
    shift = float(np.log(rng.uniform(0.01, 0.06))) if kind == "rare class" else 0.0

    def label(g: np.random.Generator, x: Array) -> Array:
        z = 2.0 * ratio * (x @ theta - centre) + shift
        return np.where(g.random(len(x)) < expit(z), 1.0, -1.0)

    return label
