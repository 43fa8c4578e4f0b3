"""What is frozen of a result: every number and word that a user could read of it, and nothing that tells the time."""

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np

import copriv

RUNS = 4
TIMES = ("seconds",)
BY_INTERIOR_POINT = {"alone": 1e-4}
"""Keys whose value is of a model that an interior-point solver found for a fitness with kinks: its last digits are the
machine's. Relative tolerances, of an excess ψ over an optimum."""


def of_simulation(problem: copriv.Problem) -> dict[str, Any]:
    """`simulate` in few runs: its JSON, the models, and who talked when in the first run."""
    result = copriv.simulate(problem, runs=RUNS, workers=1, own_records=False)
    events = result.schedule
    talk = events if isinstance(events, list | tuple) else list(events)
    return plain({**result.to_dict(), "theta": result.theta, "schedule": talk})


def of_forecast(problem: copriv.Problem) -> dict[str, Any]:
    """`forecast` in few runs: its JSON, and every setting that the plan measured, the best first.

    Of owners that are said to be alike, as everybody took them to be when these digits were frozen.
    """
    found = copriv.forecast(problem.under(problem.terms.replace(data={"heterogeneity": 0.0})), runs=20)
    measured = [{"words": c.describe(), "psi": c.relative_fitness, "f": c.fitness} for c in found.plan.measured]
    terms = [one.agreement.to_dict() for one in (found.agreed, found.recommended)]
    for document in terms:
        del document["data"]["heterogeneity"]
    document = found.to_dict()
    del document["public_rows"], document["n_parameters"]  # which came later, as bands on own records did
    for owner in document["owners"]:
        later = ("_band", "_with_intercept")
        owner["own"] = {key: value for key, value in owner["own"].items() if not key.endswith(later)}
    return plain({**document, "measured": measured, "considered": found.plan.considered, "terms": terms})


def of_figure(path: Path) -> dict[str, Any]:
    """A figure's CSV: its columns, the words in them counted, and of numbers the sums in two weightings."""
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    columns: dict[str, Any] = {}
    for name in rows[0]:
        cells = [row[name] for row in rows]
        try:
            values = np.array([float(cell) for cell in cells if cell])
        except ValueError:
            columns[name] = {cell: cells.count(cell) for cell in dict.fromkeys(cells)}
            continue
        finite = values[np.isfinite(values)]
        place = np.arange(1, len(finite) + 1) / max(len(finite), 1)
        columns[name] = {
            "count": len(values), "finite": len(finite), "sum": float(finite.sum()),
            "sum by place": float(place @ finite), "sum of squares": float(finite @ finite),
        }  # fmt: skip
    return plain({"rows": len(rows), "columns": columns})


def plain(value: Any) -> Any:
    """As JSON gives it back, with 13 digits: a tolerance of 1e-9 has no use for more."""
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items() if key not in TIMES}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, float):
        return float(f"{value:.13g}") if math.isfinite(value) else repr(value)
    return value


def differences(was: Any, now: Any, where: str = "", *, rel: float = 1e-9, tiny: float = 1e-12) -> list[str]:
    """Where two results differ, in words. Numbers may by `rel` of their size, or by `tiny` of the largest beside them.

    A vector's small entry is no more exact than its large ones, which is what `tiny` is for.
    """
    if isinstance(was, dict) and isinstance(now, dict):
        lost = [f"{where}/{key}: is gone" for key in was.keys() - now.keys()]
        both = [key for key in was if key in now]  # a key that was added is no changed result
        found = [
            differences(was[key], now[key], f"{where}/{key}", rel=max(rel, BY_INTERIOR_POINT.get(key, 0.0)), tiny=tiny)
            for key in both
        ]
        return [*lost, *(d for part in found for d in part)]
    if isinstance(was, list) and isinstance(now, list):
        if len(was) != len(now):
            return [f"{where}: {len(was)} entries were frozen, now {len(now)}"]
        sizes = [abs(x) for x in was if isinstance(x, int | float)]
        scale = max(sizes, default=0.0)
        return [
            d
            for i, (a, b) in enumerate(zip(was, now, strict=True))
            for d in differences(a, b, f"{where}[{i}]", rel=rel, tiny=max(tiny, 1e-3 * rel * scale))
        ]
    if _number(was) and _number(now):
        close = math.isclose(was, now, rel_tol=rel, abs_tol=tiny)
        return [] if close else [f"{where}: {was!r} was frozen, now {now!r}"]
    return [] if was == now else [f"{where}: {was!r} was frozen, now {now!r}"]


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
