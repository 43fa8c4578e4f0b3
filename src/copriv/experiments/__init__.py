"""The papers' experiments, figure by figure, from the command line (`copriv reproduce`) and from here.

    from copriv.experiments import FIGURES, Effort, reproduce

Nothing else in the package imports this one.
"""

from copriv.experiments.figures import BEYOND, FIGURES
from copriv.experiments.runner import Effort, Figure, Report, reproduce

__all__ = ["BEYOND", "FIGURES", "Effort", "Figure", "Report", "reproduce"]
