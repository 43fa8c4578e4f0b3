"""The claims of S, "The Value of Collaboration in Convex Machine Learning with Differential Privacy", in its order."""

from collections.abc import Callable
from functools import partial

from copriv_papers.claims.claim import Answer, Claim, Found
from copriv_papers.claims.laws import (
    LOANS,
    cards_frauds,
    judged,
    never_zero,
    not_here,
    proof_step,
    shared_record,
    slopes,
    stays_at_the_start,
)
from copriv_papers.claims.simulated import ANSWERS, overlap_factors, parameter_factor, simulated_slopes, spent
from copriv_papers.figures.scenarios import AS_GOOD_AS_0
from copriv_papers.verdict import SLOPE

_slopes = partial(slopes, "as written")
"""Of the paper's own settings."""
_SQUARE = "The power of that expression that ψ follows; its square is Thm 2's."
_KEPT = f"ψ where n₁ is largest or ε₁ ≥ 1; as good as 0 is {AS_GOOD_AS_0:g}."


def _improves(identity: str) -> Callable[[Found], Answer]:
    """Share of neighbouring points where more records, or a larger budget, help."""
    return judged(identity, "share of neighbouring points")


def _end(found: Found, identity: str, ε: float, what: str) -> float:
    rows = found.of(identity, mechanism="as written", epsilon=ε)
    first = rows[0]["panel"]
    return float(next(r[what] for r in reversed(rows) if r["panel"] == first))


def _within_a_tenth(found: Found) -> Answer:
    return Answer.of(_end(found, "sync-fig7", 1.0, "mean"), lambda ψ: ψ <= 0.1, "Mean ψ over runs.")


def _regression_alike(found: Found) -> Answer:
    ψ = [found.psi("350,000 records"), found.psi("350,000 records, start at 0")]
    return Answer.of(ψ, lambda one: one <= 0.1, "From the public rows' optimum, and from 0, which S does not print.")


def _spoiled(found: Found) -> Answer:
    ratio = found.psi("large and eager with small conservative ones") / found.psi("large and eager by itself")
    return Answer.of(ratio, lambda r: r > 1, "E ψ with them over E ψ without, for 100,000 records at ε = 10.")


def _worth_including(found: Found) -> Answer:
    ratio = found.psi("small and eager with large conservative ones") / found.psi("small and eager by itself")
    return Answer.of(ratio, lambda r: r < 1, "E ψ with them over E ψ without, for 1,000 records at ε = 10.")


def _hinge_is_steeper(found: Found) -> Answer:
    slopes = _slopes(("sync-fig9", "epsilon"))(found).numbers
    return Answer.of(slopes, lambda s: s <= -1 + SLOPE, "An upper bound of slope −1 allows every steeper fall.")


def _ordered(identity: str) -> Callable[[Found], Answer]:
    return judged(identity, "ψ at the end falls")


def _large_or_eager(place: str, identity: str, third: str) -> tuple[Claim, Claim]:
    """Scenarios ii and iii, of which S says the same for both tables."""
    return (
        Claim(f"{place} (ii)", "The effect of ε₁ is more pronounced.", "twice that of (i)",
              judged(identity, "(ii) the same"), identity),
        Claim(f"{place} (iii)", third, "below 1", judged(identity, "(iii)"), identity),
    )  # fmt: skip


SYNCHRONOUS: tuple[Claim, ...] = (
    Claim("S, abstract; §V", "The cost is inversely proportional to the budget squared (regression).", "slope −2",
          _slopes(("sync-fig4", "epsilon")), "sync-fig4"),
    Claim("S, abstract; §V", "The cost is inversely proportional to the size squared (regression).", "slope −2",
          _slopes(("sync-fig5", "records")), "sync-fig5"),
    Claim("S, §I", "Without smoothness it is inversely proportional to size and budget, no longer squared.",
          "slope −1 or below", _hinge_is_steeper, "sync-fig9"),
    Claim("S, §I", "Small conservative data sets can spoil one large set with relaxed privacy.", "above 1", _spoiled),
    Claim("S, §I", "Larger but conservative data sets are sometimes worth including.", "below 1", _worth_including),
    Claim("S, §I", "Fraud, ε = 1, 30,000 records, 100 rounds: on average within 90 % of the fitness without privacy.",
          "ψ ≤ 0.1", _within_a_tenth, "sync-fig7"),
    Claim("S, §I", "Similar for loans with ε = 10 and 350,000 records.", "ψ ≤ 0.1", _regression_alike),
    Claim("S, §II-A", "Answering at ε_i/κ keeps ε_i for a record that κ owners hold.", "lost over ε_i ≤ 1", shared_record),
    Claim("S, §II-A", "Records in κ data sets: the cost degrades by κ².", "4 and 9 for κ = 2, 3", overlap_factors),
    Claim("S, Thm 1", "Laplace noise of scale 2ΞT/(nε) keeps ε over the horizon.", "ε spent over ε: 1", spent(1)),
    Claim("S, after Thm 1", "A constant budget for each answer spends T times as much.", f"T = {ANSWERS}", spent(ANSWERS)),
    Claim("S, Thm 2", "For large enough T the cost is at most (9), plus any ε > 0.", "0 for n → ∞", stays_at_the_start),
    Claim("S, Thm 2", "The parameter error (10) is 4/L times the cost (9).", "at most 4", parameter_factor),
    Claim("S, Thm 3, (11)", "For any T some c₁, c₂ bound the cost by (c₂Ξ/n)√Σε_i⁻².", "0 for n → ∞", never_zero(False)),
    Claim("S, Thm 3, (12)", "The parameter error is at most 4/L times that.", "0 for n → ∞", never_zero(True)),
    Claim("S, Thm 3; Remark 2", "(9) scales as ε⁻², (11) as ε⁻¹.", "−2 and −1", simulated_slopes),
    Claim("S, §IV-A", "Nearly 890,000 loans.", "890,000", not_here(LOANS)),
    Claim("S, §IV-A, Fig. 2", "From ε = 1 to ε = 10 ψ improves approximately 100-fold.", "100 (within 2)",
          judged("sync-fig2", "ψ at ε = 1 over"), "sync-fig2"),
    Claim("S, §IV-A, Fig. 2", "Larger budgets end at better models.", "1", _ordered("sync-fig2"), "sync-fig2"),
    Claim("S, §IV-A, Fig. 3", "Fitness improves with size and budget.", "share 1", _improves("sync-fig3"), "sync-fig3"),
    Claim("S, §IV-A, Fig. 4", "Lines of slope −2 against ε.", "−2", _slopes(("sync-fig4", "epsilon")), "sync-fig4"),
    Claim("S, §IV-A, Fig. 5", "Lines of slope −2 against n_i.", "−2", _slopes(("sync-fig5", "records")), "sync-fig5"),
    Claim("S, §IV-A, Fig. 6 (i)", "ψ remains large whatever owner 1 brings.", "10 times the best of (iv)",
          judged("sync-fig6", "(i) least"), "sync-fig6"),
    Claim("S, §IV-A, Fig. 6 (i)", "ψ does not change significantly with ε₁.", "ratio below 3",
          judged("sync-fig6", "(i) E ψ at"), "sync-fig6"),
    Claim("S, §IV-A, Fig. 6 (i)", "Thm 3 foresees ψ ∝ √(200 + 1/ε₁²)/(2000 + n₁).", "power 1",
          judged("sync-fig6", "(i) power", remark=_SQUARE), "sync-fig6"),
    *_large_or_eager("S, §IV-A, Fig. 6", "sync-fig6", "Similar to the first, with better fitness."),
    Claim("S, §IV-A, Fig. 6 (iv)", "The best scenario, whatever owner 1 does.", "below 1",
          judged("sync-fig6", "(iv) largest", "(iv) geometric"), "sync-fig6"),
    Claim("S, §IV-B", "Frauds are 0.172 % of all transactions.", "0.00172", cards_frauds),
    Claim("S, §IV-B, Fig. 7", "Larger budgets end closer to the model without privacy.",
          "1", _ordered("sync-fig7"), "sync-fig7"),
    Claim("S, §IV-B, Fig. 8", "Fitness improves with size and budget.", "share 1", _improves("sync-fig8"), "sync-fig8"),
    Claim("S, §IV-B, Fig. 9", "All slopes against ε are −2.", "−2", _slopes(("sync-fig9", "epsilon")), "sync-fig9"),
    Claim("S, §IV-B, Fig. 10", "All slopes against n_i are −2.", "−2", _slopes(("sync-fig10", "records")), "sync-fig10"),
    Claim("S, §IV-B, Fig. 11 (i)", "No point in collaboration with small reluctant owners.", "10 times the best of (iv)",
          judged("sync-fig11", "(i) least"), "sync-fig11"),
    *_large_or_eager("S, §IV-B, Fig. 11", "sync-fig11", "Similar to the first, with better results."),
    Claim("S, §IV-B, Fig. 11 (iv)", "Performances with and without privacy are identical if n₁ is large or ε₁ not too small.",
          "ψ = 0", judged("sync-fig11", "(iv) as without privacy", remark=_KEPT), "sync-fig11"),
    Claim("S, §V", "With regression and support vector machines ψ in fact follows ε_i⁻² and n_i⁻².", "−2",
          _slopes(("sync-fig4", "epsilon"), ("sync-fig5", "records"), ("sync-fig9", "epsilon"), ("sync-fig10", "records")),
          "sync-fig9", ("sync-fig4", "sync-fig5", "sync-fig10")),
    Claim("S, App. C", "ζ_k − ζ_{k−1} ≤ 2/(√T·T(T + 1)) for every k.", "ratio at most 1", proof_step),
)  # fmt: skip
