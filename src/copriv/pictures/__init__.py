"""Pictures of what a simulation or a forecast found: `.plot()` of a result, and what `--out DIR` keeps.

| file           | what it draws                                                                |
| -------------- | ---------------------------------------------------------------------------- |
| `look`         | what all have in common: style, axes, and words that are measured first      |
| `simulation`   | ψ after each answer, and what each owner has alone                           |
| `forecast`     | what agreed and recommended terms cost, and at which ε joining pays          |
| `unlike`       | what it costs if owners differ                                               |
| `own_learners` | owners that learn for themselves                                             |
| `demo`         | the demonstration's one picture                                              |

Each is a function of a result and gives a matplotlib Figure; `look.png` makes the bytes of a file of it.
"""

import logging

# Where nobody's home can be written to (a service), it would say so on every screen; it draws all the same.
logging.getLogger("matplotlib").setLevel(logging.ERROR)
