"""Answers a second, one owner and one learner, over mutual TLS on loopback, against a bare gRPC echo in the same run.

    python -m benchmarks.throughput [--records 1000 10000] [--answers 400] [--repeats 5] [--json] [--page]

Two processes, one query at a time, 10 parameters, records of the embedded lending table (drawn again and again where it
has fewer). These are measured in turn, `repeats` times; shown are the best of each, and the median of its ratios
to the echoes just before and after it: a machine that is busy with other things is so for both.

- `echo`: frames of the same sizes as queries and answers go to and fro on the same kind of stream, and nothing is done
  with them;
- `WAYS`: an owner and a learner as in a run, with more and more of what a run has; the last but one is what `copriv`
  runs. All but the last two leave out that answers leave at fixed times, which would hide what the rest costs;
- `ALONE`: what no network can beat.

`--page` writes the table into docs/how-to/run-a-consortium.md, where the machine has nothing else to do.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter, deque
from copy import copy
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks import throughput_page
from copriv.agreement import Agreement
from copriv.data.consortium import load_consortium
from copriv.errors import Unreachable
from copriv.losses import Squared
from copriv.model.records import Records
from copriv.network.agent import OwnerAgent
from copriv.network.grpc_transport import GrpcDialer, GrpcListener
from copriv.network.keys import Certified, Keys, issue, make_authority
from copriv.network.learner import Learner
from copriv.network.messages import answer_content, encode, query_content, signed_answer, signed_query
from copriv.network.run_state import Conductor
from copriv.network.store import RunStore
from copriv.network.transport import Link
from copriv.network.turns import Conduct
from copriv.owner import Owner
from copriv.privacy.laplace import LaplaceAnswer
from copriv.privacy.ledger import Ledger, MemoryLedger
from copriv.privacy.ledger.create import create_ledger
from copriv.privacy.ledger.file import LedgerFile
from copriv.privacy.release_time import ReleaseTime
from copriv.protocol import Answer, Query

PARAMETERS = 10
AT_ONCE = 1e-9
"""Seconds: a slot that is as good as none."""


class NoSignatures(Keys):
    """Keys that sign nothing and take everything as signed: what signatures cost is the difference."""

    def sign(self, content: bytes) -> str:
        return ""

    def certified(self, certificate: str) -> Certified:
        party = copy(super().certified(certificate))
        party.signed = lambda signature, content: True  # type: ignore[method-assign]
        return party


@dataclass(frozen=True)
class Way:
    """What of a run is there."""

    words: str
    signed: bool = True
    """Queries and answers."""
    ledger: bool = True
    """On the disk; else both sides keep what they know in memory."""
    store: bool = False
    """The learner's, on the disk."""
    ahead: int = 0
    """Answers paid for ahead."""
    noise_ahead: bool = False
    slots: bool = False
    """Whether answers leave at fixed times."""

    def held(self, keys: Keys) -> Keys:
        """A party's keys in such a run."""
        return keys if self.signed else NoSignatures(keys.authority, keys.certificate, keys.key)


WAYS = {
    "unsigned": Way("nothing signed, nothing on a disk", signed=False, ledger=False),
    "signed": Way("queries and answers signed", ledger=False),
    "noise ahead": Way("… and the noise drawn ahead", ledger=False, noise_ahead=True),
    "ledger": Way("signed, the ledger on the disk"),
    "ledger ahead": Way("… and `--ahead 8`", ahead=8),
    "store": Way("signed, the ledger and the learner's store on the disk", store=True),
    "whole": Way("… and answers leave at fixed times: what `copriv` runs", store=True, slots=True),
    "whole ahead": Way("… and `--ahead 8`", store=True, slots=True, ahead=8),
}
ALONE = {
    "owner alone": "the owner's answer, and nothing else",
    "noise alone": "the noise, and nothing else",
    "signatures alone": "two signatures and two checks, and nothing else",
    "flush alone": "one flush of 4 KiB to that disk, and nothing else",
    "learner, 10 owners": "the learner's work for an answer with 10 owners, signed, in memory",
    "learner, 100 owners": "… with 100 owners",
    "learner, 1,000 owners": "… with 1,000 owners",
}


def agreed(answers: int, n: int) -> Agreement:
    return Agreement.of(
        {
            "agreement": {"rule": "A2", "horizon": answers, "answers": answers, "step": 0.01},
            "model": {"loss": "squared", "regularization": 1e-5, "theta_max": 100.0, "gradient_bound": 2.0},
            "data": {"components": PARAMETERS, "feature_bound": 0.0},
            "owner": [{"name": "bank", "records": n, "epsilon": 1000.0}],
        }
    )


def records(n: int) -> Records:
    drawn = load_consortium("lending-embedded", [n], components=PARAMETERS, public_rows=1000).owners[0]
    times = drawn.weight.astype(int)  # an owner's own table has a row for each record
    return Records.of(np.repeat(drawn.features, times, axis=0), np.repeat(drawn.target, times))


class InMemory:
    """Ledgers that forget: what the flush costs is the difference."""

    def run(self, fingerprint: str, run: str, epsilon: Fraction, answers: int, delta: Fraction = Fraction(0)) -> Ledger:
        return MemoryLedger("bank", epsilon, answers, delta)

    def holds(self, head: str) -> bool:
        return True


def owner_process(folder: str, address: str, answers: int, n: int, way: Way, slot: float) -> None:
    """The owner's side of a run."""
    keys = Keys.load(Path(folder) / "bank")
    path = Path(folder) / f"{time.time_ns()}.ledger"
    file = None
    if way.ledger:
        create_ledger(path, "bank", another="a benchmark's")
        file = LedgerFile.open(path, "bank", Fraction(1000), ahead=way.ahead)
    agent = OwnerAgent(
        agreed(answers, n), "bank", records(n), Squared(), file or InMemory(), GrpcDialer(address, keys),
        keys=way.held(keys), noise_ahead=way.noise_ahead, times=ReleaseTime(slot),
    )  # fmt: skip
    asyncio.run(agent.serve())


def echo_process(folder: str, address: str, answer: bytes) -> None:
    """The other side of the echo: answers every frame with one of an answer's size."""

    async def echo() -> None:
        link = await GrpcDialer(address, Keys.load(Path(folder) / "bank")).dial()
        try:
            while True:
                await link.receive()
                await link.send(answer)
        except Unreachable:
            return

    asyncio.run(echo())


def frames() -> tuple[bytes, bytes]:
    θ, name = np.zeros(PARAMETERS), "f" * 64
    return encode(Query(name, name, "bank", θ)), encode(Answer(name, name, "bank", θ, 1, name))


async def echoed(folder: Path, answers: int) -> float:
    query, answer = frames()
    done: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def serve(link: Link) -> None:
        for k in range(answers + 100):
            if k == 100:
                begun = time.perf_counter()
            await link.send(query)
            await link.receive()
        done.set_result(answers / (time.perf_counter() - begun))

    keys = Keys.load(folder / "learner")
    async with GrpcListener("127.0.0.1:0", keys).listening(serve) as address:
        process = _started(echo_process, str(folder), address, answer)
        try:
            return await asyncio.wait_for(done, 120)
        finally:
            _ended(process)


async def conducted(folder: Path, answers: int, n: int, way: Way, slot: float) -> float:
    """Answers a second; the first 100 do not count, nor does the time until the owner is there."""
    keys, terms = Keys.load(folder / "learner"), agreed(answers + 100, n)
    path: Any = folder / f"{time.time_ns()}.db" if way.store else ":memory:"
    run = RunStore.create(path, terms, PARAMETERS)
    processes = list[Any]()
    slot = slot if way.slots else AT_ONCE
    try:
        learner = Learner(
            Conductor(run, Conduct(deadline=60.0, patience=60.0), time.monotonic(), way.held(keys)),
            GrpcListener("127.0.0.1:0", keys),
            keys=way.held(keys),
            on_listening=lambda at: processes.append(
                _started(owner_process, str(folder), at, answers + 100, n, way, slot)
            ),
        )
        outcome = await learner.run()
        if outcome.status != "finished":
            raise SystemExit(f"{way.words}: the run was {outcome.status}: {outcome.reason}")
        times = [event.time for event in run.events("stepped")]
        return (len(times) - 100) / (times[-1] - times[99])
    finally:
        run.close()
        for process in processes:
            _ended(process)


def alone(answers: int, n: int) -> tuple[float, float]:
    """Answers, and draws of noise, a second, in this process and without a network."""
    terms, θ = agreed(answers + 10, n), np.zeros(PARAMETERS)
    owner = Owner(terms, "bank", records(n), Squared())
    queries = [Query(str(k), terms.fingerprint, "bank", θ) for k in range(answers + 10)]
    for query in queries[:10]:
        owner.answer(query)
    begun = time.perf_counter()
    for query in queries[10:]:
        owner.answer(query)
    computed = answers / (time.perf_counter() - begun)
    noise = LaplaceAnswer(2 * 2.0 / n, Fraction(1000) / answers, PARAMETERS)
    noise.release(θ)
    begun = time.perf_counter()
    for _ in range(answers):
        noise.release(θ)
    return computed, answers / (time.perf_counter() - begun)


def signatures(folder: Path, times: int) -> float:
    """A second: the learner signs a query and the owner checks it, the owner signs its answer and the learner checks it."""
    learner, bank = Keys.load(folder / "learner"), Keys.load(folder / "bank")
    parties = [Certified.by(keys.authority, keys.certificate.decode()) for keys in (learner, bank)]
    begun = time.perf_counter()
    for k in range(times):
        query = signed_query(learner, "run", Query(str(k), "f" * 64, "bank", np.zeros(PARAMETERS), "0" * 64))
        answer = signed_answer(bank, "run", query, Answer(str(k), "f" * 64, "bank", np.zeros(PARAMETERS), 1, "0" * 64))
        sound = parties[0].signed(query.signature, query_content("run", query))
        if not sound or not parties[1].signed(answer.signature, answer_content("run", query, answer)):
            raise SystemExit("a signature does not hold")
    return times / (time.perf_counter() - begun)


def conducting(folder: Path, owners: int, answers: int) -> float:
    """Answers a second that the learner's side takes by itself: it signs and checks, and its store is in memory."""
    learner, bank = Keys.load(folder / "learner"), Keys.load(folder / "bank")
    terms = Agreement.of(
        {
            "agreement": {"rule": "A2", "horizon": 20 * owners, "answers": 20, "step": 0.01},
            "model": {"loss": "squared", "regularization": 1e-5, "theta_max": 100.0, "gradient_bound": 2.0},
            "data": {"components": PARAMETERS, "feature_bound": 1.0},
            "owner": [{"name": f"bank-{i}", "records": 1000, "epsilon": 1.0} for i in range(owners)],
        }
    )
    store = RunStore.create(":memory:", terms, PARAMETERS)
    conductor = Conductor(store, Conduct(), 0.0, learner)
    for name in terms.owner_names:
        conductor.joined(name, 0.0, bank.certificate.decode())
    asked = deque(message for _, message in conductor.take_outbox())
    answers, unused, took, given = min(answers, 15 * owners), 20, 0.0, Counter[str]()
    for k in range(unused + answers):
        query = asked.popleft()
        assert isinstance(query, Query)
        given[query.owner] += 1
        plain = Answer(query.identity, query.fingerprint, query.owner, np.zeros(PARAMETERS), given[query.owner], "")
        answer = signed_answer(bank, store.run, query, plain)  # the owner's work
        begun = time.perf_counter()
        conductor.answered(answer, 0.0)
        asked += [message for _, message in conductor.take_outbox()]
        took += time.perf_counter() - begun if k >= unused else 0.0
    store.close()
    return answers / took


def flushed(folder: Path, times: int = 200) -> float:
    """Flushes a second."""
    with (folder / "flushed").open("wb", buffering=0) as file:
        begun = time.perf_counter()
        for _ in range(times):
            file.write(b"0" * 4096)
            os.fsync(file.fileno())
        return times / (time.perf_counter() - begun)


def measure(answers: int, n: int, repeats: int) -> throughput_page.Measured:
    """For each thing, the best number a second and the median ratio to the echo."""
    found: dict[str, list[float]] = {}
    ratios: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_authority(folder / "authority", "benchmark")
        issue(folder / "authority", folder / "learner", "learner", "learner")
        issue(folder / "authority", folder / "bank", "bank", "owner")
        slot = Owner(agreed(answers, n), "bank", records(n), Squared()).release_time().slot
        before = asyncio.run(echoed(folder, answers))
        for _ in range(repeats):
            for key, way in WAYS.items():
                rate = asyncio.run(conducted(folder, answers, n, way, slot))
                after = asyncio.run(echoed(folder, answers))
                found.setdefault("echo", []).append(after)
                found.setdefault(key, []).append(rate)
                ratios.setdefault(key, []).append(2 * rate / (before + after))
                before = after
            computed, noise = alone(answers, n)
            rates = (
                computed, noise, signatures(folder, answers), flushed(folder),
                *(conducting(folder, N, answers) for N in (10, 100, 1000)),
            )  # fmt: skip
            for key, rate in zip(ALONE, rates, strict=True):
                found.setdefault(key, []).append(rate)
    best = {key: max(rates) for key, rates in found.items()}
    ratio = {key: median(ratios[key]) if key in ratios else rate / best["echo"] for key, rate in best.items()}
    return throughput_page.Measured(n, slot, best, ratio)


def main() -> None:
    """Measure and print, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--answers", type=int, default=400)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--page", action="store_true", help="write the table into the documentation")
    given = parser.parse_args()
    load, processors = os.getloadavg()[0], os.cpu_count() or 1
    if given.page and load > 0.3 * processors:
        sys.exit(f"this machine is busy (load {load:.1f} on {processors} processors): try again when it is not")
    measured = [measure(given.answers, n, given.repeats) for n in given.records]
    if given.json:
        print(
            json.dumps(
                {one.records: {"slot": one.slot, "a second": one.best, "of the echo": one.ratio} for one in measured}
            )
        )
        return
    text = throughput_page.table(measured, {key: way.words for key, way in WAYS.items()} | ALONE)
    if given.page:
        throughput_page.write(text)
    print(text)


def _started(target: Any, *arguments: Any) -> Any:
    process = multiprocessing.get_context("spawn").Process(target=target, args=arguments)
    process.start()
    return process


def _ended(process: Any) -> None:
    process.join(3)
    if process.is_alive():
        process.kill()
        process.join()


if __name__ == "__main__":
    main()
