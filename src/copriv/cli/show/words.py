"""Numbers said in words: what a simulation's or a forecast's ψ means for those who would join."""

from copriv.forecast import Forecast
from copriv.forecast.forecaster import NOTICEABLE
from copriv.formatting.numbers import listed as listed
from copriv.formatting.numbers import percent as percent
from copriv.formatting.numbers import percent_range as percent_range
from copriv.formatting.numbers import plain_number as plain_number
from copriv.formatting.numbers import times as times
from copriv.simulation import Simulation

MOST_ROWS = 20
"""Owners shown; the JSON lists all."""


def warnings(simulation: Simulation) -> list[str]:
    """What every output must say: that it is no private result, and which records were drawn or made up."""
    said = list(simulation.warnings)
    if simulation.source == "resampled":
        said.append("the records are resampled: drawn with replacement from fewer real ones")
    if simulation.source == "simulated":
        said.append("the records are simulated, not real")
    return said


def terms_in_words(outlook: Forecast) -> list[str]:
    """Agreed and recommended terms, and by how much the latter are better, as far as that can be told."""
    terms = (("Agreed", outlook.agreed), ("Recommended", outlook.recommended))
    advice = [] if outlook.plan.advice_in_words is None else [outlook.plan.advice_in_words]
    if outlook.comparison.same:
        return [f"Agreed and recommended: {outlook.agreed.words} ({outlook.agreed.kind}).", better(outlook), *advice]
    return [*(f"{name}: {one.words} ({one.kind})." for name, one in terms), better(outlook), *advice]


def better(outlook: Forecast) -> str:
    """One sentence: what is gained by the recommended terms."""
    found = outlook.comparison
    if found.same:
        return "Nothing that was tried is better than the agreed terms."
    if found.within_error:
        return "Agreed and recommended terms cost the same, within the error of this forecast."
    typical = float(outlook.agreed.relative_fitness.median[-1])
    if typical < outlook.together and not found.typical_within_error:
        return (
            f"The recommended terms divide the mean cost by {times(found.times)}, for they have fewer bad runs; the typical "
            "run of the agreed ones is better."
        )
    return f"The recommended terms divide the mean cost by {times(found.times)}."


def next_best(outlook: Forecast) -> list[str]:
    """The runner-up, what each promise costs, and how flat the optimum is."""
    plan, said, second = outlook.plan, [], outlook.runner_up
    if second is not None:
        said.append(f"Runner-up: {second.choice.describe()}: {percent(second.cost)} above the best in the mean.")
    promises = {
        "pure": "Pure ε against (ε, δ)",
        "one_answer": "One answer of each owner against many",
        "asynchronous": "Asynchronous against rounds of all owners",
    }
    for name, (kept, given_up) in outlook.trades.items():
        costs = [percent(run.cost) for run in (kept, given_up)]
        said.append(f"{promises[name]}: {' against '.join(costs)}.")
    names = {"step": "the step", "gradient_bound": "the gradient bound", "answers": "the answers"}
    parts = [f"{names[key]}, {half:.2g} or {twice:.2g} times" for key, (half, twice) in plan.flatness.items()]
    if parts:
        worst = max(max(pair) for pair in plan.flatness.values())
        flat = "flat" if worst < 1.5 else "not flat" if worst < 5 else "steep"
        among = ", among rules that descend," if plan.agreement.one_answer else ""
        said.append(f"The optimum{among} is {flat}. Cost at half or twice {'; '.join(parts)}.")
    return said


def about_coalitions(outlook: Forecast) -> list[str]:
    """Who should be in, and what better weights would bring, where that is more than this forecast's error."""
    together = outlook.together
    left = {o: o.count - o.number_in_best_subset for o in outlook.left_out}
    out = [o.name if o.count == 1 else f"{number:,} of the {o.count:,} {o.name}" for o, number in left.items()]
    said = []
    if out:
        whose = "its" if sum(left.values()) == 1 else "their"
        said.append(
            f"Without {listed(out)} the others would reach {percent(outlook.best_subset)} in place of {percent(together)}: "
            f"the noise of {whose} answers costs more than the records bring."
        )
        said += [
            f"{owner.name} would cost the others nothing with an epsilon of {plain_number(owner.welcome_epsilon)}."
            for owner in list(left)[:MOST_ROWS]
            if owner.welcome_epsilon is not None
        ]
    least = min(together, outlook.best_subset)
    if outlook.best_weights < (1.0 - NOTICEABLE) * least:
        said.append(
            f"Weights other than n_i/n, the best of which stand above, would bring {percent(least)} down to "
            f"{percent(outlook.best_weights)}."
        )
    if not out:
        said.insert(
            0, "Everybody belongs in: leaving anybody out would not help the others by more than the error of this."
        )
    return said


def strata_unused(outlook: Forecast) -> list[str]:
    """That owners name strata, and nothing says which public rows are of them: it would change what each is told."""
    agreed = outlook.agreed.agreement
    named = any(table.stratum is not None for table in agreed.owner_tables)
    if not named or agreed.data.strata is not None or outlook.heterogeneity.source == "strata":
        return []
    return ["owner.stratum is not used: data.strata names no column of the public rows."]


def taken_to_be_unlike(outlook: Forecast) -> list[str]:
    """That owners are taken to differ where nobody has said so: it decides what each is said to reach alone."""
    u = outlook.heterogeneity
    if u.source != "not stated" or u.alike or outlook.n_owners == 1:
        return []
    return ["Owners are taken to differ as those of real tables do; alike: heterogeneity = 0."]


def about_heterogeneity(outlook: Forecast) -> list[str]:
    """How unlike the owners are taken to be, who says so, and what it changes."""
    u = outlook.heterogeneity
    if u.alike or outlook.n_owners == 1:
        return ["The owners are said to be alike." if u.source == "stated" else "Owners are taken to be alike."]
    sources = {
        "stated": "As the agreement states",
        "strata": "By what public rows of different owners show",
        "answers": "By the spread of the owners' answers",
        "not stated": "Nobody has said how unlike the owners are. As real tables show",
    }
    lines = [
        f"{sources[u.source]}, a perfect model of one owner's own records would be {percent(u.value)} worse for everybody "
        f"({percent(u.low)} to {percent(u.high)})."
    ]
    at = outlook.at_heterogeneity
    if at and max(one.median for one in at) < 1.1 * min(one.median for one in at):
        lines.append("That hardly changes what the recommended terms cost, even if it is twice as much.")
    elif at:
        told = ", ".join(
            f"{percent(one.median)} ({percent(one.low)} to {percent(one.high)}) {name}"
            for one, name in zip(at, ("if they are alike", "at that", "at twice that"), strict=True)
        )
        lines.append(f"Together the model would be worse than the best by: {told}.")
    caution = outlook.caution_of_plan
    if caution is not None:
        lines.append(
            f"The recommended terms stay within twice the best up to a heterogeneity of {percent(caution.holds_to)}; were "
            f"the owners alike after all, {_price(caution.price)}."
            if caution.choices[caution.chosen] is not caution.if_alike
            else f"The recommended terms would be the same for owners known to be alike, and stay within twice the best up "
            f"to a heterogeneity of {percent(caution.holds_to)}."
        )
    return lines


def _price(price: float) -> str:
    return (
        "that caution costs nothing"
        if price < 1.05
        else f"it would be {times(price)} times the cost without that caution"
    )
