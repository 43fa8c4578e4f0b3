"""The report: how often the band held, how good the plan was, and how often each verdict was right."""

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.unlike.judged import (
    EVENTS,
    Told,
    alone,
    alone_by_a_factor,
    alone_in_band,
    alone_on_own,
    everybody,
    joining,
    own,
    own_expected,
)
from benchmarks.unlike.tables import cells
from benchmarks.verdicts import SURE, WORTHWHILE, summary

PAGE = Path("docs/reference/unlike-owners.md")
CHANGED, LARGE = 0.02, 0.1
EXACT = 1e-6
VERDICTS, PERSONALIZED = "## Verdicts of owners on their own records", "## Personalized at home"


def page(rows: list[dict[str, Any]], note: str = "") -> str:
    """Markdown. note: what a reader must know of these measurements, in a sentence."""
    done = [row for row in rows if "failed" not in row]
    lines = [
        "# Owners that differ: forecast against measured",
        "",
        "Written by a command, and not by hand:",
        "",
        "    python -m benchmarks.unlike --page",
        "",
        f"{len(done)} cells were measured and {len(rows) - len(done)} failed, of {sum(1 for _ in cells(False))} in all: the "
        "command goes on where it stopped. Real tables, cut into owners by a column, or "
        "sorted and cut; *shuffled*: the same rows dealt at random. 1,000 public rows drawn from all (or from one owner), "
        "anew for every number of owners and ε; nothing is stated but sizes and budgets, unless public rows say which owner "
        "they are of (*strata*) or the parties say that they are alike. *In the band*: measured median ψ between the "
        "forecast's ends (90 %). *Plan over best*: measured ψ of the plan over that of the best of all its measured "
        "finalists. *Verdict for everybody's records*: whether the common model is better there than the owner's own; "
        "*joining pays*: than the public one too, which needs "
        "nobody either. *By sizes at "
        "best*: what the best rule by the number of an owner's records would reach in hindsight, chosen cell by cell with "
        "all answers known; nothing that is said where only sizes are known can be right more often. *Sure of*: by more than "
        f"{SURE} standard errors of the held-out rows, at least {EVENTS} of them of either class; those of "
        "small owners, and of owners with few events, do not tell.",
        "",
        "| cells | known | number | in the band | plan over best: median | largest | alone within 3 times | "
        "verdict for everybody's records | for its own, changes above 2 % | above 10 % |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]  # fmt: skip
    kinds = [
        ("groups of five tables", lambda r: r["split"].startswith("unlike/")),
        (
            "as they are",
            lambda r: (
                not (r["shuffled"] or r["split"].startswith("unlike/") or r["owners_asked"] == 100)
                and r["public"] == "all"
            ),
        ),
        ("shuffled", lambda r: r["shuffled"]),
        ("public rows of one owner", lambda r: r["public"] != "all"),
        ("a hundred small owners", lambda r: r["owners_asked"] == 100),
    ]
    for name, of_kind in kinds:
        for known in ("nothing", "strata", "alike"):
            some = [row for row in done if of_kind(row) and row["known"] == known]
            if some:
                lines.append(_line(name, known, some))
    lines[6:6] = _targets(done) + ([note, ""] if note else [])
    lines += ["", *_verdicts(done), "", PERSONALIZED, "", *_finished(done), "", "## Every cell", ""]
    lines += [
        "| cell | forecast | measured | in the band | plan over best | plan |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for r in done:
        band = f"{r['median']:.2g} ({r['low']:.2g} to {r['high']:.2g})"
        inside = "yes" if r["in_band"] else "no"
        lines.append(
            f"| {r['cell']} | {band} | {r['measured']:.2g} | {inside} | {r['plan_over_best']:.2f} | {r['plan']} |"
        )
    lines += [f"| {r['cell']} | failed | {r['failed']} | | | |" for r in rows if "failed" in r]
    return "\n".join(lines) + "\n"


def verdicts_alone(text: str, rows: list[dict[str, Any]]) -> str:
    """The page with its section on verdicts written anew, before the one on personalized models."""
    before, after = text.split(PERSONALIZED)
    section = "\n".join(_verdicts([row for row in rows if "failed" not in row]))
    return before.partition(VERDICTS)[0] + section + "\n\n" + PERSONALIZED + after


def _verdicts(done: list[dict[str, Any]]) -> list[str]:
    """How often owners' verdicts of three values are right on their own held-out rows."""
    owners = [{**owner, "known": row["known"]} for row in done for owner in row["owners"] if "said" in owner]
    told = [owner for owner in owners if owner["own_events"] is None or owner["own_events"] >= EVENTS]
    return [
        VERDICTS,
        "",
        "`python -m benchmarks.unlike --verdicts --page` writes this section. An owner's verdict, *yes*, *no* or *open*, is "
        "held against the gain on its held-out rows: from the best of its own model, the public one and that personalized "
        "at home to the better of the "
        f"common one and that personalized at home. It is *right* where that gain is above or below {WORTHWHILE:.1%}, as it "
        f"says. The cells are {sum(any('said' in o for o in row['owners']) for row in done)} of those below; where a class is "
        f"rare, owners with fewer than {EVENTS} held-out rows of it are left out. On few held-out rows the measured gain is a "
        f"guess: *the sure ones* are those whose gain differs from {WORTHWHILE:.1%} by {SURE} standard errors.",
        "",
        summary(told),
    ]


def _targets(done: list[dict[str, Any]]) -> list[str]:
    """What was aimed at, beside what was measured: misses stand here as hits do."""
    unlike = [r for r in done if not r["shuffled"] and r["public"] == "all" and r["owners_asked"] != 100]
    five = [r for r in unlike if r["split"].startswith("unlike/")]
    rows: list[tuple[str, str, str]] = []
    for known, least in (("strata", 0.85), ("nothing", 0.70)):
        some = [r for r in unlike if r["known"] == known]
        rows.append((f"in the band, {known} known", f"{least:.0%} of cells", _share([r["in_band"] for r in some])))
    over = np.array([r["plan_over_best"] for r in unlike]) if unlike else np.array([np.nan])
    rows.append(
        ("plan over best: median, largest", "1.5, 4", f"{np.median(over):.2f}, {over.max():.2f} of {len(unlike)}")
    )
    for known in ("strata", "nothing"):
        some = [r for r in unlike if r["known"] == known]
        for what, target, told in (
            ("alone within 3 times", "80 % of owners", Told.together([alone(r) for r in some])),
            (
                "alone on own records, ten or more a parameter, within 3 times",
                "80 % of owners",
                Told.together([alone_on_own(r) for r in some]),
            ),
            ("own verdict, changes above 10 %", "90 % of owners", Told.together([own(r, LARGE) for r in some])),
            (
                "own verdict, changes above 10 % that held-out rows are sure of",
                "90 % of owners",
                Told.together([own(r, LARGE, SURE) for r in some]),
            ),
            ("verdict for everybody's records, above 10 %", "90 %", Told.together([everybody(r, LARGE) for r in some])),
            ("joining pays, public model and all, above 2 %", "", Told.together([joining(r, CHANGED) for r in some])),
        ):
            rows.append((f"{what}, {known} known", target, f"{told.words}; by sizes at best {told.words_at_best}"))
        rows.append(
            (f"alone, were it multiplied by the one best factor, {known} known", "", f"{alone_by_a_factor(some):.0%}")
        )
        held = Told.together([alone_in_band(r) for r in some])
        rows.append((f"alone in its own band, {known} known", "90 % of owners", held.words))
        said = own_expected(some, LARGE, SURE)
        rows.append((f"own verdict, the same, by its own probabilities, {known} known", "", f"{said:.0%}"))
    some = [r for r in five if r["known"] == "nothing"]
    rows.append(
        (
            "five tables, nothing known: in the band",
            "75 %",
            _share([r["in_band"] for r in some]),
        )
    )
    rows.append(
        (
            "five tables, nothing known: own verdict, changes above 2 %",
            "80 %",
            Told.together([own(r, CHANGED) for r in some]).words,
        )
    )
    alike = {_where(r): r["measured"] for r in done if r["known"] == "alike"}
    open_ = [r for r in done if r["shuffled"] and r["known"] == "nothing" and _where(r) in alike]
    ratio = [r["measured"] / alike[_where(r)] for r in open_]
    if ratio:
        rows.append(
            ("shuffled: nothing known over known to be alike: median, largest", "2, 4", f"{np.median(ratio):.2f}, "
             f"{max(ratio):.2f} of {len(ratio)}")
        )  # fmt: skip
    table = [f"| {' | '.join(row)} |" for row in rows]
    return ["| what | aimed at | measured |", "| --- | --- | --- |", *table, ""]


def _where(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["split"], row["owners_asked"], row["epsilon"]


def _share(held: list[bool]) -> str:
    return f"{np.mean(held):.0%} of {len(held)}" if held else "none measured"


def _line(name: str, known: str, some: list[dict[str, Any]]) -> str:
    ratio = np.array([row["plan_over_best"] for row in some])
    cells = [
        name, known, str(len(some)), f"{np.mean([row['in_band'] for row in some]):.0%}", f"{np.median(ratio):.2f}",
        f"{ratio.max():.2f}", Told.together([alone(row) for row in some]).words,
        Told.together([everybody(row, LARGE) for row in some]).words,
        *(Told.together([own(row, least) for row in some]).words for least in (CHANGED, LARGE)),
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _finished(done: list[dict[str, Any]]) -> list[str]:
    """Loss on held-out rows over the lower of alone and together (the same run's model), and over the peer's."""
    cells = [row for row in done if row["known"] == "nothing"]
    every = [o for row in cells for o in row["owners"]]
    rows = [o for o in every if not _exact(o)]
    if not rows:
        return ["Nothing was measured."]
    over = np.array([o["own_personalized_loss"] / min(o["own_alone_loss"], o["own_common_first_loss"]) for o in rows])
    large = np.array([o["records"] >= 200 for o in rows])
    sure = np.array([o["own_personalized_above"] > SURE for o in rows])
    sums = [
        sum(o["own_personalized_loss"] for o in row["owners"])
        / min(sum(o[key] for o in row["owners"]) for key in ("own_alone_loss", "own_common_first_loss"))
        for row in cells
    ]
    lines = [
        f"Loss on the owner's held-out rows over the lower of alone and together: {over.mean():.3f} on average over "
        f"{len(rows)} owners (1.01 is aimed at); of the {int(large.sum())} with 200 records or more at most "
        f"{over[large].max():.3f}, and {np.mean(over[large] <= 1.05):.1%} of them at most 1.05 (all are aimed at). "
        f"Left out are {len(every) - len(rows)} of the {len(every)} owners: one of their two models errs "
        "less than a millionth of what the other does (their rows all have one target, mostly), and a ratio to it is rounding.",
        "",
        "The lower of two losses on few held-out rows is the lucky one: where classes are rare it stands on a handful of "
        f"them. By more than {SURE:g} standard errors of the held-out rows, {int(np.sum(sure & large))} of the "
        f"{int(large.sum())} are above 1.05 (one in twenty would be by chance where it is just that). All owners of a cell "
        "together, finished over the lower of all alone and all with the common model: "
        f"{np.mean(sums):.3f} on average over cells, {max(sums):.3f} at most.",
        "",
        "| split | owners of 200 records or more | over the lower of both: mean | largest | above 1.05 |",
        "| --- | --- | --- | --- | --- |",
    ]
    for split in dict.fromkeys(row["split"] for row in cells):
        some = [o for row in cells if row["split"] == split for o in row["owners"] if o["records"] >= 200]
        if some:
            each = np.array(
                [o["own_personalized_loss"] / min(o["own_alone_loss"], o["own_common_first_loss"]) for o in some]
            )
            lines.append(
                f"| {split} | {len(some)} | {each.mean():.3f} | {each.max():.3f} | {int(np.sum(each > 1.05))} |"
            )
    return [*lines, "", *_against_the_peer(cells)]


def _exact(o: dict[str, Any]) -> bool:
    """Whether the better of both models has no error to speak of."""
    lost = o["own_alone_loss"], o["own_common_first_loss"]
    return bool(min(lost) < EXACT * max(lost))


def _against_the_peer(cells: list[dict[str, Any]]) -> list[str]:
    """By the mean over owners of the logarithm of the loss on held-out rows, the unit in which the peer was tuned."""
    cells = [row for row in cells if "peer" in row]
    if not cells:
        return []
    over, fairly = (
        np.array(
            [np.exp(np.mean([np.log(o["own_personalized_loss"] / o[key]) for o in row["owners"]])) for row in cells]
        )
        for key in ("own_peer_loss", "own_peer_tuned_loss")
    )
    lines = [
        "Against mean-regularised multi-task learning and private fine-tuning "
        '("On Privacy and Personalization in Cross-Silo Federated Learning", NeurIPS 2022; `benchmarks/unlike/peer.py`), '
        "at the same ε and with δ = 1e-6, from the same public start, the search for its settings paid by nobody. Its settings "
        "chosen by other held-out rows than those that judge it: personalized at home has the lower loss in "
        f"{np.mean(fairly < 1):.0%} of {len(cells)} cells (90 % are aimed at); its loss over theirs is {np.median(fairly):.3f} "
        f"in the median and {fairly.max():.3f} at most. Chosen in hindsight, by the very rows that judge it: "
        f"{np.mean(over < 1):.0%}, {np.median(over):.3f} and {over.max():.3f}.",
        "",
        "| cell | finished over the peer | over the peer in hindsight | its setting in hindsight |",
        "| --- | --- | --- | --- |",
    ]
    return lines + [
        f"| {row['cell']} | {fair:.3f} | {ratio:.3f} | {row['peer']} |"
        for row, fair, ratio in zip(cells, fairly, over, strict=True)
    ]
