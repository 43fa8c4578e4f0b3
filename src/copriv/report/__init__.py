"""The report for a data-protection officer: who, what left, under which guarantee, what is spent, and what is not covered.

`document` makes it, as JSON values (`copriv.report/1`); no record is read. The owner's spending is read from the ledger alone,
the guarantee from the agreement, who asked and what arrived from the run's file, and the forecast of the run from the learner's
model file (`evidence`). Where two of them differ, the report lists a problem first.

`page` renders a document as one HTML file, and adds no numbers: words first, then numbers, then symbols; without scripts, other
files or network. Jinja2 escapes every value, so that no name can become markup.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from copriv import __version__, formatting
from copriv.agreement import Agreement
from copriv.display.run import interval, promises, verdict_fields
from copriv.errors import CoprivError, InvalidInput, UsageError
from copriv.forecast.result import check_is_of
from copriv.formatting.numbers import counted, percent, plain_number
from copriv.formatting.sanitize import printable
from copriv.network.model import Model
from copriv.privacy.ledger.lines import RunTotals, Totals, text_of
from copriv.report.evidence import LedgerRead, Paid, RunFile, RunRead, not_covered, read_ledger, read_run

__all__ = ["RunFile", "document", "page"]

SCHEMA = "copriv.report/1"
_MOST_PROBLEMS = 20
"""Most problems of one run's file that are listed; their number is given."""
_ADDRESSES = ("http://", "https://", "file://", "./", "../", "/")


def document(
    ledger: str | Path,
    runs: Sequence[RunFile] = (),
    agreements: Sequence[Agreement] = (),
    *,
    authority: bytes | None = None,
    witness: str | Path | None = None,
    head: str | None = None,
    docs: str = "",
    now: datetime | None = None,
    unfinished: bool = False,
    forecast: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A report on an owner's ledger, as values that are JSON (schema `copriv.report/1`, docs/reference/command-line.md).

    runs: files of runs that this ledger paid for. agreements: the owner's own copies, with which the runs are compared.
    authority: the consortium's certificate, PEM, from the owner's keys. witness: the folder of those keys.
    head: a head of the ledger that was kept elsewhere. docs: address of copriv's documentation, for links.
    unfinished: accept the model file of a run that did not finish, which is otherwise refused.
    forecast: the JSON of the forecast of one of these agreements, whose verdict the report repeats.
    Raises LedgerFailed, LedgerDamaged, StoreFailed or InvalidInput for a file that is not of the expected kind. What is *wrong*
    with a ledger or a run is listed in the report under "problems", and "ok" is then false.
    """
    if docs and not docs.startswith(_ADDRESSES):
        raise UsageError(f"--docs: must be an address or a path that begins with {', '.join(_ADDRESSES)}, not {docs!r}")
    held = read_ledger(Path(ledger), head, None if witness is None else Path(witness))
    own = {agreement.fingerprint: agreement for agreement in agreements}
    totals, owner = held.totals, held.totals.owner
    files: dict[str, RunRead] = {}
    for file in runs:
        if file.model is not None:
            Model.load(file.model, unfinished, for_use=False)
        read = read_run(file, owner, authority)
        files[read.verdict.run] = read
    problems, entries = list[dict[str, str]](), []
    if held.problem:
        problems.append(_problem("ledger", held.problem))
    for run in totals.runs:
        entry, wrong = _run(held, run, files.get(run), own)
        entries.append(entry)
        problems += wrong
    problems += [
        _problem(
            "run",
            f"run {printable(run)[:8]}: the ledger knows nothing of it, and its file has {len(file.answers)} answers of "
            f"{printable(owner) or 'this owner'}: it is another owner's ledger, or an older copy",
        )
        for run, file in files.items()
        if run not in totals.runs
    ]
    return {
        "schema": SCHEMA,
        "ok": not problems,
        "made_at": (now or datetime.now(UTC)).astimezone(UTC).isoformat(timespec="seconds"),
        "version": __version__,
        "owner": printable(owner),
        "problems": problems,
        "ledger": {
            "file": printable(held.name),
            "whole": not held.problem,
            "problem": printable(held.problem, 1000),
            "lines": totals.lines,
            "identity": totals.identity,
            "remark": printable(totals.remark),
            "head": totals.head,
            "first": held.first,
            "last": held.last,
            "against_witness": held.against_witness,
            "against_head": held.against_head,
        },
        "budget": {
            "epsilon": _budget(totals.lifetime, totals.spent, totals.ahead, totals.before),
            "delta": _budget(totals.lifetime_delta, totals.spent_delta),
        },
        "meaning": meaning(totals.committed, totals.spent_delta),
        "meaning_of_several": _of_several(totals, entries),
        "runs": entries,
        "joining": None if forecast is None else _joining(forecast, agreements, owner),
        "not_covered": not_covered(held, entries),
        "docs": docs,
    }


def _joining(forecast: Mapping[str, Any], agreements: Sequence[Agreement], owner: str) -> dict[str, Any]:
    """Repeat the verdict of a forecast, and that for this owner. Raises InvalidInput where it is of none of the agreements."""
    if not agreements:
        raise UsageError("--forecast: give the agreement that it is of, by --agreement")
    for place, agreement in enumerate(agreements, start=1):
        try:
            check_is_of(agreement, forecast)
        except InvalidInput:
            if place == len(agreements):
                raise
        else:
            break
    try:
        mine = next((one for one in forecast["owners"] if one["name"] == owner), None)
        verdict = mine and {key: mine[key] for key in ("verdict", "probability")}
        return {"goal": forecast["goal"], "verdict": printable(forecast["verdict"], 3000), "owner": verdict}
    except (KeyError, TypeError):
        raise InvalidInput("--forecast: not the JSON of a forecast; give what copriv forecast wrote") from None


def meaning(epsilon: Fraction, delta: Fraction, records: int = 1) -> dict[str, float | None]:
    """Express (ε, δ) as odds and probabilities, for a person with k = `records` units: kε, and δ(e^{kε} − 1)/(e^ε − 1).

    `factor`: most by which the odds between two hypotheses about the person can change; None beyond floats. `guess`: largest
    probability to guess right between two equally likely hypotheses, (e^ε + δ)/(1 + e^ε), since a test's advantage is at most
    (e^ε − 1 + 2δ)/(e^ε + 1) (Kairouz, Oh and Viswanath 2015). `rare`: largest posterior probability of a hypothesis with a
    prior of 1 in 100, where the guarantee does not fail. `fails`: δ. Several units are replaced one after the other (Dwork and
    Roth 2014, Theorem 2.2 and its proof, for δ summed over the steps).
    """
    ε, δ = float(records * epsilon), float(delta)
    if records > 1 and δ > 0:
        δ = min(δ * sum(math.exp(min(j * float(epsilon), 700.0)) for j in range(records)), 1.0)
    guess = (1.0 + δ * math.exp(-ε)) / (1.0 + math.exp(-ε))
    return {
        "epsilon": ε,
        "factor": math.exp(ε) if ε < 700 else None,
        "guess": min(guess, 1.0),
        "rare": 1.0 / (1.0 + 99.0 * math.exp(-ε)),
        "fails": δ,
    }


def _of_several(totals: Totals | RunTotals, runs: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Apply `meaning` to a person with several records; None where no run is known to protect single records.

    `records` in the result: the most of one person by these runs' agreements; 2, as an example, where one gives no number.
    """
    known = [run["agreement"] for run in runs if run["agreement"] is not None]
    most = [terms["unit_records"] for terms in known if terms["unit"] == "record"]
    if not most:
        return None
    agreed = None not in most
    k = max(most) if agreed else 2
    return {"records": k, "agreed": agreed, **meaning(totals.committed, totals.spent_delta, k)}


def _budget(lifetime: Fraction, spent: Fraction, ahead: Fraction = Fraction(0), before: Fraction = Fraction(0)) -> Any:
    left = max(lifetime - spent - ahead, Fraction(0))
    parts = {"lifetime": lifetime, "spent": spent, "ahead": ahead, "before": before, "left": left}
    return {**{name: float(part) for name, part in parts.items()},
            "exactly": {name: text_of(part) for name, part in parts.items()}}  # fmt: skip


def _run(
    held: LedgerRead, run: str, file: RunRead | None, own: dict[str, Agreement]
) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """Describe one run of the ledger by all evidence, and list its problems."""
    paid, totals, owner = held.runs.get(run, Paid()), held.totals.runs[run], held.totals.owner
    agreement = own.get(totals.fingerprint)
    wrong: list[str] = []
    if file is not None and file.verdict.agreement.fingerprint != totals.fingerprint:
        wrong.append("its file is under another agreement than the ledger was charged for")
    elif agreement is None and file is not None:
        agreement = file.verdict.agreement
    if agreement is not None and owner not in agreement.owner_names:
        wrong.append("the agreement does not name this ledger's owner")
        agreement = None
    entry: dict[str, Any] = {
        "run": printable(run),
        "fingerprint": printable(totals.fingerprint),
        "began": paid.began,
        "first_charge": paid.first,
        "last_charge": paid.last,
        "epsilon": _budget(totals.epsilon, totals.spent, totals.committed - totals.spent),
        "delta": _budget(totals.delta, totals.spent_delta),
        "meaning": meaning(totals.committed, totals.spent_delta),
        "answers": {
            "most": totals.cap,
            "paid": totals.charged,
            "released": totals.answered,
            "lost": totals.charged - totals.answered,
        },
        "meaning_of_several": None,
        "agreement": None,
        "file": None,
        "compared": None,
        "beside": None,
    }
    if agreement is not None:
        terms = agreement.terms_of(owner)
        agreed = (Fraction(terms.epsilon), Fraction(terms.delta), sum(phase.answers for phase in agreement.phases))
        if (totals.epsilon, totals.delta, totals.cap) != agreed:
            wrong.append("its budget or number of answers in the ledger is not that of the agreement")
        so_far = totals.spent, totals.spent_delta, totals.charged
        charged = [totals.in_phase(phase, so_far)[2] for phase in range(1, len(agreement.phases) + 1)]
        if (totals.spent, totals.spent_delta) != agreement.spent_after(owner, charged):
            wrong.append("what the ledger was charged is not what the agreement takes for so many answers")
        entry["agreement"] = _promised(agreement, owner, totals.fingerprint in own)
        entry["agreement"]["proofs"] = _proofs(agreement, charged)
        entry["meaning_of_several"] = _of_several(totals, [entry])
        entry["beside"] = _beside(agreement, owner, totals, file)
    if file is None:
        return entry, [_of_run("run", run, what) for what in wrong]
    entry["file"], entry["compared"] = _checked(file), _compared(held, paid, file)
    words = {
        "different": "answers in its file have other numbers than the ledger's",
        "only_run": "answers in its file, signed as this owner's, are not in the ledger",
        "other_point": "queries in its file were charged at another point",
        "other_head": "answers in its file came with a head that the ledger never had",
    }
    wrong += [f"{entry['compared'][key]} {what}" for key, what in words.items() if entry["compared"][key]]
    where = "run"
    if not file.verdict.ok:
        where = "file"  # so these problems say nothing against the ledger
        many = len(file.verdict.problems)
        said = "; ".join(str(problem) for problem in file.verdict.problems[:_MOST_PROBLEMS])
        wrong.append(f"its file is not what it says ({many} in all): {said}")
    return entry, [_of_run(where, run, what) for what in wrong]


def _promised(agreement: Agreement, owner: str, own_copy: bool) -> dict[str, Any]:
    """Describe what an agreement asks of this owner, and its guarantee."""
    terms, data, mechanism = agreement.terms_of(owner), agreement.data, agreement.mechanism
    shared_epsilon, shared_delta = agreement.shared_budget(terms)
    try:
        what, noise = mechanism.leaves(agreement, terms)
        scale: float | None = mechanism.scale(agreement, terms)
        promise = printable(mechanism.promise(agreement, terms)) if agreement.summed else None
    except CoprivError:  # terms that are still "auto", under which nobody can have answered
        what, noise, scale, promise = "", "", None, None
    longest = 2000  # characters of what an owner promised in a phase, which names every range that was signed
    if agreement.has_pilot:
        what, noise, scale = "; ".join(printable(one, longest) for one in promises(agreement, owner)), "", None
        if agreement.summed:  # each phase has a promise of its own
            what, promise = "", what
    return {
        "name": printable(agreement.agreement.name),
        "own_copy": own_copy,
        "keys_named": agreement.owner_keys.keys() == set(agreement.owner_names),
        "mechanism": mechanism.name,
        "guarantee": "approximate" if terms.delta > 0 else "pure",
        "unit": "person" if terms.unit else "record",
        "unit_records": terms.unit_records,
        "unit_column": terms.unit and printable(terms.unit),
        "units": terms.records,
        "what": printable(what, 2 * longest),
        "noise": printable(noise),
        "noise_scale": scale,
        "colluding": agreement.colluding if agreement.summed else None,
        "promise": promise,
        "overlap": terms.overlap,
        "shared_epsilon": shared_epsilon,
        "shared_delta": shared_delta,
        "loss": agreement.model.loss,
        "rule": agreement.agreement.rule,
        "owners": [printable(name) for name in agreement.owner_names],
        "features": data.features and [printable(name) for name in data.features],
        "target": data.target and printable(data.target),
        "dataset": data.dataset and printable(data.dataset),
        "proof": f"proofs/{mechanism.name}.md",
    }


def _proofs(agreement: Agreement, answers: Sequence[int]) -> list[dict[str, str]]:
    """Name the pages of the proofs of the phases in which there were answers, or of all where there were none."""
    used = [phase for phase, many in zip(agreement.phases, answers, strict=True) if many or not any(answers)]
    names = [phase.mechanism.name for phase in used] + ["phases"] * agreement.has_pilot
    return [{"mechanism": name, "page": f"proofs/{name}.md"} for name in names]


def _checked(file: RunRead) -> dict[str, Any]:
    """Describe the run's file: the result of `copriv verify`, and who asked."""
    said = verdict_fields(file.verdict)
    keys = ("ok", "problems", "lines", "head", "outcome", "queries", "answers", "authority", "rounding")
    return {
        "file": printable(file.name),
        **{key: said[key] for key in keys},
        "problems": [one | {"what": printable(one["what"])} for one in said["problems"][:_MOST_PROBLEMS]],
        "answers": {printable(name): count for name, count in said["answers"].items()},
        "kept": printable(file.verdict.run_state.kept),
        "model": bool(file.verdict.record),
        "asked_by": list(file.askers),
        "own_certificate": file.own,
    }


def _compared(held: LedgerRead, paid: Paid, file: RunRead) -> dict[str, int]:
    """Count where the owner's answers in the run's file agree with those in its ledger, and where not."""
    both = file.answers.keys() & paid.answers.keys()
    alike = sum(file.answers[q][0] == paid.answers[q] for q in both)
    return {
        "alike": alike,
        "different": len(both) - alike,
        "only_ledger": len(paid.answers) - len(both),
        "only_run": len(file.answers) - len(both),
        "other_point": sum(paid.queries.get(q, point) != point for q, point in file.points.items()),
        "other_head": sum(head not in held.heads for _, head in file.answers.values()),
    }


def _beside(agreement: Agreement, owner: str, totals: RunTotals, file: RunRead | None) -> list[dict[str, Any]]:
    """Compare what was agreed, forecast and realised in a run, each a number or None; `source` is that of the realised one.

    Spending is from the ledger, the number of queries from the run's file. ψ and the forecast are in the learner's model file
    only: from public rows, and signed by the learner, but not checked. The forecast is of the run after a pilot, and what the
    pilot took is added to it. Nothing is taken from a model file with problems.
    """
    record: Any = file and file.verdict.record
    stepped = file and file.verdict.stepped
    most = [phase.answers for phase in agreement.phases]
    ε, δ = agreement.spent_after(owner, most)

    def forecast(*place: str) -> float | None:
        return _number(record, "forecast", *place)

    def with_pilot(key: str) -> float | None:
        expected = forecast(key, owner)
        return None if expected is None else expected + sum(one[key][owner] for one in record.get("phases", [])[:-1])

    estimate, *interval, rows_of_estimate = (
        _number(record, "realised", "public", key) for key in ("estimate", "low", "high", "rows")
    )
    typical, *band = (forecast("relative_fitness", key) for key in ("median", "low", "high"))
    last = agreement.phases[0 if file and file.verdict.run_state.kept else -1]
    rows: tuple[tuple[Any, ...], ...] = (
        ("queries", last.queries, forecast("queries"), stepped, "run"),
        ("answers", sum(most), with_pilot("answers"), totals.charged, "ledger"),
        ("epsilon", float(ε), with_pilot("epsilon"), float(totals.spent), "ledger"),
        ("delta", float(δ), with_pilot("delta"), float(totals.spent_delta), "ledger"),
        ("error", None, typical, estimate, "learner"),
    )
    compared = [dict(zip(("what", "agreed", "forecast", "realised", "source"), row, strict=True)) for row in rows]
    compared[-1]["band"] = None if None in band else band
    compared[-1]["interval"] = None if None in interval else interval
    compared[-1]["rows"] = rows_of_estimate
    return compared


def _number(record: Any, *place: str) -> float | None:
    """Read the number at a path of keys in a record that another party wrote; None where there is no finite number."""
    for key in place:
        record = record.get(key) if isinstance(record, dict) else None
    if type(record) in (int, float) and -1e300 <= record <= 1e300:
        return float(record)
    return None


def _problem(where: str, what: str) -> dict[str, str]:
    return {"where": where, "what": printable(what, 2000)}


def _of_run(where: str, run: str, what: str) -> dict[str, str]:
    return _problem(where, f"run {printable(run)[:8]}: {what}")


_BESIDE = {
    "queries": "queries of the whole run",
    "answers": "answers of this owner",
    "epsilon": "budget taken from this owner (ε)",
    "delta": "probability of failure taken from this owner (δ)",
    "error": "error of the model, above that of the best one; forecast: of the typical run",
}
_SOURCES = {
    "ledger": "the ledger",
    "run": "the run's file, replayed",
    "learner": "the learner's signed word, from public rows",
}


def _sure(share: float) -> str:
    """Format a probability rounded up, with two digits of its complement: 0.9999546 → "99.9955 %"."""
    missing = 100.0 * (1.0 - share)
    digits = 1 if missing < 1e-7 else max(1, 1 - math.floor(math.log10(missing)))
    up = math.ceil(round(100.0 * share * 10**digits, 3)) / 10**digits
    return f"{up:.{digits}f}".rstrip("0").rstrip(".") + " %"


def _factor(most: float | None) -> str:
    """Format the largest factor of odds; None: beyond floats."""
    if most is None or most > 1e6:
        return "a factor that can be more than a million"
    return f"at most {plain_number(most)}"


def page(document: dict[str, Any]) -> str:
    """Render a report as one self-contained HTML document."""
    templates = Environment(
        loader=PackageLoader("copriv.report"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    templates.filters.update(
        number=lambda value: "–" if value is None else f"{value:.4g}",
        time=lambda text: f"{text[:10]} {text[11:16]} UTC" if text else "–",  # ISO 8601; a ledger's times are UTC
        percent=percent,
        sure=_sure,
        factor=_factor,
        interval=lambda ends: interval(*ends),
        times=lambda count: {1: "once", 2: "twice"}.get(count, f"{count} times"),
        count=counted,
    )  # fmt: skip
    style = files(formatting).joinpath("page.css").read_text(encoding="utf-8")
    return templates.get_template("report.html").render(
        document=document, style=style, beside=_BESIDE, sources=_SOURCES
    )
