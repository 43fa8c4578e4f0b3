"""The decision after a pilot: by the learner, and recomputed by anybody from the run's file and the public rows.

Both are functions of the owners' released answers, the signed agreement and the public rows, which a run names by the SHA-256
of their file. The terms that were chosen need not be the same to the bit: plans are simulations, whose last digits depend on
the machine. They may cost a fifth more than those found again, in the same runs. Verdicts depend on it, too: keeping the budget
is wrong where it is open or a yes for an owner, going on where all are a no, each by more than MACHINE of its probability. What
the learner said that the pilot told is held to the same.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from copriv.forecast.assessment import RUNS
from copriv.forecast.phases import AfterPilot
from copriv.formatting.numbers import percent
from copriv.model.records import Records
from copriv.network.run import Run
from copriv.network.run_state import Decision
from copriv.problem.verdict import NO, YES, OwnerVerdict

MACHINE = 0.1
"""Most by which the probability of a verdict may differ between machines. Set by hand."""
FIFTH = 0.2
"""Most by which the cost of terms, or a forecast one, may: terms are rounded to two digits, and the least of a few simulations
is taken, which on another machine may be another one. Set by hand."""


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
    if run.known.get("public") is None and digest is not None:
        return "the run was planned without public rows, and some were given here"
    if run.known.get("public") != digest:
        return "the run was planned by other public rows: the SHA-256 of their file is not the one that it names"
    if not _as_said(run.known, found.said()):
        return "what the run's file says that the pilot told is not what its answers tell"
    if found.after.longer is not None:
        what = "the run went on after the pilot, by whose answers public rows are not like the owners' records"
        return "" if run.kept else what
    if run.kept:
        verdicts = found.after.joining.owners
        pays = [name for name, one in verdicts.items() if one.answer != "no" and _most(one) > NO + MACHINE]
        return f"the run stopped after the pilot, by whose answers joining may pay for {pays[0]}" if pays else ""
    if found.chosen is None and all(one.probability <= NO - MACHINE for one in found.after.joining.owners.values()):
        return "the run went on after the pilot, by whose answers joining pays for nobody"
    more = found.cost_of(run.agreed, run.chosen)
    if more <= FIFTH:
        return ""
    return f"the terms that were chosen after the pilot cost {percent(more)} more than those that its answers lead to"


def _most(verdict: OwnerVerdict) -> float:
    """The largest probability that joining pays: over all worlds, or those whose owners differ least or most."""
    outcomes = (verdict, verdict.if_alike, verdict.if_unlike)
    return max(one.probability for one in outcomes if one is not None)


def _as_said(known: Mapping[str, Any], here: Mapping[str, Any]) -> bool:
    """Whether what the learner said (`AfterPilot.said`) is what is found here, but for the last digits of a machine."""
    try:
        return all(_alike(known[when], here[when]) for when in ("before", "after"))
    except (KeyError, TypeError, ValueError, AttributeError):  # of another form
        return False


def _alike(said: Mapping[str, Any], here: Mapping[str, Any]) -> bool:
    """Whether ψ at the end, its band and the verdicts of a forecast are."""
    numbers = [(said["relative_fitness"][key], ψ) for key, ψ in here["relative_fitness"].items()]
    numbers += [(said["band"][key], ψ) for key, ψ in here["band"].items()]
    if (
        any(np.shape(one) != np.shape(other) for one, other in numbers)
        or said["owners"].keys() != here["owners"].keys()
    ):
        return False
    close = all(
        np.allclose(np.array(one, float), np.array(other, float), rtol=FIFTH, atol=1e-12, equal_nan=True)
        for one, other in numbers
    )
    return close and all(_same_verdict(said["owners"][name], one) for name, one in here["owners"].items())


def _same_verdict(said: Mapping[str, Any], here: Mapping[str, Any]) -> bool:
    """Whether an owner's is, near the ends of "open" whatever its word."""
    near = min(abs(here["probability"] - end) for end in (NO, YES)) <= MACHINE
    as_sure = abs(said["probability"] - here["probability"]) <= MACHINE
    return bool(said["count"] == here["count"] and as_sure and (near or said["verdict"] == here["verdict"]))
