"""A run on the screen: who has answered what while it goes on, and realised beside forecast once it is over."""

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.live import Live
from rich.table import Table

from copriv.cli.show.console import aside, log, plain_table
from copriv.cli.show.words import percent

if TYPE_CHECKING:
    from copriv.network.run_state import Conductor
    from copriv.network.store import Event


def owners_table(owners: list[dict[str, Any]]) -> Table:
    """What each owner answered and spent."""
    with_delta = any(owner["delta"] > 0 for owner in owners)
    columns = (
        "owner",
        "records",
        "answers",
        "of",
        "lost",
        "epsilon spent",
        *["delta spent"] * with_delta,
        "noise scale",
    )
    table = plain_table(*columns)
    for owner in owners:
        table.add_row(
            owner["name"],
            f"{owner['records']:,}",
            str(owner["answers"]),
            str(owner["most_answers"]),
            str(owner["lost"]),
            f"{owner['spent']:.6g}",
            *[f"{owner['spent_delta']:.6g}"] * with_delta,
            f"{owner['noise_scale']:.3g}",
        )
    return table


def compared(realised: dict[str, Any], expected: dict[str, Any] | None) -> Table:
    """Both as a table for a terminal."""
    table = plain_table("", "forecast", "realised")

    def row(name: str, key: str, form: str) -> None:
        before = "" if expected is None else format(sum(expected[key].values()), form)
        table.add_row(name, before, format(sum(realised[key].values()), form))

    table.add_row("queries", "" if expected is None else str(expected["queries"]), str(realised["queries"]))
    row("answers, of all owners", "answers", "d")
    row("epsilon spent, of all owners", "epsilon", ".6g")
    if sum(realised["delta"].values()) > 0:
        row("delta spent, of all owners", "delta", ".6g")
    ψ, public = "", realised["public"]
    if expected is not None:
        band = expected["relative_fitness"]
        kind, (low, high) = expected["kind"], (percent(band["low"]), percent(band["high"]))
        ψ = f"{percent(band['median'])} ({low} to {high}; {kind})"
    if public is not None:
        told = f"by {public['rows']:,} public rows"
        within = f"at most {percent(public['high'])}" if public["low"] <= 0 else (
            f"{percent(public['low'])} to {percent(public['high'])}"
        )  # fmt: skip
        table.add_row("above the best model", ψ, f"{within}, {told}")
        table.add_row(
            "fitness on the public rows", "", f"{public['fitness']:.6g}, of {public['least_fitness']:.6g} at best"
        )
    if public is not None and public["heterogeneity_diagnosis"] is not None:
        diagnosis = public["heterogeneity_diagnosis"]
        u, before, far = (diagnosis[key] for key in ("heterogeneity", "assumed_heterogeneity", "public_distance"))
        table.add_row("how unlike owners are", _range(before), f"{_range(u)}, by their answers")
        table.add_row(
            "public rows' best model, above the best",
            f"{percent(far['expected'])} (up to {percent(far['expected_high'])})",
            f"{_range(far)}, by the answers",
        )
    return table


def _range(of: dict[str, Any]) -> str:
    return f"{percent(of['value'])} ({percent(of['low'])} to {percent(of['high'])})"


class Following:
    """Events as JSON lines in a file, and on a terminal a table of who has answered what.

    A run is worth more than its picture: what cannot be shown or written is given up with a word, and the run goes on.
    """

    def __init__(self, conductor: "Conductor", events: Path | None) -> None:
        self._conductor, self._path = conductor, events
        self._live: Live | None = None
        self._stream: Any = None

    def __enter__(self) -> None:
        if self._path is not None:
            # - is the usual name of a stream where a file is expected.
            self._stream = sys.stderr if str(self._path) == "-" else self._path.open("a", encoding="utf-8")
        if sys.stderr.isatty() and self._stream is not sys.stderr:
            self._live = Live(self._table(), console=aside(soft_wrap=False), refresh_per_second=8, transient=True)
            self._live.start()
        self._conductor.store.on_event = self._event

    def __exit__(self, *_: object) -> None:
        self._conductor.store.on_event = None
        self._give_up_the_table()
        self._give_up_the_file()

    def _event(self, event: "Event") -> None:
        try:
            if self._stream is not None:
                self._stream.write(event.to_json() + "\n")
                self._stream.flush()
        except (OSError, ValueError) as error:
            log(f"events are not written any more: {error}")
            self._give_up_the_file()
        try:
            if self._live is not None:
                self._live.update(self._table())
        except Exception as error:  # whatever a terminal does, or rich makes of it
            self._give_up_the_table()
            log(f"the run is not shown any more: {error!r}")

    def _give_up_the_file(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None and stream is not sys.stderr:
            with suppress(OSError):  # what was not written cannot be written on closing either
                stream.close()

    def _give_up_the_table(self) -> None:
        live, self._live = self._live, None
        with suppress(Exception):
            if live is not None:
                live.stop()

    def _table(self) -> Table:
        conductor = self._conductor
        queries = f"{conductor.stepped} of {conductor.agreement.queries}"
        table = plain_table("owner", f"answers ({queries} queries)", "", left=1)
        for name, party in conductor.parties.items():
            state = party.out or ("here" if party.there else "away")
            table.add_row(name, f"{party.answered} of {conductor.agreement.answers}", state)
        return table
