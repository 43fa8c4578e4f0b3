"""The benchmarks of speed, one after another: `python -m benchmarks`.

Those of what a model is worth take up to hours and write pages of docs/reference; each is a command of its own:
`python -m benchmarks.forecast_accuracy`, `benchmarks.plan_regret`, `benchmarks.utility` and `benchmarks.published`. So is
that of what answers give away: `python -m benchmarks.audit`.
"""

import runpy

for name in ("startup", "simulation", "forecasts", "throughput", "figures"):
    print(f"== {name}")
    runpy.run_module(f"benchmarks.{name}", run_name="__main__")
