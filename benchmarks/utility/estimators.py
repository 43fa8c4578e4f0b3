"""Estimators beside diffprivlib and plain scikit-learn, on held-out rows: `python -m benchmarks.utility.estimators`.

As one owner and as many. All see the same features (the public dictionary's for loans, V1 to V28 for cards), in the
ranges that the public rows show. diffprivlib runs in an environment of its own (`peers.PINNED`: it cannot be imported
with today's scikit-learn), each owner by itself, and its models are averaged by rows, as ours without public rows are.
"""

import argparse
import subprocess
import tempfile
import warnings
from pathlib import Path

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import r2_score, roc_auc_score

from benchmarks.utility.cells import Cell
from benchmarks.utility.peers import ENVIRONMENT, PINNED, _environment
from copriv import Agreement, Problem
from copriv.estimators import PrivateClassifier, PrivateRegressor
from copriv.estimators.inputs import Ranges
from copriv.types import Array

CELLS = (
    Cell("lending", "squared", 1, 10_000, 1.0), Cell("lending", "squared", 10, 1_000, 1.0),
    Cell("creditcard", "logistic", 1, 30_000, 1.0), Cell("creditcard", "logistic", 3, 10_000, 1.0),
)  # fmt: skip
WORKER = """
import sys, numpy as np
from diffprivlib.models import LinearRegression, LogisticRegression
import warnings; warnings.simplefilter("ignore")
d = np.load(sys.argv[1]); x, y, who, ε = d["x"], d["y"], d["who"], float(d["epsilon"])
made = []
for run in range(int(d["runs"])):
    coef = []
    for i in np.unique(who):
        X, t = x[who == i], y[who == i]
        if d["squared"]:
            m = LinearRegression(epsilon=ε, bounds_X=(-1, 1), bounds_y=(-1, 1)).fit(X, t)
        else:
            m = LogisticRegression(epsilon=ε, data_norm=float(d["norm"]), C=1 / (len(t) * 1e-5), max_iter=500).fit(X, t)
        coef.append(np.append(np.ravel(m.coef_), m.intercept_) * np.mean(who == i))
    made.append(np.sum(coef, axis=0))
np.save(sys.argv[2], np.array(made))
"""


def measured(cell: Cell, runs: int) -> dict[str, tuple[str, list[float]]]:
    """Method → what is measured and its values, one a run."""
    terms: Agreement = cell.agreement().replace(data={"feature_bound": 0})
    problem = Problem.load(terms.replace(owner={"records": cell.records}), held_out=2_000)
    public, out = problem.unbounded_public, problem.unbounded_held_out
    assert public is not None
    assert out is not None
    X, y = (np.concatenate([getattr(part, name) for part in problem.unbounded]) for name in ("features", "target"))
    who = np.repeat(np.arange(cell.owners), [len(part) for part in problem.unbounded])
    squared = cell.loss == "squared"
    name, score = ("R²", r2_score) if squared else ("AUC", roc_auc_score)
    kind = PrivateRegressor if squared else PrivateClassifier
    plain = (LinearRegression() if squared else LogisticRegression(C=1e3, max_iter=1000)).fit(X, y)

    def judged(model: object) -> float:
        with np.errstate(all="ignore"):
            said = model.predict(out.features) if squared else model.decision_function(out.features)  # type: ignore[attr-defined]
        return float(score(out.target, said))

    ranges = Ranges(public.features.min(axis=0), public.features.max(axis=0), shift=True)
    ends = (float(public.target.min()), float(public.target.max()))
    declared = {"bounds": (ranges.low, ranges.high), **({"target_bounds": ends} if squared else {"classes": (-1, 1)})}
    few = (public.features, public.target)
    found = {
        "scikit-learn, not private": (name, [judged(plain)]),
        "copriv, public rows": (name, [judged(kind(epsilon=1.0).fit(X, y, owners=who, public=few)) for _ in range(runs)]),
        "copriv, declared only": (
            name, [judged(kind(epsilon=1.0, **declared).fit(X, y, owners=who)) for _ in range(runs)]
        ),
    }  # fmt: skip
    θ = _diffprivlib(ranges.inside(X), _inside(y, ends) if squared else y, who, squared, runs)
    z = ranges.inside(out.features) @ θ[:, :-1].T + θ[:, -1]
    # R² and AUC of the scaled target are those of the target.
    against = _inside(out.target, ends) if squared else out.target
    found[f"diffprivlib ({PINNED[0]}, {PINNED[1]})"] = (name, [float(score(against, one)) for one in z.T])
    return found


def _inside(y: Array, ends: tuple[float, float]) -> Array:
    return np.asarray(np.clip((2 * y - ends[0] - ends[1]) / (ends[1] - ends[0]), -1, 1))


def _diffprivlib(x: Array, y: Array, who: Array, squared: bool, runs: int) -> Array:
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder) / "in.npz", Path(folder) / "out.npy"
        norm = float(np.sqrt(x.shape[1]))  # of rows in [−1, 1]^p: proved, as copriv's without public rows is
        np.savez(given, x=x, y=y, who=who, squared=squared, epsilon=1.0, runs=runs, norm=norm)
        python = _environment(ENVIRONMENT, PINNED)
        subprocess.run([python, "-c", WORKER, str(given), str(made)], check=True)
        return np.asarray(np.load(made))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.utility.estimators")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", default="", help="cells whose name contains this")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| table, owners × rows | method | measure | median | least | most |\n| --- | --- | --- | --- | --- | --- |")
    for cell in (cell for cell in CELLS if options.only in cell.name):
        for method, (name, values) in measured(cell, options.runs).items():
            low, mid, high = np.quantile(values, (0.0, 0.5, 1.0))
            where = f"{cell.dataset}, {cell.owners} × {cell.records:,}"
            print(f"| {where} | {method} | {name} | {mid:.3f} | {low:.3f} | {high:.3f} |", flush=True)


if __name__ == "__main__":
    main()
