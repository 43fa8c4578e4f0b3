"""Models without public rows beside published peers and beside no model at all: `python -m benchmarks.published`.

| file   | what it holds                                                                      |
| ------ | ---------------------------------------------------------------------------------- |
| tables | the tables, how each is prepared, and which are kept for the end                    |
| textbook | more tables, of a package                                                         |
| peers  | AdaSSP, one Gaussian release of moments, the private mean: written here, as oracles |
| cells  | one cell: so many fits at one ε and δ, by what is stated, by so many owners         |
| judged | never worse than nothing, monotone, medians: what is asked of all cells together    |
| page   | docs/reference/published.md                                                         |
| speed  | how long the fits take that were too slow                                           |
"""
