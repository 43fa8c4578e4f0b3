"""Hostile messages and kills, for as long as it is told: `python -m tests.long --hours 1` (or --minutes, --messages, --kills).

It does a stretch of each in turn, adds a line to its results after each (so that it can be ended at any time, and goes on
when it is started again), and writes docs/reference/long-run.md. Exit code 1 where something was found.

    python -m tests.long --hours 1                        # both, half of the time each
    python -m tests.long --messages 300000 --kills 3000   # so many, however long it takes
    python -m tests.long --minutes 20 --only kills
"""

import argparse
import itertools
import json
import random
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # as pytest does

from long import results
from long.results import Stretch

STRETCH = {"messages": 240.0, "kills": 60.0}
"""Seconds."""
PARTIES = (
    ("owner", "memory", True), ("learner", "memory", True), ("owner", "memory", False), ("learner", "memory", False),
    ("owner", "grpc", True), ("learner", "memory", True), ("owner", "memory", True), ("learner", "grpc", True),
)  # fmt: skip
"""Who is spoken to, over what, and whether by coverage."""
WORDS = {"memory": "in one process", "grpc": "over gRPC"}


def messages(side: str, kind: str, by_coverage: bool, most: int, seconds: float, folder: Path) -> Stretch:
    """One party, one process, as many messages as go into the time."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        count = Path(temporary) / "count.json"
        findings = len(list((folder / "findings").glob("message-*")))
        done = subprocess.run(
            [
                sys.executable, "-m", "tests.long.guided", "--side", side, "--transport", kind, "--messages", str(most),
                "--seconds", str(seconds), "--seed", str(random.randrange(2**31)), "--corpus", folder / f"corpus-{side}",
                "--count", count, "--findings", folder / "findings", *([] if by_coverage else ["--blind"]),
            ],
            cwd=results.ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        said = json.loads(count.read_text()) if count.exists() else {"messages": 0, "answered": 0}
    found = len(list((folder / "findings").glob("message-*"))) - findings
    if done.returncode and not found:
        found = 1
        (folder / "findings" / f"message-{time.time_ns()}.txt").write_text(done.stdout[-4000:] + done.stderr[-8000:])
    what, guided = f"{side}, {WORDS[kind]}", "INFO: Seed" in done.stderr
    seconds = time.monotonic() - begun
    return Stretch("messages", what, said["messages"], seconds, guided, said["answered"], findings=found)


def kills(what: str, most: int, seconds: float, folder: Path) -> Stretch:
    """One kind of process, killed as often as goes into the time."""
    from long.kills import Struck, owners_killed
    from long.whole_runs import runs_killed

    begun, seed, found, struck = time.monotonic(), random.randrange(2**31), 0, Struck()
    try:
        if what == "an owner":
            owners_killed(most, seed, seconds, struck)
        elif what == "a whole consortium in one process":
            runs_killed(most, seed, seconds, struck)
        else:
            struck.kinds["killed, stopped or cut off at any time"] = processes_killed(min(most, 20), seed)
    except Exception:
        found = 1
        (folder / "findings").mkdir(parents=True, exist_ok=True)
        (folder / "findings" / f"kill-{seed}.txt").write_text(traceback.format_exc())
    kinds = dict(struck.kinds)
    return Stretch("kills", what, struck.times, time.monotonic() - begun, False, struck.left, kinds, found)


def processes_killed(times: int, seed: int) -> int:
    """Real processes over gRPC (tests/network/test_chaos.py), killed, stopped or cut off."""
    from tests.network.test_chaos import fire

    with tempfile.TemporaryDirectory() as folder:
        return fire(Path(folder), times, seed, most=10)["kills"]


WHAT = ("an owner", "a whole consortium in one process", "an owner") * 3 + ("processes over gRPC",)


def main() -> int:
    """Stretch after stretch; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.long", description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, default=0.0)
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--messages", type=int, default=None, help="so many messages, however long it takes")
    parser.add_argument("--kills", type=int, default=None, help="so many kills, however long it takes")
    parser.add_argument("--only", choices=("messages", "kills"))
    parser.add_argument("--results", type=Path, default=results.RESULTS, help="the file that grows")
    parser.add_argument("--page", type=Path, default=results.PAGE, help="where to write the page")
    given = parser.parse_args()
    seconds = 60 * given.minutes + 3600 * given.hours
    timed = seconds > 0
    most = {"messages": given.messages, "kills": given.kills}
    if not timed and given.messages is None and given.kills is None:
        parser.error("say how long (--hours 1), or how many (--messages 300000 --kills 3000)")
    for part in most:
        if most[part] is None:
            most[part] = 10**9 if timed else 0
    if given.only:
        most = {part: number if part == given.only else 0 for part, number in most.items()}
    until = time.monotonic() + seconds if timed else float("inf")
    return go_on(most, until, given.results, given.page)


def go_on(most: dict[str, int], until: float, path: Path, page: Path) -> int:
    """Until there were enough of each, or time is over."""
    folder, found = path.parent, 0
    turns: dict[str, itertools.cycle[tuple[Any, ...]]] = {
        "messages": itertools.cycle(PARTIES), "kills": itertools.cycle([(what,) for what in WHAT]),
    }  # fmt: skip
    ways: dict[str, Callable[..., Stretch]] = {"messages": messages, "kills": kills}
    for part in itertools.cycle(ways):
        if time.monotonic() > until or not any(number > 0 for number in most.values()):
            break
        if most[part] <= 0:
            continue
        stretch = ways[part](
            *next(turns[part]), most[part], min(STRETCH[part], max(until - time.monotonic(), 1.0)), folder
        )
        most[part] -= stretch.times
        found += stretch.findings
        stretch.append(path)
        page.write_text(results.page(results.read(path)), encoding="utf-8")
        print(f"{stretch.what}: {stretch.times:,} in {stretch.seconds:.0f} s, {stretch.findings} findings", flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
