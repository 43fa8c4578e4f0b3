"""Owners, learner and connections killed at random, again and again: what a ledger promises holds all the same.

After every run: no owner was charged for more than its cap, no query has two answers, every answer that the learner has
is in the owner's ledger to the bit, and the run ended, or stopped for a reason that it names. Of sums: every step is the sum of
what all owners' ledgers have for one attempt, of which the masks cancel; and the run's file is verified.
"""

import contextlib
import csv
import os
import random
import shutil
import signal
import socket
import sqlite3
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from copriv.agreement import Agreement
from copriv.network.keys import Keys, make_key
from copriv.network.setup import make_consortium
from copriv.network.store import Event, RunStore
from copriv.network.verify import verify_run
from copriv.privacy.ledger.read import read_lines, verify
from copriv.privacy.shared_noise import as_words
from network_processes import Command

pytestmark = pytest.mark.network

NAMES = ("bank-1", "bank-2", "bank-3")
ANSWERS = 6


SUMS = {"rule": "S2", "horizon": 25, "answers": 24, "attempts": 20, "aggregation": "sum"}
"""The run of the rule "sum": four rounds, and 20 further attempts at them."""
NOISE = 2**44
"""Whole cells that the noise of a sum stays below but for a chance of e^−1000; masked words are more, but for 2^−38."""


def agreed(rule: str) -> Agreement:
    horizon = 5 if rule == "S2" else 15
    terms = {"rule": rule, "horizon": horizon, "answers": min(horizon, ANSWERS)} if rule != "sum" else SUMS
    return Agreement.of(
        {
            "agreement": {**terms, "step": 0.3},
            "model": {"loss": "squared", "regularization": 0.1, "theta_max": 10.0, "gradient_bound": 2.0},
            "data": {
                "dataset": "table",
                "components": 0,
                "feature_bound": 0.0,
                "features": ["a", "b"],
                "target": "y",
                "bounds": {"a": [-1, 1], "b": [-1, 1], "y": [-4, 4]},
            },
            "owner": [{"name": name, "records": 60, "epsilon": 1.0} for name in NAMES],
        }
    )


class Proxy:
    """Carries bytes between owners and learner, until told to cut every connection."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.to = 0
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        for end in list(self._open):
            self._close(end)

    def close(self) -> None:
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.to))
            except OSError:
                near.close()
                continue
            self._open |= {near, far}
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while piece := source.recv(65536):
                sink.sendall(piece)
        except OSError:
            pass
        for end in (source, sink):
            self._close(end)

    def _close(self, end: socket.socket) -> None:
        self._open.discard(end)
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()


class Run:
    """One run of a consortium under fire."""

    def __init__(self, folder: Path, rule: str, chance: random.Random, ahead: int) -> None:
        self.folder, self.rule, self.chance, self.ahead = folder, rule, chance, ahead
        plan = folder / "plan.toml"
        public = folder / "public.csv"
        self._table(public, 90)
        requests = []
        for name in NAMES if rule == "sum" else ():
            make_key(folder / name, name)
            requests.append(folder / name / "request.pem")
        make_consortium(agreed(rule), folder / "c", public, requests=requests)
        for path in requests:  # each owner's folder, with the key that it made
            shutil.copytree(path.parent, folder / "c" / path.parent.name, dirs_exist_ok=True)
        plan.write_text(agreed(rule).to_toml())
        self.agreed = Agreement.load(folder / "c" / "agreement.toml")
        for k, name in enumerate(NAMES):
            self._table(folder / f"{name}.csv", k)
        self.proxy, self.kills, self.started = Proxy(), 0, 0
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.proxy.to = probe.getsockname()[1]
        self.parties: dict[str, Command] = {}

    def _table(self, path: Path, seed: int) -> None:
        rng = np.random.default_rng(seed)
        with path.open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["a", "b", "y"])
            for a, b in rng.uniform(-1, 1, (60, 2)):
                writer.writerow([a, b, np.clip(a - 2 * b + rng.normal(), -4, 4)])

    def start(self, name: str) -> None:
        common: list[object]
        if name == "learner":
            common = ["learner", "c/agreement.toml", "--store", "run.db", "--keys", "c/learner"]
            common += ["--listen", f"127.0.0.1:{self.proxy.to}", "--deadline", "0.5", "--patience", "25"]
            common += ["--talk", "broadcast"] if self.rule == "A1" else []
            common += ["--stragglers", "drop"] if self.rule == "S2" else []
            common += ["--resume"] if self._began() else []
        else:
            common = ["owner", "serve", "--agreement", "c/agreement.toml", "--data", f"{name}.csv", "--give-up", "60"]
            common += [
                "--keys",
                f"c/{name}",
                "--ledger",
                f"{name}.ledger",
                "--new-ledger",
                "--learner",
                self.proxy.address,
            ]
            common += ["--ahead", str(self.ahead)]
        self.started += 1
        self.parties[name] = Command(self.folder, self.folder / f"log-{self.started:03d}-{name}", tuple(common))

    def _began(self) -> bool:
        path = self.folder / "run.db"
        if not path.exists():
            return False
        connection = sqlite3.connect(path)
        try:
            return bool(connection.execute("PRAGMA user_version").fetchone()[0])
        finally:
            connection.close()

    def under_fire(self, most: int) -> int:
        """Run it to its end; how many times something was killed, stopped or cut."""
        try:
            for name in ("learner", *NAMES):
                self.start(name)
            until = time.monotonic() + 120
            while self.parties["learner"].running or self._ended_early("learner"):
                assert time.monotonic() < until, self._logs("stuck")
                time.sleep(self.chance.uniform(0.005, 0.12))
                for name in NAMES:
                    self._ended_early(name)
                if self.kills < most:
                    self._strike()
            return self.kills
        finally:
            for command in self.parties.values():
                command.kill()
            self.proxy.close()

    def _ended_early(self, name: str) -> bool:
        """Start a party again that was killed; anything else that ends it must be one of its own exit codes."""
        command = self.parties[name]
        if command.running:
            return False
        code = command.wait(5)
        if code == -signal.SIGKILL:
            self.start(name)
            return True
        assert code in (0, 4, 5), self._logs(f"{name} ended with {code}")
        assert "Traceback" not in command.errors, self._logs(name)
        return False

    def _strike(self) -> None:
        running = [name for name, command in self.parties.items() if command.running]
        what = self.chance.choice(["kill", "kill", "kill", "stop", "stop and kill", "cut"])
        if what == "cut" or not running:
            self.proxy.cut()
        else:
            pid = self.parties[self.chance.choice(running)].pid
            try:
                os.kill(pid, signal.SIGKILL if what == "kill" else signal.SIGSTOP)
                if what != "kill":
                    time.sleep(self.chance.uniform(0.02, 0.3))
                    os.kill(pid, signal.SIGCONT if what == "stop" else signal.SIGKILL)
            except ProcessLookupError:
                return
        self.kills += 1

    def check(self) -> str:
        """What must hold after any run; how it ended."""
        learner = self.parties["learner"]
        assert learner.wait(5) in (0, 5), self._logs("the learner")
        answered: dict[tuple[str, str], bytes] = {}
        for name in NAMES:
            ledger = self.folder / f"{name}.ledger"
            if not ledger.exists():
                continue
            totals = verify(ledger)
            assert totals.committed <= 1
            for run in totals.runs.values():
                assert run.charged <= self.agreed.answers
            for line in read_lines(ledger):
                if line.kind == "answer":
                    one = (name if self.rule == "sum" else "", line.identity)
                    assert one not in answered, "two answers to one query"
                    answered[one] = bytes.fromhex(line.content)
        store = RunStore.resume(self.folder / "run.db", self.agreed)
        try:
            if self.rule == "sum":
                self._check_sums(store, answered)
            for line in store.events("answer") if self.rule != "sum" else ():
                assert answered["", line.data["identity"]] == line.numbers.tobytes(), "an answer not in the ledger"
            ends = list(store.events("finished", "stopped"))
        finally:
            store.close()
        assert ends, self._logs("no end")
        assert ends[-1].data["reason"]
        return ends[-1].kind

    def _check_sums(self, store: RunStore, answered: dict[tuple[str, str], bytes]) -> None:
        """Every step is the sum of what the ledgers have for one attempt, of which no other is made, and whose masks cancel."""
        attempts = {line.data["turn"]: line.data["identity"] for line in store.events("query")}
        given: dict[str, dict[str, Event]] = {}
        for line in store.events("answer"):
            given.setdefault(line.data["identity"], {})[line.data["owner"]] = line
        used = []
        for step in store.events("stepped"):
            attempt = attempts[step.data["turn"]]
            lines = given[attempt]
            assert sorted(lines) == sorted(NAMES), "a sum of a part of the owners"
            used.append(attempt)
            for name in NAMES:
                assert answered[name, attempt] == lines[name].numbers.tobytes(), "an answer that is not in the ledger"
            masked = [as_words(lines[name].numbers).view(np.int64) for name in NAMES]
            assert np.abs(np.sum(masked, axis=0)).max() < NOISE, "masks that do not cancel"
            assert min(np.abs(one).max() for one in masked) > NOISE, "an answer that is seen"
        assert len(set(used)) == len(used), "two steps by one attempt"
        assert len(set(answered.values())) == len(answered), "an owner gave the same vector twice"
        for name in NAMES:
            charged = sum(run.charged for run in verify(self.folder / f"{name}.ledger").runs.values())
            assert charged >= sum(name == owner for owner, _ in answered), "an answer uncharged"
        authority = Keys.load(self.folder / "c" / "bank-1").authority
        assert verify_run(self.folder / "run.db", self.agreed, authority).problems == ()

    def _logs(self, what: str) -> str:
        logs = [f"{path.name}: {path.read_text()[-400:]}" for path in sorted(self.folder.glob("log-*"))[-12:]]
        return f"{what}\n" + "\n".join(logs)


def fire(folder: Path, kills: int, seed: int, most: int, rules: tuple[str, ...] = ("A2", "A1", "S2")) -> dict[str, int]:
    chance, ends, struck, n = random.Random(seed), {"finished": 0, "stopped": 0}, 0, 0
    while struck < kills:
        here = folder / str(n)
        here.mkdir()
        run = Run(here, rules[n % len(rules)], chance, ahead=n % 2 * 3)
        struck += run.under_fire(most)
        ends[run.check()] += 1
        n += 1
    return ends | {"kills": struck, "runs": n}


@pytest.mark.slow
def test_a_dozen_kills(tmp_path: Path) -> None:
    ends = fire(tmp_path, 12, seed=5, most=4)
    assert ends["finished"] >= 1


@pytest.mark.slow
def test_three_hundred_kills(tmp_path: Path) -> None:
    ends = fire(tmp_path, 300, seed=1, most=10)
    print(ends)
    assert ends["finished"] > ends["stopped"]


@pytest.mark.slow
def test_owners_and_learners_of_sums_are_killed_again_and_again(tmp_path: Path) -> None:
    ends = fire(tmp_path, 24, seed=3, most=6, rules=("sum",))
    print(ends)
    assert ends["finished"] >= 1
