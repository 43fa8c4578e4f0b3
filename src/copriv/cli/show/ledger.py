"""What an owner has spent, in words and as the fields of JSON."""

import json
from pathlib import Path
from typing import Any

import typer

from copriv.cli.show.console import out
from copriv.privacy.ledger.lines import Totals


def spent(totals: Totals) -> str:
    """Of the lifetime budget, in how many runs."""
    δ = ""
    if totals.lifetime_delta > 0:
        δ = f", delta {float(totals.spent_delta):.6g} of {float(totals.lifetime_delta):.6g}"
    ahead = f" and {float(totals.ahead):.6g} paid ahead" if totals.ahead > 0 else ""
    before = f", {float(totals.before):.6g} of it in a ledger before this one" if totals.before > 0 else ""
    runs = "1 run" if len(totals.runs) == 1 else f"{len(totals.runs)} runs"
    return f"{float(totals.spent):.6g} of {float(totals.lifetime):.6g} spent{ahead}{δ}, in {runs}{before}"


def totals_fields(totals: Totals) -> dict[str, Any]:
    """The sums of a ledger and of each run in it."""
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


def line_fields(line: Any) -> dict[str, Any]:
    """One line of a ledger."""
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


def show_made(totals: Totals, path: Path, schema: str, as_json: bool) -> None:
    """A ledger that was just made or taken over."""
    if as_json:
        typer.echo(json.dumps({"schema": schema, **totals_fields(totals)}, indent=2))
        return
    before = f", which begins with {float(totals.before):.6g} spent" if totals.before > 0 else ""
    out().print(f"{path}: the ledger of {totals.owner}{before}. Keep it, and back it up; it never begins again.")
    out().print(f"Head {totals.head}")
