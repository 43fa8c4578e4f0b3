"""The claims of A, "The Cost of Privacy in Asynchronous Differentially-Private Machine Learning", in its order."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product

import numpy as np

from copriv_papers.claims.claim import Answer, Claim, Found
from copriv_papers.claims.laws import (
    LOANS,
    above_nine,
    bound_slopes_a,
    judged,
    left_without_noise,
    not_here,
    one_coordinate,
    printed_constants,
    pure_over_normal,
    slopes,
    star,
)
from copriv_papers.claims.runs import BOTH, BUDGETS, OWNERS, SEEN, TABLES, bank, stays
from copriv_papers.claims.simulated import dimension, scaled_for_absence, spent, unlike_budgets
from copriv_papers.figures.slopes import AS_PRINTED

_slopes = partial(slopes, "as published")
"""Of the paper's own settings."""
_HALF = "g = 10⁻⁵θᵀθ; the other slopes of the figure, and other rows that read them, have half of it, as A's code has."


def _pays(names: Sequence[str], remark: str) -> Callable[[Found], Answer]:
    """ψ together over ψ of owner 1 alone."""
    return lambda found: Answer.of([found.psi(name) / found.alone(name) for name in names], lambda r: r < 1, remark)


def _planned(name: str) -> Callable[[Found], Answer]:
    def answer(found: Found) -> Answer:
        o = found.outcomes[name]
        return _pays(
            [name],
            "ψ together over ψ alone; private. On new records, over the pooled model: "
            f"{o.held_out:.2g} together, {o.alone_held_out[0]:.2g} alone.",
        )(found)

    return answer


def _least_owners(seen: str) -> Callable[[Found], Answer]:
    """The least number of equal banks at which joining pays, for each ε: on the table at hand, and on everybody's loans."""

    def answer(found: Found) -> Answer:
        ratio = {
            (table, N, ε): found.psi(name) / found.alone(name)
            for table, N, ε in product(TABLES, OWNERS, BUDGETS)
            if (name := bank(table, N, ε, seen)) in found.outcomes
        }
        run = sorted({N for _, N, _ in ratio})
        least = {
            table: [min((N for N in run if ratio[table, N, ε] < 1), default=np.inf) for ε in BUDGETS]
            for table in TABLES
        }
        here, there = (", ".join("none" if np.isinf(N) else f"{N:g}" for N in least[table]) for table in TABLES)
        eleven = " and ".join(
            f"{ratio[table, 11, 1.0]:.3g}{_noise(found, bank(table, 11, 1.0, seen))}" for table in TABLES
        )
        return Answer(
            (float(least[TABLES[0]][0]),),
            (),
            f"Least N, of {', '.join(map(str, run))} that were run, at ε = 1, 2.5, 10: {here}; on everybody's loans: {there}. "
            f"ψ together over ψ alone of 11 owners at ε = 1: {eleven}. "
            "Bounds, step and number of answers leave what is not noise.",
            (float(least[TABLES[1]][0]),),
        )

    return answer


def _noise(found: Found, name: str) -> str:
    """Which share of ψ is due to noise; "" of results that an earlier version kept."""
    share = found.outcomes[name].noise_share
    return "" if share is None else f" ({100 * share:.2g} % of it noise)"


def _less_with_the_sum(found: Found) -> Answer:
    """ψ where each answer is seen over ψ of the sum alone, of 10 and 86 equal banks at ε = 1, and how much of both is noise."""
    pairs = [[bank(table, N, 1.0, seen) for seen in BOTH] for table in TABLES for N in (10, 86)]
    pairs = [pair for pair in pairs if pair[1] in found.outcomes]
    ratios = [found.psi(each) / found.psi(summed) for each, summed in pairs]

    def told(each: str, summed: str) -> str:
        seen, hidden = (found.outcomes[name].noise_share for name in (each, summed))
        if seen is None or hidden is None:  # of results that an earlier version kept
            return ""
        return f" ({100 * seen:.2g} % of ψ is noise where each answer is seen, {100 * hidden:.2g} % of the sum)"

    said = "; ".join(
        f"{summed.split(' at')[0]}: {ratio:.3g}, with {100 * found.outcomes[summed].clipped:.1g} % clipped{told(each, summed)}"
        for ratio, (each, summed) in zip(ratios, pairs, strict=True)
    )
    words = f"Of equal terms the noise's variance is 9 and 85 times less. {said[:1].upper()}{said[1:]}."
    here = len(ratios) // 2
    return Answer(tuple(ratios[:here]), (), words, tuple(ratios[here:]))


def _stays(found: Found) -> Answer:
    """ψ of 86 hospitals by planned terms: each answer seen, and the sum alone."""
    names = [stays(seen) for seen in BOTH]
    if names[0] not in found.outcomes:
        return Answer((), (), "Not here: copriv data fetch hospital.")
    each, summed = (found.psi(name) for name in names)
    words = f"ψ together: {each:.2g} where each answer is seen, {summed:.2g} by the sum alone, t = 1."
    return Answer((each, summed), (), words)


def _fewer_with_more_budget(found: Found) -> Answer:
    """The least N at which joining pays, at the largest ε less at the smallest."""
    rows = found.of("async-fig6", mechanism="as published")
    budgets = sorted({row["epsilon"] for row in rows})
    least = [
        min([row["owners"] for row in rows if row["epsilon"] == ε and row["joining_pays"]], default=np.inf)
        for ε in (budgets[0], budgets[-1])
    ]
    return Answer.of(
        [float(n) for n in least],
        lambda _: least[1] <= least[0] and bool(np.isfinite(least[1])),
        "Least N at which joining pays, of those that were run, at the smallest and at the largest ε.",
    )


def _declines(identity: str, budgets: str) -> Callable[[Found], Answer]:
    """Median at the end over median at the first iteration."""
    return judged(identity, "median ψ at the end over", remark=f"End over start at ε = {budgets}.")


STAYS = ("hospital", "hospital-simulated")
"""Real ones, and those of a simulated SPARCS."""


def _gaining(found: Found, ε: float) -> tuple[float, ...]:
    """How many of 86 hospitals gain, on each table of stays, with the paper's settings."""
    tables = [found.of("async-fig10", dataset=one, mechanism="as published", epsilon=ε) for one in STAYS]
    return tuple(float(sum(row["gains"] for row in rows)) for rows in tables)


ASYNCHRONOUS: tuple[Claim, ...] = (
    Claim("A, abstract", "The cost is inversely proportional to the size squared.", "slope −2",
          _slopes(("async-fig5", "records")), "async-fig5"),
    Claim("A, abstract", "... and to the budget squared.", "slope −2", _slopes(("async-fig5", "epsilon")), "async-fig5"),
    Claim("A, abstract; §IV", "The cost is inversely proportional to the sum of the privacy budgets squared.", "cost ratio 1",
          unlike_budgets),
    Claim("A, abstract; §I", "More than 10 owners of 10,000 records with ε ≥ 1 beat a model trained alone.", "ψ ratio below 1",
          _pays(["11 banks"], "ψ together over ψ alone, the paper's settings; our banks are alike, so one alone is good. "
                "Nor is it what A's own Fig. 6 says (erratum 19).")),
    Claim("A, abstract; §I", "11 owners of 10,000 records at ε = 1, settings planned from public rows.", "",
          _planned("11 banks, planned"), beyond=True),
    *(Claim("A, abstract; §I", f"The least number of equal owners (10,000 records, ε = 1) that beat one alone; seen: {seen}.",
            "", _least_owners(seen), beyond=True) for seen in SEEN),
    Claim("A, abstract; §I", "10 and 86 such owners at ε = 1: ψ with each answer seen over ψ of the sum, t = 1.", "",
          _less_with_the_sum, beyond=True),
    Claim("A, abstract", "Fewer owners are needed where the budget is higher.", "fewer", _fewer_with_more_budget, "async-fig6"),
    Claim("A, §I; Remark 3", "(ε, δ) improves the cost by a constant factor at best.", "1 in ε and in T", pure_over_normal),
    Claim("A, §I", "With δ the constant is no longer linear in the dimension p, but as √p.", "powers 1 and 1/2", dimension),
    Claim("A, §I", "Fraud: with a budget 10 times larger the cost is 10 times smaller.", "10 (within 2)",
          judged("async-fig11", "ψ over ψ at ten times epsilon"), "async-fig11"),
    Claim("A, §I", "Fraud: with 10 times the data it falls more than 100-fold.", "above 100",
          judged("async-fig11", "ψ over ψ at ten times records"), "async-fig11"),
    Claim("A, Thm 1", "Laplace noise of scale 2ΞT/(nε) keeps ε over the horizon.", "ε spent over ε: 1", spent(1)),
    Claim("A, Thm 2, (8)", "The constants are those of the appendix.", "1", printed_constants),
    Claim("A, Thm 2, (9)", "The cost is at most c₁′√S + c₂′S.", "at most 1", above_nine),
    Claim("A, Thm 2, (10)", "For large T the parameter error is at most c̄₁√S₂/n + c̄₂S₂/n².", "0 for n → ∞", left_without_noise),
    Claim("A, after (11)", "For equal budgets (11) scales as ε⁻².", "−2", bound_slopes_a),
    Claim("A, Remark 4", "Scaled by how rarely an owner answers, we get the same bounds.", "cost ratio 1", scaled_for_absence),
    Claim("A, §V-A", "890,000 loans.", "890,000", not_here(LOANS)),
    Claim("A, §V-A, Fig. 2", "Medians at the end, ε = 0.1, 1, 10.", "0.45, 0.04, 0.008 (within 5)",
          judged("async-fig2", "median ψ at the end, "), "async-fig2"),
    Claim("A, §V-A, Fig. 2", "The median decreases to a neighbourhood of the optimum.", "below 1",
          _declines("async-fig2", "0.1, 1, 10"), "async-fig2"),
    Claim("A, §V-A, Fig. 2", "The trained model improves as budgets increase.", "1",
          judged("async-fig2", "ψ at the end falls"), "async-fig2"),
    Claim("A, §V-A, Fig. 2", "Smaller budgets make it vary more.", "above 0",
          judged("async-fig2", "width of the band", remark="Width of the band of 25 to 75 % less that of the next larger ε."),
          "async-fig2"),
    Claim("A, §V-A, Fig. 3", "Owners are chosen uniformly, by clocks of equal rate.", "p above 0.01; 1",
          judged("async-fig3", ""), "async-fig3"),
    Claim("A, §V-A, Fig. 4", "(11) with c̄₂′ = 2.1·10⁹ is tight.", "2.1e9 (within 2)",
          judged("async-fig4", "fitted c"), "async-fig4"),
    Claim("A, §V-A, Fig. 4", "... at every point.", "ratio within 5",
          judged("async-fig4", "least E ψ", "largest E ψ"), "async-fig4"),
    Claim("A, §V-A, Fig. 4", "Fitness improves rapidly with size and budget.", "share 1",
          judged("async-fig4", "share of"), "async-fig4"),
    Claim("A, §V-A, Fig. 5", "Slope −2 against ε and n_i, tight fits.", "−2",
          _slopes(("async-fig5", "epsilon"), ("async-fig5", "records")), "async-fig5"),
    Claim("A, §V-A, Fig. 5", "The same with the g that §V prints.", "−2",
          judged("async-fig5", AS_PRINTED, remark=_HALF), "async-fig5"),
    Claim("A, §V-A, Fig. 6", "Joining pays with more than 5 owners at ε ≥ 10.", "ψ ratio below 1",
          _pays(["6 banks"], "ψ together over ψ alone, the paper's settings.")),
    Claim("A, §V-A, Fig. 6", "Joining pays with more than 100 owners at ε ≥ 2.5.", "ψ ratio below 1",
          _pays(["101 banks"], "ψ together over ψ alone, the paper's settings.")),
    Claim("A, §V-A, Fig. 6", "101 owners of 10,000 records at ε = 2.5, settings planned from public rows.", "",
          _planned("101 banks, planned"), beyond=True),
    Claim("A, §V-B", "2,350,000 patients, 213 hospitals, 86 with 10,000 records or more.", "86",
          not_here("SPARCS 2015 names hospitals; copriv data fetch sparcs gets it where its publisher can be reached.")),
    Claim("A, §V-B, Fig. 7", "Medians at the end, ε = 0.1, 1, 10.", "30, 0.5, 0.12 (within 5)",
          judged("async-fig7", "median ψ at the end, "), "async-fig7"),
    Claim("A, §V-B, Fig. 7", "For large budgets the median declines.",
          "below 1", _declines("async-fig7", "10"), "async-fig7"),
    Claim("A, §V-B, Fig. 7", "The trained model improves as budgets increase.", "1",
          judged("async-fig7", "ψ at the end falls"), "async-fig7"),
    Claim("A, §V-B, Fig. 8", "One of the 86 hospitals talks at a time.",
          "p above 0.01; 1", judged("async-fig8", ""), "async-fig8"),
    Claim("A, §V-B, Fig. 9", "Fitness improves rapidly with ε.", "share 1", judged("async-fig9", "share of"), "async-fig9"),
    Claim("A, §V-B, Fig. 10", "Eight of 86 hospitals gain at ε = 10.", "8 (2 to 24)",
          judged("async-fig10", *(f"{table}, as published: hospitals that gain at ε = 10" for table in STAYS)), "async-fig10"),
    Claim("A, §V-B, Fig. 10", "Hospitals of 86 that gain at ε = 0.1 and 1; A says nothing of them.", "",
          lambda found: Answer(_gaining(found, 0.1) + _gaining(found, 1.0), (), "Of real stays, and of simulated discharges."),
          "async-fig10", beyond=True),
    Claim("A, §V-B", "86 hospitals, planned from public rows as if alike, which they are not, at ε = 1.", "",
          _stays, beyond=True),
    Claim("A, §V-C, Fig. 11", "Fitness improves with size and budget.", "share 1",
          judged("async-fig11", "share of"), "async-fig11"),
    Claim("A, §V-C, Fig. 11", "The bound of slope −2 is less tight for large n_i.", "above 0",
          judged("async-fig11", "how much farther"), "async-fig11"),
    Claim("A, App. B", "E‖w‖² ≤ ν² with ν = 2√2ΞT/(nε).", "at most 1", one_coordinate),
    Claim("A, App. B", "λ < 1.", "below 1", star),
)  # fmt: skip
