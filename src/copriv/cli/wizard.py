"""The questions of `copriv init`, step by step, and the agreement that the answers make.

Every question has a default where there can be one, says what it is for, and is asked again where the answer cannot stand;
nothing is written before the end. What is hard to decide (rule, step, number of answers, bounds) is left to the plan. Columns
can be read from a table: of a public one their kinds, levels and ranges are proposed (`copriv.data.proposal`), of a private one
their names. A column is declared on one line: "0..120; missing 50", "I < II < III", "east, west" or "yes/no".
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from copriv.agreement import Agreement
from copriv.agreement.data_terms import declared_schema
from copriv.data.proposal import LARGEST, Kind, Proposal, as_declared, proposals
from copriv.data.tables import column_names, read_table
from copriv.errors import AgreementError, InvalidInput, UsageError
from copriv.formatting.numbers import counted, yes_or_no
from copriv.losses import Logistic, Squared
from copriv.terms import can_be_told_apart

Ask = Callable[[str, str | None], str]
"""Show a question with its default (None without one), and return the typed text."""

Say = Callable[[str], None]
_T = TypeVar("_T")
_NOTES = {
    "rule": "planned from public rows: copriv forecast says which is best",
    "public_rows": "the learner's own sample, never among the owners' records",
    "public": "rows that anybody may read: a random sample of all owners' records",
    "strata": "says whose each public row is",
    "bounds": "what may stand in a column; from its meaning, never from private records",
    "clamp": "a value out of bounds counts as the nearest bound; in other columns it is refused",
    "ordered": "levels that stand in order",
    "missing": "what a missing value counts as",
    "heterogeneity": "how unlike the owners are; see docs/reference/agreement-file.md",
    "epsilon": "the owner's whole budget",
    "unit": "the column that says whose a row is: epsilon protects a person, not a row",
    "unit_records": "rows of one person that count",
}
_WITHOUT_PUBLIC_ROWS = _NOTES | dict[str, str](
    rule="planned from the declared columns: copriv forecast says what is chosen",
    pilot="first, privately, how long rows are and where the target lies; the run is planned by it",
    public_rows="there are no rows that anybody may read",
)


def taken(question: str, default: str | None) -> str:
    """The default answer, for use without a terminal. Raises UsageError for a question without a default."""
    if default is None:
        raise UsageError(f"{question}: has no usual answer; give it on a terminal")
    return default


def asked(
    ask: Ask, say: Say, table: Path | None = None, is_public: bool | None = None, *, found: Say | None = None,
    strata: str = "none",
) -> Agreement:  # fmt: skip
    """Ask all questions and return the agreement. Raises AgreementError where the answers contradict each other.

    table, is_public: the table whose columns are proposed, and whether anybody may read it; None: ask.
    found: shows the proposed columns; `say` when None. strata: default for the column that names owners.
    Raises DataError for a table that cannot be read.
    """
    steps = _Steps(ask, say, found or say, strata)
    say("Step by step to an agreement. Enter takes what stands in brackets; Ctrl-C leaves, and nothing is written.\n")
    say("1. What is it called?")
    name = ask("Name", "our consortium")
    source = "table"
    if table is not None:
        say(f"\n2. Which columns? Those of {table}.")
    else:
        say(
            "\n2. Which data? Try it on 9,857 real loans (the example), declare columns of your own, or have them read from"
        )
        say("   a table.")
        source = steps.one_of("Data", ("example", "own", "table"), "example")
    data: dict[str, Any] = {"dataset": "lending-embedded", "components": 10, "public_rows": 500}
    loss, person, names = Squared.name, {}, []
    if source != "example":
        data, loss = steps.own() if source == "own" else steps.from_table(table, is_public)
        person = steps.person(data)
        names = steps.names
    say("\n3. Who takes part? A budget (epsilon) says how much an owner's answers may tell about any one record:")
    say("   1 is usual and careful, 0.1 very careful, 10 generous. It is spent once, over the whole run.")
    owners = [{**owner, **person} for owner in steps.owners(names)]
    if len(owners) > 1 and "strata" not in data:
        say("\n4. Are the owners' records alike, as if dealt from one pile? If you don't know,")
        say("   say so: to call them alike is the worse guess.")
        alike = steps.one_of("Alike", ("unknown", "alike", "a little unlike", "very unlike"), "unknown")
        levels: dict[str, Any] = {"alike": 0.0, "a little unlike": (0.005, 0.05), "very unlike": (0.05, 1.0)}
        if alike in levels:
            data["heterogeneity"] = levels[alike]
    pilot = dict[str, Any](pilot="auto") if data.get("public_rows") == 0 else {}
    return Agreement.of(
        {
            "agreement": {"name": name, "rule": "auto", "communication": "any", **pilot},
            # The loans' θ has numbers near 1,000, which a larger c shrinks at a cost.
            "model": {
                "loss": loss,
                "regularization": 1e-6 if source == "example" else 1e-5,
                "intercept": source != "example",
            },
            "data": data,
            "owner": owners,
        }
    )


def written(agreement: Agreement) -> str:
    """The text of the agreement's file, with a comment on the meaning of each key."""
    document = agreement.model_dump(mode="python", exclude_none=True, exclude_unset=True, by_alias=True)
    notes = _WITHOUT_PUBLIC_ROWS if agreement.data.declared_only else _NOTES
    lines = ["# What all parties sign up to, before any private record is touched."]
    lines += ["# Every key: docs/reference/agreement-file.md"]
    for head, table in Agreement.lines(document):
        lines += ["", head]
        for key, line in table.items():
            if (key == "horizon" and agreement.agreement.rule == "auto") or line == "ordered = []":
                continue  # chosen by the plan, or implied by the categories
            lines.append(f"{line:<40}  # {notes[key]}" if key in notes else line)
    return "\n".join(lines) + "\n"


class _Steps:
    """Questions, each asked again until its answer can stand."""

    def __init__(self, ask: Ask, say: Say, found: Say, strata: str) -> None:
        self._ask, self._say, self._found, self._strata = ask, say, found, strata
        self.names: list[str] = []
        """Names of owners in the public rows, where a column has them."""

    def _until(self, question: str, default: str | None, read: Callable[[str], _T]) -> _T:
        while True:
            answer = self._ask(question, default)
            try:
                return read(answer.strip())
            except (InvalidInput, AgreementError) as error:
                self._say(f"   {error}")
            except ValueError:
                self._say(f"   {answer!r} is not a number")

    def one_of(self, question: str, known: tuple[str, ...], default: str) -> str:
        """Ask for one of several words, or an unambiguous prefix of one."""

        def read(text: str) -> str:
            found = [one for one in known if one.startswith(text.lower())]
            if text.lower() in known:
                return text.lower()
            if not text or len(found) != 1:
                raise InvalidInput(f"say one of: {', '.join(known)}")
            return found[0]

        return self._until(f"{question} ({' / '.join(known)})", default, read)

    def own(self) -> tuple[dict[str, Any], str]:
        """Ask for the columns of the user's own table; returns them and a loss that suits the target."""
        features = self._until("Columns that predict (names, with commas between)", None, _names)
        target = self._until("Column to predict", None, partial(_new, taken=features))
        return self._declared([Proposal(one) for one in (*features, target)], target)

    def from_table(self, path: Path | None, is_public: bool | None) -> tuple[dict[str, Any], str]:
        """As `own`, for the columns of a table in a file. Raises DataError where `path` cannot be read."""
        names = column_names(path) if path is not None else []
        if path is None:
            path, names = self._until(
                "The table (.csv or .parquet)", None, lambda text: (Path(text), column_names(text))
            )
        if is_public is None:
            is_public = self.one_of("May anybody read its every row", ("yes", "no"), "no") == "yes"
        if not is_public:
            self._say(
                "   Of a private table only the names of columns are read: its least and largest values and its levels are"
            )
            self._say("   private, also when they are rounded.")
            self._say(f"   Its columns: {', '.join(names)}.")
            found = [Proposal(one) for one in names]
            target = self._until("Column to predict", None, partial(_among, names=names))
            others = [one for one in names if one != target]
            features = self._until("Columns that predict", ", ".join(others), partial(_several, names=others))
            return self._declared([one for one in found if one.name in (*features, target)], target)
        table = read_table(path)
        found = list(proposals(table))
        naming = ["none", *(one.name for one in found if one.kind != "bounds")]
        if self._strata not in naming:
            there = ", ".join(naming[1:13]) or "none"
            raise InvalidInput(f"--strata: {path} has no column {self._strata!r} of names; of names it has {there}")
        self._found(f"   Proposed from its {counted(len(table), 'row')}, ranges rounded outward:")
        for one in found:
            self._found(f"      {one.name}: {said_of(one) if one.kind else f'left out, for it {one.why_not}'}")
        return self._chosen(found, naming, str(path))

    def _chosen(self, found: Sequence[Proposal], naming: Sequence[str], public: str) -> tuple[dict[str, Any], str]:
        """Ask which of the columns found in public rows to use, and how to declare them."""
        usable = [one for one in found if one.kind is not None]
        aims = [one.name for one in usable if one.predictable]
        if len(usable) < 2 or not aims:
            raise InvalidInput(
                f"{public}: needs a number or two classes to predict, without missing values, and one more column"
            )
        whose = self._until(
            "Column that says which owner's each row is like, if one does", self._strata,
            partial(_among, names=naming),
        )  # fmt: skip
        if whose != "none":
            self.names = [str(level) for one in found if one.name == whose for level in one.value]
            usable = [one for one in usable if one.name != whose]
            aims = [one for one in aims if one != whose]
        target = self._until("Column to predict", aims[-1], partial(_among, names=aims))
        others = [one.name for one in usable if one.name != target]
        features = self._until("Columns that predict", ", ".join(others), partial(_several, names=others))
        chosen = [one for one in usable if one.name in (*features, target)]
        if self.one_of("Declare them as proposed", ("yes", "one by one"), "yes") == "yes":
            data, loss = self._finished(chosen, target)
        else:
            data, loss = self._declared(chosen, target, public=public)
        return {**data, "public": public, **({} if whose == "none" else {"strata": whose})}, loss

    def _declared(
        self, columns: Sequence[Proposal], target: str, public: str | None = None
    ) -> tuple[dict[str, Any], str]:
        """Ask for the declaration of each column, with its proposal as the default if there is one."""
        self._say(
            "   For every column, what may stand in it: from the meaning of the column, never by looking at private records."
        )
        self._say(
            "   0..120, or 2015-01-01..2024-12-31, or yes/no, or levels: east, west; levels in order: I < II < III."
        )
        self._say("   Where values may be missing, what they count as: 0..120; missing 50.")
        made = []
        for one in sorted(columns, key=lambda one: one.name == target):
            if one.name == target:
                self._say(f"   {target}: a number with its bounds, or two classes.")
            default = said_of(one, one.name == target) if one.kind else None
            read = partial(read_column, of=one, target=one.name == target)
            made.append(self._until(f"{one.name}: 0..120, or levels such as yes, no", default, read))
        if any(one.kind in ("bounds", "dates") for one in made):
            self._say(
                "   A value out of its range can count as the nearest end; else the owner's whole table is refused."
            )
            usual = yes_or_no(any(one.clamp for one in columns))
            clamp = self.one_of("Count values out of range as the nearest end", ("yes", "no"), usual) == "yes"
            made = [replace(one, clamp=clamp) for one in made]
        data, loss = self._finished(made, target)
        if public is None:
            self._say(
                "   Without rows that anybody may read, all is planned from the declared columns and a first private"
            )
            self._say("   answer of each owner (a pilot).")
            rows = self._ask(
                "A file of public rows with these columns (.csv or .parquet, may come later; or none)", "public.csv"
            )
            data |= {"public_rows": 0} if rows.strip().lower() == "none" else {"public": rows}
        return data, loss

    def _finished(self, columns: Sequence[Proposal], target: str) -> tuple[dict[str, Any], str]:
        data = {**as_declared(columns, target), "components": 0}
        return data, Logistic.name if target in data.get("categories", {}) else Squared.name

    def person(self, data: dict[str, Any]) -> dict[str, Any]:
        """Ask how persons with several rows are protected: the column that names them, and the rows of one that count."""
        self._say(
            "\n   May one person have several rows? Epsilon protects one row: with k rows of one person, it is k epsilon"
        )
        self._say("   for that person; unless a column says whose each row is, and then it protects the person.")

        def most(text: str) -> int | None:
            return None if text.lower() == "unknown" else _whole(text, 10**6)

        rows = self._until("Rows of one person, at most (a number, or unknown)", "unknown", most)
        if rows is None:
            return {}
        if rows == 1:
            return {"unit_records": 1}
        declared = [*data["features"], data["target"]]
        column = self._until("Column that says whose a row is, if one does", "none", partial(_new, taken=declared))
        if column == "none":
            self._say(
                f"   Then somebody with {rows:,} rows has {rows:,} times the epsilon below: choose it with that in mind."
            )
            return {"unit_records": rows}
        self._say("   The numbers of records below are then numbers of persons.")
        return {"unit": column, "unit_records": rows}

    def owners(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """Ask for name, records and budget of each owner, with those of the previous owner as defaults.

        names: those in the public rows.
        """
        owners: list[dict[str, Any]] = []
        before: dict[str, Any] = {"records": 3000, "epsilon": 1.0}
        for i in range(self._until("How many owners", str(len(names) or 3), partial(_whole, most=200))):
            called = [owner["name"] for owner in owners]
            usual = next((one for one in names if one not in called), f"owner-{i + 1}")
            name = self._until(f"Owner {i + 1}: name", usual, partial(_new, taken=called))
            most = partial(_whole, most=10**12)
            records = self._until(f"{name}: how many records", str(before["records"]), most)
            epsilon = self._until(f"{name}: budget (epsilon)", f"{before['epsilon']:g}", _budget)
            before = {"name": name, "records": records, "epsilon": epsilon}
            owners.append(before)
        return owners


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names or len(set(names)) < len(names):
        raise InvalidInput("name one column or more, each once")
    return names


def _among(text: str, names: Sequence[str]) -> str:
    if text not in names:
        raise InvalidInput(f"say one of: {', '.join(names[:12])}{', …' if len(names) > 12 else ''}")
    return text


def _several(text: str, names: Sequence[str]) -> list[str]:
    """Parse comma-separated names; names that contain commas are accepted only as the whole default."""
    return list(names) if text == ", ".join(names) else [_among(name, names) for name in _names(text)]


def _new(text: str, taken: Sequence[str]) -> str:
    if not text or text in taken:
        raise InvalidInput("it needs a name" if not text else f"{text} is there already; take another name")
    try:
        return can_be_told_apart(text)
    except ValueError as error:
        raise InvalidInput(f"this name {error}") from None


def _whole(text: str, most: int) -> int:
    number = int(text.replace(",", "").replace("_", ""))
    if not 1 <= number <= most:
        raise InvalidInput(f"give a whole number from 1 to {most:,}")
    return number


def _budget(text: str) -> float:
    number = float(text)
    if not 1e-12 <= number <= 1e12:
        raise InvalidInput("give a number above 0, such as 1")
    return number


def said_of(column: Proposal, target: bool = False) -> str:
    """The one-line declaration of a column, as `read_column` parses it."""
    if target and column.classes:
        return ", ".join(column.classes)
    if column.kind == "bounds":
        said = "..".join(map(_plain, column.value))
    elif column.kind == "dates":
        said = "..".join(column.value)
    elif column.kind == "booleans":
        said = "yes/no"
    else:
        said = (" < " if column.ordered else ", ").join(column.value)
    return said if column.missing is None else f"{said}; missing {_plain(column.missing)}"


def _plain(value: object) -> str:
    """A number in its fewest digits, a truth as yes or no, a text as it is."""
    if isinstance(value, bool):
        return yes_or_no(value)
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def read_column(text: str, of: Proposal, target: bool) -> Proposal:
    """Parse the declaration of a column; the proposal's own line returns the proposal, whatever characters its levels have.

    target: whether the column is to be predicted, so that it is a number or has two classes. Raises InvalidInput, or ValueError
    for text that is not a number.
    """
    if of.kind and text == said_of(of, target):
        return of
    said, _, rest = (part.strip() for part in text.partition(";"))
    kind, value = _kind_and_value(said, target)
    missing: str | float | None = None
    if rest:
        if not rest.lower().startswith("missing "):
            raise InvalidInput("after the semicolon, write what a missing value counts as: 0..120; missing 50")
        missing = rest[len("missing ") :].strip()
        if kind == "bounds":
            missing = float(missing)
    made = Proposal(of.name, kind, value, ordered="<" in said and kind == "categories", missing=missing)
    other = Proposal(f"not {of.name}", "bounds", (0.0, 1.0))
    declared_schema(as_declared((made, other), of.name if target else other.name))
    return made


def _kind_and_value(text: str, target: bool) -> tuple[Kind, tuple[object, ...]]:
    if text.lower() in ("yes/no", "true/false") and not target:
        return "booleans", ()
    if re.fullmatch(r"\d{4}-\d\d-\d\d\s*\.\.\s*\d{4}-\d\d-\d\d", text) and not target:
        try:
            first, last = (date.fromisoformat(day.strip()).isoformat() for day in text.split(".."))
        except ValueError:
            raise InvalidInput("one of these is not a day; write them as 2015-01-01..2024-12-31") from None
        return "dates", (first, last)
    if ".." in text:
        low, high = (float(part) for part in text.split("..", 1))
        if not -LARGEST <= low < high <= LARGEST:
            raise InvalidInput("the lower bound comes first, and is below the upper one; both are plain numbers")
        return "bounds", (low, high)
    levels = tuple(part.strip() for part in text.split("<" if "<" in text else ",") if part.strip())
    if len(set(levels)) < len(levels):
        raise InvalidInput("name each level once")
    if not text:
        raise InvalidInput(
            f"say what may stand in it: {'bounds as 0..120, or two levels' if target else '0..120, or levels'}"
        )
    if len(levels) < 2 or (target and len(levels) != 2):
        raise InvalidInput(f"write bounds as 0..120, or levels with commas between{' (two of them)' if target else ''}")
    return "categories", levels
