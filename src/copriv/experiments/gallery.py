"""The gallery page: every finished figure with its data, its command, the paper's claim, our number and the verdict.

`copriv reproduce all frontier delta --out figures --gallery docs` writes docs/gallery.md, and copies the pictures to
docs/gallery/, beside `verdicts.json`: what the page says of every figure, for the pages of `copriv ui`, which come with
that folder.
"""

import json
import shutil
from pathlib import Path
from typing import Any

from copriv.experiments.figures import BEYOND, FIGURES

_OPENING = """# Every figure of both papers

This page is written by a command, from the JSON files of the figures, and not by hand:

<!-- no-run: hours of computing; tests/experiments runs the figures' parts -->
```sh
copriv reproduce all frontier delta claims paper-sync paper-async --out figures --gallery docs
```

**S** is "The Value of Collaboration in Convex Machine Learning with Differential Privacy" (synchronous), **A** is "The
Cost of Privacy in Asynchronous Differentially-Private Machine Learning". ψ is the fitness above that of the best
non-private model of all owners' records, 0 being perfect; E ψ is the mean over runs.

Our data and the gradient bound Ξ differ from the papers', so verdicts are about numbers where the papers print numbers,
and about shapes elsewhere: *reproduced* means that every number compared holds, *reproduced in shape* that the order or
the law is the paper's and a number is not, *not reproduced* that it is not, *beyond the papers* that they do not ask.

Panels marked **NOT PRIVATE** in red follow the papers' own settings, which no owner here can be made to serve: the
published code of A adds one noise number to all coordinates of an answer, and both papers take Ξ on trust. Beside them
stand panels with the sound mechanism (a noise vector, Ξ enforced by clipping) and, where the question is whether
joining pays, with settings that the forecast planned from public rows alone.

Each figure says at its top which data it drew, and lists below what in its settings is not the papers'. Figures of
loans are drawn from 10,000 loans of 2018 where that table is at hand; the column *everybody's loans* is the same, with the
paper's own settings, on the 9,857 loans inside the package, which a bare clone draws (`--data lending=inside`).

What the papers say in numbers stands in one table: [claims](reference/claims.md). Both papers section by section, with these
pictures and numbers, one file each: <a href="papers/paper-sync.html">S</a> and <a href="papers/paper-async.html">A</a>,
by `copriv reproduce paper-sync paper-async`.
"""


VERDICTS = "verdicts.json"


def write_gallery(figures: Path, docs: Path) -> Path:
    """Write docs/gallery.md from the finished figures in a folder, with pictures and verdicts; return its path."""
    found = [
        json.loads((figures / f"{figure.identity}.json").read_text(encoding="utf-8"))
        for figure in (*FIGURES, *BEYOND)
        if (figures / f"{figure.identity}.json").is_file()
    ]
    pictures = docs / "gallery"
    pictures.mkdir(parents=True, exist_ok=True)
    for one in found:
        shutil.copyfile(figures / f"{one['id']}.png", pictures / f"{one['id']}.png")
    verdicts = {"schema": "copriv.gallery/1", "note": "", "figures": [brief(one) for one in found]}
    (pictures / VERDICTS).write_text(json.dumps(verdicts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    page = docs / "gallery.md"
    page.write_text("\n".join([_OPENING, _summary(found), *(_section(one) for one in found)]), encoding="utf-8")
    return page


def brief(one: dict[str, Any]) -> dict[str, Any]:
    """What came out of a figure, in a few lines, from its JSON file."""
    return {
        "id": one["id"], "verdict": one["verdict"], "why": one["why"][:1].upper() + one["why"][1:],
        "command": _command(one), "data": [data["description"] for data in one["data"]],
        "runs": ", ".join(map(str, one["runs"])),
        "compared": [{"what": row["what"], "paper": row["paper"], "ours": _number(row["ours"]),
                      "holds": _WORD[row["holds"]]} for row in one["comparison"]],
    }  # fmt: skip


def _command(one: dict[str, Any]) -> str:
    return f"copriv reproduce {one['id']}{' --quick' if one['quick'] else ''}"


def _summary(found: list[dict[str, Any]]) -> str:
    lines = ["| figure | what | verdict |", "| --- | --- | --- |"]
    lines += [f"| [{one['source']}](#{one['id']}) | {one['title']} | {one['verdict']} |" for one in found]
    return "\n".join(lines) + "\n"


def _section(one: dict[str, Any]) -> str:
    said = brief(one)
    lines = [
        f'<a id="{one["id"]}"></a>',
        f"## {one['source']}: {one['title']}",
        "",
        f"![{one['title']}](gallery/{one['id']}.png)",
        "",
        f"- **Command**: `{said['command']}`{_time(one)}",
        *(f"- **Data**: {description}" for description in said["data"]),
        f"- **The paper's claim**: {one['claim']}",
        f"- **Verdict**: {said['verdict']}. {said['why']}",
        f"- **Runs** a point: {said['runs']}; seed {', '.join(str(seed) for seed in one['seeds'])}",
        *(f"- **Not the paper's**: {'; '.join(one['differences'])}." for _ in one.get("differences", [])[:1]),
        *_held_out(one),
        "",
        *_compared(one, said["compared"]),
        "",
    ]
    return "\n".join(lines)


def _time(one: dict[str, Any]) -> str:
    """How long it took; nothing where trials were on disk, of an earlier run or of another figure that has them too."""
    trials = one.get("trials", {"all": 0, "run": 0})
    return f", {one['seconds']:.0f} s" if trials["run"] == trials["all"] > 0 else ""


def _compared(one: dict[str, Any], rows: list[dict[str, Any]]) -> list[str]:
    """The table of numbers, with a column for the other table's where there is one."""
    others = on_other_tables(one)
    heads = "".join(" everybody's loans | holds |" for _ in others)
    lines = [f"| compared | paper | ours | holds |{heads}", "| --- | --- | --- | --- |" + " --- | --- |" * len(others)]
    for row in rows:
        more = "".join("".join(f" {cell} |" for cell in other.get(row["what"], ("", ""))) for other in others)
        lines.append(f"| {row['what']} | {row['paper']} | {row['ours']} | {row['holds']} |{more}")
    return lines


def on_other_tables(one: dict[str, Any]) -> list[dict[str, tuple[str, str]]]:
    """What is compared → our number and whether it holds, for each other table that a figure was run on."""
    return [
        {row["what"]: (_number(row["ours"]), _WORD[row["holds"]]) for row in other["comparison"]}
        for other in one.get("other_tables", [])
    ]


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3g}"


_WORD = {True: "yes", False: "no", None: ""}


def _held_out(one: dict[str, Any]) -> list[str]:
    lines = [
        f"- **Held out** ({name}): E ψ from {spread['least']:.2g} to {spread['most']:.2g} on records that no owner has"
        for name, spread in one["held_out"].items()
        if spread is not None
    ]
    area = one.get("precision_recall_area")
    if area is not None:
        lines.append(
            f"- **Fraud found**: area under the precision–recall curve on held-out records from {area['least']:.2f} to "
            f"{area['most']:.2f}; 0.0017 is chance"
        )
    return lines
