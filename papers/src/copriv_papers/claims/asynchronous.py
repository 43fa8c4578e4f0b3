"""The claims of A, "The Cost of Privacy in Asynchronous Differentially-Private Machine Learning", in its order."""

from collections.abc import Callable, Sequence

import numpy as np

from copriv_papers.claims.claim import Answer, Claim, Found
from copriv_papers.claims.laws import (
    bound_slopes_a,
    judged,
    lines_along,
    not_here,
    one_coordinate,
    printed_constants,
    pure_over_normal,
    spent,
    star,
    steepness,
)
from copriv_papers.figure import Row


def _lines(found: Found, identity: str, axis: str) -> list[list[Row]]:
    return lines_along(found, identity, "as published", axis)


def _slopes(identity: str, axis: str) -> Callable[[Found], Answer]:
    return lambda found: Answer.of(
        [steepness(line, axis) for line in _lines(found, identity, axis)], lambda s: abs(s + 2) <= 0.15
    )


def _tenfold(axis: str, holds: Callable[[float], bool]) -> Callable[[Found], Answer]:
    """How much ψ falls when the budget, or the data, are ten times larger: 10^−slope on each slice."""
    return lambda found: Answer.of(
        [10.0 ** -steepness(line, axis) for line in _lines(found, "async-fig11", axis)], holds
    )


def _flattens(found: Found) -> Answer:
    """Whether the law is missed by more where n is larger: |slope + 2| of the largest n over that of the smallest."""
    lines = _lines(found, "async-fig11", "epsilon")
    first, last = (abs(steepness(line, "epsilon") + 2) for line in (lines[0], lines[-1]))
    return Answer.of(last - first, lambda more: more > 0, "How much farther from −2 the slope is at the largest n_i.")


def _falls(found: Found) -> Answer:
    lines = [*_lines(found, "async-fig11", "epsilon"), *_lines(found, "async-fig11", "records")]
    steps = [np.diff([row["mean"] for row in line]) < 0 for line in lines]
    return Answer.of(float(np.mean(np.concatenate(steps))), lambda share: share >= 0.9)


def _pays(names: Sequence[str], remark: str) -> Callable[[Found], Answer]:
    """ψ together over ψ of owner 1 alone."""
    return lambda found: Answer.of([found.psi(name) / found.alone(name) for name in names], lambda r: r < 1, remark)


def _planned(name: str) -> Callable[[Found], Answer]:
    def answer(found: Found) -> Answer:
        o = found.outcomes[name]
        return _pays(
            [name],
            "With a plan from public rows in place of the paper's settings; private. On new records, over the pooled model: "
            f"{o.held_out:.2g} together, {o.alone_held_out[0]:.2g} alone.",
        )(found)

    return answer


def _fewer_with_more_budget(found: Found) -> Answer:
    """The least N at which joining pays, at the largest ε less at the smallest; planned settings."""
    rows = found.of("async-fig6", mechanism="planned")
    budgets = sorted({row["epsilon"] for row in rows})
    least = [
        min([row["owners"] for row in rows if row["epsilon"] == ε and row["joining_pays"]], default=np.inf)
        for ε in (budgets[0], budgets[-1])
    ]
    return Answer.of(
        [float(n) for n in least],
        lambda _: least[1] <= least[0] and bool(np.isfinite(least[1])),
        "Least N at the smallest and largest ε that were run, planned; with the paper's settings there is none.",
    )


def _fig2(found: Found, ε: float) -> list[Row]:
    rows = found.of("async-fig2", mechanism="as published", epsilon=ε)
    return [row for row in rows if row["k"] > 0]


def _declines(identity: str, budgets: Sequence[float]) -> Callable[[Found], Answer]:
    """Median at the end over median at the first iteration."""

    def answer(found: Found) -> Answer:
        ratios = []
        for ε in budgets:
            rows = [r for r in found.of(identity, mechanism="as published", epsilon=ε) if r["k"] > 0]
            rows = [r for r in rows if r["panel"] == rows[0]["panel"]]
            ratios.append(rows[-1]["median"] / rows[0]["median"])
        return Answer.of(ratios, lambda r: r < 1, f"End over start at ε = {', '.join(f'{ε:g}' for ε in budgets)}.")

    return answer


def _varies(found: Found) -> Answer:
    """Width of the band of 25 to 75 % at the end, for ε = 0.1, 1, 10."""
    widths = [(_fig2(found, ε)[-1]["p75"] - _fig2(found, ε)[-1]["p25"]) for ε in (0.1, 1.0, 10.0)]
    return Answer(tuple(widths), (widths[0] > widths[1], widths[1] > widths[2]))


def _gaining(ε: float, holds: Callable[[float], bool], remark: str = "") -> Callable[[Found], Answer]:
    return lambda found: Answer.of(
        found.compared("async-fig10", f"hospital, as published: hospitals that gain at ε = {ε:g}")[0], holds, remark
    )


ASYNCHRONOUS: tuple[Claim, ...] = (
    Claim("A, abstract", "The cost is inversely proportional to the size squared.", "slope −2",
          _slopes("async-fig5", "records"), "async-fig5"),
    Claim("A, abstract", "... and to the budget squared.", "slope −2", _slopes("async-fig5", "epsilon"), "async-fig5"),
    Claim("A, abstract; §I", "More than 10 owners of 10,000 records with ε ≥ 1 beat a model trained alone.", "ψ ratio below 1",
          _pays(["11 banks"], "ψ together over ψ alone, the paper's settings; our banks are alike, so one alone is good.")),
    Claim("A, abstract; §I", "... the same with planned settings.", "ψ ratio below 1", _planned("11 banks, planned")),
    Claim("A, abstract", "Fewer owners are needed where the budget is higher.", "fewer", _fewer_with_more_budget, "async-fig6"),
    Claim("A, §I; Remark 3", "(ε, δ) improves the cost by a constant factor at best.", "1", pure_over_normal),
    Claim("A, §I", "Fraud: with a budget 10 times larger the cost is 10 times smaller.", "10 (within 2)",
          _tenfold("epsilon", lambda r: 5 <= r <= 20), "async-fig11"),
    Claim("A, §I", "Fraud: with 10 times the data it falls more than 100-fold.", "above 100",
          _tenfold("records", lambda r: r >= 100), "async-fig11"),
    Claim("A, Thm 1", "Laplace noise of scale 2ΞT/(nε) keeps ε over the horizon.", "ε spent over ε: 1", spent(1)),
    Claim("A, Thm 2, (8)", "The constants are those of the appendix.", "1", printed_constants),
    Claim("A, after (11)", "For equal budgets (11) scales as ε⁻².", "−2", bound_slopes_a),
    Claim("A, §V-A", "890,000 loans.", "890,000", not_here("The file is behind a login; loans here are 10,000 or 9,857.")),
    Claim("A, §V-A, Fig. 2", "Medians at the end, ε = 0.1, 1, 10.", "0.45, 0.04, 0.008 (within 5)",
          judged("async-fig2", "median ψ at the end"), "async-fig2"),
    Claim("A, §V-A, Fig. 2", "The median decreases to a neighbourhood of the optimum.", "below 1",
          _declines("async-fig2", (0.1, 1.0, 10.0)), "async-fig2"),
    Claim("A, §V-A, Fig. 2", "Smaller budgets make it vary more.", "falling", _varies, "async-fig2"),
    Claim("A, §V-A, Fig. 3", "Owners are chosen uniformly, by clocks of equal rate.", "p above 0.01; 1",
          judged("async-fig3", ""), "async-fig3"),
    Claim("A, §V-A, Fig. 4", "(11) with c̄₂′ = 2.1·10⁹ is tight.", "2.1e9 (within 5)",
          judged("async-fig4", "fitted c"), "async-fig4"),
    Claim("A, §V-A, Fig. 4", "... at every point.", "ratio within 5", lambda found: Answer(
        tuple(found.compared("async-fig4", "least E ψ") + found.compared("async-fig4", "largest E ψ")),
        judged("async-fig4", "least E ψ")(found).held + judged("async-fig4", "largest E ψ")(found).held), "async-fig4"),
    Claim("A, §V-A, Fig. 5", "Slope −2 against ε and n_i, tight fits.", "−2", lambda found: Answer(
        _slopes("async-fig5", "epsilon")(found).numbers + _slopes("async-fig5", "records")(found).numbers,
        _slopes("async-fig5", "epsilon")(found).held + _slopes("async-fig5", "records")(found).held), "async-fig5"),
    Claim("A, §V-A, Fig. 6", "Joining pays with more than 5 owners at ε ≥ 10.", "ψ ratio below 1",
          _pays(["6 banks"], "ψ together over ψ alone, the paper's settings.")),
    Claim("A, §V-A, Fig. 6", "Joining pays with more than 100 owners at ε ≥ 2.5.", "ψ ratio below 1",
          _pays(["101 banks"], "ψ together over ψ alone, the paper's settings.")),
    Claim("A, §V-A, Fig. 6", "... the same with planned settings.", "ψ ratio below 1", _planned("101 banks, planned")),
    Claim("A, §V-B", "2,350,000 patients, 213 hospitals, 86 with 10,000 records or more.", "86",
          not_here("SPARCS 2015 names hospitals; copriv data fetch sparcs gets it where its publisher can be reached.")),
    Claim("A, §V-B, Fig. 7", "Medians at the end, ε = 0.1, 1, 10.", "30, 0.5, 0.12 (within 5)",
          judged("async-fig7", "median ψ at the end"), "async-fig7"),
    Claim("A, §V-B, Fig. 7", "For large budgets the median declines.",
          "below 1", _declines("async-fig7", (10.0,)), "async-fig7"),
    Claim("A, §V-B, Fig. 8", "One of the 86 hospitals talks at a time.",
          "p above 0.01; 1", judged("async-fig8", ""), "async-fig8"),
    Claim("A, §V-B, Fig. 9", "Fitness improves rapidly with ε; the line is (11).",
          "−2", judged("async-fig9", "slope"), "async-fig9"),
    Claim("A, §V-B, Fig. 10", "Eight of 86 hospitals gain at ε = 10.", "8 (2 to 24)",
          _gaining(10.0, lambda n: 2 <= n <= 24), "async-fig10"),
    Claim("A, §V-B, Fig. 10", "... and hardly any at ε = 0.1 and 1.", "0", lambda found: Answer(
        _gaining(0.1, bool)(found).numbers + _gaining(1.0, bool)(found).numbers,
        _gaining(0.1, lambda n: n == 0)(found).held + _gaining(1.0, lambda n: n <= 2)(found).held), "async-fig10"),
    Claim("A, §V-C, Fig. 11", "Fitness improves with size and budget.", "share 1", _falls, "async-fig11"),
    Claim("A, §V-C, Fig. 11", "The bound of slope −2 is less tight for large n_i.", "above 0", _flattens, "async-fig11"),
    Claim("A, App. B", "E‖w‖² ≤ ν² with ν = 2√2ΞT/(nε).", "at most 1", one_coordinate),
    Claim("A, App. B", "λ < 1.", "below 1", star),
)  # fmt: skip
