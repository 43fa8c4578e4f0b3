"""Verdicts in sentences: for whom joining pays, with which probability, and cautions; and the verdict of an owner at home."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from copriv.agreement import Agreement
from copriv.display import Card, Table
from copriv.display.sentences import FEW_NAMES, Said
from copriv.forecast import Forecast, Plan
from copriv.forecast.at_home import NOT_FOR_RELEASE, VerdictAtHome
from copriv.forecast.coalition_value import LEAST_EPSILON
from copriv.forecast.own_learners import OwnLearnersForecast
from copriv.forecast.pilot_outlook import PilotAt
from copriv.forecast.result import Without
from copriv.forecast.what_if import Target
from copriv.formatting.numbers import counted, listed, percent, percent_range, plain_number, rounded, times
from copriv.formatting.sanitize import printable
from copriv.problem.verdict import NO, YES, Goal, Outcome, OwnerVerdict, Verdict
from copriv.simulation import Simulation
from copriv.terms.values import LONGEST_NAME


def of_forecast(outlook: Forecast) -> str:
    """Say for whom joining pays, by how much and with which probability, what would settle open cases, and cautions."""
    if outlook.nobody_else:
        return answer(outlook)
    return f"{_joined(unlike_public(outlook))} {answer(outlook)} {_joined(_beyond_answer(outlook))}".lstrip()


def sentences(outlook: Forecast) -> list[Said]:
    """The sentences of `of_forecast` as values, which pages show in the reader's language."""
    found = _answer(outlook.joining, outlook.agreed.agreement.worthwhile)
    return [*unlike_public(outlook), *found, *_beyond_answer(outlook)]


def _beyond_answer(outlook: Forecast) -> list[Said]:
    verdict, said = outlook.joining, shrunk(outlook)
    if verdict.answer == "no":
        said.append(_remedy(outlook))
    key = "costs" if outlook.comparison.same else "costs.recommended"
    costs = {"together": ("percent", outlook.together), "public": ("percent", outlook.public_only)}
    said.append(Said(key, {**costs, "public_model": _public(outlook.agreed.agreement)}))
    if verdict.names("yes"):
        if verdict.only_as_recommended:
            said.append(Said("agreed", {"agreed": ("percent", outlook.agreed.relative_fitness.end["median"])}))
        if cost := verdict.cost_others:
            rest = [owner.name for owner in outlook.owners if owner.name not in cost]
            key = "harm.one" if len(rest) == 1 else "harm"
            best = ("percent", outlook.best_subset)
            said.append(Said(key, {"who": _names(cost), "rest": _names(rest), "best": best}))
    return [*said, *cautions(outlook)]


def of_without(found: Without) -> str:
    """The same for the owners that stay."""
    if found.others is None:
        return " ".join(about_without(found))
    return of_forecast(replace(found.others, absent=found))


def answer(outlook: Forecast) -> str:
    """Say for whom joining pays and by how much, for whom not, for whom it is open, and with which probability.

    Without some owners, say this for the others, and what changes for them.
    """
    if outlook.absent is not None:
        return " ".join(about_without(outlook.absent))
    return of_verdict(outlook.joining, outlook.agreed.agreement.worthwhile)


def for_nothing(agreement: Agreement) -> str:
    """Name the model that costs nobody any privacy."""
    return str(_public(agreement))


def _public(agreement: Agreement) -> Said:
    return Said("constant" if agreement.data.declared_only else "public")


def of_owner(name: str, found: OwnerVerdict, worthwhile: float) -> str:
    """Word the verdict for one owner, on its own records."""
    return of_verdict(Verdict("own", {name: found}), worthwhile)


def of_verdict(verdict: Verdict, worthwhile: float) -> str:
    """Word a verdict that stands alone, of owners' own records or of everybody's."""
    return _joined(_answer(verdict, worthwhile))


def _answer(verdict: Verdict, worthwhile: float) -> list[Said]:
    gain, even, rest = (verdict.names(answer) for answer in ("yes", "open", "no"))
    alone, said = len(verdict.owners) == 1, list[Said]()
    if gain:
        won = [verdict.owners[name] for name in gain]
        records = "common" if verdict.goal == "common" else "one" if len(gain) == 1 else "own"
        values = {
            "who": Said("everybody") if len(gain) == len(verdict.owners) > 1 else _names(gain),
            "records": Said(f"records.{records}"),
            "gain": ("range", *ends([one.gain for one in won])),
        }
        at_home = {one.by for one in won} == {"personalized"}
        said.append(Said("answer.yes.personalized" if at_home else "answer.yes", values))
    if even:
        said += _open(verdict, even, worthwhile)
    if rest and (gain or even):
        said.append(Said("answer.no", {"who": _names(rest) if len(rest) <= 2 else Said("others")}))
    elif rest:
        key, enough = f"answer.none.{verdict.goal}", {"worthwhile": ("percent", worthwhile)}
        said.append(Said(f"{key}.one", {"who": _names(rest), **enough}) if alone else Said(key, enough))
    if not even:
        least = min(max(one.probability, 1.0 - one.probability) for one in verdict.owners.values())
        said.append(Said("answer.right.one" if alone else "answer.right", {"chance": ("chance", least)}))
    return said


def _remedy(outlook: Forecast) -> Said:
    """Say what could change that joining pays for nobody: that some leave, or a larger budget of one."""
    if cost := outlook.joining.cost_others:
        return Said("remedy.without", {"who": _names(cost), "best": ("percent", outlook.best_subset)})
    least = {}
    for owner in outlook.owners:
        if owner.pays_epsilon is not None and owner.pays_epsilon > owner.epsilon:
            least[owner.called] = owner.pays_epsilon
    if least:
        first = min(least, key=lambda name: least[name])
        return Said(
            "remedy.budget", {"who": _names([first]), "epsilon": ("number", outlook.in_agreement(least[first]))}
        )
    if outlook.n_owners == 1:
        return Said("remedy.nobody")
    return Said("remedy.none.constant" if outlook.agreed.agreement.data.declared_only else "remedy.none")


def _open(verdict: Verdict, even: Sequence[str], worthwhile: float) -> list[Said]:
    """Say for whom it is open whether joining pays, what that depends on, and what would settle it.

    Gains in the worlds in which owners differ least and most are said, and probabilities where gains do not tell.
    """
    found, who = [verdict.owners[name] for name in even], {"who": _names(even)}
    if verdict.too_few is not None:
        return [Said(f"answer.open.{verdict.too_few}", who)]
    pairs = [(one.if_alike, one.if_unlike) for one in found if one.if_alike is not None and one.if_unlike is not None]
    both = [*zip(*pairs, strict=True)]
    if not both or both[0] == both[1]:
        # In whole percent that are neither a yes nor a no: .797 is not the 80 % of a yes.
        chances = ends([min(max(one.probability, NO + 0.01), YES - 0.01) for one in found])
        return [Said("answer.open", {**who, "chance": ("chance", *chances), "yes": ("percent", YES)})]
    (low, high), (least, most) = (ends([one.gain for one in outcomes]) for outcomes in both)
    values: dict[str, Any] = {**who, "if_alike": _better(low, high), "if_unlike": _better(least, most)}
    if low >= worthwhile > most or least >= worthwhile > high:
        return [Said("answer.open.gains", values), Said("settle")]
    values |= {"chance_alike": _chance(both[0]), "chance_unlike": _chance(both[1])}
    return [Said("answer.open.chances", values), Said("settle")]


def _better(low: float, high: float) -> Said:
    return Said("better", {"gain": ("range", max(low, 0.0), high)}) if high >= 5e-4 else Said("no_better")


def _chance(outcomes: Sequence[Outcome]) -> tuple[Any, ...]:
    return ("chance", *ends([one.probability for one in outcomes]))


def caution(outlook: Forecast) -> str | None:
    """Caution in one text; None where there is nothing to be cautious about."""
    return _joined([*unlike_public(outlook), *shrunk(outlook), *cautions(outlook)]) or None


def unlike_public(outlook: Forecast) -> list[Said]:
    """Say that nothing of a forecast holds, where a pilot counted many records that are longer than any public row."""
    if outlook.longer is None:
        return []
    return [Said("caution.longer", {"share": ("percent", outlook.longer)})]


def shrunk(outlook: Forecast) -> list[Said]:
    """Say by how much the regularizer makes predictions worse, where that is more than a little, and what to do."""
    if outlook.joining.too_few is not None or (weaker := outlook.weaker_regularization) is None:
        return []  # public rows that a model fits without any error, which no regularizer can come near
    values = {"shrinkage": ("percent", outlook.shrinkage), "less": ("word", f"{weaker:.0e}")}
    return [Said("caution.regularizer", values)]


def cautions(outlook: Forecast) -> list[Said]:
    """Caution where the band of ψ is wide for lack of public rows, and where outliers could cost more than the band."""
    ψ, unseen, said = outlook.recommended.relative_fitness.end, outlook.unseen, list[Said]()
    band = {end: ("percent", ψ[end]) for end in ("low", "high")}
    if outlook.agreed.agreement.data.declared_only:
        said.append(Said("caution.declared", band))
    elif ψ["high"] > 100 * ψ["low"] or outlook.public_rows < 3 * outlook.n_parameters:
        rows = {"rows": ("count", outlook.public_rows), "parameters": ("count", outlook.n_parameters)}
        said.append(Said("caution.rows", {**rows, **band}))
    if unseen is not None and unseen.relative_fitness > ψ["high"]:
        outlier = {"one_in": ("count", unseen.one_in), "times": ("number", unseen.times_as_long)}
        said.append(Said("caution.unseen", {**outlier, "cost": ("percent", unseen.relative_fitness)}))
        if outlook.kind != "after the pilot":
            said.append(Said("caution.unseen.pilot", {}))
    return said


def pilot(outlook: Forecast) -> str | None:
    """Say what the agreed or recommended pilot would tell and cost; None where no verdict is open and none is agreed."""
    return _joined(pilots(outlook)) or None


def pilots(outlook: Forecast) -> list[Said]:
    """The sentences of `pilot` as values."""
    found, agreed = outlook.pilot, outlook.agreed.agreement
    if found is None:
        return []
    share = {"share": ("percent", found.share)}
    if agreed.data.declared_only:
        if found.share:
            return [Said("pilot.lengths", share)]
        recommended = {"share": ("number", found.recommended)}
        return [Said("pilot.lengths.recommended", recommended)] * (found.recommended > 0)
    if not found.shares:
        return [Said("pilot.sum" if agreed.summed else "pilot.alike", share)]
    if not found.open:
        return [Said("pilot.none")] * (found.share > 0)

    def settling(key: str, one: PilotAt) -> Said:
        open_ = {} if found.open == 1 else {"open": ("count", found.open)}
        values = {"expected": ("times", one.expected), **open_}
        if key == "pilot.settles":
            values["times"] = ("times", one.cost)
        else:
            values["share"] = ("percent", one.share)
        return Said(f"{key}.one" if found.open == 1 else key, values)

    said = []
    if one := found.at(found.share):
        said.append(Said("pilot.agreed", {**share, "settles": settling("pilot.settles", one)}))
    if not found.recommended:
        said.append(settling("pilot.even", max(found.shares, key=lambda one: one.expected)))
    elif found.recommended != found.share and (one := found.at(found.recommended)):
        settles = settling("pilot.settles", one)
        said.append(Said("pilot.recommended", {"share": ("number", found.recommended), "settles": settles}))
    return said


def with_sum(outlook: Forecast) -> str | None:
    """Say what the cost and the least budget would be if only the sum of answers were seen; None where that is not known."""
    return _joined(sums(outlook)) or None


def sums(outlook: Forecast) -> list[Said]:
    """The sentences of `with_sum` as values."""
    found = outlook.with_sum
    if found is None:
        return []
    ends = found.break_even_epsilon, found.break_even_epsilon_each
    hidden, each = (_from_budget(outlook, end) for end in ends)
    pays = Said("sum.pays", {"hidden": hidden, "each": each})
    if str(hidden) == str(each):
        pays = Said("sum.pays.nobody") if ends[0] is None else Said("sum.pays.same", {"hidden": hidden})
    same = percent(found.together) == percent(outlook.together)
    compared = Said("sum.as") if same else Said("sum.instead", {"seen": ("percent", outlook.together)})
    reached = Said("sum", {"reached": ("percent", found.together), "compared": compared})
    return [reached, *_noise(found.assessment.noise_share, Said("noise.that")), pays]


def _from_budget(outlook: Forecast, epsilon: float | None) -> Said:
    if epsilon is None:
        return Said("sum.at.none")
    if epsilon <= LEAST_EPSILON:
        return Said("sum.at.any")
    return Said("sum.at", {"epsilon": ("number", outlook.in_agreement(epsilon))})


def noise(share: float | None, cost: str) -> str:
    """Say which share of a cost is noise, and what leaves the rest; nothing where that is not known."""
    return _joined(_noise(share, ("word", cost)))


def _noise(share: float | None, cost: Said | tuple[str, str]) -> list[Said]:
    return [] if share is None else [Said("noise", {"share": ("percent", round(share, 2)), "cost": cost})]


def assumption(outlook: Forecast) -> str:
    """State the assumption that public rows are a random sample, and where they differ from one."""
    if outlook.agreed.agreement.data.declared_only:
        measured = " as far as a pilot did not measure them" * (outlook.kind == "after the pilot")
        return (
            f"This holds for tables as they are usually declared{measured}: columns use a twentieth to all of their ranges, "
            "and share what they tell of the target."
        )
    said = ["This holds if the public rows are a random sample of all owners' records."]
    if outlook.sampled_by_owner:
        said = ["This holds if the public rows of each owner are a random sample of its records."]
    for mix in (one for one in outlook.public_mix if one.differs):
        level = mix.levels[0]
        said.append(
            f"They are another mix: {percent(mix.public(level))} of them are of {printable(mix.column, 40)} "
            f"{printable(level, 40)}, and {percent(mix.records.get(level, 0.0))} of the records; take a random sample."
        )
    if outlook.strata_unused is not None:
        said.append(
            f"The groups of {printable(outlook.strata_unused, 40)} (data.strata) are not the owners, so they say nothing of "
            "how these differ; owner.stratum says which group an owner's records are like."
        )
    elif outlook.without_stratum:
        said.append(
            f"No public row is known to be like those of {names(outlook.without_stratum)} (data.strata, owner.stratum): how "
            "they differ is taken from the other owners."
        )
    return " ".join(said)


def advice(plan: Plan) -> str | None:
    """Say why nobody should start with this plan, or why that is open; None where joining pays."""
    whose = "everybody's records" if plan.advised_on == "common" else "an owner's own records"
    public, verb, nothing = "the public rows alone", "are", "their model is"
    if plan.agreement.data.declared_only:
        public, verb, nothing = "a constant", "is", "it is"
    least = f"expected to be {percent(min(plan.public_only, plan.alone))} worse than the best possible one"
    if plan.advised_on == "own":
        there = "On its own records each owner's own model serves it as well."
        if plan.advice == "public":
            there = f"On its own records {public} would serve each owner as well, and cost nobody any privacy."
    elif plan.public_only <= plan.alone:
        there = f"On everybody's records {public} {verb} the better choice: {nothing} {least}, and costs nobody any privacy."
    else:
        there = f"On everybody's records the best owner's own model is {least}."
    no = f"Nobody should start: joining is not expected to make predictions for {whose} noticeably better. {there}"
    maybe = f"Whether to start is open: joining may make predictions for {whose} noticeably better, or not."
    return {"join": None, "close": maybe, "public": no, "alone": no}[plan.advice]


def of_simulation(result: Simulation) -> str:
    """Say for whom joining paid in a simulation, by how much and with which probability, and ψ of each model."""
    verdict = result.joining
    said = "Whether joining pays was not judged."
    if verdict.owners:
        said = of_verdict(verdict, result.worthwhile)
    privately = ", with privacy" * result.bound_enforced
    costs = [f"{percent(result.relative_fitness.final['median'])} above the best possible together{privately}"]
    alone = [owner.alone for owner in result.owners if owner.alone is not None]
    if alone:
        costs.append(f"{percent_range(*ends(alone))} alone")
    if result.public_only is not None and result.source != "public":  # else it was fitted to these very rows
        costs.append(f"{percent(result.public_only)} by the public rows alone")
    return f"{said} On everybody's records: {', '.join(costs)}."


def of_own_learners(outlook: OwnLearnersForecast) -> str:
    """Say for how many owners sharing answers pays."""
    number, paid = len(outlook.learners), sum(one.joining_pays for one in outlook.learners)
    if not paid:
        return (
            "Sharing answers pays for nobody, on everybody's records: no owner's own model gets better there by them."
        )
    who = "everybody" if paid == number else f"{paid} of {number} owners"
    return (
        f"Sharing answers pays for {who}, on everybody's records: each learns a model of its own, and each owner answers only "
        "once. Of an owner's own records this says nothing; copriv forecast does."
    )


def names(owners: Sequence[str]) -> str:
    """List owners in a sentence: at most five, and the number of the others."""
    return listed([printable(name, LONGEST_NAME) for name in owners], FEW_NAMES)


def _names(owners: Sequence[str]) -> tuple[str, ...]:
    return ("names", *(printable(name, LONGEST_NAME) for name in owners))


def _joined(said: Sequence[Said]) -> str:
    return " ".join(map(str, said))


def ends(values: Sequence[float]) -> tuple[float, float]:
    """The least and the largest."""
    return min(values), max(values)


MODELS = {
    "own": "your own model",
    "public": "the public model",
    "public_personalized": "the public model, personalized at home",
    "common": "the common model",
    "personalized": "the common model, personalized at home",
}


def at_home(found: VerdictAtHome, goal: Goal = "own") -> Iterator[str | Table]:
    """Yield the verdict, a table of the models' errors, and a warning that they are not for release.

    goal: the agreement's; where it is everybody's records, say that this verdict is of others.
    """
    if found.on_own is None:
        yield f"Whether joining pays is open for {printable(found.name, LONGEST_NAME)}: {found.reason}."
    else:
        yield of_owner(found.name, found.on_own, found.worthwhile)
    if goal == "common":
        yield (
            "This is of your own records. The agreement's goal is everybody's records (goal = \"common\"), of which only the "
            "forecast can say whether joining pays: copriv forecast."
        )
    if found.errors:
        own = found.errors["own"]
        yield Table.of(
            ("on new records of your kind", found.measured_in, "better than your own by"),
            [(name, found.errors[model]) for model, name in MODELS.items() if model in found.errors],
            lambda one: (one[0], plain_number(one[1]), percent(1.0 - one[1] / own)),
            "models",
        )
        if found.after_run:
            yield "The common model is the released one."
        else:
            yield "The common model is the one that is forecast for the recommended terms, typically."
    yield NOT_FOR_RELEASE


def card_at_home(found: VerdictAtHome) -> Card:
    """Card of the verdict, for notebooks and `print`."""
    return Card(f"At home: {found.name}, {found.records:,} records of its own", tuple(at_home(found, found.goal)))


def about_target(outlook: Forecast, found: Target) -> list[str]:
    """List the budgets, records or owners that reach the target ψ."""
    within = f"Within {percent(found.value)} of the best possible:"
    if found.reached_by == "public":
        return [
            f"{within} already reached by {for_nothing(outlook.agreed.agreement)} ({percent(outlook.public_only)}). Nobody "
            "needs to give anything for it."
        ]
    said = [f"{within} not reached, typically {percent(outlook.together)}."]
    if found.reached_by == "together":
        said = [f"{within} reached, typically {percent(outlook.together)} with all."]
    budgets = [plain_number(outlook.in_agreement(ε)) for ε in sorted({owner.epsilon for owner in outlook.owners})]
    agreed = " to ".join(dict.fromkeys((budgets[0], budgets[-1])))
    if found.epsilon is None:
        said.append("No budget is enough with these records.")
    else:
        typically, surely = plain_number(outlook.in_agreement(found.epsilon)), "no budget would"
        if found.epsilon_surely:
            surely = f"{plain_number(outlook.in_agreement(found.epsilon_surely))} nearly surely"
        said.append(f"It takes a budget of {typically} of every owner typically, {surely} (agreed: {agreed}).")
    if found.reached_by == "nobody":
        records, epsilon = found.like
        like = f"of {records:,} records and a budget of {plain_number(outlook.in_agreement(epsilon))}"
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


def about_without(found: Without) -> list[str]:
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
        instead = f"; {for_nothing(others.agreed.agreement)} would be better: {percent(others.public_only)}"
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
