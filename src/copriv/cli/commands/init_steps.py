"""`copriv init` on a terminal: an agreement asked for step by step, with a way back out and nothing written before its end.

Every question has a default, says what it is for, and is asked again where the answer cannot stand. What is hard to decide
(rule, step, number of answers, bounds) is left to the plan.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from copriv.agreement import Agreement
from copriv.errors import AgreementError, InvalidInput
from copriv.losses import Logistic, Squared
from copriv.terms import can_be_told_apart

Ask = Callable[[str, str | None], str]
"""Shows a question with its default (None: there is none), and gives back what was typed."""
Say = Callable[[str], None]

_T = TypeVar("_T")
OWNERS = 200
LARGEST = 1e30
"""Of a bound, as an agreement takes it."""
_HEAD = """# What all parties sign up to, before any private record is touched.
# Every key: docs/reference/agreement-file.md

"""
_EXAMPLE = {"dataset": "lending-embedded", "components": 10, "public_rows": 500}


def asked(ask: Ask, say: Say) -> Agreement:
    """The agreement that the answers make. Raises AgreementError where they contradict each other after all."""
    say("Step by step to an agreement. Enter takes what stands in brackets; Ctrl-C leaves, and nothing is written.\n")
    say("1. What is it called?")
    name = ask("Name", "our consortium")
    say("\n2. Which data? Try it on 9,857 real loans (the example), or declare columns of your own.")
    own = _one_of(ask, say, "Data", ("example", "own"), "example") == "own"
    data, loss = _table(ask, say) if own else (dict(_EXAMPLE), Squared.name)
    say("\n3. Who takes part? A budget (epsilon) says how much an owner's answers may tell about any one record:")
    say("   1 is usual and careful, 0.1 very careful, 10 generous. It is spent once, over the whole run.")
    owners = _owners(ask, say)
    if len(owners) > 1:
        say("\n4. Are the owners' records alike, as if dealt from one pile? If you don't know,")
        say("   say so: to call them alike is the worse guess.")
        alike = _one_of(ask, say, "Alike", ("unknown", "alike", "a little unlike", "very unlike"), "unknown")
        levels: dict[str, Any] = {"alike": 0.0, "a little unlike": (0.005, 0.05), "very unlike": (0.05, 1.0)}
        if alike in levels:
            data["heterogeneity"] = levels[alike]
    return Agreement.of(
        {
            "agreement": {"name": name, "rule": "auto", "communication": "any", "horizon": 1000},
            "model": {"loss": loss, "regularization": 1e-5, "intercept": own},
            "data": data,
            "owner": owners,
        }
    )


def written(agreement: Agreement) -> str:
    """The file, with what the numbers mean."""
    notes = {
        'rule = "auto"': "planned from public rows: copriv forecast says which is best",
        "horizon": "the most queries or rounds",
        "step": "how far the model moves; planned",
        "gradient_bound": "how far one record can move an answer; planned",
        "public_rows": "the learner's own sample, never among the owners' records",
        "heterogeneity": "how unlike the owners are; see docs/reference/agreement-file.md",
        "epsilon": "the owner's whole budget",
    }
    lines = []
    for line in agreement.to_toml().splitlines():
        note = next((said for key, said in notes.items() if line.startswith((key, f"{key} ="))), None)
        lines.append(line if note is None else f"{line:<40}  # {note}")
    return _HEAD + "\n".join(lines) + "\n"


def _table(ask: Ask, say: Say) -> tuple[dict[str, Any], str]:
    """The columns of a table of one's own, and a loss that fits its target."""
    features = _names(ask, say, "Columns that predict (names, with commas between)")
    target = _again(ask, say, "Column to predict", None, lambda text: _new(text, features))
    data: dict[str, Any] = {"features": features, "target": target, "bounds": {}, "categories": {}}
    say(
        "   For every column, what may stand in it: from the meaning of the column, never by looking at private records."
    )
    for column in features:
        _declare(ask, say, data, column)
    say(f"   {target}: a number with its bounds, or two classes.")
    _declare(ask, say, data, target, classes=2)
    public = ask(
        "A file of public rows with these columns, if there is one (.csv or .parquet; may come later)", "public.csv"
    )
    data |= {"public": public, "components": 0}
    data = {key: value for key, value in data.items() if value != {}}
    classes = target in data.get("categories", {})
    return data, Logistic.name if classes else Squared.name


def _declare(ask: Ask, say: Say, data: dict[str, Any], column: str, classes: int | None = None) -> None:
    def read(text: str) -> tuple[str, Any]:
        if ".." in text:
            low, high = (float(part) for part in text.split("..", 1))
            if not -LARGEST <= low < high <= LARGEST:
                raise InvalidInput("the lower bound comes first, and is below the upper one; both are plain numbers")
            return "bounds", (low, high)
        levels = tuple(part.strip() for part in text.split(",") if part.strip())
        if len(set(levels)) < len(levels):
            raise InvalidInput("name each level once")
        if len(levels) < 2 or (classes is not None and len(levels) != classes):
            raise InvalidInput(
                "write bounds as 0..120, or levels with commas between" + (" (two of them)" if classes else "")
            )
        return "categories", levels

    kind, value = _again(ask, say, f"{column}: 0..120, or levels such as yes, no", None, read)
    data[kind][column] = value


def _owners(ask: Ask, say: Say) -> list[dict[str, Any]]:
    many = _again(ask, say, "How many owners", "3", lambda text: _whole(text, 1, OWNERS))
    owners: list[dict[str, Any]] = []
    for i in range(many):
        taken = [owner["name"] for owner in owners]
        before = owners[-1] if owners else {"records": 3000, "epsilon": 1.0}
        name = _again(ask, say, f"Owner {i + 1}: name", f"owner-{i + 1}", partial(_new, taken=taken))
        records = _again(
            ask, say, f"{name}: how many records", str(before["records"]), lambda text: _whole(text, 1, 10**12)
        )
        epsilon = _again(ask, say, f"{name}: budget (epsilon)", f"{before['epsilon']:g}", _budget)
        owners.append({"name": name, "records": records, "epsilon": epsilon})
    return owners


def _again(ask: Ask, say: Say, question: str, default: str | None, read: Callable[[str], _T]) -> _T:
    """Asks until the answer can stand."""
    while True:
        answer = ask(question, default)
        try:
            return read(answer.strip())
        except (InvalidInput, AgreementError) as error:
            say(f"   {error}")
        except ValueError:
            say(f"   {answer!r} is not a number")


def _one_of(ask: Ask, say: Say, question: str, known: tuple[str, ...], default: str) -> str:
    def read(text: str) -> str:
        found = [one for one in known if one.startswith(text.lower())]
        if text.lower() in known:
            return text.lower()
        if not text or len(found) != 1:
            raise InvalidInput(f"say one of: {', '.join(known)}")
        return found[0]

    return _again(ask, say, f"{question} ({' / '.join(known)})", default, read)


def _names(ask: Ask, say: Say, question: str) -> list[str]:
    def read(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",") if name.strip()]
        if not names or len(set(names)) < len(names):
            raise InvalidInput("name one column or more, each once")
        return names

    return _again(ask, say, question, None, read)


def _new(text: str, taken: list[str]) -> str:
    if not text or text in taken:
        raise InvalidInput("it needs a name" if not text else f"{text} is there already; take another name")
    try:
        return can_be_told_apart(text)
    except ValueError as error:
        raise InvalidInput(f"this name {error}") from None


def _whole(text: str, low: int, high: int) -> int:
    number = int(text.replace(",", "").replace("_", ""))
    if not low <= number <= high:
        raise InvalidInput(f"give a whole number from {low:,} to {high:,}")
    return number


def _budget(text: str) -> float:
    number = float(text)
    if not 1e-12 <= number <= 1e12:
        raise InvalidInput("give a number above 0, such as 1")
    return number
