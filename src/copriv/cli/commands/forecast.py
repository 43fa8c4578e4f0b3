"""`copriv forecast AGREEMENT`: what a consortium will cost and for whom it pays, from public rows alone.

All sentences are shown, wrapped and never cut, where they take more than a screen too. The table of models stands in
`--details` alone where a screen of 24 lines has no room for it.
"""

import math
import shlex
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from rich.cells import cell_len, set_cell_size

from copriv.agreement import Agreement
from copriv.cli import console
from copriv.cli.commands.options import AgreementFile, AsJson, PublicRuns, option, out_folder
from copriv.cli.output import forecast_files, keep
from copriv.display.forecast import better_by, costs, details, made_from, notes, owners, title
from copriv.display.verdict import about_target, of_forecast
from copriv.errors import UsageError
from copriv.forecast import Forecast, forecast
from copriv.forecast.phases import to_sign
from copriv.forecast.what_if import of_others, reach
from copriv.forecast.what_if import without as without_owners
from copriv.formatting.cards import Table
from copriv.formatting.numbers import listed

_STAGES = (
    "planning the best terms", "planning what is left open", "running the agreed terms", "running the best ones",
    "asking for whom it pays",
)  # fmt: skip
"""Name of the step that `forecast` begins after each of its progress reports."""


def command(
    agreement: AgreementFile,
    runs: PublicRuns = 100,
    seed: Annotated[int, option("Of simulated runs and bootstrap worlds.", env="SEED", min=0)] = 0,
    public_start: Annotated[
        bool, option("May the plan begin at the public model?", "--public-start/--no-public-start")
    ] = True,
    preconditioner: Annotated[
        bool, option("May it descend along a public matrix?", "--preconditioner/--no-preconditioner")
    ] = True,
    target: Annotated[
        str | None, option("What it takes to come this close to the best possible model.", metavar="2%")
    ] = None,
    without: Annotated[
        list[str] | None, option("What if this owner stays away? Can be given more than once.", metavar="NAME")
    ] = None,
    everything: Annotated[bool, option("Everything: terms, trades, what each owner brings.", "--details")] = False,
    as_json: AsJson = False,
    directory: Annotated[
        Path | None, out_folder("Also write forecast.json, .csv, pictures and the recommended agreement there.")
    ] = None,
) -> None:
    """What an agreement will cost, what the best terms would, and for whom joining pays: no private record is read."""
    terms, wanted = Agreement.load(agreement), None if target is None else ratio(target)
    known = [table.name for table in terms.owner_tables]
    unknown = sorted(set(without or ()) - set(known))
    if unknown:
        raise UsageError(f"--without: no owner is called {unknown[0]!r}; they are {', '.join(known[:12])}")
    if without and len(set(without)) == len(known):
        raise UsageError("--without: nobody would be left; leave at least one owner in")
    with console.progress(_STAGES[0]) as report:
        outlook = forecast(
            terms, runs=runs, seed=seed, public_start=public_start, preconditioner=preconditioner,
            progress=lambda done, total: report(done, total, _STAGES[done]),
        )  # fmt: skip
    asked: list[str] = []
    added: dict[str, Any] = {}
    if without:
        with console.progress(f"without {listed(without)}"):
            left = without_owners(outlook, without)
        outlook = of_others(outlook, left)
    if wanted is not None:
        found = reach(outlook, wanted)
        added["target"] = found.to_dict()
        asked += about_target(outlook, found)
    document = outlook.to_json(**added)
    made_by = f"copriv forecast {agreement.name}" + "".join(f" --without {shlex.quote(name)}" for name in without or ())
    best = None
    if directory is not None and terms.has_pilot and not outlook.nobody_else:
        best = to_sign(outlook.problem.terms if without else terms, outlook)
    keep(directory, lambda: forecast_files(outlook, document, made_by, best))
    if everything:
        told: Sequence[str | Table] = [*details(outlook), *asked]
    else:
        told = lines(outlook, asked, console.columns())
    console.answer(as_json, document, told)


def ratio(text: str) -> float:
    """ "2%", "2 %" or "0.02" as 0.02. Raises UsageError for anything else."""
    written = text.strip()
    try:
        value = float(written.removesuffix("%")) / (100.0 if written.endswith("%") else 1.0)
    except ValueError:
        value = 0.0
    if not (math.isfinite(value) and value > 0):
        raise UsageError(f"--target: {text!r} is not a share above 0; write it as 2% or 0.02")
    return value


WIDTH, HEIGHT = 80, 24
MORE = "More: --details. What it would take: --target 2%. What if: --without NAME."


def lines(outlook: Forecast, asked: Sequence[str] = (), width: int = WIDTH) -> list[str]:
    """What is shown, in lines of at most `width` columns.

    asked: the answer to a question, in place of what joining means for each owner.
    """
    width = min(width, 120)  # longer lines are hard to read
    room = HEIGHT - 1 if width >= WIDTH else (HEIGHT - 1) * WIDTH // width  # a line for the prompt
    head = [*_wrapped(title(outlook), width), *_wrapped(made_from(outlook), width)]
    question = [line for one in asked for line in _wrapped(one, width)]
    verdict = _wrapped(of_forecast(outlook), width)
    models = _aligned(costs(outlook), HEIGHT, width, least=26)
    gains = _aligned(owners(outlook), min(6, outlook.n_owners), width) + _wrapped(better_by(outlook), width)
    last = [line for note in (*notes(outlook), MORE) for line in _wrapped(note, width)]

    def screen(*parts: Sequence[str]) -> list[str]:
        return [line for part in parts if part for line in ("", *part)][1:]

    if outlook.nobody_else:
        return screen(head, question, verdict, _wrapped(MORE, width))
    if question:
        return screen(head, question, verdict, models, last)
    whole = screen(head, verdict, models, gains, last)
    return whole if len(whole) <= room else screen(head, verdict, gains, last)


def _aligned(table: Table, most: int, width: int, least: int = 14) -> list[str]:
    """Align a table: the first column to the left, the others to the right, with at most `most` rows (plus the last one).

    least: width that the first column keeps before another column is left out; longer names are cut.
    """
    rows, more = table.first(most)
    longest = max(cell_len(row[0]) for row in (table.head, *rows))
    others = [max(map(cell_len, column)) for column in list(zip(table.head, *rows, strict=True))[1:]]
    while len(others) > 1 and width - sum(others) - 2 * len(others) < min(longest, least):
        others.pop()  # a narrow screen has fewer columns, none of them cut
    gap = 3 if longest + sum(others) + 3 * len(others) <= width else 2
    room = max(width - sum(others) - gap * len(others), 8)
    names = [_cut(row[0], room) for row in (table.head, *rows)]
    first, made = max(map(cell_len, names)), []
    for name, (_, *rest) in zip(names, (table.head, *rows), strict=True):
        right = (" " * (size - cell_len(cell)) + cell for cell, size in zip(rest, others, strict=False))
        made.append((" " * gap).join([set_cell_size(name, first), *right]).rstrip())
    if more:
        made += _wrapped(f"{more}: --details, or --json", width)
    return made


def _wrapped(text: str, width: int) -> list[str]:
    """Wrap text at words, keeping each number and its percent sign on one line."""
    kept = text.replace(" %", "\x1f%")  # a character that no text has (`printable`)
    return [line.replace("\x1f", " ") for line in textwrap.wrap(kept, width, break_on_hyphens=False)]


def _cut(name: str, width: int) -> str:
    """Cut a name to at most `width` columns of the screen, in any script."""
    return name if cell_len(name) <= width else set_cell_size(name, width - 1).rstrip() + "…"
