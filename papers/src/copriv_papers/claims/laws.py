"""Claims that need no figure: formulas of the library, exact recursions, counts of a table."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from copriv.data.tables import read_table
from copriv.exact import OwnerKinds, expected_cost
from copriv.model.fitness import Quadratic, Regularizer
from copriv.privacy.approximate import gaussian_multiplier
from copriv.privacy.noise import laplace_scale
from copriv.rules.async_copies import a_as_printed, a_theorem_2
from copriv.rules.bounds import Setting
from copriv.rules.rule import InRounds
from copriv.rules.synchronous import s1_steps, s_theorem_2, s_theorem_3
from copriv.types import Array
from copriv_papers.claims.claim import Answer, Found
from copriv_papers.consortia import at_hand
from copriv_papers.figure import Row
from copriv_papers.figures.grid import slope


def lines_along(found: Found, identity: str, mechanism: str, axis: str) -> list[list[Row]]:
    """Every slice of a figure's grid along `axis`."""
    rows, other = found.of(identity, mechanism=mechanism), "records" if axis == "epsilon" else "epsilon"
    return [[row for row in rows if row[other] == value] for value in sorted({row[other] for row in rows})]


def steepness(line: Sequence[Row], axis: str) -> float:
    """Least-squares slope of log E ψ along one of them."""
    return slope([row[axis] for row in line], [row["mean"] for row in line])


def judged(identity: str, start: str) -> Callable[[Found], Answer]:
    """What a figure compared under words that begin so, with its own judgement of each."""

    def answer(found: Found) -> Answer:
        lines = [one for one in found.figures[identity]["comparison"] if one["what"].startswith(start)]
        if not lines:
            raise LookupError(f"{identity}: nothing compared begins with {start!r}")
        numbers = [float("inf") if one["ours"] is None else float(one["ours"]) for one in lines]
        return Answer(tuple(numbers), tuple(bool(one["holds"]) for one in lines if one["holds"] is not None))

    return answer


def spent(times: int) -> Callable[[Found], Answer]:
    """ε spent over a run of 100 answers, over ε, where each answer may spend ε·times/100: the worst log-ratio."""

    def answer(_: Found) -> Answer:
        T, n, Ξ, ε = 100, 12_345, 5.0, 0.7
        b = laplace_scale(Ξ, T, n, ε * times)
        return Answer.of(T * (2 * Ξ / n) / b / ε, lambda ratio: abs(ratio - times) <= 1e-9 * times)

    return answer


def overlap_factors(_: Found) -> Answer:
    """Noise variance, and with it ψ where noise is all, with κ holders over that with one."""
    ratios = {κ: (laplace_scale(5.0, 100, 1000, 1.0, κ) / laplace_scale(5.0, 100, 1000, 1.0)) ** 2 for κ in (2, 3)}
    held = tuple(bool(np.isclose(ratio, κ**2)) for κ, ratio in ratios.items())
    return Answer(
        tuple(ratios.values()), held, "Of the noise's variance; a better split is in the reference of overlap."
    )


def stays_at_the_start(_: Found) -> Answer:
    """S1 without noise on f = θ²/4: (9) is 0 for n → ∞, and E f stays where it began."""
    half = Quadratic(0.5 * np.eye(1), np.zeros(1), 0.0, Regularizer(0.0))
    owners = OwnerKinds.of([1.0], [0.0])
    costs = [float(expected_cost(InRounds(s1_steps(1.0, T)), half, owners, T, [1.0]).min()) for T in (10, 100, 1000)]
    return Answer.of(
        costs, lambda cost: cost <= 0.01, "For T = 10, 100, 1,000: steps ρ/(T²k) add up to nothing (erratum 5)."
    )


def parameter_factor(_: Found) -> Answer:
    """Largest L‖θ − θ*‖²/(f − f*) over directions of quadratics."""
    rng, worst = np.random.default_rng(0), 0.0
    for _round in range(200):
        a = rng.uniform(1.0, 10.0, size=5)
        for z in (rng.normal(size=5), np.eye(5)[np.argmin(a)]):
            worst = max(worst, float(a.min() * (z @ z) / (0.5 * (a * z) @ z)))
    return Answer.of(worst, lambda factor: factor <= 4.0 + 1e-9, "2/L is enough (erratum 12).")


def _setting() -> Setting:
    return Setting(5.0, 1.0, 10, 30_000, np.ones(3), 100, 1.0, 1.0, 1.0, regularization=0.1, diameter=10.0)


def _slope(bound: Callable[[Setting], float], ε: float) -> float:
    s = _setting()
    low, high = (bound(replace(s, epsilon=np.full(3, x))) for x in (ε, 1.01 * ε))
    return float(np.log(high / low) / np.log(1.01))


def bound_slopes_s(_: Found) -> Answer:
    """Of S (9) and (11) against ε."""
    nine = _slope(lambda s: s_theorem_2(s)[0].value, 1.0)
    eleven = _slope(lambda s: s_theorem_3(s)[0].value, 1.0)
    return Answer((nine, eleven), (abs(nine + 2) < 1e-6, abs(eleven + 1) < 1e-6))


def bound_slopes_a(_: Found) -> Answer:
    """Of A's bound on the parameters, as its appendix has it, for small and for large budgets."""
    slopes = [_slope(lambda s: a_theorem_2(s)[0].value, ε) for ε in (1e-6, 1e-2, 1.0)]
    return Answer.of(
        slopes, lambda s: abs(s + 2) <= 0.15, "At ε = 10⁻⁶, 0.01 and 1: the root in (11) falls as 1/ε (erratum 11)."
    )


def printed_constants(_: Found) -> Answer:
    """(8) as printed over what the appendix proves, in the same setting."""
    s = _setting()
    ratio = a_as_printed(s, "squared parameter error").value / a_theorem_2(s)[0].value
    return Answer.of(ratio, lambda r: abs(r - 1) <= 0.05, "c₁ and c₂ are swapped and a 1/T is gone (erratum 6).")


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
    """Variance of Laplace over that of normal noise for T answers, ε = 1 and δ = 10⁻⁶: a constant if T did not matter."""
    ratios: Array = np.array([2.0 * T**2 / gaussian_multiplier(T, 1.0, 1e-6) ** 2 for T in (10, 100, 1000, 10_000)])
    return Answer.of(
        (ratios / ratios[0]).tolist(),
        lambda r: abs(r - 1) <= 0.15,
        f"At T = 10 to 10,000, over that at 10; at T = 1,000 it is {ratios[2]:.0f} times. In ε it is a constant.",
    )


def cards_frauds(_: Found) -> Answer:
    """Share of frauds in the complete table."""
    path = at_hand("creditcard")
    if path is None:
        return Answer((), (), "Get the table with copriv data fetch creditcard.")
    fraud = np.asarray(read_table(path, ["Class"])["Class"].to_numpy(), dtype=np.float64)
    return Answer.of(float(fraud.mean()), lambda share: abs(share - 0.00172) < 1e-5)


def not_here(what: str) -> Callable[[Found], Answer]:
    """A number of a file that is not public, or not here."""
    return lambda _: Answer((), (), what)
