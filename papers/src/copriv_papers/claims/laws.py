"""Claims that need no figure: formulas of the library, exact recursions, counts of a table."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from copriv.data.tables import read_table
from copriv.exact import OwnerKinds, expected_cost
from copriv.model.fitness import Quadratic, Regularizer
from copriv.model.objective import FeasibleSet
from copriv.privacy.approximate import gaussian_multiplier
from copriv.privacy.noise import laplace_scale
from copriv.rules import AsyncCopies, Descent
from copriv.rules.async_copies import a_as_printed, a_theorem_2
from copriv.rules.bounds import Setting
from copriv.rules.rule import InRounds
from copriv.rules.synchronous import s1_steps, s2_average, s2_steps
from copriv_papers.claims.claim import Answer, Found
from copriv_papers.consortia import at_hand
from copriv_papers.figure import Row
from copriv_papers.figures.grid import slope
from copriv_papers.verdict import SLOPE, steep


def lines_along(found: Found, identity: str, mechanism: str, axis: str) -> list[list[Row]]:
    """Every slice of a figure's grid along `axis`."""
    rows, other = found.of(identity, mechanism=mechanism), "records" if axis == "epsilon" else "epsilon"
    return [[row for row in rows if row[other] == value] for value in sorted({row[other] for row in rows})]


def steepness(line: Sequence[Row], axis: str) -> float:
    """Least-squares slope of log E ψ along one of them."""
    return slope([row[axis] for row in line], [row["mean"] for row in line])


def slopes(mechanism: str, *of: tuple[str, str]) -> Callable[[Found], Answer]:
    """Of every slice of grids with the paper's own settings, each a figure and an axis; on everybody's loans of those drawn."""

    def answer(found: Found) -> Answer:
        here = [
            steepness(line, axis) for identity, axis in of for line in lines_along(found, identity, mechanism, axis)
        ]
        drawn = [found.compared(identity, f"{mechanism}: slope against {axis}")[1] for identity, axis in of]
        there = _numbers([one for lines in drawn for one in lines])
        return Answer(tuple(here), tuple(map(steep, (*here, *there))), elsewhere=there)

    return answer


def judged(identity: str, *starts: str, remark: str = "") -> Callable[[Found], Answer]:
    """What a figure compared under words that begin with one of these, with its own judgements, on each table that it has."""

    def answer(found: Found) -> Answer:
        here, there = found.compared(identity, *starts)
        held = tuple(bool(one["holds"]) for one in (*here, *there) if one["holds"] is not None)
        return Answer(_numbers(here), held, remark, _numbers(there))

    return answer


def _numbers(lines: Sequence[Any]) -> tuple[float, ...]:
    return tuple(float("inf") if one["ours"] is None else float(one["ours"]) for one in lines)


def stays_at_the_start(_: Found) -> Answer:
    """S1 without noise on f = θ²/4: (9) is 0 for n → ∞, and E f stays where it began."""
    half = Quadratic(0.5 * np.eye(1), np.zeros(1), 0.0, Regularizer(0.0))
    owners = OwnerKinds.of([1.0], [0.0])
    costs = [float(expected_cost(InRounds(s1_steps(1.0, T)), half, owners, T, [1.0]).min()) for T in (10, 100, 1000)]
    return Answer.of(
        costs, lambda cost: cost <= 0.01, "For T = 10, 100, 1,000: steps ρ/(T²k) add up to nothing (erratum 5)."
    )


def never_zero(on_parameters: bool) -> Callable[[Found], Answer]:
    """S2 without noise, whose (11) and (12) are 0: the least that any of 400 steps leaves, for two curvatures."""

    def answer(_: Found) -> Answer:
        # (12) needs a g that is strongly convex, (11) none. ‖θ − θ*‖² is at least 2/λ times the cost.
        two = Quadratic(np.diag([1.0, 0.25]), np.zeros(2), 0.0, Regularizer(0.5 if on_parameters else 0.0))
        times = 2.0 / float(np.linalg.eigvalsh(two.hessian)[-1]) if on_parameters else 1.0
        owners, steps, least = OwnerKinds.of([1.0], [0.0]), np.geomspace(0.01, 20.0, 400), []
        for T in (10, 100):
            ends = (
                expected_cost(InRounds(s2_steps(c, T), s2_average(T)), two, owners, T, [1.0, 1.0])[-1] for c in steps
            )
            least.append(times * float(min(ends)))
        return Answer.of(least, lambda left: left <= 0.0, "At T = 10, 100 and the best of 400 steps (erratum 15).")

    return answer


def proof_step(_: Found) -> Answer:
    """(ζ_2 − ζ_1) of the average's weights over 2/(√T·T(T + 1))."""

    def ζ(k: int, T: int) -> float:
        η, m = 1 / np.sqrt(T), np.arange(k + 1, T + 1)
        return float((η + 1) / (η + k) * np.prod((m - 1) / (η + m)))

    found = [(ζ(2, T) - ζ(1, T)) / (2 / (np.sqrt(T) * T * (T + 1))) for T in (100, 1000)]
    return Answer.of(found, lambda ratio: ratio <= 1, "At k = 2, T = 100 and 1,000 (erratum 14).")


def shared_record(_: Found) -> Answer:
    """What a record that two owners hold loses where both answer at ε_i/2, over the smaller budget."""
    budgets = 0.1, 10.0
    lost = sum(ε / 2 for ε in budgets) / min(budgets)
    return Answer.of(lost, lambda ratio: ratio <= 1, "Budgets 0.1 and 10 (erratum 17); where they are equal it is 1.")


def _setting() -> Setting:
    return Setting(5.0, 1.0, 10, 30_000, np.ones(3), 100, 1.0, 1.0, 1.0, regularization=0.1, diameter=10.0)


def bound_slopes_a(_: Found) -> Answer:
    """Of (11) against ε, c̄₁′√S₂/n + c̄₂′S₂/n² with the appendix's constants: what (8) and C√(8) leave as T grows, T by T."""
    s = _setting()
    C, N, σ, n = s.regularizer_bound + s.gradient_bound, 3.0, s.regularization, s.total_records
    root = 1.0 - np.sqrt(1.0 - 1.0 / (2.0 * N))
    c1, c2 = N * (C / σ) ** 2, 2.0 * N**2 * (C / σ) ** 2 * np.sqrt(N + 1.0) / root

    def eleven(ε: float) -> float:
        return float(np.sqrt(8 * N) * c2 * np.sqrt(N) / (n * ε) + 8 * N * c1 * N / (n * ε) ** 2)

    slopes = [float(np.log(eleven(1.01 * ε) / eleven(ε)) / np.log(1.01)) for ε in (0.1, 1.0, 10.0)]
    words = "At ε = 0.1, 1 and 10: the root in (11) falls as 1/ε (erratum 11). It is −2 below any ε that is used."
    return Answer.of(slopes, steep, words)


def printed_constants(_: Found) -> Answer:
    """(8) as printed over what the appendix proves, in the same setting."""
    s = _setting()
    ratio = a_as_printed(s, "squared parameter error").value / a_theorem_2(s)[0].value
    return Answer.of(ratio, lambda r: abs(r - 1) <= 0.05, "c₁ and c₂ are swapped and a 1/T is gone (erratum 6).")


def left_without_noise(_: Found) -> Answer:
    """‖θ_L − θ*‖² at the end of A1 without noise: (10), and with it (11), are 0 for n → ∞."""
    left = [_distance_without_noise(T) ** 2 for T in _HORIZONS]
    words = "For T = 100, 1,000, 10,000: steps ρ/T² add up to nothing (erratum 5). The same leaves (11)'s cost above 0."
    return Answer.of(left, lambda square: square <= 0.01 * _BEST**2, words)


def above_nine(_: Found) -> Answer:
    """E f(θ_L) − f(θ*) at the end of A1 over (9) as printed, without noise, where N = 2 and C = σ = ρ = 1."""
    ratios = []
    for T in _HORIZONS:
        s = Setting(_BEST, _BEST, 1, 1e12, np.ones(2), T, 1.0, 1.0, 1.0, regularization=1.0, diameter=2 * _BEST)
        ratios.append(_distance_without_noise(T) ** 2 / 2.0 / a_as_printed(s, "cost").value)
    words = "For T = 100, 1,000, 10,000 and n → ∞: (9) falls as 1/√T, and the model stays where it began (erratum 5)."
    return Answer.of(ratios, lambda ratio: ratio <= 1.0, words)


_BEST, _HORIZONS = 0.5, (100, 1000, 10_000)
"""θ* of f = θ²/2 − θ/2 over |θ| ≤ ½, with g = θ²/2; and the horizons of the runs of A1 on it."""


def _distance_without_noise(T: int) -> float:
    """|θ_L − θ*| at the end of A1 of two owners on f = θ²/2 − θ/2, from 0."""
    rule = AsyncCopies(Descent(Regularizer(1.0), FeasibleSet(_BEST)), 1.0, T, np.full(2, 0.5))
    state = rule.start(np.zeros((1, 1)))
    for who in np.random.default_rng(0).integers(2, size=(T, 1)):
        rule.query(state, who)
        state = rule.step(state, who, np.full((1, 1), -_BEST))
    return float(abs(rule.model(state)[0, 0] - _BEST))


def one_coordinate(_: Found) -> Answer:
    """E‖w‖² of Laplace noise with p = 10 coordinates over ν² of A's appendix."""
    b, p = laplace_scale(5.0, 1000, 30_000, 1.0), 10
    drawn = np.random.default_rng(0).laplace(scale=b, size=(200_000, p))
    ratio = float(np.mean(np.sum(drawn**2, axis=1)) / (2 * np.sqrt(2) * 5.0 * 1000 / 30_000) ** 2)
    return Answer.of(ratio, lambda r: r <= 1.05, "The dimension is missing (erratum 4).")


def star(_: Found) -> Answer:
    """‖W − 11ᵀW/(N+1)‖² of one exchange, which A's appendix says is below 1; and the λ that its argument needs."""
    N = 5
    e = np.eye(N + 1)[0] - np.eye(N + 1)[N]
    W = np.eye(N + 1) - np.outer(e, e) / 2
    norm = float(np.linalg.norm(W - np.ones((N + 1, N + 1)) / (N + 1) @ W, 2) ** 2)
    return Answer.of(round(norm, 12), lambda λ: λ < 1, f"Needed is 1 − 1/(2N), here {1 - 1 / (2 * N):.2g} (erratum 3).")


def pure_over_normal(_: Found) -> Answer:
    """How many times more variance Laplace noise has than normal noise with δ = 10⁻⁶, least and most, in ε and in T."""
    in_budgets = [_variances(1000, ε) for ε in (0.01, 0.1, 1.0, 10.0, 30.0)]
    in_horizons = [_variances(T, 1.0) for T in (10, 100, 1000, 10_000)]
    budget, horizon = (
        ", ".join(f"{r:,.0f}" if r > 40 else f"{r:.1f}" for r in ratios) for ratios in (in_budgets, in_horizons)
    )
    words = (
        f"Largest ratio of variances over the least. At T = 1,000 it is {budget} times for ε = 0.01, 0.1, 1, 10, 30; "
        f"at ε = 1 {horizon} times for T = 10, 100, 1,000, 10,000."
    )
    return Answer.of([max(r) / min(r) for r in (in_budgets, in_horizons)], lambda r: r <= 1 + SLOPE, words)


def _variances(answers: int, ε: float) -> float:
    """Variance of Laplace over that of normal noise, for the same sensitivity."""
    return float(2.0 * (answers / ε) ** 2 / gaussian_multiplier(answers, ε, 1e-6) ** 2)


def cards_frauds(_: Found) -> Answer:
    """Share of frauds in the complete table."""
    path = at_hand("creditcard")
    if path is None:
        return Answer((), (), "Get the table with copriv data fetch creditcard.")
    fraud = np.asarray(read_table(path, ["Class"])["Class"].to_numpy(), dtype=np.float64)
    return Answer.of(float(fraud.mean()), lambda share: abs(share - 0.00172) < 1e-5)


LOANS = "The file is behind a login; loans here are 10,000 or 9,857."
"""Of the papers' file of loans."""


def not_here(what: str) -> Callable[[Found], Answer]:
    """A number of a file that is not public, or not here."""
    return lambda _: Answer((), (), what)
