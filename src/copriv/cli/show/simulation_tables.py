"""A simulation in words and one table."""

from rich.table import Table

from copriv.agreement import Agreement
from copriv.cli.show import words
from copriv.cli.show.console import out, plain_table
from copriv.cli.show.words import MOST_ROWS
from copriv.formatting.sanitize import printable
from copriv.rules import named
from copriv.simulation import Simulation


def show(agreement: Agreement, result: Simulation) -> None:
    """The result in words and one table."""
    console, ψ = out(), result.relative_fitness.final
    runs = "1 run" if result.runs == 1 else f"{result.runs:,} runs"
    queries = f"{int(result.relative_fitness.k[-1]):,} {named(result.rule).counted_in}"
    console.print(
        f"{printable(agreement.agreement.name, 80)}: rule {result.rule}, {queries}, {runs}, seed {result.seed}"
    )
    console.print(f"{result.description}\n")
    table = plain_table("owner", "records", "epsilon", "answers", "noise scale", "alone, above the best")
    for owner in result.owners[:MOST_ROWS]:
        alone = "" if owner.alone is None else words.percent(owner.alone)
        numbers = (
            f"{owner.records:,}",
            f"{owner.epsilon:g}",
            str(owner.answers),
            words.plain_number(owner.noise_scale),
        )
        table.add_row(owner.name, *numbers, alone)
    console.print(table)
    if len(result.owners) > MOST_ROWS:
        console.print(f"and {len(result.owners) - MOST_ROWS} more owners: --json lists them all")
    spread = f"25-75 % of runs: {words.percent(ψ['p25'])} to {words.percent(ψ['p75'])}; mean {words.percent(ψ['mean'])}"
    together = "Together, with privacy" if result.bound_enforced else "Together"
    console.print(f"\n{together}: {words.percent(ψ['median'])} above the best fitness (median; {spread}).")
    console.print(result.verdict)
    if result.clipped > 0:
        console.print(f"{words.percent(result.clipped)} of the records' gradients were clipped.")
    if any(owner.own is not None for owner in result.owners):
        console.print(_own_records(result))
    for warning in words.warnings(result):
        console.print(f"Note: {warning}.")


def _own_records(result: Simulation) -> Table:
    """Loss on records of its own that an owner held out, for each of the three models that it may use."""
    table = plain_table(
        "on its own held-out records", "rows", "its own model", "the common one", "personalized at home"
    )
    for owner in result.owners[:MOST_ROWS]:
        if owner.own is not None:
            own = owner.own
            losses = (words.plain_number(loss) for loss in (own.alone, own.together, own.personalized))
            table.add_row(owner.name, f"{own.held_out:,}", *losses)
    return table
