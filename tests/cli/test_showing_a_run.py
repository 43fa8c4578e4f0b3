"""A run on the screen: what owners say is shown as words, and what cannot be shown does not end the run."""

import io
from collections.abc import Iterator
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import pytest
from rich.table import Table

from copriv.agreement import Agreement
from copriv.cli.console import complain, log, out, plain_table
from copriv.cli.following import Following
from copriv.network.messages import Refusal
from copriv.network.run_state import Conductor
from copriv.network.store import RunStore
from copriv.network.turns import Conduct
from unsigned import unsigned

EVIL = "[/nothing] \x1b[2K\x1b[1A\x1b]0;owned\x07 1 of 1 spent :bomb:\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def conductor() -> Iterator[Conductor]:
    agreed = Agreement.of(
        {
            "agreement": {"rule": "A2", "horizon": 6, "answers": 3, "step": 0.5},
            "model": {"loss": "squared", "regularization": 0.01, "theta_max": 10.0, "gradient_bound": 20.0},
            "data": {"components": 2, "feature_bound": 0.0},
            "owner": [{"name": name, "records": 2000, "epsilon": 1.0} for name in ("a", "b")],
        }
    )
    store = RunStore.create(":memory:", agreed, 2)
    yield Conductor(store, Conduct(begin="any"), 0.0, unsigned())
    store.close()


def refuse(conductor: Conductor, reason: str) -> None:
    conductor.joined("a", 0.0)
    query: Any = dict(conductor.take_outbox())["a"]
    conductor.refused("a", Refusal(query.identity, "query", reason), 1.0)


def test_a_refusal_is_shown_as_it_was_written_and_moves_nothing(conductor: Conductor) -> None:
    with redirect_stderr(Terminal()) as terminal, Following(conductor, None):
        refuse(conductor, EVIL)
    shown = terminal.getvalue()
    assert "[/nothing]" in shown, "markup is words"
    assert "\\x1b[2K" in shown
    assert "\x1b]0;" not in shown, "no title of theirs"
    assert "\x07" not in shown
    assert ":bomb:" in shown


def test_a_screen_that_fails_is_given_up_and_the_run_goes_on(
    conductor: Conductor, monkeypatch: pytest.MonkeyPatch
) -> None:
    with redirect_stderr(Terminal()) as terminal, Following(conductor, None):
        monkeypatch.setattr(Following, "_table", lambda self: 1 / 0)
        refuse(conductor, "no")
    assert conductor.parties["a"].out == "no"
    assert "not shown any more" in terminal.getvalue()


def test_events_that_cannot_be_written_are_given_up_and_the_run_goes_on(
    capsys: pytest.CaptureFixture[str], conductor: Conductor
) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    with Following(conductor, Path("/dev/full")):
        refuse(conductor, "no")
    assert conductor.parties["a"].out == "no"
    assert "not written any more" in capsys.readouterr().err


def test_every_line_is_safe(capsys: pytest.CaptureFixture[str]) -> None:
    log(EVIL)
    complain(EVIL)
    table: Table = plain_table("owner", "")
    table.add_row("a", "[/nothing] :bomb:")
    out().print(table)
    captured = capsys.readouterr()
    assert "\x1b" not in captured.err
    assert captured.err.count("[/nothing]") == 2
    assert "[/nothing] :bomb:" in captured.out
