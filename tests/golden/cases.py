"""The agreements whose results are frozen: every rule, mechanism, schedule and source of records stands in one of them."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from copriv import Agreement, Problem

Document = dict[str, Any]
DELTA = {"delta": 1e-5}
P = [[2.0, 0.3, 0.0], [0.3, 1.0, 0.1], [0.0, 0.1, 1.5]]
"""A public preconditioner for the three features of `arrays`."""


def agreed(terms: Document, loss: str = "squared", data: Document | None = None, **more: Any) -> Document:
    """An agreement of three owners; `more`: owner (for all), owners (one each), model."""
    given = more.get("owners", ({}, {}, {}))
    owners = [
        {"name": f"o{i}", "records": n, "epsilon": ε, **more.get("owner", {}), **own}
        for i, (n, ε, own) in enumerate(zip((60, 50, 40), (8.0, 5.0, 9.0), given, strict=True))
    ]
    model = {"loss": loss, "regularization": 0.05, "theta_max": 20.0, "gradient_bound": 2.0, **more.get("model", {})}
    return {
        "agreement": {"horizon": 12, "answers": 4, "step": 0.2, "seed": 3, **terms},
        "model": {"threshold": 0.6, **model} if loss == "huber" else model,
        "data": {"feature_bound": 3.0, **(data or {})},
        "owner": owners,
    }


def arrays(document: Document) -> Problem:
    """Rows of three normal features, a linear target with heavy noise, or its sign for losses of classes."""
    agreement = Agreement.of(document)
    rng = np.random.default_rng(20)

    def rows(n: int) -> tuple[np.ndarray, np.ndarray]:
        X = rng.normal(size=(n, 3)) * (1.0, 0.7, 0.4)
        y = X @ (0.8, -0.5, 0.3) + 0.3 * rng.standard_t(4, size=n)
        return X, np.where(y > 0, 1.0, -1.0) if agreement.model.loss in ("logistic", "hinge") else y

    return Problem.of(agreement, [rows(owner.records) for owner in agreement.owner], rows(200))


def once(mechanism: str, loss: str = "squared", owner: Document | None = None, **terms: Any) -> Document:
    """Every owner answers one query."""
    terms = {"rule": "A2", "horizon": 3, "answers": 1, "mechanism": mechanism, "start": [0.1, -0.2, 0.0], **terms}
    return agreed(terms, loss, owner=owner or {})


ARRAYS: dict[str, Document] = {
    "S1": agreed({"rule": "S1", "step": 40.0}),
    "S1, uncapped, nothing clipped": agreed({"rule": "S1", "step": 40.0, "answers": 12}, model={"gradient_bound": 1e3}),
    "S2 averaged, overlap": agreed({"rule": "S2"}, owner={"overlap": 2}),
    "S2 last, public start": agreed({"rule": "S2", "iterate": "last", "start": [0.5, -0.4, 0.2]}),
    "S2, hinge, gaussian": agreed({"rule": "S2", "mechanism": "gaussian"}, "hinge", owner=DELTA),
    "A1 corrected, Poisson clocks, huber": agreed(
        {"rule": "A1", "step": 30.0, "schedule": "poisson"}, "huber", owners=({"rate": 2.0}, {"rate": 0.5}, {})
    ),
    "A1 printed, on trust": agreed(
        {"rule": "A1", "step": 30.0, "learner_step": "printed"}, model={"gradient_bound_assumed": True}
    ),
    "A2, random order, groups": agreed(
        {"rule": "A2", "schedule": "random-order", "answers": 3}, owners=({}, {"group": "g"}, {"group": "g"})
    ),
    "A2, logistic, weights, intercept": agreed(
        {"rule": "A2"},
        "logistic",
        model={"intercept": True},
        owners=({"weight": 2.0}, {"weight": 1.0}, {"weight": 0.0}),
    ),
    "A2 in rounds, hinge, preconditioner": agreed(
        {"rule": "A2", "schedule": "rounds", "window": 3, "preconditioner": P, "step": 0.1}, "hinge"
    ),
    "A2, laplace-composed": agreed({"rule": "A2", "mechanism": "laplace-composed"}, owner=DELTA),
    "A2, proved bound": agreed({"rule": "A2"}, model={"gradient_bound": "proved", "theta_max": 2.0}),
    "statistics, public curvature": once("statistics", preconditioner=P, step=0.7),
    "statistics, moments": once("statistics", moments_share=0.3, step="auto"),
    "objective, squared": once("objective", step="auto"),
    "objective, squared, delta": once("objective", owner=DELTA, step="auto"),
    "objective, logistic, anchor and reach": once("objective", "logistic", anchor=1.5, reach=1.0, step=1.2),
    "objective, hinge, delta, preconditioner": once("objective", "hinge", DELTA, preconditioner=P, step="auto"),
    "objective, huber": once("objective", "huber", step="auto"),
}


def demo() -> Document:
    """The three banks of `copriv demo` as they were when results were frozen, on the embedded loans."""
    bank = {"epsilon": 1.0}
    return {
        "agreement": {
            "name": "three banks", "rule": "A2", "horizon": 12, "answers": 6, "step": 10000.0,
            "schedule": "random-order", "seed": 0,
        },
        "model": {"loss": "squared", "regularization": 1e-6, "theta_max": 1e5, "gradient_bound": 1.5},
        "data": {"dataset": "lending-embedded", "components": 8, "feature_bound": "auto", "public_rows": 100},
        "owner": [
            {"name": "bank-1", "records": 5500, **bank},
            {"name": "bank-2", "records": 4150, "group": "regional", **bank},
            {"name": "bank-3", "records": 40, "group": "regional", **bank},
        ],
    }  # fmt: skip


def dataset(name: str, terms: Document, records: int = 300, **data: Any) -> Document:
    """An agreement on a built-in data set."""
    data = {"dataset": name, "components": 3, "feature_bound": "auto", "public_rows": 400, **data}
    owner = {"records": records, "epsilon": 4.0}
    loss = "logistic" if name == "creditcard" else "squared"
    return agreed(terms, loss, data, owner=owner, owners=(owner,) * 3)


def loaded(document: Document) -> Problem:
    """By the pipeline that [data] names."""
    return Problem.load(Agreement.of(document), held_out=50)


DATASETS: dict[str, Document] = {
    "demo": demo(),
    "embedded loans, no dictionary, proved": dataset(
        "lending-embedded", {"rule": "S2"}, components=0, scaling="declared"
    ),
    "embedded loans, resampled": dataset("lending-embedded", {"rule": "A2"}, records=20_000),
    "simulated hospitals": dataset("hospital-simulated", {"rule": "A2"}),
}
SHARED: dict[str, Document] = {
    "cards": dataset("creditcard", {"rule": "A2", "schedule": "rounds"}, path="../shared/data/creditcard.parquet"),
    "hospitals": dataset("hospital", {"rule": "S2"}, path="../shared/data/diabetes_130_hospitals.parquet"),
}
"""Of data sets that stand beside the repository; without them there is nothing to compare."""


def people() -> str:
    """A CSV file of 60 persons, each of one to three rows, with a level, a gap and a label."""
    rng = np.random.default_rng(6)
    lines = io.StringIO()
    lines.write("person,age,income,region,late\n")
    for person in range(60):
        for _ in range(int(rng.integers(1, 4))):
            age, income = int(rng.integers(20, 80)), round(float(rng.uniform(1.0, 9.0)), 3)
            gap = "" if rng.random() < 0.1 else f"{income}"
            late = "yes" if rng.random() < age / 100 else "no"
            lines.write(f"p{person},{age},{gap},{'nsw'[int(rng.integers(3))]},{late}\n")
    return lines.getvalue()


def table(path: Path) -> Problem:
    """Persons of a declared table: levels, gaps, a unit and its most records."""
    path.write_text(people(), encoding="utf-8")
    data = {
        "path": str(path), "features": ["age", "income", "region"], "target": "late", "components": 0,
        "bounds": {"age": [18.0, 90.0], "income": [0.0, 10.0]}, "public_rows": 20, "missing": {"income": 2.0},
        "categories": {"region": ["n", "s", "w"], "late": ["no", "yes"]}, "ordered": ["region"], "feature_bound": 2.0,
    }  # fmt: skip
    person = {"unit": "person", "unit_records": 2, "records": 10}
    document = agreed({"rule": "A2"}, "logistic", data, owner=person, owners=(person,) * 3)
    return Problem.load(Agreement.of(document))


SIMULATED: dict[str, Callable[[Path], Problem]] = {
    **{name: lambda _, d=document: arrays(d) for name, document in ARRAYS.items()},
    **{name: lambda _, d=document: loaded(d) for name, document in DATASETS.items()},
    "a table of persons": lambda folder: table(folder / "people.csv"),
}

OPEN = {"rule": "auto", "step": "auto"}
AUTO = {"gradient_bound": "auto"}
FORECAST: dict[str, Document] = {
    "S2 averaged, overlap": ARRAYS["S2 averaged, overlap"],
    "S1, exact": ARRAYS["S1, uncapped, nothing clipped"],
    "A1, exact": agreed({"rule": "A1", "step": 5.0}, model={"gradient_bound": 1e3}),
    "A2, random order, exact": agreed(
        {"rule": "A2", "schedule": "random-order", "answers": 3}, model={"gradient_bound": 1e3}
    ),
    "A2, all open": agreed({**OPEN, "horizon": 200}, model=AUTO),
    "logistic, synchronous and open": agreed({**OPEN, "communication": "synchronous"}, "logistic", model=AUTO),
    "delta, all open": agreed(OPEN, model=AUTO, owner=DELTA),
    "delta, hinge, all open": agreed(OPEN, "hinge", model=AUTO, owner=DELTA),
    "statistics, moments": ARRAYS["statistics, moments"],
    "objective, huber": ARRAYS["objective, huber"],
}
DEFAULT_FORECASTS = ("A2, random order, exact", "A2, all open", "statistics, moments")
"""Those that every run of the tests makes; the others are slow."""

FIGURES = ("async-fig3", "sync-fig2", "async-fig4", "sync-fig6")
DEFAULT_FIGURES = ("async-fig3",)
