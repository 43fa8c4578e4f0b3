"""Pictures of a simulation or a forecast: `.plot()` of a result, and the files of `--out DIR`.

| file         | contents                                                                                         |
| ------------ | ------------------------------------------------------------------------------------------------ |
| `style`      | colours, axes, and words that are measured before they are placed                                |
| `simulation` | ψ after each answer with the owners' own models; the picture of the demonstration                |
| `forecast`   | the cost of terms, the ε from which joining pays, the cost of heterogeneity, and own learners    |

A picture is a function of a result that returns a matplotlib Figure; `style.png` makes a file of it.
"""

import logging

# Without a writable home folder (a service), matplotlib warns each time, but draws all the same.
logging.getLogger("matplotlib").setLevel(logging.ERROR)
