"""`copriv owner serve --ahead`: what it asks of an owner's process."""

from pathlib import Path
from typing import Any

import pytest

from copriv.agreement import Agreement
from copriv.cli import run
from copriv.errors import Unreachable
from copriv.network import agent
from copriv.network.setup import make_consortium, share_out
from copriv.privacy.ledger.create import create_ledger

TERMS = Agreement.of(
    {
        "agreement": {"rule": "A2", "horizon": 8, "answers": 8, "step": 0.01},
        "model": {"loss": "squared", "theta_max": 100.0, "gradient_bound": 2.0},
        "data": {"dataset": "lending-embedded", "public_rows": 100, "components": 3, "feature_bound": 0.0},
        "owner": [{"name": "bank", "records": 100, "epsilon": 1.0}],
    }
)


def test_answers_are_paid_ahead_and_their_noise_is_drawn_on_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A slot is measured with the draw in it, so an answer whose noise waits does not leave earlier: it would wait for nothing.
    asked: list[dict[str, Any]] = []

    def made(*given: Any, **how: Any) -> Any:
        asked.append({"ahead": given[4].ahead, **how})
        raise Unreachable("this is as far as the test goes")

    make_consortium(TERMS, tmp_path / "all")
    (table,) = share_out(TERMS, tmp_path)
    create_ledger(tmp_path / "ledger", "bank", keys=tmp_path / "all" / "bank")
    monkeypatch.setattr(agent, "OwnerAgent", made)
    named = ("--agreement", str(tmp_path / "all" / "agreement.toml"), "--keys", str(tmp_path / "all" / "bank"))
    ended = run(
        ["owner", "serve", *named, "--data", str(table), "--ledger", str(tmp_path / "ledger"), "--ahead", "8"]
    )  # fmt: skip
    assert ended == Unreachable.exit_code
    (found,) = asked
    assert found["ahead"] == 8
    assert not found.get("noise_ahead", False)
