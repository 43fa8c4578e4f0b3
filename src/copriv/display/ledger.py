"""An owner's ledger: a sentence on its spending, and its sums and lines as fields of JSON."""

from typing import Any

from copriv.formatting.numbers import counted
from copriv.privacy.ledger.lines import Line, Totals


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
