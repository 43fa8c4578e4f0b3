"""Our methods and the two that need no one: each maps a problem to ψ of some runs."""

from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.utility.cells import DELTA, Cell
from copriv import Agreement, Problem, simulate
from copriv.model.fitness import relative_fitness
from copriv.plan import plan
from copriv.plan.one_answer import plan_one_answer
from copriv.populations.public_sample import PublicSample
from copriv.privacy.clipping import row_norms
from copriv.types import Array

PLAN, PLAN_WITH_DELTA = "plan", "plan, δ = 1e-6"
"""The rows that all others are held against."""
Method = Callable[[Cell, Problem, int], tuple[Array, str]]
"""ψ of each run, and the settings in words."""


def _simulated(problem: Problem, agreement: Agreement, runs: int) -> Array:
    result = simulate(problem.under(agreement), runs=runs, seed=1, alone=False, workers=1, record_at=())
    # Against the records as the cell bounds them, whatever B a plan chose to train on.
    theta = result.theta
    return np.asarray(relative_fitness(problem.fitness.value(theta), problem.optimum))


def overall(delta: float) -> Method:
    """What `plan` picks among everything: pure ε, or with δ where the owners state one."""

    def run(cell: Cell, problem: Problem, runs: int) -> tuple[Array, str]:
        free = problem.under(problem.terms.replace(agreement={"communication": "any"}, owner={"delta": delta}))
        found = plan(free, one_answer=True)
        return _simulated(problem, found.agreement, runs), found.choice.describe()

    return run


def planned(communication: str, public: bool) -> Method:
    """The plan over gradients with Laplace noise, with or without the public model and curvature."""

    def run(cell: Cell, problem: Problem, runs: int) -> tuple[Array, str]:
        free = problem.under(problem.terms.replace(agreement={"communication": communication}))
        found = plan(free, public_start=public, preconditioner=public)
        return _simulated(problem, found.agreement, runs), found.choice.describe()

    return run


def one_answer(mechanism: str, public: bool = True, delta: float = 0.0) -> Method:
    """ "statistics" or "objective", planned."""

    def run(cell: Cell, problem: Problem, runs: int) -> tuple[Array, str]:
        terms = problem.under(problem.terms.replace(owner={"delta": delta}))
        found = plan_one_answer(terms, mechanism, public_start=public)
        t = found.agreement
        words = f"Ξ {found.gradient_bound:.3g}, step {t.step:.3g}" + (
            f", share {t.moments_share:.2g}" if mechanism == "statistics" else f", anchor {t.anchor or 0:.3g}"
        )
        return _simulated(problem, found, runs), words

    return run


def gaussian(cell: Cell, problem: Problem, runs: int) -> tuple[Array, str]:
    """Synchronous gradients with normal noise from the public model, answers, Ξ and step found on bootstrap worlds."""
    sample = PublicSample.of(problem)
    worlds, start = sample.worlds(3), problem.feasible_set.project(sample.optimum.theta)
    P = np.linalg.inv(sample.hessian)
    r, loss = sample.records, problem.loss
    norms = np.abs(loss.slope(r.features @ start, r.target)) * row_norms(r.features, 2)
    best, least = None, np.inf
    for m in (1, 4, 16, 64):
        for Ξ in np.quantile(norms, (0.9, 0.99, 1.0)):
            for step in (0.1, 0.3, 1.0):
                trial = problem.terms.replace(
                    agreement={
                        "rule": "S2", "iterate": "last", "horizon": m + 1, "answers": m, "step": step,
                        "mechanism": "gaussian", "start": start.tolist(), "preconditioner": (0.5 * (P + P.T)).tolist(),
                        "communication": "any",
                    },
                    model={"gradient_bound": max(float(Ξ), 1e-6)},
                    owner={"delta": DELTA},
                )  # fmt: skip
                cost = 0.0
                for world in worlds:
                    found = simulate(world.under(trial), runs=6, alone=False, workers=1, record_at=())
                    cost += float(world.fitness.value(found.theta).mean()) - world.optimum.value
                if cost < least:
                    best, least = trial, cost
    assert best is not None
    words = f"m {best.answers}, Ξ {best.gradient_bound:.3g} (L2), step {best.step:g}"
    return _simulated(problem, best, runs), words


def papers(cell: Cell, problem: Problem, runs: int) -> tuple[Array, str]:
    """A1 with the papers' horizon and step; Ξ = 5, which the papers assume, enforced."""
    ρ, T = {"lending": (3_000.0, 1000), "hospital": (10_000.0, 1000)}.get(cell.dataset, (3_000.0, 100))
    terms = problem.terms.replace(agreement={"rule": "A1", "horizon": T, "step": ρ}, model={"gradient_bound": 5.0})
    return _simulated(problem, terms, runs), f"A1, T {T}, ρ {ρ:g}, Ξ 5"


def public_only(cell: Cell, problem: Problem, runs: int) -> tuple[Array, str]:
    theta = problem.feasible_set.project(PublicSample.of(problem).optimum.theta)
    ψ = float(relative_fitness(problem.fitness.value(theta), problem.optimum))
    return np.array([ψ]), f"{problem.terms.data.public_count} rows, no private record"


def alone(cell: Cell, problem: Problem, runs: int) -> tuple[Array, str]:
    """Each owner's own model without noise: what it can have without joining."""
    own = [problem.fitness_of(records).minimum().theta for records in problem.owners[:10]]
    return np.array(relative_fitness(problem.fitness.value(np.array(own)), problem.optimum)), "no noise; over owners"


def ours(cell: Cell) -> Sequence[tuple[str, Method]]:
    """(name, method) in the order of the table."""
    methods: list[tuple[str, Method]] = [
        (PLAN, overall(0.0)),
        (PLAN_WITH_DELTA, overall(DELTA)),
        ("plan, asynchronous", planned("asynchronous", False)),
        ("plan, asynchronous, public start", planned("asynchronous", True)),
        ("plan, synchronous", planned("synchronous", False)),
        ("plan, synchronous, public start", planned("synchronous", True)),
    ]
    if cell.loss == "squared":
        methods += [("statistics, public start", one_answer("statistics"))]
    methods += [
        ("objective", one_answer("objective", False)),
        ("objective, δ = 1e-6", one_answer("objective", False, DELTA)),
        ("objective, public start", one_answer("objective")),
        ("objective, public start, δ = 1e-6", one_answer("objective", True, DELTA)),
        ("gaussian, public start, δ = 1e-6", gaussian),
        ("papers' settings", papers),
        ("public only", public_only),
        ("alone, not private", alone),
    ]
    return methods
