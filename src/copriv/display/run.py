"""A run: the owners' answers and spending, its result compared with its forecast, and the verdict on its file."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from copriv.agreement import Agreement
from copriv.display import Table
from copriv.formatting.numbers import counted, estimated, listed, percent, percent_range
from copriv.formatting.sanitize import printable
from copriv.mechanisms import named
from copriv.mechanisms.mechanism import Mechanism, against, budget_in_words, but_for
from copriv.terms import AgreedTerms

if TYPE_CHECKING:
    from copriv.network.verify import Verdict


def run_tables(record: dict[str, Any], error: str) -> tuple[Table, Table]:
    """Make two tables of a model's record: the owners' answers and spending, and the run compared with its forecast.

    error: name of the prediction error, with its unit (`Agreement.error_in_words`).
    """
    with_delta = any(owner["delta"] > 0 for owner in record["owners"])
    checked = any("too_little_noise" in owner for owner in record["owners"])
    delta = ["delta spent"] * with_delta
    owners = Table.of(
        ("owner", "records", "answers", "of", "lost", "epsilon spent", *delta, "noise scale", *["noise"] * checked),
        record["owners"],
        lambda owner: (
            owner["name"],
            f"{owner['records']:,}",
            str(owner["answers"]),
            str(owner["most_answers"]),
            str(owner["lost"]),
            f"{owner['spent']:.6g}",
            *[f"{owner['spent_delta']:.6g}"] * with_delta,
            f"{owner['noise_scale']:.3g}",
            *["too little" if owner.get("too_little_noise") else "as agreed"] * checked,
        ),
        "owners",
    )
    return owners, compared(record, error)


def now_known(known: dict[str, Any], kept: bool = False) -> str:
    """Say what a pilot told: ψ of the run and for whom joining pays, after it and before it (`AfterPilot.said`).

    kept: the run stops after the pilot, so that its ψ is of a run that is not made.
    """
    ends, pays = [], []
    for phase in ("before", "after"):
        ψ, many = known[phase]["relative_fitness"], verdicts(known[phase]["owners"])
        ends.append(estimated(ψ["median"], ψ["low"], ψ["high"]))
        pays.append(f"pays for {many['yes']}, not for {many['no']}, open for {many['open']}")
    return (
        f"Now we know: the run {'would end' if kept else 'ends'} {ends[1]} above the best model; before the pilot, {ends[0]}. "
        f"Joining {pays[1]} of {counted(sum(many.values()), 'owner')}; before the pilot, {pays[0]}."
    )


def verdicts(owners: dict[str, Any]) -> dict[str, int]:
    """Count the owners of each verdict; a table of the agreement may be of several (`count`)."""
    return {
        verdict: sum(one.get("count", 1) for one in owners.values() if one["verdict"] == verdict)
        for verdict in ("yes", "no", "open")
    }


def phases_told(record: dict[str, Any]) -> list[str | Table]:
    """Make a table of a run's phases, by its model's record, and say what the pilot told; nothing for a run of one phase."""
    if "phases" not in record:
        return []

    def cells(phase: dict[str, Any]) -> tuple[str, ...]:
        spent, delta = (sum(phase[key].values()) for key in ("epsilon", "delta"))
        return (
            f"{phase['phase']}: {phase['mechanism']}",
            str(sum(phase["answers"].values())),
            f"{spent:.6g}",
            f"{delta:.6g}",
        )

    head = ("phase", "answers", "epsilon, of all owners", "delta")
    told: list[str | Table] = [Table.of(head, record["phases"], cells, "phases")]
    if record["known"]:
        told.append(now_known(record["known"], bool(record["kept"])))
    if record["kept"]:
        model = of_pilot_alone(named(record["phases"][0]["mechanism"]))
        told.append(
            f"Stopped after the pilot: {record['kept']}. Of the rest of its budget no owner has spent anything. {model}"
        )
    return told


def of_pilot_alone(mechanism: Mechanism, at_home: bool = False) -> str:
    """Say what the model is of a run that ended with a pilot by this mechanism.

    at_home: the model is an owner's own, made of its own records and of what the run gave.
    """
    what = "The model" + ", but for the owner's own records," * at_home
    if not mechanism.gives_model:
        has = f"{what} has" if at_home else "the model file has"
        return f"No model follows from the pilot's answers alone: {has[0].lower()}{has[1:]} the agreed start."
    return f"{what} is of the pilot's answers alone."


def promises(agreement: Agreement, name: str) -> list[str]:
    """Say what will ever leave an owner, by phase."""
    first, *after = agreement.phases
    said = [first.mechanism.promise(first, first.terms_of(name))]
    for run in after:
        terms, chosen = run.terms_of(name), listed([*(agreement.agreement.ranges or {})] or ["nothing"])
        most = f"at most {counted(run.answers, 'answer')} by the mechanism {run.agreement.mechanism}"
        promise = f"then {most}: {budget_in_words(terms)}{run.mechanism.promise_in_sums(run, terms)}"
        said.append(f"{promise}; the pilot chooses {chosen}, within the ranges that are signed")
        if (asked := agreement.agreement.pilot_terms) is not None and asked.public is not None:
            said[-1] += f", by public rows whose SHA-256 is {asked.public}"
    return said


def in_sums(agreement: AgreedTerms) -> str:
    """Say of a run what the learner saw, and against whom the owners' ε holds then."""
    return (
        "The learner saw sums of owners' answers, and no answer by itself: each was under masks that only a sum is without. "
        f"Every owner's epsilon holds against {against(agreement.colluding)}, if the others added their shares of the noise"
        f"{but_for(agreement.dropouts)}."
    )


def compared(record: dict[str, Any], error: str) -> Table:
    """Compare the result of a run with its forecast, over all owners, by its model's record.

    What a pilot spent counts in both: the forecast is of the run after it. error: name of the prediction error, with its unit.
    """
    realised, forecast, before = record["realised"], record["forecast"], record.get("phases", [])[:-1]

    def in_all(name: str, key: str, form: str) -> tuple[str, str, str]:
        spent = sum(sum(phase[key].values()) for phase in before)
        expected = forecast and format(spent + sum(forecast[key].values()), form)
        return f"{name}, of all owners", expected or "", format(spent + sum(realised[key].values()), form)

    rows = [("queries", str(forecast["queries"]) if forecast else "", str(realised["queries"]))]
    rows += [in_all("answers", "answers", "d"), in_all("epsilon spent", "epsilon", ".6g")]
    if sum(sum(phase["delta"].values()) for phase in (*before, realised)) > 0:
        rows.append(in_all("delta spent", "delta", ".6g"))
    public, expected = realised["public"], ""
    if forecast is not None:
        ψ = forecast["relative_fitness"]
        expected = f"{percent(ψ['median'])} ({percent(ψ['low'])} to {percent(ψ['high'])}; {forecast['kind']})"
    if public is not None:
        within = interval(public["low"], public["high"])
        rows.append(("above the best model", expected, f"{within}, by {counted(public['rows'], 'public row')}"))
        at_best = f"{public['fitness']:.6g}, of {public['least_fitness']:.6g} at best"
        rows.append((f"fitness on the public rows: {error}, with the regularizer", "", at_best))
    if public is not None and (found := public["heterogeneity_diagnosis"]) is not None:
        rows.append(
            ("how unlike owners are", _range(found["assumed_heterogeneity"]), _by_answers(found, "heterogeneity"))
        )
        far = found["public_distance_expected"]
        before = f"{percent(far['value'])} (up to {percent(far['high'])})"
        rows.append(("public rows' best model, above the best", before, _by_answers(found, "public_distance")))
    return Table(("", "forecast", "realised"), tuple(rows))


def _by_answers(found: dict[str, Any], key: str) -> str:
    if found[key] is None:
        return f"not told by these answers: {found[f'{key}_reason']}"
    return f"{_range(found[key])}, by their answers"


def interval(low: float, high: float) -> str:
    """Format a 90 % confidence interval of an error; a low end of 0 or less is left out."""
    return f"at most {percent(high)}" if low <= 0 else percent_range(low, high)


def _range(estimate: dict[str, Any]) -> str:
    return estimated(estimate["value"], estimate["low"], estimate["high"])


def verdict_fields(verdict: "Verdict") -> dict[str, Any]:
    """Fields of the verdict on a run's file."""
    return {
        "ok": verdict.ok,
        "run": verdict.run,
        "agreement": verdict.agreement.agreement.name,
        "fingerprint": verdict.agreement.fingerprint,
        "authority": verdict.authority,
        "lines": verdict.lines,
        "head": verdict.head,
        "outcome": verdict.outcome,
        "queries": verdict.stepped,
        "answers": verdict.answers,
        "missing": verdict.missing,
        "not_closed": list(verdict.not_closed),
        "unused_sums": list(verdict.unused_sums),
        "rounding": verdict.rounding,
        "theta": None if verdict.model is None else verdict.model.tolist(),
        "problems": [{"line": problem.line, "what": problem.what} for problem in verdict.problems],
    }


def own_part_said(compared: dict[str, Any] | None) -> Iterator[str]:
    """Say how an owner's ledger and a run's file agree (`runs.compared` of a report); nothing without a comparison."""
    if compared is None:
        return
    lost = compared["only_ledger"]
    yield (
        f"{compared['owner']}'s ledger: {counted(compared['alike'], 'answer')} in the run with the same numbers, and {lost} "
        "that the run does not have" + (": paid for, and lost or left out." if lost else ".")
    )


def verified(verdict: "Verdict", model: Path | None, trusted: dict[str, bool]) -> Iterator[str | Table]:
    """Yield the verdict on a run's file, and what it rests on.

    model: the file of its model that was checked too; None: there is none. trusted: whether "agreement" and "authority" are
    the reader's own (True), or the file's.
    """
    if not verdict.ok:
        yield from (printable(str(problem)) for problem in verdict.problems)
        wrong = counted(len(verdict.problems), "problem")
        yield f"\nThis run is not what it says: {wrong}. Use nothing of it, and ask the learner for the file as it wrote it."
        return
    agreement = verdict.agreement
    yield Table.of(
        ("owner", "signed answers", "counted, not here"),
        [*verdict.answers.items()],
        lambda one: (one[0], str(one[1]), str(verdict.missing.get(one[0], 0))),
        "owners",
    )
    if agreement.summed:
        yield in_sums(agreement)
    exactly = "to the bit" if verdict.rounding == 0 else f"up to rounding ({verdict.rounding:.1g})"
    yield (
        f"{counted(verdict.lines, 'line')}, unbroken. The learner signed every query, and each owner every one of its answers. "
        f"The {counted(verdict.stepped, 'step')} {'follows' if verdict.stepped == 1 else 'follow'} from the agreement and the "
        f"answers, {exactly}."
    )
    if verdict.run_state.kept:
        yield f"The run stopped after its pilot: {printable(verdict.run_state.kept)}."
    elif verdict.stepped < agreement.queries:
        yield (
            f"It did not go on to the {agreement.queries:,} steps that were agreed on at most; when a run ends is the "
            "learner's to choose, or owners were away."
        )
    if quiet := [owner["name"] for owner in verdict.record.get("owners", ()) if owner.get("too_little_noise")]:
        yield (
            f"Answers nearer to the median of the others' than the agreed noise allows: {printable(listed(quiet), 300)}. "
            "Either noise is missing there, or others' answers were made from these. Where the learner shows no owner's "
            "answer to another, an honest owner is named in at most one of a million runs; whether it does, this run cannot "
            "say."
        )
    if model is None:
        yield "There is no model beside it."
    else:
        yield f"The model in {model} is theirs: every value in the file follows from the run or was signed in it."
        if verdict.record["realised"]["public"] is not None or verdict.record["forecast"] is not None:
            yield (
                "Its error and its forecast (record.realised.public, record.forecast) are from the learner's public rows, on "
                "the learner's word, which it signed."
            )
    if verdict.missing:
        yield "Counted, not here: answers that the owner paid for and the run does not have: lost, or left out."
    if verdict.not_closed:
        yield (
            f"No signed count at the end from {printable(listed(verdict.not_closed), 300)}: whether the last answers are all "
            "here, only the owner's ledger says (--ledger, or copriv report)."
        )
    if verdict.unused_sums:
        turns = printable(listed([*map(str, verdict.unused_sums)]), 300)
        yield (
            f"Given up with all answers that a sum takes: turn {turns}. The learner may have seen their sum and not used it, "
            "or an owner was lost before the sum was known; this run cannot say which."
        )
    if not trusted["agreement"]:
        yield "The agreement is the file's own: with --agreement it is held against yours."
    if not trusted["authority"]:
        yield (
            f"The authority is the file's own ({verdict.authority[:16]}…): with --keys or --authority it is held against "
            "yours."
        )
    if unnamed := agreement.n_owners - len(agreement.owner_keys):
        yield (
            f"The agreement does not name the keys of {unnamed:,} of its owners: whoever has the authority's key could have "
            "answered in their names."
        )
    yield f"Head {verdict.head}"
