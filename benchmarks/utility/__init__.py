"""Utility at the same privacy: every method, every cell, one table.

    python -m benchmarks.utility --quick       one cell a data set, a few minutes
    python -m benchmarks.utility               the whole grid (about an hour; interrupted, it goes on where it was)
    python -m benchmarks.utility --page        the page from the table as it is

A cell is a data set, a loss, N, n_i and ε. Every method sees the same bounded records, the same n_i and ε_i, and the
same trust: each owner adds its own noise. ψ is on all owners' records. Settings come from public rows alone: ours by
the plan, the peers' by the same kind of search over their own settings (`peers`). Writes docs/reference/utility.csv and
utility.md (`page`), which says first what was to be reached, and where a peer is better than the plan.
"""
