"""How owners answer: mechanisms behind the seam of `mechanism`. Nobody else tells them apart by name.

| mechanism        | file         | over a run   | leaves                                   |
| ---------------- | ------------ | ------------ | ---------------------------------------- |
| laplace          | `gradients`  | ε            | clipped mean gradient + Laplace noise    |
| laplace-composed | `gradients`  | (ε, δ)       | the same, less noise                     |
| gaussian         | `gradients`  | (ε, δ)       | mean gradient clipped in L2 + normal     |
| statistics       | `statistics` | ε            | gradient at θ and second moments, once   |
| moments          | `moments`    | (ε, δ)       | the same in L2, with normal noise, once  |
| objective        | `objective`  | ε, or (ε, δ) | the minimiser of a tilted fitness, once  |
| lengths          | `lengths`    | ε            | how long rows are, once; no model        |
| histograms       | `histograms` | ε            | where columns lie, once; no model        |
| pilot            | `pilot`      | ε            | gradient, lengths and mean loss, once    |

Another one is a file here and a place in `ALL` (docs/explanation/architecture.md).
"""

from copriv.errors import AgreementError
from copriv.mechanisms.gradients import ClippedGradient, Gaussian, GradientNoise, Laplace, LaplaceComposed
from copriv.mechanisms.histograms import Histograms
from copriv.mechanisms.lengths import Lengths
from copriv.mechanisms.mechanism import Guarantee, Mechanism, Phase
from copriv.mechanisms.moments import MomentsInL2
from copriv.mechanisms.objective import Objective
from copriv.mechanisms.one_answer import OneAnswer
from copriv.mechanisms.pilot import Pilot
from copriv.mechanisms.statistics import Statistics
from copriv.privacy.noise import PrivateAnswer

ALL: list[Mechanism] = [
    Laplace(),
    Gaussian(),
    LaplaceComposed(),
    Statistics(),
    MomentsInL2(),
    Objective(),
    Pilot(),
    Lengths(),
    Histograms(),
]
"""In the order in which they are tried. The first is what an agreement that names none gets."""


def named(name: str) -> Mechanism:
    """The mechanism of that name. Raises AgreementError, listing the known ones, where there is none."""
    for mechanism in ALL:
        if mechanism.name == name:
            return mechanism
    known = ", ".join(mechanism.name for mechanism in ALL)
    raise AgreementError(f"agreement.mechanism: {name!r} is not a mechanism; known are {known}")


__all__ = [
    "ALL",
    "ClippedGradient",
    "GradientNoise",
    "Guarantee",
    "Mechanism",
    "OneAnswer",
    "Phase",
    "Pilot",
    "PrivateAnswer",
    "named",
]
