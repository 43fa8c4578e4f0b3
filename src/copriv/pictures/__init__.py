"""Pictures of what a simulation or a forecast found: `.plot()` of a result, and what `--out DIR` keeps.

| file         | what it draws                                                                               |
| ------------ | ------------------------------------------------------------------------------------------- |
| `style`      | what all have in common: colours, axes, and words that are measured first                   |
| `simulation` | ψ after each answer and what each owner has alone; the demonstration's one picture          |
| `forecast`   | what terms cost, at which ε joining pays, what it costs if owners differ, and own learners  |

Each is a function of a result and gives a matplotlib Figure; `style.png` makes the bytes of a file of it.
"""

import logging

# Where nobody's home can be written to (a service), it would say so on every screen; it draws all the same.
logging.getLogger("matplotlib").setLevel(logging.ERROR)
