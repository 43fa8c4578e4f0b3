"""A whole consortium in one process, killed again and again until its run has ended: the learner has what owners paid for.

Learner and owners are the real ones, with keys, signatures, ledgers and the store on the disk; between them is the
transport in memory, so that one fork is all it takes. Killed processes that talk over gRPC are in tests/network/test_chaos.py.
"""

import asyncio
import contextlib
import os
import random
import shutil
import tempfile
import time
from fractions import Fraction
from pathlib import Path

from copriv.errors import InvalidInput, Unreachable
from copriv.losses import Squared
from copriv.network.agent import OwnerAgent, Patience
from copriv.network.learner import Learner
from copriv.network.run_state import Conductor
from copriv.network.store import RunStore
from copriv.network.turns import Conduct
from copriv.network.verify import verify_run
from copriv.privacy.ledger.create import create_ledger
from copriv.privacy.ledger.file import LedgerFile
from copriv.privacy.ledger.read import read_lines, verify
from copriv.privacy.release_time import ReleaseTime
from long.kills import Struck, struck_child, warm
from long.parties import NAMES, Finding, agreed, certified, fast_folder, records
from long.strikes import AT_A_CALL, BY_ANOTHER, OF_THE_DISK, OF_TIME, Strike
from memory_network import MemoryNetwork

KINDS = (*AT_A_CALL, *OF_THE_DISK, *BY_ANOTHER, *BY_ANOTHER, *OF_TIME)
RULES = (("A2", 12, "choose"), ("A1", 12, "broadcast"), ("S2", 5, "choose"))
CONDUCT = {"deadline": 5.0, "patience": 60.0}
STOPPED = 5


class Run:
    """One run of a consortium, from its begin to its end."""

    def __init__(self, folder: Path, number: int) -> None:
        self.folder, self.over, self.ended = folder, False, ""
        rule, horizon, self.talk = RULES[number % len(RULES)]
        self.agreed, self.ahead = agreed(rule, horizon, 5 if rule == "S2" else 8), number % 2 * 3
        for name in NAMES:
            create_ledger(folder / f"{name}.ledger", name, folder / f"keys-{name}")

    def struck(self, strike: Strike) -> str:
        """One process that goes on with the run until the strike; what became of it."""
        error = self.folder / "error"
        code, _ = struck_child(strike, self._to_the_end, error)
        if code not in (0, 4, STOPPED, -9) or (code == 4 and not strike.may_refuse):
            raise Finding(f"after {strike}: exit code {code}: {error.read_text() if error.exists() else ''}")
        for name in NAMES:
            totals = verify(self.folder / f"{name}.ledger", witness=self.folder / f"keys-{name}")
            if totals.committed > 1 or any(run.charged > self.agreed.answers for run in totals.runs.values()):
                raise Finding(f"after {strike}: {name} overspent")
        if code == 0:
            self._finish(strike)
        return {0: "ended", 4: "refused", STOPPED: "stopped"}.get(code, "killed")

    def _finish(self, strike: Strike) -> None:
        self.over = True
        verdict = verify_run(self.folder / "run.db", self.agreed, certified()["learner"].authority)
        if verdict.problems:
            raise Finding(f"after {strike}: the run does not verify: {verdict.problems[0]}")
        self.ended = verdict.outcome

    # The process --------------------------------------------------------------------------------------------------

    def _to_the_end(self, says: int) -> int:
        try:
            asyncio.run(self._together(says))
        except Unreachable:  # nobody came for too long: the machine is very busy
            return STOPPED
        return 0

    async def _together(self, says: int) -> None:
        path = self.folder / "run.db"
        try:
            store = RunStore.resume(path, self.agreed)
        except InvalidInput:  # there is none: killed before it was there
            store = RunStore.create(path, self.agreed, 3)
        with contextlib.ExitStack() as opened:
            opened.callback(store.close)
            files = {
                name: opened.enter_context(
                    LedgerFile.open(
                        self.folder / f"{name}.ledger", name, Fraction(1), ahead=self.ahead,
                        witness=self.folder / f"keys-{name}",
                    )
                )
                for name in NAMES
            }  # fmt: skip
            self._check(store)
            memory = MemoryNetwork()
            conduct = Conduct(talk=self.talk, stragglers="drop", **CONDUCT)  # type: ignore[arg-type]
            keys = certified()["learner"]
            learner = Learner(Conductor(store, conduct, time.monotonic(), keys), memory, keys=keys, pace=1e-4)
            running = asyncio.ensure_future(learner.run())
            await asyncio.sleep(0)
            owners = [asyncio.ensure_future(self._own(k, files[name], memory)) for k, name in enumerate(NAMES)]
            os.write(says, b"begun")
            try:
                waiting = {running, *owners}
                while not running.done():
                    done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                    for task in done:
                        task.result()  # a disk that failed one of them
                if running.result().status != "finished":
                    raise Unreachable("the run stopped")
                await asyncio.wait(
                    owners, timeout=1
                )  # an owner that comes too late to hear of the end waits for another
            finally:
                for task in (running, *owners):
                    task.cancel()
                await asyncio.gather(running, *owners, return_exceptions=True)
            if store.n_parameters != 3:
                raise AssertionError("another run")
            self._check(store)

    async def _own(self, index: int, file: LedgerFile, memory: MemoryNetwork) -> str:
        name = NAMES[index]
        agent = OwnerAgent(
            self.agreed, name, records(index, 60), Squared(), file, memory.dialer(name), keys=certified()[name],
            patience=Patience(first=0.005, longest=0.05, give_up=20.0), times=ReleaseTime(1e-4),
        )  # fmt: skip
        return await agent.serve()

    def _check(self, store: RunStore) -> None:
        """What the learner has is what owners gave, to the bit."""
        given: dict[str, bytes] = {}
        for name in NAMES:
            for line in read_lines(self.folder / f"{name}.ledger"):
                if line.kind == "answer":
                    if line.identity in given:
                        raise AssertionError(f"two answers to {line.identity}")
                    given[line.identity] = bytes.fromhex(line.content)
        for line in store.events("answer"):
            if given.get(line.data["identity"]) != line.numbers.tobytes():
                raise AssertionError(f"the learner has an answer of {line.data['owner']} that its ledger does not have")


def runs_killed(
    times: int, seed: int, seconds: float = float("inf"), so_far: Struck | None = None
) -> tuple[Struck, int]:
    """So many strikes, or fewer in that time, over runs one after another; and how many runs ended. Raises Finding."""
    chance, struck, runs = random.Random(seed), so_far or Struck(), 0
    warm()
    certified()
    until = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(dir=fast_folder()) as name:
        while struck.times < times and time.monotonic() < until:
            folder = Path(name) / f"run-{runs}"
            folder.mkdir()
            run = Run(folder, runs)
            while not run.over and struck.times < times and time.monotonic() < until:
                strike = Strike.drawn(chance, KINDS)
                struck.became[run.struck(strike)] += 1
                struck.kinds[strike.kind] += 1
            runs += run.over
            shutil.rmtree(folder)
    return struck, runs
