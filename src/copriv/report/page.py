"""One HTML file of a report: words first, then numbers, then symbols. It needs no other file, no script and no network.

Everything comes from the document (`making.document`); nothing is worked out here but how it is written.
"""

from typing import Any

from copriv.formatting.html import Markup, Piece, element, facts, listed, table, together
from copriv.formatting.html import document as whole
from copriv.report.format import count, link, number, or_none, percent, time, times

_LEAST_PROTECTION = 100.0
"""A factor above which a report says that it protects little."""
_GUARANTEES = {"pure": "holds always", "approximate": "may fail with the small probability that is given"}
_BESIDE = {
    "queries": "queries of the whole run",
    "answers": "answers of this owner",
    "epsilon": "budget taken from this owner (ε)",
    "delta": "probability of failure taken from this owner (δ)",
    "error": "error of the model beyond the best one, relative (ψ); forecast: of the typical run",
}
_SOURCES = {
    "ledger": "the ledger",
    "run": "the run's file, replayed",
    "learner": "the learner's signed word, from public rows",
}


def page(document: dict[str, Any]) -> str:
    """The report as one self-contained HTML document."""
    title = f"What left {document['owner'] or 'this owner'}, and what it costs in privacy"
    main = element(
        "main",
        element("h1", title),
        _verdict(document),
        _in_words(document),
        _budget(document),
        *(_run(run, document["docs"]) for run in document["runs"]),
        _ledger(document["ledger"]),
        _not_covered(document["not_covered"], document["docs"]),
        _symbols(document),
    )
    made = f"Made by copriv {document['version']} on {time(document['made_at'])}, from the ledger and the files named here."
    return whole(title, main, element("footer", element("p", made)))


# Words ------------------------------------------------------------------------------------------------------------


def _verdict(document: dict[str, Any]) -> Markup:
    if document["ok"]:
        checked = "Every line of the ledger continues the one before it, and the sums are right."
        if any(run["file"] is not None for run in document["runs"]):
            checked += " What the runs' files say fits the ledger, and everybody signed their part."
        return element(
            "div", element("p", element("strong", "All that was checked is in order. "), checked), class_="good"
        )
    many = len(document["problems"])
    intro = element("p", element("strong", f"Not in order: {many} problem{'' if many == 1 else 's'}. "),
                    "Until they are explained, take no number below for the whole truth.")  # fmt: skip
    return element("div", intro, listed(*(one["what"] for one in document["problems"])), class_="bad")


def _in_words(document: dict[str, Any]) -> Markup:
    runs, owner = document["runs"], document["owner"] or "This owner"
    answers = sum(run["answers"]["released"] for run in runs)
    paragraphs: list[Markup] = []
    if not runs or answers == 0:
        paragraphs.append(element("p", f"{owner} has given no answer that this ledger knows of."))
    else:
        paragraphs.append(
            element(
                "p",
                f"{owner} answered {times(answers)} in {count(len(runs), 'run')}. No record was among the answers: each is a "
                "summary of all records, blurred with noise that the owner drew itself.",
            )
        )
    units = {run["agreement"]["unit"] for run in runs if run["agreement"] is not None}
    unit = units.pop() if len(units) == 1 and all(run["agreement"] is not None for run in runs) else "record or person"
    if document["budget"]["epsilon"]["spent"] + document["budget"]["epsilon"]["ahead"] > 0:
        paragraphs.append(element("p", _meaning(document["meaning"], unit, "all that ever left under this ledger")))
    left = document["budget"]["epsilon"]["left"]
    lifetime = document["budget"]["epsilon"]["lifetime"]
    share = 0.0 if lifetime == 0 else left / lifetime
    paragraphs.append(
        element(
            "p",
            f"Of what the owner ever allows for these data, {percent(share)} is left. It never comes back, and an answer that "
            "would take more than is left is refused before a record is read.",
        )
    )
    return element("section", element("h2", "In words"), *paragraphs)


def _meaning(meaning: dict[str, Any], unit: str, what: str) -> str:
    factor, guess = meaning["factor"], meaning["guess"]
    changed = "one record had been another" if unit == "record" else f"the data of any one {unit} had been others"
    said = (
        f"Whoever saw {what} would have seen the same with nearly the same probability if {changed}: at most "
        f"{'beyond all numbers' if factor is None else number(factor)} times as likely, or as unlikely. Somebody who has to "
        f"guess which of two things that {unit} is, both equally likely beforehand, is right in at most {percent(guess)} of "
        "cases, where half are right by chance."
    )
    if meaning["fails"] > 0:
        said += f" This may fail with a probability of at most {number(meaning['fails'])}, which the guesses include."
    if factor is None or factor > _LEAST_PROTECTION:
        said += " So large a factor protects little by itself."
    return said


def _not_covered(entries: list[dict[str, str]], docs: str) -> Markup:
    items = (together(element("strong", f"{one['title']}. "), one["what"]) for one in entries)
    more = element(
        "p", "At length: ", link(docs, "explanation/security.md", "what is protected, from whom, and what is not"), "."
    )
    return element("section", element("h2", "What this does not cover"), listed(*items), more)


# Numbers ----------------------------------------------------------------------------------------------------------


def _budget(document: dict[str, Any]) -> Markup:
    ε, δ = document["budget"]["epsilon"], document["budget"]["delta"]
    whole = max(ε["lifetime"], 1e-300)
    bar = element(
        "div",
        *(
            element("span", class_=name, style=f"width:{100 * ε[key] / whole:.3f}%")
            for name, key in (("spent", "spent"), ("ahead", "ahead"))
        ),
        class_="bar", role="img", aria_label=f"{percent(ε['spent'] / whole)} of the budget is spent",
    )  # fmt: skip
    rows: list[tuple[Piece, ...]] = [
        ("allowed for these data, ever", number(ε["lifetime"]), number(δ["lifetime"])),
        ("spent", number(ε["spent"]), number(δ["spent"])),
        ("what is left", number(ε["left"]), number(δ["left"])),
    ]
    if ε["ahead"] > 0:
        rows.insert(2, ("paid for, and not asked for yet", number(ε["ahead"]), "0"))
    if ε["before"] > 0:
        rows.insert(2, ("of what is spent: in a ledger before this one", number(ε["before"]), ""))
    heads = ("", "budget (ε)", "probability of failure (δ)")
    return element("section", element("h2", "The budget"), bar, table("What was spent, and what remains", heads, rows))


def _run(run: dict[str, Any], docs: str) -> Markup:
    agreed = run["agreement"]
    name = "" if agreed is None else f" under “{agreed['name']}”"
    parts: list[Piece] = [element("h2", f"Run {run['run'][:8]}{name}")]
    if run["first_charge"]:
        parts.append(
            element("p", f"From {time(run['first_charge'])} to {time(run['last_charge'])}. {_meaning_of_run(run)}")
        )
    parts += [
        element("h3", "What left"), facts(*_left(run)),
        element("h3", "Who asked"), _asked(run),
    ]  # fmt: skip
    if run["beside"] is not None:
        parts += [element("h3", "What was expected, and what came"), _beside(run["beside"])]
    parts += [element("h3", "How it was checked"), _checked(run)]
    if agreed is not None:
        proof = link(docs, agreed["proof"], f"the proof for “{agreed['mechanism']}”")
        also = link(docs, "proofs/composition.md", "how answers and runs add up")
        parts.append(element("p", "Why this holds: ", proof, "; ", also, "."))
    return element("section", *parts)


def _meaning_of_run(run: dict[str, Any]) -> str:
    agreed = run["agreement"]
    return _meaning(run["meaning"], "record or person" if agreed is None else agreed["unit"], "what left in this run")


def _left(run: dict[str, Any]) -> list[tuple[str, Piece]]:
    agreed, counted = run["agreement"], run["answers"]
    said: list[tuple[str, Piece]] = [
        ("Answers", f"{counted['released']} of at most {counted['most']}"),
    ]
    if counted["lost"]:
        said.append(("Paid for without an answer", f"{counted['lost']}; counted as spent"))
    if agreed is None:
        return [*said, ("Of what", "no agreement was given, so this report cannot say")]
    if agreed["what"]:
        said += [("Of what", agreed["what"]), ("With which noise", agreed["noise"])]
    if agreed["features"] is not None:
        said.append(("From which columns", ", ".join([*agreed["features"], agreed["target"] or ""]).strip(", ")))
    elif agreed["dataset"] is not None:
        said.append(("From which data", agreed["dataset"]))
    unit = f"one person, by the column “{agreed['unit_column']}”" if agreed["unit_column"] else "one record"
    said += [
        ("Who is protected", f"{unit}, replaced by any other; there are {agreed['units']}"),
        ("The guarantee", _GUARANTEES[agreed["guarantee"]]),
    ]
    if agreed["overlap"] > 1:
        said.append(
            (
                "Shared people",
                f"up to {agreed['overlap']} owners may hold one of them, so each spends that part of it only",
            )
        )
    return said


def _asked(run: dict[str, Any]) -> Markup:
    file = run["file"]
    if file is None:
        return element("p", "The run's file was not given. Owners answer only to a certificate of their own authority.")
    if not file["asked_by"]:
        return element("p", "Nobody by a certificate of the authority: see the problems above.")
    rows: list[tuple[Piece, ...]] = [
        (one["name"], element("code", one["sha256"]), time(one["from"]), time(one["until"])) for one in file["asked_by"]
    ]
    heads = ("name", "certificate (SHA-256)", "valid from", "until")
    return together(
        table("Certificates by which queries were signed", heads, rows, numbers=False),
        element("p", "Certified by the authority ", element("code", file["authority"] or "none"), "."),
    )


def _beside(rows: list[dict[str, Any]]) -> Markup:
    written: list[tuple[Piece, ...]] = []
    for row in rows:
        if row["what"] == "delta" and not any(row[key] for key in ("agreed", "forecast", "realised")):
            continue
        forecast = or_none(row["forecast"])
        if row.get("band"):
            forecast += f" ({number(row['band'][0])} to {number(row['band'][1])})"
        written.append(
            (
                _BESIDE[row["what"]],
                or_none(row["agreed"]),
                forecast,
                or_none(row["realised"]),
                _SOURCES[row["source"]],
            )
        )
    heads = ("", "agreed, at most", "forecast, by the learner", "realised", "realised, by")
    return table("Forecast beside realised; – where nobody says a number that was checked", heads, written)


def _checked(run: dict[str, Any]) -> Markup:
    file, compared = run["file"], run["compared"]
    if file is None or compared is None:
        return element("p", "The ledger alone: no file of this run was given.")
    said = [
        f"{file['file']}: {file['lines']} lines, {'unbroken' if file['ok'] else 'with problems'}; the run is "
        f"{file['outcome'] or 'not at its end'}.",
        f"{compared['alike']} of this owner's answers stand in both, number for number.",
    ]
    if file["ok"]:
        said.insert(
            1,
            f"The {file['queries']} steps follow from the agreement and the answers, "
            f"{'to the bit' if file['rounding'] == 0 else 'up to rounding'}, and everybody signed their part.",
        )
    if compared["only_ledger"]:
        said.append(f"{compared['only_ledger']} left this owner and are not in the run's file.")
    said.append(
        "The model beside it is the run's." if file["model"] and file["ok"] else "There is no model of it here."
    )
    return listed(*said)


def _ledger(ledger: dict[str, Any]) -> Markup:
    whole = "whole: every line continues the one before it, and no line overspends"
    against = [
        name
        for name, key in (("its witness beside the keys", "against_witness"), ("a head written down", "against_head"))
        if ledger[key]
    ]
    pairs: list[tuple[str, Piece]] = [
        ("File", ledger["file"]),
        ("Verified", whole if ledger["whole"] else f"NOT whole: {ledger['problem']}"),
        ("Held against", " and ".join(against) or "nothing from elsewhere"),
        ("Lines", f"{ledger['lines']}, from {time(ledger['first'])} to {time(ledger['last'])}"),
        ("Identity", element("code", ledger["identity"])),
        ("Head", element("code", ledger["head"])),
    ]
    if ledger["remark"]:
        pairs.insert(1, ("Made with the remark", ledger["remark"]))
    return element("section", element("h2", "The ledger"), facts(*pairs))


# Symbols ----------------------------------------------------------------------------------------------------------


def _symbols(document: dict[str, Any]) -> Markup:
    ε, δ = document["budget"]["epsilon"]["exactly"], document["budget"]["delta"]["exactly"]
    rows: list[tuple[Piece, ...]] = [
        (name, element("code", ε[key]), element("code", δ[key]))
        for name, key in (("lifetime", "lifetime"), ("spent", "spent"), ("left", "left"))
    ]
    rows += [
        (f"run {run['run'][:8]}", element("code", run["epsilon"]["exactly"]["spent"]),
         element("code", run["delta"]["exactly"]["spent"]))
        for run in document["runs"]
    ]  # fmt: skip
    statement = (
        "For any two tables D and D′ that differ in one unit, and any set S of what may leave: "
        "P(M(D) ∈ S) ≤ e^ε · P(M(D′) ∈ S) + δ, where M is everything that left under this ledger, ε and δ what was spent. "
        "Over answers and runs both add up."
    )
    noise = [
        f"run {run['run'][:8]}: mechanism {agreed['mechanism']}, noise scale {number(agreed['noise_scale'])}, agreement "
        f"{run['fingerprint']}"
        for run in document["runs"]
        if (agreed := run["agreement"]) is not None and agreed["noise_scale"] is not None
    ]
    return element(
        "section", element("h2", "In symbols"), element("p", statement),
        table("Exactly, as fractions", ("", "ε", "δ"), rows), listed(*noise) if noise else None,
        element("p", "Proofs: ", link(document["docs"], "proofs/index.md", "one page for each mechanism"), "."),
    )  # fmt: skip
