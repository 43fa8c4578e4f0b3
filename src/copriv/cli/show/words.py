"""Numbers said in words: what a simulation's or a forecast's ψ means for those who would join."""

import math

from copriv.agreement import Agreement
from copriv.forecast import Forecast
from copriv.forecast.outlook import NOTICEABLE
from copriv.rules import named
from copriv.simulation import Simulation

MOST_ROWS = 20
"""Owners shown; the JSON lists all."""


def percent(ratio: float) -> str:
    """0.0123 → "1.2 %": two significant digits, never a power of ten; what is below a billionth is rounding, and 0."""
    value = 100.0 * ratio
    if not math.isfinite(value):
        return "unbounded"
    if abs(value) < 1e-7:
        return "0 %"
    digits = 1 - math.floor(math.log10(abs(value)))
    return f"{round(value, digits):,.{max(0, digits)}f} %"


def percent_range(low: float, high: float) -> str:
    """ "1.2 % to 3.4 %", or one number where both ends look the same."""
    first, last = percent(low), percent(high)
    return first if first == last else f"{first} to {last}"


def axis_percent(ratio: float) -> str:
    """A power of ten as a percentage, for the ticks of a log axis."""
    value = 100.0 * ratio
    if value >= 1e5:
        return f"$10^{{{round(math.log10(value))}}}$ %"
    return f"{value:,.10f}".rstrip("0").rstrip(".") + " %"


def plain_number(value: float) -> str:
    """Three significant digits, for a column of a table."""
    return "0" if value == 0 else f"{value:.3g}"


def listed(names: list[str]) -> str:
    """ "a", "a and b", "a, b and c"; of many, the first three and how many more."""
    if len(names) > 4:
        return f"{', '.join(names[:3])} and {len(names) - 3} others"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def better_together(simulation: Simulation) -> list[str]:
    """The owners whose own model is worse than the median model trained together."""
    together = simulation.relative_fitness.final["median"]
    return [owner.name for owner in simulation.owners if owner.alone is not None and owner.alone > together]


def conclusion(simulation: Simulation) -> str:
    """One sentence: for whom joining pays, and by how much."""
    together = simulation.relative_fitness.final["median"]
    paid = better_together(simulation)
    alone = {owner.name: owner.alone for owner in simulation.owners if owner.alone is not None}
    others = [name for name in alone if name not in paid]
    privately = ", with privacy," if simulation.bound_enforced else ""
    shared = f"together{privately} they get a model that is {percent(together)} worse than the best one"
    if not paid:
        most = percent(max(alone.values()))
        return f"Joining pays for none of the owners: {shared}, and each alone is at most {most} worse."
    gain = _span([alone[name] for name in paid])
    if not others:
        return f"Joining pays for every owner: {shared}, and alone theirs are {gain} worse."
    loss = _span([alone[name] for name in others])
    has = "has" if len(others) == 1 else "have"
    return (
        f"Joining pays for {listed(paid)}, not for {listed(others)}: {shared}, "
        f"where {listed(paid)} alone would be {gain} worse and {listed(others)} {has} a model that is {loss} worse."
    )


def _span(values: list[float]) -> str:
    return percent_range(min(values), max(values))


def warnings(simulation: Simulation) -> list[str]:
    """What every output must say: that it is no private result, and which records were drawn or made up."""
    said = list(simulation.warnings)
    if simulation.source == "resampled":
        said.append("the records are resampled: drawn with replacement from fewer real ones")
    if simulation.source == "simulated":
        said.append("the records are simulated, not real")
    return said


def rule(agreement: Agreement) -> str:
    """The rule, or what stands in its place, for a column of a table."""
    terms = agreement.agreement
    if agreement.one_answer:
        return agreement.mechanism.label
    said = " ".join(filter(None, (terms.rule, named(terms.rule).variant(terms))))
    return f"{said}{' in rounds' if terms.window > 1 else ''}"


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


def times(factor: float) -> str:
    """2.345 → "2.3", 22,612 → "23,000"."""
    return f"{factor:,.2g}" if factor < 100 else f"{float(f'{factor:.2g}'):,.0f}"


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


def about_unlikeness(outlook: Forecast) -> list[str]:
    """How unlike the owners are taken to be, who says so, and what it changes."""
    u = outlook.unlikeness
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
    at = outlook.at_unlikeness
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
            f"The recommended terms stay within twice the best up to an unlikeness of {percent(caution.holds_to)}; were "
            f"the owners alike after all, {_price(caution.price)}."
            if caution.choices[caution.chosen] is not caution.if_alike
            else f"The recommended terms would be the same for owners known to be alike, and stay within twice the best up "
            f"to an unlikeness of {percent(caution.holds_to)}."
        )
    return lines


def _price(price: float) -> str:
    return (
        "that caution costs nothing"
        if price < 1.05
        else f"it would be {times(price)} times the cost without that caution"
    )
