"""Every benchmark, one after another: `python -m benchmarks`."""

import runpy

for name in ("simulation", "throughput"):
    print(f"== {name}")
    runpy.run_module(f"benchmarks.{name}", run_name="__main__")
