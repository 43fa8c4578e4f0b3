"""One of a thing is told as one."""

from types import SimpleNamespace
from typing import Any

from copriv.agreement import Agreement
from copriv.display.run import promises, verified

ONE: dict[str, Any] = {
    "agreement": {"name": "one", "rule": "A2", "horizon": 1, "answers": 1, "step": 0.3},
    "model": {"loss": "squared", "regularization": 0.1, "gradient_bound": 2.0},
    "data": {"feature_bound": 1.0},
    "owner": [{"name": "bank", "records": 60, "epsilon": 1.0}],
}


def test_one_gradient_leaves() -> None:
    (said,) = promises(Agreement.of(ONE), "bank")
    assert said.startswith("at most 1 mean gradient of the squared loss")
    several = Agreement.of({**ONE, "agreement": {**ONE["agreement"], "horizon": 3, "answers": 3}})
    assert promises(several, "bank")[0].startswith("at most 3 mean gradients of the squared loss")


def test_one_step_follows() -> None:
    agreement = Agreement.of(ONE)
    verdict: Any = SimpleNamespace(
        agreement=agreement, ok=True, rounding=0, lines=1, stepped=1, answers={"bank": 1}, missing={}, record={},
        not_closed=(), unused_sums=(), authority="a" * 64, run="r" * 64, head="h" * 64, outcome="finished",
        run_state=SimpleNamespace(kept=""),
    )  # fmt: skip
    parts = verified(verdict, None, {"agreement": True, "authority": True})
    said = " ".join(part for part in parts if isinstance(part, str))
    assert "1 line, unbroken" in said
    assert "The 1 step follows from the agreement" in said
