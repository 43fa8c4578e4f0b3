"""A forecast in sentences and tables: the short answer, all details, and the parts of a forecast."""

import textwrap
from collections.abc import Sequence

from copriv.display.simulation import disagreement
from copriv.display.verdict import advice, assumption, for_nothing, names, noise, of_forecast, pilot, with_sum
from copriv.forecast import Assessment, Band, Choice, Forecast, OwnerForecast, Plan
from copriv.forecast.assessment import AS_AGREED, CostOfGraph, Robustness
from copriv.forecast.coalition_value import LEAST_EPSILON
from copriv.forecast.forecaster import NOTICEABLE
from copriv.forecast.own_learners import LearnerForecast, OwnLearnersForecast
from copriv.forecast.result import AtHeterogeneity
from copriv.formatting.cards import Card, Table
from copriv.formatting.numbers import (
    counted,
    estimated,
    percent,
    percent_range,
    plain_number,
    rounded,
    times,
    yes_or_no,
)
from copriv.formatting.sanitize import printable

# The answer in short: on the first screen of a terminal, in a notebook, under the pictures.


def card(outlook: Forecast) -> Card:
    """Card of a forecast: the verdict, ψ of each possible model, and each owner's gain."""
    title = f"Forecast: {counted(outlook.n_owners, 'owner')}, {outlook.public_rows:,} public rows"
    if outlook.nobody_else:
        return Card(title, (of_forecast(outlook),))
    first = filter(None, [of_forecast(outlook), assumption(outlook), pilot(outlook)])
    said = [*filter(None, [with_sum(outlook)]), *(f"Note: {warning}." for warning in outlook.warnings)]
    return Card(title, (*first, costs(outlook), owners(outlook), better_by(outlook), *said))


def title(outlook: Forecast) -> str:
    """Name the agreement, with its owners and records."""
    records = sum(owner.records * owner.count for owner in outlook.owners)
    name = printable(outlook.agreed.agreement.agreement.name, 80)
    read = "No private record was read"
    if outlook.kind == "after the pilot":
        read = "Private records were read by a simulated pilot: not private, not for release"
    return f"{name}: {counted(outlook.n_owners, 'owner')}, {counted(records, 'record')}. {read}."


def made_from(outlook: Forecast) -> str:
    """Explain what a forecast is made from, and what public rows are."""
    if outlook.agreed.agreement.data.declared_only:
        pilot = " and a pilot's answers" * (outlook.kind == "after the pilot")
        return f"Made without public rows, from {outlook.description}{pilot}."
    return f"Made from {outlook.public_rows:,} public rows: records of the owners' kind that anybody may read."


def costs(outlook: Forecast) -> Table:
    """Make a table of the possible models: ψ, typical error, and number of pooled records that give as good a model."""
    agreed, best = outlook.agreed.relative_fitness.end["median"], min(owner.alone for owner in outlook.owners)
    rows = [("together, best terms found", outlook.together), ("together, agreed terms", agreed)]
    if outlook.comparison.same or (outlook.comparison.within_error and outlook.comparison.typical_within_error):
        rows = [("together, agreed terms", outlook.together)]
    rows += [(for_nothing(outlook.agreed.agreement), outlook.public_only)]
    rows += [("the owner alone" if len(outlook.owners) == 1 else "the best owner alone", best)]
    cells, told = [], outlook.error(0.0) is not None
    for label, ψ in rows:
        error, records = outlook.error(ψ), "" if ψ > 1e3 else rounded(outlook.as_records(ψ))
        cells.append((label, percent(ψ), *["" if error is None else f"{error:.4g}"] * told, records))
    target = outlook.agreed.agreement.data.target
    unit = "" if target is None else f" in {printable(target, 20)}"  # in the unit of that column
    errors = [f"typical error{unit}"] * told
    return Table(("", "above the best", *errors, "in pooled records"), tuple(cells))


def owners(outlook: Forecast) -> Table:
    """Make a table of each owner's gain by joining, on the records that the verdict is about."""

    declared = outlook.agreed.agreement.data.declared_only

    def on_own(owner: OwnerForecast) -> tuple[str, ...]:
        own = owner.own
        beside = () if declared else (own.public_personalized,)
        return cells(owner, owner.on_own.gain, own.alone, *beside, own.together, own.personalized)

    def on_all(owner: OwnerForecast) -> tuple[str, ...]:
        return cells(owner, owner.on_all.gain, owner.alone, owner.together)

    def cells(owner: OwnerForecast, gain: float, *costs: float) -> tuple[str, ...]:
        return owner.called, *map(percent, costs), owner.verdict, percent(round(gain, 4))

    tail = ("pays", "better by")
    if outlook.goal == "own":
        beside = () if declared else ("public at home",)
        models = ("own model", *beside, "common", "common at home")
        return Table.of(("own records", *models, *tail), outlook.owners, on_own, "owners")
    return Table.of(("above the best on everybody's", "alone", "together", *tail), outlook.owners, on_all, "owners")


def better_by(outlook: Forecast) -> str:
    """Explain the last two columns of `owners`."""
    least, models = percent(outlook.agreed.agreement.worthwhile), ""
    if outlook.goal == "own":
        models = (
            "Models are above the best on own records; at home: personalized there, the public one without joining. "
        )
        if outlook.agreed.agreement.data.declared_only:
            models = "Models are above the best on own records; at home: personalized there. "
    return (
        f"{models}better by: by how much joining typically lowers the error (medians, so columns need not add up); it pays "
        f"from {least}."
    )


def notes(outlook: Forecast) -> list[str]:
    """List what was planned or assumed, and where the agreed terms are not private."""
    agreed, u, said = outlook.agreed.agreement, outlook.heterogeneity, [assumption(outlook)]
    if outlook.agreed.words != AS_AGREED:
        answers = counted(agreed.answers, "answer")
        said.insert(
            0,
            f"Terms that the agreement leaves open were chosen by the plan: {agreed.rule_in_words}, {answers} of each owner.",
        )
        if not outlook.comparison.same:
            ends = percent(outlook.agreed.relative_fitness.end["median"])
            said[0] += f" It reaches {ends}; what stands above is of the recommended terms."
    if (premium := outlook.insurance_premium) >= 0.01:
        said.append(
            f"Insurance against records that public rows do not show costs {percent(premium)} where there are none."
        )
    if outlook.robustness is not None:
        said.append(_robust(outlook.robustness))
    if outlook.graph is not None:
        said.append(_on_graph(outlook.graph))
    if outlook.with_sum is not None:
        said.append(str(with_sum(outlook)))
    if outlook.recommended.agreement.summed:
        said += filter(None, [noise(outlook.recommended.noise_share, "what the best terms found cost")])
    if u.source == "not stated" and not u.alike and outlook.n_owners > 1 and outlook.joining.answer != "open":
        said.append("Owners are taken to differ as those of real tables do; alike: heterogeneity = 0.")
    if (
        any(table.stratum is not None for table in agreed.owner_tables)
        and agreed.data.strata is None
        and u.source != "strata"
    ):
        said.append(
            "owner.stratum is not used: data.strata names no column of the public rows. (A stratum is a group of them, such as "
            "one owner's.)"
        )
    if outlook.duration is not None:
        said.append(
            f"By the owners' clocks a run of the agreed terms takes {plain_number(outlook.duration)} on average, where a clock "
            "of rate 1 ticks once in a unit of time."
        )
    if outlook.kind == "after the pilot" and u.source == "answers":
        said.append(
            "By the pilot alone every owner's columns are taken to vary as those of the public rows do. Where one hardly does, "
            "the owner's own model may be far worse on everybody's records than is said here."
        )
    if outlook.kind == "after the pilot" and outlook.joining.names("yes"):
        said.append(
            "On real tables a yes after a pilot held less often than its probability says. An owner can check it at home, "
            "on its own records, before it joins: copriv owner verdict."
        )
    if outlook.kind == "before the pilot":
        said.append(
            "This is of the run after the pilot, with what it leaves of each epsilon; its answers may change it."
        )
    said += filter(None, [pilot(outlook)])
    return [*said, *(f"Note: {warning}." for warning in outlook.warnings)]


def _robust(found: Robustness) -> str:
    averaged = f"{percent(found.averaged)} above the best on average over runs"
    liars, factor = counted(found.liars, "owner"), times(found.times)
    said = (
        f"Robust against {liars} that lie. If nobody does, it costs {factor} times what averaging costs ({averaged})."
    )
    if found.floor > 0:
        least = percent(found.floor)
        said += f" Where owners differ as assumed and {found.liars} lie, answers alone ensure no less than {least}."
    return said


def _on_graph(found: CostOfGraph) -> str:
    said = (
        f"Every owner has a model of its own, and ψ is the mean of theirs. {disagreement(found.spectral_gap)} That costs "
        f"{times(found.times)} times what one learner would ({percent(found.central)} above the best on average over runs)."
    )
    if found.enough is None:
        return f"{said} No number of exchanges up to 64 in each round comes near it."
    if found.enough <= found.exchanges:
        return said
    return f"{said} With mixing = {found.enough} exchanges in each round, which cost no privacy, it costs 1.05 times at most."


# All of it.


def details(outlook: Forecast) -> list[str | Table]:
    """List everything that a forecast says, each table below the question that it answers."""
    if outlook.nobody_else:
        return [title(outlook), made_from(outlook), "", of_forecast(outlook)]
    asked = {goal: " This is the verdict." if goal == outlook.goal else "" for goal in ("own", "common")}
    terms = [("Agreed", outlook.agreed), ("Recommended", outlook.recommended)]
    if outlook.comparison.same:
        terms = [("Agreed and recommended", outlook.agreed)]
    proved: list[str | Table] = []
    if outlook.bounds:
        head = ("the papers' bounds for the agreed rule: on psi, or on the squared error of the parameters", "value")
        proved = [
            "6. What do the papers prove of the agreed rule?",
            Table.of(
                (*head, "may be used here"),
                outlook.bounds,
                lambda one: (one.source, plain_number(outlook.shown(one)), yes_or_no(one.conditions_met)),
                "bounds",
            ),
            "",
        ]
    return [
        title(outlook),
        made_from(outlook),
        textwrap.fill(f"From {outlook.description}.", 118),
        "",
        "1. What do the terms cost, on everybody's records?",
        _terms(outlook),
        "above the best: f/f* - 1, the relative fitness, in the typical run (the median); 0 is the model from all records "
        "without privacy.",
        "",
        *(f"{name}: {one.words} ({one.kind})." for name, one in terms),
        better(outlook),
        *filter(None, [advice(outlook.plan)]),
        *_next_best(outlook),
        "",
        f"2. Is each owner's own population predicted better by joining?{asked['own']}",
        "Above the best model of that population, under the recommended terms:",
        _own(outlook),
        better_by(outlook),
        "",
        f"3. Are everybody's records predicted better by the common model than by what the owner has?{asked['common']}",
        "Above the best model of all records, under the recommended terms:",
        _joining(outlook),
        "break-even epsilon: the least of its own, or of everybody's if all are alike, at which the common model is better at "
        f"all; joining pays where it is better by {percent(outlook.agreed.agreement.worthwhile)}.",
        "",
        "4. How unlike are the owners?",
        *about_heterogeneity(outlook),
        *(note for note in notes(outlook) if not note.startswith("Owners are taken")),
        "",
        "5. What does each owner bring to a common model for everybody's records?",
        _bringing(outlook),
        "others lose: what its leaving costs on everybody's records; below 0, they are better off. On the others' own "
        "records: --without NAME.",
        "the same in records: pooled ones, without privacy. In epsilon: what the others would need in its place.",
        "share: its fair part (Shapley) of what joining saves all those for whom it pays.",
        *about_coalitions(outlook),
        "",
        *proved,
        of_forecast(outlook),
    ]


def _terms(outlook: Forecast) -> Table:
    new, rows = outlook.generalisation, []
    for name, one in (("agreed", outlook.agreed), ("recommended", outlook.recommended)):
        ψ = one.relative_fitness.end
        rows.append((
            name, one.agreement.rule_in_words, f"{one.agreement.answers:,}", percent(ψ["mean"]), percent(ψ["median"]),
            percent_range(ψ["low"], ψ["high"]), percent(new.trained(ψ["median"])),
        ))  # fmt: skip
    public = outlook.public_only
    rows.append(
        (for_nothing(outlook.agreed.agreement), "", "", "", percent(public), "", percent(new.untrained(public)))
    )
    rows.append(("pooled, not private", "", "", "", "0 %", "", percent(new.best)))
    head = ("terms", "rule", "answers", "mean", "above the best", "90 % of runs", "on new records")
    return Table(head, tuple(rows), strong=1)


def better(outlook: Forecast) -> str:
    """Say how much better the recommended terms are."""
    found = outlook.comparison
    if found.same:
        return "Nothing that was tried is better than the agreed terms."
    if found.within_error:
        return "Agreed and recommended terms cost the same, within the error of this forecast."
    less = f"The recommended terms divide the mean cost by {times(found.times)}"
    if outlook.agreed.relative_fitness.end["median"] < outlook.together and not found.typical_within_error:
        return f"{less}, for they have fewer bad runs; the typical run of the agreed ones is better."
    return f"{less}."


def _next_best(outlook: Forecast) -> list[str]:
    """Name the runner-up, the cost of each kind of guarantee, and how flat the optimum is."""
    plan, said, second = outlook.plan, [], outlook.runner_up
    if second is not None:
        said.append(f"Runner-up: {second.choice.describe()}: {percent(second.cost)} above the best in the mean.")
    promises = {
        "pure": "Pure ε against (ε, δ)",
        "one_answer": "One answer of each owner against many",
        "asynchronous": "Asynchronous against rounds of all owners",
    }
    for name, (kept, given_up) in outlook.trades.items():
        said.append(f"{promises[name]}: {percent(kept.cost)} against {percent(given_up.cost)}.")
    changed = {"step": "the step", "gradient_bound": "the gradient bound", "answers": "the answers"}
    parts = [f"{changed[key]}, {half:.2g} or {twice:.2g} times" for key, (half, twice) in plan.flatness.items()]
    if parts:
        worst = max(max(pair) for pair in plan.flatness.values())
        flat = next(
            word for limit, word in ((1.5, "flat"), (5.0, "not flat"), (float("inf"), "steep")) if worst < limit
        )
        among = ", among rules that descend," * plan.agreement.one_answer
        said.append(f"The optimum{among} is {flat}. Cost at half or twice {'; '.join(parts)}.")
    return said


def _joining(outlook: Forecast) -> Table:
    def cells(owner: OwnerForecast) -> tuple[str, ...]:
        return (
            owner.called, f"{owner.records:,}", f"{outlook.in_agreement(owner.epsilon):g}", percent(owner.alone),
            percent(owner.together), owner.on_all.answer, _least(outlook, owner.break_even_epsilon),
            _least(outlook, owner.break_even_epsilon_for_all),
        )  # fmt: skip

    columns = ("records", "epsilon", "alone", "together", "joining pays", "break-even epsilon", "if all alike")
    return Table.of(("owner", *columns), outlook.owners, cells, "owners")


def _least(outlook: Forecast, epsilon: float | None) -> str:
    if epsilon is None:
        return "none"
    return "any" if epsilon <= LEAST_EPSILON else plain_number(outlook.in_agreement(epsilon))


def public_model(outlook: Forecast) -> str:
    """Name the model that nobody has to join for, among others."""
    if outlook.agreed.agreement.data.declared_only:
        return "a constant"
    return "the public one"


def _own(outlook: Forecast) -> Table:
    def cells(owner: OwnerForecast) -> tuple[str, ...]:
        own, said = owner.own, owner.on_own
        costs = (percent(ψ) for ψ in (own.alone, own.public_personalized, own.together, own.personalized))
        better = f"{percent(said.gain)} ({percent_range(said.gain_low, said.gain_high)})"
        sure = f"{said.answer}, {100 * said.probability:.0f} %"
        return owner.called, *costs, better, sure, _least(outlook, owner.break_even_epsilon_own)

    models = ("its own", f"{public_model(outlook)}, at home", "the common one", "that, at home")
    head = ("owner", *models, "better by", "pays", "break-even epsilon")
    return Table.of(head, outlook.owners, cells, "owners")


def _bringing(outlook: Forecast) -> Table:
    records, saved = sum(o.records * o.count for o in outlook.owners), sum(o.shapley * o.count for o in outlook.owners)

    def cells(owner: OwnerForecast) -> tuple[str, ...]:
        instead = owner.worth_in_epsilon
        of_others = (
            percent(owner.loss_to_others), f"{owner.worth_in_records:,.0f}",
            "none" if instead is None else f"{times(instead)} times",
        )  # fmt: skip
        weights = plain_number(owner.records / records), plain_number(owner.best_weight)
        share = "-"
        if saved > 0:
            error = f" ± {100 * owner.shapley_error / saved:.0f} %" * (owner.shapley_error > 0)
            share = f"{100 * owner.shapley / saved:.1f} %{error}"
        return owner.called, *(("-",) * 3 if outlook.n_owners == 1 else of_others), *weights, share

    head = ("owner", "others lose", "in records", "in epsilon", "weight", "best weight", "share")
    return Table.of(head, outlook.owners, cells, "owners")


def about_coalitions(outlook: Forecast) -> list[str]:
    """Say who should take part, and what better weights gain, where that exceeds the forecast's error."""
    left = {owner: owner.count - owner.number_in_best_subset for owner in outlook.left_out}
    out = [o.name if o.count == 1 else f"{number:,} of the {o.count:,} {o.name}" for o, number in left.items()]
    said = [
        "Everybody belongs in, where a common model for everybody's records is wanted: leaving anybody out would not help the "
        "others by more than the error of this."
    ]
    if out:
        whose = "its" if sum(left.values()) == 1 else "their"
        said = [
            f"Without {names(out)} the others would reach {percent(outlook.best_subset)} in place of "
            f"{percent(outlook.together)}: the noise of {whose} answers costs more than the records bring."
        ]
        said += [
            f"{owner.name} would cost the others nothing with an epsilon of {_least(outlook, owner.welcome_epsilon)}."
            for owner in [*left][:20]
            if owner.welcome_epsilon is not None
        ]
    least = min(outlook.together, outlook.best_subset)
    if outlook.best_weights < (1.0 - NOTICEABLE) * least:
        said.append(
            f"Weights other than n_i/n, the best of which stand above, would bring {percent(least)} down to "
            f"{percent(outlook.best_weights)}."
        )
    return said


def hardly_changes(at: Sequence[AtHeterogeneity]) -> bool:
    """Whether ψ differs by less than a tenth over the heterogeneities that were tried."""
    return not at or max(one.median for one in at) < 1.1 * min(one.median for one in at)


def about_heterogeneity(outlook: Forecast) -> list[str]:
    """Describe the owners' heterogeneity, its source, and its effect."""
    u, at, caution = outlook.heterogeneity, outlook.at_heterogeneity, outlook.caution_of_plan
    if u.alike or outlook.n_owners == 1:
        return ["The owners are said to be alike." if u.source == "stated" else "Owners are taken to be alike."]
    source = {
        "stated": "As the agreement states",
        "strata": "By what public rows of different owners show",
        "answers": "By the spread of the owners' answers",
        "not stated": "Nobody has said how unlike the owners are. As real tables show",
    }[u.source]
    lines = [
        f"{source}, a perfect model of one owner's own records would be {percent(u.value)} worse for everybody "
        f"({percent(u.low)} to {percent(u.high)})."
    ]
    if at and hardly_changes(at):
        lines.append("That hardly changes what the recommended terms cost, even if it is twice as much.")
    elif at:
        told = ", ".join(
            f"{estimated(one.median, one.low, one.high)} {name}"
            for one, name in zip(at, ("if they are alike", "at that", "at twice that"), strict=True)
        )
        lines.append(f"Together the model would be worse than the best by: {told}.")
    if caution is not None:
        holds = f"stay within twice the best up to a heterogeneity of {percent(caution.holds_to)}"
        price = f"it would be {times(caution.price)} times the cost without that caution"
        if caution.price < 1.05:
            price = "that caution costs nothing"
        line = f"The recommended terms {holds}; were the owners alike after all, {price}."
        if caution.choices[caution.chosen] is caution.if_alike:
            line = f"The recommended terms would be the same for owners known to be alike, and {holds}."
        lines.append(line)
    return lines


# The parts of a forecast, each by itself.


def band_card(band: Band) -> Card:
    """Card of a band of runs."""
    return Card(f"Band: {len(band.k):,} iterations up to {int(band.k[-1]):,}", (f"Above the best: {ended(band)}.",))


def ended(band: Band) -> str:
    """Describe ψ at the end: mean, median and the range of 90 % of runs."""
    ψ = band.end
    runs = percent_range(ψ["low"], ψ["high"])
    return f"{percent(ψ['mean'])} in the mean, typically {percent(ψ['median'])}, 90 % of runs {runs}"


def assessment_card(one: Assessment) -> Card:
    """Card of one set of terms and its cost."""
    worlds, runs = one.draws.shape
    found = f"{one.kind.capitalize()}, from {counted(runs, 'run')} in each of {worlds:,} worlds."
    return Card(
        f"Assessment: {one.words or one.agreement.rule_in_words}",
        (f"Above the best: {ended(one.relative_fitness)}.", found),
    )


def choice_card(choice: Choice) -> Card:
    """Card of a setting and its ψ."""
    return Card(f"Choice: {choice.describe()}", (_reached(choice),))


def _reached(choice: Choice) -> str:
    where = "over tables of the declared columns" if choice.agreement.data.declared_only else "on the public rows"
    return f"Expected {where}: {percent(choice.relative_fitness)} above the best."


def plan_card(plan: Plan) -> Card:
    """Card of a plan: the choice, the advice, and the other settings that were run."""
    others = [choice for choice in plan.measured if choice is not plan.choice]
    return Card(
        f"Plan: {plan.choice.describe()}",
        (
            _reached(plan.choice),
            *filter(None, [advice(plan)]),
            f"{plan.considered:,} settings were priced, {len(plan.measured)} of them run.",
            Table.of(
                ("others that were run", "above the best"),
                others,
                lambda one: (one.describe(), percent(one.relative_fitness)),
                "settings",
            ),
        ),
    )


# Every owner as its own learner.


def own_learners_card(outlook: OwnLearnersForecast) -> Card:
    """Card of a forecast of own learners."""
    return Card(
        f"OwnLearnersForecast: {counted(len(outlook.learners), 'owner')}, {outlook.agreement.rule_in_words}",
        own_learners(outlook),
    )


def own_learners(outlook: OwnLearnersForecast) -> tuple[str | Table, ...]:
    """List the verdict and a table of owners. ψ is over the best possible model of all records."""

    def cells(one: LearnerForecast) -> Sequence[str]:
        sure = 100 * max(one.joining_pays_probability, 1 - one.joining_pays_probability)
        pays = f"{yes_or_no(one.joining_pays)}, {sure:.0f} % sure"
        return one.name, percent(one.alone), percent(one.together), percent(one.learning), pays

    head = ("owner", "own records alone", "one common model", "own model from shared answers", "pays")
    return (
        outlook.verdict,
        "How much worse than the best possible model of everybody's records; the public rows alone: "
        f"{percent(outlook.public_only)}.",
        Table.of(head, outlook.learners, cells, "owners"),
        "Each owner answers once, under its whole budget, and everybody gets that answer: no budget is spent twice. An "
        "owner's own model holds its records without noise and must stay with it (copriv owner learn makes it).",
    )
