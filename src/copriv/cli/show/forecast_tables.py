"""A forecast in words and tables: all of it, `--details`."""

import textwrap

from rich.table import Table

from copriv.agreement import Agreement
from copriv.cli.show import words
from copriv.cli.show.console import out, plain_table
from copriv.cli.show.forecast_answer import pays
from copriv.cli.show.words import MOST_ROWS
from copriv.forecast import Assessment, Forecast, OwnerForecast
from copriv.forecast.coalition_value import LEAST_EPSILON
from copriv.formatting.sanitize import printable
from copriv.simulation import NOT_PRIVATE


def show(agreement: Agreement, outlook: Forecast) -> None:
    """The forecast in words and tables."""
    console, owners = out(), outlook.owners
    records = sum(owner.records * owner.count for owner in owners)
    who = "1 owner" if outlook.n_owners == 1 else f"{outlook.n_owners:,} owners"
    console.print(f"{printable(agreement.agreement.name, 80)}: {who}, {records:,} records. No private record was read.")
    console.print(textwrap.fill(f"From {outlook.description}.", 118) + "\n")
    console.print(_terms(outlook))
    console.print(
        "\nabove the best: f/f* - 1, the relative fitness, in the typical run (the median); 0 is the model from all records "
        "without privacy.\n"
    )
    for line in (*words.terms_in_words(outlook), *words.next_best(outlook)):
        console.print(line)
    console.print()
    console.print("On everybody's records:\n")
    console.print(_joining(owners))
    console.print("\nOn the owner's own records, above the best model of its own population:\n")
    console.print(_own(owners))
    console.print()
    for line in (*words.about_heterogeneity(outlook), *words.strata_unused(outlook)):
        console.print(line)
    console.print()
    console.print(_bringing(owners, records))
    if len(owners) > MOST_ROWS:
        console.print(f"and {len(owners) - MOST_ROWS} more owners: --json lists them all")
    console.print(
        "\nbreak-even epsilon: the least of its own, or of everybody's if all are alike, at which joining pays."
    )
    console.print("others lose: what its leaving costs the others; below 0, they are better off.")
    console.print(
        "the same in records: pooled ones, without privacy. In epsilon: what the others would need in its place."
    )
    console.print("share: its fair part (Shapley) of what joining saves all those for whom it pays.\n")
    for line in words.about_coalitions(outlook):
        console.print(line)
    if outlook.bounds:
        console.print()
        console.print(_bounds(outlook))
    console.print(f"\n{outlook.verdict_on_screen}")
    if not outlook.agreed.private:
        console.print(f"Note: {NOT_PRIVATE}.")


def _terms(outlook: Forecast) -> Table:
    table = plain_table("terms", "rule", "answers", "mean", "above the best", "90 % of runs", "on new records")
    new = outlook.generalisation
    for name, one in (("agreed", outlook.agreed), ("recommended", outlook.recommended)):
        unseen = words.percent(new.trained(float(one.relative_fitness.median[-1])))
        table.add_row(name, *_assessed(one), unseen, style="bold" if name == "recommended" else "")
    public = outlook.public_only
    table.add_row("the public rows alone", "", "", "", words.percent(public), "", words.percent(new.untrained(public)))
    table.add_row("pooled, not private", "", "", "", "0 %", "", words.percent(new.best))
    return table


def _assessed(one: Assessment) -> tuple[str, ...]:
    ψ = one.relative_fitness
    mean, median = words.percent(float(ψ.mean[-1])), words.percent(float(ψ.median[-1]))
    band = words.percent_range(float(ψ.low[-1]), float(ψ.high[-1]))
    return one.agreement.rule_in_words, f"{one.agreement.answers:,}", mean, median, band


def _joining(owners: tuple[OwnerForecast, ...]) -> Table:
    columns = ("records", "epsilon", "alone", "together", "joining pays", "break-even epsilon", "if all alike")
    table = plain_table("owner", *columns)
    for owner in owners[:MOST_ROWS]:
        table.add_row(
            printable(owner.called, 60),
            f"{owner.records:,}",
            f"{owner.epsilon:g}",
            words.percent(owner.alone),
            words.percent(owner.together),
            pays(owner),
            _or_none(owner.break_even_epsilon),
            _or_none(owner.break_even_epsilon_for_all),
        )
    return table


def _own(owners: tuple[OwnerForecast, ...]) -> Table:
    table = plain_table("owner", "alone", "together", "personalized at home", "joining pays", "personalizing pays")
    for owner in owners[:MOST_ROWS]:
        own = owner.own
        table.add_row(
            printable(owner.called, 60),
            *(words.percent(ψ) for ψ in (own.alone, own.together, own.personalized)),
            "about even" if own.joining_close else "yes" if own.joining_pays else "no",
            "about even" if own.personalizing_close else "yes" if own.personalizing_pays else "no",
        )
    return table


def _bringing(owners: tuple[OwnerForecast, ...], records: int) -> Table:
    columns = ("others lose", "in records", "in epsilon", "weight", "best weight", "share")
    table = plain_table("owner", *columns)
    saved = sum(owner.shapley * owner.count for owner in owners)
    for owner in owners[:MOST_ROWS]:
        alone = len(owners) == 1 and owner.count == 1
        times = owner.worth_in_epsilon
        table.add_row(
            printable(owner.called, 60),
            "-" if alone else words.percent(owner.loss_to_others),
            "-" if alone else f"{owner.worth_in_records:,.0f}",
            "-" if alone else "none" if times is None else f"{words.times(times)} times",
            words.plain_number(owner.records / records),
            words.plain_number(owner.best_weight),
            _share(owner, saved),
        )
    return table


def _share(owner: OwnerForecast, saved: float) -> str:
    """Of what joining saves; a dash where it saves nothing."""
    if saved <= 0:
        return "-"
    error = f" ± {owner.shapley_error / saved:.0%}" if owner.shapley_error > 0 else ""
    return f"{owner.shapley / saved:.1%}{error}".replace("%", " %")


def _or_none(value: float | None) -> str:
    return "none" if value is None else "any" if value <= LEAST_EPSILON else words.plain_number(value)


def _bounds(outlook: Forecast) -> Table:
    table = plain_table(
        "the papers' bounds for the agreed rule: on psi, or on the squared error of the parameters",
        "value",
        "may be used here",
    )
    for bound in outlook.bounds:
        value = words.plain_number(outlook.shown(bound))
        table.add_row(bound.source, value, "yes" if bound.conditions_met else "no")
    return table
