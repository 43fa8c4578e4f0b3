"""The papers' consortia as agreements, with the settings that each experiment section states, and those that it leaves open.

A *mechanism* here is the noise of an answer and its bound Ξ:

| mechanism      | noise                   | gradient bound Ξ                | private |
| -------------- | ----------------------- | ------------------------------- | ------- |
| "as published" | one number an answer    | p/2, taken on trust             | no      |
| "as written"   | a vector an answer      | p/2, taken on trust             | no      |
| "sound"        | a vector an answer      | p/2, enforced by clipping       | yes     |
| "planned"      | a vector an answer      | chosen and enforced (`planned`) | yes     |

A's published code takes Ξ = p/2 and m = T (erratum 7), which is the noise of all three. S prints no Ξ; the same one is
used. What else the papers do not print is chosen here from public rows alone and written into each figure's JSON:

- S2's first step c₁: half of one over the largest curvature of the fitness on the public rows, or one over the
  regulariser's strength where the loss has no curvature (hinge). One long private record makes the largest curvature of
  the pool seven times that of the public rows; with all of it the first steps overshoot, and what they leave at T = 100
  is more than the noise.
- S2's θ[1]: the optimum of the public rows. The average θ̄[T] remembers θ[1] with a weight of about T^−(1+1/√T), so a
  start at 0 leaves a floor of ψ ≈ 0.006 (lending) under everything that noise does; sync-fig2 draws both.
- A1's ρ on card data: of a grid of powers of 10^¼, the one that does best on the public rows with the noise of the
  middle setting.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from copriv.agreement import Agreement
from copriv.data.consortium import load_consortium
from copriv.data.datasets import hospital
from copriv.data.fetch import found
from copriv.errors import DataError
from copriv.losses import by_name
from copriv.model.fitness import FeasibleSet, Fitness, Regularizer
from copriv.model.records import Records
from copriv.problem import Problem
from copriv.simulation import simulate

Mechanism = Literal["as published", "as written", "sound", "planned"]

NOT_PRIVATE: tuple[Mechanism, ...] = ("as published", "as written")

Start = Literal["zero", "random", "public"]

INSIDE = "inside"
"""Stands for a path of lending: the table inside the package."""

SHARED = Path("..") / "shared" / "data"
"""Folder beside a checkout that may have larger public tables."""
_TABLES = {
    "lending": "lending_10k.parquet",
    "creditcard": "creditcard.parquet",
    "hospital": "diabetes_130_hospitals.parquet",
}


def table_at_hand(dataset: str) -> dict[str, str]:
    """For an agreement's [data]: the data set, and the path of its table where one is at hand."""
    path = at_hand(dataset)
    return {"dataset": dataset, **({} if path is None else {"path": path})}


def at_hand(dataset: str) -> str | None:
    """The path of a data set's table: beside the checkout, or fetched earlier. An agreement that is made with it says so."""
    if dataset not in _TABLES:
        return None
    shared = SHARED / _TABLES[dataset]
    kept = found(dataset) if dataset in ("creditcard", "hospital") else None
    return os.fspath(shared) if shared.is_file() else None if kept is None else os.fspath(kept)


@dataclass(frozen=True)
class Setting:
    """The settings of one consortium of a paper, without its owners."""

    dataset: str
    loss: Literal["squared", "hinge"]
    rule: Literal["S2", "A1"]
    horizon: int
    regularization: float
    n_parameters: int
    step: float | None
    """None: chosen on the public rows."""
    start: Start
    public_rows: int
    held_out: int
    middle: int = 0
    """Records of each of the three owners, with ε = 1, for which the step is chosen."""
    mean_square: float | None = None
    """Of features; None: 1/10,000, of a PCA of 10,000 rows."""

    def on(self, paths: Mapping[str, str]) -> "Setting":
        """The same on the papers' own file, where there is a path to it: their public rows, more rows held out."""
        if self.dataset not in paths:
            return self
        if self.dataset == "lending" and paths["lending"] == INSIDE:
            return replace(self, dataset="lending-embedded")
        if self.dataset == "lending":
            return replace(self, public_rows=10_000, held_out=10_000)
        if self.dataset == "hospital" and _facility_sizes(paths["hospital"]):
            return replace(self, public_rows=_SPARCS_PUBLIC, held_out=0)
        return self

    def path(self, paths: Mapping[str, str]) -> str | None:
        """The table that stands in the agreement: the papers' own file, or the one at hand; None: inside the package."""
        return paths.get(self.dataset) or at_hand(self.dataset)

    @property
    def intercept(self) -> bool:
        """The hinge models see [x; 1]."""
        return self.loss == "hinge"

    @property
    def components(self) -> int:
        """Card features are principal components already."""
        return 0 if self.dataset == "creditcard" else self.n_parameters

    @property
    def gradient_bound(self) -> float:
        """Ξ = p/2: the published code's."""
        return self.n_parameters / 2

    def agreement(
        self,
        records: Sequence[int],
        epsilons: Sequence[float],
        mechanism: Mechanism,
        paths: Mapping[str, str],
        seed: int = 0,
        start: Start | None = None,
        schedule: str = "uniform",
    ) -> Agreement:
        """The agreement of owners with these records and budgets."""
        path = self.path(paths)
        terms: dict[str, Any] = {
            "name": f"{self.dataset}, {mechanism}",
            "rule": self.rule,
            "horizon": self.horizon,
            "step": self.step or chosen_step(self, path),
            "seed": seed,
            "schedule": schedule,
            "start": list(started(self, start or self.start, path)),
            # A's eq. (7) as it is printed; its appendix needs 1/2 (erratum 2), which every other mechanism takes.
            **({"learner_step": "printed"} if mechanism == "as published" else {}),
        }
        enforced = mechanism not in NOT_PRIVATE
        return Agreement.of(
            {
                "agreement": terms,
                "model": {
                    "loss": self.loss,
                    "regularization": self.regularization,
                    "gradient_bound": self.gradient_bound,
                    "gradient_bound_assumed": not enforced,
                    "intercept": self.intercept,
                },
                "data": self._data("auto" if enforced else 0.0, path),
                "owner": [
                    {"name": f"owner-{i + 1}", "records": int(n), "epsilon": float(ε)}
                    for i, (n, ε) in enumerate(zip(records, epsilons, strict=True))
                ],
            }
        )

    def _data(self, feature_bound: float | str, path: str | None) -> dict[str, Any]:
        where = {} if path is None else {"path": path}
        return {
            "dataset": self.dataset,
            "components": self.components,
            "feature_bound": feature_bound,
            "public_rows": self.public_rows,
            **({} if self.mean_square is None else {"mean_square": self.mean_square}),
            **where,
        }


S_LENDING = Setting("lending", "squared", "S2", 100, 0.0, 10, None, "public", 2000, 1000)
S_CARDS = Setting("creditcard", "hinge", "S2", 100, 1.0, 30, None, "public", 5000, 14_000)
A_LENDING = Setting("lending", "squared", "A1", 1000, 1e-5, 10, 3000.0, "zero", 2000, 1000)
A_HOSPITAL = Setting(
    "hospital", "squared", "A1", 1000, 1e-5, 9, 10_000.0, "random", 50_000, 5000, mean_square=1 / 50_000
)
A_SIMULATED_HOSPITAL = replace(A_HOSPITAL, dataset="hospital-simulated")
A_LENDING_PRINTED, A_HOSPITAL_PRINTED, A_SIMULATED_HOSPITAL_PRINTED = (
    replace(one, regularization=2e-5, start="zero") for one in (A_LENDING, A_HOSPITAL, A_SIMULATED_HOSPITAL)
)
"""What A prints where its code has something else: g = 10⁻⁵θᵀθ (§V), and a start at 0 (Alg. 1)."""
A_CARDS = Setting("creditcard", "hinge", "A1", 100, 1e-5, 30, None, "zero", 5000, 14_000, 30_000)

HOSPITAL_RECORDS = tuple(int(n) for n in np.geomspace(10_000, 60_000, 86).round())
"""86 hospitals of 10,000 to 60,000 records, evenly spaced on a log axis (A, §V-B gives the range)."""

_SPARCS_PUBLIC = 50_000
"""A takes the last 50,000 rows of SPARCS as public."""


def hospital_records(setting: Setting, paths: Mapping[str, str]) -> tuple[int, ...]:
    """How many records each hospital has: the file's own numbers where it is SPARCS, else HOSPITAL_RECORDS."""
    return (_facility_sizes(paths["hospital"]) if setting.dataset in paths else ()) or HOSPITAL_RECORDS


@lru_cache(maxsize=4)
def _facility_sizes(path: str) -> tuple[int, ...]:
    """Of a SPARCS file; none for a table that does not name the hospital."""
    try:
        return tuple(hospital.sizes(Path(path), _SPARCS_PUBLIC))
    except DataError:
        return ()


@lru_cache(maxsize=16)
def public_sample(setting: Setting, path: str | None) -> Records:
    """Return the learner's own rows, prepared as the owners' records are."""
    public = load_consortium(
        setting.dataset,
        [1],
        components=setting.components,
        feature_bound=0.0,
        public_rows=setting.public_rows,
        path=path,
        mean_square=setting.mean_square,
    ).public
    assert public is not None
    return public.with_intercept() if setting.intercept else public


def public_fitness(setting: Setting, path: str | None) -> Fitness:
    """f on the public rows."""
    records = public_sample(setting, path)
    return Fitness(by_name(setting.loss), Regularizer(setting.regularization), FeasibleSet(1e5), records)


@lru_cache(maxsize=16)
def started(setting: Setting, start: Start, path: str | None) -> tuple[float, ...]:
    """θ at the start: zeros, one random point of [0, 1]^p (A's code), or the public rows' optimum."""
    if start == "zero":
        return (0.0,) * setting.n_parameters
    if start == "random":
        return tuple(np.random.default_rng(1).uniform(size=setting.n_parameters).tolist())
    return tuple(public_fitness(setting, path).minimum().theta.tolist())


@lru_cache(maxsize=16)
def chosen_step(setting: Setting, path: str | None) -> float:
    """The step where the paper prints none, from public rows alone: see the module's docstring."""
    if setting.rule == "S2":
        curvature = public_fitness(setting, path).smoothness()
        return 0.5 / curvature if np.isfinite(curvature) else 1.0 / setting.regularization
    steps = [10 ** (j / 4) for j in range(-20, 5)]
    return min(steps, key=lambda step: _on_public_rows(setting, step, path))


def _on_public_rows(setting: Setting, step: float, path: str | None) -> float:
    """Mean ψ after a run on the public rows with the noise of three owners of `middle` records, ε = 1."""
    agreement = Agreement.of(
        {
            "agreement": {"rule": setting.rule, "horizon": setting.horizon, "step": step},
            "model": {
                "loss": setting.loss,
                "regularization": setting.regularization,
                "gradient_bound": setting.gradient_bound,
                "gradient_bound_assumed": True,
            },
            "data": {"feature_bound": 0.0},
            "owner": [{"name": f"owner-{i}", "records": setting.middle, "epsilon": 1.0} for i in range(3)],
        }
    )
    problem = Problem.forecasting(agreement, public_sample(setting, path))
    return simulate(problem, runs=8, seed=0, record_at=(), workers=1, alone=False).relative_fitness.final["mean"]
