"""An owner's ledger: a sentence on its spending, and its sums and lines as fields of JSON."""

from fractions import Fraction
from typing import Any

from copriv.formatting.numbers import counted
from copriv.formatting.sanitize import printable
from copriv.privacy.ledger import largest_within
from copriv.privacy.ledger.lines import Line, RunTotals, Totals


def spent(totals: Totals) -> str:
    """Describe the spent part of the lifetime budget, and the number of runs."""
    words = f"{float(totals.spent):.6g} of {float(totals.lifetime):.6g} spent"
    if totals.ahead > 0:
        words += f" and {float(totals.ahead):.6g} paid ahead"
    if totals.lifetime_delta > 0:
        words += f", delta {float(totals.spent_delta):.6g} of {float(totals.lifetime_delta):.6g}"
    words += f", in {counted(len(totals.runs), 'run')}"
    if totals.before > 0:
        words += f", {float(totals.before):.6g} of it in a ledger before this one"
    return words


def left(totals: Totals) -> float:
    """The largest epsilon that can still be signed."""
    return largest_within(max(totals.lifetime - totals.committed, Fraction(0)))


def spent_and_left(totals: Totals) -> str:
    """Describe what is spent, and in full what is left."""
    return f"{spent(totals)}; {left(totals)!r} left"


def phases_spent(run: str, totals: RunTotals) -> str:
    """Describe what each phase of a run spent, and whether more was agreed than began."""
    each = (
        f"phase {phase.number} spent {float(ε):.6g} of {float(phase.epsilon):.6g} in {counted(answers, 'answer')}"
        for (phase, _), (ε, _, answers) in zip(totals.phases, totals.by_phase, strict=True)
    )
    told = f"run {printable(run[:8])}: {', '.join(each)}"
    kept = totals.epsilon - sum((phase.epsilon for phase, _ in totals.phases), Fraction(0))
    if sum(phase.answers for phase, _ in totals.phases) < totals.cap:
        told += f"; the {float(kept):.6g} of the phase that has not begun is not spent, and is kept if it never does"
    return told


def totals_fields(totals: Totals) -> dict[str, Any]:
    """Fields of the sums of a ledger and of each of its runs."""
    runs = [
        {
            "run": run,
            "fingerprint": t.fingerprint,
            "epsilon": float(t.epsilon),
            "spent": float(t.spent),
            "spent_exactly": str(t.spent),
            "delta": float(t.delta),
            "spent_delta": float(t.spent_delta),
            "answers": t.charged,
            "lost": t.charged - t.answered,
            "most_answers": t.cap,
            "phases": [
                {
                    "phase": phase.number,
                    "terms": phase.terms,
                    "epsilon": float(phase.epsilon),
                    "spent": float(ε),
                    "delta": float(phase.delta),
                    "spent_delta": float(δ),
                    "answers": answers,
                    "most_answers": phase.answers,
                }
                for (phase, _), (ε, δ, answers) in zip(t.phases, t.by_phase, strict=False)
            ],
        }
        for run, t in totals.runs.items()
    ]
    return {
        "owner": totals.owner,
        "remark": totals.remark,
        "identity": totals.identity,
        "lifetime": float(totals.lifetime),
        "spent": float(totals.spent),
        "spent_exactly": str(totals.spent),
        "ahead": float(totals.ahead),
        "left": left(totals),
        "before": float(totals.before),
        "lifetime_delta": float(totals.lifetime_delta),
        "spent_delta": float(totals.spent_delta),
        "runs": runs,
        "head": totals.head,
    }


def line_fields(line: Line) -> dict[str, Any]:
    """Fields of one line of a ledger."""
    return {
        "line": line.number,
        "time": line.time,
        "kind": line.kind,
        "run": line.run,
        "identity": line.identity,
        "epsilon": None if line.epsilon is None else str(line.epsilon),
        "delta": None if line.epsilon is None else str(line.delta),
        "hash": line.hash,
    }
