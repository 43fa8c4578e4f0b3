"""Answers to questions about a forecast: what a target ψ takes, and what changes without some owners."""

from copriv.display.forecast import rounded
from copriv.display.verdict import answer, names
from copriv.forecast import Forecast
from copriv.forecast.what_if import Target, Without
from copriv.formatting.numbers import counted, percent, plain_number, times
from copriv.problem.verdict import NO, YES


def about_target(outlook: Forecast, found: Target) -> list[str]:
    """List the budgets, records or owners that reach the target ψ."""
    within = f"Within {percent(found.value)} of the best possible:"
    if found.reached_by == "public":
        return [
            f"{within} already reached by the public rows alone ({percent(outlook.public_only)}). Nobody needs to give "
            "anything for it."
        ]
    said = [f"{within} not reached, typically {percent(outlook.together)}."]
    if found.reached_by == "together":
        said = [f"{within} reached, typically {percent(outlook.together)} with all."]
    budgets = [plain_number(ε) for ε in sorted({owner.epsilon for owner in outlook.owners})]
    agreed = " to ".join(dict.fromkeys((budgets[0], budgets[-1])))
    if found.epsilon is None:
        said.append("No budget is enough with these records.")
    else:
        surely = f"{plain_number(found.epsilon_surely)} nearly surely" if found.epsilon_surely else "no budget would"
        said.append(
            f"It takes a budget of {plain_number(found.epsilon)} of every owner typically, {surely} (agreed: {agreed})."
        )
    if found.reached_by == "nobody":
        records, epsilon = found.like
        like = f"of {records:,} records and a budget of {plain_number(epsilon)}"
        if found.records is None:
            said.append("More records alone do not do it.")
        else:
            said.append(f"Or, at the agreed budgets, {times(found.records)} times the records of everybody.")
        if found.more_owners is None:
            said.append(f"More owners {like} do not do it.")
        else:
            said.append(f"Or {counted(found.more_owners, 'more owner')} {like}.")
    elif found.records is not None and found.records < 1:
        said.append(f"Or, at the agreed budgets, {found.records:.2g} times the records would be enough.")
    return said


def about_without(outlook: Forecast, found: Without) -> list[str]:
    """Say for whom joining pays without some owners, and how the others' common model changes."""
    who, now, then, others = names(found.names), percent(found.together_with_all), percent(found.together), found.others
    if others is None:
        return [f"Without {who} one owner would be left: nobody to train with."]
    told, chance = answer(others), 100.0 * found.probability
    said = [f"Without {who}, {told[0].lower()}{told[1:]}"]
    there = f"{then} above the best possible there, {now} with {who}"
    if NO < found.probability < YES:
        return [
            *said,
            f"Whether the others' common model would be better or worse on their records is open: worse with a probability of "
            f"{chance:.0f} % ({there}).",
        ]
    if found.probability <= NO:
        better = f"{percent(-found.worse)} better on their records, with a probability of {100.0 - chance:.0f} %"
        return [*said, f"The others' common model would be {better} ({there})."]
    instead = ""
    if found.together > others.public_only:
        instead = f"; the public rows alone would be better: {percent(others.public_only)}"
    said.append(
        f"The others' common model would be {percent(found.worse)} worse on their records, with a probability of {chance:.0f} "
        f"% ({there}{instead}). What is lost is worth {rounded(found.worth_in_records)} pooled records."
    )
    if found.times_epsilon is None:
        return [*said, "No larger budget of theirs would make up for it."]
    return [
        *said,
        f"To make up for it, every other budget would have to be {times(found.times_epsilon)} times as large.",
    ]
