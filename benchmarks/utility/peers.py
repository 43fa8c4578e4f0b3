"""What others would run: each owner fits privately by itself, the models are averaged by weight.

Output perturbation and DP-SGD are written here, from their papers, and `tests/test_benchmark_peers.py` checks their
noise. diffprivlib and Opacus run in environments of their own, made when first needed: diffprivlib fails on today's
scikit-learn, and torch is large. diffprivlib's LinearRegression takes symmetric bounds here (with a lower bound of 0 it
adds no noise to squares). Opacus accounts for a record added or removed, which is a weaker promise than for one
replaced: at the same ε its noise is up to a half.

Settings of the peers (regularisation, steps, clipping) are searched for on bootstrap worlds of the public rows, exactly
as ours are.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from benchmarks.utility.cells import DELTA, Cell
from benchmarks.utility.methods import Method
from copriv import Problem
from copriv.model.fitness import relative_fitness
from copriv.model.records import Records
from copriv.populations.public_sample import PublicSample
from copriv.privacy.approximate import gaussian_multiplier
from copriv.privacy.clipping import row_norms
from copriv.simulation.gradients import batched_gradients
from copriv.types import Array

PINNED = ("diffprivlib==0.6.5", "scikit-learn==1.4.2", "numpy==1.26.4", "scipy==1.13.1")
ENVIRONMENT = Path(".venv-peers")
OPACUS, OPACUS_ENVIRONMENT = ("torch==2.13.0", "opacus==1.6.0"), Path(".venv-opacus")
OPACUS_RUNS, OPACUS_TRIALS = 5, 2
"""It takes seconds a model: fewer runs than the others, and as many for each setting that is tried."""
MOST_ROWS, MOST_FITS = 30_000_000, 500
"""diffprivlib works on every row, for every owner and run: it is run less often where that would be more than this."""
LEAST_RUNS = 3


@dataclass(frozen=True)
class Terms:
    """Of one owner: noise is made for `units` records, which the records at hand may only stand for."""

    units: int
    epsilon: float
    runs: int


class Peer(Protocol):
    """One setting of a peer."""

    def fit(self, problem: Problem, records: Records, terms: "Terms", rng: np.random.Generator) -> Array:
        """One owner's private models, one a run."""
        ...

    def words(self) -> str: ...


@dataclass(frozen=True)
class OutputPerturbation:
    """Chaudhuri, Monteleoni and Sarwate 2011, Algorithm 1: the minimiser with more regularisation, plus noise.

    Gradients are clipped to `clip` in L2 and F is Λ-strongly convex: replacing one of n records moves its minimiser by
    at most 2·clip/(nΛ) in L2. Noise has density ∝ exp(−ε‖b‖₂/that).
    """

    strength: float
    clip: float

    def sensitivity(self, units: int) -> float:
        return 2.0 * self.clip / (units * self.strength)

    def minimiser(self, problem: Problem, records: Records) -> Array:
        """Of (1/n)Σ clipped loss + (Λ/2)‖θ‖²."""
        from copriv.mechanisms.objective_noise import Perturbation
        from copriv.mechanisms.objective_solver import surface_of

        # The tilted fitness without a tilt is the regularised one with each gradient clipped in L2.
        agreed = Perturbation(
            surface_of(problem.loss, 0.5), self.clip, 2, float(problem.feature_bound or 1e9),
            problem.terms.model.intercept,
            np.zeros(records.n_parameters), self.strength, anchor=0.0,
        )  # fmt: skip
        return agreed.tied(records.units, 1.0).prepared(records).minimum(np.zeros(records.n_parameters))

    def fit(self, problem: Problem, records: Records, terms: Terms, rng: np.random.Generator) -> Array:
        direction = rng.normal(size=(terms.runs, records.n_parameters))
        size = rng.gamma(records.n_parameters, self.sensitivity(terms.units) / terms.epsilon, size=(terms.runs, 1))
        noise = size * direction / np.linalg.norm(direction, axis=1, keepdims=True)
        return np.asarray(self.minimiser(problem, records) + noise)

    def words(self) -> str:
        return f"Λ {self.strength:.3g}, clip {self.clip:.3g}"


@dataclass(frozen=True)
class DPSGD:
    """DP-SGD (Abadi et al. 2016) with full batches: `steps` normal answers to each owner's own descent, δ = 1e-6.

    Full batches, because subsampling is accounted for under another relation than ours (a record added or removed), and
    because at these n the batch is not what costs time. The model is the mean of the last half of the path.
    """

    steps: int
    clip: float
    step: float

    def fit(self, problem: Problem, records: Records, terms: Terms, rng: np.random.Generator) -> Array:
        noise = 2.0 * self.clip / terms.units * gaussian_multiplier(self.steps, terms.epsilon, DELTA)
        gradients = batched_gradients(problem.loss, (records,), self.clip, 1, 2)
        owner = np.zeros(terms.runs, dtype=np.intp)
        theta = mean = np.zeros((terms.runs, records.n_parameters))
        for k in range(self.steps):
            g = gradients(owner, theta) + problem.regularizer.gradient(theta) + noise * rng.normal(size=theta.shape)
            theta = problem.feasible_set.project(theta - self.step * g)
            seen = k - self.steps // 2
            mean = theta if seen <= 0 else mean + (theta - mean) / (seen + 1)
        return np.asarray(mean)

    def words(self) -> str:
        return f"{self.steps} steps of {self.step:.3g}, clip {self.clip:.3g}"


def output_perturbations(problem: Problem, sample: PublicSample) -> Iterator[OutputPerturbation]:
    top = float(np.linalg.eigvalsh(sample.hessian)[-1])
    for clip in _clips(problem, sample):
        for share in (1.0, 0.1, 0.01, 1e-3, 1e-4, 1e-5):
            yield OutputPerturbation(top * share, clip)


def descents(problem: Problem, sample: PublicSample) -> Iterator[DPSGD]:
    smooth = sample.problem.fitness.smoothness()
    top = smooth if np.isfinite(smooth) else float(np.linalg.eigvalsh(sample.hessian)[-1])
    for clip in _clips(problem, sample):
        for steps in (10, 40, 160):
            # Beyond 2 a quadratic diverges, but a classifier's curvature falls far below its bound.
            for gain in (0.3, 1.0, 3.0, 10.0, 30.0):
                yield DPSGD(steps, clip, gain / top)


def _clips(problem: Problem, sample: PublicSample) -> list[float]:
    r = sample.records
    at = np.abs(problem.loss.slope(np.zeros(len(r)), r.target)) * row_norms(r.features, 2)
    return sorted({float(q) for q in np.quantile(at, (0.5, 0.99, 1.0))} | {float(np.quantile(at, 0.99)) / 4})


def searched(settings: object) -> Method:
    """A peer with the setting that does best on the public rows."""

    def run(cell: Cell, problem: Problem, runs: int) -> tuple[Array, str]:
        sample, rng = PublicSample.of(problem), np.random.default_rng(0)
        worlds = sample.worlds(2)
        best, least = None, np.inf
        for peer in settings(problem, sample):  # type: ignore[operator]
            cost = float(np.mean([_trial(peer, world, cell, rng) for world in worlds]))
            if cost < least:
                best, least = peer, cost
        assert best is not None
        models = [
            best.fit(problem, records, Terms(cell.records, cell.epsilon, runs), rng) for records in problem.owners
        ]
        theta = problem.feasible_set.project(np.average(models, axis=0, weights=problem.terms.weights))
        return np.asarray(relative_fitness(problem.fitness.value(theta), problem.optimum)), best.words()

    return run


def _trial(peer: Peer, world: Problem, cell: Cell, rng: np.random.Generator) -> float:
    return _averaged_cost(world, cell, peer.fit(world, world.owners[0], Terms(cell.records, cell.epsilon, 6), rng))


def _averaged_cost(world: Problem, cell: Cell, some: Array) -> float:
    """f of the average over N owners: a few models of one stand for it, with their spread smaller by √N."""
    centre = some.mean(axis=0)
    averaged = centre + (some - centre) / np.sqrt(cell.owners)
    return float(world.fitness.value(world.feasible_set.project(averaged)).mean())


def diffprivlib(cell: Cell, problem: Problem, runs: int) -> tuple[Array, str]:
    """LinearRegression or LogisticRegression, each owner by itself; bounds as everybody has them."""
    python = _environment(ENVIRONMENT, PINNED)
    with tempfile.TemporaryDirectory() as folder:
        tables: dict[str, Array] = {}
        for i, records in enumerate(problem.owners):
            tables |= {
                f"x{i}": records.features,
                f"y{i}": records.target,
                f"n{i}": np.round(records.weight).astype(int),
            }
        # Every loan's rate is below 30 %; stays below 14 days: public facts of the schemas.
        target = float(problem.target_bound) if np.isfinite(problem.target_bound) else 1.0
        np.savez(Path(folder) / "in.npz", **tables)
        some = max(min(MOST_ROWS // (cell.owners * cell.records), MOST_FITS // cell.owners, runs), LEAST_RUNS)
        terms = {
            "loss": cell.loss, "epsilon": cell.epsilon, "runs": some, "owners": cell.owners,
            "feature_bound": problem.feature_bound, "target_bound": target, "intercept": problem.terms.model.intercept,
            "regularization": problem.terms.model.regularization,
        }  # fmt: skip
        (Path(folder) / "in.json").write_text(json.dumps(terms))
        script = Path(__file__).with_name("diffprivlib_worker.py")
        subprocess.run([python, "-W", "ignore", str(script), folder], check=True)
        models = np.load(Path(folder) / "out.npy")
    theta = problem.feasible_set.project(np.average(models, axis=1, weights=problem.terms.weights))
    return np.asarray(relative_fitness(problem.fitness.value(theta), problem.optimum)), ", ".join(PINNED[:2])


def opacus(cell: Cell, problem: Problem, runs: int) -> tuple[Array, str]:
    """DP-SGD by Opacus, each owner by itself: Poisson batches, a linear model, settings tried on bootstrap worlds."""
    sample = PublicSample.of(problem)
    worlds, top = sample.worlds(2), float(np.linalg.eigvalsh(sample.hessian)[-1])
    settings = [
        {"clip": clip, "epochs": epochs, "rate": 0.05, "step": gain / top}
        for clip in _clips(problem, sample)
        for epochs in (3, 10)
        for gain in (0.1, 0.5, 2.0)
    ]
    tried = [(setting, k) for setting in settings for k in range(len(worlds))]
    models = _by_opacus(cell, problem, [w.owners[0] for w in worlds], [(*t, OPACUS_TRIALS) for t in tried])
    costs = np.zeros(len(settings))
    for j, ((_, k), some) in enumerate(zip(tried, models, strict=True)):
        costs[j // len(worlds)] += _averaged_cost(worlds[k], cell, some)
    best, some_runs = settings[int(np.argmin(costs))], min(OPACUS_RUNS, runs)
    jobs = [(best, i, some_runs) for i in range(cell.owners)]
    theta = np.average(_by_opacus(cell, problem, list(problem.owners), jobs), axis=0, weights=problem.terms.weights)
    ψ = np.asarray(relative_fitness(problem.fitness.value(problem.feasible_set.project(theta)), problem.optimum))
    words = (
        f"{OPACUS[1]}, {best['epochs']} epochs, rate {best['rate']:g}, step {best['step']:.3g}, clip {best['clip']:.3g}"
    )
    return ψ, words + " (a record added or removed)"


def _by_opacus(
    cell: Cell, problem: Problem, tables: list[Records], jobs: list[tuple[dict[str, float], int, int]]
) -> list[Array]:
    """The models of each job: (setting, table, runs)."""
    python = _environment(OPACUS_ENVIRONMENT, OPACUS)
    common = {
        "epsilon": cell.epsilon, "delta": DELTA, "loss": cell.loss, "units": cell.records,
        "regularization": problem.terms.model.regularization,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        arrays: dict[str, Array] = {}
        for i, records in enumerate(tables):
            arrays |= {
                f"x{i}": records.features,
                f"y{i}": records.target,
                f"n{i}": np.round(records.weight).astype(int),
            }
        np.savez(Path(folder) / "in.npz", **arrays)
        listed = [{**common, **setting, "table": str(table), "runs": count} for setting, table, count in jobs]
        (Path(folder) / "in.json").write_text(json.dumps(listed))
        script = Path(__file__).with_name("opacus_worker.py")
        subprocess.run([python, "-W", "ignore", str(script), folder], check=True)
        found = np.load(Path(folder) / "out.npz")
        return [found[str(k)].astype(np.float64) for k in range(len(jobs))]


def _environment(folder: Path, packages: Sequence[str]) -> str:
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *packages], check=True)
    return str(python)


def peers(cell: Cell) -> Sequence[tuple[str, Method]]:
    """(name, method), of those that can run in this cell."""
    found: list[tuple[str, Method]] = [
        ("output perturbation", searched(output_perturbations)),
        ("DP-SGD, each owner, δ = 1e-6", searched(descents)),
    ]
    if cell.loss in ("squared", "logistic"):
        found.append(("diffprivlib", diffprivlib))
    # Below ε = 1 its accountants give up at this δ ("The privacy budget is too low").
    if cell.loss in ("logistic", "hinge") and cell.epsilon >= 1:
        found.append(("Opacus DP-SGD, each owner, δ = 1e-6", opacus))
    return found
