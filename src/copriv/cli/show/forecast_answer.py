"""The answer of a forecast on one screen of 24 lines by 80 columns: in words that need no page of notation."""

import textwrap
from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

from copriv.agreement import Agreement
from copriv.cli.show import words
from copriv.cli.show.console import out
from copriv.forecast import Forecast, OwnerForecast
from copriv.forecast.what_if import Target, Without
from copriv.formatting.sanitize import printable
from copriv.simulation import NOT_PRIVATE

WIDTH, HEIGHT = 80, 24
_NAME = 18
_KEPT = "\x1f"
"""Stands for a space at which no line ends; no text has it (`printable`)."""
_OWNERS = 6


def show(agreement: Agreement, outlook: Forecast, more: Sequence[str] = ()) -> None:
    """Print the answer; `more`: lines about a question that was asked, in place of the owners."""
    console = out()
    for line in lines(agreement, outlook, more):
        console.print(line)


def lines(agreement: Agreement, outlook: Forecast, more: Sequence[str] = ()) -> list[str]:
    """What is shown: at most HEIGHT lines of at most WIDTH columns."""
    owners = outlook.owners
    who = "1 owner" if outlook.n_owners == 1 else f"{outlook.n_owners:,} owners"
    records = sum(owner.records * owner.count for owner in owners)
    name = printable(agreement.agreement.name, 80)
    head = [
        _cut(f"{name}: {who}, {records:,} records. No private record was read.", WIDTH),
        *_wrapped(f"From {printable(outlook.description)}.", 2 if len(owners) <= 3 else 1),
        "",
    ]
    verdict, costs = _plain(outlook.verdict_on_screen), [*_costs(outlook), ""]
    end = [*words.taken_to_be_unlike(outlook), *words.strata_unused(outlook)]
    end += [] if outlook.agreed.private else _wrapped(f"Note: the agreed terms are {NOT_PRIVATE}.", 3)
    end += ["More: --details. What it would take: --target 2%. What if: --without NAME."]
    room = HEIGHT - len(head) - len(costs) - len(end) - 2  # a line for the prompt, and one before the end
    if more:
        answer = [line for said in more for line in _wrapped(said, 4)][:room]
        left = room - len(answer) - 1
        return [*head, *answer, "", *costs, *(_wrapped(verdict, left) if left > 1 else []), "", *end]
    better = _as_agreed(outlook)
    said = [*_wrapped(verdict, 6), *better]
    return [*head, *said, "", *costs, *_owners(owners, room - len(said) - 1), "", *end]


def about_target(outlook: Forecast, found: Target) -> list[str]:
    """What it takes, one way a line."""
    wanted = words.percent(found.value)
    if found.reached_by == "public":
        return [
            f"Within {wanted} of the best possible: already reached by the public rows alone "
            f"({words.percent(outlook.public_only)}). Nobody needs to give anything for it."
        ]
    if found.reached_by == "together":
        said = [f"Within {wanted} of the best possible: reached, typically {words.percent(outlook.together)} with all."]
    else:
        said = [f"Within {wanted} of the best possible: not reached, typically {words.percent(outlook.together)}."]
    spent = sorted({owner.epsilon for owner in outlook.owners})
    now = f"agreed: {_number(spent[0])}" + (f" to {_number(spent[-1])}" if len(spent) > 1 else "")
    if found.epsilon is None:
        said.append("No budget is enough with these records.")
    else:
        surely = "no budget would" if found.epsilon_surely is None else f"{_number(found.epsilon_surely)} nearly surely"
        said.append(f"It takes a budget of {_number(found.epsilon)} of every owner typically, {surely} ({now}).")
    if found.reached_by == "nobody":
        more = found.more_owners
        records, epsilon = found.like
        said.append(
            "More records alone do not do it."
            if found.records is None
            else f"Or, at the agreed budgets, {words.times(found.records)} times the records of everybody."
        )
        said.append(
            f"More owners of {records:,} records and a budget of {_number(epsilon)} do not do it."
            if more is None
            else f"Or {more:,} more owner{'s' if more > 1 else ''} of {records:,} records and a budget of {_number(epsilon)}."
        )
    elif found.records is not None and found.records < 1:
        said.append(f"Or, at the agreed budgets, {found.records:.2g} times the records would be enough.")
    return said


def about_without(outlook: Forecast, found: Without) -> list[str]:
    """What changes for the others when somebody stays away."""
    who = words.listed([printable(name, 30) for name in found.names])
    now, then = words.percent(found.together_with_all), words.percent(found.together)
    if abs(found.loss) <= 0.05 * found.together_with_all:
        said = [f"Without {who} the others would have as good a model, within the error of this ({then}, now {now})."]
    elif found.loss > 0:
        public = words.percent(outlook.public_only)
        instead = f" (the public rows alone would be better: {public})" if found.together > outlook.public_only else ""
        said = [
            f"Without {who} the others' model would be {then} above the best possible in place of {now}{instead}: what is "
            f"lost is worth {_count(found.worth_in_records)} pooled records."
        ]
        said.append(
            "No larger budget of theirs would make up for it."
            if found.times_epsilon is None
            else f"To make up for it, every other budget would have to be {words.times(found.times_epsilon)} times as large."
        )
    else:
        said = [f"Without {who} the others would do better: {then} above the best possible in place of {now}."]
    stays = [name for name, pays in found.joining_pays.items() if pays]
    leaves = [name for name, pays in found.joining_pays.items() if not pays]
    one = len(found.joining_pays) == 1
    if one:
        said.append("One owner would be left: nobody to train with.")
    elif not leaves:
        said.append("Joining would still pay for all of the others.")
    elif not stays:
        said.append("Joining would then pay for none of them.")
    else:
        said.append(f"Joining would then pay for {words.listed(stays)}, and not for {words.listed(leaves)}.")
    return said


def _as_agreed(outlook: Forecast) -> list[str]:
    """Where what is said holds for better terms than the agreed ones, and these are worse than nothing agreed at all."""
    agreed = float(outlook.agreed.relative_fitness.median[-1])
    if not outlook.joining_pays or agreed <= outlook.public_only:
        return []
    return _wrapped(
        f"Not as it is agreed: those terms reach {words.percent(agreed)}, and the public rows alone are better. "
        "--out DIR writes the best terms found.", 2
    )  # fmt: skip


def _costs(outlook: Forecast) -> list[str]:
    """Each model that could be had: how far above the best, and the typical error where the loss has one."""
    agreed = float(outlook.agreed.relative_fitness.median[-1])
    best = min(outlook.owners, key=lambda owner: owner.alone)
    alone = "the owner alone" if len(outlook.owners) == 1 else "the best owner alone"
    if outlook.comparison.same or (outlook.comparison.within_error and outlook.comparison.typical_within_error):
        rows = [("together, agreed terms", outlook.together)]
    else:
        rows = [("together, best terms found", outlook.together), ("together, agreed terms", agreed)]
    rows += [("the public rows alone", outlook.public_only), (alone, best.alone)]
    errors = outlook.error(0.0) is not None
    head = ["", "above the best", "typical error" if errors else "", "as good as"]
    table = [head]
    for label, ψ in rows:
        error = outlook.error(ψ)
        worth = "" if ψ > 1e3 else f"{_count(outlook.as_records(ψ))} records"
        table.append([label, words.percent(ψ), "" if error is None else f"{error:.4g}", worth])
    return _aligned(table)


def _owners(owners: tuple[OwnerForecast, ...], room: int) -> list[str]:
    """A line an owner, as many as there is room for."""
    shown = min(_OWNERS, room - 1, len(owners))
    shown -= shown < len(owners) and shown == room - 1
    if shown < 1:
        return []
    table = [["owner", "alone", "together", "joining pays", "for its own records"]]
    for owner in owners[:shown]:
        own = owner.own
        better = (
            "about the same" if own.personalizing_close else "with it" if own.personalizing_pays else "its own model"
        )
        table.append([
            _cut(printable(owner.called, 60), _NAME), words.percent(owner.alone), words.percent(owner.together),
            pays(owner), better,
        ])  # fmt: skip
    more = len(owners) - shown
    return _aligned(table) + ([f"and {more:,} more: --details, or --json"] if more > 0 else [])


def pays(owner: OwnerForecast) -> str:
    """yes, no, or that it is open."""
    return "about even" if owner.close_call else "yes" if owner.joining_pays else "no"


def _aligned(table: list[list[str]]) -> list[str]:
    """The first column to the left, the others to the right, two spaces apart; empty columns are left out."""
    kept = [j for j in range(len(table[0])) if any(row[j] for row in table)]
    widths = {j: max(cell_len(row[j]) for row in table) for j in kept}
    made = []
    for row in table:
        first = set_cell_size(row[0], widths[kept[0]])
        rest = (" " * (widths[j] - cell_len(row[j])) + row[j] for j in kept[1:])
        made.append("   ".join([first, *rest]).rstrip())
    return made


def _wrapped(text: str, most: int) -> list[str]:
    kept = text.replace(" %", _KEPT + "%")  # a number and its sign stay on one line
    made = textwrap.wrap(kept, WIDTH, break_long_words=True, break_on_hyphens=False)
    made = [line.replace(_KEPT, " ") for line in made]
    return made if len(made) <= most else [*made[: most - 1], _cut(made[most - 1] + " …", WIDTH)]


def _cut(text: str, width: int) -> str:
    """At most so many columns, whatever the script."""
    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"


def _plain(text: str) -> str:
    return text.replace("Raise epsilon", "Raise the budgets")


def _number(value: float) -> str:
    return words.plain_number(value)


def _count(records: float) -> str:
    """A number of records, no digit more than is known."""
    return f"{records:,.0f}" if records < 100 else f"{float(f'{records:.2g}'):,.0f}"
