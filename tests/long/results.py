"""What the long runs did so far: a file that grows by a line for each stretch, and the page that says it."""

import json
import os
import platform
import subprocess
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "long-run.md"
RESULTS = ROOT / "out" / "long" / "results.jsonl"
AIMS = {"messages": 300_000, "kills": 3_000}
"""On one version of the code."""


@dataclass(frozen=True)
class Stretch:
    """One part of a long run."""

    part: str
    """"messages" or "kills"."""
    what: str
    """To whom, and how: "owner, in memory"."""
    times: int
    seconds: float
    guided: bool = False
    """Whether messages grew by coverage."""
    answered: int = 0
    """Answers that were given, or taken."""
    kinds: dict[str, int] = field(default_factory=dict)
    """Strikes, by what befell."""
    findings: int = 0
    date: str = field(default_factory=lambda: f"{datetime.now(UTC):%Y-%m-%d}")
    machine: str = field(default_factory=lambda: machine())
    code: str = field(default_factory=lambda: code())
    """The commit that it ran on."""

    def append(self, path: Path) -> None:
        """One more line."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as stream:
            stream.write(json.dumps(asdict(self)) + "\n")


def machine() -> str:
    """Where this runs, in words."""
    system = f"{platform.system()} {platform.release().split('-')[0]}"
    return f"{os.cpu_count()} processors ({platform.machine()}), {system}, Python {platform.python_version()}"


@cache
def code() -> str:
    """The commit that is checked out, shortened; with + where code was changed since; "" outside a repository."""
    commit, changed = (
        subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
        for words in (["rev-parse", "--short", "HEAD"], ["status", "--porcelain", "--", "src", "tests"])
    )
    return f"{commit}+" if changed else commit


def read(path: Path) -> list[Stretch]:
    """All stretches so far; none where there is no file."""
    return [Stretch(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def page(every: list[Stretch]) -> str:
    """The page: of the newest version of the code. On several, as it is mended, it is not one long run."""
    version = every[-1].code if every else code()
    stretches = [one for one in every if one.code == version]
    messages = [one for one in stretches if one.part == "messages"]
    kills = [one for one in stretches if one.part == "kills"]
    kinds = sum((Counter(one.kinds) for one in kills), Counter[str]())
    dates = sorted({one.date for one in stretches})
    findings = sum(one.findings for one in stretches)
    return f"""# Long runs: hostile messages, and kills

Written by `python -m tests.long`, which runs for as long as it is told (`--hours 1`, or `--messages 300000 --kills 3000`) and
adds to what it did before on the same version of the code. {_when(dates, stretches)}.
The default tests have a short form of all of it (`tests/long/test_long.py`).

All of it on one version of the code, commit {version}. {_others([one for one in every if one.code != version])}

## Hostile messages

{_sum(messages):,} messages of the {AIMS["messages"]:,} that are aimed at, grown from every valid one; {_guided(messages)}.

| to whom | messages | answers given or taken | seconds |
| --- | --- | --- | --- |
{_rows(messages, lambda many: f"{sum(one.answered for one in many):,}")}

Each message goes to a real owner, with its ledger, or to a real learner, with its store, and what follows is held against an
oracle of its own: who may be answered, what it may cost, what may be taken into the run's file, whose session may end. The
hostile party has its own key, and signs what it likes. At the end of each run its ledger verifies, and its file replays to the
model.

## Kills, and disks that fail

{_sum(kills):,} times of the {AIMS["kills"]:,} that are aimed at.

| what was killed | times | answers that had left | seconds |
| --- | --- | --- | --- |
{_rows(kills, lambda many: f"{sum(one.answered for one in many):,}")}

| what befell | times |
| --- | --- |
{_lines(f"| {kind} | {times:,} |" for kind, times in kinds.most_common())}

After each: the ledger is whole and goes with its witness; no less is spent than what left, and no more than was agreed on; what
left is in the ledger to the bit, and is answered again with the same bits (where the power failed: is paid for); and the
next process goes on from there. Failing disks refuse, slow down, cut writes short or fill up: real ones (a small disk that is
mounted), and ones that the system's calls make believe. A failure of the power takes away what was not flushed, in part or
whole; it, and the clock, are made believe too. Most ledgers lie in memory, where a flush takes no time, one in five on a disk.

## Findings

{_found(findings)}
"""


def _when(dates: list[str], stretches: list[Stretch]) -> str:
    if not dates:
        return "It has not run yet"
    on = ", and on ".join(dict.fromkeys(one.machine for one in stretches))
    return (f"Last run on {dates[-1]}" if len(dates) == 1 else f"Run from {dates[0]} to {dates[-1]}") + f", on {on}"


def _others(stretches: list[Stretch]) -> str:
    done = [_sum([one for one in stretches if one.part == part]) for part in AIMS]
    before = ", ".join(dict.fromkeys(one.code for one in stretches if one.code))
    return f"Not counted here: {done[0]:,} messages and {done[1]:,} kills on other versions ({before or 'none'})."


def _sum(stretches: list[Stretch]) -> int:
    return sum(one.times for one in stretches)


def _guided(messages: list[Stretch]) -> str:
    by_coverage = _sum([one for one in messages if one.guided])
    return f"{by_coverage:,} of them were led by coverage (Atheris), the others grew at random from those that it kept"


def _rows(stretches: list[Stretch], answered: "Counted") -> str:
    by_what: dict[str, list[Stretch]] = {}
    for one in stretches:
        by_what.setdefault(one.what, []).append(one)
    return _lines(
        f"| {what} | {_sum(many):,} | {answered(many)} | {sum(one.seconds for one in many):,.0f} |"
        for what, many in by_what.items()
    )


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(lines)


FOUND = {
    "A query that was not on the learner's disk could leave after a write had failed, and its answer kept the run from "
    "being resumed": "network/test_store_disk.py::"
    "test_after_a_write_that_failed_nothing_leaves_or_is_taken_though_there_is_room_again",
    "With `--ahead`, answers could be given twice for one payment, where the power failed and then a disk failed once while "
    "the ledger was opened": "privacy/test_ledger_file.py::"
    "test_what_was_paid_ahead_is_not_given_twice_where_a_disk_fails_once_after_the_power_did",
    "A disk that failed while a ledger was opened, or a run begun, ended the command with a traceback": "privacy/"
    "test_ledger_file.py::test_a_disk_that_fails_while_a_ledger_is_opened_is_told_in_words",
    "An agreement on a table with bounds could not be forecast": "agreement/test_agreement.py::"
    "test_an_agreement_with_bounds_has_a_hash",
}
"""What these runs found, and the test that it has since."""


def _found(findings: int) -> str:
    said = "\n".join(f"- {what} (`tests/{test}`)." for what, test in FOUND.items())
    now = f"{findings} in what is counted above" if findings else "None in what is counted above"
    return f"{now}. Found before, and mended (stretches in which something was found are left out of the counts):\n\n{said}"


class Counted:
    """How answers of stretches are told."""

    def __call__(self, stretches: list[Stretch]) -> str: ...
