"""Forecasts held against measured runs, on random problems: `python -m benchmarks.calibration`."""
