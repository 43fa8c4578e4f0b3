"""What a page shows of a line of a run's record: who and which question; never a certificate, a signature or a number of θ."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from copriv.agreement import Agreement
from copriv.agreement.participants import Participants

if TYPE_CHECKING:
    from copriv.network.store import Event

SHOWN = ("turn", "owner", "reason", "error", "answered", "sequence", "talk", "k")
LISTS = ("owners", "dropped")
LONGEST, MOST = 400, 1000
"""Characters of a text, and names of a list."""


def teller(agreement: Agreement) -> Callable[["Event"], dict[str, Any]]:
    """A function from a line to what is shown of it; `owners` of a question are those that are asked.

    A file may say anything: numbers and texts come out, whatever went in.
    """
    members = [[agreement.owner_names[i] for i in group] for group in Participants.of(agreement).members]

    def told(event: "Event") -> dict[str, Any]:
        said: dict[str, Any] = {key: _plain(event.data[key]) for key in SHOWN if key in event.data}
        for key in LISTS:
            if isinstance(names := event.data.get(key), list):
                said[key] = [str(name)[:LONGEST] for name in names[:MOST]]
        participant = event.data.get("participant")
        if event.kind == "asked" and type(participant) is int and 0 <= participant < len(members):
            said["owners"] = members[participant]
        return {"number": event.number, "time": event.time, "kind": str(event.kind), **said}

    return told


def _plain(value: Any) -> int | float | str:
    return value if isinstance(value, int | float) else str(value)[:LONGEST]
