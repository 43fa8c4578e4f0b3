"""Every owner as its own learner, on the terminal: the verdict, then a line an owner."""

import typer

from copriv.cli.show.console import out, plain_table
from copriv.cli.show.words import MOST_ROWS, percent
from copriv.forecast.own_learners import OwnLearnersForecast


def show(outlook: OwnLearnersForecast) -> None:
    """Print it. Errors are over the best possible model of everybody's records."""
    typer.echo(outlook.verdict)
    typer.echo(
        f"\nHow much worse than the best possible model of everybody's records; the public rows alone: "
        f"{percent(outlook.public_only)}.\n"
    )
    table = plain_table("owner", "own records alone", "one common model", "own model from shared answers", "pays")
    for one in outlook.learners[:MOST_ROWS]:
        sure = 100 * max(one.joining_pays_probability, 1 - one.joining_pays_probability)
        pays = f"{'yes' if one.joining_pays else 'no'}, {sure:.0f} % sure"
        table.add_row(one.name, *(percent(ψ) for ψ in (one.alone, one.together, one.learning)), pays)
    out().print(table)
    if len(outlook.learners) > MOST_ROWS:
        typer.echo(f"and {len(outlook.learners) - MOST_ROWS} more owners; --json lists all")
    typer.echo(
        "\nEach owner answers once, under its whole budget, and everybody gets that answer: no budget is spent twice. An "
        "owner's own model holds its records without noise and must stay with it (copriv owner learn makes it)."
    )
