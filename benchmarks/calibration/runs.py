"""Problems run in processes of their own, each with a limit of time; what is done is in a file, and is not done again."""

import json
import multiprocessing
import sys
import time
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from benchmarks.calibration.measure import measure
from benchmarks.calibration.problems import problem


def work(seed: int, number: int, out: str) -> None:
    with threadpool_limits(limits=1):
        row = measure(problem(seed, number), seed)
    with Path(out).open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def rows_of(out: Path) -> list[dict[str, Any]]:
    """What a file of rows holds."""
    if not out.exists():
        return []
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]


def run(seed: int, problems: int, workers: int, limit: float, out: Path, first: int = 0) -> list[dict[str, Any]]:
    """All problems that the file does not have yet, `workers` at a time."""
    out.parent.mkdir(parents=True, exist_ok=True)
    had = {row["number"] for row in rows_of(out)}
    waiting = [number for number in range(first, first + problems) if number not in had]
    running: dict[int, tuple[Any, float]] = {}
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.calibration.runs"])
    while waiting or running:
        while waiting and len(running) < workers:
            number = waiting.pop(0)
            process = context.Process(target=work, args=(seed, number, str(out)))
            process.start()
            running[number] = process, time.monotonic()
        time.sleep(0.05)
        for number, (process, begun) in list(running.items()):
            late = time.monotonic() - begun > limit
            if process.is_alive() and not late:
                continue
            if late:
                process.kill()
            process.join()
            del running[number]
            if number not in {row["number"] for row in rows_of(out)}:
                lost = {**problem(seed, number).facts, "total_seconds": limit}
                lost |= {"hung": True} if late else {"crashed": f"exit code {process.exitcode}"}
                with out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(lost) + "\n")
            print(f"{number}: {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    return rows_of(out)
