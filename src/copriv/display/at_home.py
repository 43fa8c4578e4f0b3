"""The verdict of an owner at home: whether joining pays on its own records, and the error of each model there."""

from collections.abc import Iterator

from copriv.display import Card, Table
from copriv.display.verdict import of_owner
from copriv.forecast.at_home import NOT_FOR_RELEASE, VerdictAtHome
from copriv.formatting.numbers import percent, plain_number
from copriv.formatting.sanitize import printable

MODELS = {
    "own": "your own model",
    "public": "the public model",
    "common": "the common model",
    "personalized": "the common model, personalized at home",
}


def told(found: VerdictAtHome) -> Iterator[str | Table]:
    """Yield the verdict, a table of the models' errors, and a warning that they are not for release."""
    yield verdict(found)
    if found.errors:
        own = found.errors["own"]
        yield Table.of(
            ("on new records of your kind", "prediction error (mean loss)", "beside your own model"),
            [(name, found.errors[model]) for model, name in MODELS.items() if model in found.errors],
            lambda one: (one[0], plain_number(one[1]), "+" * (one[1] > own) + percent(one[1] / own - 1.0)),
            "models",
        )
        if found.after_run:
            yield "The common model is the released one."
        else:
            yield "The common model is the one that is forecast for the recommended terms, typically."
    yield NOT_FOR_RELEASE


def verdict(found: VerdictAtHome) -> str:
    """Return the verdict as a sentence, in the words of a forecast."""
    if found.on_own is None:
        return f"Whether joining pays is open for {printable(found.name, 60)}: {found.reason}."
    return of_owner(found.name, found.on_own, found.worthwhile)


def card(found: VerdictAtHome) -> Card:
    """Card of the verdict, for notebooks and `print`."""
    return Card(f"At home: {found.name}, {found.records:,} records of its own", tuple(told(found)))
