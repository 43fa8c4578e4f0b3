"""The report on calibration: coverage by kind, reliability, verdicts, the worst ten, seconds."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

PAGE = Path("docs/reference/calibration.md")
Row = dict[str, Any]


def page(rows: Sequence[Row], seed: int, note: str = "") -> str:
    """Markdown; note: what a reader must know beside what is made here."""
    ran = [row for row in rows if "runs" in row]
    refused = [row for row in rows if "refused" in row]
    broken = [row for row in rows if "crashed" in row or row.get("hung")]
    warned = [row for row in rows if row.get("warnings")]
    out = [
        "# Are forecasts calibrated?",
        "",
        f"Made by `python -m benchmarks.calibration --problems {len(rows)} --seed {seed} --page`. Random problems with alike",
        "owners (`benchmarks/calibration/problems.py`), default settings, each forecast from its public",
        "rows and then run 20 times on its owners' records. *Covered*: the median of them is in the forecast's 90 % band;",
        "*runs covered*: the share of single runs that is. Errors are one standard error.",
        "",
        f"{len(rows)} problems: {len(ran)} ran, {len(refused)} were refused, {len(broken)} crashed or did not finish, "
        f"{len(warned)} printed a warning.",
        "",
        *([note, ""] if note else []),
    ]
    if ran:
        out += _coverage(ran) + _reliability(ran) + _centre(ran) + _verdicts(ran) + _worst(ran)
    out += _seconds(rows) + _refusals(refused, broken, warned)
    return "\n".join(out) + "\n"


def _inside(row: Row) -> bool:
    return bool(row["low"] <= np.median(row["runs"]) <= row["high"])


def _coverage(ran: list[Row]) -> list[str]:
    groups: list[tuple[str, Callable[[Row], bool]]] = [("all", lambda r: True)]
    groups += [(f"kind: {k}", lambda r, k=k: r["kind"] == k) for k in sorted({r["kind"] for r in ran})]
    groups += [(f"loss: {k}", lambda r, k=k: r["loss"] == k) for k in sorted({r["loss"] for r in ran})]
    groups += [
        ("public rows a parameter: below 3", lambda r: r["public"] / r["p"] < 3),
        ("public rows a parameter: 3 to 10", lambda r: 3 <= r["public"] / r["p"] < 10),
        ("public rows a parameter: 10 to 100", lambda r: 10 <= r["public"] / r["p"] < 100),
        ("public rows a parameter: 100 and more", lambda r: r["public"] / r["p"] >= 100),
        ("records in all: below 300", lambda r: r["records"] < 300),
        ("records in all: 300 to 3,000", lambda r: 300 <= r["records"] < 3000),
        ("records in all: 3,000 and more", lambda r: r["records"] >= 3000),
    ]
    head = "| problems | number | covered | runs covered | too low | too high | high/low (median) |"
    out = ["## Coverage of the 90 % band", "", head,
           "| --- | --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    for name, test in groups:
        some = [r for r in ran if test(r)]
        if not some:
            continue
        share = float(np.mean([_inside(r) for r in some]))
        single = float(np.mean([np.mean([(r["low"] <= x <= r["high"]) for x in r["runs"]]) for r in some]))
        below = sum(bool(np.median(r["runs"]) > r["high"]) for r in some)
        above = sum(bool(np.median(r["runs"]) < r["low"]) for r in some)
        width = float(np.median([r["high"] / max(r["low"], 1e-300) for r in some]))
        error = np.sqrt(max(share * (1 - share), 0.25 / len(some)) / len(some))
        out.append(
            f"| {name} | {len(some)} | {100 * share:.0f} ± {100 * error:.0f} % | {100 * single:.0f} % "
            f"| {below} | {above} | {width:.3g} |"
        )
    rich = [r["high"] / max(r["low"], 1e-300) for r in ran if r["public"] / r["p"] >= 10]
    if rich:
        out += [
            "",
            f"Upper over lower end where there are ten public rows a parameter or more: {np.median(rich):.3g} in the median.",
        ]
    return [*out, ""]


def _reliability(ran: list[Row]) -> list[str]:
    some = [r for r in ran if r.get("levels")]
    if not some:
        return []
    out = ["## Reliability", "", "| nominal | median of 20 runs inside | single runs inside |", "| --- | --- | --- |"]
    for j, (level, _, _) in enumerate(some[0]["levels"]):
        inside = [r["levels"][j][1] <= np.median(r["runs"]) <= r["levels"][j][2] for r in some]
        single = [np.mean([r["levels"][j][1] <= x <= r["levels"][j][2] for x in r["runs"]]) for r in some]
        out.append(f"| {100 * level:.0f} % | {_bar(float(np.mean(inside)))} | {_bar(float(np.mean(single)))} |")
    return [*out, ""]


def _bar(share: float) -> str:
    return f"{'█' * round(20 * share):·<20} {100 * share:.0f} %"


def _centre(ran: list[Row]) -> list[str]:
    mean = sum(r["low"] <= r["mean"] <= r["high"] for r in ran)
    median = sum(r["low"] <= r["median"] <= r["high"] for r in ran)
    ratio = [np.log10(max(np.median(r["runs"]), 1e-300) / max(r["median"], 1e-300)) for r in ran]
    return [
        "## Centre", "",
        f"The mean is inside its own band in {mean} of {len(ran)}, the median in {median}. Measured over forecast median: "
        f"half of problems between {10 ** np.quantile(ratio, 0.25):.2g} and {10 ** np.quantile(ratio, 0.75):.2g}, "
        f"median {10 ** np.median(ratio):.2g}.", "",
    ]  # fmt: skip


def _verdicts(ran: list[Row]) -> list[str]:
    said, right = [], []
    for r in ran:
        for q, pays, paid in zip(r["probability"], r["pays"], r["paid"], strict=True):
            # Owners of one problem are one judgement, nearly: each counts for its share of it.
            said.append((max(q, 1 - q) if q is not None else np.nan, 1 / len(r["pays"])))
            right.append(float(pays == paid))
    weight = np.array([w for _, w in said])
    out = ["## Joining pays", "", f"The verdict is right for {100 * np.average(right, weights=weight):.0f} % of owners"]
    probability = np.array([q for q, _ in said])
    if np.isfinite(probability).all():
        out[-1] += f"; by its own probabilities it should be for {100 * np.average(probability, weights=weight):.0f} %."
        out += ["", "| said to be right with | owners (problems weighed alike) | right |", "| --- | --- | --- |"]
        for low, high in ((0.5, 0.7), (0.7, 0.9), (0.9, 0.99), (0.99, 1.01)):
            at = (probability >= low) & (probability < high)
            if at.any():
                out.append(
                    f"| {100 * low:.0f} to {min(100 * high, 100):.0f} % | {weight[at].sum():.0f} | "
                    f"{100 * np.average(np.array(right)[at], weights=weight[at]):.0f} % |"
                )
    else:
        out[-1] += "."
    return [*out, ""]


def _off(row: Row) -> float:
    seen = float(np.median(row["runs"]))
    low, high = max(row["low"], 1e-300), max(row["high"], 1e-300)
    return float(max(seen / high, low / max(seen, 1e-300)))


def _cause(row: Row) -> str:
    seen = float(np.median(row["runs"]))
    ratio = row["optimum"] / max(row["optimum_said"], 1e-300)
    if not 0.5 < ratio < 2.0:
        return f"the best fitness is {row['optimum']:.2g}, from the public rows {row['optimum_said']:.2g}"
    if row["quiet"] is not None and row["quiet"] > 0.7 * seen:
        return f"not noise: {row['quiet']:.2g} without any"
    off = row["public_only"] / max(row["public_said"], 1e-300)
    if not 0.33 < off < 3.0:
        return f"the public model is at {row['public_only']:.2g}, forecast {row['public_said']:.2g}"
    return "noise"


def _worst(ran: list[Row]) -> list[str]:
    out = ["## The worst ten", "", "| problem | kind | loss | p | public | records | ε | forecast | measured | plan | cause |",
           "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    out += [_worst_row(r) for r in sorted(ran, key=_off, reverse=True)[:10]]
    return [*out, ""]


def _worst_row(r: Row) -> str:
    facts = (
        f"{r['number']} | {r['kind']} | {r['loss']} | {r['p']} | {r['public']} | {r['records']} | {r['epsilon']:.2g}"
    )
    said = f"{r['median']:.2g} ({r['low']:.2g} to {r['high']:.2g})"
    return f"| {facts} | {said} | {np.median(r['runs']):.2g} | {r['plan'].split(',')[0]} | {_cause(r)} |"


def _seconds(rows: Sequence[Row]) -> list[str]:
    seconds = [r["seconds"] for r in rows if "seconds" in r]
    if not seconds:
        return []
    median, most = np.quantile(seconds, [0.5, 0.9])
    words = (
        f"A forecast takes {median:.1f} s of one processor in the median, at most {most:.1f} s in nine of ten and "
        f"{max(seconds):.1f} s in all."
    )
    return ["## Seconds", "", words, ""]


def _refusals(refused: list[Row], broken: list[Row], warned: list[Row]) -> list[str]:
    out = []
    for title, rows, text in (
        ("Refused", refused, lambda r: r["refused"]),
        ("Crashed or not finished", broken, lambda r: r.get("crashed", "not finished in time")),
        ("Warnings", warned, lambda r: "; ".join(r["warnings"])),
    ):
        if rows:
            out += [f"## {title}", ""]
            out += [
                f"- {r['number']} ({r['loss']}, {r['kind']}, p = {r['p']}, {r['records']} records, "
                f"{r['public']} public): {text(r)}"
                for r in rows
            ]
            out.append("")
    return out
