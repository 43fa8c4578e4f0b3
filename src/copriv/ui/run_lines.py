"""What a page shows of a line of a run's record: who and which question; never a certificate, a signature or a number of θ."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from copriv.agreement import Agreement
from copriv.talkers import Talkers

if TYPE_CHECKING:
    from copriv.network.store import Event

SHOWN = ("turn", "owner", "owners", "dropped", "reason", "error", "answered", "sequence", "talk", "k")


def teller(agreement: Agreement) -> Callable[["Event"], dict[str, Any]]:
    """A function from a line to what is shown of it; `owners` of a question are those that are asked."""
    members = [[agreement.owner_names[i] for i in group] for group in Talkers.of(agreement).members]

    def told(event: "Event") -> dict[str, Any]:
        said = {key: event.data[key] for key in SHOWN if key in event.data}
        if event.kind == "asked" and event.data.get("talker") in range(len(members)):
            said["owners"] = members[event.data["talker"]]
        return {"number": event.number, "time": event.time, "kind": event.kind, **said}

    return told
