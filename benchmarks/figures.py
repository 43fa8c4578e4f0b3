"""How long `copriv reproduce all --quick` takes: `python -m benchmarks.figures [--workers N]`.

The whole command in a fresh interpreter and an empty folder. Printed are each figure's seconds as the command says them,
seconds by the clock and of processor time (every process of it), and the machine's load before. It is to end in 90 s on
two processors with nothing else to do; where they have, processor time tells: 150 s of it leave room for what cannot
be shared. Exit code 1 where neither holds.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time

BY_THE_CLOCK, OF_PROCESSORS = 90.0, 150.0


def measured(arguments: list[str]) -> tuple[float, float, str]:
    """Seconds by the clock, seconds of processor time, and what `copriv` with these arguments said on the way."""
    code = f"import sys; from copriv.cli import run; sys.exit(run({arguments!r}))"
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    clock, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return clock, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stderr


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    workers = parser.parse_args().workers
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        clock, processors, said = measured(["reproduce", "all", "--quick", "--out", folder, "--workers", str(workers)])
    print(said, end="")
    print(
        f"{workers} workers, load {load:.1f} before: {clock:.0f} s by the clock, {processors:.0f} s of processor time"
    )
    if clock > BY_THE_CLOCK and processors > OF_PROCESSORS:
        sys.exit(f"more than {BY_THE_CLOCK:.0f} s by the clock and {OF_PROCESSORS:.0f} s of processor time")


if __name__ == "__main__":
    main()
