"""Benchmarks: ratios measured in one run, never absolute bounds. `python -m benchmarks` runs them all."""
