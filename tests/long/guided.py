"""Messages that grow towards lines of code that none has reached: `python -m tests.long.guided`, a process of `tests.long`.

libFuzzer (Atheris) keeps each input that reached something new and grows the next ones from those; `said.grown` keeps them
messages. Counting what each reaches takes two thirds of the time. So with `--blind`, and without Atheris (it is for Linux),
they grow at random from the valid ones and from those that were kept, three times as fast, and the results say so.
"""

import argparse
import importlib
import json
import os
import random
import sys
import time
import traceback
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # as pytest does

PACKAGES = ["copriv.network", "copriv.owner", "copriv.privacy", "copriv.protocol"]
INSTRUMENTED = tuple(
    f"copriv.network.{name}"
    for name in ("agent", "learner", "run_state", "run", "verify", "grpc_transport", "messages")
)
"""What messages reach first; what these import is instrumented with them."""
SIDES = {"owner": "OwnerSide", "learner": "LearnerSide"}
WRITTEN_EVERY = 100


def side_of(name: str, kind: str) -> Any:
    """The real party, named "owner" or "learner", on a transport "memory" or "grpc"."""
    return getattr(importlib.import_module(f"long.{name}_side"), SIDES[name])(kind)


class Counted:
    """A party that tells how many messages it was given, also when the process ends without a word."""

    def __init__(self, side: Any, path: Path, findings: Path, most: int, until: float) -> None:
        self.side, self._path, self._findings, self._most, self._until = side, path, findings, most, until

    def take(self, data: bytes) -> None:
        try:
            self.side.take(data)
        except Exception:
            found = {"why": traceback.format_exc(), "inputs": [one.hex() for one in self.side.log]}
            (self._findings / f"message-{time.time_ns()}.json").write_text(json.dumps(found, indent=1))
            self.write()
            raise
        if self.side.taken % WRITTEN_EVERY == 0 or self.over:
            self.write()

    @property
    def over(self) -> bool:
        """Whether there were enough."""
        return self.side.taken >= self._most or time.monotonic() > self._until

    def write(self) -> None:
        self._path.write_text(json.dumps({"messages": self.side.taken, "answered": self.side.answered}))


def main() -> None:
    """Give one party messages until there were enough of them, or time is over."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--side", choices=tuple(SIDES), required=True)
    parser.add_argument("--transport", choices=("memory", "grpc"), default="memory")
    parser.add_argument("--messages", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--count", type=Path, required=True)
    parser.add_argument("--findings", type=Path, required=True)
    parser.add_argument("--blind", action="store_true", help="do not look at what is reached")
    given = parser.parse_args()
    given.findings.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + given.seconds
    if given.blind:
        at_random(given, until)
        return
    try:
        import atheris
    except ImportError:
        at_random(given, until)
        return
    with atheris.instrument_imports(include=PACKAGES):
        for name in INSTRUMENTED:
            importlib.import_module(name)
    from long.said import grown, valid

    side = Counted(side_of(given.side, given.transport), given.count, given.findings, given.messages, until)
    given.corpus.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(valid()):
        (given.corpus / f"valid-{number:03d}").write_bytes(data)
    random.seed(given.seed)

    def one(data: bytes) -> None:
        side.take(data)
        if side.over:
            side.side.close()
            side.write()
            sys.stdout.flush()
            os._exit(0)  # libFuzzer has no other way to end early

    def mutated(data: bytes, max_size: int, seed: int) -> bytes:
        return grown(data, random.Random(seed), lambda frame: atheris.Mutate(frame, max_size - 1))[:max_size]

    options = [f"-seed={given.seed + 1}", "-max_len=8000", "-len_control=0", "-rss_limit_mb=0", "-timeout=120"]
    atheris.Setup(
        [sys.argv[0], *options, f"-artifact_prefix={given.findings}/", str(given.corpus)], one, custom_mutator=mutated
    )
    atheris.Fuzz()


def at_random(given: argparse.Namespace, until: float) -> None:
    """The same, without counting what is reached."""
    from long.said import grown, valid

    kept = [path.read_bytes() for path in sorted(given.corpus.glob("*"))] if given.corpus.is_dir() else []
    chance, pool = random.Random(given.seed), [*valid(), *kept]
    side = Counted(side_of(given.side, given.transport), given.count, given.findings, given.messages, until)
    while not side.over:
        side.take(grown(chance.choice(pool), chance))
    side.side.close()
    side.write()


if __name__ == "__main__":
    main()
