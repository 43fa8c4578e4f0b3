"""Questions to a forecast, answered in sentences: what it would take, and what if somebody stays away."""

from copriv.display.forecast import rounded
from copriv.display.verdict import names
from copriv.forecast import Forecast
from copriv.forecast.what_if import Target, Without
from copriv.formatting.numbers import counted, percent, plain_number, times


def about_target(outlook: Forecast, found: Target) -> list[str]:
    """What it takes to come so close, one way a line."""
    within = f"Within {percent(found.value)} of the best possible:"
    if found.reached_by == "public":
        return [
            f"{within} already reached by the public rows alone ({percent(outlook.public_only)}). Nobody needs to give "
            "anything for it."
        ]
    reached = f"{percent(outlook.together)} with all" if found.reached_by == "together" else percent(outlook.together)
    said = [f"{within} {'reached' if found.reached_by == 'together' else 'not reached'}, typically {reached}."]
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
        said.append(
            "More records alone do not do it."
            if found.records is None
            else f"Or, at the agreed budgets, {times(found.records)} times the records of everybody."
        )
        said.append(
            f"More owners {like} do not do it."
            if found.more_owners is None
            else f"Or {counted(found.more_owners, 'more owner')} {like}."
        )
    elif found.records is not None and found.records < 1:
        said.append(f"Or, at the agreed budgets, {found.records:.2g} times the records would be enough.")
    return said


def about_without(outlook: Forecast, found: Without) -> list[str]:
    """What changes for the others when somebody stays away."""
    who, now, then = names(found.names), percent(found.together_with_all), percent(found.together)
    if abs(found.loss) <= 0.05 * found.together_with_all:
        said = [f"Without {who} the others would have as good a model, within the error of this ({then}, now {now})."]
    elif found.loss > 0:
        public = f" (the public rows alone would be better: {percent(outlook.public_only)})"
        instead = public if found.together > outlook.public_only else ""
        said = [
            f"Without {who} the others' model would be {then} above the best possible in place of {now}{instead}: what is "
            f"lost is worth {rounded(found.worth_in_records)} pooled records.",
            "No larger budget of theirs would make up for it."
            if found.times_epsilon is None
            else f"To make up for it, every other budget would have to be {times(found.times_epsilon)} times as large.",
        ]
    else:
        said = [f"Without {who} the others would do better: {then} above the best possible in place of {now}."]
    stays, leaves = ([name for name, pays in found.joining_pays.items() if pays is wanted] for wanted in (True, False))
    if len(found.joining_pays) == 1:
        return [*said, "One owner would be left: nobody to train with."]
    if stays and leaves:
        return [*said, f"Joining would then pay for {names(stays)}, and not for {names(leaves)}."]
    return [
        *said,
        "Joining would still pay for all of the others." if stays else "Joining would then pay for none of them.",
    ]
