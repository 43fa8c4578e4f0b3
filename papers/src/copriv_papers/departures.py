"""List the settings of a figure that differ from the papers', a sentence each, for its caption and verdict.

Settings come from three places: what a paper prints, what A's published code does where A prints nothing or something
else, and what had to be chosen here. The second and third are listed.
"""

from collections.abc import Sequence

from copriv.agreement import Agreement
from copriv_papers.consortia import A_LENDING, NOT_PRIVATE
from copriv_papers.trials import Trial

RUNS = 100
"""Number of the papers' runs for each point."""
_PCA_ROWS = {"lending": 10_000, "lending-embedded": 10_000, "hospital": 50_000, "hospital-simulated": 50_000}
"""Number of last rows that the papers' PCA was fitted to."""


def departures(trials: Sequence[Trial]) -> list[str]:
    """List each difference once, in the order of the trials."""
    said: dict[str, None] = {}
    for trial in trials:
        for one in _of(trial):
            said.setdefault(one)
    return list(said)


def _of(trial: Trial) -> list[str]:
    """Those of one trial."""
    agreement, mechanism = trial.agreement, trial.mechanism
    found = _of_data(agreement)
    if mechanism == "planned":
        rows = min(trial.planned_on, agreement.data.public_count)
        found.append(
            f"planned: rule, answers, step, Ξ and start are what the plan chose on {rows:,} public rows, and no paper's"
            + ("; nothing by which owners answer once was weighed" if trial.gradients_only else "")
        )
    elif agreement.agreement.rule == "A1":
        found += _of_a(agreement, mechanism)
    else:
        found += _of_s(agreement)
    if mechanism == "sound":
        found.append("sound: gradients are clipped to Ξ, which the papers assume; noise is a vector")
    if trial.runs not in (1, RUNS):
        found.append(f"{trial.runs:,} runs a point ({mechanism}), not {RUNS}")
    return found


def _of_data(agreement: Agreement) -> list[str]:
    data = agreement.data
    theirs = _PCA_ROWS.get(data.dataset or "")
    if theirs is None or data.public_count == theirs:
        return []
    return [f"the PCA is of the last {data.public_count:,} rows, not {theirs:,}; features keep the papers' mean square"]


def _of_a(agreement: Agreement, mechanism: str) -> list[str]:
    terms, found = agreement.agreement, []
    if mechanism in NOT_PRIVATE:
        found.append("A prints no Ξ and no ρ: Ξ = p/2, assumed, and one noise number an answer are its code's")
    elif agreement.n_owners > 2:
        found.append("sound: c_L = 1/2 as A's appendix needs it (erratum 2), not the printed (N − 1)/N")
    if agreement.data.dataset == "creditcard":
        found.append("ρ is chosen on the public rows, since neither A nor its code on cards is at hand")
    else:
        found.append(f"ρ = {agreement.step:,.0f} is A's code's")
        if agreement.model.regularization == A_LENDING.regularization:
            found.append("g = (10⁻⁵/2)·θᵀθ as in A's code; §V prints 10⁻⁵·θᵀθ")
    if terms.start is not None and any(terms.start):
        found.append("θ starts at one random point of [0, 1]^p, as A's code does; Alg. 1 prints 0")
    return found


def _of_s(agreement: Agreement) -> list[str]:
    start = agreement.agreement.start
    step = "half of 1/curvature of the public rows" if agreement.model.loss == "squared" else "1/σ"
    where = "the public rows' optimum" if start is not None and any(start) else "0"
    return [f"S prints no Ξ, c₁ or θ[1]: Ξ = p/2 (A's code), c₁ = {step}, θ[1] = {where}"]
