"""The decision after a pilot: by the learner, and recomputed by anybody from the run's file and the public rows.

Both are functions of the owners' released answers, the signed agreement and the public rows, which a run names by the SHA-256
of their file. The terms that were chosen need not be the same to the bit: plans are simulations, whose last digits depend on
the machine. They may cost a fifth more than those found again, in the same runs. Verdicts depend on it, too: keeping
the budget is wrong where joining pays for somebody, going on where it pays for nobody, by a probability of at most SURELY_NOT.
"""

from collections.abc import Sequence

from copriv.forecast.assessment import RUNS
from copriv.forecast.phases import AfterPilot
from copriv.formatting.numbers import percent
from copriv.model.records import Records
from copriv.network.run import Run
from copriv.network.run_state import Decision
from copriv.problem.verdict import NO

SURELY_NOT = NO / 2
"""Probability up to which a "no" that is found again is taken for one on every machine. Set by hand."""


def decided(
    run: Run, public: Records | None, strata: Sequence[str] | None, digest: str | None, runs: int = RUNS
) -> Decision:
    """Decide what follows the pilot with which `run` ends; public and digest are None where no rows are public.

    Raises as `AfterPilot.of`.
    """
    found = AfterPilot.of(run.agreed, public, run.only_answers, run.whose_answers, strata=strata, runs=runs)
    return Decision(found.chosen, found.reason, {**found.said(), "public": digest})


def wrong_with(run: Run, found: AfterPilot, digest: str | None) -> str:
    """Why the decision after a run's pilot differs from the recomputed one; "" where it does not, or before the decision.

    found: the decision recomputed from `run.phases[0].only_answers` and the public rows. digest: SHA-256 of the file of
    these; None: no rows are public.
    """
    if not run.decided:
        return ""
    if not run.known:
        return "the run's file does not say what the pilot told; ask the learner for the file as it wrote it"
    if run.known.get("public") != digest:
        return "the run was planned by other public rows: the SHA-256 of their file is not the one that it names"
    pays = [owner.name for owner in found.after.owners if owner.verdict == "yes"]
    if run.kept:
        return f"the run stopped after the pilot, by whose answers joining pays for {pays[0]}" if pays else ""
    if found.chosen is None and all(owner.probability <= SURELY_NOT for owner in found.after.owners):
        return "the run went on after the pilot, by whose answers joining pays for nobody"
    more = found.cost_of(run.agreed, run.chosen)
    # A fifth more is allowed, set by hand: terms are rounded to two digits, and the least of a few simulations is taken, which
    # on another machine may be another one.
    if more <= 0.2:
        return ""
    return f"the terms that were chosen after the pilot cost {percent(more)} more than those that its answers lead to"
