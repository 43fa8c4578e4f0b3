"""Utility at the same privacy: every method, every cell, one table.

    python -m benchmarks.utility --quick       one cell a data set, a few minutes
    python -m benchmarks.utility               the whole grid (hours; interrupted, it goes on where it was)

A cell is a data set, a loss, N, n_i and ε. Every method sees the same bounded records, the same n_i and ε_i, and the
same trust: each owner adds its own noise. ψ is on all owners' records. Settings come from public rows alone: ours by
the plan, the peers' by the same search over their own settings (`peers`). Writes docs/reference/utility.md and
utility.csv.
"""
