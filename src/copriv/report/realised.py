"""What was agreed, what was expected and what came of a run, in one table.

What was spent is the ledger's, and how often everybody was asked the run's file's. Of ψ, and of what was expected, only the
learner's model file says anything: from public rows, on the learner's word, which it signed. Nothing is taken from a model
file in which anything is wrong.
"""

import math
from typing import Any

from copriv.agreement import Agreement
from copriv.privacy.ledger.lines import RunTotals
from copriv.report.evidence import RunRead


def beside(agreement: Agreement, owner: str, totals: RunTotals, file: RunRead | None) -> list[dict[str, Any]]:
    """Rows of `what`, `agreed` (at most), `forecast`, `realised` and `source`: where the realised number is from.

    Numbers are None where nobody says any.
    """
    record = {} if file is None else file.verdict.record
    said, come = _table(record.get("forecast")), _table(record.get("realised"))
    terms = agreement.owner[agreement.owner_names.index(owner)]
    ε, δ = agreement.mechanism.spent_after(agreement, terms, agreement.answers)
    ψ, public = _table(said.get("relative_fitness")), _table(come.get("public"))

    def of_owner(key: str) -> float | None:
        return _number(_table(said.get(key)).get(owner))

    rows = [
        _row("queries", agreement.queries, _number(said.get("queries")), None if file is None else file.verdict.stepped, "run"),
        _row("answers", agreement.answers, of_owner("answers"), totals.charged, "ledger"),
        _row("epsilon", float(ε), of_owner("epsilon"), float(totals.spent), "ledger"),
        _row("delta", float(δ), of_owner("delta"), float(totals.spent_delta), "ledger"),
        _row("error", None, _number(ψ.get("median", ψ.get("mean"))), _number(public.get("estimate")), "learner"),
    ]  # fmt: skip
    low, high = _number(ψ.get("low")), _number(ψ.get("high"))
    rows[-1]["band"] = None if low is None or high is None else [low, high]
    return rows


def _row(
    what: str, agreed: float | None, forecast: float | None, realised: float | None, source: str
) -> dict[str, Any]:
    return {"what": what, "agreed": agreed, "forecast": forecast, "realised": realised, "source": source}


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> float | None:
    """A number that somebody else wrote; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e300 or not math.isfinite(value):
        return None
    return float(value)
