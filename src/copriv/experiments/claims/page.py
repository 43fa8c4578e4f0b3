"""docs/reference/claims.md: the table of all claims, from claims.json."""

from pathlib import Path
from typing import Any

_OPENING = """# What the papers say in numbers, and what we find

This page is written by a command and not by hand:

<!-- no-run: it makes every figure first; tests/experiments/test_claims.py runs its parts -->
```sh
copriv reproduce claims --out figures --gallery docs
```

**S** is "The Value of Collaboration in Convex Machine Learning with Differential Privacy", **A** is "The Cost of Privacy in
Asynchronous Differentially-Private Machine Learning". Every sentence of theirs with a number in it, or with a law that
can be held to a number, stands here once, in their order. Our number is the range over all that was compared; the
last column but one counts how many of those are as the sentence says. "In part" means some.
"Not to be had here" means that the number is of a file that is not public.

Trials follow the papers' own settings, "as published" and "as written" in [the gallery](../gallery.md), which says what
in them is not the papers'. They are not private. What is planned, and private, says so.
"""


def write_page(document: dict[str, Any], docs: Path) -> Path:
    """Write docs/reference/claims.md; return its path."""
    path = docs / "reference" / "claims.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([_OPENING, *_table(document)]) + "\n", encoding="utf-8")
    return path


def _table(document: dict[str, Any]) -> list[str]:
    claims = document["claims"]
    verdicts = [one["verdict"] for one in claims]
    counts = ", ".join(f"{verdicts.count(v)} {v}" for v in dict.fromkeys(verdicts))
    quick = ["These are numbers of a quick run, with fewer runs and points.", ""] if document["quick"] else []
    return [
        *quick,
        f"{len(claims)} claims: {counts}.",
        "",
        "| place | sentence | paper | ours | verdict | command |",
        "| --- | --- | --- | --- | --- | --- |",
        *(_line(one) for one in claims),
        "",
        "Data of the figures that are read:",
        "",
        *(f"- {one}" for one in document["data"]),
    ]


def _line(one: dict[str, Any]) -> str:
    remark = f" {one['remark']}" if one["remark"] else ""
    held = "" if one["held"].startswith(("1 of 1", "0 of 1", "0 of 0")) else f" ({one['held']})"
    verdict = f"{one['verdict']}{held}.{remark}"
    cells = (one["place"], one["sentence"], one["paper"], shown(one["ours"]), verdict, f"`{one['command']}`")
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def shown(numbers: list[float | None]) -> str:
    """One number, or the ends of many; "none" for one that there is not."""
    known = [one for one in numbers if one is not None]
    if not numbers:
        return ""
    if not known:
        return "none"
    low, high = (f"{one:.3g}".replace("-", "−") for one in (min(known), max(known)))
    return low if low == high else f"{low} to {high}"
