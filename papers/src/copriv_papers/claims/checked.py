"""All claims answered: the figures that they read are made first, then their own trials."""

import csv
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from copriv.errors import CoprivError
from copriv_papers.claims.claim import Answer, Claim, Found
from copriv_papers.claims.runs import cells
from copriv_papers.figure import Effort
from copriv_papers.figures import BEYOND, FIGURES
from copriv_papers.figures.grid import final_rows
from copriv_papers.runner import outcomes_of, reproduce
from copriv_papers.verdict import BEYOND_THEM

_FETCH = re.compile(r"copriv data fetch \w+")


def check(
    claims: Sequence[Claim], out: Path, effort: Effort, finished: Callable[[Any], None] | None = None, **how: Any
) -> dict[str, Any]:
    """Write claims.json and return it: `answered` for all claims of both papers."""
    document = answered(claims, out, effort, finished, **how)
    (out / "claims.json").write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return document


def answered(
    claims: Sequence[Claim], out: Path, effort: Effort, finished: Callable[[Any], None] | None = None, **how: Any
) -> dict[str, Any]:
    """Each claim with our numbers and the verdict. Figures and trials that are finished are not run again.

    finished: told of each figure's report. how: workers, backend and progress, as `reproduce` takes them. A figure whose data
    are not here is left out: its claims are not testable, and `missing` has the command that gets the data.
    """
    read = {name for claim in claims for name in (claim.source, *claim.needs) if name != "claims"}
    figures, rows, missing = {}, {}, {}

    def without(identity: str, error: CoprivError) -> None:
        command = _FETCH.search(str(error))
        missing[identity] = str(error) if command is None else command[0]

    asked = [one for one in (*FIGURES, *BEYOND) if one.identity in read]
    for report in reproduce(asked, out, effort, failed=without, **how):
        figures[report.identity] = report.document
        rows[report.identity] = _rows(out / f"{report.identity}.csv")
        if finished is not None:
            finished(report)
    own = cells(effort)
    outcomes = outcomes_of(own, out, "claims", **how)
    rows["claims"] = final_rows(own, outcomes)
    found = Found(figures, rows, {str(cell.at["name"]): o for cell, o in zip(own, outcomes, strict=True)})
    data = {one["description"] for document in figures.values() for one in document["data"]}
    return {
        "schema": "copriv.claims/1",
        "quick": effort.quick,
        "data": sorted(data),
        "missing": missing,
        "claims": [_told(claim, found, missing) for claim in claims],
    }


def _told(claim: Claim, found: Found, missing: Mapping[str, str]) -> dict[str, Any]:
    gone = [missing[name] for name in (claim.source, *claim.needs) if name in missing]
    answer = Answer((), (), f"Not here: {gone[0]}.") if gone else claim.answer(found)
    return {
        "place": claim.place,
        "sentence": claim.sentence,
        "paper": claim.paper,
        "ours": [one if math.isfinite(one) else None for one in answer.numbers],
        "held": f"{sum(answer.held)} of {len(answer.held)}",
        "elsewhere": [one if math.isfinite(one) else None for one in answer.elsewhere],
        "verdict": BEYOND_THEM if claim.beyond else answer.verdict,
        "remark": answer.remark,
        "command": claim.command,
    }


def _rows(path: Path) -> list[dict[str, Any]]:
    with path.open(newline="", encoding="utf-8") as file:
        return [{k: _value(v) for k, v in row.items()} for row in csv.DictReader(file)]


def _value(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text
