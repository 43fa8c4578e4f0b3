"""An owner that answers, killed again and again: its ledger never says less than what left, and it goes on.

The owner is the real one, with its real noise and ledger, in a process that is forked from one that has imported
everything; whatever it answers goes through a pipe to its parent, which is what "left" means here.
"""

import os
import random
import shutil
import struct
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np

from copriv.errors import BudgetRefused, CoprivError
from copriv.losses import Squared
from copriv.owner import Owner
from copriv.privacy.ledger import AnswerLost
from copriv.privacy.ledger.create import create_ledger
from copriv.privacy.ledger.file import LedgerFile
from copriv.privacy.ledger.lines import Totals
from copriv.privacy.ledger.read import read_lines, verify
from copriv.protocol import Query
from long.parties import NAMES, Finding, agreed, fast_folder, records
from long.strikes import KINDS, OF_POWER, WITH_A_MOUNT, Disk, Flushed, Mount, Strike, strike_from_outside

NAME, ANSWERS, RUNS = NAMES[0], 24, 3
_SAID = struct.Struct("<II3d")
"""Run, number of the query, answer."""
FAILED = 70


def struck_child(
    strike: Strike, work: Callable[[int], int], error: Path, flushed: Flushed | None = None
) -> tuple[int, bytes]:
    """`work` in a forked child, until the strike: its exit code (negative for a signal), and what it wrote to its pipe.

    Whatever copriv raises on purpose is exit code 4, anything else FAILED; what it was stands in the file `error` then.
    """
    heard, says = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(heard)
        code = FAILED
        try:
            Disk(strike, flushed).stand_between(says)
            code = work(says)
        except BaseException as raised:
            code = 4 if isinstance(raised, CoprivError) else FAILED
            with suppress(OSError):
                error.write_text(traceback.format_exc())
        finally:
            os._exit(code)
    os.close(says)
    strike_from_outside(strike, pid, heard)
    said = b""
    while piece := os.read(heard, 65536):
        said += piece
    os.close(heard)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), said


class Ground:
    """One ledger, from its first charge until its lifetime budget is spent."""

    def __init__(self, folder: Path, ahead: int) -> None:
        self.folder, self.ahead = folder, ahead
        self.ledger, self.keys = folder / "ledger", folder / "keys"
        create_ledger(self.ledger, NAME, self.keys)
        self.flushed = Flushed(self.ledger, next(self.keys.glob("*.witness")))
        self.left: dict[tuple[int, int], set[bytes]] = {}
        """Answers that left, by run and query: more than one only where the first was lost with its line, and paid for."""
        self.over = self.power_failed = False
        self.agreed = agreed(answers=ANSWERS, horizon=ANSWERS)
        self.fingerprint = self.agreed.fingerprint

    def struck(self, strike: Strike, mount: Mount | None = None) -> str:
        """One process that answers until the strike; what became of it."""
        if mount is not None:
            mount.begin(strike)
        code, said = struck_child(strike, self._serve, self.folder / "error", self.flushed)
        if mount is not None:
            mount.end(strike)
        for run, number, *gradient in _SAID.iter_unpack(said[: len(said) // _SAID.size * _SAID.size]):
            self.left.setdefault((run, number), set()).add(struct.pack("<3d", *gradient))
        if strike.kind in OF_POWER and code < 0:
            self.flushed.power_fails(random.Random(strike.seed))
            self.power_failed = True
        self._check(strike, code)
        self.over = code == 0
        return "ended" if code == 0 else "killed" if code < 0 else "refused"

    def _check(self, strike: Strike, code: int) -> None:
        """What must hold after anything."""
        error = self.folder / "error"
        if code not in (0, 4, -9) or (code == 4 and not strike.may_refuse):
            raise Finding(f"after {strike}: exit code {code}: {error.read_text() if error.exists() else ''}")
        totals = verify(self.ledger, witness=self.keys)
        answered = self._answered()
        for (run, number), answers in self.left.items():
            inside = answered.get(f"{run}-{number}")
            if not self.power_failed and (inside is None or {inside} != answers):
                raise Finding(f"after {strike}: an answer to {run}-{number} left, and is not in the ledger")
        self._check_spent(strike, totals)

    def _check_spent(self, strike: Strike, totals: Totals) -> None:
        each = Fraction(1, ANSWERS)
        left = Counter[int]()
        for (run, _), answers in self.left.items():
            left[run] += len(answers)
        for run, number in left.items():
            held = totals.runs.get(f"run-{run}")
            if held is None or held.committed < number * each:
                raise Finding(f"after {strike}: {number} answers of run {run} left, and {held} was spent")
            if held.charged > ANSWERS or held.committed > 1:
                raise Finding(f"after {strike}: run {run} overspent: {held}")
        if totals.committed > RUNS:
            raise Finding(f"after {strike}: {totals.committed} of {RUNS} spent")

    def _answered(self) -> dict[str, bytes]:
        return {line.identity: bytes.fromhex(line.content) for line in read_lines(self.ledger) if line.kind == "answer"}

    # The owner's process ------------------------------------------------------------------------------------------

    def _serve(self, says: int) -> int:
        again = random.choice(sorted(self.left)) if self.left else None
        with LedgerFile.open(self.ledger, NAME, Fraction(RUNS), ahead=self.ahead, witness=self.keys) as file:
            for run in range(1, RUNS + 1):
                ledger = file.run(self.fingerprint, f"run-{run}", Fraction(1), ANSWERS)
                owner = Owner(self.agreed, NAME, records(0, 60), Squared(), ledger)
                if again is not None and again[0] == run:
                    self._ask_again(owner, again)
                number = ledger.answers * 1000
                try:
                    while True:
                        number += 1
                        answer = owner.answer(self._query(run, number))
                        os.write(says, _SAID.pack(run, number, *answer.gradient))
                except BudgetRefused as refused:
                    if type(refused) is not BudgetRefused:  # a ledger that is damaged or failed is one too
                        raise
        return 0

    def _ask_again(self, owner: Owner, again: tuple[int, int]) -> None:
        """What left is answered with the same numbers, or, where the power failed, not at all."""
        if not self.power_failed:
            got = owner.answer(self._query(*again)).gradient.tobytes()
            if {got} != self.left[again]:
                raise AssertionError(f"{again} has another answer now")
            return
        try:
            if owner.ledger.released(f"{again[0]}-{again[1]}", self._query(*again).theta) is not None:
                got = owner.answer(self._query(*again)).gradient.tobytes()
                if got not in self.left[again]:
                    raise AssertionError(f"{again} has another answer now")
        except AnswerLost:
            pass

    def _query(self, run: int, number: int) -> Query:
        return Query(f"{run}-{number}", self.fingerprint, NAME, np.full(3, (number % 997) / 1000))


@dataclass
class Struck:
    """What was done, and what came of it."""

    kinds: Counter[str] = field(default_factory=Counter)
    became: Counter[str] = field(default_factory=Counter)
    left: int = 0
    """Answers."""

    @property
    def times(self) -> int:
        return sum(self.kinds.values())


def owners_killed(times: int, seed: int, seconds: float = float("inf"), so_far: Struck | None = None) -> Struck:
    """So many strikes, or fewer in that time, over ledgers one after another. Raises Finding; `so_far` counts until then.

    Most ledgers are in memory, where a flush costs nothing; one in five is on the disk, and one in five on a small one.
    """
    chance, struck, grounds = random.Random(seed), so_far or Struck(), 0
    warm()
    until = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory(dir=fast_folder()) as fast:
        mount = Mount.made(Path(name) / "disk")
        try:
            while struck.times < times and time.monotonic() < until:
                on_mount = mount is not None and grounds % 5 == 4
                place = Path(name) if grounds % 5 == 3 else Path(fast)
                folder = (mount.folder if on_mount and mount else place) / f"ground-{grounds}"
                folder.mkdir()
                grounds += 1
                ground = Ground(folder, chance.choice((0, 0, 3, 8)))
                kinds = (*KINDS, *WITH_A_MOUNT * 3) if on_mount else KINDS
                while not ground.over and struck.times < times and time.monotonic() < until:
                    strike = Strike.drawn(chance, kinds)
                    struck.became[ground.struck(strike, mount if on_mount else None)] += 1
                    struck.kinds[strike.kind] += 1
                struck.left += sum(len(answers) for answers in ground.left.values())
                shutil.rmtree(folder)
        finally:
            if mount is not None:
                mount.close()
    return struck


def warm() -> None:
    """Import and fill everything that children would otherwise do each by itself."""
    terms = agreed(answers=ANSWERS, horizon=ANSWERS)
    owner = Owner(terms, NAME, records(0, 60), Squared())
    owner.answer(Query("warm", terms.fingerprint, NAME, np.zeros(3)))
