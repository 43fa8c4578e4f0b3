"""The report: each target beside its number, medians beside peers, and the cells that are above what they may be."""

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.published.cells import QUICK, STATED, left
from benchmarks.published.judged import (
    EXCESS,
    LEVEL,
    RUNS,
    SLACK,
    Above,
    Row,
    answered,
    median_left,
    median_peer,
    steps,
    summary,
    worse_than_nothing,
)
from benchmarks.published.tables import OTHERS, PUBLISHED

PAGE = Path("docs/reference/published.md")
AT_MOST = {0.1: 2 / 3, 1.0: 0.5, 10.0: 0.5}
"""Of AdaSSP's median, norm stated, with δ."""
RANGES = {0.1: 0.85, 1.0: 0.45, 10.0: 0.15}
"""Most of the gap that may be left in the median where only ranges are stated, with δ."""
BEFORE = {0.1: 0.468, 1.0: 0.183, 10.0: 0.0711}
"""Median of the six tables, pure ε, norm stated, before moments were released together: 20 fits a cell, at 141a1bf."""
DIABETES = {0.1: -0.02, 1.0: 0.15, 10.0: 0.40}
"""R², ranges stated, with δ."""
CANCER = {0.1: 0.627, 1.0: 0.80, 10.0: 0.93}
"""Accuracy on breast cancer, the same."""
ADULT = 0.87
"""AUC on adult's test rows at ε = 0.1, δ = 1e-5."""
FITS = 1000
"""None of so many may be refused."""
SHOWN = 12
Peers = dict[tuple[str, float], dict[str, float]]
"""Published losses by table and ε."""


def peers_of(folder: Path) -> Peers:
    """The table of the README beside the published tables; empty where it is not at hand."""
    path = folder / "published" / "README.md"
    if not path.exists():
        return {}
    lines = [line.strip("|\n ").split("|") for line in path.read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
    names, *rows = ([cell.strip() for cell in line] for line in lines if "---" not in line[0])
    return {
        (row[0], float(row[3])): dict(zip(names[4:], map(float, row[4:]), strict=True))
        for row in rows
        if row[0] in PUBLISHED
    }


def page(every: list[Row], published: Peers, missing: list[str], note: str = "") -> str:
    """Markdown. missing: tables that are not at hand; note: what a reader must know of these measurements."""
    rows = [row for row in every if "speed" not in row]
    names = dict.fromkeys(row["table"] for row in rows)
    counted = max((len(row["losses"]) + len(row["refused"]) for row in rows), default=0)
    lines = [
        "# Without public rows: beside published peers, and beside nothing",
        "",
        "Written by a command, and not by hand:",
        "",
        "    python -m benchmarks.published --page",
        "",
        f"{len(rows)} cells of {len(names)} tables, at most {counted} fits each. A number is the share of the gap between "
        "least squares (0) and the zero model (1; with an intercept: the constant model) that a model leaves on its training "
        "rows; of classes the share of wrong labels takes the place of the squared error. *Norm*: rows within L2 norm 1 and "
        "the range of y are stated, no intercept. *Ranges*: the ends of every column and of y are; *wide*: ten times as far "
        "apart. δ is 1/n². Tables are prepared as `benchmarks/published/tables.py` says.",
        "",
        *([note, ""] if note else []),
        *([f"Not at hand, and left out: {', '.join(missing)}.", ""] if missing else []),
        *_targets(every, published),
        *_medians(rows),
        *_tables(rows, published),
        *_listed("Worse than nothing", worse_than_nothing(rows), EXCESS),
        *_listed("More ε that hurts", steps(rows, "epsilon"), SLACK),
        *_listed("A stated δ that hurts", steps(rows, "delta"), SLACK),
        *_refusals(rows),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _targets(every: list[Row], published: Peers) -> list[str]:
    rows = [row for row in every if "speed" not in row]
    regressions = [row for row in rows if not row["classes"]]
    lines = ["| what | aimed at | measured | |", "| --- | --- | --- | --- |"]

    def line(what: str, aimed: str, measured: str, met: bool, told: bool = True) -> None:
        verdict = "**missed**" if not met else "met" if told else "too few fits to tell"
        lines.append(f"| {what} | {aimed} | {measured} | {verdict} |")

    def number(what: str, aimed: float, found: float, least: bool = False) -> None:
        if np.isfinite(found):
            sign = "at least" if least else "at most"
            line(what, f"{sign} {aimed:.3g}", f"{found:.3g}", found >= aimed if least else found <= aimed)

    for what, found in (
        (f"never worse than nothing: mean excess over {EXCESS:.0%} of the gap", worse_than_nothing(rows)),
        (f"monotone in ε: more of it adds at most {SLACK:.0%} of the gap", steps(rows, "epsilon")),
        (f"monotone in δ: pure ε is at most {SLACK:.0%} of the gap better", steps(rows, "delta")),
    ):
        if found:
            sure = any(one.surely(len(found)) for one in found)
            told = found[0].excess <= 0 or min(one.runs for one in found) >= RUNS
            line(what, f"none surely (family-wise {LEVEL:.0%})", summary(found), not sure, told)
    ahead = _ahead_of_ihm(rows, published)
    if ahead:
        behind = ", ".join(f"{name} at {ε:g}" for name, ε, better in ahead if not better)
        count = f"{sum(better for *_, better in ahead)} of {len(ahead)}"
        line(
            "norm stated, δ: ahead of IHM in every cell",
            "all",
            count + (f"; behind: {behind}" if behind else ""),
            not behind,
        )
    six = [row for row in regressions if row["table"] in PUBLISHED]
    for whose, some in (("median", regressions), ("median of the six", six)):
        for ε, share in AT_MOST.items():
            facts = {"stated": "norm", "owners": 1, "delta": True, "epsilon": ε}
            ours, theirs = median_left(some, **facts), median_peer(some, "AdaSSP", **facts)
            if np.isfinite(ours):
                line(
                    f"norm stated, δ: {whose} at ε = {ε:g} over AdaSSP's", f"at most {share:.2g}",
                    f"{ours:.3g} / {theirs:.3g} = {ours / theirs:.2f}", ours <= share * theirs,
                )  # fmt: skip
    for ε, before in BEFORE.items():
        found = median_left(six, stated="norm", owners=1, delta=False, epsilon=ε)
        number(f"norm stated, pure: median of the six at ε = {ε:g}, not worse than before", before, found)
    for whose, some in (("median", regressions), ("median of the six", six)):
        for ε, most in RANGES.items():
            found = median_left(some, stated="ranges", owners=1, delta=True, epsilon=ε)
            number(f"only ranges, δ: {whose} at ε = {ε:g}", most, found)
    where = {"stated": "ranges", "owners": 1, "delta": True}
    for ε, least in DIABETES.items():
        found = 1.0 - _relative(rows, "diabetes", "constant", epsilon=ε, **where)
        number(f"diabetes, ranges, δ: R² at ε = {ε:g}", least, found, least=True)
    for ε, least in CANCER.items():
        found = 1.0 - _relative(rows, "breast-cancer", None, epsilon=ε, **where)
        number(f"breast cancer, ranges, δ: accuracy at ε = {ε:g}", least, found, least=True)
    aucs = [
        np.mean(r["aucs"]) for r in rows if r["table"] == "adult" and r["epsilon"] == 0.1 and r["delta"] and r["aucs"]
    ]
    number(
        "adult, δ = 1e-5: AUC at ε = 0.1, the better of what is stated", ADULT, float(max(aucs, default=np.nan)), True
    )
    fits = sum(len(row["losses"]) + len(row["refused"]) for row in rows)
    refused = sum(len(row["refused"]) for row in rows)
    if rows:
        tables = len({row["table"] for row in rows})
        words = f"{refused:,} of {fits:,} of {tables}"
        line(f"no refusals in {FITS:,} fits of 20 tables", "0", words, not refused, fits >= FITS and tables >= 20)
    for row in every:
        if "speed" in row:
            unit = " times" if "over" in row["cell"] else " s"
            what = row["cell"].removeprefix("speed: ")
            line(what, f"{row['aimed']:g}{unit}", f"{row['speed']:.1f}{unit}", row["speed"] <= row["aimed"])
    return [*lines, ""]


def _relative(rows: list[Row], table: str, over: str | None, **facts: Any) -> float:
    """Mean loss in the one cell with these facts, over another number of the row; NaN of none."""
    for row in answered(rows):
        if row["table"] == table and all(row[name] == value for name, value in facts.items()):
            return float(np.mean(row["losses"])) / (row[over] if over else 1.0)
    return float("nan")


def _ahead_of_ihm(rows: list[Row], published: Peers) -> list[tuple[str, float, bool]]:
    """(table, ε, whether the mean loss is below IHM's), norm stated, with δ, of one owner."""
    return [
        (row["table"], row["epsilon"], float(np.mean(row["losses"])) < published[row["table"], row["epsilon"]]["IHM"])
        for row in answered(rows)
        if (row["table"], row["epsilon"]) in published
        and row["stated"] == "norm" and row["delta"] and row["owners"] == 1
    ]  # fmt: skip


def _medians(rows: list[Row]) -> list[str]:
    """Medians over tables of what is left, by ε."""
    regressions = [row for row in rows if not row["classes"]]
    epsilons = sorted({row["epsilon"] for row in rows if row["stated"] == "norm"})
    lines = [
        "## Medians over tables",
        "",
        f"| regressions | {' | '.join(f'ε = {ε:g}' for ε in epsilons)} |",
        f"| --- |{' --- |' * len(epsilons)}",
    ]

    def line(name: str, found: list[float]) -> None:
        if np.isfinite(found).any():
            lines.append(f"| {name} | {' | '.join('' if np.isnan(one) else f'{one:.3g}' for one in found)} |")

    for owners in sorted({row["owners"] for row in rows}):
        for stated in STATED:
            for δ in (False, True):
                facts = {"stated": stated, "owners": owners, "delta": δ}
                name = f"copriv, {stated}, {'δ' if δ else 'pure'}, {'1 owner' if owners == 1 else f'{owners} owners'}"
                line(name, [median_left(regressions, epsilon=ε, **facts) for ε in epsilons])
    for peer in ("AdaSSP", "moments, zeroed", "moments, replaced"):
        line(f"{peer}, norm, δ", [median_peer(regressions, peer, epsilon=ε) for ε in epsilons])
    return [*lines, ""]


def _tables(rows: list[Row], published: Peers) -> list[str]:
    """Each table at three ε: the mean of one owner's fits, and IHM's."""
    kinds = [(stated, δ) for stated in STATED for δ in (False, True)]
    heads = [f"{stated}, {'δ' if δ else 'pure'}" for stated, δ in kinds]
    lines = [
        "## Table by table, one owner",
        "",
        f"| table | n × p | ε | {' | '.join(heads)} | AdaSSP | IHM |",
        f"| --- | --- | --- |{' --- |' * (len(heads) + 2)}",
    ]
    at = {
        (row["table"], row["epsilon"], row["stated"], row["delta"]): row
        for row in rows
        if row["owners"] == 1 and row["epsilon"] in QUICK
    }
    for name, ε in dict.fromkeys((table, ε) for table, ε, _, _ in sorted(at, key=_order)):
        each = [at.get((name, ε, stated, δ)) for stated, δ in kinds]
        first = next(row for row in each if row is not None)
        shown = ["" if row is None else "refused" if not row["losses"] else f"{left(row).mean():.3g}" for row in each]
        zero = at.get((name, ε, "norm", True))
        for theirs in ((zero or {}).get("peers", {}).get("AdaSSP"), published.get((name, ε), {}).get("IHM")):
            gap = None if zero is None or theirs is None else zero["constant"] - zero["least"]
            shown.append("" if gap is None or zero is None else f"{(theirs - zero['least']) / gap:.3g}")
        lines.append(f"| {name} | {first['rows']:,} × {first['columns']} | {ε:g} | {' | '.join(shown)} |")
    return [*lines, ""]


def _order(key: tuple[str, float, str, bool]) -> tuple[int, float]:
    names = [*PUBLISHED, *OTHERS]
    return (names.index(key[0]) if key[0] in names else len(names), key[1])


def _listed(title: str, found: list[Above], allowed: float) -> list[str]:
    """Those that are surely above, and the worst of the others."""
    above = sorted((one for one in found if one.excess > 0), key=lambda one: not one.surely(len(found)))
    if not above:
        return []
    lines = [
        f"## {title}",
        "",
        f"{summary(found)}. Those that are surely, and the worst:",
        "",
        "| cell | by, of the gap | standard error | |",
        "| --- | --- | --- | --- |",
    ]
    for one in above[:SHOWN]:
        sure = "surely" if one.surely(len(found)) else ""
        lines.append(f"| {one.what} | {one.excess + allowed:.3g} | {one.error:.2g} | {sure} |")
    return [*lines, ""]


def _refusals(rows: list[Row]) -> list[str]:
    """What was refused, by what was said."""
    said: dict[str, list[str]] = {}
    for row in rows:
        for message in row["refused"]:
            said.setdefault(message.split(":")[0], []).append(row["cell"])
    if not said:
        return []
    lines = ["## Refused", ""]
    for kind, cells in said.items():
        lines.append(f"- {kind}: {len(cells)} fits of {len(set(cells))} cells, as of {cells[0]}.")
    return [*lines, ""]
