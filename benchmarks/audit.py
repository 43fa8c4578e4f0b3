"""What answers of real owners prove of ε, beside what is claimed: `python -m benchmarks.audit [--page]`.

For each mechanism, neighbours that move its answers as far as we know how; all that leaves in a run is drawn under both by
whole owners (ledger, clipping, OpenDP's noise), and an attacker who knows everything but the noise tells them apart. The
bound, its scores and the owners are those of tests/statistical. Then the same with owners that are wrong in one way each:
these must be above their claim. Exit code 1 where one is not, or where a right one is. `--page` writes
docs/reference/privacy-audit.md. What is found is kept in a file, one JSON a line, and a run that is started again goes on.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))  # as pytest does

from copriv.model.records import Records  # noqa: E402
from statistical import mechanism_cases as cases  # noqa: E402
from statistical import test_mechanism_mutations as of_mechanisms  # noqa: E402
from statistical import test_privacy_mutations as of_the_default  # noqa: E402
from statistical.mechanism_battery import lower_bound  # noqa: E402
from statistical.mechanism_cases import CASES, FIRM, Case  # noqa: E402
from statistical.privacy_audit import Unit, dataset  # noqa: E402

PAGE = ROOT / "docs" / "reference" / "privacy-audit.md"
CONFIDENCE = 1e-6
"""The probability that any bound of the table is above its true ε."""


@dataclass(frozen=True, eq=False)
class Audit:
    """A mechanism's case, two data sets that differ in one unit, and why no other two are thought to tell more."""

    case: Case
    units: tuple[Unit, Unit]
    what: str
    why: str

    @property
    def pair(self) -> tuple[Records, Records]:
        stay = [rows([x], 1.0) for x in np.random.default_rng(5).normal(size=(cases.N - 1, cases.P))]
        one, other = (dataset([*stay, unit]) for unit in self.units)
        return one, other

    @property
    def claim(self) -> str:
        delta = f", δ = {self.case.delta:g}" if self.case.delta else ""
        return f"{self.case.epsilon:g}{delta}"


@dataclass(frozen=True)
class Found:
    """What so many transcripts of each neighbour prove of ε at the least."""

    audit: Audit
    draws: int
    least: float
    wrong: str = ""

    @property
    def right(self) -> bool:
        """At or below the claim, or above it where the owner is wrong."""
        return (self.least > self.audit.case.epsilon) == bool(self.wrong)


def rows(features: list[object], target: float) -> Unit:
    """One unit: a row for each list of features, all with the same target."""
    x = np.array(features, dtype=float)
    return x, np.full(len(x), target)


LONG, SPREAD = [100.0, 0.0], [100.0, 100.0]
OPPOSITE = rows([LONG], 1.0), rows([LONG], -1.0)


def _of_gradients(name: str) -> list[Audit]:
    case = CASES[name]
    few = case if name == "laplace-composed" else replace(case, answers=1)  # one answer of it is not composed
    return [
        Audit(
            case, OPPOSITE, f"a gradient at the bound, turned round; answers: {case.answers}",
            "the mean moves by all of 2Ξ/n, in one number",
        ),
        Audit(
            few, (rows([SPREAD], 1.0), rows([SPREAD], -1.0)), f"the same, in all numbers alike; answers: {few.answers}",
            "as far in the mechanism's own norm, by all numbers together",
        ),
        Audit(
            replace(few, persons=True), (rows([LONG] * 4, 1.0), rows([LONG], -1.0)),
            f"a person of four rows for one of one row; answers: {few.answers}",
            "as far, and by rows that must share one weight",
        ),
    ]  # fmt: skip


def _of_models(firm: Case, case: Case) -> list[Audit]:
    turned = rows([[1.0, 0.0]], 3.0), rows([[1.0, 0.0]], -3.0)
    return [
        Audit(
            firm, turned, "slopes at their limits, opposite; firm anchor",
            "nearly all of ε is for the tilt, which moves by 2Ξ/n",
        ),
        Audit(case, turned, "the same; weak anchor", "as far, at the weight of curvature that plans choose"),
        Audit(
            case, (rows([[1.0, 0.0]], 0.0), rows([[0.0, 0.0]], 0.0)), "a row with curvature for one without; weak anchor",
            "the determinant differs as far as it can, and the model shrinks where the row is",
        ),
    ]  # fmt: skip


AUDITS = [
    *(audit for name in ("laplace", "laplace-composed", "gaussian") for audit in _of_gradients(name)),
    Audit(
        CASES["statistics"], (rows([LONG], 1.0), rows([[0.0, 100.0]], -1.0)), "another row, another target",
        "gradient and second moments both move by all that they can",
    ),
    Audit(
        CASES["statistics"], (rows([[100.0, -100.0]], 1.0), rows([[0.0, 100.0]], 1.0)), "a row off the axes for one on an axis",
        "the gradient moves by all that it can, and products of two columns, which count twice, by most",
    ),
    Audit(
        CASES["moments"], (rows([[1.0, 0.0]], 3.0), rows([[1.0, 0.0]], -3.0)), "slopes at their limits, opposite",
        "the gradient moves by all of 2Ξ/n; second moments that differ as well would move less",
    ),
    Audit(
        CASES["moments"], (rows([[1.0, 0.0]], 3.0), rows([[-0.8, 0.6]], 3.0)), "another row, at an angle",
        "gradient and second moments both move; the gradient falls short",
    ),
    Audit(
        CASES["lengths"], (rows([LONG], 1.0), rows([[0.1, 0.0]], 0.3)), "another length, another size of the target",
        "two shares of each histogram move by all that they can",
    ),
    Audit(
        CASES["histograms"], (rows([LONG], 1.0), rows([[0.1, -0.5]], 1.0)), "another value in every column",
        "two shares of each histogram move by all that they can",
    ),
    Audit(
        CASES["pilot"], (rows([LONG], 1.0), rows([[1.0, 0.0]], -1.0)), "a long gradient for a short one, turned round",
        "the gradient moves by all of 2Ξ/n, and both counts by two bins",
    ),
    *_of_models(FIRM["objective"], CASES["objective"]),
    *_of_models(FIRM["objective with delta"], CASES["objective with delta"]),
]  # fmt: skip
"""Every pair whose bound stands on the page."""

Wrong = Callable[[pytest.MonkeyPatch], None]
OF_MECHANISMS, OF_THE_DEFAULT = of_mechanisms.MUTATIONS, of_the_default.MUTATIONS
WRONG: list[tuple[str, Wrong, tuple[str, ...]]] = [
    (
        "half the noise", OF_MECHANISMS["half the noise"].make,
        ("laplace", "laplace-composed", "gaussian", "statistics", "moments", "lengths", "histograms", "pilot", "objective"),
    ),
    (
        "one draw for all coordinates", OF_THE_DEFAULT["the same draw for all coordinates"].make,
        ("laplace", "laplace-composed", "statistics"),
    ),
    (
        "the bound not enforced", OF_MECHANISMS["clipping forgotten"].make,
        ("laplace", "laplace-composed", "gaussian", "statistics"),
    ),
    ("the bound not enforced", OF_MECHANISMS["slopes of moments not clipped"].make, ("moments",)),
    ("composition forgotten", OF_MECHANISMS["shares of one answer less"].make, ("laplace",)),
    ("composition forgotten", OF_MECHANISMS["composition counts one answer less"].make, ("laplace-composed", "gaussian")),
]  # fmt: skip
"""What is wrong, the version of the package that is, and the mechanisms it is tried on."""
TRIED = [
    (name, make, next(one for one in AUDITS if one.case.name == mechanism))
    for name, make, of in WRONG
    for mechanism in of
]
"""Each wrong version with the first pair of each of its mechanisms."""


def audited(audit: Audit, draws: int, wrong: str = "") -> Found:
    """Transcripts of each neighbour, a fifth of which choose the event that is counted in the others."""
    alpha = CONFIDENCE / len(AUDITS) / 4  # two scores, the better of which stands, and two limits each
    return Found(audit, draws, lower_bound(audit.case, draws, 0.2, alpha, audit.pair, learns=True), wrong)


def seen(name: str, make: Wrong, audit: Audit, draws: int) -> Found:
    """The same of a wrong version."""
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        make(patch)
        return audited(audit, draws, name)


def page(found: list[Found], minutes: float) -> str:
    """Markdown."""
    right, wrong = ([one for one in found if bool(one.wrong) is is_wrong] for is_wrong in (False, True))
    most = max(2 * one.draws for one in right)
    bounds = "\n".join(
        f"| {one.audit.case.name} | {one.audit.what} | {one.audit.why} | {2 * one.draws:,} | {one.audit.claim} | "
        f"{max(one.least, 0.0):.3f} |"
        for one in right
    )
    caught = "\n".join(
        f"| {one.wrong} | {one.audit.case.name} | {2 * one.draws:,} | {one.audit.claim} | {one.least:.3f} | "
        f"{'yes' if one.right else 'NO'} |"
        for one in wrong
    )
    return f"""# What an attacker learns, measured

Written by `python -m benchmarks.audit --page` on {datetime.now(UTC):%Y-%m-%d}, with OpenDP {version("opendp")}.
It took {minutes:.0f} minutes of one processor.

Two data sets that differ in one unit, chosen to be as easy to tell apart as we know how, are given to real owners (ledger,
clipping, weights, OpenDP's noise). An attacker who knows everything but the noise sees whole transcripts and tells which data
set they are of: by the likelihood ratio, and by trees that know nothing of the mechanism; the better stands. *At least* is
what this proves of ε, at the claimed δ where there is one. All {len(right)} bounds hold together with a confidence of 1 − 10⁻⁶
(Clopper and Pearson; the event is chosen on a fifth of the draws, and counted on the others). A bound stays below the true ε
because draws are finite, and where a proof is not tight.

The owner has {cases.N} units of {cases.P} numbers, Ξ = {cases.BOUND:g}, and a half of the agreed ε and δ, as κ = {cases.KAPPA}:
the claims are of this half. δ is far larger than anybody should agree to, for what happens once in a million draws cannot be
measured by {most:,}. Draws are of both neighbours together, half each; of models, which take longer, there are fewer.

| mechanism | one unit is replaced: | why it is among the worst | draws | claimed ε | at least |
| --- | --- | --- | --- | --- | --- |
{bounds}

A model's noise is made for two factors that are never at their worst together, and with δ for slopes that turn round with the
noise ([objective](../proofs/objective.md)), as these do not: there a bound is far below its claim.

## Wrong versions, which must be above their claim

The package with one line broken, in the same audit, with the first pair of each mechanism.

| broken | mechanism | draws | claimed ε | at least | caught |
| --- | --- | --- | --- | --- | --- |
{caught}

A model with δ is not among them, for its bound is far below its claim; the shift of its tilt is held by
`tests/statistical/test_transcripts.py::test_a_model_whose_epsilon_is_half_as_much_again_is_seen`. Many more wrong versions, and
what sees each, are in `tests/statistical/test_privacy_mutations.py`, `tests/statistical/test_mechanism_mutations.py` and the
tables of [the proofs](../proofs/index.md).
"""


def main(words: list[str] | None = None) -> int:
    """Audit after audit, then the page; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.audit", description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=200_000, help="of both neighbours together")
    parser.add_argument("--models", type=int, default=40_000, help='the same, where the mechanism is "objective"')
    parser.add_argument("--broken", type=int, default=20_000, help="the same, of each wrong version")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "audit.jsonl", help="what was found so far")
    parser.add_argument("--page", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    given = parser.parse_args(words)
    found = [
        _kept(given.out, one, (given.models if one.case.mechanism == "objective" else given.draws) // 2)
        for one in AUDITS
    ]
    found += [_kept(given.out, first, given.broken // 2, name, make) for name, make, first in TRIED]
    if given.page:
        minutes = sum(line["seconds"] for line in _lines(given.out)) / 60
        PAGE.write_text(page(found, minutes), encoding="utf-8")
    return 0 if all(one.right for one in found) else 1


def _kept(out: Path, audit: Audit, draws: int, wrong: str = "", make: Wrong | None = None) -> Found:
    """From the file where it is there, and else found now and put there."""
    key = [audit.case.name, audit.what, wrong, draws]
    for line in _lines(out):
        if line["key"] == key:
            return Found(audit, draws, line["least"], wrong)
    begun = time.process_time()
    one = audited(audit, draws) if make is None else seen(wrong, make, audit, draws)
    seconds = time.process_time() - begun
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps({"key": key, "least": one.least, "seconds": seconds}) + "\n")
    print(f"{key}: at least {one.least:.3f} of {audit.claim}, {seconds:.0f} s", flush=True)
    return one


def _lines(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()] if out.exists() else []


if __name__ == "__main__":
    sys.exit(main())
