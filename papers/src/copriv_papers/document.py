"""What ID.json says of a finished figure, and the two lines of words on its picture."""

import math
import re
from collections.abc import Sequence
from typing import Any

from copriv_papers.consortia import NOT_PRIVATE, Mechanism
from copriv_papers.departures import departures
from copriv_papers.figure import Cell, Comparison, Effort, Figure, Row
from copriv_papers.trials import Outcome

A_QUICK_RUN = (
    " This was a quick run, of few runs and points: it shows that the figure can be made; the whole one decides."
)


def other_tables_of(figure: Figure, cells: Sequence[Cell], outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """What the figure finds on another table, without a picture of its own."""
    if not cells:
        return []
    judgement = figure.judge(figure.rows(cells, outcomes))
    return [
        {
            "data": _data(outcomes),
            "verdict": judgement.verdict,
            "comparison": [_plain(one) for one in judgement.comparisons],
        }
    ]


def _plain(one: Comparison) -> dict[str, Any]:
    """Convert numpy values to plain ones, and numbers that are not finite to None, for JSON."""
    return vars(one) | {
        "ours": float(one.ours) if math.isfinite(one.ours) else None,
        "holds": None if one.holds is None else bool(one.holds),
    }


def document_of(
    figure: Figure,
    cells: Sequence[Cell],
    outcomes: Sequence[Outcome],
    rows: Sequence[Row],
    effort: Effort,
    elsewhere: tuple[Sequence[Cell], Sequence[Outcome]] = ((), ()),
) -> dict[str, Any]:
    """Schema copriv.figure/1, without what only the run knows; docs/reference/command-line.md says what its keys mean.

    elsewhere: cells and outcomes on another table, if any; the verdict counts both.
    """
    here = figure.judge(rows)
    others = other_tables_of(figure, *elsewhere)
    judgement = here.on_all_tables([one["holds"] for other in others for one in other["comparison"]])
    mechanisms: dict[Mechanism, Cell] = {}
    for cell in cells:
        mechanisms.setdefault(cell.trial.mechanism, cell)
    areas = [o.precision_recall for o in outcomes if o.precision_recall is not None]
    return {
        "schema": "copriv.figure/1",
        "id": figure.identity,
        "source": figure.source,
        "title": figure.title,
        "claim": figure.claim,
        "verdict": judgement.verdict,
        "verdict_here": here.verdict,
        "why": f"{judgement.why}{A_QUICK_RUN if effort.quick else ''}",
        "differences": departures([cell.trial for cell in cells]),
        "comparison": [_plain(one) for one in judgement.comparisons],
        "data": _data(outcomes),
        "quick": effort.quick,
        "seeds": sorted({cell.trial.seed for cell in cells}),
        "runs": sorted({cell.trial.runs for cell in cells}),
        "not_private": [name for name in mechanisms if name in NOT_PRIVATE],
        "settings": {
            name: {
                "agreement": cell.trial.agreement.to_dict()["agreement"],
                "model": cell.trial.agreement.to_dict()["model"],
                "data": cell.trial.agreement.data.model_dump(mode="json", exclude_none=True),
            }
            for name, cell in mechanisms.items()
        },
        "held_out": {
            name: _spread([o.held_out for c, o in zip(cells, outcomes, strict=True) if c.trial.mechanism == name])
            for name in mechanisms
        },
        **({"precision_recall_area": _spread(areas)} if areas else {}),
        "rows": len(rows),
        "other_tables": others,
    }


def _data(outcomes: Sequence[Outcome]) -> list[dict[str, str]]:
    """List each table once, by the largest draw from it."""
    tables: dict[str, Outcome] = {}
    for one in outcomes:
        tables[one.description.split(":")[0]] = one
    return [{"description": one.description, "source": one.source} for one in tables.values()]


def _spread(values: Sequence[float]) -> dict[str, float] | None:
    known = sorted(v for v in values if math.isfinite(v))
    return {"least": known[0], "most": known[-1]} if known else None


def data_line(document: dict[str, Any]) -> str:
    """The line at the top of a picture."""
    marks = {"real": "real", "resampled": "real, resampled", "simulated": "SIMULATED"}
    data = "; ".join(
        f"{re.sub(', SHA-256 [0-9a-f]+', '', one['description'].split(':')[0])} [{marks[one['source']]}]"
        for one in document["data"]
    )
    return f"Data: {data}."


def caption_of(figure: Figure, document: dict[str, Any]) -> str:
    """The lines below a picture."""
    own = "; ".join(document["differences"])
    quick = "QUICK RUN, few runs and points. " if document["quick"] else ""
    return f"{quick}{figure.source}. {figure.title}." + (f" Not the paper's: {own}." if own else "")
